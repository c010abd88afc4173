//! The talk's experiments in virtual time: real requests in a real gate, on devices that serve
//! their IOPS one request after the other.

use evenkeel_core::sched::Share;
use evenkeel_core::time::Span;
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::policy::{
    Backend, Depth, Discipline, Member, Mode, Moves, Policy, Scheduling, Source, Takeover, Tenant,
    Tiered,
};
use evenkeel_sim::device::spec::{ConstantSpec, DeviceSpec};
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::scenario::{BackendDevice, Scenario, WeightedSize, Workload};

use super::setup::{
    DEVICE_DEPTH, EXTENT_BYTES, Order, SIZE_BYTES, TIER_BYTES, TIERS, VOLUME, pattern,
};
use crate::simulate::run::refuse;

/// Requests that each tenant keeps under way: enough to keep both tiers busy at its hit ratio.
const DEPTH: u32 = 256;

/// An experiment.
#[derive(Clone, Debug)]
pub(super) struct Experiment {
    /// Requests per second of the slow and of the fast tier.
    pub(super) capacities: [f64; 2],
    pub(super) order: Order,
    /// By tenant.
    pub(super) tenants: Vec<Load>,
    pub(super) warm_up: Span,
    pub(super) length: Span,
    pub(super) seed: u64,
}

/// What a tenant asks for.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) weight_milli: u32,
    pub(super) hit_ratio: f64,
    /// The hit ratio from some instant on, warm-up included.
    pub(super) change: Option<(Span, f64)>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Requests per second, by tenant.
    pub(super) rates: Vec<f64>,
    /// Part of the time that each tier was busy.
    pub(super) busy: [f64; 2],
    /// The same, second by second.
    pub(super) busy_series: Vec<[f64; 2]>,
}

impl Load {
    /// A tenant of weight 1 with one hit ratio.
    pub(super) fn steady(hit_ratio: f64) -> Self {
        Self { weight_milli: 1000, hit_ratio, change: None }
    }
}

impl Experiment {
    /// Carries it out.
    pub(super) fn run(&self) -> anyhow::Result<Outcome> {
        let summary = evenkeel_sim::run(&self.scenario()).map_err(refuse)?;
        let rate = |tenant: usize| {
            let name = name(tenant);
            let groups = summary.groups.iter().filter(|group| group.name == name);
            groups.map(|group| group.traffic.iops).sum()
        };
        let [slow, fast] = [0, 1].map(|tier: usize| &summary.backends[tier]);
        let series = slow.series.iter().zip(&fast.series);
        Ok(Outcome {
            rates: (0..self.tenants.len()).map(rate).collect(),
            busy: [slow.busy, fast.busy],
            busy_series: series.map(|(slow, fast)| [slow.busy, fast.busy]).collect(),
        })
    }

    fn scenario(&self) -> Scenario {
        let loads = self.tenants.iter().enumerate();
        Scenario {
            policy: self.policy(),
            devices: (0..TIERS.len()).map(|tier| self.device(tier)).collect(),
            workloads: loads.flat_map(|(tenant, load)| load.workloads(&name(tenant))).collect(),
            warm_up: self.warm_up,
            length: self.length,
            interval: Span::from_secs(1),
            seed: self.seed,
            ..Scenario::default()
        }
    }

    fn policy(&self) -> Policy {
        let tier = |tier: usize| Backend {
            name: TIERS[tier].to_owned(),
            source: Source::Memory,
            scheduling: Scheduling {
                depth: Depth::Requests(DEVICE_DEPTH),
                cost: CostModel::PerRequest,
                capacity_iops: Some(whole(self.capacities[tier])),
                ..Scheduling::default()
            },
        };
        let part = |backend: &str| Member {
            backend: backend.to_owned(),
            device: String::new(),
            size_bytes: None,
        };
        let volume = Backend {
            name: VOLUME.to_owned(),
            source: Source::Tiered(Tiered {
                tiers: TIERS.map(part).to_vec(),
                extent_bytes: EXTENT_BYTES,
                moves: Moves::Off,
                takeover: Takeover::default(),
            }),
            scheduling: Scheduling {
                discipline: match self.order {
                    Order::Fair => Discipline::Fair,
                    Order::Drf => Discipline::Drf,
                    Order::Baa => Discipline::Baa,
                    Order::PerDevice => Discipline::Sfq,
                },
                ..Scheduling::default()
            },
        };
        let tenant = |(tenant, load): (usize, &Load)| Tenant {
            read_only: false,
            name: name(tenant),
            matches: Vec::new(),
            share: Share { weight_milli: load.weight_milli, ..Share::default() },
        };
        Policy {
            mode: Mode::Enforce,
            backends: vec![tier(0), tier(1), volume],
            tenants: self.tenants.iter().enumerate().map(tenant).collect(),
            ..Policy::default()
        }
    }

    fn device(&self, tier: usize) -> BackendDevice {
        let fixed = Span(1_000_000_000 / whole(self.capacities[tier]));
        BackendDevice {
            backend: TIERS[tier].to_owned(),
            device: DeviceSpec::Constant(ConstantSpec {
                size_bytes: TIER_BYTES[tier],
                fixed,
                rate_bytes: 0,
                servers: 1,
            }),
            link: LinkSpec::default(),
        }
    }
}

impl Load {
    /// One workload, or one before and one after the change.
    fn workloads(&self, tenant: &str) -> Vec<Workload> {
        let workload = |hit_ratio| Workload {
            name: tenant.to_owned(),
            tenant: Some(tenant.to_owned()),
            targets: vec![VOLUME.to_owned()],
            depth: DEPTH,
            sizes: vec![WeightedSize { size_bytes: SIZE_BYTES, weight: 1 }],
            pattern: pattern(hit_ratio),
            ..Workload::default()
        };
        let before = workload(self.hit_ratio);
        match self.change {
            None => vec![before],
            Some((at, hit_ratio)) => vec![
                Workload { stop: Some(at), ..before },
                Workload { start: at, ..workload(hit_ratio) },
            ],
        }
    }
}

fn name(tenant: usize) -> String {
    format!("tenant{}", tenant + 1)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of a device")]
fn whole(iops: f64) -> u64 {
    iops.round() as u64
}
