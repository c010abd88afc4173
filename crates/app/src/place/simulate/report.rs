//! An outcome for people, for programs, and as a picture.

use evenkeel_sim::fill::Filled;
use evenkeel_sim::fill::change::Changed;
use serde_json::{Value, json};

use super::super::parts;
use super::run::{Change, Outcome, Way};
use crate::plot::{Axis, Body, Chart, Figure, Line};
use crate::{human, terminal};

/// The outcome as a table with what it speaks of.
pub(super) fn render(outcome: &Outcome) -> String {
    let mut text = setting(outcome);
    text.push('\n');
    let header = ["WAY", "FULL AT", "DATA", "AVG/MAX", "DIVERTED", "PROBES", "LOOKS"];
    let rows: Vec<Vec<String>> = outcome.ways.iter().map(|way| row(outcome, way)).collect();
    text += &terminal::table(&header, &rows);
    text.push('\n');
    text += &format!(
        "for ever so many objects: hashing {}, odds {}; no choice can exceed {}\n",
        parts::show(outcome.certificate.hashing),
        parts::show(outcome.certificate.odds),
        parts::show(outcome.certificate.at_most),
    );
    if let Some(change) = &outcome.change {
        text += &changed(change);
    }
    text
}

/// What was filled.
fn setting(outcome: &Outcome) -> String {
    let each = u64::from(outcome.groups) * u64::from(outcome.replicas) / outcome.servers as u64;
    let mut text = format!(
        "{} servers in {} failure domains, {}; {} of each object, {} groups, {each} to a server; \
         objects of {}\n",
        outcome.servers,
        outcome.domains,
        human::size(outcome.capacity_bytes as f64),
        match outcome.replicas {
            1 => "one copy".to_owned(),
            copies => format!("{copies} copies"),
        },
        outcome.groups,
        human::size(outcome.object_bytes as f64),
    );
    if outcome.full_part < 1.0 {
        text += &format!("a server counts as full at {}\n", parts::show(outcome.full_part));
    }
    if outcome.start_part > 0.0 {
        text += &format!("{} were in use at the start\n", parts::show(outcome.start_part));
    }
    if outcome.clients > 1 {
        text += &format!("{} clients write in turn\n", outcome.clients);
    }
    text
}

fn row(outcome: &Outcome, way: &Way) -> Vec<String> {
    let Filled { used_part, mean_to_max, diverted_part, looks_mean, .. } = way.filled;
    vec![
        way.name.clone(),
        parts::show(used_part),
        human::size(data_bytes(outcome, way)),
        format!("{mean_to_max:.3}"),
        parts::show(diverted_part),
        way.probes.to_string(),
        format!("{looks_mean:.2}"),
    ]
}

/// What was written until the first server was full, replicas not counted.
fn data_bytes(outcome: &Outcome, way: &Way) -> f64 {
    way.filled.objects as f64 * outcome.object_bytes as f64
}

fn changed(change: &Change) -> String {
    let mut text = format!("\nat {}, ", parts::show(change.at));
    let join = match change.join {
        0 => None,
        1 => Some("a server joins".to_owned()),
        count => Some(format!("{count} servers join")),
    };
    let leave = match &change.leave[..] {
        [] => None,
        [one] => Some(format!("{one} leaves")),
        several => Some(format!("{} leave", several.join(", "))),
    };
    text += &[join, leave].into_iter().flatten().collect::<Vec<_>>().join(" and ");
    text += &format!("; {} has to move\n", parts::show(change.hashing.least_part));
    let header = ["WAY", "MOVED", "FULLEST", "OVER MEAN", "FULL AT"];
    let row = |name: &str, it: &Changed| {
        vec![
            name.to_owned(),
            parts::show(it.moved_part),
            parts::show(it.fullest_part),
            format!("{:.3}", it.max_to_mean),
            parts::show(it.full.used_part),
        ]
    };
    let rows = [row("hashing", &change.hashing), row("choices", &change.choices)];
    text += &terminal::table(&header, &rows);
    if change.choices.fullest_part > 1.0 {
        text += "what moves has no room on the fullest server: move some of its objects first\n";
    }
    text
}

/// The outcome for programs: parts of a whole from 0 to 1, sizes in bytes.
pub(super) fn document(outcome: &Outcome) -> Value {
    let ways = outcome.ways.iter().map(|way| {
        json!({
            "name": way.name,
            "used_part": way.filled.used_part,
            "data_bytes": data_bytes(outcome, way),
            "mean_to_max": way.filled.mean_to_max,
            "diverted_part": way.filled.diverted_part,
            "probes_per_new_object": way.probes,
            "looks_mean": way.filled.looks_mean,
            "objects": way.filled.objects,
            "server_used_parts": way.used_parts,
        })
    });
    let certificate = &outcome.certificate;
    json!({
        "servers": outcome.servers,
        "failure_domains": outcome.domains,
        "capacity_bytes": outcome.capacity_bytes,
        "replicas": outcome.replicas,
        "groups": outcome.groups,
        "object_bytes": outcome.object_bytes,
        "full_part": outcome.full_part,
        "start_part": outcome.start_part,
        "clients": outcome.clients,
        "ways": ways.collect::<Vec<_>>(),
        "certificate": {
            "hashing": certificate.hashing,
            "odds": certificate.odds,
            "at_most": certificate.at_most,
        },
        "change": outcome.change.as_ref().map(change_document),
    })
}

fn change_document(change: &Change) -> Value {
    let one = |it: &Changed| {
        json!({
            "moved_part": it.moved_part,
            "fullest_part": it.fullest_part,
            "max_to_mean": it.max_to_mean,
            "used_part_when_full": it.full.used_part,
        })
    };
    json!({
        "at_part": change.at,
        "join": change.join,
        "leave": change.leave,
        "least_part": change.hashing.least_part,
        "hashing": one(&change.hashing),
        "choices": one(&change.choices),
    })
}

/// How full each server is at the end, the fullest first.
pub(super) fn figure(outcome: &Outcome) -> Figure {
    let lines = outcome.ways.iter().enumerate().map(|(colour, way)| {
        let points = way.used_parts.iter().enumerate();
        let points = points.map(|(rank, part)| ((rank + 1) as f64, part * 100.0)).collect();
        Line { name: way.name.clone(), points, is_dashed: false, colour }
    });
    let chart = Chart {
        title: "Use of servers when the first one is full".to_owned(),
        note: setting(outcome).trim_end().replace('\n', "; "),
        x: Axis::linear("servers, the fullest first"),
        y: Axis::linear("part in use (%)"),
        body: Body::Lines(lines.collect()),
    };
    Figure::new("place-use", chart)
}
