//! Writes of an earlier process of this gate that its servers may still carry out.
//!
//! A server goes on with what it had read from a connection that is gone. So what a gate had under
//! way when it was killed may reach its place after what the next one has written there:
//!
//! ```text
//! gate A   write x -- killed
//! server       reads x ............................. carries x out
//! gate B                 started, writes y, flushed       ^ y would be lost
//!                        |<---------- late ------------------>|
//! ```
//!
//! Until that is over, nothing is written to such a range, trimmed or moved, and no slot that has a
//! part of one is given out. Notes mostly lie in the half of their places that the next owner does
//! not write to (`Half`), and do no harm. Where they lie in the same one, or
//! heads are concerned, the volume is opened later. Everything else goes on.

use std::ops::Range;

use evenkeel_core::time::Nanos;

use crate::notes::block::BLOCK_BYTES;

/// Ranges of servers that late writes may still reach, and until when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateWrites {
    until: Nanos,
    /// By server: in order, whole blocks, with room between any two.
    ranges: Vec<Vec<Range<u64>>>,
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
        let mut by_server = vec![Vec::new(); servers];
        for (server, range) in ranges.into_iter().filter(|(_, range)| !range.is_empty()) {
            let start = range.start / BLOCK_BYTES * BLOCK_BYTES;
            let end = range.end.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX);
            by_server[server].push(start..end);
        }
        for ranges in &mut by_server {
            ranges.sort_unstable_by_key(|range| range.start);
            ranges.dedup_by(|next, last| {
                let meets = next.start <= last.end;
                last.end = if meets { last.end.max(next.end) } else { last.end };
                meets
            });
        }
        Self { until, ranges: by_server }
    }

    /// Until when they may come.
    pub fn until(&self) -> Nanos {
        self.until
    }

    /// Whether none may come any more.
    pub fn is_over(&self, now: Nanos) -> bool {
        now >= self.until || self.ranges.iter().all(Vec::is_empty)
    }

    /// The first byte of a range that one may still reach.
    pub(crate) fn first_in(&self, now: Nanos, server: usize, range: Range<u64>) -> Option<u64> {
        if now >= self.until {
            return None;
        }
        let ranges = self.ranges.get(server)?;
        let next = ranges.get(ranges.partition_point(|one| one.end <= range.start))?;
        (next.start < range.end).then(|| next.start.max(range.start))
    }

    /// Whether one may still reach a range of a server.
    pub(crate) fn reaches(&self, now: Nanos, server: usize, range: Range<u64>) -> bool {
        !range.is_empty() && self.first_in(now, server, range).is_some()
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
        let merged = [4 * BLOCK..5 * BLOCK, 8 * BLOCK..10 * BLOCK, 30 * BLOCK..40 * BLOCK];
        assert_eq!(late.ranges[1], merged);
        assert_eq!(late.ranges[0].len(), 1);
        for (range, found) in [
            (0..4 * BLOCK, None),
            (0..4 * BLOCK + 1, Some(4 * BLOCK)),
            (4 * BLOCK + 7..100 * BLOCK, Some(4 * BLOCK + 7)),
            (5 * BLOCK..100 * BLOCK, Some(8 * BLOCK)),
            (10 * BLOCK..30 * BLOCK, None),
            (40 * BLOCK..u64::MAX, None),
        ] {
            assert_eq!(late.first_in(NOW, 1, range.clone()), found, "{range:?}");
        }
        assert_eq!(late.first_in(Nanos(9), 1, 0..u64::MAX), None, "it is over");
        assert_eq!(late.first_in(NOW, 2, 0..u64::MAX), None);
        assert!(late.reaches(NOW, 1, 0..5 * BLOCK) && !late.reaches(NOW, 1, BLOCK..BLOCK));
        assert!(!late.is_over(NOW) && late.is_over(Nanos(9)));
        assert!(LateWrites::new(Nanos(9), 3, []).is_over(NOW), "there are none");
    }
}
