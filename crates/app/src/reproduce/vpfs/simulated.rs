//! The same experiments in virtual time: four nbdkit servers, a gate before each, striped clients.
//!
//! A gate before each server is one policy with four backends that are in no group: each backend is
//! a scheduling domain of its own and knows nothing of the others.

use evenkeel_core::sched::Share;
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::policy::{
    Address, Backend, Depth, Mode, NbdServer, Policy, Scheduling, Source, Tenant, Upstream,
};
use evenkeel_sim::device::spec::{DeviceSpec, NbdkitService, RateSpec};
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::result::Summary;
use evenkeel_sim::scenario::{BackendDevice, Layout, Pattern, Scenario, WeightedSize, Workload};

use super::cluster::APPLICATIONS;
use super::shares::{Experiment, Outcome};
use super::{SERVERS, Scale};
use crate::simulate::run::refuse;
use crate::status::Window;

/// Connections of a gate to its server, as the policy file gives it unless told.
const CONNECTIONS: u32 = 4;

/// Carries an experiment out on servers of `rate_bytes` per second.
pub(super) fn run(
    experiment: &Experiment,
    rate_bytes: u64,
    scale: &Scale,
) -> anyhow::Result<Outcome> {
    let scenario = Scenario {
        policy: policy(experiment),
        devices: servers()
            .map(|backend| BackendDevice {
                backend,
                device: device(rate_bytes),
                link: LinkSpec::default(),
            })
            .collect(),
        workloads: [0, 1].map(|index| workload(experiment, index)).into(),
        warm_up: scale.ramp,
        length: scale.runtime,
        seed: scale.seed,
        ..Scenario::default()
    };
    let summary = evenkeel_sim::run(&scenario).map_err(refuse)?;
    let seconds = summary.measured.as_secs_f64().max(1e-9);
    let bytes = [0, 1].map(|index: usize| summary.groups[index].traffic.delivered_bytes as f64);
    Ok(Outcome {
        ratio: bytes[0] / bytes[1].max(1.0),
        rates: bytes.map(|bytes| bytes / seconds),
        windows: APPLICATIONS.map(|name| window(&summary, name)),
    })
}

fn servers() -> impl Iterator<Item = String> {
    (0..SERVERS).map(|index| format!("data{index}"))
}

fn policy(experiment: &Experiment) -> Policy {
    let backend = |name| Backend {
        name,
        source: Source::Upstream(Upstream {
            allow: None,
            address: Address::Unix("simulated".into()),
            tls: None,
            connections: CONNECTIONS,
            passthrough: false,
            writes_survive_restart: false,
            patience: evenkeel_core::time::Span::from_secs(30),
            late: None,
            request_timeout: Upstream::REQUEST_TIMEOUT,
            server: NbdServer::Other,
            metrics: None,
        }),
        scheduling: Scheduling {
            depth: Depth::Requests(experiment.settings.depth),
            hold: experiment.settings.hold,
            cost: CostModel::PerRequest,
            ..Scheduling::default()
        },
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small ratio")]
    let weight_milli = [(experiment.target * 1000.0).round() as u32, 1000];
    let tenant = |(name, weight_milli): (&str, u32)| Tenant {
        read_only: false,
        name: name.to_owned(),
        matches: Vec::new(),
        share: Share { weight_milli, ..Share::default() },
    };
    Policy {
        mode: Mode::Enforce,
        backends: servers().map(backend).collect(),
        tenants: APPLICATIONS.into_iter().zip(weight_milli).map(tenant).collect(),
        ..Policy::default()
    }
}

fn device(rate_bytes: u64) -> DeviceSpec {
    DeviceSpec::Rate(RateSpec {
        size_bytes: 1 << 30,
        rate_bits: rate_bytes * 8,
        service: NbdkitService { connections: CONNECTIONS, ..NbdkitService::default() },
        ..RateSpec::default()
    })
}

fn workload(experiment: &Experiment, index: usize) -> Workload {
    Workload {
        name: APPLICATIONS[index].to_owned(),
        tenant: Some(APPLICATIONS[index].to_owned()),
        targets: servers().collect(),
        layout: Layout::Striped,
        clients: experiment.clients[index],
        sizes: vec![WeightedSize { size_bytes: experiment.size_kib << 10, weight: 1 }],
        pattern: Pattern::Sequential,
        read_percent: 0,
        ..Workload::default()
    }
}

/// The gates' last window, the mean over the gates.
fn window(summary: &Summary, name: &str) -> Window {
    let mut sum = Window::default();
    let tenants = summary.domains.iter().flat_map(|domain| &domain.tenants);
    for tenant in tenants.filter(|tenant| tenant.name == name) {
        sum.delivered += tenant.window.delivered;
        sum.entitled += tenant.window.entitled;
        sum.attainable += tenant.window.attainable;
        sum.backlogged += tenant.window.backlogged;
    }
    let count = summary.domains.len().max(1) as f64;
    for value in [&mut sum.delivered, &mut sum.entitled, &mut sum.attainable, &mut sum.backlogged] {
        *value /= count;
    }
    sum
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;

    use super::super::cluster::Settings;
    use super::super::shares::{Bounds, Experiment};
    use super::*;
    use crate::reproduce::claim::Verdict;

    #[test]
    fn sixteen_to_one_holds_in_virtual_time() {
        let experiment = Experiment {
            target: 16.0,
            clients: [32, 32],
            size_kib: 64,
            settings: Settings::CHOSEN,
        };
        let scale = Scale { runtime: Span::from_secs(5), ..Scale::full(1) };
        let outcome = run(&experiment, 28_000_000, &scale).unwrap();
        let claim = outcome.claim("16:1".to_owned(), 10.13, Bounds::around(16.0, 0.05));
        assert_eq!(claim.verdict, Verdict::Holds, "{claim:?}");
    }
}
