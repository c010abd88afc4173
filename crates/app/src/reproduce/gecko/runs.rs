//! Independent runs on as many threads as there are cores.
//!
//! A run is a pure function of its job, so that the threads change nothing but the time it takes.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::terminal;

/// Runs all jobs, saying how many are done; gives the outcomes in the order of the jobs.
pub(super) fn all<J: Sync, R: Send>(
    what: &str,
    jobs: &[J],
    run: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut outcomes = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return outcomes };
            outcomes.push((index, run(job)));
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            terminal::say(&format!("{what}: {done} of {} runs", jobs.len()));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut outcomes = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let each = workers.into_iter().flat_map(|it| it.join().expect("a run does not panic"));
        each.collect::<Vec<_>>()
    });
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
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
