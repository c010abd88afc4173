//! `evenkeel place advise`: what choices would gain on a Ceph cluster, as it is now.
//!
//! ```text
//! ceph osd df tree, pg dump, osd dump --source--> text --cluster--> Pool, OSDs
//!         osdmaptool --upmap (if there) --upmap--> moves
//! Pool, OSDs, moves --forecast--> when the first OSD is full, by every way --report--> people
//! ```
//!
//! It only asks and reckons: nothing is written to the cluster.

mod cluster;
mod forecast;
mod report;
mod source;
mod upmap;

use std::path::PathBuf;

use super::parts;
use crate::exit::Exit;
use crate::{plot, terminal, units};

/// Arguments of `evenkeel place advise`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel place advise
  evenkeel place advise --conf /etc/ceph/ceph.conf --pool images --plot ./figures
  ceph osd df tree -f json > df.json; ceph pg dump -f json > pgs.json
  ceph osd dump -f json > dump.json; ceph osd getmap -o osdmap
  evenkeel place advise --df df.json --pgs pgs.json --dump dump.json --osdmap osdmap

Nothing is changed in the cluster. docs/place.md says how to read what is printed.")]
pub(in crate::place) struct Args {
    #[command(flatten)]
    source: source::Source,
    /// The pool that grows; the one that holds most if left out.
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Candidates of each object.
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=3))]
    candidates: u32,
    /// How much emptier another candidate must be than the first one, as a part of an OSD.
    #[arg(long, value_name = "PART", default_value = "1%", value_parser = parts::parse)]
    margin: f64,
    /// The size of an object.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = units::parse_size)]
    object: u64,
    /// Seconds that osdmaptool may take for its proposal.
    #[arg(long, value_name = "S", default_value_t = 60)]
    upmap_seconds: u64,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Write a figure into this folder, as SVG and PNG.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// Runs the subcommand.
///
/// # Errors
/// [`Exit::Unreachable`] if no cluster answers, [`Exit::Invalid`] for documents that do not tell
/// what is needed, [`Exit::Usage`] for a pool that is not there.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let texts = args.source.read()?;
    let cluster = cluster::Cluster::parse(&texts)?;
    let pool = cluster.pool(args.pool.as_deref())?;
    let upmap = upmap::propose(&args.source, &pool, args.upmap_seconds)?;
    let outcome = forecast::run(args, &cluster, &pool, upmap);
    plot::draw(args.plot.as_deref(), || vec![report::figure(&outcome)])?;
    if args.json {
        terminal::json(&report::document(&outcome))?;
    } else {
        terminal::data(&report::render(&outcome))?;
    }
    Ok(Exit::Success)
}
