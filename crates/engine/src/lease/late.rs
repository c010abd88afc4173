//! Writes that servers may still carry out though nobody waits for their answers on a connection
//! that stands: those of an earlier process of this gate, or on a connection that was lost.
//!
//! A server goes on with what it had read from a connection that is gone. So what a gate had under
//! way may reach its place after what was written there since, by the same gate or the next one:
//!
//! ```text
//! connection 1   write x -- lost
//! server              reads x ............................. carries x out
//! connection 2            write x again, write y, flushed       ^ y would be lost
//!                        |<---------- late ------------------>|
//! ```
//!
//! Until that is over, nothing new is written to such a range, trimmed or moved, and no slot that
//! has a part of one is given out. The same bytes are sent again at once, which does no harm.
//! Notes of an earlier process mostly lie in the half of their places that the next owner does
//! not write to (`Half`), and do no harm. Where they lie in the same one, or
//! heads are concerned, the volume is opened later. Everything else goes on.

use std::ops::Range;

use evenkeel_core::time::Nanos;

use crate::notes::block::BLOCK_BYTES;

/// Ranges of one disk that late writes may still reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LateRanges {
    /// In order, whole blocks; no two overlap.
    ranges: Vec<LateRange>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LateRange {
    start: u64,
    end: u64,
    until: Nanos,
}

impl LateRanges {
    /// Adds a range, widened to whole blocks so that what lies between any two can be written by
    /// itself. Where it overlaps others, the latest end counts for all of them. O(ranges).
    pub(crate) fn add(&mut self, range: &Range<u64>, until: Nanos) {
        if range.is_empty() {
            return;
        }
        let start = range.start / BLOCK_BYTES * BLOCK_BYTES;
        let end = range.end.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX);
        let mut all = LateRange { start, end, until };
        let first = self.ranges.partition_point(|one| one.end <= start);
        let last = self.ranges.partition_point(|one| one.start < end);
        for one in self.ranges.drain(first..last) {
            let (start, end) = (all.start.min(one.start), all.end.max(one.end));
            all = LateRange { start, end, until: all.until.max(one.until) };
        }
        self.ranges.insert(first, all);
    }

    /// The first byte of a range that a late write may still reach. O(log ranges), and what has
    /// ended among them.
    pub(crate) fn first_in(&self, now: Nanos, range: &Range<u64>) -> Option<u64> {
        let from = self.ranges.partition_point(|one| one.end <= range.start);
        let mut met = self.ranges[from..].iter().take_while(|one| one.start < range.end);
        met.find(|one| now < one.until).map(|one| one.start.max(range.start))
    }

    /// Every range that is not over, and its end.
    pub(crate) fn all(&self, now: Nanos) -> impl Iterator<Item = (Range<u64>, Nanos)> {
        let left = self.ranges.iter().filter(move |one| now < one.until);
        left.map(|one| (one.start..one.end, one.until))
    }

    /// When the last one is over.
    fn until(&self) -> Nanos {
        self.ranges.iter().map(|one| one.until).max().unwrap_or(Nanos::ZERO)
    }

    /// When the next one is over.
    pub(crate) fn next_end(&self) -> Option<Nanos> {
        self.ranges.iter().map(|one| one.until).min()
    }

    /// Forgets what is over.
    pub(crate) fn forget(&mut self, now: Nanos) {
        self.ranges.retain(|one| now < one.until);
    }

    /// Whether none may reach anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Ranges of the servers of a volume that late writes may still reach, and until when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateWrites {
    /// By server, in the order of the policy.
    servers: Vec<LateRanges>,
}

impl LateWrites {
    /// Late writes to these ranges of `servers` servers, each known by its place in the order of
    /// the policy. Ranges are widened to whole blocks, so that what lies between any two can be
    /// written by itself.
    ///
    /// # Panics
    /// If a range is one of a server that is not there.
    pub fn new(
        until: Nanos,
        servers: usize,
        ranges: impl IntoIterator<Item = (usize, Range<u64>)>,
    ) -> Self {
        let mut late = Self { servers: vec![LateRanges::default(); servers] };
        for (server, range) in ranges {
            late.servers[server].add(&range, until);
        }
        late
    }

    /// A connection to a server was lost: until then it may carry out what changes this range.
    pub(crate) fn add(&mut self, server: usize, range: &Range<u64>, until: Nanos) {
        if self.servers.len() <= server {
            self.servers.resize(server + 1, LateRanges::default());
        }
        self.servers[server].add(range, until);
    }

