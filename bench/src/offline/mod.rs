//! `evenkeel-bench offline`: the simulator, the caches and the readers of traces beside peers.
//!
//! ```text
//! inputs     traces, scenarios     process    what a whole process costs
//! contest    who does what         report     medians, ratios, aims        table    for people
//! ```
//!
//! Each round runs every contender of every contest once, in a turning order, alone. Everything is
//! counted in processor time: what else the machine does matters less to it.

mod contest;
mod inputs;
mod process;
mod report;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use evenkeel_app::evidence::machine::Bears;

use crate::common::{Common, bar};
use crate::conclusion::Conclusion;
use crate::machine::{self, Machine};
use crate::peers;

use contest::{Contender, Contest};
use inputs::Inputs;
use process::Meter;
use report::{Measured, Report, Sample};

/// Records and requests where figures do not count.
const SMOKE_COUNT: u64 = 20_000;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel-bench offline --json figures.json
  evenkeel-bench offline --count 8000000 --only ingest
  evenkeel-bench offline --smoke

Contests: ingest queue array cache.")]
pub(crate) struct Offline {
    #[command(flatten)]
    common: Common,
    /// Records of the trace, and requests of a simulation; the array and Python get fewer
    #[arg(long, default_value_t = 4_000_000, value_name = "N", conflicts_with = "smoke")]
    #[arg(value_parser = clap::value_parser!(u64).range(10_000..=100_000_000))]
    count: u64,
    /// Only the contest of this name
    #[arg(long, value_name = "CONTEST")]
    only: Option<String>,
}

impl Offline {
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }
}

/// Where programs lie; peers may be missing.
#[derive(Clone, Debug)]
struct Programs {
    evenkeel: PathBuf,
    fio: Option<PathBuf>,
    /// A Python that has `SimPy`.
    simpy: Option<PathBuf>,
}

impl Programs {
    fn look(evenkeel: PathBuf) -> Self {
        // The system's own Python has the distribution's packages, whichever comes first on PATH.
        let pythons = [Some(PathBuf::from("/usr/bin/python3")), peers::find("python3")];
        let simpy = pythons.into_iter().flatten().find(|python| simpy_version(python).is_some());
        Self { evenkeel, fio: peers::find("fio"), simpy }
    }

    fn versions(&self) -> Vec<String> {
        let evenkeel = first_line(&self.evenkeel, &["--version"]);
        let fio = self.fio.as_deref().and_then(|fio| first_line(fio, &["--version"]));
        let simpy = self.simpy.as_deref().and_then(simpy_version);
        [evenkeel, fio, simpy].into_iter().flatten().collect()
    }

    fn missing(&self) -> Vec<&'static str> {
        let peers = [
            (self.fio.is_none(), "fio (package fio)"),
            (self.simpy.is_none(), "SimPy (package python3-simpy3)"),
        ];
        peers.into_iter().filter_map(|(is_missing, name)| is_missing.then_some(name)).collect()
    }
}

/// One process at a time, in processor time: it needs a core, and nobody sleeps.
const BEARS: Bears =
    Bears { cores: 1.0, late_median_ms: 10.0, late_p99_ms: 50.0, uses_disks: false };

/// Runs the comparison. A contender that failed is a failure, and so is an aim that is missed on a
/// quiet machine without being a known shortfall.
pub(crate) fn offline(arguments: &Offline) -> Result<ExitCode> {
    let machine = Machine::look();
    let common = &arguments.common;
    let scratch = common.folder()?;
    let meter = Meter::new(scratch.path())?;
    let evenkeel = crate::gate(common)?;
    let programs = Programs::look(evenkeel);
    let count = if common.smoke { SMOKE_COUNT } else { arguments.count };
    let rounds = common.rounds();
    let inputs = Inputs::in_folder(scratch.path(), count);
    let mut contests = contest::contests(&programs, &inputs);
    if let Some(name) = &arguments.only {
        contests.retain(|contest| contest.name == name);
        ensure!(!contests.is_empty(), "no contest is called `{name}`; see --help");
    }
    warn(&programs);
    eprintln!("making traces of {count} records");
    inputs.make(&programs.evenkeel)?;
    let watch = machine::watch(common.smoke, BEARS)?;
    let measured = race(&meter, &contests, rounds)?;
    let mut report = Report::new(machine, rounds, common.smoke, &programs, &contests, &measured);
    report.machine.look_at_end(watch);
    let aims = report.aims();
    let conclusion = Conclusion::of("offline", &report.machine, aims, &report.failures);
    print!("{}{}", table::render(&report), conclusion.text());
    common.keep(&report, &conclusion)?;
    Ok(conclusion.code())
}

fn warn(programs: &Programs) {
    for peer in programs.missing() {
        eprintln!("warning: {peer} is not installed, its rows will be absent; `cargo xtask setup`");
    }
}

/// A quarter of the work once, then all rounds; results lie as the contests and their contenders
/// do.
fn race(meter: &Meter, contests: &[Contest], rounds: u32) -> Result<Vec<Vec<Measured>>> {
    let all: usize = contests.iter().map(|contest| contest.contenders.len()).sum();
    let runs = all as u64 * (u64::from(rounds) + 1);
    let progress = bar(runs)?;
    let mut results: Vec<Vec<Measured>> = Vec::new();
    for contest in contests {
        let first = contest.contenders.iter().map(|contender| {
            progress.inc(1);
            progress.set_message(format!("{} {}, a quarter", contest.name, contender.name));
            first_run(meter, contender)
        });
        results.push(first.collect());
    }
    for round in 0..rounds as usize {
        for (contest, results) in contests.iter().zip(&mut results) {
            let count = contest.contenders.len();
            for place in (0..count).map(|place| (place + round) % count) {
                let contender = &contest.contenders[place];
                progress.inc(1);
                progress.set_message(format!("{} {}", contest.name, contender.name));
                next_run(meter, contender, &mut results[place]);
            }
        }
    }
    progress.finish_and_clear();
    Ok(results)
}

fn first_run(meter: &Meter, contender: &Contender) -> Measured {
    let mut measured = Measured::default();
    let sample = measured.note(one_run(meter, contender, &contender.quarter));
    measured.quarter_peak_bytes = sample.map(|sample| sample.peak_bytes);
    measured
}

/// Who failed once is left out; rounds stay aligned, since ratios are paired.
fn next_run(meter: &Meter, contender: &Contender, measured: &mut Measured) {
    let sample = match measured.failure {
        None => measured.note(one_run(meter, contender, &contender.whole)),
        Some(_) => None,
    };
    measured.rounds.push(sample);
}

fn one_run(meter: &Meter, contender: &Contender, line: &[String]) -> Result<Sample> {
    let run = meter.run(line)?;
    let count = contender
        .count(&run.output)
        .with_context(|| format!("`{}` does not tell how much it did", line.join(" ")))?;
    ensure!(count > 0, "`{}` did nothing", line.join(" "));
    Ok(Sample { count, cpu_seconds: run.cpu_seconds, peak_bytes: run.peak_bytes })
}

fn simpy_version(python: &Path) -> Option<String> {
    let version = first_line(python, &["-c", "import simpy; print(simpy.__version__)"])?;
    Some(format!("SimPy {version}"))
}

fn first_line(program: &Path, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.ok().filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}
