//! `evenkeel reproduce`: a paper's experiments with the product's own code, claim by claim.
//!
//! Each row tells what the paper reports, what was measured here, how far they may differ, whether
//! the claim holds, and why where it does not. What is measured on this machine is judged only if
//! the machine can judge ([`crate::evidence`]). The papers' figures are in one data file each and
//! nowhere in the code that computes.

mod baa;
mod choices;
mod claim;
mod drg;
mod drives;
mod forecast;
mod gecko;
mod isolation;
mod vpfs;
mod walkthrough;

use std::path::PathBuf;

use serde::de::DeserializeOwned;

use crate::exit::Exit;
use crate::plot::{self, Figure};

/// Arguments of `evenkeel reproduce`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel reproduce vpfs
  evenkeel reproduce vpfs --quick --json
  evenkeel reproduce vpfs --plot ./figures
  evenkeel reproduce vpfs --simulated only
  evenkeel reproduce baa
  evenkeel reproduce baa --only simulated --plot ./figures
  evenkeel reproduce choices
  evenkeel reproduce choices --only ceph --quick
  evenkeel reproduce drg --quick
  evenkeel reproduce drg --only fit
  evenkeel reproduce drg --only live
  evenkeel reproduce gecko --quick
  evenkeel reproduce gecko --only cleaning --plot ./figures
  evenkeel reproduce forecast --quick
  evenkeel reproduce isolation --quick
  evenkeel reproduce walkthrough --quick
  evenkeel reproduce walkthrough --only store
  evenkeel reproduce drives --recordings ./measured-drives

Ends with 1 if a row fails, but for known shortfalls; with 6 if none does but some could not be
judged, because the machine was disturbed while they were measured.")]
pub struct Args {
    /// Which paper.
    #[command(subcommand)]
    paper: Paper,
}

/// The papers.
#[derive(Clone, Debug, clap::Subcommand)]
enum Paper {
    /// Virtualization-based bandwidth management for parallel storage (PDSW 2010): a gate before
    /// each data server of a striped file system. Needs nbdkit for the data servers.
    Vpfs(vpfs::VpfsOptions),
    /// Balancing fairness and efficiency in tiered storage systems with bottleneck-aware allocation
    /// (FAST 2014): a slow and a fast device shared by clients of unequal hit ratios.
    Baa(baa::BaaOptions),
    /// Client choices for hash placement in storage systems (`APSys` 2016), what it says of space:
    /// how full a cluster is when its first disk is, by hashing and with two choices, in virtual
    /// clusters and on a real Ceph.
    Choices(choices::ChoicesOptions),
    /// A decentralized resource allocation approach for response-time guarantees in storage system
    /// (2011): response times of four workloads across hosts, by request windows, PARDA, DRG and
    /// ours, on eight simulated drives; and four gates live, before one server.
    Drg(drg::DrgOptions),
    /// Gecko: contention-oblivious disk arrays for cloud storage (FAST 2013): the store as a chain
    /// of simulated drives beside the same store on striped ones, under cleaning and readers.
    Gecko(gecko::GeckoOptions),
    /// The simulator against this machine: seven scenarios live, on nbdkit's rate and delay filters
    /// behind a gate, and in virtual time. Needs nbdkit.
    Forecast(Options),
    /// Ceph's isolation benchmark (ceph/ceph#70798): one client beside an aggressor of 1 to 64
    /// sessions, with a gate whose policy says nothing of the device. Needs nbdkit and fio.
    Isolation(Options),
    /// The README's policy in front of seven unlike servers: shares, latency and throughput as it
    /// comes. Needs nbdkit and fio.
    Walkthrough(walkthrough::WalkthroughOptions),
    /// The models of hard disks: against recordings of real drives, if there are any, and against
    /// `DiskSim`'s table of eight striped drives by policy and depth.
    Drives(drives::DrivesOptions),
}

/// How to run a paper's experiments.
#[derive(Clone, Debug, clap::Args)]
struct Options {
    /// Fewer and shorter runs: less than a minute, with wider tolerances.
    #[arg(long)]
    quick: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Determines every offset, size and arrival; the machine's timing stays its own.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the figures into this folder, as SVG and PNG.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// The figures of a paper, from its data file.
fn data_file<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).expect("the data file is part of the build, and the tests read it")
}

impl Options {
    /// Writes the figures if they were asked for, and says where they are.
    fn draw(&self, figures: impl FnOnce() -> Vec<Figure>) -> anyhow::Result<()> {
        plot::draw(self.plot.as_deref(), figures)
    }
}

/// Runs the subcommand.
///
/// # Errors
/// If an experiment cannot be carried out. A claim that does not hold is [`Exit::Failed`] instead,
/// and one that nobody could judge [`Exit::CannotJudge`].
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.paper {
        Paper::Vpfs(options) => vpfs::run(options),
        Paper::Baa(options) => baa::run(options),
        Paper::Choices(options) => choices::run(options),
        Paper::Drg(options) => drg::run(options),
        Paper::Gecko(options) => gecko::run(options),
        Paper::Forecast(options) => forecast::run(options),
        Paper::Isolation(options) => isolation::run(options),
        Paper::Walkthrough(options) => walkthrough::run(options),
        Paper::Drives(options) => drives::run(options),
    }
}
