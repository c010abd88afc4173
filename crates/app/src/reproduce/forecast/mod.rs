//! Forecast against reality: the same scenarios live and in virtual time, row by row.
//!
//! ```text
//!                       +-- nbdkit <- gate process <- load generator --+
//! scenarios/NAME.toml --|                                              |--> side by side
//!                       +-- sim::run ----------------------------------+
//! ```
//!
//! The backends are slow on purpose (tens of milliseconds, a few MB/s): what is compared is the
//! queueing, which the policy decides, not the speed of this machine's processors. The simulated
//! devices know nbdkit's filters by their rules; nothing is fitted to a run. What this machine
//! itself takes for a request is measured once, before the scenarios and on none of them.

mod live;
mod rows;

use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::Span;
use evenkeel_sim::scenario::Scenario;
use serde::Serialize;

use super::Options;
use crate::evidence::Tally;
use crate::evidence::machine::Conditions;
use crate::exit::Exit;
use crate::plot::{Chart, Figure, Line};
use crate::simulate::{file, run::refuse};
use crate::stage::find_nbdkit;
use crate::{human, terminal};
use live::Machine;
use rows::Row;

/// How far live and forecast may differ, as parts of the live figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Tolerance {
    share: f64,
    mean: f64,
    p99: f64,
}

const FULL: Tolerance = Tolerance { share: 0.03, mean: 0.10, p99: 0.20 };

/// A short run tells less.
const QUICK: Tolerance = Tolerance { share: 0.06, mean: 0.15, p99: 0.30 };

/// The measured time of a short run: two of the longest periods in the scenarios.
const QUICK_LENGTH: Span = Span::from_secs(8);

/// One scenario of the comparison.
struct Trial {
    name: &'static str,
    text: &'static str,
}

const TRIALS: [Trial; 7] = [
    Trial { name: "shares", text: include_str!("scenarios/shares.toml") },
    Trial { name: "limits", text: include_str!("scenarios/limits.toml") },
    Trial { name: "bursts", text: include_str!("scenarios/bursts.toml") },
    Trial { name: "churn", text: include_str!("scenarios/churn.toml") },
    Trial { name: "adaptive", text: include_str!("scenarios/adaptive.toml") },
    Trial { name: "sizes", text: include_str!("scenarios/sizes.toml") },
    Trial { name: "mixture", text: include_str!("scenarios/mixture.toml") },
];

/// What one workload got, in one of the two worlds.
#[derive(Clone, Debug)]
struct Outcome {
    workload: String,
    bytes: u64,
    latency: Histogram,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    claim: &'static str,
    data_server: &'a str,
    machine: Machine,
    seed: u64,
    quick: bool,
    tolerance: Tolerance,
    holds: bool,
    count: &'a Tally,
    rows: &'a [Row],
}

/// Runs every scenario in both worlds and shows what came of them.
pub(super) fn run(options: &Options) -> anyhow::Result<Exit> {
    let nbdkit = find_nbdkit()?;
    let tolerance = if options.quick { QUICK } else { FULL };
    let machine = Machine::measure()?;
    terminal::say(&format!(
        "this machine adds {} to a request, {} of it one by one",
        human::duration(Span(machine.alone_ns)),
        human::duration(Span(machine.serial_ns))
    ));
    let mut all = Vec::new();
    let mut figures = Vec::new();
    for trial in &TRIALS {
        let mut scenario = trial.scenario(options)?;
        let seconds = (scenario.warm_up + scenario.length).as_secs_f64();
        terminal::say(&format!("{}: {seconds:.0} s live, then the forecast", trial.name));
        let (live, conditions) = Conditions::during(live::BEARS, || live::run(&scenario))?;
        let live = live?;
        machine.host(&mut scenario);
        let forecast = simulated(&scenario)?;
        figures.push(figure(trial.name, &live, &forecast));
        let mut rows = rows::compare(trial.name, &live, &forecast, tolerance);
        for row in &mut rows {
            row.temper(&conditions);
        }
        all.extend(rows);
    }
    options.draw(|| figures)?;
    let count = Tally::of(all.iter().map(Row::verdict));
    let exit = count.exit();
    if options.json {
        terminal::json(&Document {
            claim: "the forecast tells what a live gate delivers",
            data_server: &nbdkit,
            machine,
            seed: options.seed,
            quick: options.quick,
            tolerance,
            holds: exit == Exit::Success,
            count: &count,
            rows: &all,
        })?;
    } else {
        let table = rows::table(&all, tolerance, terminal::colour_on_stdout());
        terminal::data(&format!("{table}{}{}\n", rows::reasons(&all), count.line()))?;
    }
    Ok(exit)
}

impl Trial {
    fn scenario(&self, options: &Options) -> anyhow::Result<Scenario> {
        let mut scenario = file::parse(self.text, self.name, "".as_ref())?.scenario;
        scenario.seed = options.seed;
        if options.quick {
            scenario.length = QUICK_LENGTH;
        }
        Ok(scenario)
    }
}

/// The forecast; one outcome for each workload of the scenario.
fn simulated(scenario: &Scenario) -> anyhow::Result<Vec<Outcome>> {
    let summary = evenkeel_sim::run(scenario).map_err(refuse)?;
    let outcome = |group: &evenkeel_sim::result::GroupSummary| Outcome {
        workload: group.name.clone(),
        bytes: group.traffic.bytes,
        latency: group.traffic.latency.histogram.clone(),
    };
    Ok(summary.groups.iter().map(outcome).collect())
}

/// Both distributions of each workload, the forecast dashed.
fn figure(name: &str, live: &[Outcome], forecast: &[Outcome]) -> Figure {
    let pairs = live.iter().zip(forecast).enumerate();
    let lines = pairs.flat_map(|(colour, (live, forecast))| {
        let (real, ahead) =
            (format!("{}, live", live.workload), format!("{}, forecast", live.workload));
        [
            Line::distribution(real, &live.latency, colour),
            Line::distribution(ahead, &forecast.latency, colour).dashed(),
        ]
    });
    let title = format!("{name}: latency, live and forecast");
    Figure::new(
        format!("forecast-{name}"),
        Chart::distributions(title, "latency (ms)", lines.collect()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_runs_in_virtual_time_and_serves_everybody() {
        let options = Options { quick: true, json: true, seed: 1, plot: None };
        for trial in &TRIALS {
            let scenario = trial.scenario(&options).unwrap();
            assert_eq!(scenario.devices.len(), 1, "{}", trial.name);
            for outcome in simulated(&scenario).unwrap() {
                assert!(outcome.latency.count() > 50, "{}: {outcome:?}", trial.name);
            }
        }
    }
}
