//! What was measured: one point of a ladder of short closed loads.

use evenkeel_core::time::Span;
use serde::{Deserialize, Serialize};

/// Which requests a load makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Reads alone.
    Read,
    /// Writes alone.
    Write,
    /// As many reads as writes.
    Mixed,
}

/// One measurement under a closed load at random offsets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Which requests.
    pub load: Load,
    /// Bytes of each.
    pub size_bytes: u64,
    /// Requests kept under way.
    pub depth: u32,
    /// Requests per second.
    pub iops: f64,
    /// Mean latency.
    pub mean: Span,
    /// The latency that one request in a hundred exceeded.
    pub p99: Span,
}

impl Point {
    /// The latency that Little's law gives for the throughput; more robust than the mean of
    /// recorded latencies where a load ends in the middle of slow requests. Of lone requests the
    /// mean: they are too few for the one that the load's end cuts off not to count.
    pub(super) fn latency_ns(&self) -> f64 {
        if self.depth == 1 { self.mean.0 as f64 } else { f64::from(self.depth) * 1e9 / self.iops }
    }
}

/// One point for each load, size and depth: the medians of its repetitions, in that order.
pub(super) fn medians(points: &[Point]) -> Vec<Point> {
    let mut sorted = points.to_vec();
    let key = |point: &Point| (point.load, point.size_bytes, point.depth);
    sorted.sort_by_key(key);
    let groups = sorted.chunk_by(|a, b| key(a) == key(b));
    groups
        .map(|group| Point {
            iops: median(group.iter().map(|point| point.iops)),
            mean: median_span(group.iter().map(|point| point.mean)),
            p99: median_span(group.iter().map(|point| point.p99)),
            ..group[0]
        })
        .collect()
}

/// The middle value; of two middle ones, their mean. Zero if there is none.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

fn median_span(values: impl Iterator<Item = Span>) -> Span {
    let mut values: Vec<Span> = values.collect();
    values.sort_unstable();
    values[(values.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_repetition_changes_nothing() {
        let point = |depth, iops| Point {
            load: Load::Read,
            size_bytes: 4096,
            depth,
            iops,
            mean: Span(1_000),
            p99: Span(2_000),
        };
        let points = [point(4, 100.0), point(1, 5.0), point(4, 9_000.0), point(4, 102.0)];
        let medians = medians(&points);
        let found: Vec<_> = medians.iter().map(|point| (point.depth, point.iops)).collect();
        assert_eq!(found, [(1, 5.0), (4, 102.0)]);
    }
}
