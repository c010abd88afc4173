//! Patience: once a request has waited for its goal, a second without one, its tenant is served at
//! half its share at least, oldest first, whoever else is in time.
//!
//! What a tenant is owed is counted from the plain definition, at every dispatch of a server while
//! the tenant's oldest waiting request is over its time:
//!
//! ```text
//! owed  +=  cost * weight / weights of all who wait / 2      whoever is dispatched
//! owed  -=  cost                                             its oldest is dispatched; never < 0
//! ```
//!
//! So `owed` is the most that is missing over any interval that ends now. What cannot be divided
//! may be owed: a greatest request of its own, and half of one of everybody's: these may go first.
//! A request larger than a unit counts by unit, each from when the one before it went.
//!
//! Not watched: who has a limit, whose requests wait for that; who is held to its part of the
//! slots, for as long as that is; servers whose shares count together with those of others, and
//! tiers; start-time fair queuing under a depth in bytes, whose back-fill gives the bound up on
//! purpose; and servers where somebody has a floor, which goes first. A tenant that has the device
//! to itself for a moment, where costs are learned, waits until the others have caught up.

use std::collections::BTreeSet;

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::{Depth, Discipline, Domain, Mode, Scheduling, Sharing};

use super::{Rule, Verdict, broken};

/// How long a request without a goal may wait.
const PATIENCE: Span = Span::from_secs(1);

/// What tags may lose to rounding.
const SLACK_NS: f64 = 16.0;

/// What every tenant is owed at one server. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    rows: Vec<Row>,
    /// From when on waits count.
    since: Nanos,
    /// What was dispatched while somebody had the device to itself.
    in_turns: f64,
}

#[derive(Clone, Debug)]
struct Row {
    weight: f64,
    patience: Span,
    is_watched: bool,
    is_held: bool,
    /// Since when, and which.
    waiting: BTreeSet<(Nanos, u32)>,
    cost_max: f64,
    owed: f64,
}

/// A dispatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispatch {
    pub(crate) tenant: TenantId,
    pub(crate) slot: u32,
    /// Since when it has waited.
    pub(crate) since: Nanos,
    pub(crate) cost: Cost,
    /// Nothing of its request is left.
    pub(crate) is_last: bool,
    /// The tenant has the device to itself.
    pub(crate) is_turn: bool,
}

impl Patience {
    /// Watches tenants of these shares from `since` on.
    pub(crate) fn new(since: Nanos, shares: impl Iterator<Item = Share>) -> Self {
        Self { rows: shares.map(|share| Row::new(&share)).collect(), since, in_turns: 0.0 }
    }

    /// Watches a server of a domain; none if nobody is promised anything there.
    pub(crate) fn of(since: Nanos, domain: &Domain, scheduling: &Scheduling) -> Option<Self> {
        let by_itself = domain.servers.len() == 1 || domain.sharing == Sharing::Local;
        let in_bytes = matches!(scheduling.depth, Depth::Bytes(_));
        let fills_back = scheduling.discipline == Discipline::Sfq && in_bytes;
        let has_floors = domain.tenants.iter().any(|(_, share)| share.floor != Floor::default());
        let is_tier = domain.tiers.is_some() || scheduling.discipline.spans_tiers();
        let is_watched = domain.mode == Mode::Enforce && by_itself && !is_tier;
        (is_watched && !fills_back && !has_floors)
            .then(|| Self::new(since, domain.tenants.iter().map(|(_, share)| *share)))
    }

    /// A request of the tenant waits.
    pub(crate) fn arrived(&mut self, now: Nanos, tenant: TenantId, slot: u32) {
        if let Some(row) = self.rows.get_mut(tenant.index()) {
            row.waiting.insert((now, slot));
        }
    }

    /// Which tenants are held to their part of the slots from here on.
    pub(crate) fn hold(&mut self, is_held: impl Fn(TenantId) -> bool) {
        for (tenant, row) in (0..).map(TenantId).zip(&mut self.rows) {
            row.is_held = is_held(tenant);
        }
    }

    /// A request that waited since then does no longer.
    pub(crate) fn left(&mut self, tenant: TenantId, slot: u32, since: Nanos) {
        if let Some(row) = self.rows.get_mut(tenant.index()) {
            row.waiting.remove(&(since, slot));
        }
    }

