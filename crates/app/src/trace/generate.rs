//! `evenkeel trace generate`: a trace that resembles a published one, from a seed.

use std::path::Path;

use evenkeel_core::time::Span;
use evenkeel_trace::generate::{Comparison, Generator, Limit, Profile, profile, profiles};
use evenkeel_trace::statistics::{Statistics, StatisticsOptions};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::files::{OutputArgs, Summary};
use super::output::STDOUT;
use crate::exit::Exit;
use crate::terminal;
use crate::units::parse_duration;

/// Requests unless the command line says otherwise.
const COUNT_DEFAULT: u64 = 1_000_000;

/// Requests between two steps of the progress bar.
const BAR_EVERY: u64 = 1 << 16;

/// Generations of fewer requests show no progress bar.
const BAR_COUNT_MIN: u64 = 4_000_000;

/// Arguments of `evenkeel trace generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What the trace has stands beside what the published one has; exit code 1 if they differ by more
than the profile allows. A trace too short to tell is not held against it.

Examples:
  evenkeel trace generate financial fin.ektrace
  evenkeel trace generate websearch web.csv.gz --to msr --count 5000000 --seed 7
  evenkeel trace generate tpcc hour.ektrace.zst --length 1h --json")]
pub(crate) struct Args {
    /// What it resembles; an unknown name is answered with all that are known.
    #[arg(value_name = "PROFILE", value_parser = named)]
    profile: Profile,
    #[command(flatten)]
    output: OutputArgs,
    /// End after so many requests [default: 1000000, or none with --length].
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End after so much of the trace's time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    length: Option<Span>,
    /// The same seed gives the same trace.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the subcommand.
///
/// # Errors
/// A trace that cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let count = args.count.or_else(|| args.length.is_none().then_some(COUNT_DEFAULT));
    let limit = Limit { count, duration: args.length };
    let mut generator = Generator::new(&args.profile, args.seed, limit)
        .map_err(|error| Exit::Usage.because(error))?;
    let mut writer = args.output.create(None)?;
    let mut statistics = Statistics::new(StatisticsOptions::default());
    let bar = bar(count);
    let mut made = 0;
    while let Some(record) = generator.next() {
        made += 1;
        statistics.add(&record);
        let written = writer.write(generator.sources(), &record)?;
        written.map_err(|why| {
            let message = format!("request {made} does not fit {}: {why}", writer.name());
            Exit::Usage.because(message)
        })?;
        if made % BAR_EVERY == 0 {
            bar.set_position(made);
        }
    }
    bar.finish_and_clear();
    let rows = statistics.summary().map_or_else(Vec::new, |found| args.profile.compare(&found));
    let (output, format) = (writer.name().to_owned(), writer.format());
    let summary = Summary { read: made, written: writer.finish()?, output, format };
    tell(args, &summary, &rows)?;
    let holds = rows.iter().all(Comparison::holds);
    Ok(if holds { Exit::Success } else { Exit::Failed })
}

fn tell(args: &Args, summary: &Summary, rows: &[Comparison]) -> anyhow::Result<()> {
    if args.output.writing().wants_json() {
        return terminal::json(&json!({
            "profile": args.profile.name,
            "origin": args.profile.origin,
            "seed": args.seed,
            "written": summary.written,
            "output": summary.output,
            "format": summary.format.name(),
            "figures": rows.iter().map(to_json).collect::<Vec<_>>(),
        }));
    }
    args.output.writing().tell(summary, &[])?;
    let text = format!("{}: {}\n\n{}", args.profile.name, args.profile.origin, table(rows));
    if args.output.output() == Path::new(STDOUT) {
        terminal::say(text.trim_end());
        return Ok(());
    }
    Ok(terminal::data(&text)?)
}

fn table(rows: &[Comparison]) -> String {
    let row = |row: &Comparison| {
        let verdict = match (row.is_comparable, row.holds()) {
            (false, _) => "too short to tell",
            (true, true) => "holds",
            (true, false) => "differs",
        };
        vec![
            row.target.figure.name(),
            number(row.target.value),
            row.achieved.map_or_else(|| "-".to_owned(), number),
            format!("{:.0}%", row.target.tolerance * 100.0),
            verdict.to_owned(),
            row.target.source.clone(),
        ]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    terminal::table(&["FIGURE", "PUBLISHED", "HERE", "MAY DIFFER", "<", "<SOURCE"], &rows)
}

/// A figure with as many digits as tell something.
fn number(value: f64) -> String {
    match value.abs() {
        0.0..1.0 => format!("{value:.4}"),
        1.0..100.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

fn to_json(row: &Comparison) -> Value {
    json!({
        "figure": row.target.figure.name(),
        "published": row.target.value,
        "achieved": row.achieved,
        "tolerance": row.target.tolerance,
        "comparable": row.is_comparable,
        "holds": row.holds(),
        "source": row.target.source,
    })
}

fn bar(count: Option<u64>) -> ProgressBar {
    let Some(count) = count.filter(|&count| count >= BAR_COUNT_MIN) else {
        return ProgressBar::hidden();
    };
    ProgressBar::new(count).with_style(terminal::bar_style("{human_pos} of {human_len} requests"))
}

fn named(name: &str) -> Result<Profile, String> {
    profile(name).ok_or_else(|| {
        let known: Vec<String> = profiles().into_iter().map(|profile| profile.name).collect();
        format!("known are {}", known.join(", "))
    })
}
