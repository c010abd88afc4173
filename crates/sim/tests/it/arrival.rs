//! Requests count by their arrival, each until its answer, however late that is.

use evenkeel_core::sched::Limit;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::Depth;
use evenkeel_sim::device::spec::{ConstantSpec, DeviceSpec};
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::result::{Summary, Traffic};
use evenkeel_sim::scenario::{PolicyChange, Replay, ReplayTiming, Route, Scenario};
use evenkeel_sim::{SimError, run_observed};
use evenkeel_trace::{Record, SourceId};
use proptest::prelude::*;

use crate::scenes::{clients, device, run, scene, shares};

const MS: u64 = 1_000_000;

/// A read of 4 KiB: when, and whose of two tenants.
type Arrival = (u64, u32);

/// Two tenants of equal weight on a device of 10 ms a request; the records come at these times.
fn replayed(arrivals: &[Arrival], length: Span) -> Result<Summary, SimError> {
    let mut scenario = scene(&[1, 1], Depth::Requests(1));
    let slow =
        ConstantSpec { size_bytes: 1 << 30, fixed: Span(10 * MS), ..ConstantSpec::default() };
    scenario.devices = vec![device("disk", DeviceSpec::Constant(slow))];
    (scenario.warm_up, scenario.length) = (Span::ZERO, length);
    let route = |tenant: &str| Route { tenant: Some(tenant.to_owned()), target: "disk".to_owned() };
    scenario.replays = vec![Replay {
        name: "trace".to_owned(),
        routes: vec![route("t0"), route("t1")],
        otherwise: None,
        timing: ReplayTiming::default(),
        start: Span::ZERO,
        stop: None,
        window: None,
        continues: false,
        link: LinkSpec::default(),
    }];
    let record = |&(at_ns, source): &Arrival| Record {
        at: Nanos(at_ns),
        source: SourceId(source),
        kind: Kind::Read,
        offset: 0,
        length: 4096,
        response: None,
    };
    let records = Box::new(arrivals.iter().map(record));
    run_observed(&scenario, vec![records], &mut |_| ())
}

/// All of a trace, as `plan` runs it: the measured time ends just behind the last arrival.
fn planned(arrivals: &[Arrival]) -> Summary {
    let last = arrivals.iter().map(|&(at_ns, _)| at_ns).max().unwrap_or(0);
    replayed(arrivals, Span(last + 1)).expect("it can run")
}

fn traffic(summary: &Summary, tenant: &str) -> Traffic {
    let found = summary.tenants.iter().find(|one| one.name == tenant);
    found.map(|one| one.traffic.clone()).unwrap_or_default()
}

/// Every latency.
fn told(traffic: &Traffic) -> String {
    format!("{:?}", traffic.latency.histogram)
}

#[test]
fn a_burst_at_the_end_of_a_trace_counts() {
    // A request every 20 ms, and then twenty at once.
    let steady = (0..100).map(|k| (k * 20 * MS, 0));
    let burst = (0..20).map(|_| (99 * 20 * MS, 0));
    let arrivals: Vec<Arrival> = steady.chain(burst).collect();
    let summary = planned(&arrivals);
    let traffic = traffic(&summary, "t0");
    assert_eq!((traffic.requests, traffic.bytes), (120, 120 * 4096));
    let late = 120 - traffic.latency.histogram.count_at_most(Span(55 * MS));
    assert_eq!(late, 16, "of 21 requests at once the first five take 50 ms at most");
    assert!((209..212).contains(&(traffic.latency.max.0 / MS)), "{}", traffic.latency.max);
    let drain = traffic.latency.max.0 - 1;
    assert_eq!(summary.drain, Span(drain), "the measured time ends 1 ns after the last arrival");
}

#[test]
fn an_overload_drains_to_the_last_request_however_long_that_takes() {
    // Ten times what the device can do, for ten seconds: the backlog takes ninety.
    let arrivals: Vec<Arrival> = (0..10_000).map(|k| (k * MS, u32::from(k % 2 == 1))).collect();
    let summary = planned(&arrivals);
    for tenant in ["t0", "t1"] {
        assert_eq!(traffic(&summary, tenant).requests, 5_000);
    }
    assert!((89.9..90.1).contains(&summary.drain.as_secs_f64()), "{}", summary.drain);
}

#[test]
fn a_backlog_that_never_ends_is_an_error_that_names_who_waits() {
    let mut scenario = scene(&[1], Depth::Requests(1));
    let crawling = ConstantSpec { size_bytes: 1 << 30, rate_bytes: 1, ..ConstantSpec::default() };
    scenario.devices = vec![device("disk", DeviceSpec::Constant(crawling))];
    scenario.workloads = vec![clients("t0", 1, 2)];
    // 4 MiB at a byte a second take 48 days.
    scenario.workloads[0].sizes[0].size_bytes = 4 << 20;
    let error = evenkeel_sim::run(&scenario).expect_err("nobody waits for ever").to_string();
    assert!(error.contains("never ends") && error.contains("2 of \"t0\""), "{error}");
}

