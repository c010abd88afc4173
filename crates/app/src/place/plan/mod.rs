//! `evenkeel place plan`: what would move if servers joined or left a spread volume.
//!
//! ```text
//! status of a gate, or a file --state--> State --reckon (core::place::moves)--> Outcome --report
//! ```
//!
//! It shows, and carries out nothing. The status tells how many objects lie on each server, not
//! which; so as many are drawn, on the servers that the volume would have chosen for them. Numbers
//! are those of a volume like this one, off by a percent or two.

mod reckon;
mod report;
mod state;

use std::path::PathBuf;

use clap::ArgGroup;

use super::parts;
use crate::control::client::ControlArgs;
use crate::exit::Exit;
use crate::{terminal, units};
use state::{Joining, State};

/// Arguments of `evenkeel place plan`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel place plan pool --join 's5=4 TiB'
  evenkeel place plan pool --leave s2 --rate '100 MiB/s'
  evenkeel place plan pool --join 's5=4 TiB' --level 2%
  evenkeel ctl status --json > status.json
  evenkeel place plan pool --status status.json --join 's5=4 TiB' --json

It shows what would move and moves nothing: the policy's `choices` and `leaving` do that. Ends with
1 if objects would find no room.")]
#[command(group = ArgGroup::new("change").args(["join", "leave"]).required(true).multiple(true))]
pub(in crate::place) struct Args {
    /// The volume: a backend with `choices` in the policy.
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// A server that joins, with its size; repeatable.
    #[arg(long, value_name = "NAME=SIZE", value_parser = state::joining)]
    join: Vec<Joining>,
    /// A server that leaves; repeatable.
    #[arg(long, value_name = "NAME")]
    leave: Vec<String>,
    /// Move more than must be, until no server is fuller than another candidate's by more than
    /// this part.
    #[arg(long, value_name = "PART", value_parser = parts::parse)]
    level: Option<f64>,
    /// Candidates of each object, as in the policy.
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=3))]
    candidates: u32,
    /// How fast objects would be moved, all together.
    #[arg(long, value_name = "RATE", default_value = "100 MiB/s", value_parser = rate)]
    rate: u64,
    /// What `evenkeel ctl status --json` printed, instead of a running gate.
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    status: Option<PathBuf>,
    #[command(flatten)]
    control: ControlArgs,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// [`Exit::Unreachable`] if no gate answers, [`Exit::Usage`] for a volume or server that it does
/// not have. Objects without room are [`Exit::Failed`].
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let state = State::read(args)?;
    let change = state.change(&args.join, &args.leave)?;
    let outcome = reckon::run(args, &state, &change)?;
    if args.json {
        terminal::json(&report::document(&outcome))?;
    } else {
        terminal::data(&report::render(&outcome))?;
    }
    Ok(Exit::Success)
}

fn rate(text: &str) -> Result<u64, String> {
    match units::parse_byte_rate(text) {
        Ok(0) => Err("nothing would ever be moved; write a rate above zero".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}
