//! The division of what a device does among the tenants of all hosts, and of each tenant's part
//! among its hosts.
//!
//! ```text
//!   capacity --by share--> tenants --by what is present--> tenants at hosts --> slots
//!                (nobody more than asked)
//! ```
//!
//! - **What a flow asks** is what it gets, and without bound while something of it waits. In
//!   between, where something waits for a part `b` of the time, it is taken to ask `1/(1-b)` times
//!   what it gets. With a target it asks what its clients do, or bursts that wait a little would
//!   have it held to what it gets, and wait more.
//! - **Tenants** are filled by weight, each up to what its flows ask together (max-min fairness).
//! - **Floors** come before shares: a tenant has its floor if it asks for that much, and the others
//!   share what is left.
//! - **Limits** count over all hosts: each has a part of a tenant's limit, by what its clients
//!   there use of it. A tenant at its limit asks for what it gets.
//! - **Flows of a tenant** are filled likewise, by the requests that they have at the host: each of
//!   a tenant's clients is served alike, wherever it is.
//! - **Slots** follow from that by Little's law: who is due a rate needs as many as it had for each
//!   unit of what it got. So requests of unlike sizes and latencies count for what they cost.
//! - A tenant that asks for less than it is due has the difference as slots besides, at each of its
//!   hosts where nobody lacks anything, lest its bursts wait. It does not use them in the mean, so
//!   that nobody lacks them. At other hosts it goes first there by its weight.
//!
//! ```text
//!   a : b = 3 : 1, a at host 1, b at all three, 8 slots
//!   rates due 0.75 | 0.083 each           slots 6.67, 0.67, 0.67
//! ```

use std::collections::BTreeSet;

use crate::control::name::TenantNumber;
use crate::control::summary::{FlowId, HostId};
use crate::control::sums::Shard;
use crate::fair::water_fill;

use super::fill::fill;
use super::limit::limit_parts;

/// What something waits for this part of the time asks for all that it can get.
const BACKLOGGED: f64 = 0.9;

/// Parts are sums of many: who has all but this part of what it asks lacks nothing.
const ROUNDING: f64 = 1e-9;

/// What tenants and hosts may have for bursts, besides what they are due, is all that is there
/// at so many of them, and as much in all where there are more.
pub(super) const BURSTING: f64 = 3.0;

/// A flow's latency counts up to so many times the quickest one's. Requests of unlike sizes and
/// kinds differ by less before one array; an export that answers later than that lies elsewhere,
/// and would take every slot for the little that it does.
const LATENCY_MAX: f64 = 8.0;

/// One tenant at one host, as it was lately.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flow {
    pub(super) id: FlowId,
    /// Its share, in thousandths.
    pub(super) weight: f64,
    /// What it got, in cost per second.
    pub(super) rate: f64,
    /// In how many requests per second.
    pub(super) requests_per_s: f64,
    /// Its requests at the device, in the mean.
    pub(super) in_use: f64,
    /// The part of the time in which something waited.
    pub(super) backlogged: f64,
    /// Its requests at the host, waiting and at the device.
    pub(super) present: f64,
    /// The least that the tenant is to have at all hosts together, in cost per second.
    pub(super) floor: f64,
    /// Whether something waits for the tenant's own limit.
    pub(super) is_limited: bool,
    /// What its clients ask, in cost per second, if it was promised something of response times.
    pub(super) offered: Option<f64>,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Divided {
    /// What each flow may have, in parts of the capacity, in the same order.
    pub(super) parts: Vec<f64>,
    /// The slots of each flow, in the same order.
    pub(super) slots: Vec<f64>,
    /// The part of its tenant's limit that each has, in the same order.
    pub(super) limits: Vec<f64>,
    /// Whether each lacks something.
    pub(super) lacks: Vec<bool>,
    /// What a thousandth of a share is worth, in parts of the capacity; none while nobody lacks
    /// anything.
    pub(super) level: Option<f64>,
}

impl Flow {
    fn asks(&self) -> f64 {
        match self.offered {
            _ if self.is_limited => self.rate,
            Some(offered) => offered.max(self.rate),
            None if self.backlogged >= BACKLOGGED => f64::INFINITY,
            None => self.rate / (1.0 - self.backlogged),
        }
    }

