//! `evenkeel man`: the manual pages, made from the command line's own description.

use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::Cli;
use crate::exit::Exit;

/// Arguments of `evenkeel man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel man /usr/local/share/man/man1
  evenkeel man . && man ./evenkeel-serve.1")]
pub struct Args {
    /// The folder; made if it is not there.
    folder: PathBuf,
}

/// Runs the subcommand.
///
/// # Errors
/// A folder that cannot be made or written to.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))?;
    Ok(Exit::Success)
}
