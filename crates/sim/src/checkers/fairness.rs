//! Fairness lag: while two tenants both keep a backlog at a server, the services that they are
//! handed, each over its weight, stay together.
//!
//! The naive model [`PairLag`] keeps the difference of every pair over every interval in which both
//! are backlogged. Start-time fair queuing bounds it at dispatch by one greatest request of each:
//!
//! ```text
//! | W_f / w_f  -  W_g / w_g |  <=  cmax_f / w_f  +  cmax_g / w_g
//! ```
//!
//! (Goyal, Vin and Cheng, IEEE/ACM Transactions on Networking, 1997.) The bound holds for tenants
//! without limits of their own, at a server whose shares count by themselves, under a depth in
//! requests; back-fill under a depth in bytes gives it up on purpose. On the tiers of a volume
//! nobody knows from outside for which of them a request waits. Elsewhere nothing is watched.
//! Whoever is held to its part of the slots is not watched meanwhile, for its slots bound it and
//! not its share of cost. Where costs are learned a tenant has the device to itself for a moment,
//! and is ahead by that much until the others have caught up: the bound grows by what turns have
//! served. The pairs of the first [`TENANTS_MAX`] tenants are watched: a pair costs some
//! nanoseconds at every dispatch.

use evenkeel_core::fair::PairLag;
use evenkeel_core::id::TenantId;
use evenkeel_core::sched::{Limit, Share};
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::{Depth, Discipline, Domain, Mode, Scheduling, Sharing};

use super::{Rule, Verdict, broken};

/// Tenants of a server that are watched.
pub(crate) const TENANTS_MAX: usize = 16;

/// What tags may lose to rounding, per unit of weight.
const SLACK_NS: f64 = 16.0;

/// The lag of every pair at one server.
#[derive(Clone, Debug)]
pub(crate) struct Fairness {
    lag: PairLag,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    weight: f64,
    /// A tenant whose own limit holds its requests keeps no backlog that the discipline sees.
    is_watched: bool,
    /// Its slots bound what it gets.
    is_held: bool,
    /// Requests at the gate with something left to dispatch.
    queued: u32,
    /// The greatest cost of a unit, over the weight.
    step_max: f64,
    /// What was dispatched while it had the device to itself, over the weight.
    in_turns: f64,
}

/// The worst lag of a server so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lag {
    pub(crate) tenants: [TenantId; 2],
    pub(crate) apart: Span,
    pub(crate) bound: Span,
}

impl Lag {
    /// The lag as a part of its bound; above 1 it is broken.
    pub(crate) fn part(&self) -> f64 {
        self.apart.0 as f64 / self.bound.0.max(1) as f64
    }
}

impl Fairness {
    /// Watches a server of a domain; none if the policy bounds no lag there.
    pub(crate) fn new(domain: &Domain, scheduling: &Scheduling) -> Option<Self> {
        let by_itself = domain.servers.len() == 1 || domain.sharing == Sharing::Local;
        let is_tier = domain.tiers.is_some();
        let in_requests = !matches!(scheduling.depth, Depth::Bytes(_));
        let is_fair = domain.mode == Mode::Enforce && scheduling.discipline == Discipline::Sfq;
        if is_tier || !(by_itself && in_requests && is_fair) {
            return None;
        }
        let rows: Vec<Row> =
            domain.tenants.iter().take(TENANTS_MAX).map(|(_, share)| Row::new(share)).collect();
        let weights: Vec<f64> = rows.iter().map(|row| row.weight).collect();
        Some(Self { lag: PairLag::new(&weights), rows })
    }

    /// Takes over from a watch under other weights: tags that were given by those may put two
    /// tenants apart by a greatest request over the old weight.
    pub(crate) fn follow(&mut self, before: &Self) {
        for (row, before) in self.rows.iter_mut().zip(&before.rows) {
            row.step_max = before.step_max;
            row.in_turns = before.in_turns;
        }
    }

    /// A request of the tenant reached the gate.
    pub(crate) fn arrived(&mut self, tenant: TenantId) {
        if let Some(row) = self.rows.get_mut(tenant.index()) {
            row.queued += 1;
            if row.queued == 1 {
                self.lag.set_backlogged(tenant.index(), row.is_backlogged());
            }
        }
    }

    /// Which tenants are held to their part of the slots from here on.
    pub(crate) fn hold(&mut self, is_held: impl Fn(TenantId) -> bool) {
        for (tenant, row) in (0..).map(TenantId).zip(&mut self.rows) {
            let is_held = is_held(tenant);
            if std::mem::replace(&mut row.is_held, is_held) != is_held {
                self.lag.set_backlogged(tenant.index(), row.is_backlogged());
            }
        }
    }

    /// A unit of the tenant was dispatched; `is_last` if nothing of its request is left at the
    /// gate, `is_turn` if the tenant has the device to itself.
    pub(crate) fn dispatched(
        &mut self,
        tenant: TenantId,
        cost: Cost,
        is_last: bool,
        is_turn: bool,
    ) {
        let index = tenant.index();
        let Some(row) = self.rows.get_mut(index) else { return };
        let step = cost.0 as f64 / row.weight;
        row.step_max = row.step_max.max(step);
        if is_turn {
            row.in_turns += step;
        }
        self.lag.serve(index, cost.0 as f64);
        if is_last {
            self.left(tenant);
        }
    }

    /// A request of the tenant has nothing left at the gate.
    pub(crate) fn left(&mut self, tenant: TenantId) {
        if let Some(row) = self.rows.get_mut(tenant.index()) {
            row.queued -= 1;
            if row.queued == 0 {
                self.lag.set_backlogged(tenant.index(), false);
            }
        }
    }

