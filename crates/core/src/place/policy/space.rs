//! The emptier servers, by the part of their capacity that is in use.
//!
//! Parts rather than bytes, and rather than free bytes, since servers differ in size. Every replica
//! takes space, so the parts of all servers of a set count, as their sum: with 1,000 servers, 26
//! groups to each and three replicas, to look at the fullest of a set leaves 4 percent of the
//! cluster unused when its first server is full, to look at the primary alone 23, the sum half a
//! percent.

use super::{Better, Policy, View, by_cost};
use crate::id::ServerId;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Space {
    /// How much less of a capacity must be in use for another candidate to be better; 0.01 keeps
    /// nine objects of ten with their first candidate.
    pub margin: f64,
    /// What speaks for a set.
    pub score: Score,
}

/// What speaks for a set of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Score {
    /// The sum over all of them.
    #[default]
    Sum,
    /// The fullest, as published.
    Fullest,
    /// The primary, which is all that a probe of one server sees.
    Primary,
}

impl Space {
    /// The policy with the best score.
    pub fn with_margin(margin: f64) -> Self {
        Self { margin, score: Score::Sum }
    }

    fn used(self, view: &View<'_>, servers: &[ServerId]) -> f64 {
        let used = |&server: &ServerId| view.loads.used_part(server, view.size_bytes);
        match self.score {
            Score::Sum => servers.iter().map(used).sum(),
            Score::Fullest => servers.iter().map(used).fold(0.0, f64::max),
            Score::Primary => used(&servers[0]),
        }
    }
}

impl Policy for Space {
    fn compare(&self, view: &View<'_>, kept: &[ServerId], other: &[ServerId]) -> Better {
        by_cost(self.used(view, kept), self.used(view, other), self.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{loads, zero_or_one};
    use super::*;
    use crate::place::loads::Metrics;

    #[test]
    fn parts_count_rather_than_bytes() {
        let report = |used_bytes, capacity_bytes| Metrics {
            capacity_bytes,
            used_bytes,
            ..Metrics::default()
        };
        let loads = loads(&[report(300, 1000), report(400, 2000)]);
        assert_eq!(zero_or_one(&Space::with_margin(0.01), &loads), Better::Other);
        assert_eq!(zero_or_one(&Space::with_margin(0.2), &loads), Better::Even);
    }

    #[test]
    fn scores_look_at_all_servers_at_the_fullest_or_at_the_first() {
        let report = |used_bytes| Metrics { capacity_bytes: 100, used_bytes, ..Metrics::default() };
        let loads = loads(&[report(10), report(60), report(20), report(55)]);
        let view = View { loads: &loads, size_bytes: 0 };
        let [kept, other] = [[ServerId(0), ServerId(1)], [ServerId(2), ServerId(3)]];
        let better = |score| Space { margin: 0.0, score }.compare(&view, &kept, &other);
        let outcomes = [Score::Sum, Score::Fullest, Score::Primary].map(better);
        assert_eq!(outcomes, [Better::Kept, Better::Other, Better::Kept]);
    }
}
