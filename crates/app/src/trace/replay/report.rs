//! What a replay found, for people and for programs.

use evenkeel_core::time::Span;
use evenkeel_io::load::replay::{LeftOut, ReplayPace, ReplayPlan, Think};
use evenkeel_io::load::{Arrivals, GroupReport, LoadPlan, LoadSpec};
use serde_json::{Value, json};

use super::Outcome;
use crate::load::{fio_json, table};
use crate::{human, terminal};

/// The report for people.
pub(super) fn render(outcome: &Outcome) -> String {
    let Outcome { plan, report, read, trace, .. } = outcome;
    let mut text = format!(
        "{trace}: {} requests, {}\n",
        read.requests,
        match plan.pace {
            ReplayPace::Recorded { speed, .. } => format!("recorded times at speed {speed}"),
            ReplayPace::Closed { depth, think: Think::Kept } =>
                format!("closed loop of depth {depth} with think times"),
            ReplayPace::Closed { depth, think: Think::Dropped } =>
                format!("closed loop of depth {depth} without think times"),
        }
    );
    for group in &report.load.groups {
        text += &format!("\n{}\n", group.name);
        text += &table::directions(group);
        text += &format!("throughput over time  {}\n", table::series(&report.load, group));
        text += &lines(table::troubles(group));
    }
    text.push('\n');
    text += &timing(outcome);
    text += &left_out(&report.left_out);
    if report.log_dropped > 0 {
        let dropped = report.log_dropped;
        text += &format!("{dropped} lines of the logs were dropped: the disk could not keep up\n");
    }
    text + &table::own_cost(&report.load)
}

/// The report for programs: fio's structure, and what fio has not under `evenkeel.replay`.
pub(super) fn document(outcome: &Outcome) -> Value {
    let Outcome { plan, report, read, trace, bad } = outcome;
    let mut document = fio_json::document(&stand_in(plan), &report.load);
    let LeftOut { writes, unsupported, outside, too_long, empty } = report.left_out;
    let lateness: Vec<Value> = report.load.groups.iter().map(lateness_json).collect();
    document["evenkeel"]["replay"] = json!({
        "trace": trace,
        "requests_read": read.requests,
        "bad": bad,
        "scheduled_seconds": scheduled(outcome).map(Span::as_secs_f64),
        "actual_seconds": report.load.measured.as_secs_f64(),
        "lateness": lateness,
        "left_out": {
            "writes": writes,
            "unsupported": unsupported,
            "outside": outside,
            "too_long": too_long,
            "empty": empty,
        },
        "log_dropped": report.log_dropped,
    });
    document
}

/// How long the recorded times take at the replay's speed; none in the closed loop.
fn scheduled(outcome: &Outcome) -> Option<Span> {
    let ReplayPace::Recorded { speed, .. } = outcome.plan.pace else { return None };
    let recorded = outcome.read.last.since(outcome.read.first?);
    Some(Span(speed.inverse().of(recorded.0)))
}

/// What was scheduled beside what was done.
fn timing(outcome: &Outcome) -> String {
    let load = &outcome.report.load;
    let took = load.measured;
    let Some(scheduled) = scheduled(outcome) else {
        return format!("took {}\n", human::duration(took));
    };
    let rows: Vec<Vec<String>> = load
        .groups
        .iter()
        .map(|group| {
            let late = &group.lateness.histogram;
            let quantile = |q| human::duration(late.quantile(q).unwrap_or(Span::ZERO));
            vec![
                group.name.clone(),
                human::duration(late.mean()),
                quantile(0.50),
                quantile(0.99),
                human::duration(late.max()),
            ]
        })
        .collect();
    let header = ["STARTED LATE BY", "MEAN", "P50", "P99", "MAX"];
    format!(
        "scheduled over {}, took {} to the last answer\n{}",
        human::duration(scheduled),
        human::duration(took),
        terminal::table(&header, &rows)
    )
}

fn left_out(left_out: &LeftOut) -> String {
    let reasons = [
        (left_out.writes, "would write; --write lets them"),
        (left_out.unsupported, "ask what the export does not offer"),
        (left_out.outside, "lie outside of the export; --fit wrap or scale moves them"),
        (left_out.too_long, "are longer than the export takes"),
        (left_out.empty, "ask for no bytes"),
    ];
    let given = reasons.iter().filter(|(count, _)| *count > 0);
    lines(given.map(|(count, why)| format!("left out {count} requests that {why}")))
}

fn lines(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().flat_map(|line| [line, "\n".to_owned()]).collect()
}

fn lateness_json(group: &GroupReport) -> Value {
    let late = &group.lateness.histogram;
    let quantile = |q| late.quantile(q).unwrap_or(Span::ZERO).0;
    json!({
        "export": group.name,
        "count": late.count(),
        "mean_ns": late.mean().0,
        "p50_ns": quantile(0.50),
        "p99_ns": quantile(0.99),
        "p999_ns": quantile(0.999),
        "max_ns": late.max().0,
    })
}

/// The plan in the words of a drawn load, whose documents have fio's structure.
fn stand_in(plan: &ReplayPlan) -> LoadPlan {
    let depth = match plan.pace {
        ReplayPace::Recorded { depth, .. } | ReplayPace::Closed { depth, .. } => depth,
    };
    let spec = |target: &evenkeel_io::load::replay::ReplayTarget| LoadSpec {
        name: target.name.clone(),
        targets: vec![target.uri.clone()],
        sizes: Vec::new(),
        arrivals: Arrivals::Closed,
        depth,
        ..LoadSpec::default()
    };
    LoadPlan { groups: plan.targets.iter().map(spec).collect(), ..LoadPlan::default() }
}
