//! The fewest requests that must be late.
//!
//! Source: Moore, "An n job, one machine sequencing algorithm for minimizing the number of late
//! jobs", Management Science 15(1), 1968, with Hodgson's simplification. Take the jobs in order of
//! their deadlines; whenever one would end too late, give up the longest so far:
//!
//! ```text
//! cost, deadline   (4, 5) (3, 6) (2, 7)     4 | 4+3 > 6: give up 4 | 3+2 <= 7     one is late
//! ```
//!
//! Optimal for one server and jobs that are all there.

use std::collections::BinaryHeap;

use crate::time::{Nanos, Span};

/// A request to be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// How long it keeps the server.
    pub service: Span,
    /// When it should be done.
    pub deadline: Nanos,
}

/// Workspace of [`Self::give_up`]; it keeps its memory from one plan to the next.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    /// The jobs kept so far, the longest on top.
    kept: BinaryHeap<(Span, usize)>,
    given_up: Vec<bool>,
}

impl Planner {
    /// Says for each job, given in order of deadlines and to be started at `now`, whether it is to
    /// be given up. O(jobs x log jobs).
    pub fn give_up(&mut self, now: Nanos, jobs: impl Iterator<Item = Job>) -> &[bool] {
        self.kept.clear();
        self.given_up.clear();
        let mut end = u128::from(now.0);
        for (index, job) in jobs.enumerate() {
            self.given_up.push(false);
            self.kept.push((job.service, index));
            end += u128::from(job.service.0);
            if end > u128::from(job.deadline.0)
                && let Some((service, longest)) = self.kept.pop()
            {
                self.given_up[longest] = true;
                end -= u128::from(service.0);
            }
        }
        &self.given_up
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn job((service, deadline): (u64, u64)) -> Job {
        Job { service: Span(service), deadline: Nanos(deadline) }
    }

    /// The fewest late jobs by trying every set.
    fn fewest(jobs: &[Job]) -> u32 {
        let feasible = |set: u32| {
            let mut end = 0;
            (0..).zip(jobs).filter(|(index, _)| set >> index & 1 == 1).all(|(_, job)| {
                end += job.service.0;
                end <= job.deadline.0
            })
        };
        let count = u32::try_from(jobs.len()).unwrap();
        (0..1 << count)
            .filter(|&set| feasible(set))
            .map(|set: u32| count - set.count_ones())
            .min()
            .unwrap()
    }

    #[test]
    fn the_example_gives_up_one() {
        let jobs = [(4, 5), (3, 6), (2, 7)].map(job);
        assert_eq!(Planner::default().give_up(Nanos(0), jobs.into_iter()), [true, false, false]);
    }

    proptest! {
        #[test]
        fn no_set_of_kept_jobs_is_larger(
            jobs in prop::collection::vec((1u64..20, 1u64..60), 1..12),
        ) {
            let mut jobs: Vec<Job> = jobs.into_iter().map(job).collect();
            jobs.sort_by_key(|job| job.deadline);
            let mut planner = Planner::default();
            let late = planner.give_up(Nanos(0), jobs.iter().copied());
            let count = late.iter().filter(|late| **late).count();
            prop_assert_eq!(u32::try_from(count).unwrap(), fewest(&jobs));
        }
    }
}