    /// A unit was dispatched. O(tenants).
    pub(crate) fn dispatched(&mut self, now: Nanos, one: &Dispatch) -> Verdict {
        let cost = one.cost.0 as f64;
        if one.is_turn {
            self.in_turns += cost;
        }
        let waiting = self.rows.iter().filter(|row| !row.waiting.is_empty());
        let weights: f64 = waiting.map(|row| row.weight).sum();
        let own = one.tenant.index();
        if let Some(row) = self.rows.get_mut(own) {
            row.cost_max = row.cost_max.max(cost);
        }
        let ahead: f64 = self.rows.iter().map(|row| row.cost_max).sum::<f64>() / 2.0;
        let bound = |row: &Row| row.cost_max + ahead + self.in_turns + SLACK_NS;
        for (index, row) in self.rows.iter_mut().enumerate() {
            let oldest = row.waiting.first().map(|(at, _)| *at);
            let is_over = oldest.is_some_and(|at| at.max(self.since) + row.patience <= now);
            if !is_over || !row.is_watched || row.is_held {
                row.owed = 0.0;
                continue;
            }
            row.owed += cost * row.weight / weights / 2.0;
            if index == own && oldest == Some(one.since) {
                row.owed = (row.owed - cost).max(0.0);
            }
        }
        if let Some(row) = self.rows.get_mut(own) {
            row.waiting.remove(&(one.since, one.slot));
            if !one.is_last {
                row.waiting.insert((now, one.slot));
            }
        }
        let starved = self.rows.iter().position(|row| row.owed > bound(row));
        let Some(index) = starved else { return Ok(()) };
        let row = &self.rows[index];
        let what = format!(
            "tenant {index}, whose oldest request waits since {:?}, lacks {:.0} ns to half its \
             share; {:.0} are allowed",
            row.waiting.first(),
            row.owed,
            bound(row)
        );
        Err(broken(now, Rule::NobodyStarves, what))
    }
}

impl Row {
    fn new(share: &Share) -> Self {
        let has_goal = share.latency_goal > Span::ZERO;
        Self {
            weight: f64::from(share.weight_milli.max(1)) / 1000.0,
            patience: if has_goal { share.latency_goal } else { PATIENCE },
            is_watched: share.limit == Limit::default(),
            is_held: false,
            waiting: BTreeSet::new(),
            cost_max: 0.0,
            owed: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Cost = Cost(100_000);

    /// Two tenants of equal shares, both with a goal of 1 ms and a backlog of 100 since the start.
    /// Each dispatch at 2 ms, and who it is of.
    fn after(order: impl Iterator<Item = (u32, u32)>) -> Verdict {
        let goal = Share { latency_goal: Span::from_millis(1), ..Share::default() };
        let mut patience = Patience::new(Nanos(0), [goal; 2].into_iter());
        for tenant in 0..2u32 {
            for slot in 0..100u32 {
                patience.arrived(Nanos(slot.into()), TenantId(tenant), slot);
            }
        }
        for (tenant, slot) in order {
            patience.dispatched(
                Nanos(2_000_000),
                &Dispatch {
                    tenant: TenantId(tenant),
                    slot,
                    since: Nanos(slot.into()),
                    cost: COST,
                    is_last: true,
                    is_turn: false,
                },
            )?;
        }
        Ok(())
    }

    #[test]
    fn a_quarter_of_the_device_is_half_of_an_equal_share() {
        let quarter = (0..80).map(|n| if n % 4 == 0 { (1, n / 4) } else { (0, n - n / 4 - 1) });
        assert!(after(quarter).is_ok());
        assert_eq!(after((0..20).map(|n| (0, n))).unwrap_err().rule, Rule::NobodyStarves);
    }

    #[test]
    fn service_of_younger_requests_is_none_for_the_oldest() {
        let violation = after((1..60).map(|n| (n % 2, n / 2 + 1))).unwrap_err();
        assert_eq!(violation.rule, Rule::NobodyStarves);
    }

    #[test]
    fn who_has_not_waited_for_its_goal_is_owed_nothing() {
        let mut patience = Patience::new(Nanos(0), [Share::default(); 2].into_iter());
        patience.arrived(Nanos(0), TenantId(0), 0);
        let dispatch = |slot| Dispatch {
            tenant: TenantId(1),
            slot,
            since: Nanos(1),
            cost: COST,
            is_last: true,
            is_turn: false,
        };
        let mut serve = |at, slot| {
            patience.arrived(Nanos(1), TenantId(1), slot);
            patience.dispatched(at, &dispatch(slot))
        };
        assert!((0..100).all(|slot| serve(Nanos(999_999_999), slot).is_ok()));
        assert!((0..100).any(|slot| serve(Nanos(1_000_000_000), slot).is_err()));
    }
}
