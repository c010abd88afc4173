//! Steps that are carried out one after the other, or beside each other, with a summary at the end.
//!
//! A step that fails does not stop those behind it: one run says everything that is wrong. What
//! could not be tested on this machine stands at the end as well, since silence would pass for
//! success, and so do the names of the tests that failed: often the end is all of a run that is
//! kept.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Does a step, and adds a line for each thing in it that failed and has a name.
type Work = dyn FnOnce(&mut Vec<String>) -> Result<()> + Send;

/// One thing to do.
pub(crate) struct Step {
    name: String,
    work: Box<Work>,
    /// What goes on meanwhile. It must not print before it ends.
    beside: Option<Box<Self>>,
}

impl Step {
    /// A step of which nothing has a name.
    pub(crate) fn new(
        name: impl Into<String>,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Self {
        Self::with_failures(name, move |_| work())
    }

    /// A step that names what failed in it.
    pub(crate) fn with_failures(
        name: impl Into<String>,
        work: impl FnOnce(&mut Vec<String>) -> Result<()> + Send + 'static,
    ) -> Self {
        Self { name: name.into(), work: Box::new(work), beside: None }
    }

    /// The same with another step that goes on meanwhile, and is quiet until it ends.
    pub(crate) fn beside(mut self, other: Self) -> Self {
        self.beside = Some(Box::new(other));
        self
    }

    fn count(&self) -> usize {
        1 + self.beside.as_ref().map_or(0, |step| step.count())
    }

    fn run(self) -> Done {
        let (start, mut failures) = (Instant::now(), Vec::new());
        let outcome = (self.work)(&mut failures);
        if let Err(error) = &outcome {
            eprintln!("error: {}: {error:#}", self.name);
        }
        Done { name: self.name, time: start.elapsed(), passed: outcome.is_ok(), failures }
    }
}

/// A step that was done.
struct Done {
    name: String,
    time: Duration,
    passed: bool,
    failures: Vec<String>,
}

/// Carries out all steps, and prints the summary with what `skips` says at the end.
///
/// # Errors
/// If any step failed.
pub(crate) fn climb(steps: Vec<Step>, skips: impl FnOnce() -> Vec<String>) -> Result<()> {
    let start = Instant::now();
    let count: usize = steps.iter().map(Step::count).sum();
    let mut done = Vec::new();
    for mut step in steps {
        eprintln!("\n=== [{}/{count}] {}", done.len() + 1, step.name);
        let Some(beside) = step.beside.take() else {
            done.push(step.run());
            continue;
        };
        eprintln!("=== [{}/{count}] {} (beside it)", done.len() + 2, beside.name);
        let both = thread::scope(|scope| {
            let beside = scope.spawn(|| beside.run());
            [step.run(), beside.join().expect("a step never panics")]
        });
        done.extend(both);
    }
    summarise(&done, &skips(), start.elapsed())
}

fn summarise(done: &[Done], skips: &[String], time: Duration) -> Result<()> {
    eprintln!("\n=== summary");
    // What failed comes first: of a long summary only the beginning may be kept.
    for failure in done.iter().flat_map(|step| &step.failures) {
        eprintln!("  failed  {failure}");
    }
    for step in done {
        let verdict = if step.passed { "ok" } else { "FAILED" };
        eprintln!("{verdict:>8} {:>7.1} s  {}", step.time.as_secs_f64(), step.name);
    }
    for skip in skips {
        eprintln!(" SKIPPED  {skip}");
    }
    let failed = done.iter().filter(|step| !step.passed).count();
    let minutes = time.as_secs_f64() / 60.0;
    if failed > 0 {
        bail!("{failed} of {} steps failed ({minutes:.1} min)", done.len());
    }
    eprintln!("all {} steps passed in {minutes:.1} min; {} skipped", done.len(), skips.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn step(name: &str, passes: bool) -> Step {
        Step::new(name, move || if passes { Ok(()) } else { bail!("it fails") })
    }

    #[test]
    fn a_failed_step_fails_the_climb_and_stops_no_other() {
        let (sender, receiver) = channel();
        let last = Step::new("last", move || Ok(sender.send(())?));
        let skips = || vec!["skipped".to_owned()];
        assert!(climb(vec![step("one", true)], skips).is_ok());
        assert!(climb(vec![step("one", false), last], skips).is_err());
        assert!(receiver.try_recv().is_ok(), "the last step was not done");
    }

    #[test]
    fn a_step_beside_another_goes_on_meanwhile_and_counts() {
        let (sender, receiver) = channel();
        let waits = Step::new("front", move || Ok(receiver.recv()?));
        let wakes = Step::new("beside", move || Ok(sender.send(())?));
        assert!(climb(vec![waits.beside(wakes)], Vec::new).is_ok());
        let both = step("front", true).beside(step("beside", false));
        assert_eq!(both.count(), 2);
        assert!(climb(vec![both], Vec::new).is_err());
    }
}
