//! A summary as pictures: throughput and latency over time, distributions, shares.

use evenkeel_sim::result::{IntervalSummary, Summary, TenantSummary};

use super::table::entitled;
use crate::plot::{Bars, Chart, Figure, Line, SERIES_MAX};

/// The figures of a run, under names that begin with `prefix`.
pub(super) fn of(summary: &Summary, prefix: &str, note: &str) -> Vec<Figure> {
    let (tenants, left_out) = largest(summary);
    let note = match left_out {
        0 => note.to_owned(),
        count => format!("{note}; the {SERIES_MAX} largest tenants, {count} more left out"),
    };
    let over_time = |value: fn(&IntervalSummary) -> f64| {
        tenants.iter().enumerate().map(|(colour, tenant)| line(tenant, colour, value)).collect()
    };
    let rate = |entry: &IntervalSummary| {
        let bytes = (entry.read_bytes + entry.write_bytes) as f64;
        bytes / f64::from(1 << 20) / entry.length.as_secs_f64().max(1e-9)
    };
    let tail = |entry: &IntervalSummary| entry.latency_p99.0 as f64 / 1e6;
    let distributions = tenants.iter().enumerate().map(|(colour, tenant)| {
        Line::distribution(&tenant.name, &tenant.traffic.latency.histogram, colour)
    });
    let charts = [
        ("throughput", Chart::over_time("Throughput", "MiB/s", over_time(rate))),
        (
            "latency",
            Chart::over_time("Latency, 99th percentile of each interval", "ms", over_time(tail)),
        ),
        (
            "distribution",
            Chart::distributions("Latency of requests", "latency (ms)", distributions.collect()),
        ),
        ("shares", shares(summary, &tenants)),
    ];
    let named = charts.into_iter();
    named
        .map(|(name, chart)| Figure::new(format!("{prefix}-{name}"), chart.noting(note.as_str())))
        .collect()
}

/// Those with the most bytes, in the order of the policy, and how many are left out.
fn largest(summary: &Summary) -> (Vec<&TenantSummary>, usize) {
    let mut order: Vec<usize> = (0..summary.tenants.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(summary.tenants[index].traffic.bytes));
    order.truncate(SERIES_MAX);
    order.sort_unstable();
    let left_out = summary.tenants.len() - order.len();
    (order.into_iter().map(|index| &summary.tenants[index]).collect(), left_out)
}

fn line(tenant: &TenantSummary, colour: usize, value: fn(&IntervalSummary) -> f64) -> Line {
    let middle =
        |entry: &IntervalSummary| entry.start.as_secs_f64() + entry.length.as_secs_f64() / 2.0;
    let entries = tenant.traffic.series.iter().chain(&tenant.traffic.drain_series);
    let points = entries.map(|entry| (middle(entry), value(entry)));
    Line { name: tenant.name.clone(), points: points.collect(), is_dashed: false, colour }
}

fn shares(summary: &Summary, tenants: &[&TenantSummary]) -> Chart {
    let values = |of: &dyn Fn(&TenantSummary) -> f64| {
        tenants.iter().map(|tenant| Some(of(tenant) * 100.0)).collect()
    };
    let series = vec![
        Bars { name: "entitled".to_owned(), values: values(&|one| entitled(summary, one)) },
        Bars { name: "delivered".to_owned(), values: values(&|one| one.share_cost) },
    ];
    let names = tenants.iter().map(|tenant| tenant.name.clone()).collect();
    Chart::bars("Shares of the service", "part of all service (%)", names, series)
}
