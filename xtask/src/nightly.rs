//! The long forms of the checks: what the test ladder does for seconds, for hours.
//!
//! ```text
//! check              in the ladder                  here
//! fuzzing            10 s a target, a fixed seed    an hour over all targets, other seeds
//! power cuts         50,000                         a million, optimised
//! ```
//!
//! A new check has both forms, and a line in [`PARTS`]. What no distribution packages is named by a
//! variable: where it is set the part uses it, elsewhere the summary says what was skipped.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::fuzz::{self, Campaign, Seed};
use crate::ladder::{SKIPS_VARIABLE, SkipsFile};
use crate::steps::{self, Step};
use crate::{chores, setup, shell};

/// Papers and models whose claims `evenkeel reproduce` tries in full.
const PAPERS: [&str; 9] =
    ["vpfs", "baa", "choices", "drg", "gecko", "forecast", "drives", "isolation", "walkthrough"];

/// How `evenkeel reproduce` ends where nothing failed, but the machine was too disturbed for some
/// rows (docs/exit-codes.md).
const NOT_JUDGED: i32 = 6;

/// The folder of traces that are not ours to pass on.
const TRACES_VARIABLE: &str = "EVENKEEL_TRACES";

/// One check that has a long form.
struct Part {
    name: &'static str,
    /// What is done here.
    long: &'static str,
    /// What the test ladder does of it.
    short: &'static str,
    steps: fn(&Options, &SkipsFile) -> Result<Vec<Step>>,
}

