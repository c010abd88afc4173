//! `evenkeel-bench place`: finding the servers of objects, beside CRUSH.
//!
//! ```text
//! lookups    ours, in this process      crush    crushtool, on a map of the same shape
//! table      for people
//! ```
//!
//! CRUSH computes the servers of an object anew whenever somebody asks; we do so once for each
//! group when the cluster changes, and look up. What the table of groups costs stands beside its
//! worth. Each round runs every contender on every map once, in a turning order, and counts
//! processor time of one core.

mod crush;
mod lookups;
mod table;

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_app::evidence::machine::Bears;
use serde::Serialize;

use crate::common::{Common, bar};
use crate::conclusion::Conclusion;
use crate::machine::{self, Machine};
use crate::peers;

use crush::Crush;
use lookups::Table;

/// Replicas of each object.
const REPLICAS: usize = 3;

/// Of the rate of CRUSH, the part that must be reached.
const RATE_AIM: f64 = 10.0;

/// Nanoseconds that the choice between two candidates may take.
const CHOICE_AIM_NS: f64 = 100.0;

/// Objects that CRUSH places in a run: a second of its time.
const CRUSH_COUNT: u64 = 300_000;

/// Objects that we look up in a run: a second or so as well.
const OWN_COUNT: u64 = 20_000_000;

/// The same where figures do not count.
const SMOKE_COUNT: u64 = 1_000;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel-bench place --json figures.json
  evenkeel-bench place --rounds 9
  evenkeel-bench place --smoke

CRUSH is crushtool's (package ceph-base); without it its rows are absent.")]
pub(crate) struct Place {
    #[command(flatten)]
    common: Common,
}

impl Place {
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }
}

/// Servers in hosts, as CRUSH and we build them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Shape {
    servers: u32,
    per_host: u32,
    /// Hosts in a rack; of the racks only CRUSH knows, to which they save work.
    per_rack: Option<u32>,
    /// Groups of our table, as a power of two.
    group_bits: u32,
}

const SHAPES: [Shape; 3] = [
    Shape { servers: 15, per_host: 3, per_rack: None, group_bits: 9 },
    Shape { servers: 44, per_host: 4, per_rack: None, group_bits: 11 },
    Shape { servers: 1000, per_host: 20, per_rack: Some(10), group_bits: 15 },
];

/// Who does what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Contender {
    /// The three servers of an object, computed.
    Crush,
    /// The three servers of one candidate.
    LookUp,
    /// Two candidates looked up, all their servers scored, one of them chosen.
    Choose,
}

impl Contender {
    const ALL: [Self; 3] = [Self::Crush, Self::LookUp, Self::Choose];
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Crush => "crushtool --test",
            Self::LookUp => "a candidate looked up",
            Self::Choose => "the better of two",
        })
    }
}

/// One contender on one map, and how long each object took in each round, in processor time.
#[derive(Clone, Debug, Serialize)]
struct Row {
    contender: Contender,
    rounds_ns: Vec<Option<f64>>,
}

/// One map.
#[derive(Clone, Debug, Serialize)]
struct Block {
    shape: Shape,
    /// What it took to make our table, once.
    table_ms: f64,
    rows: Vec<Row>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: Machine,
    rounds: u32,
    smoke: bool,
    blocks: Vec<Block>,
    missing: Vec<&'static str>,
    failures: Vec<String>,
}

/// One contender at a time, in processor time: it needs a core, and nobody sleeps.
const BEARS: Bears =
    Bears { cores: 1.0, late_median_ms: 10.0, late_p99_ms: 50.0, uses_disks: false };

/// Runs the comparison. A contender that failed is a failure, and so is an aim that is missed on a
/// quiet machine without being a known shortfall.
pub(crate) fn place(arguments: &Place) -> Result<ExitCode> {
    let common = &arguments.common;
    let scratch = common.folder()?;
    let mut report = empty_report(common);
    let watch = machine::watch(report.smoke, BEARS)?;
    let progress = bar(report.blocks.len() as u64 * u64::from(report.rounds))?;
    let mut contests = Vec::new();
    for shape in SHAPES {
        let crush = peers::find("crushtool").map(|tool| Crush::build(tool, scratch.path(), shape));
        contests.push((Table::build(shape)?, crush.transpose()?));
    }
    for round in 0..report.rounds as usize {
        for ((table, crush), block) in contests.iter().zip(&mut report.blocks) {
            block.table_ms = table.made_ms;
            let failures = block.race(round, report.smoke, table, crush.as_ref());
            report.failures.extend(failures);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    report.machine.look_at_end(watch);
    let aims = if report.smoke { Vec::new() } else { table::aims(&report.blocks) };
    let conclusion = Conclusion::of("place", &report.machine, aims, &report.failures);
    print!("{}{}", table::render(&report), conclusion.text());
    common.keep(&report, &conclusion)?;
    Ok(conclusion.code())
}

fn empty_report(common: &Common) -> Report {
    let has_crush = peers::find("crushtool").is_some();
    let contenders = Contender::ALL.into_iter().filter(|it| has_crush || *it != Contender::Crush);
    let row = |contender| Row { contender, rounds_ns: Vec::new() };
    let rows: Vec<Row> = contenders.map(row).collect();
    Report {
        machine: Machine::look(),
        rounds: common.rounds(),
        smoke: common.smoke,
        blocks: SHAPES.map(|shape| Block { shape, table_ms: 0.0, rows: rows.clone() }).to_vec(),
        missing: if has_crush { Vec::new() } else { vec!["crushtool (package ceph-base)"] },
        failures: Vec::new(),
    }
}

impl Block {
    /// Runs every contender once, another one first in each round; returns what failed.
    fn race(
        &mut self,
        round: usize,
        smoke: bool,
        table: &Table,
        crush: Option<&Crush>,
    ) -> Vec<String> {
        let mut failures = Vec::new();
        let count = self.rows.len();
        for place in (0..count).map(|place| (place + round) % count) {
            let row = &mut self.rows[place];
            let own = if smoke { SMOKE_COUNT } else { OWN_COUNT };
            let sample = match (row.contender, crush) {
                (Contender::LookUp, _) => table.look_up(own),
                (Contender::Choose, _) => table.choose(own / 4),
                (Contender::Crush, Some(crush)) => {
                    crush.place(if smoke { SMOKE_COUNT } else { CRUSH_COUNT })
                }
                (Contender::Crush, None) => unreachable!("there is a row only if there is a tool"),
            };
            if let Err(error) = &sample {
                failures.push(format!("{}: {error:#}", row.contender));
            }
            row.rounds_ns.push(sample.ok());
        }
        failures
    }
}
