//! How late sleeps end: the shortest way to ask whether a processor is there when it is needed.
//!
//! On a quiet machine a sleep of a millisecond ends some 60 microseconds late, which is the
//! kernel's timer slack (50 microseconds) and a wake-up.

use std::time::{Duration, Instant};

use serde::Serialize;

/// How long each sleep is meant to take.
const SLEEP: Duration = Duration::from_millis(1);

/// How late sleeps of a millisecond ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sleeps {
    /// Half of them were later, in milliseconds.
    pub median_ms: f64,
    /// One in a hundred was later, in milliseconds.
    pub p99_ms: f64,
    /// The latest, in milliseconds.
    pub max_ms: f64,
}

impl Sleeps {
    /// Sleeps so many times, a millisecond each.
    pub(super) fn measure(count: usize) -> Self {
        let late = (0..count).map(|_| {
            let started = Instant::now();
            std::thread::sleep(SLEEP);
            started.elapsed().saturating_sub(SLEEP)
        });
        Self::of(late.collect())
    }

    /// The distribution of how late they were; nothing but zeroes of none.
    fn of(mut late: Vec<Duration>) -> Self {
        late.sort_unstable();
        // Nearest rank: the least value that so many percent do not exceed.
        let rank = |percent: usize| {
            let index = (late.len() * percent).div_ceil(100).saturating_sub(1);
            late.get(index).map_or(0.0, |late| late.as_secs_f64() * 1e3)
        };
        Self { median_ms: rank(50), p99_ms: rank(99), max_ms: rank(100) }
    }

    /// The worse of two distributions, figure by figure.
    pub(super) fn worse(self, other: Self) -> Self {
        Self {
            median_ms: self.median_ms.max(other.median_ms),
            p99_ms: self.p99_ms.max(other.p99_ms),
            max_ms: self.max_ms.max(other.max_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_sorted_sleeps() {
        let late = (1..=200).rev().map(Duration::from_millis).collect();
        let sleeps = Sleeps::of(late);
        assert_eq!(sleeps, Sleeps { median_ms: 100.0, p99_ms: 198.0, max_ms: 200.0 });
        assert_eq!(Sleeps::of(Vec::new()), Sleeps::default());
    }

    #[test]
    fn the_worse_of_two_is_taken_figure_by_figure() {
        let one = Sleeps { median_ms: 1.0, p99_ms: 2.0, max_ms: 9.0 };
        let other = Sleeps { median_ms: 0.5, p99_ms: 3.0, max_ms: 4.0 };
        assert_eq!(one.worse(other), Sleeps { median_ms: 1.0, p99_ms: 3.0, max_ms: 9.0 });
    }

    /// How late is the machine's own affair, so nothing is demanded of it.
    #[test]
    fn sleeps_are_never_early() {
        let sleeps = Sleeps::measure(5);
        assert!(sleeps.median_ms >= 0.0 && sleeps.max_ms >= sleeps.p99_ms);
    }
}
