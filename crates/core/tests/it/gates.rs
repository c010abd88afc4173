//! Total-service shares over gates that each see their own server only, and tell each other once a
//! period what they served: the claims on shares over the servers of one gate (`paper_dsfq`) hold,
//! with lost and late words too.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::control::name::TenantName;
use evenkeel_core::control::service::{ServedByOthers, Service, Taken};
use evenkeel_core::control::summary::HostId;
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::Scheduler;
use evenkeel_core::sched::dsfq::{Coordinator, Form};
use evenkeel_core::sched::sfq::Sfq;
use evenkeel_core::ticket::{Cost, Ticket};
use evenkeel_core::time::{Nanos, Span};
use proptest::prelude::*;

use crate::support::{dispatch_all, sfq, ticket};

const COST: u64 = 1_000_000;
const ROUNDS: u64 = 20_000;

/// One gate before one server that finishes a request each round.
struct Gate {
    host: HostId,
    coordinator: Coordinator,
    server: Sfq,
    in_service: VecDeque<Ticket>,
    served: BTreeMap<usize, u64>,
    others: ServedByOthers,
    words: u64,
}

impl Gate {
    fn new(host: u32, form: Form, weights: &[u32], length: Span) -> Self {
        let mut coordinator = Coordinator::new(1, form);
        (0..weights.len()).for_each(|tenant| coordinator.configure(id(tenant)));
        let mut others = ServedByOthers::new(length);
        others.set_members([HostId(1 - host)]);
        Self {
            host: HostId(host),
            coordinator,
            server: sfq(1, weights),
            in_service: VecDeque::new(),
            served: BTreeMap::new(),
            others,
            words: 0,
        }
    }

    fn send(&mut self, mut ticket: Ticket) {
        self.coordinator.stamp(ServerId(0), &mut ticket);
        self.server.enqueue(Nanos(0), ticket);
    }

    fn round(&mut self) {
        self.in_service.extend(dispatch_all(&mut self.server, Nanos(0)));
        let Some(done) = self.in_service.pop_front() else { return };
        *self.served.entry(done.tenant.index()).or_default() += done.cost.0;
        self.server.complete(Nanos(0), done);
        self.send(done);
    }

    fn word(&mut self, period: u64) -> Service {
        self.words += 1;
        let total = |(tenant, cost): (&usize, &u64)| (TenantName(*tenant as u64), Cost(*cost));
        let totals = self.served.iter().map(total).collect();
        Service { host: self.host, incarnation: 1, number: self.words, period, totals }
    }

    fn settle(&mut self, period: u64) {
        let index = |name: TenantName| usize::try_from(name.0).unwrap();
        let Taken { told, presumed } = self.others.take(period);
        let costs = told.into_iter().chain(presumed);
        let costs: Vec<_> = costs.map(|(name, cost)| (id(index(name)), cost)).collect();
        // Both tenants keep requests waiting wherever they are at all.
        self.coordinator.served_by_others(&costs, |_| true);
    }
}

fn id(tenant: usize) -> TenantId {
    TenantId(u32::try_from(tenant).unwrap())
}

/// How a run is told of.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// Rounds in a period.
    every: u64,
    /// One word in so many is lost; zero for none.
    lost: u64,
    /// No word comes in the second half of the run.
    is_silent: bool,
    /// Length of a period, as far as silence is measured by it.
    length: Span,
}

/// Tenant 0 keeps 16 requests at both gates, tenant 1 at the second only. Service by tenant and
/// gate over the second half of a run, in requests.
fn run(form: Form, weights: [u32; 2], told: Told) -> [[f64; 2]; 2] {
    let mut gates = [0, 1].map(|host| Gate::new(host, form, &weights, told.length));
    for slot in 0..16 {
        gates[0].send(ticket(0, slot, COST));
        gates[1].send(ticket(0, slot, COST));
        gates[1].send(ticket(1, slot, COST));
    }
    let mut before = BTreeMap::new();
    for round in 1..=2 * ROUNDS {
        gates.iter_mut().for_each(Gate::round);
        if round % told.every == 0 {
            let period = round / told.every;
            let [first, second] = &mut gates;
            let words = [first.word(period), second.word(period)];
            for (gate, word) in [(second, &words[0]), (first, &words[1])] {
                let turn = period + u64::from(word.host.0);
                let is_lost = told.lost > 0 && turn.is_multiple_of(told.lost);
                if !(is_lost || told.is_silent && round > ROUNDS) {
                    gate.others.hear(period, word).unwrap();
                }
            }
            for gate in &mut gates {
                gate.settle(period);
            }
        }
        if round == ROUNDS {
            before = gates.iter().map(|gate| (gate.host, gate.served.clone())).collect();
        }
    }
    [0, 1].map(|tenant| {
        [0, 1].map(|gate: usize| {
            let served = |of: &BTreeMap<usize, u64>| of.get(&tenant).copied().unwrap_or(0);
            let host = gates[gate].host;
            (served(&gates[gate].served) - served(&before[&host])) as f64 / COST as f64
        })
    })
}

fn total(served: [f64; 2]) -> f64 {
    served.iter().sum()
}

const USUAL: Told = Told { every: 20, lost: 0, is_silent: false, length: Span::from_millis(100) };

#[test]
fn shares_hold_in_all_over_gates_that_tell_each_other() {
    let local = run(Form::Local, [1, 1], USUAL);
    assert!((total(local[0]) / total(local[1]) - 3.0).abs() < 0.05, "{local:?}");
    let equal = run(Form::Total, [1, 1], USUAL);
    assert!((total(equal[0]) / total(equal[1]) - 1.0).abs() < 0.05, "{equal:?}");
    let hybrid = run(Form::Hybrid { min_share_milli: 250 }, [1, 1], USUAL);
    assert!((hybrid[0][1] / ROUNDS as f64 - 0.2).abs() < 0.01, "{hybrid:?}");
}

#[test]
fn shares_in_all_outlive_a_network_that_falls_silent_and_end_with_what_is_presumed() {
    // The second half are a thousand periods: half a minute of these, and much of those.
    let held = Told { is_silent: true, length: Span::from_millis(30), ..USUAL };
    let over = Told { is_silent: true, length: Span::from_secs(10), ..USUAL };
    // What had been presumed is paid back first.
    for (told, expected, within) in [(held, 1.0, 0.05), (over, 3.0, 0.1)] {
        let served = run(Form::Total, [1, 1], told);
        let ratio = total(served[0]) / total(served[1]);
        assert!((ratio / expected - 1.0).abs() < within, "{told:?}: {served:?}");
    }
}

#[test]
fn both_gates_stay_work_conserving() {
    for form in [Form::Local, Form::Total, Form::Hybrid { min_share_milli: 100 }] {
        let served = run(form, [1, 1], USUAL);
        let all: f64 = served.into_iter().map(total).sum();
        assert!((all - 2.0 * ROUNDS as f64).abs() < 1.0, "{form:?}: {all}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With weights w to one the second gate's server is divided so that all that both have is w to
    /// one, whatever the period, and though words are lost.
    #[test]
    fn totals_are_in_the_ratio_of_the_weights(
        weight in 1..6u32,
        every in 1..60u64,
        lost in prop_oneof![Just(0u64), 3..10u64],
    ) {
        let served = run(Form::Total, [weight, 1], Told { every, lost, ..USUAL });
        let ratio = total(served[0]) / total(served[1]);
        let off = ratio / f64::from(weight) - 1.0;
        prop_assert!(off.abs() < 0.05, "{served:?}: {ratio} of {weight}");
    }
}
