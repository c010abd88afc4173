//! Which segment to clean: cost-benefit over buckets of live share.
//!
//! Cleaning a segment with garbage share g costs reading and writing its live part 1 - g and gains
//! g. A segment that has been cold for long will stay as it is, so its gain lasts:
//!
//! ```text
//! score = g / (1 - g) * sqrt(age)         (SepBIT, FAST 2022; age in records written since)
//! ```
//!
//! Within a bucket of alike live shares the oldest is best, so that only the head of each of 64
//! buckets needs a score. Squares of scores are compared, in whole numbers.

use std::collections::{BTreeMap, BTreeSet};

use crate::units::{Lsn, SegmentId};

const BUCKETS: u64 = 64;

/// Full segments that can be cleaned. See the [module](self).
#[derive(Debug)]
pub(super) struct Victims {
    segment_blocks: u32,
    buckets: BTreeMap<u64, BTreeSet<(Lsn, SegmentId)>>,
}

impl Victims {
    pub(super) fn new(segment_blocks: u32) -> Self {
        Self { segment_blocks, buckets: BTreeMap::new() }
    }

    pub(super) fn insert(&mut self, segment: SegmentId, born: Lsn, live: u32) {
        self.buckets.entry(self.bucket(live)).or_default().insert((born, segment));
    }

    pub(super) fn remove(&mut self, segment: SegmentId, born: Lsn, live: u32) {
        let bucket = self.bucket(live);
        if let Some(segments) = self.buckets.get_mut(&bucket) {
            segments.remove(&(born, segment));
            if segments.is_empty() {
                self.buckets.remove(&bucket);
            }
        }
    }

    /// All of them, those with the least alive before the others, within a 64th of a segment.
    pub(super) fn emptiest_first(&self) -> impl Iterator<Item = SegmentId> {
        self.buckets.values().flatten().map(|&(_, segment)| segment)
    }

    /// Whether a change of the live count changes the bucket.
    pub(super) fn is_apart(&self, live: u32, other_live: u32) -> bool {
        self.bucket(live) != self.bucket(other_live)
    }

    /// The best victim of those that `counts` accepts.
    pub(super) fn best(
        &self,
        now: Lsn,
        counts: impl Fn(SegmentId) -> bool,
        live: impl Fn(SegmentId) -> u32,
    ) -> Option<SegmentId> {
        let heads = self
            .buckets
            .values()
            .filter_map(|segments| segments.iter().copied().find(|&(_, segment)| counts(segment)));
        let (_, segment) = heads.max_by(|&(born_a, a), &(born_b, b)| {
            // Squares of g / (1 - g) * sqrt(age), each multiplied by both denominators.
            let [benefit_a, cost_a] = self.terms(live(a), now, born_a);
            let [benefit_b, cost_b] = self.terms(live(b), now, born_b);
            (benefit_a * cost_b).cmp(&(benefit_b * cost_a)).then(b.cmp(&a))
        })?;
        Some(segment)
    }

    /// Garbage squared times age, and live squared.
    fn terms(&self, live: u32, now: Lsn, born: Lsn) -> [u128; 2] {
        let garbage = u128::from(self.segment_blocks.saturating_sub(live));
        // Ages beyond 2^40 records are alike, so that products stay within 128 bits.
        let age = u128::from((now.0.saturating_sub(born.0) + 1).min(1 << 40));
        let live = u128::from(live.max(1));
        [garbage * garbage * age, live * live]
    }

    fn bucket(&self, live: u32) -> u64 {
        u64::from(live) * BUCKETS / u64::from(self.segment_blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(rows: &[(u32, u64, u32)], now: u64, live_max: u32) -> Option<u32> {
        let mut victims = Victims::new(1000);
        for &(segment, born, live) in rows {
            victims.insert(SegmentId(segment), Lsn(born), live);
        }
        let live =
            |wanted: SegmentId| rows.iter().find(|row| row.0 == wanted.0).map(|row| row.2).unwrap();
        let counts = |segment| live(segment) <= live_max;
        victims.best(Lsn(now), counts, live).map(|segment| segment.0)
    }

    #[test]
    fn emptier_and_older_segments_go_first() {
        assert_eq!(best(&[(0, 100, 500), (1, 100, 300)], 200, 999), Some(1));
        assert_eq!(best(&[(0, 100, 500), (1, 50, 500)], 200, 999), Some(1));
        // 4 times the age weighs as much as twice the ratio of garbage to live: 1 against 0.5.
        assert_eq!(best(&[(0, 801, 500), (1, 0, 667)], 1000, 999), Some(1));
        assert_eq!(best(&[(0, 701, 500), (1, 0, 667)], 1000, 999), Some(0));
    }

    #[test]
    fn segments_without_a_gain_are_left_alone() {
        assert_eq!(best(&[(0, 0, 990)], 10, 980), None);
        assert_eq!(best(&[(0, 0, 990), (1, 0, 985)], 10, 985), Some(1));
        assert_eq!(best(&[], 10, 1000), None);
    }
}