/// Bursts of requests of two tenants, each burst small enough to be served before the next.
fn bursts() -> impl Strategy<Value = Vec<Vec<Arrival>>> {
    let request = (0..50u64, 0..2u32);
    let burst = prop::collection::vec(request, 1..20);
    prop::collection::vec(burst, 2..8).prop_map(|bursts| {
        let placed = bursts.into_iter().zip(0u64..).map(|(burst, index)| {
            let mut burst: Vec<Arrival> =
                burst.into_iter().map(|(ms, tenant)| ((index * 1_000 + ms) * MS, tenant)).collect();
            burst.sort_unstable();
            burst
        });
        placed.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_late_extra_request_changes_nothing_that_came_before(bursts in bursts(), who in 0..2u32) {
        let arrivals: Vec<Arrival> = bursts.concat();
        let mut extended = arrivals.clone();
        extended.push((3_600_000 * MS, who));
        let (before, after) = (planned(&arrivals), planned(&extended));
        for (index, tenant) in (0..).zip(["t0", "t1"]) {
            let (mut expected, found) = (traffic(&before, tenant), traffic(&after, tenant));
            if index == who {
                expected.requests += 1;
                expected.latency.histogram.record(Span(10 * MS));
            }
            prop_assert_eq!(expected.requests, found.requests);
            prop_assert_eq!(told(&expected), told(&found));
        }
    }

    #[test]
    fn a_trace_cut_in_two_and_planned_in_one_piece_agree(
        bursts in bursts(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (first, second) = bursts.split_at(cut.index(bursts.len() - 1) + 1);
        let (first, second) = (first.concat(), second.concat());
        let start = second[0].0;
        let shifted: Vec<Arrival> = second.iter().map(|&(at, who)| (at - start, who)).collect();
        let whole = planned(&[first.clone(), second].concat());
        let parts = [planned(&first), planned(&shifted)];
        let sum_ns = |traffic: &Traffic| traffic.latency.histogram.sum().0;
        let mut sums_ns = [0, 0];
        for tenant in ["t0", "t1"] {
            let whole = traffic(&whole, tenant);
            let [one, other] = parts.each_ref().map(|part| traffic(part, tenant));
            prop_assert_eq!(whole.requests, one.requests + other.requests);
            prop_assert_eq!(whole.bytes, one.bytes + other.bytes);
            let both = sum_ns(&one) + sum_ns(&other);
            // Tags remember the last request of a tenant across idleness: who is first in a burst
            // may be another, and gains or loses one request of 10 ms at every one of its own.
            let slack = 10 * MS * whole.requests + 10 * MS;
            prop_assert!(sum_ns(&whole).abs_diff(both) <= slack);
            sums_ns[0] += sum_ns(&whole);
            sums_ns[1] += both;
        }
        prop_assert_eq!(sums_ns[0], sums_ns[1], "in whatever order, the storage does the same");
    }
}

/// One tenant after the other at twice the other's weight, and a limit at the end.
fn changing() -> Scenario {
    let mut scenario = scene(&[2, 1], Depth::Requests(4));
    scenario.workloads = vec![clients("t0", 4, 8), clients("t1", 4, 8)];
    (scenario.warm_up, scenario.length) = (Span::ZERO, Span::from_secs(6));
    scenario.interval = Span::from_secs(1);
    let change = |at: u64, change: fn(&mut evenkeel_engine::policy::Policy)| {
        let mut policy = scenario.policy.clone();
        change(&mut policy);
        PolicyChange { at: Span::from_secs(at), policy }
    };
    let swap = change(2, |policy| {
        policy.tenants[0].share.weight_milli = 1000;
        policy.tenants[1].share.weight_milli = 2000;
    });
    let limit = change(4, |policy| {
        policy.tenants[0].share.limit =
            Limit { rate_iops: 100, burst_requests: 1, ..Limit::default() };
    });
    scenario.changes = vec![swap, limit];
    scenario
}

#[test]
fn a_policy_that_changes_in_mid_run_takes_effect_at_its_instant() {
    let summary = run(&changing());
    let rate = |tenant: &str, second: usize| {
        let traffic = traffic(&summary, tenant);
        traffic.series[second].requests as f64
    };
    for second in [0, 1] {
        let ratio = rate("t0", second) / rate("t1", second);
        assert!((1.95..2.05).contains(&ratio), "second {second}: {ratio}");
    }
    for second in [2, 3] {
        let ratio = rate("t1", second) / rate("t0", second);
        assert!((1.9..2.1).contains(&ratio), "second {second}: {ratio}");
    }
    assert!((99.0..=101.0).contains(&rate("t0", 5)), "{}", rate("t0", 5));
    assert!(rate("t1", 5) > 1.4 * rate("t1", 3), "what one may not have the other gets");
    assert_eq!(run(&changing()).log_hash, summary.log_hash);
}

#[test]
fn tenants_come_and_go_with_the_policy() {
    let mut scenario = changing();
    scenario.changes.truncate(1);
    // Whoever has no tenant of its own any more is the default tenant.
    scenario.changes[0].policy.tenants.remove(0);
    let mut newcomer = scenario.policy.tenants[0].clone();
    newcomer.name = "new".to_owned();
    scenario.changes[0].policy.tenants.push(newcomer);
    let summary = run(&scenario);
    let series = |tenant: &str| {
        let traffic = traffic(&summary, tenant);
        traffic.series.iter().map(|one| one.requests > 100).collect::<Vec<_>>()
    };
    assert_eq!(series("t0"), [true, true, false, false, false, false]);
    assert_eq!(series("default"), [false, false, true, true, true, true]);
    assert!((shares(&summary).iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn a_change_of_where_bytes_lie_is_refused_with_its_number() {
    let mut scenario = changing();
    scenario.changes[1].policy.backends[0].name = "elsewhere".to_owned();
    let error = evenkeel_sim::run(&scenario).expect_err("no device has that name").to_string();
    assert!(error.starts_with("policy change 2: its backends"), "{error}");
    let mut scenario = changing();
    scenario.changes.reverse();
    let error = evenkeel_sim::run(&scenario).expect_err("time goes on").to_string();
    assert!(error.contains("sort them by time"), "{error}");
}
