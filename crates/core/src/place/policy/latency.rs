//! Quick servers, among those that have no queue.
//!
//! Source: the hot and cold rule of Prequal (Wydrowski et al., NSDI 2024). Latency alone misleads:
//! it speaks of requests that are over. Requests in flight tell what a request would meet now. So a
//! primary with more in flight than most others is hot; a cold one is better than a hot one, of two
//! cold ones the quicker, of two hot ones the one with less in flight.

use super::{Better, Policy, View, by_cost};
use crate::id::ServerId;
use crate::place::loads::Loads;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// The part of all servers that count as cold, 0 to 1; 0.75 is customary.
    cold_part: f64,
    /// How much quicker another candidate must be, as a part of the kept one's latency.
    margin: f64,
    /// Servers with more in flight are hot.
    hot_above: u32,
}

impl Latency {
    /// The policy, with nobody hot until the first [`Policy::refresh`].
    pub fn new(cold_part: f64, margin: f64) -> Self {
        Self { cold_part, margin, hot_above: u32::MAX }
    }
}

impl Policy for Latency {
    fn compare(&self, view: &View<'_>, kept: &[ServerId], other: &[ServerId]) -> Better {
        let in_flight = [kept, other].map(|servers| view.loads.in_flight(servers[0]));
        match in_flight.map(|in_flight| in_flight > self.hot_above) {
            [true, false] => Better::Other,
            [false, true] => Better::Kept,
            [true, true] => by_cost(f64::from(in_flight[0]), f64::from(in_flight[1]), 0.0),
            [false, false] => {
                let latency =
                    |servers: &[ServerId]| view.loads.reported(servers[0]).latency.0 as f64;
                by_cost(latency(kept), latency(other), self.margin * latency(kept))
            }
        }
    }

    /// O(servers log servers).
    fn refresh(&mut self, loads: &Loads) {
        let mut in_flight: Vec<u32> = loads.servers().map(|one| loads.in_flight(one)).collect();
        in_flight.sort_unstable();
        let last = in_flight.len().saturating_sub(1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let quantile = (last as f64 * self.cold_part) as usize;
        self.hot_above = in_flight.get(quantile).copied().unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{loads, zero_or_one};
    use super::*;
    use crate::place::loads::Metrics;
    use crate::time::Span;

    fn outcome(reports: [(u32, u64); 4]) -> Better {
        let report = |(in_flight, millis)| {
            let latency = Span::from_millis(millis);
            Metrics { latency, in_flight, ..Metrics::default() }
        };
        let loads = loads(&reports.map(report));
        let mut latency = Latency::new(0.5, 0.1);
        latency.refresh(&loads);
        zero_or_one(&latency, &loads)
    }

    #[test]
    fn a_hot_server_is_worse_however_quick_it_was() {
        assert_eq!(outcome([(9, 1), (2, 50), (1, 5), (1, 5)]), Better::Other);
        assert_eq!(outcome([(2, 50), (9, 1), (2, 5), (1, 5)]), Better::Kept);
    }

    #[test]
    fn cold_ones_go_by_latency_and_hot_ones_by_their_queue() {
        assert_eq!(outcome([(1, 20), (2, 10), (2, 5), (9, 5)]), Better::Other);
        assert_eq!(outcome([(1, 20), (2, 19), (2, 5), (9, 5)]), Better::Even);
        assert_eq!(outcome([(9, 1), (8, 50), (0, 5), (0, 5)]), Better::Other);
    }
}
