//! An empty record behind the last one, while the log rests.
//!
//! ```text
//! | record 7 | record 8 | 9, empty |      9 says that 8 was durable, and repeats its header
//! ```
//!
//! What a record's header says stands once more in the next one, which also says up to where the
//! log was durable. Behind the last record there is no next one: were its header damaged while the
//! store rests, nobody could tell that from a write that a power cut took back. So whoever has the
//! store open asks for an empty record when nobody has written for a while.

use crate::drive::Drive;
use crate::error::StoreError;
use crate::store::Store;

impl<D: Drive> Store<D> {
    /// Says in the log that its last record is durable, unless a later record does, or others are
    /// on their way. Meant for a store that rests: it costs a block, and a flush.
    ///
    /// # Errors
    /// [`StoreError::Halted`] if the drives cannot do it.
    pub async fn mark_tail(&self) -> Result<(), StoreError> {
        self.check_running()?;
        if !self.is_tail_unmarked() {
            return Ok(());
        }
        self.wants_mark.set(true);
        self.changed.notify();
        let is_over = || {
            let state = self.state.borrow();
            let is_written = !self.wants_mark.get() && state.applied == state.claimed;
            (is_written || state.halted.is_some()).then_some(())
        };
        self.changed.until(is_over).await;
        // Without room for a record there is a checkpoint, which says it as well.
        if self.is_tail_unmarked() { self.checkpoint().await } else { self.flush().await }
    }

    fn is_tail_unmarked(&self) -> bool {
        let state = self.state.borrow();
        let is_at_rest = state.applied == state.claimed && self.queue.borrow().is_empty();
        is_at_rest && state.said_durable < state.last_change && state.last_change <= state.durable
    }
}
