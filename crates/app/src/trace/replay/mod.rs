//! `evenkeel trace replay`: a recorded trace against a live server.
//!
//! ```text
//! this thread: trace -> route to an export --batches--> replay (evenkeel-io) -> server
//! log thread:  latency logs in fio's format <---------------------'
//! ```

mod args;
mod fio_log;
mod report;
mod route;

pub(crate) use args::Args;

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use evenkeel_core::time::{Nanos, Span};
use evenkeel_io::load::replay::{ReplayPlan, ReplayReport, Routed, replay};
use evenkeel_io::load::{LoadError, Progress};
use indicatif::{ProgressBar, ProgressStyle};

use super::input::{ReadProgress, TraceReader};
use crate::exit::Exit;
use crate::{human, terminal};
use fio_log::FioLog;
use route::Router;

/// Batches between the thread that reads and the replay.
const BATCHES_MAX: usize = 4;

/// Replays that end sooner show no progress bar.
const QUIET: Duration = Duration::from_secs(2);

const BAR_STEPS: u64 = 1000;

/// What was read of the trace.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    requests: u64,
    first: Option<Nanos>,
    last: Nanos,
}

/// What a replay found, and what it was.
struct Outcome {
    plan: ReplayPlan,
    report: ReplayReport,
    read: Read,
    trace: String,
    bad: serde_json::Value,
}

/// Runs the subcommand.
///
/// # Errors
/// [`Exit::Usage`] for a replay that makes no sense, [`Exit::Unreachable`] for a server that
/// cannot be used, [`Exit::Runtime`] for one that goes away, [`Exit::Invalid`] for a bad trace.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (plan, router) = args.plan()?;
    let mut reader = args.input.open()?;
    let log = args.latency_log.as_deref().map(FioLog::start).transpose()?;
    let sink = log.as_ref().map(FioLog::sink);
    let (batches, to_replay) = sync_channel(BATCHES_MAX);
    let progress = reader.progress();
    let (report, read) = std::thread::scope(|scope| {
        let plan = &plan;
        let replaying = std::thread::Builder::new().name("replay-wait".to_owned());
        let replaying = replaying.spawn_scoped(scope, move || {
            let bar = ProgressBar::no_length();
            let mut next = move |next: &mut Vec<Routed>| take(&to_replay, next);
            let outcome = replay(plan, &mut next, sink, &mut |so_far| {
                show(&bar, so_far, &progress);
            });
            bar.finish_and_clear();
            outcome
        })?;
        let read = feed(&mut reader, router, args.count, &batches);
        drop(batches);
        let report = replaying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // A trace that is bad says more than the replay that ended for it.
        let read = read?;
        anyhow::Ok((report.map_err(refused)?, read))
    })?;
    if let Some(log) = log {
        log.finish(&report)?;
    }
    let (trace, bad) = (reader.name().to_owned(), reader.defects().to_json());
    let outcome = Outcome { plan, report, read, trace, bad };
    if args.json {
        terminal::json(&report::document(&outcome))?;
    } else {
        reader.defects().tell();
        terminal::data(&report::render(&outcome))?;
    }
    let groups = &outcome.report.load.groups;
    let failed = groups.iter().any(|group| group.errors > 0 || group.unanswered > 0);
    Ok(if failed { Exit::Failed } else { Exit::Success })
}

fn refused(error: LoadError) -> anyhow::Error {
    let exit = match error {
        LoadError::Plan { .. } => Exit::Usage,
        LoadError::Connect { .. } => Exit::Unreachable,
        LoadError::Lost { .. } | LoadError::Interrupted | LoadError::System(_) => Exit::Runtime,
    };
    exit.because(error)
}

/// Reads the trace and hands it to the replay, as far as that has room.
fn feed(
    reader: &mut TraceReader,
    mut router: Router,
    count: Option<u64>,
    batches: &SyncSender<Vec<Routed>>,
) -> anyhow::Result<Read> {
    let mut read = Read::default();
    let mut records = Vec::new();
    while reader.next_batch(&mut records)? {
        let left = count.map_or(u64::MAX, |count| count - read.requests);
        records.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        let (Some(first), Some(last)) = (records.first(), records.last()) else { break };
        read.first.get_or_insert(first.at);
        (read.requests, read.last) = (read.requests + records.len() as u64, last.at);
        let sources = reader.sources();
        let mut batch = Vec::with_capacity(records.len());
        for record in &records {
            batch.push(Routed { target: router.target(sources, record.source)?, record: *record });
        }
        if batches.send(batch).is_err() {
            // The replay has ended, and will say why.
            break;
        }
    }
    Ok(read)
}

fn take(batches: &Receiver<Vec<Routed>>, next: &mut Vec<Routed>) -> bool {
    match batches.recv() {
        Ok(batch) => {
            *next = batch;
            true
        }
        Err(_) => false,
    }
}

fn show(bar: &ProgressBar, so_far: &Progress, read: &ReadProgress) {
    let elapsed = Duration::from_nanos(so_far.elapsed.0);
    if elapsed < QUIET {
        return;
    }
    if bar.length().is_none() {
        bar.set_length(BAR_STEPS);
        let template = match read.size_bytes() {
            Some(_) => "{bar:30} {percent:>3}%  {msg}",
            None => "{spinner}  {msg}",
        };
        let style = ProgressStyle::with_template(template).expect("the template is right");
        bar.set_style(style.progress_chars("=> "));
    }
    let seconds = elapsed.as_secs_f64();
    let rate = human::byte_rate(so_far.bytes as f64 / seconds);
    let iops = human::count(so_far.requests as f64 / seconds);
    let elapsed = human::duration(Span(so_far.elapsed.0));
    bar.set_message(format!("{elapsed}  {rate:>10}  {iops:>5} iops"));
    if let Some(size_bytes) = read.size_bytes() {
        bar.set_position(read.read_bytes() * BAR_STEPS / size_bytes);
    }
}

/// Looks through a trace: which sources it has, and where its last byte lies.
fn survey(reader: &mut TraceReader) -> anyhow::Result<(Vec<String>, u64)> {
    let mut extent_bytes = 0;
    reader.each(|_, record| {
        extent_bytes = extent_bytes.max(record.offset.saturating_add(record.length));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((reader.sources().names().to_vec(), extent_bytes))
}
