//! `evenkeel-bench disk`: the chained log on this machine's disk beside fio on a plain file.
//!
//! ```text
//! contender   who writes, and how     chain    the store inside of this process
//! table       for people
//! ```
//!
//! A log is worth its trouble if small writes at random go as fast as large ones in sequence. How
//! fast those go is measured by fio, on a file of the same disk, in the same rounds and in a
//! turning order. Everything is written past the page cache, to files whose blocks were all written
//! before.
//!
//! A disk that takes more bytes a second than one processor can check and copy in pieces of 4 KiB
//! is beyond any such store. So the same is measured once more over files as slow as a hard disk,
//! by the simulator's model; whatever is emulated is labelled so.

mod chain;
mod contender;
mod table;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use evenkeel_app::evidence::machine::Bears;
use serde::Serialize;

use crate::common::{Common, bar};
use crate::conclusion::Conclusion;
use crate::machine::{self, Machine};
use crate::peers;
use crate::seconds;

use contender::{Bench, Contender};

/// Drives of the store.
const DRIVES: usize = 3;

/// Bytes written at once when a file is made.
const FILL_BYTES: usize = 1 << 20;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel-bench disk --scratch /mnt/array --json figures.json
  evenkeel-bench disk --size 4096 --seconds 20
  evenkeel-bench disk --only 'store random' --rounds 1
  evenkeel-bench disk --smoke

The files in the scratch folder take ten times the size.")]
pub(crate) struct Disk {
    #[command(flatten)]
    common: Common,
    /// How long each contender writes
    #[arg(long, default_value_t = 5.0, value_name = "S", value_parser = seconds)]
    #[arg(conflicts_with = "smoke")]
    seconds: f64,
    /// Size of each file in MiB
    #[arg(long, default_value_t = 512, value_name = "MIB", conflicts_with = "smoke")]
    #[arg(value_parser = clap::value_parser!(u64).range(64..=1_048_576))]
    size: u64,
    /// Only contenders whose name has every word of this pattern in it
    #[arg(long, default_value = "", value_name = "PATTERN", hide_default_value = true)]
    only: String,
}

impl Disk {
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }
}

/// One contender in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Sample {
    bytes_per_second: f64,
    /// Of the process that writes, for each 4 KiB; of fio that includes making the load.
    cpu_us_per_block: Option<f64>,
    /// Bytes that drives took for each that a client wrote.
    amplification: Option<f64>,
}

/// All rounds of one contender; nothing where it failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    contender: Contender,
    rounds: Vec<Option<Sample>>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: Machine,
    file_system: String,
    rounds: u32,
    seconds: f64,
    file_bytes: u64,
    smoke: bool,
    rows: Vec<Row>,
    missing: Vec<&'static str>,
    failures: Vec<String>,
}

/// The store and fio take what there is of processors and of the disk.
const BEARS: Bears =
    Bears { cores: f64::INFINITY, late_median_ms: 0.5, late_p99_ms: 2.0, uses_disks: true };

/// Runs the comparison. A contender that failed is a failure, and so is an aim that is missed on a
/// quiet machine without being a known shortfall.
pub(crate) fn disk(arguments: &Disk) -> Result<ExitCode> {
    let mut report = empty_report(arguments);
    ensure!(!report.rows.is_empty(), "no contender has `{}` in its name", arguments.only);
    let scratch = arguments.common.folder()?;
    let runtime = Duration::from_secs_f64(report.seconds);
    let evenkeel = crate::gate(&arguments.common)?;
    let bench = Bench::start(scratch.path(), report.file_bytes, runtime, &evenkeel)?;
    // Not before the files are made: that keeps the disk busy.
    let watch = machine::watch(report.smoke, BEARS)?;
    race(&bench, &mut report)?;
    report.machine.look_at_end(watch);
    let aims = table::aims(&report);
    let conclusion = Conclusion::of("disk", &report.machine, aims, &report.failures);
    print!("{}{}", table::render(&report), conclusion.text());
    arguments.common.keep(&report, &conclusion)?;
    Ok(conclusion.code())
}

fn empty_report(arguments: &Disk) -> Report {
    let common = &arguments.common;
    let smoke = common.smoke;
    let has_fio = peers::find("fio").is_some();
    let is_wanted = |contender: &Contender| {
        let name = contender.to_string();
        arguments.only.split_whitespace().all(|word| name.contains(word))
    };
    let contenders = Contender::ALL.into_iter().filter(is_wanted);
    let contenders = contenders.filter(|it| has_fio || !it.needs_fio());
    Report {
        machine: Machine::look(),
        file_system: machine::file_system_of(&common.scratch),
        rounds: common.rounds(),
        seconds: if smoke { crate::SMOKE_SECONDS } else { arguments.seconds },
        file_bytes: if smoke { 64 } else { arguments.size } << 20,
        smoke,
        rows: contenders.map(|contender| Row { contender, rounds: Vec::new() }).collect(),
        missing: if has_fio { Vec::new() } else { vec!["fio"] },
        failures: Vec::new(),
    }
}

/// Every round has every contender, each first in its turn.
fn race(bench: &Bench, report: &mut Report) -> Result<()> {
    let count = report.rows.len();
    let progress = bar(count as u64 * u64::from(report.rounds))?;
    for round in 0..report.rounds as usize {
        for place in (0..count).map(|place| (place + round) % count) {
            let row = &mut report.rows[place];
            progress.set_message(row.contender.to_string());
            let sample = bench.measure(row.contender);
            if let Err(error) = &sample {
                report.failures.push(format!("{}: {error:#}", row.contender));
            }
            row.rounds.push(sample.ok());
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(())
}

/// A file whose blocks are all there: what is allocated while it is measured would be slower.
fn make_file(path: &Path, size_bytes: u64) -> Result<()> {
    let mut file = File::create(path).context("cannot make a file")?;
    let zeroes = vec![0; FILL_BYTES];
    for _ in 0..size_bytes / FILL_BYTES as u64 {
        file.write_all(&zeroes).context("cannot fill a file")?;
    }
    file.sync_all().context("cannot flush a file")
}
