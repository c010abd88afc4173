//! `evenkeel calibrate`: measures a live backend with a ladder of short loads, says what it found,
//! and writes a model of it that the simulator takes as a device.
//!
//! The model goes to a file, the findings to stdout as a table or JSON, talk and the progress bar
//! to stderr. Nothing is written to the backend without `--write`.

mod incomplete;
mod ladder;
mod measure;
mod table;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_core::date;
use evenkeel_core::time::Span;
use evenkeel_io::load::{ExportOffer, LoadError, probe};
use evenkeel_sim::calibrate::{Model, Provenance, fit};
use evenkeel_wire::nbd::uri::NbdUri;

use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::{terminal, version};
use incomplete::Incomplete;
use measure::{Campaign, Found};

/// Fewest seconds that tell anything, and most that anybody waits for.
const SECONDS: std::ops::RangeInclusive<u64> = 2..=86_400;

/// Arguments of `evenkeel calibrate`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  evenkeel calibrate nbd://10.0.0.5/disk
  evenkeel calibrate 'nbd+unix:///?socket=/run/disk.sock' --seconds 60 --output array.toml
  evenkeel calibrate nbd://10.0.0.5/scratch --write     overwrites that export!
  evenkeel calibrate nbd://10.0.0.5/disk --json

Only reads are measured unless --write is given. The backend is kept busy meanwhile; whoever else
uses it will notice, and what they do is part of what is measured.

On Ctrl-C it prints what it has measured until then, marked as incomplete, writes no model, and ends
with 1.")]
pub struct Args {
    /// The export to measure, as an NBD URI.
    #[arg(value_name = "ADDRESS")]
    target: NbdUri,
    /// Measure writes, too. OVERWRITES random parts of the export: all its data is lost.
    #[arg(long)]
    write: bool,
    /// How long to measure; rounded to whole steps.
    #[arg(long, default_value_t = 20, value_name = "N")]
    seconds: u64,
    /// Connections to spread the load over, as `connections` of a backend does.
    #[arg(long, default_value_t = 1, value_name = "N")]
    connections: u32,
    /// File for the model; replaced if it exists.
    #[arg(long, default_value = "calibrated.toml", value_name = "FILE")]
    output: PathBuf,
    /// Print the model as JSON rather than a table.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// [`Exit::Usage`] for arguments that make no sense, [`Exit::Unreachable`] for a server that cannot
/// be used, [`Exit::Runtime`] for one that goes away or a file that cannot be written, and
/// [`Exit::Failed`] if it was interrupted before anything was measured.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    check(args)?;
    let offer = probe(&args.target).map_err(explain)?;
    let loses_data = args.write && !offer.is_read_only;
    if args.write && offer.is_read_only {
        return Err(Exit::Usage.because(format!(
            "{} is read-only, so that writes cannot be measured; leave --write out",
            args.target
        )));
    }
    if loses_data {
        terminal::say(&format!("overwriting {}: its data is lost", args.target));
    }
    let found = measure(args, &offer)?;
    let model = fitted(args, &offer, &found);
    if !found.is_complete {
        return give_up(args, &found, model.ok());
    }
    let model = model?;
    std::fs::write(&args.output, model.to_toml()).map_err(|error| {
        Exit::Runtime.because(format!("cannot write {}: {error}", args.output.display()))
    })?;
    if args.json {
        terminal::json(&model)?;
    } else {
        terminal::data(&table::render(&model))?;
    }
    terminal::say(&format!("the model is in {}", args.output.display()));
    Ok(Exit::Success)
}

/// What can be refused before a minute of measuring.
fn check(args: &Args) -> anyhow::Result<()> {
    let folder = args.output.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) || args.output.is_dir() {
        let what = format!("--output {} is no place for a file", args.output.display());
        return Err(Exit::Usage.because(what));
    }
    if !SECONDS.contains(&args.seconds) {
        let (least, most) = (SECONDS.start(), SECONDS.end());
        return Err(Exit::Usage.because(format!("--seconds must lie within {least} to {most}")));
    }
    if !(1..=64).contains(&args.connections) {
        return Err(Exit::Usage.because("--connections must lie within 1 to 64"));
    }
    Ok(())
}

fn measure(args: &Args, offer: &ExportOffer) -> anyhow::Result<Found> {
    let interrupt = Interrupt::watch().map_err(|error| Exit::Runtime.because(error))?;
    let campaign = Campaign {
        target: args.target.clone(),
        offer: *offer,
        writes: args.write,
        connections: args.connections,
        time: Span::from_secs(args.seconds),
    };
    campaign.measure(&interrupt)
}

fn fitted(args: &Args, offer: &ExportOffer, found: &Found) -> anyhow::Result<Model> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let provenance = Provenance {
        address: args.target.to_string(),
        date: date::utc(since_1970.as_secs()),
        version: version::VERSION.to_owned(),
    };
    fit(&found.points, (offer.size_bytes, found.flush.0), provenance)
        .map_err(|error| Exit::Runtime.because(format!("{error}, with a larger --seconds")))
}

/// Somebody interrupted it: gives what there is, and leaves the file for the model alone.
fn give_up(args: &Args, found: &Found, model: Option<Model>) -> anyhow::Result<Exit> {
    if found.points.is_empty() {
        return Err(Exit::Failed.because("interrupted before anything was measured"));
    }
    let found = Incomplete::new(&found.points, model);
    if args.json {
        terminal::json(&found)?;
    } else {
        terminal::data(&found.render())?;
    }
    terminal::say("interrupted: no model was written");
    Ok(Exit::Failed)
}

fn explain(error: LoadError) -> anyhow::Error {
    let exit = match error {
        LoadError::Plan { .. } => Exit::Usage,
        LoadError::Connect { .. } => Exit::Unreachable,
        LoadError::Lost { .. } | LoadError::Interrupted | LoadError::System(_) => Exit::Runtime,
    };
    exit.because(error)
}