const PARTS: [Part; 19] = [
    Part {
        name: "fuzz",
        long: "an hour over all targets, other seeds each time",
        short: "10 s a target, a fixed seed",
        steps: |options, _| fuzzing(options.fuzz_minutes),
    },
    Part {
        name: "power-cuts",
        long: "a million power cuts of the store, or as many as EVENKEEL_CRASH_POINTS says",
        short: "50,000",
        steps: |_, skips| {
            let line = "test --release --locked -p evenkeel-sim --test it store::";
            Ok(vec![tests("power cuts", line, Some(("EVENKEEL_CRASH_POINTS", "1000000")), skips)])
        },
    },
    Part {
        name: "depths",
        long: "the automatic depth on 500 random devices, or as many as EVENKEEL_DEVICES says",
        short: "20",
        steps: |_, skips| {
            let line =
                "test --release --locked -p evenkeel-sim --test it -- depths:: costs:: --nocapture";
            Ok(vec![tests("depths", line, Some(("EVENKEEL_DEVICES", "500")), skips)])
        },
    },
    Part {
        name: "openings",
        long: "volumes in Ceph and over servers up to a pebibyte, with a million objects",
        short: "one of a tebibyte of each",
        steps: |_, skips| {
            let line = "test --locked -p evenkeel-app --all-features --test it -- --nocapture \
                        ceph::sizes::how_long spread::sizes::how_long";
            Ok(vec![tests("openings", line, Some(("EVENKEEL_OPENINGS", "all")), skips)])
        },
    },
    Part {
        name: "fleets",
        long: "1,000 random fleets of gates before one array, or as many as EVENKEEL_FLEETS says",
        short: "20",
        steps: |_, skips| {
            let line = "test --release --locked -p evenkeel-sim --test it -- fleet:: --nocapture";
            Ok(vec![tests("fleets", line, Some(("EVENKEEL_FLEETS", "1000")), skips)])
        },
    },
    Part {
        name: "sites",
        long: "200 random sites of 2 to 200 gates, with loads, goals, losses, partitions and \
               clock faults, or as many as EVENKEEL_SITES says",
        short: "8 of up to 10 gates",
        steps: |_, skips| {
            let line = "test --release --locked -p evenkeel-sim --test it -- sites:: --nocapture";
            Ok(vec![tests("sites", line, Some(("EVENKEEL_SITES", "200")), skips)])
        },
    },
    Part {
        name: "sums",
        long: "10 random sites of 10,000 gates that hear sums, or as many as EVENKEEL_SUMS says",
        short: "one of 800 gates",
        steps: |_, skips| {
            let line = "test --release --locked -p evenkeel-sim --test it -- --nocapture \
                        sites::shares_and_goals_hold_where_thousands_of_gates_hear_sums";
            Ok(vec![tests("sums", line, Some(("EVENKEEL_SUMS", "10")), skips)])
        },
    },
    Part {
        name: "exchange",
        long: "what the words of 5 to 1,000 gates cost one of them, over UDP and NATS, and the \
               sums of 200 processes and 10,000 emulated ones",
        short: "5 gates, and 50 that are emulated, and sums of 1,000",
        steps: |_, skips| {
            let line = "test --locked -p evenkeel-app --all-features --test it -- --nocapture \
                        exchange::scale";
            Ok(vec![tests("exchange", line, Some(("EVENKEEL_EXCHANGE_SCALE", "all")), skips)])
        },
    },
    Part {
        name: "forecasts",
        long: "100 recordings of a minute; EVENKEEL_FORECASTS, EVENKEEL_FORECAST_SECONDS; one live",
        short: "4 of a minute, and a live one of 15 s",
        steps: |_, skips| {
            let line =
                "test --release --locked -p evenkeel-sim --test it -- forecast:: --nocapture";
            let live = "test --locked -p evenkeel-app --test it -- --nocapture advise::live";
            Ok(vec![
                tests("forecasts", line, Some(("EVENKEEL_FORECASTS", "100")), skips),
                tests("a forecast", live, Some(("EVENKEEL_FORECAST_LIVE", "all")), skips),
            ])
        },
    },
    Part {
        name: "blame",
        long: "200 scenes held against the same world without the accused, or EVENKEEL_SCENES",
        short: "48",
        steps: |_, skips| {
            let line = "test --release --locked -p evenkeel-engine --test it -- \
                        attribution::scenes:: --nocapture";
            Ok(vec![tests("blame", line, Some(("EVENKEEL_SCENES", "200")), skips)])
        },
    },
    Part {
        name: "kills",
        long: "gates and upstreams killed and stopped 100 times, or EVENKEEL_KILLS, under fio",
        short: "once to 5 times",
        steps: |_, skips| {
            let line = "test --release --locked -p evenkeel-app --test it -- \
                        stores::a_gate_killed restarts::";
            Ok(vec![tests("kills", line, Some(("EVENKEEL_KILLS", "100")), skips)])
        },
    },
    Part {
        name: "fencing",
        long: "gates that come back, 200 rounds a trial over both kinds of volumes, or \
               EVENKEEL_FENCING_ROUNDS",
        short: "20 of spread and 10 of tiered ones, with a tenth of the lease and little data",
        steps: |_, skips| {
            let line = "test --release --locked -p evenkeel-app --test it fencing:: -- \
                        --test-threads=1 --nocapture";
            Ok(vec![tests("fencing", line, Some(("EVENKEEL_FENCING_ROUNDS", "200")), skips)])
        },
    },
    Part {
        name: "schedules",
        long: "a million schedules of gates in virtual time, or EVENKEEL_SCHEDULES",
        short: "400, and each check left out",
        steps: |_, skips| {
            let line = "test --release --locked -p evenkeel-engine whatever_stops -- \
                        --nocapture";
            Ok(vec![tests("schedules", line, Some(("EVENKEEL_SCHEDULES", "1000000")), skips)])
        },
    },
    Part {
        name: "in-doubt",
        long: "200 connections cut under moves, each before servers that are up to 10 s late, or \
               EVENKEEL_CUTS",
        short: "4 cuts before each kind of server",
        steps: |_, skips| {
            let line = "test --release --locked -p evenkeel-app --test it in_doubt::cuts -- \
                        --test-threads=1 --nocapture";
            Ok(vec![tests("in doubt", line, Some(("EVENKEEL_CUTS", "200")), skips)])
        },
    },
    Part {
        name: "attacks",
        long: "each attack on a tenant at full size, as a table, and all at once beside fio for 10 \
               minutes, or EVENKEEL_MIX seconds",
        short: "two of them at a small size, and all at once for seconds",
        steps: |_, skips| {
            let table = "test --release --locked -p evenkeel-app --test it isolation::attacks -- \
                         --nocapture";
            let mix = "test --release --locked -p evenkeel-app --test it isolation::mix -- \
                       --nocapture";
            Ok(vec![
                tests("attacks", table, Some(("EVENKEEL_ATTACKS", "all")), skips),
                tests("attacks at once", mix, Some(("EVENKEEL_MIX", "600")), skips),
            ])
        },
    },
    Part {
        name: "damage",
        long: "members of volumes that are damaged, old, blank or exchanged, 5,000 of each, or \
               EVENKEEL_DAMAGE",
        short: "60 of each kind",
        steps: |_, skips| {
            let line = "test --release --locked -p evenkeel-engine do_not_bring_back -- \
                        --nocapture";
            Ok(vec![tests("damage", line, Some(("EVENKEEL_DAMAGE", "5000")), skips)])
        },
    },
    Part {
        name: "traces",
        long: "real traces and recordings of drives, in the folder that EVENKEEL_TRACES names",
        short: "the same where the variable is set",
        steps: |_, skips| {
            let line = "test --release --locked -p evenkeel-trace -p evenkeel-sim --test it -- \
                        real:: hdd::";
            Ok(vec![tests("traces", line, None, skips)])
        },
    },
    Part {
        name: "papers",
        long: "every `evenkeel reproduce` in full",
        short: "`--quick`, or a part, of those that need no quiet machine",
        steps: |_, skips| Ok(papers(skips)),
    },
    Part {
        name: "benchmarks",
        long: "single functions, and comparisons with named peers, with their figures",
        short: "once at toy size, without figures",
        steps: |_, _| Ok(vec![Step::new("benchmarks", chores::bench)]),
    },
];