    /// The flow after another period. What was measured moves by this part towards what was seen;
    /// promises are those of the period.
    pub(super) fn towards(self, seen: Self, part: f64) -> Self {
        let mean = |before: f64, now: f64| before + part * (now - before);
        let offered = match (self.offered, seen.offered) {
            (Some(before), Some(now)) => Some(mean(before, now)),
            (_, now) => now,
        };
        Self {
            rate: mean(self.rate, seen.rate),
            requests_per_s: mean(self.requests_per_s, seen.requests_per_s),
            in_use: mean(self.in_use, seen.in_use),
            backlogged: mean(self.backlogged, seen.backlogged),
            present: mean(self.present, seen.present),
            offered,
            ..seen
        }
    }

    /// How long its requests take at the device, if enough of them came back to tell. Never below a
    /// microsecond: hosts tell times in whole ones.
    fn latency_s(&self) -> Option<f64> {
        let is_known = self.requests_per_s >= 1.0 && self.rate > 0.0;
        is_known.then(|| (self.in_use / self.requests_per_s).max(1e-6))
    }

    /// Its requests at the host, as a weight among a tenant's flows.
    pub(super) fn requests(&self) -> f64 {
        self.present.max(1e-3)
    }
}

/// The tenants of the flows, in some order.
struct Tenants {
    /// Their flows.
    flows: Vec<Vec<usize>>,
    weights: Vec<f64>,
    asked: Vec<f64>,
    floors: Vec<f64>,
    /// What each gets, and what a weight of 1 is worth to those that lack something.
    given: Vec<f64>,
    level: Option<f64>,
}

/// Divides so many slots among so many hosts. None where nothing was served yet.
pub(super) fn divide(flows: &[Flow], slots_all: f64, hosts: u32) -> Option<Divided> {
    let sum = |of: fn(&Flow) -> f64| flows.iter().map(of).sum::<f64>();
    let (capacity, in_use) = (sum(|flow| flow.rate), sum(|flow| flow.in_use));
    if capacity <= 0.0 || in_use <= 0.0 {
        return None;
    }
    let tenants = Tenants::of(flows, capacity);
    let mut divided = tenants.divide(flows, capacity);
    let spare = tenants.spare(flows, capacity, hosts);
    let ratios = ratios(flows, in_use / capacity);
    let needed: f64 = divided.parts.iter().zip(&ratios).map(|(part, ratio)| part * ratio).sum();
    // Where less than what is in use is to be, those who lacked nothing will.
    let is_over = tenants.level.is_none() && needed * capacity > slots_all;
    let level = tenants.level.or_else(|| tenants.highest().filter(|_| is_over));
    divided.level = level.map(|level| level / capacity);
    if is_over {
        divided.lacks.fill(true);
    }
    let short = divided.short_hosts(flows);
    for (index, flow) in flows.iter().enumerate() {
        // Where somebody lacks something at the same host, its slots are there for the bursts.
        let besides = if short.contains(&flow.id.host) { 0.0 } else { spare[index] };
        let part = &mut divided.parts[index];
        divided.slots.push((*part + besides) * ratios[index] * slots_all / needed);
        *part += spare[index];
    }
    Some(divided)
}

impl Tenants {
    fn of(flows: &[Flow], capacity: f64) -> Self {
        let by_tenant = tenants(flows);
        let of = |one: &dyn Fn(&[usize]) -> f64| -> Vec<f64> {
            by_tenant.iter().map(|flows_of| one(flows_of)).collect()
        };
        // Of what hosts say of a tenant the greatest counts.
        let greatest = |flows_of: &[usize], what: fn(&Flow) -> f64| {
            flows_of.iter().map(|flow| what(&flows[*flow])).fold(0.0, f64::max)
        };
        let weights = of(&|flows_of| greatest(flows_of, |flow| flow.weight));
        let floors = of(&|flows_of| greatest(flows_of, |flow| flow.floor));
        let asked = of(&|flows_of| flows_of.iter().map(|flow| flows[*flow].asks()).sum());
        let (given, level) = fill(&weights, &asked, &floors, capacity);
        Self { flows: by_tenant, weights, asked, floors, given, level }
    }

