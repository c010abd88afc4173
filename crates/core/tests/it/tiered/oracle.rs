//! The dispatcher against its definition in plain vectors, over random operations: windows, the one
//! virtual time and its rules, withdrawal and draining. Weights are fixed here, powers of two, and
//! all requests cost the same, so both count exactly.

use std::collections::VecDeque;

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::tiered::{DeviceOptions, TieredLane, TieredOptions, lanes};
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::share::Discipline;
use evenkeel_core::ticket::{Cost, Ticket};
use evenkeel_core::time::{Nanos, Span};
use proptest::prelude::*;

use crate::support::ticket;

const TENANTS: usize = 4;
const DEVICES: usize = 3;
/// Virtual time of a request at weight 1.
const REQUEST: u64 = 8;

#[derive(Clone, Debug)]
enum Op {
    Send { tenant: usize, device: usize, count: u32 },
    Done { nth: usize },
    Withdraw { nth: usize },
    Drain { device: usize },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        60 => (0..TENANTS, 0..DEVICES, 1..6u32)
            .prop_map(|(tenant, device, count)| Op::Send { tenant, device, count }),
        120 => (0..64usize).prop_map(|nth| Op::Done { nth }),
        10 => (0..64usize).prop_map(|nth| Op::Withdraw { nth }),
        1 => (0..DEVICES).prop_map(|device| Op::Drain { device }),
    ];
    prop::collection::vec(op, 1..300)
}

/// The definition.
struct Naive {
    window: usize,
    weights: [u64; TENANTS],
    times: [u64; TENANTS],
    base: u64,
    admitted: [usize; TENANTS],
    front: [VecDeque<(usize, u32)>; TENANTS],
    /// Slots by device and tenant, each with its number of arrival there.
    queued: [[VecDeque<(u64, u32)>; TENANTS]; DEVICES],
    arrivals: u64,
}

impl Naive {
    fn new(window: usize, weights: [u64; TENANTS]) -> Self {
        Self {
            window,
            weights,
            times: [0; TENANTS],
            base: 0,
            admitted: [0; TENANTS],
            front: Default::default(),
            queued: Default::default(),
            arrivals: 0,
        }
    }

    fn send(&mut self, tenant: usize, device: usize, slot: u32) {
        self.front[tenant].push_back((device, slot));
        self.admit(tenant);
    }

    fn admit(&mut self, tenant: usize) {
        while self.admitted[tenant] < self.window
            && let Some((device, slot)) = self.front[tenant].pop_front()
        {
            if self.queued.iter().all(|queues| queues[tenant].is_empty()) {
                self.times[tenant] = self.times[tenant].max(self.base);
            }
            self.admitted[tenant] += 1;
            self.arrivals += 1;
            self.queued[device][tenant].push_back((self.arrivals, slot));
        }
    }

    fn least(&self, device: usize) -> Option<(u64, u64, usize)> {
        let head = |tenant: usize| {
            let (arrival, _) = self.queued[device][tenant].front()?;
            Some((self.times[tenant], *arrival, tenant))
        };
        (0..TENANTS).filter_map(head).min()
    }

    fn poll(&mut self, device: usize) -> Option<u32> {
        let (.., tenant) = self.least(device)?;
        let least = (0..DEVICES).filter_map(|device| self.least(device)).min()?;
        self.base = self.base.max(least.0);
        self.times[tenant] += REQUEST / self.weights[tenant];
        self.queued[device][tenant].pop_front().map(|(_, slot)| slot)
    }

    fn leave(&mut self, tenant: usize) {
        self.admitted[tenant] -= 1;
        self.admit(tenant);
    }

    fn withdraw(&mut self, tenant: usize, device: usize, slot: u32) -> bool {
        let before = self.front[tenant].len();
        self.front[tenant].retain(|&(_, queued)| queued != slot);
        let queue = &mut self.queued[device][tenant];
        if let Some(nth) = queue.iter().position(|&(_, queued)| queued == slot) {
            queue.remove(nth);
            self.leave(tenant);
            return true;
        }
        self.front[tenant].len() < before
    }

