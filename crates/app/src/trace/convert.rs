//! `evenkeel trace convert`: the same requests in another format, or packed otherwise.

use evenkeel_trace::transform::cut::Verdict;
use evenkeel_trace::{Record, Sources};

use super::files::{InputArgs, OutputArgs, Transform, pipe};

/// Arguments of `evenkeel trace convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel trace convert web_0.csv.gz web_0.ektrace
  evenkeel trace convert Financial1.spc fin1.csv.zst --to msr
  blkparse -i sda -o - | evenkeel trace convert - sda.ektrace.zst --format blkparse
  evenkeel trace convert broken.csv good.csv --skip-bad")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// A trace that cannot be read or written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    pipe(&args.input, &args.output, &mut Unchanged)
}

/// Changes nothing.
pub(super) struct Unchanged;

impl Transform for Unchanged {
    fn apply(&mut self, _: &Sources, record: &Record) -> anyhow::Result<Verdict> {
        Ok(Verdict::Keep(*record))
    }
}
