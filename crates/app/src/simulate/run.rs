//! Lets a scenario run, with its traces and a progress bar.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use evenkeel_sim::result::{Progress, Summary};
use evenkeel_sim::{SimError, Stream};
use evenkeel_trace::Record;
use indicatif::ProgressBar;

use super::file::Loaded;
use crate::exit::Exit;
use crate::trace::input::{TraceFile, TraceReader};
use crate::{human, terminal};

/// Runs that end sooner show no progress bar.
const QUIET: Duration = Duration::from_secs(2);

const BAR_STEPS: u64 = 1000;

/// Runs a scenario.
///
/// # Errors
/// [`Exit::Invalid`] for a scenario that cannot run and for a trace that cannot be read.
pub(crate) fn run(loaded: &Loaded) -> anyhow::Result<Summary> {
    let fault = RefCell::new(None);
    let readers: anyhow::Result<Vec<_>> = loaded.traces.iter().map(open).collect();
    let streams: Vec<Stream<'_>> =
        readers?.into_iter().map(|reader| stream(reader, &fault)).collect();
    let outcome =
        observed(|observe| evenkeel_sim::run_observed(&loaded.scenario, streams, observe));
    match fault.into_inner() {
        // A trace that broke off has ended too early for its summary to mean anything.
        Some(error) => Err(error),
        None => outcome.map_err(refuse),
    }
}

/// The exit that an error of the simulator asks for.
pub(crate) fn refuse(error: SimError) -> anyhow::Error {
    let exit = match error {
        SimError::Scenario(_) => Exit::Invalid,
        SimError::Violation(_) => Exit::Runtime,
    };
    exit.because(error)
}

/// Calls `run` with a function that shows how it goes.
pub(crate) fn observed<T>(run: impl FnOnce(&mut dyn FnMut(&Progress)) -> T) -> T {
    let bar = ProgressBar::no_length();
    let started = Instant::now();
    let outcome = run(&mut |progress| show(&bar, started.elapsed(), progress));
    bar.finish_and_clear();
    outcome
}

fn open(trace: &TraceFile) -> anyhow::Result<TraceReader> {
    let reader = trace.open()?;
    reader.tell_understood();
    Ok(reader)
}

/// The records of a trace; an error ends them and is kept in `fault`.
pub(crate) fn stream(
    mut reader: TraceReader,
    fault: &RefCell<Option<anyhow::Error>>,
) -> Stream<'_> {
    let mut batch: Vec<Record> = Vec::new();
    let mut next = 0;
    Box::new(std::iter::from_fn(move || {
        if next == batch.len() {
            next = 0;
            match reader.next_batch(&mut batch) {
                Ok(true) => {}
                Ok(false) => batch.clear(),
                Err(error) => {
                    batch.clear();
                    fault.borrow_mut().get_or_insert(error);
                }
            }
        }
        let record = batch.get(next).copied();
        next += usize::from(record.is_some());
        record
    }))
}

fn show(bar: &ProgressBar, elapsed: Duration, progress: &Progress) {
    if elapsed < QUIET {
        return;
    }
    if bar.length().is_none() {
        bar.set_length(BAR_STEPS);
        bar.set_style(terminal::bar_style("{msg}"));
    }
    bar.set_message(format!(
        "{} simulated, {} requests",
        human::duration(progress.elapsed),
        human::count(progress.requests as f64)
    ));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
    bar.set_position((progress.done * BAR_STEPS as f64) as u64);
}
