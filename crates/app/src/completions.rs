//! `evenkeel completions`: a completion script for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::terminal;

/// Arguments of `evenkeel completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel completions bash > /etc/bash_completion.d/evenkeel
  evenkeel completions zsh > ~/.zfunc/_evenkeel
  evenkeel completions fish > ~/.config/fish/completions/evenkeel.fish")]
pub struct Args {
    /// The shell.
    shell: Shell,
}

/// Runs the subcommand.
///
/// # Errors
/// Output that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "evenkeel", &mut script);
    terminal::data(&String::from_utf8(script)?)?;
    Ok(Exit::Success)
}
