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

use std::collections::{BTreeMap, BTreeSet};

use crate::control::name::TenantNumber;
use crate::control::summary::{FlowId, HostId};
use crate::fair::water_fill;

/// What something waits for this part of the time asks for all that it can get.
const BACKLOGGED: f64 = 0.9;

/// The slots that a flow has for each unit of what it gets are believed within this factor of the
/// mean.
const RATIO_MAX: f64 = 16.0;

/// One tenant at one host, as it was lately.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flow {
    pub(super) id: FlowId,
    /// Its share, in thousandths.
    pub(super) weight: f64,
    /// What it got, in cost per second.
    pub(super) rate: f64,
    /// Its requests at the device, in the mean.
    pub(super) in_use: f64,
    /// The part of the time in which something waited.
    pub(super) backlogged: f64,
    /// Its requests at the host, waiting and at the device.
    pub(super) present: f64,
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
    /// Whether each lacks something.
    pub(super) lacks: Vec<bool>,
    /// What a thousandth of a share is worth, in parts of the capacity; none while nobody lacks
    /// anything.
    pub(super) level: Option<f64>,
}

impl Flow {
    fn asks(&self) -> f64 {
        match self.offered {
            Some(offered) => offered.max(self.rate),
            None if self.backlogged >= BACKLOGGED => f64::INFINITY,
            None => self.rate / (1.0 - self.backlogged),
        }
    }
}

/// Divides so many slots. None where nothing was served yet.
pub(super) fn divide(flows: &[Flow], slots_all: f64) -> Option<Divided> {
    let sum = |of: fn(&Flow) -> f64| flows.iter().map(of).sum::<f64>();
    let (capacity, in_use) = (sum(|flow| flow.rate), sum(|flow| flow.in_use));
    if capacity <= 0.0 || in_use <= 0.0 {
        return None;
    }
    // With fewer slots than are in use the device does less, or its queue is shorter. What it does
    // less is not known, and no matter: parts are divided.
    let scarce = (slots_all / in_use).min(1.0);
    let tenants = tenants(flows);
    let weights: Vec<f64> = tenants.iter().map(|flows_of| weight(flows, flows_of)).collect();
    let asked = |flows_of: &Vec<usize>| flows_of.iter().map(|flow| flows[*flow].asks()).sum();
    let asked: Vec<f64> = tenants.iter().map(asked).collect();
    let given = water_fill(&weights, &asked, capacity * scarce);
    let lacking = (0..tenants.len()).filter(|tenant| given[*tenant] < asked[*tenant]);
    let level = lacking.map(|tenant| given[tenant] / weights[tenant]).reduce(f64::max);
    let mut parts = vec![0.0; flows.len()];
    let mut spare = vec![0.0; flows.len()];
    let mut lacks = vec![false; flows.len()];
    for (tenant, flows_of) in tenants.iter().enumerate() {
        let present: Vec<f64> =
            flows_of.iter().map(|flow| flows[*flow].present.max(1e-3)).collect();
        let asked: Vec<f64> = flows_of.iter().map(|flow| flows[*flow].asks()).collect();
        let filled = water_fill(&present, &asked, given[tenant]);
        let due = level.map_or(0.0, |level| level * weights[tenant]);
        for ((flow, filled), asked) in flows_of.iter().zip(filled).zip(asked) {
            parts[*flow] = filled / capacity;
            spare[*flow] = (due - given[tenant]).max(0.0) / capacity;
            lacks[*flow] = filled < asked;
        }
    }
    let mean = in_use / capacity;
    let ratio = |flow: &Flow| {
        let ratio = if flow.rate > 0.0 { flow.in_use / flow.rate } else { mean };
        ratio.clamp(mean / RATIO_MAX, mean * RATIO_MAX)
    };
    let ratios: Vec<f64> = flows.iter().map(ratio).collect();
    let needed: f64 = parts.iter().zip(&ratios).map(|(part, ratio)| part * ratio).sum();
    let scale = slots_all / needed;
    // Where somebody lacks something at the same host, its slots are there for the bursts.
    let is_short: BTreeSet<HostId> = flows
        .iter()
        .zip(&lacks)
        .filter(|(_, lacks)| **lacks)
        .map(|(flow, _)| flow.id.host)
        .collect();
    let mut slots = Vec::with_capacity(flows.len());
    for ((flow, part), (spare, ratio)) in
        flows.iter().zip(&mut parts).zip(spare.iter().zip(&ratios))
    {
        let besides = if is_short.contains(&flow.id.host) { 0.0 } else { *spare };
        slots.push((*part + besides) * ratio * scale);
        *part += spare;
    }
    Some(Divided { parts, slots, lacks, level: level.map(|level| level / capacity) })
}

/// The flows of each tenant. Several that a host tells of as one are known there alone.
fn tenants(flows: &[Flow]) -> Vec<Vec<usize>> {
    let mut tenants: BTreeMap<(TenantNumber, Option<HostId>), Vec<usize>> = BTreeMap::new();
    for (index, Flow { id, .. }) in flows.iter().enumerate() {
        let host = (id.tenant == TenantNumber::SEVERAL).then_some(id.host);
        tenants.entry((id.tenant, host)).or_default().push(index);
    }
    tenants.into_values().collect()
}

/// The weight of a tenant: the greatest that a host says.
fn weight(flows: &[Flow], flows_of: &[usize]) -> f64 {
    flows_of.iter().map(|flow| flows[*flow].weight).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backlogged flow of a tenant at a host, with so many requests there.
    fn flow(host: u32, tenant: u32, share: f64, present: f64) -> Flow {
        Flow {
            id: FlowId { host: HostId(host), tenant: TenantNumber(tenant) },
            weight: share * 1000.0,
            rate: 1.0,
            in_use: 2.0,
            backlogged: 1.0,
            present,
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
}
