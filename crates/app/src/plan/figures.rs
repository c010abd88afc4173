//! A plan as pictures: present beside forecast.

use super::report::{Report, Row};
use crate::plot::{Bars, Chart, Figure, Line, SERIES_MAX};

/// The figures of a plan.
pub(super) fn of(report: &Report) -> Vec<Figure> {
    let mut rows: Vec<&Row> = report.tenants.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.requests));
    // Two lines for each tenant.
    rows.truncate(SERIES_MAX / 2);
    let note = format!("present: {}", report.basis.words());
    let lines = rows.iter().enumerate().flat_map(|(colour, row)| {
        [
            Line::distribution(format!("{}, present", row.name), &row.present.histogram, colour)
                .dashed(),
            Line::distribution(format!("{}, forecast", row.name), &row.forecast.histogram, colour),
        ]
    });
    let distribution =
        Chart::distributions("Latency, present and forecast", "latency (ms)", lines.collect());
    let values = |of: &dyn Fn(&Row) -> f64| rows.iter().map(|row| Some(of(row))).collect();
    let tail = Chart::bars(
        "99th percentile of latency",
        "latency (ms)",
        rows.iter().map(|row| row.name.clone()).collect(),
        vec![
            Bars {
                name: "present".to_owned(),
                values: values(&|row| row.present.p99_seconds * 1e3),
            },
            Bars {
                name: "forecast".to_owned(),
                values: values(&|row| row.forecast.p99_seconds * 1e3),
            },
        ],
    );
    let charts = [("plan-latency", distribution), ("plan-p99", tail)];
    charts.map(|(name, chart)| Figure::new(name, chart.noting(note.as_str()))).into()
}
