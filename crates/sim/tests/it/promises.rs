//! Floors, limits and response times, on a device that does what its policy says.

use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_core::time::Span;
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::policy::{Depth, Discipline};
use evenkeel_sim::device::spec::{ConstantSpec, DeviceSpec};
use evenkeel_sim::result::Summary;
use evenkeel_sim::scenario::{Arrivals, Scenario, Workload};

use crate::scenes::{DEVICE, clients, close, device, run, scene};

/// A device of 1,000 requests per second under a discipline, and tenants on these terms.
fn promising(discipline: Discipline, terms: &[Share], workloads: Vec<Workload>) -> Scenario {
    let mut scenario = scene(&vec![1; terms.len()], Depth::Requests(2));
    let scheduling = &mut scenario.policy.backends[0].scheduling;
    scheduling.discipline = discipline;
    scheduling.cost = CostModel::PerRequest;
    scheduling.capacity_iops = Some(1_000);
    for (tenant, share) in scenario.policy.tenants.iter_mut().zip(terms) {
        tenant.share = *share;
    }
    let spec = ConstantSpec { fixed: Span::from_millis(1), rate_bytes: 0, ..DEVICE };
    scenario.devices = vec![device("disk", DeviceSpec::Constant(spec))];
    scenario.workloads = workloads;
    scenario.length = Span::from_secs(20);
    scenario.interval = Span::from_secs(1);
    scenario
}

fn rates(summary: &Summary) -> Vec<f64> {
    summary.groups.iter().map(|group| group.traffic.iops).collect()
}

#[test]
fn floors_are_met_in_every_second_and_limits_never_exceeded() {
    let floor = Floor { rate_iops: 300, ..Floor::default() };
    let limit = Limit { rate_iops: 200, burst_requests: 10, ..Limit::default() };
    let terms = [
        Share { floor, ..Share::default() },
        Share { weight_milli: 8_000, ..Share::default() },
        Share { weight_milli: 8_000, limit, ..Share::default() },
    ];
    let load = vec![clients("t0", 1, 16), clients("t1", 1, 16), clients("t2", 1, 16)];
    let summary = run(&promising(Discipline::Mclock, &terms, load));
    close(&rates(&summary), &[300.0, 500.0, 200.0], 3.0);
    for second in 0..20 {
        let of = |group: usize| summary.groups[group].traffic.series[second].requests;
        assert!(of(0) >= 297, "second {second}: {}", of(0));
        assert!(of(2) <= 210, "second {second}: {}", of(2));
    }
}

#[test]
fn what_can_be_met_is_met_beside_a_tenant_without_a_goal() {
    let goal = |ms| Share { latency_goal: Span::from_millis(ms), ..Share::default() };
    let terms = [goal(8), goal(40), Share::default()];
    let open = |tenant: &str, per_second: f64| Workload {
        arrivals: Arrivals::Constant { per_second },
        ..clients(tenant, 1, 64)
    };
    let load = vec![open("t0", 300.0), open("t1", 500.0), clients("t2", 1, 32)];
    let summary = run(&promising(Discipline::Edf, &terms, load));
    let worst = |group: usize| summary.groups[group].traffic.latency.max;
    assert!(worst(0) <= Span::from_millis(8), "{}", worst(0));
    assert!(worst(1) <= Span::from_millis(40), "{}", worst(1));
    assert!(rates(&summary)[2] > 195.0, "the rest goes to who asks for no time: {summary:?}");
}
