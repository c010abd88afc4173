//! `evenkeel-bench spread`: a volume over four servers beside the same four servers by themselves.
//!
//! ```text
//! stage      four nbdkit with a rate each, and a gate with a volume over them
//! table      for people
//! ```
//!
//! A volume is worth the sum of its servers if nothing in between is in the way: not the choices,
//! not the one gate, not that some server has more of the objects asked for than another. The
//! servers are memory behind nbdkit's `rate` filter, so that what one of them gives is known and
//! the processors are not what is measured.

mod stage;
mod table;

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use evenkeel_app::evidence::machine::Bears;
use serde::Serialize;

use crate::common::{Common, bar};
use crate::conclusion::Conclusion;
use crate::machine::{self, Machine};
use crate::matrix::{Direction, Pattern, Workload};
use crate::peers;
use crate::seconds;
use crate::workload::Generator;

use stage::Stage;

/// Servers of the volume.
const SERVERS: u32 = 4;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel-bench spread --json figures.json
  evenkeel-bench spread --rate 250 --depth 16 --seconds 10
  evenkeel-bench spread --smoke")]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// How long each load lasts
    #[arg(long, default_value_t = 5.0, value_name = "S", value_parser = seconds)]
    #[arg(conflicts_with = "smoke")]
    seconds: f64,
    /// What each server gives, in MB/s
    #[arg(long, default_value_t = 60, value_name = "MB/S")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rate: u64,
    /// Requests under way at each server, and four times as many at the volume
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    depth: u32,
}

impl Arguments {
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }
}

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Contender {
    /// The servers by themselves, all at once.
    Servers,
    /// The volume over them.
    Volume,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Servers => "four servers at once",
            Self::Volume => "the volume over them",
        })
    }
}

/// One contender in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Sample {
    bytes_per_second: f64,
    /// Of the gate, for each request; of servers by themselves nothing.
    cpu_us_per_request: Option<f64>,
}

/// All rounds of one workload; nothing where a contender failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Block {
    workload: Workload,
    servers: Vec<Option<Sample>>,
    volume: Vec<Option<Sample>>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: Machine,
    rounds: u32,
    seconds: f64,
    rate_bytes: u64,
    smoke: bool,
    blocks: Vec<Block>,
    failures: Vec<String>,
}

/// Client, gate and servers take some of a core; the servers' rates are given, and what ends a few
/// milliseconds late they make up for.
const BEARS: Bears = Bears { cores: 1.0, late_median_ms: 1.0, late_p99_ms: 5.0, uses_disks: false };

/// Runs the comparison. A contender that failed is a failure, and so is an aim that is missed on a
/// quiet machine without being a known shortfall.
pub(crate) fn spread(arguments: &Arguments) -> Result<ExitCode> {
    let common = &arguments.common;
    let (Some(fio), Some(nbdkit)) = (peers::find("fio"), peers::find("nbdkit")) else {
        println!("SKIPPED: fio or nbdkit is not installed; `cargo xtask setup` installs both");
        return Ok(ExitCode::SUCCESS);
    };
    let mut report = empty_report(arguments);
    let scratch = common.folder()?;
    let evenkeel = crate::gate(common)?;
    let rate_bytes = (!report.smoke).then_some(report.rate_bytes);
    let stage = Stage::start(scratch.path(), &nbdkit, &evenkeel, rate_bytes, report.smoke)?;
    stage.write_once(&Generator::Fio(fio.clone())).context("cannot fill the volume")?;
    let watch = machine::watch(report.smoke, BEARS)?;
    race(&stage, &Generator::Fio(fio), &mut report)?;
    report.machine.look_at_end(watch);
    let aims = table::aims(&report);
    let conclusion = Conclusion::of("spread", &report.machine, aims, &report.failures);
    print!("{}{}", table::render(&report), conclusion.text());
    common.keep(&report, &conclusion)?;
    Ok(conclusion.code())
}

fn empty_report(arguments: &Arguments) -> Report {
    let smoke = arguments.common.smoke;
    let workloads = [
        (Direction::Write, Pattern::Sequential, 1 << 20),
        (Direction::Read, Pattern::Sequential, 1 << 20),
        (Direction::Write, Pattern::Random, 64 << 10),
        (Direction::Read, Pattern::Random, 64 << 10),
    ];
    let block = |(direction, pattern, size_bytes)| Block {
        workload: Workload { direction, pattern, size_bytes, depth: arguments.depth },
        servers: Vec::new(),
        volume: Vec::new(),
    };
    Report {
        machine: Machine::look(),
        rounds: arguments.common.rounds(),
        seconds: if smoke { crate::SMOKE_SECONDS } else { arguments.seconds },
        rate_bytes: arguments.rate * 1_000_000,
        smoke,
        blocks: workloads.into_iter().map(block).collect(),
        failures: Vec::new(),
    }
}

/// Every round has every workload for both, who begins changing each time.
fn race(stage: &Stage, generator: &Generator, report: &mut Report) -> Result<()> {
    let runtime = Duration::from_secs_f64(report.seconds);
    let runs = 2 * report.blocks.len() as u64 * u64::from(report.rounds);
    let progress = bar(runs)?;
    for round in 0..report.rounds {
        for block in &mut report.blocks {
            let mut order = [Contender::Servers, Contender::Volume];
            order.rotate_left(round as usize % 2);
            for contender in order {
                progress.set_message(contender.to_string());
                let sample = stage.measure(contender, generator, block.workload, runtime);
                if let Err(error) = &sample {
                    report.failures.push(format!("{contender}: {error:#}"));
                }
                let rounds = match contender {
                    Contender::Servers => &mut block.servers,
                    Contender::Volume => &mut block.volume,
                };
                rounds.push(sample.ok());
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    Ok(())
}
