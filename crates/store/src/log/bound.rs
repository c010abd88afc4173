//! What a replay would have to read is bounded: the store flushes by itself.
//!
//! ```text
//! durable          applied
//!    |---- work ------|            work >= bound: a flush begins, and clients go on
//!    |                             work >= 2 * bound: nobody writes until it has ended
//!    +- as the next record says, so that a replay believes what is before it
//! ```
//!
//! Of a record that is not known to be durable, a replay reads all data, on every copy. Clients
//! that never flush would make that everything since the last checkpoint. So there is a bound on
//! the *work* of such a replay: the blocks of those records, and some blocks more for each record,
//! since a small read takes a drive as long as a longer one.
//!
//! No acknowledgement waits for such a flush below the second mark, and none promises anything.

use std::future::pending;

use crate::drive::Drive;
use crate::state::State;
use crate::store::{Store, Tuning};
use crate::units::BLOCK_BYTES_U64;

/// Blocks that a drive could read in the time that one more read takes.
const RECORD_COST_BLOCKS: u64 = 8;

/// What a replay would have to read, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Of all records that are in the map.
    pub(crate) applied_blocks: u64,
    /// Of all that are known to be durable.
    pub(crate) durable_blocks: u64,
}

impl Work {
    /// A record of so many blocks, header included, is in the map.
    pub(crate) fn apply(&mut self, record_blocks: u64) {
        self.applied_blocks += record_blocks + RECORD_COST_BLOCKS;
    }

    /// What was applied when a flush began is durable.
    pub(crate) fn settle(&mut self, applied_blocks: u64) {
        self.durable_blocks = self.durable_blocks.max(applied_blocks);
    }

    fn blocks(&self) -> u64 {
        self.applied_blocks - self.durable_blocks
    }
}

impl State {
    /// Whether so much would have to be read that a flush is due.
    fn is_flush_due(&self, tuning: &Tuning) -> bool {
        self.work.blocks() * BLOCK_BYTES_U64 >= tuning.volatile_bytes.max(1)
    }

    /// Whether so much would have to be read that nobody may add to it.
    pub(crate) fn is_flush_overdue(&self, tuning: &Tuning) -> bool {
        self.work.blocks() * BLOCK_BYTES_U64 / 2 >= tuning.volatile_bytes.max(1)
    }
}

impl<D: Drive> Store<D> {
    /// Flushes whenever it is due, until the store stops.
    pub(crate) async fn keep_durable<T>(&self) -> T {
        loop {
            let is_due = || {
                let state = self.state.borrow();
                (state.halted.is_some() || state.is_flush_due(&self.tuning)).then_some(())
            };
            self.changed.until(is_due).await;
            if self.flush().await.is_err() {
                return pending().await;
            }
            self.changed.notify();
        }
    }

    /// Waits until records of the cleaner may be written.
    pub(crate) async fn until_durable_enough(&self) {
        let may_write = || {
            let state = self.state.borrow();
            (state.halted.is_some() || !state.is_flush_overdue(&self.tuning)).then_some(())
        };
        self.changed.until(may_write).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_what_was_applied_since_the_last_flush_began() {
        let mut work = Work::default();
        work.apply(2);
        let begun = work.applied_blocks;
        work.apply(257);
        work.settle(begun);
        assert_eq!(work.blocks(), 257 + RECORD_COST_BLOCKS);
        work.settle(0);
        assert_eq!(work.blocks(), 257 + RECORD_COST_BLOCKS, "an older flush ends later");
    }
}
