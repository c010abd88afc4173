//! A summary for programs: stable names, units last, durations in seconds.

use evenkeel_core::time::Span;
use evenkeel_sim::result::{Latency, Summary, Traffic};
use serde_json::{Value, json};

use super::table::{entitled, held};

/// The document.
pub(super) fn of(summary: &Summary, seed: u64) -> Value {
    let tenants = summary.tenants.iter().map(|tenant| {
        json!({
            "name": tenant.name,
            "share": f64::from(tenant.weight_milli) / 1000.0,
            "entitled": entitled(summary, tenant),
            "delivered": tenant.share_cost,
            "delivered_of_bytes": tenant.share_bytes,
            "device_time_cost_seconds": seconds(tenant.delivered_cost),
            "traffic": traffic(&tenant.traffic),
            "queue_time": latency(&tenant.queue_time),
            "device_time": latency(&tenant.device_time),
            "held_mean_seconds": seconds(held(summary, &tenant.name)),
        })
    });
    let workloads = summary.groups.iter().map(|group| {
        json!({
            "name": group.name,
            "traffic": traffic(&group.traffic),
            "steady_bytes_per_second": group.steady_bytes_per_second,
        })
    });
    let backends = summary.backends.iter().map(|backend| {
        json!({
            "name": backend.name,
            "units": backend.units,
            "bytes": backend.bytes,
            "failed_units": backend.failed_units,
            "lies": backend.lies,
            "lied_bytes": backend.lied_bytes,
            "busy": backend.busy,
            "in_service_mean": backend.in_service_mean,
            "in_service_max": backend.in_service_max,
            "depth_at_end": backend.depth_at_end,
        })
    });
    let fairness = summary.fairness.as_ref().map(|lag| {
        json!({
            "backend": lag.backend,
            "tenants": lag.tenants,
            "lag_seconds": seconds(lag.lag),
            "bound_seconds": seconds(lag.bound),
        })
    });
    json!({
        "seed": seed,
        "log_hash": format!("{:016x}", summary.log_hash),
        "measured_seconds": seconds(summary.measured),
        "ended_seconds": seconds(summary.ended),
        "drain_seconds": seconds(summary.drain),
        "events": summary.events,
        "requests_in_all": summary.requests_in_all,
        "tenants": tenants.collect::<Vec<_>>(),
        "workloads": workloads.collect::<Vec<_>>(),
        "backends": backends.collect::<Vec<_>>(),
        "fairness": fairness,
    })
}

fn traffic(traffic: &Traffic) -> Value {
    json!({
        "requests": traffic.requests,
        "reads": traffic.reads,
        "writes": traffic.writes,
        "bytes": traffic.bytes,
        "errors": traffic.errors,
        "delivered_bytes": traffic.delivered_bytes,
        "drain_seconds": seconds(traffic.drain),
        "iops": traffic.iops,
        "mib_per_second": traffic.mib_per_second,
        "latency": latency(&traffic.latency),
        "read_latency": latency(&traffic.read_latency),
        "write_latency": latency(&traffic.write_latency),
    })
}

/// Durations, in seconds.
pub(crate) fn latency(latency: &Latency) -> Value {
    json!({
        "mean_seconds": seconds(latency.mean),
        "p50_seconds": seconds(latency.p50),
        "p95_seconds": seconds(latency.p95),
        "p99_seconds": seconds(latency.p99),
        "p999_seconds": seconds(latency.p999),
        "max_seconds": seconds(latency.max),
    })
}

fn seconds(span: Span) -> f64 {
    span.as_secs_f64()
}
