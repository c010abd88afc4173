//! `evenkeel bench`: puts load on NBD servers and says how they bore it.
//!
//! Data goes to stdout, as a table or as JSON with the structure of fio's, so that tools which read
//! fio's output read this; talk and the progress bar go to stderr.

mod args;
pub(crate) mod fio_json;
pub(crate) mod table;

pub use args::Args;

use std::time::Duration;

use evenkeel_io::load::{LoadError, LoadPlan, LoadReport, Progress, run_observed};
use indicatif::ProgressBar;

use crate::exit::Exit;
use crate::{human, terminal};

/// Runs that end sooner show no progress bar.
const QUIET: Duration = Duration::from_secs(2);

const BAR_STEPS: u64 = 1000;

/// Runs the subcommand.
///
/// # Errors
/// [`Exit::Usage`] for a plan that makes no sense, [`Exit::Unreachable`] for a server that cannot
/// be used, [`Exit::Runtime`] for one that goes away.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let plan = args.plan()?;
    let report = measure(&plan)?;
    if args.json {
        terminal::json(&fio_json::document(&plan, &report))?;
    } else {
        terminal::data(&table::render(&plan, &report))?;
    }
    let failed = report.groups.iter().any(|group| {
        let wrong = group.verification.as_ref().is_some_and(|found| found.blocks_wrong > 0);
        wrong || group.errors > 0 || group.unanswered > 0
    });
    Ok(if failed { Exit::Failed } else { Exit::Success })
}

/// Carries out a plan, with a progress bar on stderr if it takes long.
///
/// # Errors
/// As [`run`].
pub fn measure(plan: &LoadPlan) -> anyhow::Result<LoadReport> {
    measure_observed(plan, &mut |_| ())
}

/// As [`measure`], and tells `observe` how it goes, ten times a second.
///
/// # Errors
/// As [`run`].
pub fn measure_observed(
    plan: &LoadPlan,
    observe: &mut (dyn FnMut(&Progress) + Send),
) -> anyhow::Result<LoadReport> {
    let bar = ProgressBar::no_length();
    let outcome = run_observed(plan, &mut |progress| {
        show(&bar, progress);
        observe(progress);
    });
    bar.finish_and_clear();
    outcome.map_err(|error| {
        let exit = match error {
            LoadError::Plan { .. } => Exit::Usage,
            LoadError::Connect { .. } => Exit::Unreachable,
            LoadError::Lost { .. } | LoadError::Interrupted | LoadError::System(_) => Exit::Runtime,
        };
        exit.because(error)
    })
}

fn show(bar: &ProgressBar, progress: &Progress) {
    let elapsed = Duration::from_nanos(progress.elapsed.0);
    let whole = elapsed.div_f64(progress.done.max(1e-6));
    if whole < QUIET || elapsed.is_zero() {
        return;
    }
    if bar.length().is_none() {
        bar.set_length(BAR_STEPS);
        bar.set_style(terminal::bar_style("{msg}"));
    }
    let seconds = elapsed.as_secs_f64();
    let rate = human::byte_rate(progress.bytes as f64 / seconds);
    let iops = human::count(progress.requests as f64 / seconds);
    bar.set_message(format!("{rate:>10}  {iops:>5} iops"));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
    bar.set_position((progress.done * BAR_STEPS as f64) as u64);
}
