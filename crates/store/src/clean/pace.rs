//! Pacing: clients pay for room while it is short, so that they never meet a wall.
//!
//! ```text
//! price in reclaimed blocks for each block written
//! 2 |**
//!   |  **
//! 1 |    **          <- where price and cleaning balance
//!   |      **
//! 0 +--------*******----> segments ahead
//!      low   high
//! ```
//!
//! Above the high mark writing is free and nothing is cleaned. Below it, the cleaner earns credit
//! with every block that it moves, and a record waits until there is enough. The scarcer room is,
//! the more a block costs; the level settles where clients write as much as is reclaimed.

use crate::checkpoint::Runway;
use crate::format::record::{DATA_BLOCKS_MAX, Kind};
use crate::state::State;

/// Parts of one: credit and shortage are counted in 1,024ths.
const WHOLE: u64 = 1024;

/// Credit at most, in blocks: a few of the longest records.
const CREDIT_BLOCKS_MAX: u64 = 4 * DATA_BLOCKS_MAX as u64;

/// What clients may write before more room is reclaimed. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Pace {
    credit_parts: u64,
}

/// How short room is: 0 at the high mark, 1,024 at the low mark and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage(u64);

/// Segments between the two marks.
fn width(segments: usize) -> usize {
    (segments / 32).max(2)
}

/// Segments ahead from which on writing is free and nothing is cleaned.
fn high_mark(segments: usize) -> usize {
    Runway::MOVED_MIN + 1 + width(segments)
}

impl Shortage {
    fn at(ahead_segments: usize, segments: usize) -> Self {
        let width = width(segments);
        let missing = high_mark(segments).saturating_sub(ahead_segments).min(width);
        Self(missing as u64 * WHOLE / width as u64)
    }

    pub(crate) fn is_any(self) -> bool {
        self.0 > 0
    }

    fn price_parts(self, blocks: u64) -> u64 {
        2 * self.0 * blocks
    }
}

impl Pace {
    /// Whether the credit is enough for a record of so many blocks.
    pub(crate) fn admits(&self, shortage: Shortage, blocks: u64) -> bool {
        self.credit_parts >= shortage.price_parts(blocks)
    }

    /// A record of so many blocks is written.
    pub(crate) fn spend(&mut self, shortage: Shortage, blocks: u64) {
        self.credit_parts = self.credit_parts.saturating_sub(shortage.price_parts(blocks));
    }

    /// So many of a victim's live blocks were moved, which reclaims their share of its garbage.
    pub(crate) fn earn(&mut self, moved_blocks: u64, garbage_blocks: u64, live_blocks: u64) {
        let earned_parts = moved_blocks * garbage_blocks * WHOLE / live_blocks.max(1);
        self.credit_parts = (self.credit_parts + earned_parts).min(CREDIT_BLOCKS_MAX * WHOLE);
    }
}

impl State {
    /// How short room is now.
    pub(crate) fn shortage(&self) -> Shortage {
        Shortage::at(self.ahead_segments(), self.space.segment_count())
    }

    /// Segments ahead above the high mark, and missing below it.
    pub(crate) fn distance_to_cleaning(&self) -> (usize, usize) {
        let (ahead, mark) = (self.ahead_segments(), high_mark(self.space.segment_count()));
        (ahead.saturating_sub(mark), mark.saturating_sub(ahead))
    }

    fn ahead_segments(&self) -> usize {
        self.space.supply_segments() + self.space.runway_segments(Kind::User)
    }

    /// Whether a client's record of so many blocks may be written now. If nothing can be cleaned,
    /// waiting would not help.
    pub(crate) fn may_write(&self, shortage: Shortage, blocks: u64) -> bool {
        self.pace.admits(shortage, blocks) || !self.can_clean()
    }

    fn can_clean(&self) -> bool {
        self.space.room_to_move_blocks() > 0 && self.space.has_victim(self.applied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_rises_smoothly_from_nothing_to_two() {
        let price_parts = |ahead| Shortage::at(ahead, 1024).price_parts(1);
        assert_eq!([35, 36, 1000].map(price_parts), [0; 3]);
        assert_eq!([0, 1, 3].map(price_parts), [2 * WHOLE; 3]);
        assert_eq!(price_parts(19), WHOLE);
        assert!((3..35).all(|ahead| price_parts(ahead) - price_parts(ahead + 1) == WHOLE / 16));
    }

    #[test]
    fn a_record_waits_for_what_it_costs_and_no_longer() {
        let (short, plenty) = (Shortage::at(0, 100), Shortage::at(50, 100));
        let mut pace = Pace::default();
        assert!(pace.admits(plenty, 257));
        assert!(!pace.admits(short, 1));
        // Half of a victim with 60 live and 40 dead blocks: 20 reclaimed, 10 written.
        pace.earn(30, 40, 60);
        assert!(pace.admits(short, 10));
        assert!(!pace.admits(short, 11));
        pace.spend(short, 10);
        assert!(!pace.admits(short, 1));
    }

    #[test]
    fn credit_is_bounded_but_enough_for_the_longest_record() {
        let mut pace = Pace::default();
        (0..100).for_each(|_| pace.earn(1000, 1 << 18, 1));
        let short = Shortage::at(0, 100);
        assert!(pace.admits(short, 1 + DATA_BLOCKS_MAX as u64));
        assert!(!pace.admits(short, 3 * DATA_BLOCKS_MAX as u64));
    }
}
