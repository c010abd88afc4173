//! `evenkeel trace`: block traces from other formats and to them, looked at, changed, replayed.
//!
//! ```text
//! input (file, stdin; gzip, zstd) -> records -> what is asked for -> output, table or JSON
//! ```
//!
//! Everything streams: memory does not grow with the trace. What a trace is and does is decided in
//! `evenkeel-trace`; here are the files, the terminal and the network.

mod anonymise;
mod cache;
pub(crate) mod compression;
mod convert;
mod cut;
pub mod defects;
mod files;
mod generate;
pub mod input;
mod merge;
pub mod output;
mod policies;
mod progress;
pub mod record;
mod replay;
mod scale;
mod sort;
mod stat;
pub(crate) mod table;

use clap::Subcommand;

use crate::exit::Exit;

/// Arguments of `evenkeel trace`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel trace convert web_0.csv.gz web_0.ektrace.zst
  evenkeel trace stat phone.csv --column op=rw_flag:0=write,1=read --unit size=sectors
  evenkeel trace stat web_0.ektrace.zst --plot plots
  evenkeel trace cut web_0.ektrace.zst hour.ektrace --from 10h --until 11h
  evenkeel trace cache hour.ektrace --policy lru,s3-fifo --size '1 GiB'
  evenkeel trace replay hour.ektrace nbd://127.0.0.1/copy --speed 2

docs/trace.md is the manual.")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write a trace in another format, or packed otherwise.
    Convert(convert::Args),
    /// Say what a trace is like: rates, sizes, bursts, places, reuse.
    Stat(stat::Args),
    /// Keep a part of a trace: a time, sources, kinds, a range of the disk.
    Cut(cut::Args),
    /// Make one trace of several, in the order of time.
    Merge(merge::Args),
    /// Put the requests of a trace in the order of time, however large it is.
    Sort(sort::Args),
    /// Make a trace slower or faster, or fit it to another disk.
    Scale(scale::Args),
    /// Hide names and places, so that a trace can be given away.
    Anonymise(anonymise::Args),
    /// Make a trace that resembles a published one.
    Generate(generate::Args),
    /// Simulate caches and print their hit ratios.
    Cache(cache::Args),
    /// Send the requests of a trace to a server and measure how it bears them.
    Replay(replay::Args),
}

/// Runs the subcommand.
///
/// # Errors
/// See the subcommands.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.action {
        Action::Convert(args) => convert::run(args)?,
        Action::Stat(args) => stat::run(args)?,
        Action::Cut(args) => cut::run(args)?,
        Action::Merge(args) => merge::run(args)?,
        Action::Sort(args) => sort::run(args)?,
        Action::Scale(args) => scale::run(args)?,
        Action::Anonymise(args) => anonymise::run(args)?,
        Action::Generate(args) => return generate::run(args),
        Action::Cache(args) => cache::run(args)?,
        Action::Replay(args) => return replay::run(args),
    }
    Ok(Exit::Success)
}
