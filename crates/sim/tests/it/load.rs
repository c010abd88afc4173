//! What clients do: loops, bursts, barriers and recorded traces.

use evenkeel_core::sched::Limit;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::{Depth, Export, Match, Sharing};
use evenkeel_sim::device::spec::{ConstantSpec, DelaySpec, DeviceSpec};
use evenkeel_sim::result::Summary;
use evenkeel_sim::scenario::{Arrivals, Layout, Replay, ReplayTiming, Route, Scenario, Workload};
use evenkeel_sim::{SimError, run_observed};
use evenkeel_trace::{Record, SourceId};

use crate::scenes::{backend, clients, close, device, run, scene, shares};

/// Tenants of equal weight on a device of 100 us a request.
fn plain(tenants: usize) -> Scenario {
    let mut scenario = scene(&vec![1; tenants], Depth::Requests(4));
    let spec = ConstantSpec { size_bytes: 1 << 30, ..ConstantSpec::default() };
    scenario.devices = vec![device("disk", DeviceSpec::Constant(spec))];
    scenario
}

#[test]
fn think_time_slows_a_closed_loop_down() {
    let mut scenario = plain(1);
    let arrivals = Arrivals::Closed { think: Span::from_micros(900) };
    scenario.workloads = vec![Workload { arrivals, ..clients("t0", 1, 2) }];
    let traffic = &run(&scenario).tenants[0].traffic;
    assert!((traffic.iops - 2_000.0).abs() < 2.0, "100 us and 900 us, twice: {}", traffic.iops);
}

#[test]
fn an_open_loop_is_charged_for_every_request_that_a_full_client_kept_waiting() {
    let mut scenario = plain(1);
    scenario.warm_up = Span::ZERO;
    let arrivals = Arrivals::Constant { per_second: 20_000.0 };
    scenario.workloads = vec![Workload { arrivals, ..clients("t0", 1, 4) }];
    let traffic = run(&scenario).tenants[0].traffic.clone();
    // Twice what the device can do: the last one of two seconds has waited for two of them.
    assert_eq!(traffic.requests, 40_000, "all that were due, answered or not by the end");
    assert!((1.99..2.01).contains(&traffic.latency.max.as_secs_f64()), "{}", traffic.latency.max);
    assert!((0.99..1.01).contains(&traffic.latency.mean.as_secs_f64()), "{}", traffic.latency.mean);
    assert!((1.99..2.01).contains(&traffic.drain.as_secs_f64()), "{}", traffic.drain);
    assert!((traffic.iops - 10_000.0).abs() < 10.0, "what the device does: {}", traffic.iops);
}

#[test]
fn a_barrier_waits_for_the_slowest_server() {
    let mut scenario = plain(1);
    scenario.policy.backends.push(backend("slow", scenario.policy.backends[0].scheduling.clone()));
    let fixed = Span::from_micros(400);
    let spec = ConstantSpec { size_bytes: 1 << 30, fixed, ..ConstantSpec::default() };
    scenario.devices.push(device("slow", DeviceSpec::Constant(spec)));
    scenario.workloads = vec![Workload {
        targets: vec!["disk".to_owned(), "slow".to_owned()],
        layout: Layout::Striped,
        ..clients("t0", 1, 1)
    }];
    let summary = run(&scenario);
    let traffic = &summary.tenants[0].traffic;
    assert_eq!(traffic.latency.mean, fixed);
    assert_eq!(traffic.bytes, 2 * 4096 * traffic.requests, "the size goes to each target");
    assert!((summary.backends[0].busy - 0.25).abs() < 0.001);
}

#[test]
fn a_number_of_requests_ends_a_workload() {
    let mut scenario = plain(1);
    scenario.warm_up = Span::ZERO;
    scenario.workloads = vec![Workload { requests: Some(777), ..clients("t0", 3, 5) }];
    let summary = run(&scenario);
    assert_eq!((summary.tenants[0].traffic.requests, summary.requests_in_all), (777, 777));
}

#[test]
fn exports_place_requests_and_the_policy_tells_whose_they_are() {
    let mut scenario = plain(2);
    let export = |(name, offset_bytes): (&str, u64)| Export {
        allow: None,
        name: name.to_owned(),
        backend: "disk".to_owned(),
        source: None,
        offset_bytes,
        size_bytes: Some(1 << 20),
        read_only: false,
        description: None,
    };
    scenario.policy.exports = [("db-1", 0), ("logs", 1 << 20)].map(export).to_vec();
    scenario.policy.tenants[1].matches = vec![Match::Export("db-*".to_owned())];
    let targets = vec!["db-1".to_owned(), "logs".to_owned()];
    scenario.workloads = vec![Workload { tenant: None, targets, ..clients("t0", 2, 4) }];
    let summary = run(&scenario);
    let names: Vec<&str> = summary.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
    assert_eq!(names, ["default", "t1"], "who matches nothing is the default tenant");
    close(&shares(&summary), &[0.5, 0.5], 0.01);
}

