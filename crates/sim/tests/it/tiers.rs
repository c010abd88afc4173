//! Tiered volumes in virtual time: requests go where their bytes lie, and nothing of them is lost.

use evenkeel_core::time::Span;
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::policy::{
    Backend, Depth, Discipline, MOVER_TENANT, Member, Mode, Moves, Policy, Scheduling, Source,
    Takeover, Tenant, Tiered,
};
use evenkeel_engine::tiers::layout::{Layout, RESERVE_SLOTS};
use evenkeel_sim::device::spec::{ConstantSpec, DeviceSpec};
use evenkeel_sim::faults::{Fault, FaultKind};
use evenkeel_sim::scenario::{Pattern, Scenario, WeightedSize, Workload};

use crate::scenes::{backend, close, device, run};

const EXTENT_BYTES: u64 = 64 << 10;
const TIER_BYTES: [u64; 2] = [16 << 20, 4 << 20];

/// Bytes of the volume that lie on the fast tier at first: the first ones.
fn fast_bytes() -> u64 {
    let layout = Layout::plan(EXTENT_BYTES, &TIER_BYTES).expect("the tiers have room");
    u64::from(layout.tiers[1].slots - RESERVE_SLOTS) * EXTENT_BYTES
}

/// A device that serves so many requests per second, one after the other.
fn rated(size_bytes: u64, iops: u64) -> DeviceSpec {
    let fixed = Span(1_000_000_000 / iops);
    DeviceSpec::Constant(ConstantSpec { size_bytes, fixed, rate_bytes: 0, servers: 1 })
}

fn scheduling(iops: u64) -> Scheduling {
    Scheduling {
        depth: Depth::Requests(4),
        cost: CostModel::PerRequest,
        capacity_iops: Some(iops),
        ..Scheduling::default()
    }
}

/// A volume over 200 and 5,000 requests per second, and these workloads on it as tenants of their
/// own names.
fn scene(discipline: Discipline, moves: Moves, workloads: Vec<Workload>) -> Scenario {
    let tier =
        |name: &str| Member { backend: name.to_owned(), device: String::new(), size_bytes: None };
    let volume = Tiered {
        tiers: vec![tier("slow"), tier("fast")],
        extent_bytes: EXTENT_BYTES,
        moves,
        takeover: Takeover::default(),
    };
    let tenant = |workload: &Workload| Tenant {
        read_only: false,
        name: workload.name.clone(),
        matches: Vec::new(),
        share: evenkeel_core::sched::Share::default(),
    };
    Scenario {
        policy: Policy {
            mode: Mode::Enforce,
            backends: vec![
                backend("slow", scheduling(200)),
                backend("fast", scheduling(5000)),
                Backend {
                    name: "volume".to_owned(),
                    source: Source::Tiered(volume),
                    scheduling: Scheduling { discipline, ..Scheduling::default() },
                },
            ],
            tenants: workloads.iter().map(tenant).collect(),
            ..Policy::default()
        },
        devices: vec![
            device("slow", rated(TIER_BYTES[0], 200)),
            device("fast", rated(TIER_BYTES[1], 5000)),
        ],
        workloads,
        warm_up: Span::from_secs(2),
        length: Span::from_secs(10),
        ..Scenario::default()
    }
}

/// Reads of which the fast tier serves so many of a million.
fn hits(name: &str, requests_ppm: u32) -> Workload {
    Workload {
        name: name.to_owned(),
        tenant: Some(name.to_owned()),
        targets: vec!["volume".to_owned()],
        depth: 32,
        pattern: Pattern::Hot { hot_bytes: fast_bytes(), requests_ppm },
        ..Workload::default()
    }
}

#[test]
fn the_hot_part_is_served_by_the_fast_tier_and_the_rest_by_the_slow_one() {
    for requests_ppm in [0, 900_000, 1_000_000] {
        let load = vec![hits("a", requests_ppm)];
        let summary = run(&scene(Discipline::Sfq, Moves::Off, load));
        let [slow, fast] = [0, 1].map(|tier: usize| summary.backends[tier].units as f64);
        let ratio = f64::from(requests_ppm) / 1e6;
        close(&[fast / (slow + fast)], &[ratio], 0.01);
        assert_eq!(summary.backends.len(), 2, "the volume itself is no device");
    }
}

#[test]
fn requests_over_several_extents_and_flushes_reach_all_their_tiers() {
    let mix = Workload {
        sizes: vec![WeightedSize { size_bytes: 300 << 10, weight: 1 }],
        pattern: Pattern::Uniform,
        read_percent: 0,
        flush_every: 4,
        depth: 4,
        requests: Some(400),
        ..hits("a", 0)
    };
    let summary = run(&scene(Discipline::Sfq, Moves::Off, vec![mix]));
    let traffic = &summary.groups[0].traffic;
    assert_eq!((traffic.errors, summary.requests_in_all), (0, 400));
    let units: Vec<u64> = summary.backends.iter().map(|backend| backend.units).collect();
    assert!(units.iter().all(|&units| units > 80), "flushes alone are so many: {units:?}");
    assert!(summary.backends.iter().all(|backend| backend.series.len() == 10));
}

#[test]
fn a_gate_that_comes_back_opens_its_volume_again() {
    let mut scenario = scene(Discipline::Sfq, Moves::ByHeat, vec![hits("a", 100_000)]);
    let restart = |at| Fault {
        what: FaultKind::GateRestart,
        start: Span::from_millis(at),
        length: Span::from_millis(300),
    };
    scenario.faults = vec![restart(4_000), restart(7_010)];
    let summary = run(&scenario);
    assert!(summary.groups[0].traffic.requests > 1_000);
}

#[test]
fn tiers_that_are_too_small_are_refused_by_name() {
    let mut scenario = scene(Discipline::Sfq, Moves::Off, vec![hits("a", 0)]);
    scenario.devices[1] = device("fast", rated(100 << 10, 5000));
    let error = evenkeel_sim::run(&scenario).unwrap_err().to_string();
    assert!(error.contains("\"volume\"") && error.contains("fast"), "{error}");
    let mut scenario = scene(Discipline::Sfq, Moves::Off, vec![hits("a", 0)]);
    scenario.devices.push(device("volume", rated(1 << 20, 100)));
    let error = evenkeel_sim::run(&scenario).unwrap_err().to_string();
    assert!(error.contains("its tiers have devices"), "{error}");
}

#[test]
fn what_is_asked_for_often_moves_to_the_fast_tier_and_keeps_its_contents() {
    let mix = Workload {
        pattern: Pattern::Zipf { theta: 0.99 },
        read_percent: 70,
        range: Some(fast_bytes()..fast_bytes() + (8 << 20)),
        ..hits("a", 0)
    };
    let mut scenario = scene(Discipline::Sfq, Moves::ByHeat, vec![mix]);
    scenario.length = Span::from_secs(60);
    let summary = run(&scenario);
    let mover = summary.tenants.iter().find(|tenant| tenant.name == MOVER_TENANT).unwrap();
    assert!(mover.traffic.requests > 10, "{mover:?}");
    let hits: Vec<u64> = summary.backends[1].series.iter().map(|one| one.units).collect();
    assert!(hits[59] > hits[0] + 100, "nothing of it was fast at first: {hits:?}");
}
