//! What the SSD has left: bytes written, a forecast, and a budget that bounds them.
//!
//! An SSD endures so many program and erase cycles of each cell. With writes that replace its
//! content in order the drive itself adds next to nothing, so that
//!
//! ```text
//! lifetime = capacity * cycles / bytes written per day
//! 32 GB * 10,000 cycles / 40 MB/s = 93 days; if memory absorbs 7 writes of 8, 741 days
//! ```
//!
//! The budget is a bucket of tokens, one for each byte, that fills at so many bytes a day and holds
//! an hour's worth. Blocks that were written lately may empty it, others only its upper half.
//!
//! Time is the caller's. If it stands still, the budget does not grow, and what was in the bucket
//! is all that is ever written: a missing clock cannot wear the SSD out.

use std::num::NonZeroU64;

use evenkeel_core::sched::bucket::Bucket;
use evenkeel_core::time::Nanos;

use crate::units::BLOCK_BYTES_U64;

const DAY_SECONDS: u64 = 86_400;
const DAY_NS: u128 = DAY_SECONDS as u128 * 1_000_000_000;

/// What an SSD can take, and how much of it may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endurance {
    /// Bytes that can be written in its life: capacity times cycles, which data sheets round down
    /// and call TBW. Zero if nobody said.
    pub endurance_bytes: u64,
    /// Bytes written before, by earlier mounts.
    pub written_before_bytes: u64,
    /// Bytes that may be written in a day; `None` for no bound.
    pub budget_bytes_per_day: Option<NonZeroU64>,
}

/// How worn an SSD is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WearReport {
    /// Bytes written since the store was opened.
    pub written_bytes: u64,
    /// Bytes written in the life of the cache drive.
    pub written_in_all_bytes: u64,
    /// Bytes that it can take in its life; zero if nobody said.
    pub endurance_bytes: u64,
    /// Days until the rest of these is used up, at the rate since the store was opened. `None` if
    /// nothing was written or no time has passed since then, or if the endurance is not known.
    pub lifetime_days: Option<u64>,
}

/// The books of an SSD. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Wear {
    endurance: Endurance,
    bucket: Option<Bucket>,
    reserve_bytes: u64,
    since: Nanos,
    written_bytes: u64,
}

impl Wear {
    pub(super) fn new(now: Nanos, endurance: Endurance) -> Self {
        let rate = endurance.budget_bytes_per_day.map(|budget| budget.get() / DAY_SECONDS);
        // A budget below a byte a second is none at all; it must not mean that there is no bound.
        let rate = rate.map(|rate| rate.max(1));
        let burst = rate.map_or(0, |rate| (rate * 3600).max(2 * BLOCK_BYTES_U64));
        Self {
            endurance,
            bucket: rate.and_then(|rate| Bucket::new(now, rate, burst)),
            reserve_bytes: burst / 2,
            since: now,
            written_bytes: 0,
        }
    }

    /// Whether the budget has room for so many blocks.
    pub(super) fn has_room(&mut self, now: Nanos, blocks: u32, are_young: bool) -> bool {
        let Some(bucket) = &mut self.bucket else { return true };
        let reserve = if are_young { 0 } else { self.reserve_bytes };
        bucket.ready_at(now, bytes(blocks) + reserve) <= now
    }

    /// So many blocks will be written.
    pub(super) fn spend(&mut self, now: Nanos, blocks: u32) {
        self.written_bytes += bytes(blocks);
        if let Some(bucket) = &mut self.bucket {
            bucket.take(now, bytes(blocks));
        }
    }

    pub(super) fn report(&self, now: Nanos) -> WearReport {
        let endurance = self.endurance;
        let endurance_bytes = endurance.endurance_bytes;
        let written_in_all_bytes = endurance.written_before_bytes + self.written_bytes;
        let left = u128::from(endurance_bytes.saturating_sub(written_in_all_bytes));
        let elapsed_ns = u128::from(now.since(self.since).0);
        let is_known = endurance_bytes > 0 && elapsed_ns > 0 && self.written_bytes > 0;
        let days = is_known.then(|| {
            // Bytes and nanoseconds both fit 64 bits, so that their product fits 128.
            left * elapsed_ns / u128::from(self.written_bytes) / DAY_NS
        });
        WearReport {
            written_bytes: self.written_bytes,
            written_in_all_bytes,
            endurance_bytes,
            lifetime_days: days.map(|days| u64::try_from(days).unwrap_or(u64::MAX)),
        }
    }
}

fn bytes(blocks: u32) -> u64 {
    u64::from(blocks) * BLOCK_BYTES_U64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    /// The figure of the published talk: 32 GB of MLC at 40 MB/s last 93 days.
    #[test]
    fn lifetime_is_capacity_by_cycles_over_the_rate_of_writes() {
        let endurance =
            Endurance { endurance_bytes: 32_000_000_000 * 10_000, ..Endurance::default() };
        let mut wear = Wear::new(at(5), endurance);
        assert_eq!(wear.report(at(9)).lifetime_days, None, "nothing was written");
        let blocks = 40_000_000 / BLOCK_BYTES_U64;
        (0..blocks).for_each(|_| wear.spend(at(5), 1));
        assert_eq!(wear.report(at(5)).lifetime_days, None, "no time has passed");
        assert_eq!(wear.report(at(6)).lifetime_days, Some(92), "92.6 days at 40 MB/s");
        assert_eq!(wear.report(at(13)).lifetime_days, Some(740), "an eighth of the rate");
        let worn = Endurance { written_before_bytes: 160_000_000_000_000, ..endurance };
        let mut wear = Wear::new(at(5), worn);
        (0..blocks).for_each(|_| wear.spend(at(5), 1));
        assert_eq!(wear.report(at(6)).lifetime_days, Some(46), "half of it is used up");
    }

    #[test]
    fn a_budget_bounds_what_is_written_in_a_day_and_keeps_half_of_its_hour_for_what_is_young() {
        let budget = 86_400 * BLOCK_BYTES_U64;
        let endurance =
            Endurance { budget_bytes_per_day: NonZeroU64::new(budget), ..Endurance::default() };
        let written = |are_young, seconds: u64| {
            let mut wear = Wear::new(at(0), endurance);
            for second in 0..seconds {
                while wear.has_room(at(second), 1, are_young) {
                    wear.spend(at(second), 1);
                }
            }
            wear.report(at(seconds)).written_bytes / BLOCK_BYTES_U64
        };
        assert_eq!(written(true, 1), 3600, "an hour's worth at once");
        assert_eq!(written(false, 1), 1800);
        assert_eq!(written(true, 86_400), 86_399 + 3600);
    }
}
