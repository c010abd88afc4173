//! Adding up the flows of several hosts, and taking one host's out again.
//!
//! Counts and times are added. Of weights, floors and targets the strictest stands, as it does
//! where hosts differ ([`super::super::shares`]). How much of the time something waited is the mean
//! over the requests that were there: a tenant with one busy host and a hundred idle ones is busy.

use std::collections::BTreeMap;

use super::super::name::TenantNumber;
use super::super::peers::Known;
use super::super::summary::{FlowSummary, Summary, fold};
use super::super::target::Target;
use super::{Kind, Shard};
use crate::ticket::Cost;
use crate::time::Span;

/// From this part of a period on, in percent, a flow would take more.
const WAITING_PERCENT: u8 = 50;

/// Which flows this one is added to.
fn kind(flow: &FlowSummary) -> Kind {
    if flow.is_limited {
        Kind::Limited
    } else if flow.target.is_none() && flow.backlogged_percent >= WAITING_PERCENT {
        Kind::Waiting
    } else {
        Kind::Content
    }
}

/// A tenant's flows of a kind, as far as they have been added.
#[derive(Clone, Copy, Debug, Default)]
struct Added {
    flow: FlowSummary,
    /// The percentages in which something waited, each as often as it has requests; and those.
    percents: u64,
    requests: u64,
}

impl Added {
    fn add(&mut self, one: &FlowSummary) {
        let requests = 1 + u64::from(one.outstanding) + u64::from(one.queued);
        self.percents += requests * u64::from(one.backlogged_percent);
        self.requests += requests;
        self.flow = plus(&self.flow, one);
    }

    fn flow(self) -> FlowSummary {
        let percent = self.percents / self.requests.max(1);
        let backlogged_percent = u8::try_from(percent).expect("a mean of percentages");
        // Rounded and bounded, so that all hosts take it as it is here.
        FlowSummary { backlogged_percent, ..self.flow }.bounded().in_microseconds()
    }
}

/// The flows of these summaries by kind, in the order of [`Kind::ALL`] and of their tenants.
pub(super) fn add<'a>(summaries: impl Iterator<Item = &'a Summary>) -> [Vec<FlowSummary>; 3] {
    let mut added: [BTreeMap<TenantNumber, Added>; 3] = Default::default();
    for flow in summaries.flat_map(|summary| &summary.flows) {
        added[kind(flow) as usize].entry(flow.tenant).or_default().add(flow);
    }
    added.map(|tenants| fold(tenants.into_values().map(Added::flow).collect()))
}

/// Takes a host's own flows out of what is known of its shard.
pub(in super::super) fn take_out(own: &Summary, shard: Shard, known: &mut [Known]) {
    for flow in &own.flows {
        let host = shard.host(kind(flow));
        let Ok(sum) = known.binary_search_by_key(&host, |known| known.summary.host) else {
            continue;
        };
        let flows = &mut known[sum].summary.flows;
        let find = |tenant| flows.binary_search_by_key(&tenant, |flow| flow.tenant);
        // Of more than 1,024 tenants those with least and no target are reported as one.
        let several = || flow.target.is_none().then_some(TenantNumber::SEVERAL);
        let index = find(flow.tenant).ok().or_else(|| find(several()?).ok());
        if let Some(index) = index {
            flows[index] = less(&flows[index], flow);
        }
    }
}

/// Two flows of a tenant at unlike hosts as one. What counts as several tenants at either are as
/// many together.
fn plus(sum: &FlowSummary, one: &FlowSummary) -> FlowSummary {
    let weight_milli = if one.tenant == TenantNumber::SEVERAL {
        sum.weight_milli.saturating_add(one.weight_milli)
    } else {
        sum.weight_milli.max(one.weight_milli)
    };
    FlowSummary {
        tenant: one.tenant,
        weight_milli,
        floor: sum.floor.max(one.floor),
        target: strictest(sum.target, one.target),
        backlogged_percent: 0,
        ..sum.and(one)
    }
}

/// A sum without one of the flows that are in it.
fn less(sum: &FlowSummary, one: &FlowSummary) -> FlowSummary {
    let span = |sum: Span, one: Span| Span(sum.0.saturating_sub(one.0));
    let completions = sum.completions.saturating_sub(one.completions);
    FlowSummary {
        arrivals: sum.arrivals.saturating_sub(one.arrivals),
        completions,
        late: sum.late.saturating_sub(one.late).min(completions),
        cost: Cost(sum.cost.0.saturating_sub(one.cost.0)),
        device_time: span(sum.device_time, one.device_time),
        response_time: span(sum.response_time, one.response_time),
        slot_time: span(sum.slot_time, one.slot_time),
        outstanding: sum.outstanding.saturating_sub(one.outstanding),
        queued: sum.queued.saturating_sub(one.queued),
        queued_age: span(sum.queued_age, one.queued_age),
        expected_per_s: sum.expected_per_s.saturating_sub(one.expected_per_s),
        ..*sum
    }
}