#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask nightly --list
  cargo xtask nightly --only power-cuts --only traces
  EVENKEEL_TRACES=~/traces cargo xtask nightly")]
pub(crate) struct Options {
    /// Only this part; may be given several times
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Say what the parts are, and what the test ladder does of each
    #[arg(long)]
    list: bool,
    /// Minutes of fuzzing, shared by all targets
    #[arg(long, default_value_t = 60, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    fuzz_minutes: u64,
}

/// Carries out the parts; fails if any of them failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let chosen = chosen(&options.only)?;
    if options.list {
        for Part { name, long, short, .. } in chosen {
            println!("{name:<12}{long}\n{:<12}in the ladder: {short}", "");
        }
        return Ok(());
    }
    let found = setup::look();
    let skips_file = SkipsFile::new()?;
    let mut skips = found.skips();
    if std::env::var_os(TRACES_VARIABLE).is_none() {
        skips.push(format!("real traces ({TRACES_VARIABLE} names no folder)"));
    }
    let mut steps = Vec::new();
    for part in chosen {
        if part.name == "fuzz" && !found.has_cargo_fuzz() {
            continue; // One of the skips above.
        }
        steps.extend((part.steps)(options, &skips_file)?);
    }
    steps::climb(steps, || {
        skips.extend(skips_file.read());
        skips
    })
}

/// The parts of these names; all of them if there are none.
fn chosen(only: &[String]) -> Result<Vec<&'static Part>> {
    let unknown = only.iter().find(|name| PARTS.iter().all(|part| part.name != **name));
    if let Some(name) = unknown {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        bail!("no part `{name}`; there are: {}", names.join(", "));
    }
    let is_chosen = |part: &&Part| only.is_empty() || only.iter().any(|name| name == part.name);
    Ok(PARTS.iter().filter(is_chosen).collect())
}

fn fuzzing(minutes: u64) -> Result<Vec<Step>> {
    let targets = fuzz::targets()?;
    let seconds = seconds_each(minutes, targets.len(), shell::processors());
    let campaign = Campaign { seconds, seed: Seed::Random };
    let name = format!("{} fuzz targets for {seconds} s each", targets.len());
    Ok(vec![
        Step::new("fuzz targets built", || shell::run(&mut fuzz::build_command())),
        Step::with_failures(name, move |failures| campaign.run(&targets, failures)),
    ])
}

/// What each of so many targets gets of the time, with one on each processor.
fn seconds_each(minutes: u64, targets: usize, processors: usize) -> u64 {
    let turns = targets.div_ceil(processors).max(1) as u64;
    (minutes * 60 / turns).max(1)
}

/// Tests of an optimised build, with a variable that makes them long unless it is set already.
fn tests(
    name: &str,
    line: &'static str,
    length: Option<(&'static str, &'static str)>,
    skips: &SkipsFile,
) -> Step {
    let skips = skips.path().to_path_buf();
    Step::new(name, move || {
        let mut command = shell::cargo(line);
        if let Some((variable, usual)) = length
            && std::env::var_os(variable).is_none()
        {
            command.env(variable, usual);
        }
        shell::run(command.env(SKIPS_VARIABLE, &skips))
    })
}

fn papers(skips: &SkipsFile) -> Vec<Step> {
    let line = "build --release --locked -p evenkeel-app";
    let product = Step::new("the product, optimised", || shell::run(&mut shell::cargo(line)));
    let paper = |name: &'static str| {
        let skips = skips.path().to_path_buf();
        Step::new(format!("paper {name}"), move || {
            let mut command = Command::new(shell::target().join("release/evenkeel"));
            command.args(["reproduce", name]).current_dir(shell::root());
            match shell::run_to_code(&mut command)? {
                Some(0) => Ok(()),
                Some(NOT_JUDGED) => {
                    let line = format!("paper {name}: the machine was disturbed, run it again\n");
                    Ok(OpenOptions::new().append(true).open(&skips)?.write_all(line.as_bytes())?)
                }
                code => bail!("`evenkeel reproduce {name}` ended with {code:?}"),
            }
        })
    };
    std::iter::once(product).chain(PAPERS.map(paper)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_chosen_by_name_and_unknown_names_are_refused() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            chosen(&only).map(|parts| parts.iter().map(|part| part.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap().len(), PARTS.len());
        assert_eq!(names(&["traces", "fuzz"]).unwrap(), ["fuzz", "traces"]);
        let error = names(&["fuz"]).unwrap_err().to_string();
        assert!(error.starts_with("no part `fuz`; there are: fuzz, power-cuts"), "{error}");
    }

    #[test]
    fn the_targets_share_the_time_of_fuzzing() {
        assert_eq!(seconds_each(60, 14, 2), 514);
        assert_eq!(seconds_each(60, 15, 2), 450);
        assert_eq!(seconds_each(1, 200, 1), 1, "each runs for a moment at least");
    }
}
