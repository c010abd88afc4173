//! Nobody starves: scenes in which a tenant once waited for half a minute behind those in time.
//!
//! One device of 450 requests a second, and two tenants of equal shares. `cargo test -p
//! evenkeel-sim --test it starving:: -- --nocapture` prints what each control and discipline makes
//! of them.

use evenkeel_core::control::member::Method;
use evenkeel_core::control::order::OVERDUE;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::Share;
use evenkeel_core::time::Span;
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::policy::{Depth, Discipline};
use evenkeel_sim::device::spec::{ConstantSpec, DeviceSpec};
use evenkeel_sim::fleet::draw::draw;
use evenkeel_sim::fleet::{Asks, Client, Fleet};
use evenkeel_sim::scenario::{Arrivals, Scenario, Workload};

use crate::fleet::{fleet, promised, server, tenant};
use crate::scenes::{DEVICE, clients, device, run, scene};

/// Requests that the device does in a second.
const DEVICE_PER_S: u64 = 450;

/// Two tenants, each with what it was promised and how it asks.
struct Scene {
    what: &'static str,
    tenants: [Share; 2],
    asks: [Asks; 2],
}

/// What a tenant had.
#[derive(Clone, Copy, Debug)]
struct Had {
    per_s: f64,
    mean_s: f64,
    longest: Span,
}

fn scenes() -> [Scene; 5] {
    let strict = Asks::Open(100.0);
    let always = Asks::Closed(32);
    [
        Scene {
            what: "30 ms, 100 a second; 200 ms, always 32",
            tenants: [promised(30), promised(200)],
            asks: [strict, always],
        },
        Scene {
            what: "30 ms, 100 a second; no goal, always 32",
            tenants: [promised(30), tenant(1)],
            asks: [strict, always],
        },
        Scene {
            what: "200 ms, always 32; no goal, always 32",
            tenants: [promised(200), tenant(1)],
            asks: [always, always],
        },
        Scene {
            what: "150 ms, always 64; no goal, always 32",
            tenants: [promised(150), tenant(1)],
            asks: [Asks::Closed(64), always],
        },
        Scene {
            what: "60 ms, 220 a second; no goal, always 32",
            tenants: [promised(60), tenant(1)],
            asks: [Asks::Open(220.0), always],
        },
    ]
}

impl Scene {
    /// Under a control, with both tenants at one gate or each at its own.
    fn under_control(&self, method: Method, gates: u32) -> [Had; 2] {
        let clients: Vec<Client> = (0..2)
            .map(|index: u32| Client::reads(index % gates, index, self.asks[index as usize]))
            .collect();
        let length = Span::from_secs(35);
        let fleet = Fleet { method, length, ..fleet(gates, &self.tenants, &clients) };
        let record = fleet.run(server(1, DEVICE_PER_S));
        [0, 1].map(|tenant| {
            let sum = record.sum(tenant, 5, 35);
            Had {
                per_s: sum.completions as f64 / 30.0,
                mean_s: sum.mean_s(),
                longest: record.longest(tenant, 5),
            }
        })
    }

    /// Under a discipline of one gate, at depth 11.
    fn under_discipline(&self, discipline: Discipline) -> [Had; 2] {
        let mut scenario = scene(&[1, 1], Depth::Requests(11));
        let scheduling = &mut scenario.policy.backends[0].scheduling;
        scheduling.discipline = discipline;
        scheduling.cost = CostModel::PerRequest;
        scheduling.capacity_iops = Some(DEVICE_PER_S);
        for (tenant, share) in scenario.policy.tenants.iter_mut().zip(self.tenants) {
            tenant.share = share;
        }
        let fixed = Span(1_000_000_000 / DEVICE_PER_S);
        let spec = ConstantSpec { fixed, rate_bytes: 0, ..DEVICE };
        let load = |(index, asks): (usize, Asks)| {
            let name = format!("t{index}");
            match asks {
                Asks::Closed(depth) => clients(&name, 1, depth),
                Asks::Open(per_second) => Workload {
                    arrivals: Arrivals::Poisson { per_second },
                    ..clients(&name, 1, 1024)
                },
            }
        };
        let scenario = Scenario {
            devices: vec![device("disk", DeviceSpec::Constant(spec))],
            workloads: self.asks.into_iter().enumerate().map(load).collect(),
            warm_up: Span::from_secs(5),
            length: Span::from_secs(30),
            interval: Span::from_secs(1),
            ..scenario
        };
        let summary = run(&scenario);
        [0, 1].map(|group: usize| {
            let traffic = &summary.groups[group].traffic;
            let latency = &traffic.latency;
            Had { per_s: traffic.iops, mean_s: latency.mean.as_secs_f64(), longest: latency.max }
        })
    }
}

