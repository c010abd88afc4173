//! `evenkeel place simulate`: a cluster that does not exist is filled until its first server is
//! full, by hashing and by choices.
//!
//! ```text
//! Described --groups--> map --fill (hashing, choices, odds)--> Way  \
//!                           --certificate-------------------------->  Outcome --> table, JSON,
//!                           --another map, change-----------------> Changed /     figure
//! ```

mod report;
mod run;

use std::path::PathBuf;

use evenkeel_core::place::CANDIDATES_MAX;
use evenkeel_core::place::policy::space::Score;

use super::cluster::{Described, Flags};
use super::parts;
use crate::exit::Exit;
use crate::{plot, terminal, units};

/// Arguments of `evenkeel place simulate`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel place simulate --servers 44 --size 4TiB --per-domain 4
  evenkeel place simulate --servers 1000 --size 4TiB,8TiB --per-domain 20 --plot ./figures
  evenkeel place simulate --servers 44 --candidates 3 --margin 0
  evenkeel place simulate --servers 44 --clients 64 --report-every 10%
  evenkeel place simulate --servers 44 --join 4 --at 60%
  evenkeel place simulate cluster.toml --leave archive-0 --json
  ceph osd df tree -f json | evenkeel place simulate - --domain rack

docs/place.md describes the file of a cluster, and what the columns mean.")]
pub(in crate::place) struct Args {
    /// A file that describes the cluster: TOML, or what `ceph osd df tree -f json` or
    /// `ceph osd crush dump` prints; - for the standard input.
    #[arg(value_name = "CLUSTER", required_unless_present = "servers")]
    cluster: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
    /// The type of bucket that fails as one in a Ceph cluster.
    #[arg(long, value_name = "TYPE", default_value = "host")]
    domain: String,
    /// Start with what the servers of the description hold, rather than empty.
    #[arg(long)]
    keep_used: bool,
    /// Servers that hold each object.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16))]
    replicas: u32,
    /// Groups in which each server takes part, counting every replica; rounded so that there is a
    /// power of two of them in all.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    groups_per_server: u32,
    /// Candidates of each object.
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=CANDIDATES_MAX as i64))]
    candidates: u32,
    /// How much emptier another candidate must be than the first one, as a part of a server.
    #[arg(long, value_name = "PART", default_value = "1%", value_parser = parts::parse)]
    margin: f64,
    /// What speaks for a candidate: all its servers, the fullest, or the first of them.
    #[arg(long, value_enum, default_value_t = ScoreName::Sum)]
    score: ScoreName,
    /// Clients that write in turn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// How much is written between two reports of the servers, as a part of the cluster's room;
    /// it takes several clients for anybody not to know all.
    #[arg(long, value_name = "PART", default_value = "2%", value_parser = report_every)]
    report_every: f64,
    /// Let clients not reckon with each other.
    #[arg(long)]
    unaware: bool,
    /// The part of a server at which it counts as full.
    #[arg(long, value_name = "PART", default_value = "100%", value_parser = full_part)]
    full: f64,
    /// The size of an object.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = units::parse_size)]
    object: u64,
    /// Objects that fill the average server, at most; larger ones are simulated if there would be
    /// more. As many as take seconds if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    objects: Option<u32>,
    /// Let so many servers join when the cluster is filled to --at.
    #[arg(long, value_name = "N", default_value_t = 0)]
    join: u32,
    /// The size of a server that joins; that of the first one if left out.
    #[arg(long, value_name = "SIZE", requires = "join", value_parser = units::parse_size)]
    join_size: Option<u64>,
    /// Let a server leave when the cluster is filled to --at; repeatable.
    #[arg(long, value_name = "NAME")]
    leave: Vec<String>,
    /// How full the cluster is when servers join or leave.
    #[arg(long, value_name = "PART", default_value = "60%", value_parser = parts::parse)]
    at: f64,
    /// Draw groups and objects from this seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Write a figure into this folder, as SVG and PNG.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// See [`Score`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ScoreName {
    /// The sum over all servers of the candidate.
    Sum,
    /// The fullest of them, as published.
    Fullest,
    /// The first of them, which is all that a probe of one server sees.
    Primary,
}

impl From<ScoreName> for Score {
    fn from(name: ScoreName) -> Self {
        match name {
            ScoreName::Sum => Self::Sum,
            ScoreName::Fullest => Self::Fullest,
            ScoreName::Primary => Self::Primary,
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// [`Exit::Invalid`] for a description with mistakes, [`Exit::Usage`] for arguments that do not fit
/// it.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let described = match (&args.cluster, args.flags.cluster()?) {
        (Some(path), _) => Described::read(path, &args.domain)?,
        (None, Some(described)) => described,
        (None, None) => unreachable!("one of the two is required"),
    };
    let outcome = run::run(args, &described)?;
    plot::draw(args.plot.as_deref(), || vec![report::figure(&outcome)])?;
    if args.json {
        terminal::json(&report::document(&outcome))?;
    } else {
        terminal::data(&report::render(&outcome))?;
    }
    Ok(Exit::Success)
}

/// Reports that come all the time would take all the time.
fn report_every(text: &str) -> Result<f64, String> {
    let part = parts::parse(text)?;
    let often = "write 0.1% or more; servers that report without end are one client's knowledge";
    if part >= 0.001 { Ok(part) } else { Err(often.to_owned()) }
}

fn full_part(text: &str) -> Result<f64, String> {
    let part = parts::parse(text)?;
    if part >= 0.01 { Ok(part) } else { Err("write 1% or more".to_owned()) }
}