    fn drain(&mut self, device: usize) -> Vec<u32> {
        let mut drained = Vec::new();
        for tenant in 0..TENANTS {
            self.admitted[tenant] -= self.queued[device][tenant].len();
            drained.extend(self.queued[device][tenant].drain(..).map(|(_, slot)| slot));
            let here = self.front[tenant].iter().filter(|(bound, _)| *bound == device);
            drained.extend(here.map(|(_, slot)| *slot));
            self.front[tenant].retain(|(bound, _)| *bound != device);
        }
        (0..TENANTS).for_each(|tenant| self.admit(tenant));
        drained
    }
}

/// Both at once.
struct Pair {
    lanes: Vec<TieredLane>,
    naive: Naive,
    depth: usize,
    sent: Vec<(usize, Ticket)>,
    in_service: Vec<(usize, Ticket)>,
}

impl Pair {
    fn new(depth: u32, window: u32, weights: [u64; TENANTS]) -> Self {
        let device =
            DeviceOptions { depth: DepthPolicy::Requests(depth), capacity_cost_per_second: 1 };
        let lanes = lanes(&TieredOptions {
            discipline: Discipline::FairQueuing,
            window,
            // Weights are solved for the first tenant, and others follow their shares.
            epoch: Span(u64::MAX),
            ..TieredOptions::usual(vec![device; DEVICES])
        });
        let naive = Naive::new(window as usize, weights);
        let depth = depth as usize;
        let mut pair = Self { lanes, naive, depth, sent: Vec::new(), in_service: Vec::new() };
        for (tenant, weight) in (0..).zip(weights) {
            let weight_milli = u32::try_from(weight * 1000).unwrap();
            let share = Share { weight_milli, ..Share::default() };
            pair.lanes[0].configure(Nanos(0), TenantId(tenant), share);
        }
        pair
    }

    fn perform(&mut self, op: &Op) {
        let now = Nanos(0);
        match *op {
            Op::Send { tenant, device, count } => {
                for _ in 0..count {
                    let slot = u32::try_from(self.sent.len()).unwrap();
                    let sent = ticket(tenant, slot, Cost::ONE.0);
                    self.sent.push((device, sent));
                    self.lanes[device].enqueue(now, sent);
                    self.naive.send(tenant, device, slot);
                }
            }
            Op::Done { nth } if !self.in_service.is_empty() => {
                let (device, ticket) = self.in_service.remove(nth % self.in_service.len());
                self.lanes[device].complete(now, ticket);
                self.naive.leave(ticket.tenant.index());
            }
            Op::Withdraw { nth } if !self.sent.is_empty() => {
                let (device, ticket) = self.sent[self.sent.len() - 1 - nth % self.sent.len()];
                let expected = self.naive.withdraw(ticket.tenant.index(), device, ticket.slot);
                assert_eq!(self.lanes[device].withdraw(now, ticket), expected);
            }
            Op::Drain { device } => {
                let drained: Vec<u32> =
                    self.lanes[device].drain().iter().map(|ticket| ticket.slot).collect();
                assert_eq!(drained, self.naive.drain(device));
            }
            Op::Done { .. } | Op::Withdraw { .. } => {}
        }
        (0..DEVICES).for_each(|device| self.poll(device));
    }

    fn poll(&mut self, device: usize) {
        let in_service =
            |pair: &Self| pair.in_service.iter().filter(|(at, _)| *at == device).count();
        while let Next::Dispatch(ticket) = self.lanes[device].poll(Nanos(0)) {
            assert!(in_service(self) < self.depth, "beyond the depth");
            assert_eq!(Some(ticket.slot), self.naive.poll(device));
            self.in_service.push((device, ticket));
        }
        let waiting = self.naive.queued[device].iter().map(VecDeque::len).sum::<usize>();
        assert!(waiting == 0 || in_service(self) == self.depth, "idle with work queued");
        let bound = |front: &VecDeque<_>| front.iter().filter(|(at, _)| *at == device).count();
        let held: usize = self.naive.front.iter().map(bound).sum();
        assert_eq!(self.lanes[device].queued(), waiting + held);
    }
}

proptest! {
    #[test]
    fn it_dispatches_what_its_definition_says(
        depth in 1..4u32,
        window in 1..12u32,
        weights in prop::array::uniform4(prop::sample::select(vec![1u64, 2, 4, 8])),
        ops in ops(),
    ) {
        let mut pair = Pair::new(depth, window, weights);
        for op in &ops {
            pair.perform(op);
        }
    }
}