/// Every control at one gate and at two, and the order of deadlines at one gate.
fn outcomes(scene: &Scene) -> Vec<(String, [Had; 2])> {
    let controls = Method::ALL.into_iter().flat_map(|method| [(method, 1), (method, 2)]);
    let under_control = |(method, gates): (Method, u32)| {
        (format!("{} {gates}", method.name()), scene.under_control(method, gates))
    };
    let alone = ("edf".to_owned(), scene.under_discipline(Discipline::Edf));
    controls.map(under_control).chain([alone]).collect()
}

/// Half of an equal share, of which some requests may be owed at the end.
const HALF_PER_S: f64 = DEVICE_PER_S as f64 / 4.0 - 0.5;

/// With deadlines nobody waits for more than four times its goal (twenty with `slack`), or four
/// seconds without one, and
/// who always asks has half its share, with or without a goal; at one gate and at two.
#[test]
fn nobody_waits_for_long_and_nobody_has_less_than_half_its_share() {
    for scene in scenes() {
        println!("{}", scene.what);
        for (name, had) in outcomes(&scene) {
            let row = had.map(|had| {
                let (mean_ms, longest_s) = (had.mean_s * 1e3, had.longest.as_secs_f64());
                format!("{:5.1} {mean_ms:6.1} ms {longest_s:6.3} s", had.per_s)
            });
            println!("  {name:9} | {} | {}", row[0], row[1]);
            // The others are as published: across gates they know no shares.
            if !["shares", "slack", "edf"].iter().any(|ours| name.starts_with(ours)) {
                continue;
            }
            for (tenant, had) in had.iter().enumerate() {
                let what = format!("{}, {name}, tenant {tenant}: {had:?}", scene.what);
                let goal = scene.tenants[tenant].latency_goal;
                let goal = if goal == Span::ZERO { Span::from_secs(1) } else { goal };
                let asked = match scene.asks[tenant] {
                    Asks::Open(per_s) => per_s * 0.95,
                    Asks::Closed(_) => f64::INFINITY,
                };
                assert!(had.per_s >= HALF_PER_S.min(asked), "{what}");
                // `slack` is there to be compared with, and is later about it.
                let goals = if name.starts_with("slack") { OVERDUE + 4 } else { 4 };
                assert!(had.longest <= Span(goals * goal.0), "{what}");
            }
        }
    }
}

/// Where plain deadlines keep a mean, the default control keeps it.
#[test]
fn the_default_control_keeps_every_mean_that_deadlines_keep() {
    for scene in scenes() {
        let edf = scene.under_discipline(Discipline::Edf);
        let shares = scene.under_control(Method::default(), 1);
        for ((edf, shares), share) in edf.iter().zip(&shares).zip(&scene.tenants) {
            let goal_s = share.latency_goal.as_secs_f64();
            let is_kept = |had: &Had| had.mean_s <= goal_s;
            assert!(!is_kept(edf) || is_kept(shares), "{}: {edf:?} {shares:?}", scene.what);
        }
    }
}

/// Fleets drawn by seeds, with goals from a millisecond to a second for two tenants of three: each
/// gate gives whoever has waited for its goal half its share of what the gate does, as the checker
/// of every run demands. Shares over gates are no matter of one gate; they have tests of their own.
#[test]
fn every_gate_of_a_fleet_gives_half_its_share_to_whoever_waited_for_its_goal() {
    let mut prng = Prng::new(36);
    for seed in 0..12 {
        let goals: Vec<Span> = (0..8)
            .map(|_| match prng.below(3) {
                0 => Span::ZERO,
                _ => Span::from_millis(1 << prng.below(11)),
            })
            .collect();
        for method in [Method::Slack, Method::Drg, Method::Parda, Method::Window] {
            let (mut fleet, device) = draw(200 + seed, method, Span::from_secs(5));
            for (tenant, goal) in fleet.tenants.iter_mut().zip(&goals) {
                tenant.latency_goal = *goal;
            }
            let record = fleet.run(device);
            assert!(record.depths.len() > 3, "it decides");
        }
    }
}
