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

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

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
  evenkeel-bench disk --smoke

The files in the scratch folder take ten times the size.")]
pub(crate) struct Disk {
    /// Rounds over all contenders; medians of fewer than five prove little
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long each contender writes
    #[arg(long, default_value_t = 5.0, value_name = "S", value_parser = seconds)]
    seconds: f64,
    /// Size of each file in MiB
    #[arg(long, default_value_t = 512, value_name = "MIB")]
    #[arg(value_parser = clap::value_parser!(u64).range(64..=1_048_576))]
    size: u64,
    /// Run everything once at toy size, to see that it works
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "size"])]
    smoke: bool,
    /// Write everything that was measured to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The gate under test [default: built from this tree]
    #[arg(long, value_name = "PATH")]
    evenkeel: Option<PathBuf>,
    /// Where the files go while it runs; on the disk in question
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    scratch: PathBuf,
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

/// Runs the comparison. A missed aim is a result; a contender that failed is a failure.
pub(crate) fn disk(arguments: &Disk) -> Result<ExitCode> {
    let mut report = empty_report(arguments);
    if let (Some(warning), false) = (report.machine.warning(), report.smoke) {
        eprintln!("{warning}");
    }
    let scratch = tempfile::Builder::new()
        .prefix("evenkeel-bench-")
        .tempdir_in(&arguments.scratch)
        .with_context(|| format!("cannot make a folder in {}", arguments.scratch.display()))?;
    let runtime = Duration::from_secs_f64(report.seconds);
    let evenkeel = crate::gate(arguments.evenkeel.as_deref())?;
    let bench = Bench::start(scratch.path(), report.file_bytes, runtime, &evenkeel)?;
    race(&bench, &mut report)?;
    report.machine.look_at_end();
    print!("{}", table::render(&report));
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn empty_report(arguments: &Disk) -> Report {
    let smoke = arguments.smoke;
    let has_fio = peers::find("fio").is_some();
    let contenders = Contender::ALL.into_iter().filter(|it| has_fio || !it.needs_fio());
    Report {
        machine: Machine::look(),
        file_system: machine::file_system_of(&arguments.scratch),
        rounds: if smoke { 1 } else { arguments.rounds },
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
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta_precise} left  {msg}")
        .context("the progress bar's template is fixed")?;
    let progress = ProgressBar::new(count as u64 * u64::from(report.rounds)).with_style(style);
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