    /// What each flow gets of what its tenant does, and the part of the limit that it has.
    fn divide(&self, flows: &[Flow], capacity: f64) -> Divided {
        let mut divided = Divided {
            parts: vec![0.0; flows.len()],
            slots: Vec::with_capacity(flows.len()),
            limits: vec![0.0; flows.len()],
            lacks: vec![false; flows.len()],
            level: None,
        };
        for (flows_of, given) in self.flows.iter().zip(&self.given) {
            let own: Vec<&Flow> = flows_of.iter().map(|flow| &flows[*flow]).collect();
            let present: Vec<f64> = own.iter().map(|flow| flow.requests()).collect();
            let asked: Vec<f64> = own.iter().map(|flow| flow.asks()).collect();
            let filled = water_fill(&present, &asked, *given);
            for ((flow, limit), (filled, asked)) in
                flows_of.iter().zip(limit_parts(&own)).zip(filled.iter().zip(&asked))
            {
                divided.parts[*flow] = filled / capacity;
                divided.limits[*flow] = limit;
                divided.lacks[*flow] = *filled < asked * (1.0 - ROUNDING);
            }
        }
        divided
    }

    /// What each flow may have besides, since its tenant asks for less than it is due.
    fn spare(&self, flows: &[Flow], capacity: f64, hosts: u32) -> Vec<f64> {
        let mut spare = vec![0.0; flows.len()];
        for (tenant, flows_of) in self.flows.iter().enumerate() {
            let by_share = self.level.map_or(0.0, |level| level * self.weights[tenant]);
            let due = by_share.max(self.floors[tenant]);
            let has_all = self.given[tenant] >= self.asked[tenant];
            // A sum does not say at how many of its hosts the tenant is: at all, perhaps.
            let is_summed =
                flows_of.iter().any(|flow| Shard::of_sum(flows[*flow].id.host).is_some());
            let at = if is_summed { f64::from(hosts) } else { flows_of.len() as f64 };
            let part = (BURSTING / at).min(1.0);
            for flow in flows_of.iter().filter(|_| has_all) {
                spare[*flow] = part * (due - self.given[tenant]).max(0.0) / capacity;
            }
        }
        spare
    }

    /// The most that a weight of 1 is worth to any.
    fn highest(&self) -> Option<f64> {
        self.given.iter().zip(&self.weights).map(|(given, weight)| given / weight).reduce(f64::max)
    }
}

impl Divided {
    /// The hosts where somebody lacks something.
    fn short_hosts(&self, flows: &[Flow]) -> BTreeSet<HostId> {
        let lacking = flows.iter().zip(&self.lacks).filter(|(_, lacks)| **lacks);
        lacking.map(|(flow, _)| flow.id.host).collect()
    }
}

/// The slots that each flow needs for each unit of what it gets, by Little's law: its latency for
/// what one of its requests costs.
fn ratios(flows: &[Flow], mean: f64) -> Vec<f64> {
    let quickest_s = flows.iter().filter_map(Flow::latency_s).reduce(f64::min);
    let ratio = |flow: &Flow| {
        let latency_s = flow.latency_s().zip(quickest_s);
        let bounded_s = latency_s.map(|(own_s, quickest_s)| own_s.min(quickest_s * LATENCY_MAX));
        bounded_s.map_or(mean, |bounded_s| bounded_s * flow.requests_per_s / flow.rate)
    };
    flows.iter().map(ratio).collect()
}

