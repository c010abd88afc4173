//! `evenkeel drive`: the models of hard disks, and how near they come to real ones.

pub(crate) mod recording;
mod validate;

use crate::exit::Exit;

/// Arguments of `evenkeel drive`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel drive validate cheetah-9lp cheetah9LP.trace.zst
  evenkeel drive validate my-drive.toml my-drive.trace --plot ./figures")]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

/// What can be done with models of drives.
#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Replay a recording of a real drive on its model, and say how far their response times are
    /// apart.
    Validate(validate::Args),
}

/// Runs the subcommand.
///
/// # Errors
/// A drive or a recording that cannot be read, or that do not belong together.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.action {
        Action::Validate(args) => validate::run(args),
    }
}
