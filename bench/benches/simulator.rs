//! Requests that the simulator gets through in a second, checkers on: through the real engine with
//! shares, accounts and attribution, on a constant-rate device and on an array of eight hard disks.
//! The aims are 2 million and 200,000.
//!
//! `cargo bench -p evenkeel-bench --bench simulator` measures; as a test (`cargo test --benches`)
//! each measurement is made once.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use evenkeel_core::sched::Share;
use evenkeel_core::time::Span;
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{Backend, Depth, Mode, Policy, Scheduling, Source, Tenant};
use evenkeel_sim::device::array::Layout;
use evenkeel_sim::device::hdd;
use evenkeel_sim::device::spec::{ArraySpec, ConstantSpec, DeviceSpec, DriveSource, HddSpec};
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::scenario::{BackendDevice, Scenario, Workload};

/// A microsecond and 4 GB/s a request.
const QUICK: ConstantSpec = ConstantSpec {
    size_bytes: 64 << 30,
    fixed: Span::from_micros(1),
    rate_bytes: 4_000_000_000,
    servers: 1,
};

/// Closed loops of several tenants by weight, under SFQ(D).
fn scenario(tenants: u32, device: DeviceSpec, depth: u32, length: Span) -> Scenario {
    let line = Line { fixed: Span::from_micros(1), rate_bytes: 4_000_000_000 };
    let cost = CostModel::Linear { read: line, write: line, flush: Span::from_micros(1) };
    let scheduling = Scheduling { depth: Depth::Requests(depth), cost, ..Scheduling::default() };
    let tenant = |index: u32| Tenant {
        read_only: false,
        name: format!("t{index}"),
        matches: Vec::new(),
        share: Share { weight_milli: 1000 * (index + 1), ..Share::default() },
    };
    let workload = |index: u32| Workload {
        name: format!("t{index}"),
        tenant: Some(format!("t{index}")),
        targets: vec!["backend".to_owned()],
        depth: 2 * depth,
        ..Workload::default()
    };
    let name = "backend".to_owned();
    Scenario {
        policy: Policy {
            mode: Mode::Enforce,
            backends: vec![Backend { name: name.clone(), source: Source::Memory, scheduling }],
            tenants: (0..tenants).map(tenant).collect(),
            ..Policy::default()
        },
        devices: vec![BackendDevice { backend: name, device, link: LinkSpec::default() }],
        workloads: (0..tenants).map(workload).collect(),
        length,
        interval: length,
        ..Scenario::default()
    }
}

fn disks() -> DeviceSpec {
    let drive = DriveSource::BuiltIn("cheetah-9lp".to_owned());
    let disk = DeviceSpec::Hdd(HddSpec { drive, order: hdd::Policy::Sptf });
    let layout = Layout::Striped { unit_bytes: 64 << 10 };
    DeviceSpec::Array(ArraySpec { layout, members: vec![disk; 8] })
}

fn runs(criterion: &mut Criterion) {
    let quick = DeviceSpec::Constant(QUICK);
    let mut group = criterion.benchmark_group("simulator");
    for (name, scenario) in [
        ("constant/2", scenario(2, quick.clone(), 8, Span::from_millis(400))),
        ("constant/4", scenario(4, quick.clone(), 8, Span::from_millis(400))),
        ("constant/100", scenario(100, quick, 8, Span::from_millis(400))),
        ("hdd-array/4", scenario(4, disks(), 64, Span::from_secs(20))),
    ] {
        let requests = evenkeel_sim::run(&scenario).expect("it can run").requests_in_all;
        group.throughput(Throughput::Elements(requests));
        group.sample_size(10);
        group.bench_function(name, |b| b.iter(|| evenkeel_sim::run(&scenario)));
    }
    group.finish();
}

criterion_group!(benches, runs);
criterion_main!(benches);
