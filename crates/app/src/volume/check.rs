//! `evenkeel volume check`: everything that is wrong with a volume, found without writing a byte.

use evenkeel_engine::care::Report;

use super::{Which, failure, text};
use crate::exit::Exit;
use crate::terminal;

/// Arguments of `evenkeel volume check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel volume check policy.toml shelf
  evenkeel volume check policy.toml shelf --json
  evenkeel volume check policy.toml shelf --data /var/lib/evenkeel

Reads what the members note of the volume, and none of its data. A gate may have the volume
meanwhile: then only what is found twice, a second apart, is said.

Ends with 0 if there is nothing but notes, with 1 if something has one copy less than it should, is
lost, or keeps the volume from being opened, with 3 if the policy is wrong or has no such volume,
with 4 if a member cannot be reached.")]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// Open stores that members are volumes of, which recovers their logs and so writes to them,
    /// though to no volume.
    #[arg(long)]
    open_stores: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Which { volume, .. } = &args.which;
    let (policy, means) = (args.which.policy()?, args.which.means(args.open_stores));
    let report = evenkeel_io::care::check(&policy, volume, &means);
    let report = report.map_err(|error| failure(&error))?;
    if args.json {
        terminal::json(&text::document(volume, &report))?;
    } else {
        terminal::data(&text::report(volume, &report))?;
    }
    Ok(exit_of(&report))
}

/// How a check with this outcome ends.
pub(super) fn exit_of(report: &Report) -> Exit {
    if report.has_away() {
        Exit::Unreachable
    } else if report.is_well() {
        Exit::Success
    } else {
        Exit::Failed
    }
}