/// The flows of each tenant. Several that a host tells of as one are known there alone.
fn tenants(flows: &[Flow]) -> Vec<Vec<usize>> {
    let whose = |index: &usize| {
        let id = flows[*index].id;
        (id.tenant, (id.tenant == TenantNumber::SEVERAL).then_some(id.host))
    };
    let mut by_tenant: Vec<usize> = (0..flows.len()).collect();
    by_tenant.sort_by_key(whose);
    by_tenant.chunk_by(|one, next| whose(one) == whose(next)).map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(flows: &[Flow], slots_all: f64) -> Option<Divided> {
        super::divide(flows, slots_all, 3)
    }

    /// A backlogged flow of a tenant at a host, with so many requests there.
    fn flow(host: u32, tenant: u32, share: f64, present: f64) -> Flow {
        Flow {
            id: FlowId { host: HostId(host), tenant: TenantNumber(tenant) },
            weight: share * 1000.0,
            rate: 1.0,
            requests_per_s: 10.0,
            in_use: 2.0,
            backlogged: 1.0,
            present,
            floor: 0.0,
            is_limited: false,
            offered: None,
        }
    }

    fn rounded(values: &[f64]) -> Vec<f64> {
        values.iter().map(|value| (value * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn shares_count_over_all_hosts_wherever_a_tenant_has_its_clients() {
        let flows = [
            flow(1, 1, 3.0, 16.0),
            flow(1, 2, 1.0, 16.0),
            flow(2, 2, 1.0, 16.0),
            flow(3, 2, 1.0, 16.0),
        ];
        let divided = divide(&flows, 8.0).unwrap();
        assert_eq!(rounded(&divided.parts), [0.75, 0.083, 0.083, 0.083]);
        assert_eq!(rounded(&divided.slots), [6.0, 0.667, 0.667, 0.667]);
        assert!(divided.lacks.iter().all(|lacks| *lacks));
    }

    #[test]
    fn a_tenant_is_divided_by_its_clients() {
        let flows = [flow(1, 1, 1.0, 30.0), flow(2, 1, 1.0, 10.0), flow(3, 2, 1.0, 1.0)];
        assert_eq!(rounded(&divide(&flows, 8.0).unwrap().parts), [0.375, 0.125, 0.5]);
    }

    #[test]
    fn who_asks_for_less_leaves_it_to_others_and_has_room_for_bursts() {
        let quiet =
            Flow { rate: 0.2, in_use: 0.4, backlogged: 0.0, present: 0.4, ..flow(1, 1, 1.0, 1.0) };
        let divided = divide(&[quiet, flow(2, 2, 1.0, 8.0), flow(3, 3, 1.0, 8.0)], 11.0).unwrap();
        // 2.2 in all: 0.2 is asked for, the others share 2.0.
        assert_eq!(rounded(&divided.slots), [5.0, 5.0, 5.0]);
        assert_eq!(divided.lacks, [false, true, true]);
    }

    #[test]
    fn large_requests_count_for_what_they_cost() {
        // The first moves four times as much with each of its slots.
        let large = Flow { rate: 4.0, ..flow(1, 1, 1.0, 8.0) };
        let divided = divide(&[large, flow(2, 2, 1.0, 8.0)], 10.0).unwrap();
        assert_eq!(rounded(&divided.slots), [2.0, 8.0]);
    }

    #[test]
    fn while_nobody_waits_there_is_no_level() {
        let quiet = |host| Flow { backlogged: 0.0, ..flow(host, host, 1.0, 1.0) };
        let divided = divide(&[quiet(1), quiet(2)], 10.0).unwrap();
        assert_eq!((divided.level, divided.lacks), (None, vec![false, false]));
        assert_eq!(divide(&[], 10.0), None);
    }

    #[test]
    fn a_floor_comes_before_shares_and_no_further() {
        let floor = Flow { floor: 1.2, ..flow(1, 1, 1.0, 8.0) };
        let others = [flow(2, 2, 3.0, 8.0), flow(3, 3, 3.0, 8.0)];
        let divided = divide(&[floor, others[0], others[1]], 10.0).unwrap();
        // 1.2 of 3, and the rest by share.
        assert_eq!(rounded(&divided.parts), [0.4, 0.3, 0.3]);
        let asks_less = Flow { rate: 0.2, backlogged: 0.0, ..floor };
        let divided = divide(&[asks_less, others[0], others[1]], 10.0).unwrap();
        assert_eq!(rounded(&divided.parts)[1..], [0.455, 0.455]);
        let too_much = Flow { floor: 9.0, ..floor };
        let divided = divide(&[too_much, Flow { floor: 9.0, ..others[0] }], 10.0).unwrap();
        assert_eq!(rounded(&divided.parts), [0.5, 0.5]);
    }

    #[test]
    fn a_limit_is_divided_by_what_is_used_of_it() {
        let limited = |host, present| Flow { is_limited: true, ..flow(host, 1, 1.0, present) };
        let quiet = Flow { rate: 0.2, backlogged: 0.0, ..flow(3, 1, 1.0, 0.3) };
        let divided = divide(&[limited(1, 30.0), limited(2, 10.0), quiet], 10.0).unwrap();
        // 2.2 are used: 0.22 by the quiet one, the rest three to one.
        assert_eq!(rounded(&divided.limits), [0.675, 0.225, 0.1]);
        let below = |host| Flow { backlogged: 0.0, ..flow(host, 1, 1.0, 1.0) };
        assert_eq!(rounded(&divide(&[below(1), below(2)], 10.0).unwrap().limits), [0.5, 0.5]);
    }
}
