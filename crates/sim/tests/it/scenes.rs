//! Building blocks of scenarios.

use evenkeel_core::sched::Share;
use evenkeel_core::time::Span;
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{Backend, Depth, Mode, Policy, Scheduling, Source, Tenant};
use evenkeel_sim::device::spec::{ConstantSpec, DeviceSpec};
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::result::Summary;
use evenkeel_sim::scenario::{BackendDevice, Scenario, Workload};

/// A constant-rate device of one server: 50 us a request and 1 GB/s.
pub(crate) const DEVICE: ConstantSpec = ConstantSpec {
    size_bytes: 16 << 30,
    fixed: Span::from_micros(50),
    rate_bytes: 1_000_000_000,
    servers: 1,
};

/// The cost model that fits [`DEVICE`].
pub(crate) const COST: CostModel = {
    let line = Line { fixed: Span::from_micros(50), rate_bytes: 1_000_000_000 };
    CostModel::Linear { read: line, write: line, flush: Span::from_micros(50) }
};

/// Enforced shares on one backend `disk` of the constant-rate device; tenants `t0`, `t1`, ...
pub(crate) fn scene(weights: &[u32], depth: Depth) -> Scenario {
    let tenant = |(index, weight): (usize, &u32)| Tenant {
        read_only: false,
        name: format!("t{index}"),
        matches: Vec::new(),
        share: Share { weight_milli: weight * 1000, ..Share::default() },
    };
    let scheduling = Scheduling { depth, cost: COST, ..Scheduling::default() };
    Scenario {
        policy: Policy {
            mode: Mode::Enforce,
            backends: vec![backend("disk", scheduling)],
            tenants: weights.iter().enumerate().map(tenant).collect(),
            ..Policy::default()
        },
        devices: vec![device("disk", DeviceSpec::Constant(DEVICE))],
        warm_up: Span::from_millis(100),
        length: Span::from_secs(2),
        interval: Span::from_millis(500),
        ..Scenario::default()
    }
}

pub(crate) fn backend(name: &str, scheduling: Scheduling) -> Backend {
    Backend { name: name.to_owned(), source: Source::Memory, scheduling }
}

pub(crate) fn device(backend: &str, device: DeviceSpec) -> BackendDevice {
    BackendDevice { backend: backend.to_owned(), device, link: LinkSpec::default() }
}

/// Clients of a tenant on `disk`, each with `depth` requests under way.
pub(crate) fn clients(tenant: &str, clients: u32, depth: u32) -> Workload {
    Workload {
        name: tenant.to_owned(),
        tenant: Some(tenant.to_owned()),
        targets: vec!["disk".to_owned()],
        clients,
        depth,
        ..Workload::default()
    }
}

/// Runs a scenario twice, which must be alike to the last bit.
pub(crate) fn run(scenario: &Scenario) -> Summary {
    let [one, other] = [(); 2].map(|()| evenkeel_sim::run(scenario).expect("it can run"));
    assert_eq!(format!("{one:?}"), format!("{other:?}"), "the same seed is the same run");
    one
}

/// The part of all bytes that each tenant got.
pub(crate) fn shares(summary: &Summary) -> Vec<f64> {
    summary.tenants.iter().map(|tenant| tenant.share_bytes).collect()
}

pub(crate) fn close(got: &[f64], expected: &[f64], tolerance: f64) {
    let near = |(got, expected): (&f64, &f64)| (got - expected).abs() <= tolerance;
    assert!(got.len() == expected.len() && got.iter().zip(expected).all(near), "{got:?}");
}
