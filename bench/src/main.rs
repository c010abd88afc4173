//! Evenkeel beside named peers, on the same work in one run: `evenkeel-bench compare` as a server
//! and a relay, `evenkeel-bench disk` as a log, `evenkeel-bench offline` as a simulator and a
//! reader of traces, `evenkeel-bench place` as a finder of servers, `evenkeel-bench spread` as a
//! volume over servers, `evenkeel-bench moves` as a volume whose extents move. `evenkeel-bench
//! exchange` tells what gates that share a device cost each other.
//!
//! ```text
//! matrix     which cells           run       interleaved rounds      report   ratios, verdicts
//! peers      command lines         workload  fio, evenkeel bench     table    for people
//! server     one running peer      cpu       time of a process       machine  on what
//! ```
//!
//! `docs/benchmarks.md` says how to run it and how to read what it prints.

mod common;
mod conclusion;
mod cpu;
mod disk;
mod exchange;
mod gate;
mod machine;
mod matrix;
mod moves;
mod offline;
mod peers;
mod place;
mod report;
mod run;
mod server;
mod spread;
mod statistics;
mod table;
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use evenkeel_app::evidence::machine::Bears;
use indicatif::ProgressBar;

use common::Common;
use machine::Machine;
use matrix::{Contest, Extent, Peer, Stage};
use peers::Programs;
use report::Report;
use run::{Options, Results};
use workload::Generator;

/// Size of every export: beyond the processor's caches, within everybody's memory.
const SIZE_BYTES: u64 = 512 << 20;

/// The same where figures do not count.
const SMOKE_SIZE_BYTES: u64 = 32 << 20;

/// How long one load lasts where figures do not count.
const SMOKE_SECONDS: f64 = 0.2;

/// What a load takes beside its own time: a load generator starts in about half a second.
const START_SECONDS: f64 = 0.6;

#[derive(Parser)]
#[command(name = "evenkeel-bench", about = "Comparisons with named peers.", version)]
#[command(after_help = "\
Ends with 1 if a peer failed, or an aim was missed that is no known shortfall; with 6 if neither,
but some aim could not be judged, because the machine was disturbed meanwhile.")]
struct Arguments {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Compare with nbdkit, qemu-nbd and haproxy on this machine
    Compare(Compare),
    /// Compare the chained log with this machine's disk
    Disk(disk::Disk),
    /// Measure what gates that share a device cost each other
    Exchange(exchange::Arguments),
    /// Measure what moving extents between tiers costs the tenants
    Moves(moves::Arguments),
    /// Compare simulator, caches and readers of traces with peers and known figures
    Offline(offline::Offline),
    /// Compare finding the servers of objects with CRUSH
    Place(place::Place),
    /// Compare a volume over four servers with the four servers
    Spread(spread::Arguments),
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel-bench compare --json figures.json
  evenkeel-bench compare --only 'relay unix depth32' --rounds 9
  evenkeel-bench compare --smoke

A cell is named contest/transport/workload/connections, such as
relay/unix/4k-random-read-depth32/connections4. Contests: memory cached direct relay.
Words match anywhere in the name: say depth1/ for depth 1 without 16.")]
struct Compare {
    #[command(flatten)]
    common: Common,
    /// How long each load lasts
    #[arg(long, default_value_t = 2.0, value_name = "S", value_parser = seconds)]
    #[arg(conflicts_with = "smoke")]
    seconds: f64,
    /// Only cells whose name has every word of this pattern in it
    #[arg(long, default_value = "", value_name = "PATTERN", hide_default_value = true)]
    only: String,
    /// Who makes the load
    #[arg(long, value_enum, default_value_t = LoadName::Fio)]
    load: LoadName,
}

/// Load generators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadName {
    /// fio's nbd engine
    Fio,
    /// The `bench` subcommand of the gate under test
    Evenkeel,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give 0.1 to 3600 seconds".to_owned()),
    }
}

