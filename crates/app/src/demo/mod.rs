//! `evenkeel demo`: a database and a backup on one slow disk, in one minute and without set-up.
//!
//! ```text
//!                  gate (changes per phase)        slow disk (emulated)
//! database  ----->  A  only watches          --->  another gate on memory whose
//! backup    ----->  B  caps the backup             one limit is the disk's speed
//!                   C  shares
//! ```
//!
//! In each phase the database works, rests and works again, so that it shows both who protects the
//! database and who lets the backup use a disk that nobody else wants.

mod device;
mod phase;
mod picture;

use serde::Serialize;

use crate::exit::Exit;
use crate::stage::Stage;
use crate::terminal;
use device::Disk;
use phase::{FINDING, Outcome, Phase, Timing};

/// Arguments of `evenkeel demo`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel demo
  evenkeel demo --quick
  evenkeel demo --json | jq '.phases[] | {name, database_p99_seconds}'

The disk is emulated: 40 MiB/s, 2000 requests a second. Nothing is written to your disks.")]
pub struct Args {
    /// A quarter of a minute instead of a whole one.
    #[arg(long)]
    quick: bool,
    /// Print one JSON document instead of the picture.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    disk: String,
    interval_seconds: f64,
    phases: &'a [Outcome],
}

/// Runs the subcommand.
///
/// # Errors
/// If the gates cannot be started or the load cannot run.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let timing = Timing::new(args.quick);
    let stage = Stage::new()?;
    let disk = Disk::start(&stage)?;
    terminal::say(&format!(
        "A database and a backup share one slow disk ({}). Three phases of {} s; the database \
         rests in the middle third of each. The gate does not know what the disk can do: it has \
         {} s to find out before the last phase.",
        device::DESCRIPTION,
        timing.phase().0 / 1_000_000_000,
        FINDING.0 / 1_000_000_000
    ));
    let mut outcomes = Vec::new();
    for phase in Phase::ALL {
        terminal::say(&format!("{}  {}", phase.letter(), phase.title()));
        outcomes.push(phase.run(&stage, &disk, timing)?);
    }
    if args.json {
        terminal::json(&Document {
            disk: device::DESCRIPTION.to_owned(),
            interval_seconds: timing.interval().as_secs_f64(),
            phases: &outcomes,
        })?;
    } else {
        terminal::data(&picture::render(&outcomes, timing, terminal::colour_on_stdout()))?;
    }
    Ok(Exit::Success)
}
