//! A plan for people and for programs.

use serde_json::{Value, json};

use super::super::parts;
use super::reckon::{Outcome, Row};
use crate::{human, terminal};

/// Pairs of servers that are listed.
const FLOWS_MAX: usize = 12;

/// For people.
pub(super) fn render(outcome: &Outcome) -> String {
    let size = |objects: u64| human::size(objects as f64 * outcome.object_bytes as f64);
    let moved = outcome.forced + outcome.levelled;
    let mut text = format!(
        "volume {}, objects of {}\n\n",
        outcome.volume,
        human::size(outcome.object_bytes as f64)
    );
    let header = ["SERVER", "ROOM", "OBJECTS", "USE", "<", "ROOM", "OBJECTS", "USE"];
    let rows: Vec<Vec<String>> = outcome.servers.iter().map(row).collect();
    text += &terminal::table(&header, &rows);
    text.push('\n');
    let flows: Vec<Vec<String>> = outcome
        .flows
        .iter()
        .take(FLOWS_MAX)
        .map(|flow| {
            let name = |server: usize| outcome.servers[server].name.clone();
            let (from, to, objects) = *flow;
            vec![name(from), name(to), objects.to_string(), size(objects)]
        })
        .collect();
    text += &terminal::table(&["FROM", "<TO", "OBJECTS", "BYTES"], &flows);
    if outcome.flows.len() > FLOWS_MAX {
        text += &format!("({} more pairs)\n", outcome.flows.len() - FLOWS_MAX);
    }
    text += &format!(
        "\n{} objects move ({}); for exact parts it would be {}\n",
        moved,
        size(moved),
        size(outcome.least)
    );
    if outcome.levelled > 0 {
        text += &format!("of them {} to level the servers\n", outcome.levelled);
    }
    text += &format!(
        "{} stay and have another choice noted\nat {} that takes {}\n",
        outcome.renamed,
        human::byte_rate(outcome.rate as f64),
        human::duration(outcome.takes)
    );
    text +=
        &format!("fullest server over the mean afterwards: {:.3}\n", over_mean(&outcome.servers));
    text +=
        "nothing has moved: edit `choices` and `leaving` in the policy, then restart the gate\n";
    text
}

fn row(server: &Row) -> Vec<String> {
    let use_of = |used: u64, slots: u64| match slots {
        0 => "-".to_owned(),
        slots => parts::show(used as f64 / slots as f64),
    };
    vec![
        server.name.clone(),
        server.slots_before.to_string(),
        server.before.to_string(),
        use_of(server.before, server.slots_before),
        "->".to_owned(),
        server.slots.to_string(),
        server.after.to_string(),
        use_of(server.after, server.slots),
    ]
}

fn over_mean(servers: &[Row]) -> f64 {
    let with_room = servers.iter().filter(|server| server.slots > 0);
    let parts: Vec<f64> =
        with_room.map(|server| server.after as f64 / server.slots as f64).collect();
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    if mean > 0.0 { parts.iter().copied().fold(0.0, f64::max) / mean } else { 1.0 }
}

/// For programs.
pub(super) fn document(outcome: &Outcome) -> Value {
    let servers = outcome.servers.iter().map(|server| {
        json!({
            "name": server.name,
            "slots_before": server.slots_before,
            "slots": server.slots,
            "objects_before": server.before,
            "objects": server.after,
        })
    });
    let name = |server: usize| outcome.servers[server].name.clone();
    let flows = outcome.flows.iter().map(
        |&(from, to, objects)| json!({ "from": name(from), "to": name(to), "objects": objects }),
    );
    json!({
        "volume": outcome.volume,
        "object_bytes": outcome.object_bytes,
        "servers": servers.collect::<Vec<_>>(),
        "flows": flows.collect::<Vec<_>>(),
        "forced_objects": outcome.forced,
        "levelled_objects": outcome.levelled,
        "renamed_objects": outcome.renamed,
        "least_objects": outcome.least,
        "moved_bytes": (outcome.forced + outcome.levelled) * outcome.object_bytes,
        "takes_seconds": outcome.takes.as_secs_f64(),
        "max_to_mean": over_mean(&outcome.servers),
        "is_carried_out": false,
    })
}
