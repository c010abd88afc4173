//! Random scenarios: no checker ever finds anything, and each runs alike twice.

use evenkeel_core::sched::{Limit, Share};
use evenkeel_core::time::Span;
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::policy::{
    Backend, Depth, Discipline, Group, MOVER_TENANT, Member, Mode, Moves, Policy, Scheduling,
    Sharing, Source, Takeover, Tenant, Tiered,
};
use evenkeel_sim::device::spec::{ConstantSpec, DelaySpec, DeviceSpec, RateSpec};
use evenkeel_sim::faults::{Fault, FaultKind, LinkPlace};
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::scenario::{
    Arrivals, BackendDevice, GateSpec, Layout, Pattern, Scenario, WeightedSize, Workload,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::scenes::{COST, backend, run};

const BACKENDS: [&str; 2] = ["b0", "b1"];

fn span_us(range: std::ops::Range<u64>) -> impl Strategy<Value = Span> {
    range.prop_map(Span::from_micros)
}

fn link() -> impl Strategy<Value = LinkSpec> {
    let busy = (0..3u64, 0..300u64, 0..20_000u32).prop_map(|(rate, delay, loss_ppm)| LinkSpec {
        rate_bytes: rate * 50_000_000,
        delay: Span::from_micros(delay),
        loss_ppm,
        retransmission: Span::from_millis(5),
    });
    prop_oneof![2 => Just(LinkSpec::default()), 1 => busy]
}

fn device() -> impl Strategy<Value = DeviceSpec> {
    let constant = (1..200u64, 0..3u64, 1..5u32).prop_map(|(fixed, rate, servers)| {
        DeviceSpec::Constant(ConstantSpec {
            size_bytes: 1 << 30,
            fixed: Span::from_micros(fixed),
            rate_bytes: rate * 300_000_000,
            servers,
        })
    });
    let rate = (10..2_000u64).prop_map(|mbit| {
        let spec = RateSpec { size_bytes: 1 << 30, rate_bits: mbit << 20, ..RateSpec::default() };
        DeviceSpec::Rate(RateSpec { burstiness: Span::from_millis(20), ..spec })
    });
    // Before one that takes no time at all closed loops never let time pass.
    let delay = (span_us(1..2_000), span_us(1..2_000)).prop_map(|(read, write)| {
        DeviceSpec::Delay(DelaySpec { size_bytes: 1 << 30, read, write, ..DelaySpec::default() })
    });
    prop_oneof![4 => constant, 1 => rate, 2 => delay]
}

fn scheduling() -> impl Strategy<Value = Scheduling> {
    let depth = prop_oneof![
        3 => (1..20u32).prop_map(Depth::Requests),
        1 => (64..512u64).prop_map(|kib| Depth::Bytes(kib << 10)),
        1 => Just(Depth::Automatic),
        1 => (1..4u32, 4..32u32, span_us(100..3_000)).prop_map(|(min, max, goal)| {
            Depth::Adaptive { min, max, read_goal: goal, write_goal: goal }
        }),
    ];
    let disciplines = vec![
        Discipline::Sfq,
        Discipline::Sfq,
        Discipline::Fifo,
        Discipline::Mclock,
        Discipline::Edf,
    ];
    let rest = (select(disciplines), 0..3u64, any::<bool>(), 0..4u32);
    (depth, rest).prop_map(|(depth, (discipline, hold, per_request, unit))| {
        let is_fit = discipline != Discipline::Fifo || matches!(depth, Depth::Requests(_));
        Scheduling {
            discipline: if is_fit { discipline } else { Discipline::Sfq },
            depth,
            hold: Span::from_millis(hold),
            cost: if per_request { CostModel::PerRequest } else { COST },
            unit_bytes: 4096 << unit,
            capacity_iops: None,
            ..Scheduling::default()
        }
    })
}

fn tenants() -> impl Strategy<Value = Vec<Tenant>> {
    let limit = prop_oneof![
        3 => Just(Limit::default()),
        1 => (100..20_000u64).prop_map(|rate_iops| Limit {
            rate_iops,
            burst_requests: 8,
            ..Limit::default()
        }),
        1 => (1..200u64).prop_map(|mib| Limit {
            rate_bytes: mib << 20,
            burst_bytes: 1 << 20,
            ..Limit::default()
        }),
    ];
    proptest::collection::vec((1..20u32, limit), 1..5).prop_map(|rows| {
        let tenant = |(index, (weight, limit)): (usize, (u32, Limit))| Tenant {
            read_only: false,
            name: format!("t{index}"),
            matches: Vec::new(),
            share: Share { weight_milli: weight * 500, limit, ..Share::default() },
        };
        rows.into_iter().enumerate().map(tenant).collect()
    })
}

fn workload(tenants: usize) -> impl Strategy<Value = Workload> {
    let arrivals = prop_oneof![
        2 => span_us(0..300).prop_map(|think| Arrivals::Closed { think }),
        2 => Just(Arrivals::Closed { think: Span::ZERO }),
        1 => (100..20_000u32).prop_map(|rate| Arrivals::Poisson { per_second: rate.into() }),
        1 => (100..20_000u32).prop_map(|rate| Arrivals::OnOff {
            per_second: rate.into(),
            on: Span::from_millis(7),
            off: Span::from_millis(13),
        }),
    ];
    let patterns = vec![Pattern::Uniform, Pattern::Sequential, Pattern::Zipf { theta: 0.99 }];
    let targets = vec![&BACKENDS[..1], &BACKENDS[1..], &BACKENDS[..]];
    let sizes = proptest::collection::vec((1..100u32, 1..4u32), 1..3);
    let counts = (0..tenants, 1..5u32, 1..24u32, 0..60u64, 0..3u32);
    let rest = (arrivals, select(patterns), select(targets), sizes, link(), 0..=100u8);
    (counts, rest, any::<bool>()).prop_map(|(counts, rest, is_striped)| {
        let (tenant, clients, depth, start_ms, flush_every) = counts;
        let (arrivals, pattern, targets, sizes, link, read_percent) = rest;
        let size =
            |(sectors, weight): (u32, u32)| WeightedSize { size_bytes: sectors * 512, weight };
        Workload {
            name: format!("load of t{tenant}"),
            tenant: Some(format!("t{tenant}")),
            targets: targets.iter().map(ToString::to_string).collect(),
            layout: if is_striped { Layout::Striped } else { Layout::Spread },
            clients,
            depth,
            arrivals,
            sizes: sizes.into_iter().map(size).collect(),
            pattern,
            read_percent,
            flush_every,
            start: Span::from_millis(start_ms),
            stop: (start_ms % 2 == 0).then(|| Span::from_millis(start_ms + 40)),
            idle: vec![Span::from_millis(30)..Span::from_millis(35)],
            link,
            ..Workload::default()
        }
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    let backend = || select(&BACKENDS[..]).prop_map(str::to_owned);
    let what = prop_oneof![
        (backend(), 100..900u32)
            .prop_map(|(backend, time_percent)| FaultKind::SlowDevice { backend, time_percent }),
        backend().prop_map(|backend| FaultKind::StuckDevice { backend }),
        (backend(), 0..=1000u32)
            .prop_map(|(backend, permille)| FaultKind::FailingDevice { backend, permille }),
        backend().prop_map(|backend| FaultKind::LyingDevice { backend }),
        Just(FaultKind::GateRestart),
        (backend(), 0..100_000u32, span_us(0..2_000)).prop_map(|(backend, loss_ppm, delay)| {
            FaultKind::Link { place: LinkPlace::Backend(backend), loss_ppm, delay }
        }),
    ];
    (what, 0..80u64, 0..40u64).prop_map(|(what, start_ms, length_ms)| Fault {
        what,
        start: Span::from_millis(start_ms),
        length: Span::from_millis(length_ms),
    })
}

/// The same on a volume of which both backends are tiers.
fn tiered() -> impl Strategy<Value = Scenario> {
    let disciplines = vec![Discipline::Sfq, Discipline::Fair, Discipline::Drf, Discipline::Baa];
    let moves = select(vec![Moves::Off, Moves::ByHeat]);
    (scenario(), select(disciplines), moves, 16..20u32).prop_map(
        |(mut scenario, discipline, moves, extent_bits)| {
            scenario.policy.groups.clear();
            for backend in &mut scenario.policy.backends {
                backend.scheduling.discipline = Discipline::Sfq;
                backend.scheduling.cost = COST;
            }
            let tier = |name: &str| Member {
                backend: name.to_owned(),
                device: String::new(),
                size_bytes: Some(32 << extent_bits),
            };
            let volume = Tiered {
                tiers: BACKENDS.map(tier).to_vec(),
                extent_bytes: 1 << extent_bits,
                moves,
                takeover: Takeover::default(),
            };
            scenario.policy.backends.push(Backend {
                name: "volume".to_owned(),
                source: Source::Tiered(volume),
                scheduling: Scheduling { discipline, ..Scheduling::default() },
            });
            for workload in &mut scenario.workloads {
                workload.targets = vec!["volume".to_owned()];
            }
            scenario
        },
    )
}

/// Two backends in the order of deadlines, some of whose tenants have goals.
fn with_goals() -> impl Strategy<Value = Scenario> {
    let goals = proptest::collection::vec(0..20_000u64, 5);
    (scenario(), goals).prop_map(|(mut scenario, goals_us)| {
        scenario.policy.groups.clear();
        for backend in &mut scenario.policy.backends {
            backend.scheduling.discipline = Discipline::Edf;
        }
        for (tenant, goal_us) in scenario.policy.tenants.iter_mut().zip(goals_us) {
            // A quarter has none, and none is below what an idle device takes.
            let goal_us = goal_us.checked_sub(5_000).map_or(0, |above_us| 1_000 + above_us);
            tenant.share.latency_goal = Span::from_micros(goal_us);
        }
        scenario
    })
}

/// Slow backends for some seconds, so that requests without a goal wait for as long as they may.
fn slow() -> impl Strategy<Value = Scenario> {
    let fixed = (span_us(1_000..20_000), 1..4u32);
    let base = prop_oneof![2 => scenario().boxed(), 1 => with_goals().boxed()];
    (base, fixed).prop_map(|(mut scenario, (fixed, servers))| {
        scenario.policy.mode = Mode::Enforce;
        for one in &mut scenario.devices {
            let size_bytes = 1 << 30;
            one.device =
                DeviceSpec::Constant(ConstantSpec { size_bytes, fixed, rate_bytes: 0, servers });
        }
        for tenant in &mut scenario.policy.tenants {
            tenant.share.latency_goal = Span(tenant.share.latency_goal.0 * 20);
        }
        for workload in &mut scenario.workloads {
            workload.depth *= 8;
            workload.stop = workload.stop.map(|stop| Span(stop.0 * 40));
            workload.idle.clear();
        }
        scenario.length = Span::from_secs(4);
        scenario.interval = Span::from_secs(1);
        scenario
    })
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let mode =
        select(vec![Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Observe, Mode::Shadow]);
    let sharing = select(vec![
        None,
        None,
        Some(Sharing::Local),
        Some(Sharing::Total),
        Some(Sharing::Hybrid { min_share_milli: 300 }),
        Some(Sharing::Total),
    ]);
    let storage = [(device(), link(), scheduling()), (device(), link(), scheduling())];
    let head = (mode, sharing, storage, tenants());
    head.prop_flat_map(|(mode, sharing, storage, tenants)| {
        let workloads = proptest::collection::vec(workload(tenants.len()), 1..5);
        let faults = proptest::collection::vec(fault(), 0..4);
        let head = (Just((mode, sharing, storage)), Just(tenants));
        (head, workloads, faults, span_us(0..20), any::<u64>())
    })
    .prop_map(
        |(((mode, sharing, storage), tenants), workloads, faults, request_time, seed)| {
            let backends = BACKENDS.iter().zip(&storage);
            // Only fair queuing gives shares that could count together, and only in one measure.
            let kinds = storage.each_ref().map(|(.., one)| (one.discipline, one.cost));
            let fits = kinds[0] == kinds[1] && kinds[0].0 == Discipline::Sfq;
            let sharing = sharing.filter(|_| fits);
            let group = |sharing| Group {
                name: "both".to_owned(),
                backends: BACKENDS.map(str::to_owned).to_vec(),
                sharing,
                is_exchanged: false,
            };
            Scenario {
                policy: Policy {
                    mode,
                    backends: backends
                        .clone()
                        .map(|(name, one)| backend(name, one.2.clone()))
                        .collect(),
                    groups: sharing.map(group).into_iter().collect(),
                    tenants,
                    ..Policy::default()
                },
                devices: backends
                    .map(|(name, (device, link, _))| BackendDevice {
                        backend: (*name).to_owned(),
                        device: device.clone(),
                        link: *link,
                    })
                    .collect(),
                gate: GateSpec { request_time },
                workloads,
                faults,
                warm_up: Span::from_millis(10),
                length: Span::from_millis(80),
                interval: Span::from_millis(10),
                seed,
                ..Scenario::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_random_scenario_breaks_no_rule_and_repeats_itself(
        scenario in prop_oneof![
            4 => scenario().boxed(),
            2 => tiered().boxed(),
            1 => with_goals().boxed(),
            1 => slow().boxed(),
        ],
    ) {
        let summary = run(&scenario);
        let clients = summary.tenants.iter().filter(|tenant| tenant.name != MOVER_TENANT);
        let by_tenant: u64 = clients.map(|tenant| tenant.traffic.bytes).sum();
        let by_group: u64 = summary.groups.iter().map(|group| group.traffic.bytes).sum();
        prop_assert_eq!(by_tenant, by_group);
        let errors: u64 = summary.groups.iter().map(|group| group.traffic.errors).sum();
        let is_failing =
            |fault: &Fault| matches!(fault.what, FaultKind::FailingDevice { .. });
        prop_assert!(errors == 0 || scenario.faults.iter().any(is_failing));
        for group in &summary.groups {
            // What ended in the measured time or after it arrived in it, or in the warm-up.
            let series = group.traffic.series.iter().chain(&group.traffic.drain_series);
            let ended: u64 = series.map(|one| one.requests).sum();
            prop_assert!(ended >= group.traffic.requests);
            if scenario.warm_up == Span::ZERO {
                prop_assert_eq!(ended, group.traffic.requests);
            }
            prop_assert_eq!(group.traffic.latency.histogram.count(), group.traffic.requests);
        }
    }
}
