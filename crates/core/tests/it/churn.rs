//! Fairness under churn: random tenants, weights, sizes, arrivals and departures, against the plain
//! definitions.

use std::collections::BTreeMap;

use evenkeel_core::fair::{Fluid, PairLag};
use evenkeel_core::id::TenantId;
use evenkeel_core::sched::Scheduler;
use evenkeel_core::sched::limit::Limited;
use evenkeel_core::sched::sfq::Sfq;
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::Nanos;
use proptest::prelude::*;

use crate::support::{dispatch_all, sfq, share, ticket};

const TENANTS: usize = 5;

#[derive(Clone, Debug)]
enum Op {
    Arrive { tenant: usize, cost: u64, count: u32 },
    Complete { nth: usize },
    Withdraw { nth: usize },
    Reweight { tenant: usize, weight: u32 },
    Drain,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0..TENANTS, 1..50_000u64, 1..8u32)
            .prop_map(|(tenant, cost, count)| Op::Arrive { tenant, cost, count }),
        12 => (0..64usize).prop_map(|nth| Op::Complete { nth }),
        1 => (0..64usize).prop_map(|nth| Op::Withdraw { nth }),
        1 => (0..TENANTS, 1..20u32).prop_map(|(tenant, weight)| Op::Reweight { tenant, weight }),
    ];
    let rare = prop_oneof![300 => op, 1 => Just(Op::Drain)];
    prop::collection::vec(rare, 1..400)
}

/// A gate of SFQ(D) with everything recorded that can be recorded.
struct Gate {
    scheduler: Limited<Sfq>,
    depth: usize,
    weights: [u32; TENANTS],
    /// By slot, which grows with arrival.
    queued: BTreeMap<u32, Ticket>,
    in_service: Vec<Ticket>,
    out: Vec<u32>,
    slots: u32,
    /// Greatest cost per weight of each tenant at any time.
    step_max: [f64; TENANTS],
    /// The first ticket of each tenant that was tagged by its present weight alone.
    settled: [u32; TENANTS],
    dispatched: PairLag,
    completed: PairLag,
}

impl Gate {
    fn new(depth: u32, weights: [u32; TENANTS]) -> Self {
        let as_floats = weights.map(f64::from);
        Self {
            scheduler: Limited::new(sfq(depth, &[])),
            depth: depth as usize,
            weights,
            queued: BTreeMap::new(),
            in_service: Vec::new(),
            out: Vec::new(),
            slots: 0,
            step_max: [0.0; TENANTS],
            settled: [0; TENANTS],
            dispatched: PairLag::new(&as_floats),
            completed: PairLag::new(&as_floats),
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Arrive { tenant, cost, count } => {
                for _ in 0..count {
                    self.arrive(tenant, cost);
                }
            }
            Op::Complete { nth } => self.complete(nth),
            Op::Withdraw { nth } => self.withdraw(nth),
            Op::Reweight { tenant, weight } => self.reweight(tenant, weight),
            Op::Drain => {
                let drained = self.scheduler.drain();
                for ticket in &drained {
                    self.leave(ticket);
                }
                assert!(self.queued.is_empty(), "a drain takes all");
            }
        }
        self.pump();
    }

    fn arrive(&mut self, tenant: usize, cost: u64) {
        let ticket = ticket(tenant, self.slots, cost);
        self.slots += 1;
        let step = cost as f64 / f64::from(self.weights[tenant]);
        self.step_max[tenant] = self.step_max[tenant].max(step);
        self.queued.insert(ticket.slot, ticket);
        self.scheduler.enqueue(Nanos(0), ticket);
    }

    fn complete(&mut self, nth: usize) {
        if self.in_service.is_empty() {
            return;
        }
        let done = self.in_service.swap_remove(nth % self.in_service.len());
        self.scheduler.complete(Nanos(0), done);
        self.completed.serve(done.tenant.index(), done.cost.0 as f64);
    }

    fn withdraw(&mut self, nth: usize) {
        let Some(&ticket) = self.queued.values().nth(nth % self.queued.len().max(1)) else {
            return;
        };
        assert!(self.scheduler.withdraw(Nanos(0), ticket));
        assert!(!self.scheduler.withdraw(Nanos(0), ticket), "it is gone");
        self.leave(&ticket);
    }

    fn reweight(&mut self, tenant: usize, weight: u32) {
        let id = TenantId(u32::try_from(tenant).unwrap());
        self.scheduler.configure(Nanos(0), id, share(weight));
        self.weights[tenant] = weight;
        // What is queued is tagged again, but for the start of the head: the bound begins to hold
        // when that is gone, however long the queue.
        let own = self.queued.values().filter(|ticket| ticket.tenant == id);
        self.settled[tenant] = own.clone().next().map_or(self.slots, |head| head.slot + 1);
        let greatest = own.map(|ticket| ticket.cost.0).max().unwrap_or(0);
        let step = greatest as f64 / f64::from(weight);
        self.step_max[tenant] = self.step_max[tenant].max(step);
        self.dispatched.set_weight(tenant, f64::from(weight));
        self.completed.set_weight(tenant, f64::from(weight));
    }

    /// Notes that a queued ticket came out, in its tenant's order if it was dispatched.
    fn leave(&mut self, ticket: &Ticket) {
        assert_eq!(self.queued.remove(&ticket.slot).as_ref(), Some(ticket), "out once, unchanged");
        self.out.push(ticket.slot);
    }

