//! What choices would gain, for people, for programs, and as a picture.

use serde_json::{Value, json};

use super::super::parts;
use super::forecast::{Osd, Outcome, Way};
use crate::plot::{Axis, Body, Chart, Figure, Line};
use crate::{human, terminal};

/// OSDs that are named, from either end.
const NAMED: usize = 5;

/// For people.
pub(super) fn render(outcome: &Outcome) -> String {
    let mut text = setting(outcome);
    text.push('\n');
    text += &osds(outcome);
    text.push('\n');
    let header = ["FROM HERE ON", "MOVED FIRST", "CAN BE WRITTEN", "FULL AT", "DIVERTED"];
    let rows: Vec<Vec<String>> = outcome.ways.iter().map(row).collect();
    text += &terminal::table(&header, &rows);
    if let Some(why) = &outcome.no_upmap {
        text += &format!("upmap is not compared: {why}\n");
    }
    text.push('\n');
    text += &gain(outcome);
    text
}

fn setting(outcome: &Outcome) -> String {
    let capacity_bytes: u64 = outcome.osds.iter().map(|osd| osd.capacity_bytes).sum();
    let kind = match outcome.data {
        1 => format!("{} copies", outcome.size),
        data => format!("{data} + {} shards", outcome.size - data),
    };
    format!(
        "{} OSDs, {}, {} in use; writing stops when one is full by {}\n\
         pool {}: {kind}, {} groups\n",
        outcome.osds.len(),
        human::size(capacity_bytes as f64),
        parts::show(outcome.used_part),
        parts::show(outcome.full_part),
        outcome.pool,
        outcome.groups,
    )
}

/// The fullest and the emptiest.
fn osds(outcome: &Outcome) -> String {
    let mut order: Vec<&Osd> = outcome.osds.iter().filter(|osd| osd.capacity_bytes > 0).collect();
    order.sort_by(|one, other| other.used_part().total_cmp(&one.used_part()));
    let row = |osd: &&Osd| {
        vec![
            osd.name.clone(),
            human::size(osd.capacity_bytes as f64),
            human::size(osd.used_bytes as f64),
            parts::show(osd.used_part()),
        ]
    };
    let mut rows: Vec<Vec<String>> = order.iter().map(row).collect();
    if rows.len() > 2 * NAMED {
        let left_out = rows.len() - 2 * NAMED;
        let gap = format!("({left_out} more)");
        rows.splice(NAMED..NAMED + left_out, [vec![gap]]);
    }
    let mut text = terminal::table(&["OSD", "SIZE", "USED", "USE"], &rows);
    text += &format!(
        "for all to be as full as the average, {} would have to move\n",
        human::size(outcome.uneven_bytes as f64)
    );
    text
}

fn row(way: &Way) -> Vec<String> {
    vec![
        way.name.clone(),
        human::size(way.moved_bytes as f64),
        human::size(way.data_bytes as f64),
        parts::show(way.used_part),
        parts::show(way.diverted_part),
    ]
}

/// The sentence that people came for.
fn gain(outcome: &Outcome) -> String {
    let (first, last) = ends(outcome);
    let difference = last.data_bytes as f64 - first.data_bytes as f64;
    let gained = match difference {
        bytes if bytes > 0.0 => format!(
            "choices make room for {} more than hashing, without a byte moved",
            human::size(bytes)
        ),
        _ => "choices make room for no more than hashing".to_owned(),
    };
    format!(
        "{gained}\nwere the pool filled anew, no choice could exceed {}\n",
        parts::show(outcome.at_most)
    )
}

/// Hashing as it is, and what is advised.
fn ends(outcome: &Outcome) -> (&Way, &Way) {
    let first = outcome.ways.first().expect("hashing is always reckoned");
    (first, outcome.ways.last().expect("so are choices"))
}

impl Osd {
    fn used_part(&self) -> f64 {
        self.used_bytes as f64 / self.capacity_bytes.max(1) as f64
    }
}

/// For programs: parts of a whole from 0 to 1, sizes in bytes.
pub(super) fn document(outcome: &Outcome) -> Value {
    let osds = outcome.osds.iter().map(|osd| {
        json!({
            "name": osd.name,
            "capacity_bytes": osd.capacity_bytes,
            "used_bytes": osd.used_bytes,
            "used_part": osd.used_part(),
        })
    });
    let ways = outcome.ways.iter().map(|way| {
        json!({
            "name": way.name,
            "moved_bytes": way.moved_bytes,
            "data_bytes": way.data_bytes,
            "used_part": way.used_part,
            "diverted_part": way.diverted_part,
            "osd_used_parts": way.used_parts,
        })
    });
    let (first, last) = ends(outcome);
    json!({
        "pool": outcome.pool,
        "size": outcome.size,
        "data_shards": outcome.data,
        "groups": outcome.groups,
        "full_part": outcome.full_part,
        "used_part": outcome.used_part,
        "osds": osds.collect::<Vec<_>>(),
        "uneven_bytes": outcome.uneven_bytes,
        "ways": ways.collect::<Vec<_>>(),
        "no_upmap_because": outcome.no_upmap,
        "gained_bytes": last.data_bytes.saturating_sub(first.data_bytes),
        "at_most": outcome.at_most,
    })
}

/// How full each OSD is now and would be when the first one is full, in the order of now.
pub(super) fn figure(outcome: &Outcome) -> Figure {
    let mut order: Vec<usize> = (0..outcome.osds.len()).collect();
    let now = |&index: &usize| outcome.osds[index].used_part();
    order.sort_by(|one, other| now(other).total_cmp(&now(one)));
    let points = |of: &dyn Fn(&usize) -> f64| {
        let values = order.iter().map(|index| of(index) * 100.0);
        values.enumerate().map(|(rank, value)| ((rank + 1) as f64, value)).collect()
    };
    let mut lines =
        vec![Line { name: "now".to_owned(), points: points(&now), is_dashed: true, colour: 0 }];
    lines.extend(outcome.ways.iter().zip(1..).map(|(way, colour)| Line {
        name: way.name.clone(),
        points: points(&|&index| way.used_parts[index]),
        is_dashed: false,
        colour,
    }));
    let chart = Chart {
        title: "Use of OSDs when the first one is full".to_owned(),
        note: setting(outcome).trim_end().replace('\n', "; "),
        x: Axis::linear("OSDs, the fullest of now first"),
        y: Axis::linear("part in use (%)"),
        body: Body::Lines(lines),
    };
    Figure::new("place-advise", chart)
}
