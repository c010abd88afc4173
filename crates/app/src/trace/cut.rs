//! `evenkeel trace cut`: the part of a trace that one is after.

use std::collections::BTreeSet;
use std::ops::Range;

use clap::ValueEnum;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::transform::cut::{Cut, CutOptions, Origin, Verdict};
use evenkeel_trace::{Record, Sources};

use super::files::{InputArgs, OutputArgs, Transform, pipe};
use crate::exit::Exit;
use crate::units::{parse_duration, parse_size};

/// Arguments of `evenkeel trace cut`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel trace cut day.ektrace hour.ektrace --from 10h --until 11h
  evenkeel trace cut day.ektrace reads.ektrace --kind read --source web_0 --source web_1
  evenkeel trace cut day.csv.gz sample.csv --count 10000
  evenkeel trace cut disk.ektrace start.ektrace --offsets '0 B..10 GiB' --times kept")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Keep requests that arrive from this time on.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    from: Option<Span>,
    /// Keep requests that arrive before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    until: Option<Span>,
    /// Keep requests of this source; of any of several.
    #[arg(long, value_name = "NAME")]
    source: Vec<String>,
    /// Keep requests of these kinds.
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kind)]
    kind: Vec<Kind>,
    /// Keep requests whose first byte lies there, as in '1 GiB..2 GiB'; and flushes.
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    offsets: Option<Range<u64>>,
    /// Leave out so many of what the options above would keep.
    #[arg(long, default_value_t = 0, value_name = "N")]
    skip: u64,
    /// End after so many.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// What times count from.
    #[arg(long, value_enum, default_value_t = Times::FromFirst)]
    times: Times,
}

/// What times count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Times {
    /// The first request that is kept.
    FromFirst,
    /// What --from says.
    FromWindow,
    /// The trace's own start.
    Kept,
}

/// Runs the subcommand.
///
/// # Errors
/// A window that is empty, a trace that cannot be read or written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut cut = Cut::new(args.options()?);
    pipe(&args.input, &args.output, &mut cut)
}

impl Args {
    fn options(&self) -> anyhow::Result<CutOptions> {
        let from = self.from.map_or(Nanos::ZERO, |from| Nanos(from.0));
        let until = self.until.map_or(Nanos(u64::MAX), |until| Nanos(until.0));
        if from >= until {
            return Err(Exit::Usage.because("--from must lie before --until"));
        }
        let is_window = self.from.is_some() || self.until.is_some();
        let some = |is_some: bool| is_some.then_some(());
        Ok(CutOptions {
            window: is_window.then_some(from..until),
            sources: some(!self.source.is_empty())
                .map(|()| self.source.iter().cloned().collect::<BTreeSet<_>>()),
            kinds: some(!self.kind.is_empty()).map(|()| self.kind.iter().copied().collect()),
            offsets: self.offsets.clone(),
            skip: self.skip,
            count: self.count,
            origin: match self.times {
                Times::FromFirst => Origin::FirstRecord,
                Times::FromWindow => Origin::Window,
                Times::Kept => Origin::Trace,
            },
        })
    }
}

impl Transform for Cut {
    fn apply(&mut self, sources: &Sources, record: &Record) -> anyhow::Result<Verdict> {
        Ok(Self::apply(self, sources, record))
    }

    fn instant(&self, at: Nanos) -> Option<Nanos> {
        Self::instant(self, at)
    }
}

pub(super) fn kind(text: &str) -> Result<Kind, String> {
    Kind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
        let known: Vec<_> = Kind::ALL.into_iter().map(Kind::name).collect();
        format!("known are {}", known.join(", "))
    })
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write it as 1GiB..2GiB")?;
    let size = |part: &str| parse_size(part).map_err(|error| error.to_string());
    let range = size(from)?..size(to)?;
    if range.is_empty() { Err("it is empty".to_owned()) } else { Ok(range) }
}
