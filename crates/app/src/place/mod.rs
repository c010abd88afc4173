//! `evenkeel place`: where objects lie on many servers, and what choosing among a few candidates
//! would gain.
//!
//! ```text
//! flags, a file, or a Ceph cluster's own words --cluster--> servers --simulate--> what if
//! a running Ceph cluster                       ---------------------advise------> what to gain
//! the status of a spread volume                ---------------------plan--------> what moves
//! ```
//!
//! Nothing here places anything: the algorithms are those of `evenkeel_core::place`, filled by
//! `evenkeel_sim::fill`.

mod advise;
mod cluster;
mod parts;
mod plan;
mod simulate;

use clap::Subcommand;

use crate::exit::Exit;

/// Arguments of `evenkeel place`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel place simulate --servers 44 --size 4TiB --per-domain 4
  evenkeel place simulate --servers 44 --join 4 --at 60%
  ceph osd df tree -f json | evenkeel place simulate -
  evenkeel place advise
  evenkeel place plan pool --join 's5=4 TiB'

docs/place.md is the manual.")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Fill a cluster that does not exist, and see when its first server is full.
    Simulate(Box<simulate::Args>),
    /// Say what choices would gain on a Ceph cluster, as it is now.
    Advise(advise::Args),
    /// Show what would move if servers joined or left a spread volume; nothing is moved.
    Plan(plan::Args),
}

/// Runs the subcommand.
///
/// # Errors
/// See the subcommands.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.action {
        Action::Simulate(args) => simulate::run(args),
        Action::Advise(args) => advise::run(args),
        Action::Plan(args) => plan::run(args),
    }
}
