//! Independent runs on as many threads as there are cores.
//!
//! A run is a pure function of its job, so that the threads change nothing but the time it takes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;

use crate::terminal;

/// Runs all jobs, showing how many are done; gives the outcomes in the order of the jobs.
pub(super) fn all<J: Sync, R: Send>(
    what: &str,
    jobs: &[J],
    run: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let bar = bar(what, jobs.len());
    let work = || {
        let mut outcomes = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return outcomes };
            outcomes.push((index, run(job)));
            bar.inc(1);
            if bar.is_hidden() {
                terminal::say(&format!("{what}: {} of {} runs", bar.position(), jobs.len()));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut outcomes = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let each = workers.into_iter().flat_map(|it| it.join().expect("a run does not panic"));
        each.collect::<Vec<_>>()
    });
    bar.finish_and_clear();
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// A bar on a terminal; hidden where there is none.
fn bar(what: &str, count: usize) -> ProgressBar {
    let style = terminal::bar_style("{msg}, {pos} of {len} runs");
    let bar = ProgressBar::new(count as u64).with_style(style).with_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u32> = (0..20).collect();
        assert_eq!(all("squares", &jobs, |job| job * job)[7..9], [49, 64]);
    }
}
