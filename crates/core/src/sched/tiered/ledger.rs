//! Virtual times: one per tenant, for all devices together.
//!
//! Source: Wang and Varman, FAST 2014, for the one virtual time; Jin, Chase and Kaur, SIGMETRICS
//! 2004, for depth below fair queuing.
//!
//! Every dispatch, on whichever device, moves the tenant's virtual time by one request over its
//! weight, and every device serves the tenant that is least advanced of those who wait for it. So
//! a tenant that runs ahead on a device where there is room loses its turn where there is none:
//!
//! ```text
//! weights 1 and 50            v, tenant 0   v, tenant 1
//! slow device, busy   0 . . 1     +1            +1/50     the least v goes next: while tenant 0
//! fast device, idle   1 1 1 1                   +4/50     lags, misses of tenant 1 wait for it
//! ```
//!
//! - **A request** is one of mean cost: larger ones move the time by more, in proportion to the
//!   tenant's mean cost on that device, which the last solve reckoned with. On average that is one
//!   request; it makes requests that grow before the next solve count for what they take.
//! - **Coming back.** A tenant with nothing queued starts no lower than the least virtual time of
//!   those that wait anywhere. Idleness gains no credit.
//! - **New weights** keep the lead of a tenant in requests: the distance to the least virtual time
//!   is scaled by old weight over new.
//! - **Leads fade.** A tenant ahead of others is held back until they are level. It may run ahead
//!   by what its window allows, and must be held to that. More than that comes from devices that
//!   are quicker than stated, or that nobody else wanted, and would only be a debt for later: what
//!   exceeds the longest lead that windows account for is halved by every solve. All leads pass
//!   through the same function, so nobody overtakes anybody by it.
//!
//! Times are tags ([`super::super::tag`]), where a request of mean cost counts as 2^20. They cannot
//! overflow: a tenant of the least weight, alone at 2^24 requests per second, takes 2^54 seconds.

use super::super::tag::{Scale, Tag};
use crate::share::DEVICES_MAX;
use crate::ticket::Cost;

/// What a request of mean cost counts as.
const REQUEST: u64 = 1 << 20;

/// The weight of the tenant with the greatest rate. One that comes later may have more.
pub(super) const WEIGHT_TOP: u32 = 1 << 26;

/// Virtual times and weights of all tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    accounts: Vec<Account>,
    /// The least virtual time of those that wait; it never falls.
    base: Tag,
}

/// One tenant.
#[derive(Clone, Copy, Debug)]
struct Account {
    time: Tag,
    scale: Scale,
    /// Cost of a request, by device; zero while unknown.
    mean_costs: [u64; DEVICES_MAX],
}

/// What a solve says of one tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Relative weight, at least 1.
    pub(super) weight: u32,
    /// Cost of a request, by device.
    pub(super) mean_costs: [u64; DEVICES_MAX],
}

impl Ledger {
    /// Makes room for tenants below `tenants`; new ones have weight 1.
    pub(super) fn reserve_tenants(&mut self, tenants: usize) {
        let scale = Scale::new(1);
        let unknown = Account { time: Tag(0), scale, mean_costs: [0; DEVICES_MAX] };
        self.accounts.resize(tenants.max(self.accounts.len()), unknown);
    }

    /// The tenant's virtual time.
    pub(super) fn time(&self, tenant: usize) -> Tag {
        self.accounts[tenant].time
    }

    /// The tenant has something queued again.
    pub(super) fn come_back(&mut self, tenant: usize) {
        let time = &mut self.accounts[tenant].time;
        *time = self.base.max(*time);
    }

    /// Notes the least virtual time of those that wait for any device.
    pub(super) fn note_least(&mut self, least: Tag) {
        self.base = self.base.max(least);
    }

    /// Moves the tenant's time on by a request of this cost to a device.
    pub(super) fn charge(&mut self, tenant: usize, device: usize, cost: Cost) {
        let account = &mut self.accounts[tenant];
        let amount = match account.mean_costs[device] {
            0 => REQUEST,
            mean => in_requests(cost, mean),
        };
        let advance = account.scale.advance(Cost(amount));
        account.time = account.time + advance;
    }

    /// Puts a weight in force that no solve has found yet.
    pub(super) fn set_weight(&mut self, tenant: usize, weight: u32) {
        self.reweigh(tenant, weight, Tag(u128::MAX));
    }

