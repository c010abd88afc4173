//! `evenkeel simulate`: a scenario in virtual time, with the code that enforces for real.
//!
//! ```text
//! SCENARIO --file--> sim::Scenario --run--> Summary --table, document, series, figures--> people
//! ```

mod document;
mod figures;
pub(crate) mod file;
pub(crate) mod run;
mod series;
pub(crate) mod table;

use std::path::PathBuf;

use crate::config;
use crate::exit::Exit;
use crate::{plot, terminal};

/// Arguments of `evenkeel simulate`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel simulate examples/scenarios/shares.toml
  evenkeel simulate examples/scenarios/bursts.toml --seed 7 --plot ./figures
  evenkeel simulate examples/scenarios/limits.toml --series limits.parquet
  evenkeel simulate examples/scenarios/faults.toml --json | jq '.tenants[] | {name, latency}'

The same scenario and seed give the same run to the last bit; the log hash tells.")]
pub struct Args {
    /// The scenario file (TOML); see docs/simulate.md.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Draw everything from this seed instead of the scenario's own.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Write the time series of each tenant; the ending, .csv or .parquet, says how.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Write figures into this folder, as SVG and PNG.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// Runs the subcommand.
///
/// # Errors
/// [`Exit::Invalid`] for a scenario with mistakes, [`Exit::Usage`] for a series file that is
/// neither CSV nor Parquet, and whatever keeps a file from being read or written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let form = args.series.as_deref().map(series::Form::of).transpose()?;
    let mut loaded = file::load(&args.scenario)?;
    if let Some(seed) = args.seed {
        loaded.scenario.seed = seed;
    }
    let seed = loaded.scenario.seed;
    if let Some(warning) = config::taken_alone(&loaded.scenario.policy) {
        terminal::say(&warning);
    }
    let summary = run::run(&loaded)?;
    if let (Some(path), Some(form)) = (&args.series, form) {
        form.write(path, &summary)?;
        terminal::say(&format!("wrote {}", path.display()));
    }
    plot::draw(args.plot.as_deref(), || {
        let name = args.scenario.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        figures::of(&summary, &name, &format!("{name}, seed {seed}"))
    })?;
    if args.json {
        terminal::json(&document::of(&summary, seed))?;
    } else {
        terminal::data(&table::render(&summary, seed))?;
    }
    Ok(Exit::Success)
}