#[test]
fn total_shares_count_over_all_servers() {
    let mut scenario = plain(2);
    scenario.policy.backends.push(backend("two", scenario.policy.backends[0].scheduling.clone()));
    let spec = scenario.devices[0].device.clone();
    scenario.devices.push(device("two", spec));
    scenario.policy.groups = vec![evenkeel_engine::policy::Group {
        name: "both".to_owned(),
        backends: vec!["disk".to_owned(), "two".to_owned()],
        sharing: Sharing::Total,
        is_exchanged: false,
    }];
    let on_two = Workload { targets: vec!["two".to_owned()], ..clients("t1", 1, 32) };
    scenario.workloads = vec![clients("t0", 1, 32), clients("t1", 1, 32), on_two];
    scenario.warm_up = Span::from_millis(500);
    close(&shares(&run(&scenario)), &[0.5, 0.5], 0.02);
}

#[test]
fn a_limit_holds_to_one_part_in_a_thousand() {
    let mut scenario = plain(1);
    let limit = Limit { rate_iops: 1_500, burst_requests: 10, ..Limit::default() };
    scenario.policy.tenants[0].share.limit = limit;
    scenario.workloads = vec![clients("t0", 1, 32)];
    let iops = run(&scenario).tenants[0].traffic.iops;
    assert!((iops - 1_500.0).abs() < 1.5, "{iops}");
}

/// So many records of two sources in turn, 200 us apart.
fn records(count: u64) -> impl Iterator<Item = Record> {
    (0..count).map(|k| Record {
        at: Nanos(k * 200_000),
        source: SourceId(u32::from(k % 2 == 1)),
        kind: if k % 4 == 0 { Kind::Write } else { Kind::Read },
        offset: k * 4096,
        length: 4096,
        response: None,
    })
}

fn replay(timing: ReplayTiming, count: u64) -> Summary {
    let mut scenario = plain(2);
    scenario.warm_up = Span::ZERO;
    let route = |tenant: &str| Route { tenant: Some(tenant.to_owned()), target: "disk".to_owned() };
    scenario.replays = vec![Replay {
        name: "trace".to_owned(),
        routes: vec![route("t0")],
        otherwise: Some(route("t1")),
        timing,
        start: Span::from_millis(100),
        stop: None,
        window: None,
        continues: false,
        link: evenkeel_sim::link::LinkSpec::default(),
    }];
    let stream = || vec![Box::new(records(count)) as Box<dyn Iterator<Item = Record>>];
    let [one, other] =
        [(); 2].map(|()| run_observed(&scenario, stream(), &mut |_| ()).expect("it can run"));
    assert_eq!(one.log_hash, other.log_hash);
    one
}

#[test]
fn a_trace_keeps_its_pace_and_its_sources_apart() {
    let summary = replay(ReplayTiming::default(), 1000);
    let counts: Vec<u64> = summary.tenants.iter().map(|tenant| tenant.traffic.requests).collect();
    assert_eq!(counts, [500, 500]);
    assert_eq!(summary.groups[0].traffic.writes, 250);
    assert_eq!(summary.groups[0].traffic.latency.max, Span::from_micros(100), "nothing queues");
    assert_eq!(summary.ended, Span(100_000_000 + 999 * 200_000 + 100_000));
}

#[test]
fn a_trace_can_be_hurried_and_ends_with_the_run() {
    let summary = replay(ReplayTiming::Recorded { speed_milli: 4000 }, 1000);
    assert!(summary.groups[0].traffic.latency.max > Span::from_millis(45), "it queues now");
    let endless = replay(ReplayTiming::default(), u64::MAX / 1_000_000);
    assert_eq!(endless.groups[0].traffic.requests, 9_500, "1.9 s at 200 us");
}

#[test]
fn a_trace_in_a_closed_loop_goes_as_fast_as_the_device() {
    let summary = replay(ReplayTiming::Closed { depth: 3, think: Span::ZERO }, 1000);
    assert_eq!(summary.ended, Span(100_000_000 + 1000 * 100_000));
    assert_eq!(summary.groups[0].traffic.latency.p50.0 / 1_000, 300);
}

#[test]
fn a_client_that_thinks_leaves_its_place_empty_meanwhile() {
    let think = Span::from_micros(300);
    let summary = replay(ReplayTiming::Closed { depth: 1, think }, 1000);
    assert_eq!(summary.ended, Span(100_000_000 + 1000 * 100_000 + 999 * 300_000));
    let summary = replay(ReplayTiming::Closed { depth: 4, think }, 1000);
    assert_eq!(summary.ended, Span(100_000_000 + 1000 * 100_000), "one is with the device always");
}