    /// Puts what a solve says in force. `lead_max` is the lead from which on leads fade.
    pub(super) fn settle(&mut self, tenant: usize, terms: Terms, lead_max: Tag) {
        self.reweigh(tenant, terms.weight, lead_max);
        self.accounts[tenant].mean_costs = terms.mean_costs;
    }

    fn reweigh(&mut self, tenant: usize, weight: u32, lead_max: Tag) {
        let account = &mut self.accounts[tenant];
        let [old, new] = [account.scale.weight_milli(), weight.max(1)];
        if old != new {
            account.scale = Scale::new(new);
        }
        if account.time > self.base {
            let lead =
                Tag((account.time - self.base).0.saturating_mul(u128::from(old)) / u128::from(new));
            let excess = (lead - lead_max).0 / 2;
            account.time = self.base + Tag(lead.0 - excess);
        }
    }
}

/// The cost in parts of a request of the mean cost.
fn in_requests(cost: Cost, mean: u64) -> u64 {
    let amount = match cost.0.checked_mul(REQUEST) {
        Some(scaled) => scaled / mean,
        None => u64::try_from(u128::from(cost.0) * u128::from(REQUEST) / u128::from(mean))
            .unwrap_or(u64::MAX),
    };
    amount.max(1)
}

/// The virtual time in which a tenant of [`WEIGHT_TOP`] is served that many requests of mean cost.
pub(super) fn time_of(requests: u64) -> Tag {
    let one = Scale::new(WEIGHT_TOP).advance(Cost(REQUEST));
    Tag(one.0 * u128::from(requests))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(weight: u32) -> Terms {
        Terms { weight, mean_costs: [1_000; DEVICES_MAX] }
    }

    fn ledger(weights: &[u32]) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.reserve_tenants(weights.len());
        for (tenant, &weight) in weights.iter().enumerate() {
            ledger.settle(tenant, terms(weight), Tag(u128::MAX));
        }
        ledger
    }

    #[test]
    fn a_dearer_request_counts_for_more_whatever_the_device() {
        let mut ledger = ledger(&[7, 7, 7]);
        (0..6).for_each(|n| ledger.charge(0, n % 3, Cost(1_000)));
        ledger.charge(1, 0, Cost(6_000));
        (0..3).for_each(|_| ledger.charge(2, 2, Cost(2_000)));
        assert_eq!([0, 1, 2].map(|tenant| ledger.time(tenant)), [ledger.time(0); 3]);
    }

    #[test]
    fn new_weights_keep_the_lead_in_requests() {
        let mut ledger = ledger(&[1_000, 1_000]);
        ledger.note_least(Tag(500));
        (0..2).for_each(|tenant| ledger.come_back(tenant));
        (0..10).for_each(|_| ledger.charge(0, 0, Cost(1_000)));
        ledger.settle(0, terms(10_000), Tag(u128::MAX));
        (0..10).for_each(|_| ledger.charge(1, 0, Cost(1_000)));
        ledger.settle(1, terms(10_000), Tag(u128::MAX));
        assert_eq!(ledger.time(0), ledger.time(1));
    }

    #[test]
    fn leads_beyond_what_is_natural_fade_and_keep_their_order() {
        let mut ledger = ledger(&[1; 3]);
        let request = Scale::new(1).advance(Cost(REQUEST));
        let lead_max = Tag(request.0 * 10);
        for (tenant, requests) in [(0, 8), (1, 100), (2, 101)] {
            (0..requests).for_each(|_| ledger.charge(tenant, 0, Cost(1_000)));
        }
        for _ in 0..4 {
            (0..3).for_each(|tenant| ledger.settle(tenant, terms(1), lead_max));
            assert!(ledger.time(1) < ledger.time(2));
        }
        assert_eq!(ledger.time(0).0, request.0 * 8);
        assert!(ledger.time(2).0 < request.0 * 16, "91 too many were halved four times");
    }

    #[test]
    fn the_dearest_request_of_all_counts_without_overflow() {
        assert_eq!(in_requests(Cost(u64::MAX), 1), u64::MAX);
        assert_eq!(in_requests(Cost(0), u64::MAX), 1, "nothing is free");
    }
}