    fn pump(&mut self) {
        // Backlogged is who has something queued when the scheduler chooses.
        self.note_backlogs();
        for ticket in dispatch_all(&mut self.scheduler, Nanos(0)) {
            let oldest = self.queued.values().find(|queued| queued.tenant == ticket.tenant);
            assert_eq!(oldest, Some(&ticket), "a tenant's own order is kept");
            self.leave(&ticket);
            self.in_service.push(ticket);
            self.dispatched.serve(ticket.tenant.index(), ticket.cost.0 as f64);
            self.note_backlogs();
        }
        assert_eq!(self.scheduler.queued(), self.queued.len());
        let full = self.in_service.len() == self.depth;
        assert!(self.queued.is_empty() || full, "idle with work queued");
    }

    fn note_backlogs(&mut self) {
        for tenant in 0..TENANTS {
            let own = |ticket: &&Ticket| ticket.tenant.index() == tenant;
            let queued = self.queued.values().find(own);
            let oldest = self.in_service.iter().filter(own).chain(queued).map(|t| t.slot).min();
            let settled = oldest.is_some_and(|slot| slot >= self.settled[tenant]);
            let backlogged = queued.is_some() && settled;
            self.dispatched.set_backlogged(tenant, backlogged);
            self.completed.set_backlogged(tenant, backlogged);
        }
    }

    fn assert_fair(&self) {
        for one in 0..TENANTS {
            for other in one + 1..TENANTS {
                let bound = self.step_max[one] + self.step_max[other] + 1e-6;
                let dispatched = self.dispatched.worst(one, other);
                assert!(dispatched <= bound, "{one} and {other}: {dispatched} over {bound}");
                let bound = bound * (self.depth as f64 + 1.0);
                let completed = self.completed.worst(one, other);
                assert!(completed <= bound, "{one} and {other}: {completed} over {bound}");
            }
        }
    }
}

proptest! {
    #[test]
    fn lag_stays_within_the_bound_nothing_starves_and_every_ticket_comes_out_once(
        depth in 1..12u32,
        weights in prop::array::uniform5(1..20u32),
        ops in ops(),
    ) {
        let mut gate = Gate::new(depth, weights);
        for (tenant, &weight) in (0..).zip(&weights) {
            gate.scheduler.configure(Nanos(0), TenantId(tenant), share(weight));
        }
        for op in &ops {
            gate.apply(op);
        }
        // No arrivals any more: whatever is queued gets its turn.
        while !gate.in_service.is_empty() {
            gate.apply(&Op::Complete { nth: 0 });
        }
        prop_assert!(gate.queued.is_empty());
        gate.out.sort_unstable();
        prop_assert_eq!(gate.out.clone(), (0..gate.slots).collect::<Vec<_>>());
        gate.assert_fair();
    }

    #[test]
    fn a_serial_device_does_the_work_of_the_fluid_and_each_tenant_lags_by_its_bound_only(
        weights in prop::array::uniform5(1..20u32),
        costs in prop::array::uniform5(1_000..50_000u64),
        jobs in 20..60u32,
    ) {
        assert_lags_by_the_bound_only(weights, costs, jobs);
    }
}

/// A long request of one tenant here ends well after the fluid of tenant 1 has run dry.
#[test]
fn a_tenant_that_runs_dry_within_a_request_ends_the_comparison_there() {
    assert_lags_by_the_bound_only([1, 13, 2, 1, 1], [1000, 1000, 1000, 5871, 42_360], 20);
}

/// Compares a serial device with the fluid while both have work of everybody, from the start until
/// the first has run dry at one of them. The theorem on throughput (Goyal et al., theorem 2) gives
/// each tenant its part of a server that all of them use; of what one leaves the others have more
/// in the fluid at once, which is no lag.
fn assert_lags_by_the_bound_only(weights: [u32; TENANTS], costs: [u64; TENANTS], jobs: u32) {
    let mut scheduler = sfq(1, &weights);
    let mut fluid = Fluid::new(1.0, &weights.map(f64::from));
    for (tenant, &cost) in costs.iter().enumerate() {
        for job in 0..jobs {
            let slot = u32::try_from(tenant).unwrap() * jobs + job;
            scheduler.enqueue(Nanos(0), ticket(tenant, slot, cost));
            fluid.arrive(tenant, cost as f64);
        }
    }
    let weight_all = f64::from(weights.iter().sum::<u32>());
    let cost_all: u64 = costs.iter().sum();
    let part = |t: usize| f64::from(weights[t]) / weight_all;
    let offered = |t: usize| f64::from(jobs) * costs[t] as f64;
    let mut served = [0.0; TENANTS];
    let mut elapsed = 0.0;
    while (0..TENANTS).all(|t| served[t] + costs[t] as f64 <= offered(t)) {
        let next = dispatch_all(&mut scheduler, Nanos(0));
        assert_eq!(next.len(), 1, "the device is never idle");
        let (tenant, cost) = (next[0].tenant.index(), next[0].cost.0 as f64);
        let dry_after = |t: usize| (offered(t) - fluid.served()[t]) / part(t);
        let until_dry = (0..TENANTS).map(dry_after).fold(f64::INFINITY, f64::min);
        let step = cost.min(until_dry);
        fluid.advance(step);
        elapsed += step;
        let all: f64 = fluid.served().iter().sum();
        assert!((all - elapsed).abs() < 1e-3, "the fluid is busy as well");
        // A lag is greatest just before a request of one's own is done.
        for t in 0..TENANTS {
            let bound = part(t) * cost_all as f64 + costs[t] as f64 + 1e-3;
            let lag = fluid.served()[t] - served[t];
            assert!(lag <= bound, "tenant {t} lags by {lag} of {bound}");
        }
        if until_dry <= cost {
            return;
        }
        served[tenant] += cost;
        scheduler.complete(Nanos(0), next[0]);
    }
}
