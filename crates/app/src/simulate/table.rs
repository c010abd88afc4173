//! A summary for people.

use evenkeel_core::time::Span;
use evenkeel_sim::result::{BackendSummary, Summary, TenantSummary};

use crate::{human, terminal};

/// A drain that takes longer is a backlog, not the last requests under way.
const LONG_DRAIN: Span = Span::from_secs(1);

/// The whole summary.
pub(super) fn render(summary: &Summary, seed: u64) -> String {
    let mut text = tenants(summary);
    text.push('\n');
    text += &backends(summary);
    text.push('\n');
    if let Some(fairness) = &summary.fairness {
        let [first, second] = &fairness.tenants;
        text += &format!(
            "fairness: {first} and {second} came apart by {} of device time per unit of share on \
             {}; {} is allowed\n",
            human::duration(fairness.lag),
            fairness.backend,
            human::duration(fairness.bound)
        );
    }
    if summary.drain >= LONG_DRAIN {
        text += &format!(
            "the backlog at the end takes {} to drain; latencies are of all requests that \
             arrived in time, rates of what was answered in it\n",
            human::duration(summary.drain)
        );
    }
    text += &format!(
        "{} simulated, {} requests, {} events, seed {seed}, log hash {:016x}\n",
        human::duration(summary.ended),
        human::count(summary.requests_in_all as f64),
        human::count(summary.events as f64),
        summary.log_hash
    );
    text
}

fn tenants(summary: &Summary) -> String {
    let header = [
        "TENANT", "SHARE", "ENTITLED", "GOT", "RATE", "IOPS", "MEAN", "P50", "P99", "QUEUED",
        "DEVICE", "HELD", "ERRORS",
    ];
    let rows: Vec<Vec<String>> =
        summary.tenants.iter().map(|tenant| row(summary, tenant)).collect();
    terminal::table(&header, &rows)
}

fn row(summary: &Summary, tenant: &TenantSummary) -> Vec<String> {
    let traffic = &tenant.traffic;
    let latency = &traffic.latency;
    vec![
        tenant.name.clone(),
        share(tenant.weight_milli),
        human::percent(entitled(summary, tenant)),
        human::percent(tenant.share_cost),
        human::byte_rate(traffic.mib_per_second * f64::from(1 << 20)),
        human::count(traffic.iops),
        human::duration(latency.mean),
        human::duration(latency.p50),
        human::duration(latency.p99),
        human::duration(tenant.queue_time.mean),
        human::duration(tenant.device_time.mean),
        human::duration(held(summary, &tenant.name)),
        traffic.errors.to_string(),
    ]
}

fn backends(summary: &Summary) -> String {
    let header = ["BACKEND", "UNITS", "BYTES", "BUSY", "IN SERVICE", "MOST", "DEPTH", "FAILED"];
    let row = |backend: &BackendSummary| {
        vec![
            backend.name.clone(),
            human::count(backend.units as f64),
            human::size(backend.bytes as f64),
            human::percent(backend.busy),
            format!("{:.1}", backend.in_service_mean),
            backend.in_service_max.to_string(),
            backend.depth_at_end.to_string(),
            backend.failed_units.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = summary.backends.iter().map(row).collect();
    terminal::table(&header, &rows)
}

/// What a tenant's weight gives it among those that sent anything, 0 to 1.
pub(crate) fn entitled(summary: &Summary, tenant: &TenantSummary) -> f64 {
    let all: u64 = summary.tenants.iter().map(|one| u64::from(one.weight_milli)).sum();
    f64::from(tenant.weight_milli) / all.max(1) as f64
}

/// Mean time that the tenant's own limit has held a request for, warm-up and drain included.
pub(crate) fn held(summary: &Summary, name: &str) -> Span {
    let tenants = summary.domains.iter().flat_map(|domain| &domain.tenants);
    let (held_ns, requests) =
        tenants.filter(|tenant| tenant.name == name).fold((0, 0), |(held_ns, requests), tenant| {
            (held_ns + tenant.throttled.0, requests + tenant.total_time.count())
        });
    Span(held_ns.checked_div(requests).unwrap_or(0))
}

/// A weight as in the policy file.
pub(crate) fn share(weight_milli: u32) -> String {
    (f64::from(weight_milli) / 1000.0).to_string()
}