impl Subcommands {
    fn common(&self) -> &Common {
        match self {
            Self::Compare(arguments) => &arguments.common,
            Self::Disk(arguments) => arguments.common(),
            Self::Exchange(arguments) => arguments.common(),
            Self::Moves(arguments) => arguments.common(),
            Self::Offline(arguments) => arguments.common(),
            Self::Place(arguments) => arguments.common(),
            Self::Spread(arguments) => arguments.common(),
        }
    }
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    if let Err(error) = command.common().check_build(cfg!(debug_assertions)) {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    let outcome = match command {
        Subcommands::Compare(arguments) => compare(&arguments),
        Subcommands::Disk(arguments) => disk::disk(&arguments),
        Subcommands::Exchange(arguments) => exchange::exchange(&arguments),
        Subcommands::Moves(arguments) => moves::moves(&arguments),
        Subcommands::Offline(arguments) => offline::offline(&arguments),
        Subcommands::Place(arguments) => place::place(&arguments),
        Subcommands::Spread(arguments) => spread::spread(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Client, peer and upstream take all there is, and a request takes tens of microseconds: others
/// must hardly be there.
const BEARS: Bears =
    Bears { cores: f64::INFINITY, late_median_ms: 0.5, late_p99_ms: 2.0, uses_disks: true };

/// Runs the comparison. A peer that failed is a failure, and so is an aim that is missed on a quiet
/// machine without being a known shortfall.
fn compare(arguments: &Compare) -> Result<ExitCode> {
    let machine = Machine::look();
    let scratch = arguments.common.folder()?;
    let options = options(arguments, scratch.path())?;
    let watch = machine::watch(arguments.common.smoke, BEARS)?;
    let mut stages = matrix::stages(options.extent, &arguments.only);
    ensure!(!stages.is_empty(), "no cell has `{}` in its name; see --help", arguments.only);
    let mut report = empty_report(&options, machine);
    warn(&report);
    // Relays have nothing to stand before without it.
    let is_possible =
        |stage: &Stage| stage.contest != Contest::Relay || !report.missing.contains(&Peer::Nbdkit);
    stages.retain(is_possible);
    run_all(&options, &stages, &mut report)?;
    report.machine.look_at_end(watch);
    let conclusion = report.conclusion();
    print!("{}{}", table::render(&report), conclusion.text());
    arguments.common.keep(&report, &conclusion)?;
    Ok(conclusion.code())
}

fn options(arguments: &Compare, folder: &Path) -> Result<Options> {
    let evenkeel = gate(&arguments.common)?;
    let generator = generator(arguments, &evenkeel)?;
    let smoke = arguments.common.smoke;
    let seconds = if smoke { SMOKE_SECONDS } else { arguments.seconds };
    Ok(Options {
        extent: if smoke { Extent::Smoke } else { Extent::Whole },
        rounds: arguments.common.rounds(),
        runtime: Duration::from_secs_f64(seconds),
        size_bytes: if smoke { SMOKE_SIZE_BYTES } else { SIZE_BYTES },
        generator,
        programs: Programs { evenkeel },
        folder: folder.to_path_buf(),
    })
}

fn generator(arguments: &Compare, evenkeel: &Path) -> Result<Generator> {
    let ours = Generator::Evenkeel(evenkeel.to_path_buf());
    match (arguments.load, peers::find("fio")) {
        (LoadName::Evenkeel, _) => Ok(ours),
        (LoadName::Fio, Some(program)) => Ok(Generator::Fio(program)),
        (LoadName::Fio, None) if arguments.common.smoke => {
            eprintln!("SKIPPED: fio is missing; `evenkeel bench` makes the load");
            Ok(ours)
        }
        (LoadName::Fio, None) => bail!("fio is missing; `cargo xtask setup` installs it"),
    }
}

/// The program under test: the one that was named, or one built from this tree.
fn gate(common: &Common) -> Result<PathBuf> {
    match &common.evenkeel {
        Some(path) => fs::canonicalize(path)
            .with_context(|| format!("there is no gate at {}", path.display())),
        None => build(common.smoke),
    }
}

/// Builds the gate from this tree, which takes no time when it is up to date, and gives its path.
/// Where figures do not count it is not optimised, which takes a fraction of the time.
fn build(is_smoke: bool) -> Result<PathBuf> {
    let (folder, optimised) =
        if is_smoke { ("debug", None) } else { ("release", Some("--release")) };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().context("the bench lies one folder below the root")?;
    eprintln!("building the gate ({folder})");
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", "evenkeel-app"])
        .args(optimised)
        .current_dir(root)
        // Cargo told us which package we are; the build must not take that for its own.
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("CARGO_MANIFEST_PATH")
        .stdin(Stdio::null())
        .status()
        .context("cannot start cargo; give --evenkeel PATH")?;
    ensure!(status.success(), "the gate does not build; give --evenkeel PATH to test another");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    fs::canonicalize(root.join(target).join(folder).join("evenkeel"))
        .with_context(|| format!("cargo left no gate in its folder {folder}; give --evenkeel PATH"))
}

fn empty_report(options: &Options, machine: Machine) -> Report {
    let peers = Contest::ALL.iter().flat_map(|contest| contest.peers());
    let mut versions = BTreeMap::new();
    let mut missing = Vec::new();
    for peer in peers {
        if options.programs.of(*peer).is_some() {
            versions.insert(*peer, options.programs.version_of(*peer));
        } else if !missing.contains(peer) {
            missing.push(*peer);
        }
    }
    // One program, one version.
    versions.remove(&Peer::HaproxySplice);
    Report {
        machine,
        file_system: machine::file_system_of(&options.folder),
        load_generator: options.generator.to_string(),
        versions,
        rounds: options.rounds,
        seconds: options.runtime.as_secs_f64(),
        smoke: options.extent == Extent::Smoke,
        rows: Vec::new(),
        missing,
        failures: Vec::new(),
    }
}

/// What the reader should know before anything is measured.
fn warn(report: &Report) {
    for peer in &report.missing {
        eprintln!("warning: {peer} is not installed, its rows will be absent; `cargo xtask setup`");
    }
    if report.file_system == "tmpfs" {
        eprintln!("warning: disks lie in memory (tmpfs): the rows of file exports mean little");
    }
}

fn run_all(options: &Options, stages: &[Stage], report: &mut Report) -> Result<()> {
    let present = |stage: &Stage| {
        let peers = stage.contest.peers().iter();
        peers.filter(|peer| options.programs.of(**peer).is_some()).count()
    };
    let loads: usize = stages.iter().map(|stage| stage.cells.len() * present(stage)).sum();
    let loads = loads as u64 * u64::from(options.rounds);
    let minutes = loads as f64 * (options.runtime.as_secs_f64() + START_SECONDS) / 60.0;
    if options.extent == Extent::Whole {
        eprintln!("{loads} loads, about {} minutes", minutes.ceil());
    }
    let progress = common::bar(loads)?;
    // Side by side no figure would count; where none does it saves half of the time.
    let abreast = if options.extent == Extent::Smoke { 2 } else { 1 };
    for stages in stages.chunks(abreast) {
        for (stage, results) in stages.iter().zip(run_abreast(options, stages, &progress)) {
            match results {
                Ok(results) => {
                    report.rows.extend(results.measured.iter().flat_map(report::Measured::rows));
                    report.failures.extend(results.failures);
                }
                Err(error) => report.failures.push(format!("{stage}: {error:#}")),
            }
        }
    }
    progress.finish_and_clear();
    Ok(())
}

fn run_abreast(
    options: &Options,
    stages: &[Stage],
    progress: &ProgressBar,
) -> Vec<Result<Results>> {
    if let [stage] = stages {
        return vec![run::stage(options, stage, progress)];
    }
    thread::scope(|scope| {
        let start = |stage| scope.spawn(move || run::stage(options, stage, progress));
        let threads: Vec<_> = stages.iter().map(start).collect();
        threads.into_iter().map(|stage| stage.join().expect("a stage never panics")).collect()
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_smoke_run_takes_no_sizes() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' ')).is_ok();
        assert!(parse("bench compare --smoke"));
        assert!(!parse("bench compare --smoke --json out.json"), "figures that nobody may quote");
        assert!(parse("bench compare --rounds 7 --seconds 1.5"));
        assert!(!parse("bench compare --smoke --rounds 7"));
        assert!(!parse("bench compare --rounds 0"));
        assert!(!parse("bench compare --seconds 0"));
        assert!(parse("bench offline --smoke"));
        assert!(!parse("bench offline --smoke --json out.json"), "figures that nobody may quote");
        assert!(!parse("bench offline --smoke --count 50000"));
        assert!(!parse("bench offline --count 10"));
        assert!(parse("bench disk --smoke"));
        assert!(parse("bench disk --size 4096 --seconds 20"));
        assert!(!parse("bench disk --size 1"));
    }
}
