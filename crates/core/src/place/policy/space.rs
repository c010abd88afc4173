//! The emptier servers, by the part of their capacity that is in use.
//!
//! Every replica takes space, so the parts of all servers of a set count, as their sum: to look at
//! the primary alone leaves 13 percent of a cluster of 1,000 servers unused, at the fullest 3, the
//! sum 0.5. Parts rather than bytes, and rather than free bytes, since servers differ in size.

use super::{Better, Policy, View, by_cost};
use crate::id::ServerId;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Space {
    /// How much less of a capacity must be in use for another candidate to be better; 0.01 keeps
    /// nine objects of ten with their first candidate.
    pub margin: f64,
}

impl Policy for Space {
    fn compare(&self, view: &View<'_>, kept: &[ServerId], other: &[ServerId]) -> Better {
        let used = |servers: &[ServerId]| -> f64 {
            servers.iter().map(|&server| view.loads.used_part(server, view.size_bytes)).sum()
        };
        by_cost(used(kept), used(other), self.margin)
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
        assert_eq!(zero_or_one(&Space { margin: 0.01 }, &loads), Better::Other);
        assert_eq!(zero_or_one(&Space { margin: 0.2 }, &loads), Better::Even);
    }

    #[test]
    fn every_replica_counts() {
        let report = |used_bytes| Metrics { used_bytes, capacity_bytes: 100, ..Metrics::default() };
        let loads = loads(&[report(10), report(90), report(20), report(30)]);
        let view = View { loads: &loads, size_bytes: 0 };
        let [kept, other] = [[ServerId(0), ServerId(1)], [ServerId(2), ServerId(3)]];
        assert_eq!(Space { margin: 0.0 }.compare(&view, &kept, &other), Better::Other);
    }
}
