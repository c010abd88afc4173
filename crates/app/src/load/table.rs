//! A load report for people.

use evenkeel_core::time::Span;
use evenkeel_io::load::{DirectionReport, GroupReport, LoadPlan, LoadReport};

use crate::{human, spark, terminal};

/// Widest spread of a time series in one line; longer ones are thinned.
const SERIES_COLUMNS: usize = 60;

/// The whole report.
pub(super) fn render(plan: &LoadPlan, report: &LoadReport) -> String {
    let mut text = String::new();
    for (spec, group) in plan.groups.iter().zip(&report.groups) {
        let title = format!(
            "{}: {} clients at depth {}, {} measured",
            spec.name,
            spec.clients,
            spec.depth,
            human::duration(group.measured)
        );
        let series = format!("throughput over time  {}", series(report, group));
        let mut lines = vec![title, String::new(), directions(group), series];
        lines.extend(troubles(group));
        text.extend(lines.into_iter().map(|line| line + "\n"));
    }
    text + &own_cost(report)
}

/// What every kind of request met with, as a table.
pub(crate) fn directions(group: &GroupReport) -> String {
    let header =
        ["", "IOPS", "RATE", "MEAN", "MIN", "P50", "P90", "P99", "P99.9", "MAX", "REQUESTS"];
    let seconds = group.measured.as_secs_f64().max(1e-9);
    let row = |(name, direction): (&str, &DirectionReport)| {
        let latency = &direction.latency.histogram;
        let quantile = |q| human::duration(latency.quantile(q).unwrap_or(Span::ZERO));
        vec![
            name.to_owned(),
            human::count(direction.requests as f64 / seconds),
            human::byte_rate(direction.bytes as f64 / seconds),
            human::duration(latency.mean()),
            human::duration(direction.latency.min),
            quantile(0.50),
            quantile(0.90),
            quantile(0.99),
            quantile(0.999),
            human::duration(latency.max()),
            direction.requests.to_string(),
        ]
    };
    let all = [
        ("read", &group.read),
        ("write", &group.write),
        ("flush", &group.flush),
        ("other", &group.other),
    ];
    let rows: Vec<_> =
        all.into_iter().filter(|(_, direction)| direction.requests > 0).map(row).collect();
    terminal::table(&header, &rows)
}

/// The rate of bytes over time, as one line.
pub(crate) fn series(report: &LoadReport, group: &GroupReport) -> String {
    let rates: Vec<f64> = group
        .series
        .iter()
        .map(|entry| {
            (entry.read_bytes + entry.write_bytes) as f64 / entry.length.as_secs_f64().max(1e-9)
        })
        .collect();
    let step = rates.len().div_ceil(SERIES_COLUMNS).max(1);
    let means: Vec<f64> =
        rates.chunks(step).map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64).collect();
    let top = means.iter().copied().fold(0.0, f64::max);
    let line: String = means.iter().map(|&mean| spark::bar(mean / top.max(1e-9))).collect();
    let width = human::duration(Span(report.interval.0 * step as u64));
    format!("{line}  (one bar is {width}, the highest {})", human::byte_rate(top))
}

/// What went wrong, a line each.
pub(crate) fn troubles(group: &GroupReport) -> Vec<String> {
    let mut lines = Vec::new();
    if group.errors > 0 {
        let first = group.first_error.as_deref().unwrap_or("unknown");
        lines.push(format!("{} requests failed; the first: {first}", group.errors));
    }
    if group.unanswered > 0 {
        lines.push(format!("{} requests had no answer 20 s after the end", group.unanswered));
    }
    if let Some(found) = &group.verification {
        let (checked, wrong) = (found.blocks_checked, found.blocks_wrong);
        lines.push(format!("verified {checked} blocks, {wrong} of them wrong"));
        lines.extend(found.first_wrong.iter().map(|first| format!("the first: {first}")));
    }
    lines
}

/// What the generator itself took.
pub(crate) fn own_cost(report: &LoadReport) -> String {
    let per_request = Span(report.cpu.sum().0.checked_div(report.requests_in_all).unwrap_or(0));
    format!(
        "the generator itself took {} of processor time, {} per request\n",
        human::duration(report.cpu.sum()),
        human::duration(per_request)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_io::load::{IntervalReport, LoadSpec, Verification};

    #[test]
    fn a_report_tells_figures_and_troubles() {
        let mut group = GroupReport {
            measured: Span::from_secs(2),
            errors: 3,
            first_error: Some("read at 0: input/output error".to_owned()),
            verification: Some(Verification { blocks_checked: 5, ..Verification::default() }),
            ..GroupReport::default()
        };
        group.read.requests = 2000;
        group.read.bytes = 2000 * 4096;
        group.read.latency.histogram.record(Span::from_micros(500));
        group.series = [4 << 20, 8 << 20]
            .map(|read_bytes| IntervalReport {
                length: Span::from_secs(1),
                read_bytes,
                ..IntervalReport::default()
            })
            .to_vec();
        let plan = LoadPlan { groups: vec![LoadSpec::default()], ..LoadPlan::default() };
        let interval = Span::from_secs(1);
        let report = LoadReport { groups: vec![group], interval, ..LoadReport::default() };
        let text = render(&plan, &report);
        assert!(text.contains("read    1k  3.9 MiB/s"), "{text}");
        assert!(text.contains("\u{2585}\u{2588}  (one bar is 1 s, the highest 8 MiB/s)"), "{text}");
        assert!(text.contains("3 requests failed; the first: read at 0"), "{text}");
        assert!(text.contains("verified 5 blocks, 0 of them wrong"), "{text}");
        assert!(!text.contains("write"), "nothing was written: {text}");
    }
}