    /// The pair that came closest to its bound, or went furthest beyond; none if no two tenants
    /// ever kept a backlog together. O(tenants^2).
    pub(crate) fn worst(&self) -> Option<Lag> {
        let count = self.rows.len();
        let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other)));
        let lags = pairs.map(|(one, other)| {
            let bound = self.rows[one].lag_max() + self.rows[other].lag_max() + SLACK_NS;
            (self.lag.worst(one, other), bound, [one, other])
        });
        let lags = lags.filter(|(lag, ..)| *lag > 0.0);
        let (lag, bound, tenants) = lags.max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)))?;
        let tenants = tenants.map(|index| TenantId(u32::try_from(index).expect("few are watched")));
        Some(Lag { tenants, apart: rounded(lag), bound: rounded(bound) })
    }

    /// Holds the worst lag against its bound.
    pub(crate) fn check(&self, now: Nanos) -> Verdict {
        match self.worst() {
            Some(worst) if worst.apart > worst.bound => {
                let [one, other] = worst.tenants;
                let what = format!(
                    "tenants {} and {} came {} apart; {} are allowed",
                    one.0, other.0, worst.apart, worst.bound
                );
                Err(broken(now, Rule::LagIsBounded, what))
            }
            _ => Ok(()),
        }
    }
}

impl Row {
    fn new(share: &Share) -> Self {
        Self {
            weight: f64::from(share.weight_milli.max(1)) / 1000.0,
            is_watched: share.limit == Limit::default(),
            is_held: false,
            queued: 0,
            step_max: 0.0,
            in_turns: 0.0,
        }
    }

    fn lag_max(&self) -> f64 {
        self.step_max + self.in_turns
    }

    fn is_backlogged(&self) -> bool {
        self.is_watched && !self.is_held && self.queued > 0
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn rounded(ns: f64) -> Span {
    Span(ns.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TenantId = TenantId(0);
    const B: TenantId = TenantId(1);
    const COST: Cost = Cost(100_000);

    fn domain(weights: [u32; 2]) -> Domain {
        let tenant = |weight: u32| {
            let share = Share { weight_milli: weight * 1000, ..Share::default() };
            (format!("w{weight}"), share)
        };
        Domain {
            mode: Mode::Enforce,
            tenants: weights.map(tenant).to_vec(),
            servers: vec![("s".to_owned(), Scheduling::default())],
            ..Domain::default()
        }
    }

    /// Both keep a backlog; dispatches in this order.
    fn after(weights: [u32; 2], order: &[TenantId]) -> Verdict {
        let domain = domain(weights);
        let mut fairness = Fairness::new(&domain, &domain.servers[0].1).unwrap();
        for tenant in [A, B] {
            (0..order.len()).for_each(|_| fairness.arrived(tenant));
        }
        for &tenant in order {
            fairness.dispatched(tenant, COST, true, false);
        }
        fairness.check(Nanos(9))
    }

    #[test]
    fn who_has_the_device_to_itself_comes_as_far_apart_as_its_turn_is_long() {
        let domain = domain([1, 4]);
        let mut fairness = Fairness::new(&domain, &domain.servers[0].1).unwrap();
        (0..30).for_each(|_| fairness.arrived(A));
        fairness.arrived(B);
        (0..20).for_each(|_| fairness.dispatched(A, COST, true, true));
        fairness.check(Nanos(9)).unwrap();
        (0..2).for_each(|_| fairness.dispatched(A, COST, true, false));
        fairness.check(Nanos(9)).unwrap_err();
    }

    #[test]
    fn service_by_weight_is_fair_and_three_in_a_row_are_not() {
        assert!(after([2, 1], &[A, B, A, A, B, A, A, B, A]).is_ok());
        assert!(after([1, 1], &[A, A, B, B, A, A, B, B]).is_ok());
        assert_eq!(after([1, 1], &[A, A, A, B]).unwrap_err().rule, Rule::LagIsBounded);
    }

    #[test]
    fn who_has_no_backlog_is_owed_nothing() {
        let domain = domain([1, 1]);
        let mut fairness = Fairness::new(&domain, &domain.servers[0].1).unwrap();
        fairness.arrived(B);
        fairness.dispatched(B, COST, true, false);
        (0..100).for_each(|_| fairness.arrived(A));
        (0..100).for_each(|_| fairness.dispatched(A, COST, true, false));
        assert!(fairness.check(Nanos(0)).is_ok());
    }

    #[test]
    fn who_is_held_to_its_slots_is_owed_nothing_meanwhile() {
        let domain = domain([1, 1]);
        let mut fairness = Fairness::new(&domain, &domain.servers[0].1).unwrap();
        for tenant in [A, B] {
            (0..20).for_each(|_| fairness.arrived(tenant));
        }
        fairness.hold(|tenant| tenant == B);
        (0..5).for_each(|_| fairness.dispatched(A, COST, true, false));
        assert!(fairness.check(Nanos(0)).is_ok());
        fairness.hold(|_| false);
        (0..5).for_each(|_| fairness.dispatched(A, COST, true, false));
        assert!(fairness.check(Nanos(0)).is_err());
    }

    #[test]
    fn what_bounds_no_lag_is_not_watched() {
        let mut domain = domain([1, 1]);
        let fifo = Scheduling { discipline: Discipline::Fifo, ..Scheduling::default() };
        assert!(Fairness::new(&domain, &fifo).is_none());
        let bytes = Scheduling { depth: Depth::Bytes(1 << 20), ..Scheduling::default() };
        assert!(Fairness::new(&domain, &bytes).is_none());
        domain.mode = Mode::Shadow;
        assert!(Fairness::new(&domain, &Scheduling::default()).is_none());
    }
}
