//! What calibration found, for people.

use evenkeel_core::time::Span;
use evenkeel_sim::calibrate::{FittedPoint, Load, Model, SizeLine};

use crate::units::{Amount, print_duration, print_rate};
use crate::{human, terminal};

/// The rate that the model writes where size made no difference.
const NO_LIMIT: u64 = 1_000_000_000_000;

/// The whole report.
pub(super) fn render(model: &Model) -> String {
    let sections = [points(&model.points), lines(model), policy(model), remarks(model)];
    sections.join("\n")
}

fn points(points: &[FittedPoint]) -> String {
    let header = ["", "SIZE", "DEPTH", "IOPS", "RATE", "MEAN", "P99", "MODEL", "OFF"];
    let row = |point: &FittedPoint| {
        vec![
            word(point.load).to_owned(),
            human::size(point.size_bytes as f64),
            point.depth.to_string(),
            human::count(point.iops),
            human::byte_rate(point.iops * point.size_bytes as f64),
            human::duration(Span(point.mean_ns)),
            human::duration(Span(point.p99_ns)),
            human::count(point.model_iops),
            format!("{:+.1}%", point.error_percent()),
        ]
    };
    terminal::table(&header, &points.iter().map(row).collect::<Vec<_>>())
}

/// The word for a kind of load.
pub(super) fn word(load: Load) -> &'static str {
    match load {
        Load::Read => "read",
        Load::Write => "write",
        Load::Mixed => "mixed",
    }
}

fn lines(model: &Model) -> String {
    let header = ["", "ALONE", "AND PER BYTE", "SATURATED", "AND PER BYTE", "L(N) = A", "+ B N"];
    let rate = |line: SizeLine| match line.rate_bytes {
        NO_LIMIT.. => "-".to_owned(),
        rate => human::byte_rate(rate as f64),
    };
    let time = |ns| human::duration(Span(ns));
    let directions = [
        ("read", model.device.read.service, model.cost_read, model.latency_read),
        ("write", model.device.write.service, model.cost_write, model.latency_write),
    ];
    let measured = if model.is_write_measured { &directions[..] } else { &directions[..1] };
    let row = |&(name, alone, saturated, depth): &_| {
        let (alone, saturated): (SizeLine, SizeLine) = (alone, saturated);
        let depth: evenkeel_sim::calibrate::DepthLine = depth;
        vec![
            str::to_owned(name),
            time(alone.fixed_ns),
            rate(alone),
            time(saturated.fixed_ns),
            rate(saturated),
            time(depth.fixed_ns),
            time(depth.per_request_ns),
        ]
    };
    terminal::table(&header, &measured.iter().map(row).collect::<Vec<_>>())
}

fn policy(model: &Model) -> String {
    let line = |line: SizeLine| {
        let fixed = print_duration(Span(line.fixed_ns));
        let rate = print_rate(Amount::Bytes(line.rate_bytes));
        format!("{{ fixed = \"{fixed}\", rate = \"{rate}\" }}")
    };
    let mut text = format!(
        "in the policy file, for this backend:\n  depth = {}\n  cost.read = {}\n",
        model.knee_depth,
        line(model.cost_read)
    );
    if model.is_write_measured {
        text += &format!("  cost.write = {}\n", line(model.cost_write));
        let flush = print_duration(Span(model.device.flush_ns));
        text += &format!("  cost.flush = \"{flush}\"\n");
    }
    text
}

fn remarks(model: &Model) -> String {
    let fit = &model.fit;
    let mut text = format!(
        "the model meets half of the points within {}%, all within {}%\n",
        fit.median_error_percent, fit.worst_error_percent
    );
    if !fit.is_saturated {
        text += "throughput still grew at the deepest load: more than the knee may be in there\n";
    }
    if !model.is_write_measured {
        text += "writes were not measured; the model takes them to be like reads\n";
    }
    text
}
