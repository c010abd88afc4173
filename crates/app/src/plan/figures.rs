//! A plan as pictures: present beside forecast.

use super::report::{Report, Row, Times};
use crate::plot::{Bars, Chart, Figure, Line, SERIES_MAX};

/// The figures of a plan.
pub(super) fn of(report: &Report) -> Vec<Figure> {
    let mut rows: Vec<&Row> = report.tenants.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.requests));
    // Two lines for each tenant.
    rows.truncate(SERIES_MAX / 2);
    let note = format!("present: {}", report.basis_words);
    let lines = rows.iter().enumerate().flat_map(|(colour, row)| {
        let line = |name: &str, times: &Times| {
            Line::distribution(format!("{}, {name}", row.name), &times.histogram, colour)
        };
        let present = row.present.as_ref().map(|times| line("present", times).dashed());
        present.into_iter().chain([line("forecast", &row.forecast)])
    });
    let distribution =
        Chart::distributions("Latency, present and forecast", "latency (ms)", lines.collect());
    let values = |of: &dyn Fn(&Row) -> Option<&Times>| {
        rows.iter().map(|row| of(row).map(|times| times.p99_seconds * 1e3)).collect()
    };
    let tail = Chart::bars(
        "99th percentile of latency",
        "latency (ms)",
        rows.iter().map(|row| row.name.clone()).collect(),
        vec![
            Bars { name: "present".to_owned(), values: values(&|row| row.present.as_ref()) },
            Bars { name: "forecast".to_owned(), values: values(&|row| Some(&row.forecast)) },
        ],
    );
    let charts = [("plan-latency", distribution), ("plan-p99", tail)];
    charts.map(|(name, chart)| Figure::new(name, chart.noting(note.as_str()))).into()
}