fn strictest(one: Option<Target>, other: Option<Target>) -> Option<Target> {
    one.into_iter().chain(other).min_by_key(|target| target.latency_max)
}

#[cfg(test)]
mod tests {
    use super::super::super::summary::HostId;
    use super::*;
    use crate::prng::Prng;

    fn flow(prng: &mut Prng, tenant: u32) -> FlowSummary {
        let mut below = |bound| u32::try_from(prng.below(bound)).expect("small");
        let completions = below(500);
        FlowSummary {
            tenant: TenantNumber(tenant),
            weight_milli: 1_000 * tenant,
            arrivals: below(500),
            completions,
            late: below(1 + u64::from(completions)),
            cost: Cost(u64::from(completions) * 1_024),
            device_time: Span::from_micros(u64::from(completions) * 900),
            slot_time: Span::from_micros(below(200_000).into()),
            outstanding: below(32),
            queued: below(64),
            backlogged_percent: u8::try_from(below(101)).expect("at most 100"),
            is_limited: below(8) == 0,
            expected_per_s: below(3_000),
            ..FlowSummary::default()
        }
    }

    /// So many hosts with the same three tenants, more or less.
    fn summaries(seed: u64, hosts: u32) -> Vec<Summary> {
        let mut prng = Prng::new(seed);
        let mut summary = |host| {
            let tenants = (1..4).filter(|_| prng.below(4) > 0).collect::<Vec<_>>();
            let flows = tenants.into_iter().map(|tenant| flow(&mut prng, tenant)).collect();
            Summary { host: HostId(host), flows, ..Summary::default() }
        };
        (0..hosts).map(&mut summary).collect()
    }

    #[test]
    fn what_is_added_up_is_all_that_was_told() {
        let all = summaries(1, 500);
        let sums = add(all.iter());
        let told = |of: fn(&FlowSummary) -> u64| -> u64 {
            all.iter().flat_map(|summary| &summary.flows).map(of).sum()
        };
        let added = |of: fn(&FlowSummary) -> u64| -> u64 { sums.iter().flatten().map(of).sum() };
        for of in [
            (|flow| flow.completions.into()) as fn(&FlowSummary) -> u64,
            |flow| flow.cost.0,
            |flow| flow.slot_time.0,
            |flow| flow.queued.into(),
        ] {
            assert_eq!(told(of), added(of));
        }
        assert!(sums.iter().all(|flows| flows.is_sorted_by_key(|flow| flow.tenant)));
        assert!(sums.iter().flatten().all(FlowSummary::is_plausible));
        let [content, waiting, limited] = &sums;
        assert!(content.iter().all(|flow| flow.backlogged_percent < 50 && !flow.is_limited));
        assert!(waiting.iter().all(|flow| flow.backlogged_percent >= 50 && !flow.is_limited));
        assert!(limited.iter().all(|flow| flow.is_limited && flow.weight_milli % 1_000 == 0));
    }

    #[test]
    fn a_host_that_is_taken_out_again_was_never_in_it() {
        for seed in 0..50 {
            let all = summaries(seed, 20);
            let shard = Shard(3);
            let known = |flows: [Vec<FlowSummary>; 3]| -> Vec<Known> {
                let summaries = flows.into_iter().zip(shard.hosts());
                let summaries =
                    summaries.map(|(flows, host)| Summary { host, flows, ..Summary::default() });
                summaries.map(|summary| Known::whole(summary, 0)).collect()
            };
            let mut with = known(add(all.iter()));
            take_out(&all[7], shard, &mut with);
            let without = known(add(all.iter().filter(|one| one.host != HostId(7))));
            for (with, without) in with.iter().zip(&without) {
                for flow in &without.summary.flows {
                    let same = with.summary.flows.iter().find(|one| one.tenant == flow.tenant);
                    // The mean of what waited, and who was strictest, are as they were.
                    let same = FlowSummary {
                        backlogged_percent: flow.backlogged_percent,
                        ..*same.expect("it is there")
                    };
                    assert_eq!(same, *flow);
                }
            }
        }
    }
}