    /// Until when they may come.
    pub fn until(&self) -> Nanos {
        self.servers.iter().map(LateRanges::until).max().unwrap_or(Nanos::ZERO)
    }

    /// When the next range is let go of.
    pub(crate) fn next_end(&self) -> Option<Nanos> {
        self.servers.iter().filter_map(LateRanges::next_end).min()
    }

    /// Whether none may come any more.
    pub fn is_over(&self, now: Nanos) -> bool {
        now >= self.until()
    }

    /// Forgets what is over.
    pub(crate) fn forget(&mut self, now: Nanos) {
        for ranges in &mut self.servers {
            ranges.forget(now);
        }
    }

    /// The first byte of a range that one may still reach.
    pub(crate) fn first_in(&self, now: Nanos, server: usize, range: &Range<u64>) -> Option<u64> {
        self.servers.get(server)?.first_in(now, range)
    }

    /// Whether one may still reach a range of a server.
    pub(crate) fn reaches(&self, now: Nanos, server: usize, range: &Range<u64>) -> bool {
        self.first_in(now, server, range).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos(5);
    const BLOCK: u64 = BLOCK_BYTES;

    #[test]
    fn ranges_are_whole_blocks_and_found_wherever_they_are_met() {
        let ranges = [
            (1, 8 * BLOCK + 1..8 * BLOCK + 2),
            (1, 9 * BLOCK..10 * BLOCK),
            (1, 20 * BLOCK..20 * BLOCK),
            (1, 4 * BLOCK..5 * BLOCK),
            (1, 30 * BLOCK..31 * BLOCK),
            (1, 30 * BLOCK..40 * BLOCK),
            (0, u64::MAX - 1..u64::MAX),
        ];
        let late = LateWrites::new(Nanos(9), 3, ranges);
        let starts: Vec<u64> = late.servers[1].ranges.iter().map(|one| one.start / BLOCK).collect();
        assert_eq!(starts, [4, 8, 9, 30]);
        assert_eq!(late.servers[0].ranges.len(), 1);
        for (range, found) in [
            (0..4 * BLOCK, None),
            (0..4 * BLOCK + 1, Some(4 * BLOCK)),
            (4 * BLOCK + 7..100 * BLOCK, Some(4 * BLOCK + 7)),
            (5 * BLOCK..100 * BLOCK, Some(8 * BLOCK)),
            (10 * BLOCK..30 * BLOCK, None),
            (40 * BLOCK..u64::MAX, None),
        ] {
            assert_eq!(late.first_in(NOW, 1, &range), found, "{range:?}");
        }
        assert_eq!(late.first_in(Nanos(9), 1, &(0..u64::MAX)), None, "it is over");
        assert_eq!(late.first_in(NOW, 2, &(0..u64::MAX)), None);
        assert!(late.reaches(NOW, 1, &(0..5 * BLOCK)) && !late.reaches(NOW, 1, &(BLOCK..BLOCK)));
        assert!(!late.is_over(NOW) && late.is_over(Nanos(9)));
        assert!(LateWrites::new(Nanos(9), 3, []).is_over(NOW), "there are none");
    }

    #[test]
    fn each_range_has_an_end_of_its_own_and_overlapping_ones_have_the_latest() {
        let mut late = LateRanges::default();
        late.add(&(0..BLOCK), Nanos(10));
        late.add(&(2 * BLOCK..4 * BLOCK), Nanos(20));
        late.add(&(3 * BLOCK..6 * BLOCK), Nanos(30));
        late.add(&(7 * BLOCK..8 * BLOCK), Nanos(15));
        let first = |now, range| late.first_in(Nanos(now), &range);
        assert_eq!(first(9, 0..9 * BLOCK), Some(0));
        assert_eq!(first(10, 0..9 * BLOCK), Some(2 * BLOCK), "the first is over");
        assert_eq!(first(29, 0..9 * BLOCK), Some(2 * BLOCK), "it overlaps a later one");
        assert_eq!(first(15, 6 * BLOCK..9 * BLOCK), None);
        assert_eq!(late.next_end(), Some(Nanos(10)));
        late.forget(Nanos(15));
        assert_eq!((late.ranges.len(), late.next_end()), (1, Some(Nanos(30))));
        late.forget(Nanos(30));
        assert!(late.is_empty() && late.next_end().is_none());
    }
}
