//! `evenkeel trace stat`: what a trace is like.

mod document;
mod figures;
mod over_time;
mod policies;
mod text;

use std::path::PathBuf;

use evenkeel_trace::statistics::{Statistics, StatisticsOptions, Summary};
use evenkeel_trace::{SourceId, Sources};

use super::files::{InputArgs, read_all};
use super::input::TraceReader;
use crate::{plot, terminal};
use over_time::OverTime;

/// Arguments of `evenkeel trace stat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel trace stat web_0.csv.gz
  evenkeel trace stat gate.ektrace.zst --sources --json
  evenkeel trace stat gate.ektrace.zst --json | jq -r '.policies[0].text' > then.toml
  evenkeel trace stat web_0.csv.gz --plot plots     rate, sizes and miss ratios as SVG and PNG")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Tell of every source as well.
    #[arg(long)]
    sources: bool,
    /// Draw the rate over time, the sizes and the miss-ratio curve into this folder.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Print JSON; it tells of every source.
    #[arg(long)]
    json: bool,
}

/// What was found.
struct Found<'a> {
    trace: &'a TraceReader,
    summary: Summary,
    over_time: OverTime,
}

/// Runs the subcommand.
///
/// # Errors
/// A trace that cannot be read, a folder that cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut reader = args.input.open()?;
    let mut statistics = Statistics::new(StatisticsOptions::default());
    let mut over_time = OverTime::default();
    read_all(&mut reader, |_, record| {
        statistics.add(record);
        over_time.add(record);
        Ok(())
    })?;
    reader.defects().tell();
    let Some(summary) = statistics.summary() else {
        if args.json {
            return terminal::json(&document::empty(&reader));
        }
        let policies = policies::lines(&reader);
        return Ok(terminal::data(&format!("{}: no requests\n{policies}", reader.name()))?);
    };
    let found = Found { trace: &reader, summary, over_time };
    if args.json {
        terminal::json(&document::document(&found))?;
    } else {
        terminal::data(&text::render(&found, args.sources))?;
    }
    plot::draw(args.plot.as_deref(), || figures::figures(&found))
}

/// The name of a source, or what stands for one without.
fn name_of(sources: &Sources, source: SourceId) -> &str {
    match sources.name(source) {
        "" => "(no name)",
        name => name,
    }
}
