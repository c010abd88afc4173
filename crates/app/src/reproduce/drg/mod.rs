//! DRG: "A Decentralized Resource Allocation Approach for Response-time Guarantees in Storage
//! System" (2011), beside what came before it and beside ours.
//!
//! ```text
//!   web0, web1, tpcc0, tpcc1 -> a host each, with its controller -> 8 Cheetah 9LP, RAID 0
//! ```
//!
//! In virtual time: the controllers are those of the product, the array is the simulator's. The
//! load is fitted on one set of seeds ([`load`]) and the claims are judged on another ([`runs`]).
//! Shares over hosts, which PARDA and what became of it claim, stand beside that ([`hosts`]). And
//! live: gates that exchange their summaries over a network ([`live`]).

mod figures;
mod hosts;
mod live;
mod load;
mod reference;
mod rows;
mod runs;
mod spread;

use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_sim::control::paper::{Level, Method};
use indicatif::ProgressBar;
use serde::Serialize;

use super::Options;
use super::claim::{self, Claim, Verdict};
use crate::exit::Exit;
use crate::stage::find_qemu_nbd;
use crate::terminal;
use reference::Reference;
use runs::{Cell, Scope, Score, Scores};

/// How to run the experiments.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct DrgOptions {
    #[command(flatten)]
    common: Options,
    /// Run one part alone.
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
}

/// A part of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The paper's experiment, in virtual time.
    Simulated,
    /// PARDA's claims on shares over hosts, in virtual time.
    Hosts,
    /// The search for the load of that experiment, without any controller.
    Fit,
    /// Four gates before one disk. Needs qemu-nbd, network namespaces and some minutes.
    Live,
}

#[derive(Debug, Serialize)]
struct More {
    /// On the seeds that claims are judged on.
    reporting: OnSeeds,
    /// On those that the load was fitted on; not with `--quick`.
    fitting: Option<OnSeeds>,
}

/// What came of one set of seeds.
#[derive(Debug, Serialize)]
struct OnSeeds {
    first_seed: u64,
    last_seed: u64,
    cells: Vec<Shown>,
    /// Identifiers of the claims that do not hold on these seeds.
    fails: Vec<String>,
}

/// A method under one level and load, for programs: means over the seeds, with the half widths of
/// their 95 % confidence intervals, in percent.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Shown {
    level: String,
    load: f64,
    method: &'static str,
    violating_by_workload: [f64; 4],
    violating: f64,
    violating_half_width: f64,
    late: f64,
    late_half_width: f64,
}