#[test]
fn what_waits_for_a_window_counts_its_waiting() {
    let mut scenario = plain(1);
    scenario.warm_up = Span::ZERO;
    let route = Route { tenant: Some("t0".to_owned()), target: "disk".to_owned() };
    scenario.replays = vec![Replay {
        name: "trace".to_owned(),
        routes: vec![route],
        otherwise: None,
        timing: ReplayTiming::Closed { depth: 8, think: Span::ZERO },
        start: Span::ZERO,
        stop: None,
        window: Some(2),
        continues: false,
        link: evenkeel_sim::link::LinkSpec::default(),
    }];
    let stream = vec![Box::new(records(1000)) as Box<dyn Iterator<Item = Record>>];
    let summary = run_observed(&scenario, stream, &mut |_| ()).expect("it can run");
    assert_eq!(summary.ended, Span(500 * 100_000), "every other record is of this source");
    assert_eq!(summary.groups[0].traffic.latency.p50.0 / 1_000, 800, "all eight wait");
    assert_eq!(summary.backends[0].in_service_max, 2, "two are with the device");
}

#[test]
fn a_replay_that_continues_another_waits_for_its_places() {
    let mut scenario = plain(1);
    scenario.policy.mode = evenkeel_engine::policy::Mode::Observe;
    scenario.warm_up = Span::ZERO;
    let route = || Route { tenant: Some("t0".to_owned()), target: "disk".to_owned() };
    let replay = |name: &str, start_ms, stop_ms, continues| Replay {
        name: name.to_owned(),
        routes: vec![route()],
        otherwise: Some(route()),
        timing: ReplayTiming::Closed { depth: 8, think: Span::ZERO },
        start: Span::from_millis(start_ms),
        stop: Some(Span::from_millis(stop_ms)),
        window: None,
        continues,
        link: evenkeel_sim::link::LinkSpec::default(),
    };
    let most = |continues| {
        let mut scenario = scenario.clone();
        scenario.replays = vec![replay("a", 0, 10, false), replay("b", 10, 20, continues)];
        let stream = || Box::new(records(u64::MAX / 1_000_000)) as Box<dyn Iterator<Item = Record>>;
        let summary = run_observed(&scenario, vec![stream(), stream()], &mut |_| ());
        summary.expect("it can run").backends[0].in_service_max
    };
    assert_eq!(most(false), 16, "both have eight at the change");
    assert_eq!(most(true), 8);
}

#[test]
fn a_run_is_recorded_as_a_gate_records() {
    let mut scenario = plain(2);
    scenario.warm_up = Span::ZERO;
    scenario.workloads = vec![clients("t0", 1, 4), clients("t1", 1, 1)];
    let (summary, recording) = evenkeel_sim::run_recorded(&scenario).expect("it can run");
    assert_eq!(recording.records.len() as u64, summary.requests_in_all);
    assert_eq!(recording.sources.names(), ["t0/disk", "t1/disk"]);
    let last = recording.records.last().expect("there are some");
    assert!(last.response.expect("it was answered") > Span::ZERO);
    assert!(recording.records.is_sorted_by_key(|record| record.at));
}

#[test]
fn what_cannot_run_is_refused_with_place_and_reason() {
    let refusal = |change: fn(&mut Scenario)| {
        let mut scenario = plain(1);
        scenario.workloads = vec![clients("t0", 1, 1)];
        change(&mut scenario);
        match evenkeel_sim::run(&scenario) {
            Err(SimError::Scenario(fault)) => fault.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let unknown = refusal(|scenario| scenario.workloads[0].targets[0] = "disc".to_owned());
    assert_eq!(unknown, "workload \"t0\": the policy has no export or backend \"disc\"");
    assert!(refusal(|scenario| scenario.devices.clear()).contains("has 0 devices"));
    assert!(refusal(|scenario| scenario.workloads[0].depth = 0).contains("depth"));
    assert!(refusal(|scenario| scenario.length = Span::ZERO).contains("length is zero"));
    let range = refusal(|scenario| scenario.workloads[0].range = Some(0..1 << 40));
    assert!(range.contains("leaves its target of 1073741824 bytes"), "{range}");
    let standstill = refusal(|scenario| {
        let device = DelaySpec { read: Span::ZERO, write: Span::ZERO, ..DelaySpec::default() };
        scenario.devices[0].device = DeviceSpec::Delay(device);
        scenario.gate.request_time = Span::ZERO;
    });
    assert!(standstill.contains("no time passes after 0 ns"), "{standstill}");
    let lost = refusal(|scenario| {
        scenario.replays.push(Replay {
            name: "trace".to_owned(),
            routes: Vec::new(),
            otherwise: None,
            timing: ReplayTiming::default(),
            start: Span::ZERO,
            stop: None,
            window: None,
            continues: false,
            link: evenkeel_sim::link::LinkSpec::default(),
        });
    });
    assert!(lost.contains("no route"), "{lost}");
}
