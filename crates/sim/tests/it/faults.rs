//! What tenants feel when something breaks.

use evenkeel_core::time::Span;
use evenkeel_engine::policy::Depth;
use evenkeel_sim::faults::{Fault, FaultKind, LinkPlace};
use evenkeel_sim::result::Summary;
use evenkeel_sim::scenario::Scenario;

use crate::scenes::{clients, close, run, scene, shares};

/// Two tenants, two to one, over three seconds, with a fault in the second one.
fn with(what: FaultKind) -> Scenario {
    let mut scenario = scene(&[2, 1], Depth::Requests(4));
    scenario.workloads = vec![clients("t0", 2, 8), clients("t1", 2, 8)];
    (scenario.warm_up, scenario.length) = (Span::ZERO, Span::from_secs(3));
    scenario.interval = Span::from_millis(500);
    scenario.faults = vec![Fault { what, start: Span::from_secs(1), length: Span::from_secs(1) }];
    scenario
}

fn disk() -> String {
    "disk".to_owned()
}

/// Requests of all tenants in each half of a second.
fn over_time(summary: &Summary) -> Vec<u64> {
    let of = |k: usize| summary.tenants.iter().map(|one| one.traffic.series[k].requests).sum();
    (0..6).map(of).collect()
}

#[test]
fn shares_outlast_a_slow_device() {
    let summary = run(&with(FaultKind::SlowDevice { backend: disk(), time_percent: 500 }));
    close(&shares(&summary), &[0.667, 0.333], 0.001);
    let rates = over_time(&summary);
    assert!(rates[2].abs_diff(rates[0] / 5) < 20, "{rates:?}");
    assert!(rates[4].abs_diff(rates[0]) < 20, "{rates:?}");
}

#[test]
fn no_request_is_lost_with_the_gate_that_held_it() {
    let summary = run(&with(FaultKind::GateRestart));
    let rates = over_time(&summary);
    assert_eq!(rates[2..4], [0, 0]);
    assert!(rates[4].abs_diff(rates[0]) < 20, "{rates:?}");
    let longest = summary.tenants[0].traffic.latency.max;
    assert!(longest > Span::from_secs(1), "clients waited and sent again: {longest}");
}

#[test]
fn a_lie_is_known_to_the_summary_though_not_to_the_gate() {
    let mut scenario = with(FaultKind::LyingDevice { backend: disk() });
    scenario.workloads[0].read_percent = 0;
    let summary = run(&scenario);
    let (disk, gate) = (&summary.backends[0], &summary.domains[0].tenants);
    assert!(disk.lies > 0 && disk.lied_bytes == disk.lies * 4096);
    assert!(gate.iter().all(|one| one.by_kind.iter().all(|kind| kind.failed_requests == 0)));
}

#[test]
fn errors_are_counted_apart_and_cost_their_service() {
    let summary = run(&with(FaultKind::FailingDevice { backend: disk(), permille: 500 }));
    for tenant in &summary.tenants {
        let traffic = &tenant.traffic;
        // Half of the requests in one third of the time.
        let part = traffic.errors as f64 / (traffic.errors + traffic.requests) as f64;
        assert!((part - 1.0 / 6.0).abs() < 0.01, "{}: {part}", tenant.name);
    }
    let cost: Vec<f64> = summary.tenants.iter().map(|tenant| tenant.share_cost).collect();
    close(&cost, &[0.667, 0.333], 0.001);
}

#[test]
fn a_disturbed_link_adds_its_delay_both_ways_while_it_lasts() {
    let place = LinkPlace::Workload("t0".to_owned());
    let delay = Span::from_millis(40);
    let mut scenario = with(FaultKind::Link { place, loss_ppm: 0, delay });
    scenario.workloads = vec![clients("t0", 1, 1), clients("t1", 1, 1)];
    let summary = run(&scenario);
    let [disturbed, other] = [0, 1].map(|k| summary.tenants[k].traffic.latency.max);
    assert!((80..81).contains(&(disturbed.0 / 1_000_000)), "{disturbed}");
    assert!(other < Span::from_millis(1), "{other}");
}