/// Runs the experiments and shows what came of them.
pub(super) fn run(options: &DrgOptions) -> anyhow::Result<Exit> {
    let DrgOptions { common: options, only } = options;
    if *only == Some(Part::Live) {
        let disk = find_qemu_nbd()?;
        terminal::say(&format!("four gates, live; disk: {disk}"));
        return claim::show("drg", options, &live::claims(options)?, "PAPER");
    }
    let reference = Reference::load();
    let number = options.seed;
    let scope = if options.quick { Scope::quick(number) } else { Scope::full(number) };
    let scope = scope.ok_or_else(|| {
        Exit::Usage.because(format!("--seed {number} has no seeds to report on; 1 is the first"))
    })?;
    if *only == Some(Part::Fit) {
        terminal::say("the search for the load: 16 pairs of pauses, no controller takes part");
        let claims = load::search(&reference, scope.seeds);
        return claim::show("drg", options, &claims, "PAPER");
    }
    if *only == Some(Part::Hosts) {
        terminal::say("PARDA (FAST 2009): shares over hosts before one simulated array");
        let claims = hosts::claims(&reference, options.quick, number);
        return claim::show("drg", options, &claims, "PAPER");
    }
    let reference::Capacity { slots, latency_ms } = reference.capacity;
    terminal::say(&format!(
        "DRG (2011): four workloads on eight simulated Cheetah 9LP, {latency_ms:.0} ms at {slots} \
         slots"
    ));
    let mut claims = load::shown(&reference, scope.seeds.clone());
    let (reporting, judged) = on_seeds(&reference, &scope, "reporting", options.json)?;
    claims.extend(judged);
    let fitting = if options.quick {
        None
    } else {
        Some(on_seeds(&reference, &scope.fitting(), "fitting", options.json)?.0)
    };
    if let Some(OnSeeds { fails, .. }) = &fitting {
        terminal::say(&format!("claims that fail on the fitting seeds: {}", listed(fails)));
    }
    if only.is_none() {
        claims.extend(hosts::claims(&reference, options.quick, number));
    }
    if only.is_none() && find_qemu_nbd().is_ok() {
        claims.extend(live::claims(options)?);
    }
    options.draw(|| figures::figures(&scope))?;
    let more = More { reporting, fitting };
    claim::show_with(&more, "drg", options, &claims, "PAPER")
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Runs everything on a set of seeds, and shows its table unless a document is asked for.
fn on_seeds(
    reference: &Reference,
    scope: &Scope,
    set: &str,
    json: bool,
) -> anyhow::Result<(OnSeeds, Vec<Claim>)> {
    let title = format!("{set} seeds: {}", scope.seeds_shown());
    terminal::say(&title);
    let style = terminal::bar_style("{pos} of {len} runs");
    let bar = ProgressBar::no_length().with_style(style);
    let told = AtomicUsize::new(0);
    let scores = Scores::of(scope, |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        let tenth = done * 10 / all;
        if bar.is_hidden() && told.fetch_max(tenth, Ordering::Relaxed) < tenth {
            terminal::say(&format!("{done} of {all} runs"));
        }
    });
    bar.finish_and_clear();
    let claims = rows::claims(reference, scope, &scores);
    let cells = shown(scope, &scores);
    if !json {
        terminal::data(&format!("{title}\n{}", table(&cells)))?;
    }
    let fails = claims.iter().filter(|claim| claim.verdict == Verdict::Fails);
    let fails = fails.map(|claim| claim.id.clone()).collect();
    let (first_seed, last_seed) = (*scope.seeds.start(), *scope.seeds.end());
    Ok((OnSeeds { first_seed, last_seed, cells, fails }, claims))
}

fn shown(scope: &Scope, scores: &Scores) -> Vec<Shown> {
    let mut all = Vec::new();
    for load_milli in &scope.loads_milli {
        for level in [Level::A, Level::B] {
            for method in Method::ALL {
                let cell = Cell { level, load_milli: *load_milli, method };
                let violating = scores.spread(cell, Score::violating_all);
                let late = scores.spread(cell, |score| score.late);
                all.push(Shown {
                    level: format!("SLO_{level:?}"),
                    load: f64::from(*load_milli) / 1000.0,
                    method: method.name(),
                    violating_by_workload: [0, 1, 2, 3]
                        .map(|load| scores.spread(cell, |score| score.violating[load]).mean),
                    violating: violating.mean,
                    violating_half_width: violating.half_width,
                    late: late.mean,
                    late_half_width: late.half_width,
                });
            }
        }
    }
    all
}

/// All cells as a table, in percent.
fn table(cells: &[Shown]) -> String {
    let header =
        ["LEVEL", "LOAD", "METHOD", "WEB0", "WEB1", "TPCC0", "TPCC1", "VIOLATING %", "LATE %"];
    let rows: Vec<Vec<String>> = cells
        .iter()
        .map(|cell| {
            let mut row =
                vec![cell.level.clone(), format!("{:.2}", cell.load), cell.method.to_owned()];
            row.extend(cell.violating_by_workload.map(|percent| format!("{percent:.1}")));
            row.push(format!("{:.1} +- {:.1}", cell.violating, cell.violating_half_width));
            row.push(format!("{:.1} +- {:.1}", cell.late, cell.late_half_width));
            row
        })
        .collect();
    format!("{}\n", terminal::table(&header, &rows))
}
