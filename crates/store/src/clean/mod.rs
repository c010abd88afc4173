//! Housekeeping: one task that makes checkpoints, mends bad copies and cleans, one thing at a time.
//!
//! Cleaning reads what is alive in a victim and writes it again, to segments of the cleaner's own.
//! Separate segments keep data that lasts apart from data that is about to be overwritten, which
//! is worth more than any choice of victims (15 to 50 % fewer copies on skewed loads).

mod find;
mod relocate;

use crate::drive::Drive;
use crate::store::Store;
use crate::sync::yield_now;
use crate::units::{SegmentId, VolumeId};

/// What housekeeping does next.
#[derive(Debug)]
enum Task {
    Stop,
    Checkpoint { wanted: u64 },
    Mend(Vec<(VolumeId, u64)>),
    Clean(SegmentId),
}

/// Blocks that are mended at once.
const MEND_BLOCKS_MAX: usize = 64;

impl<D: Drive> Store<D> {
    /// Does what is due until the store stops.
    pub(crate) async fn maintain(&self) {
        loop {
            match self.changed.until(|| self.next_task()).await {
                Task::Stop => return std::future::pending().await,
                Task::Checkpoint { wanted } => {
                    self.make_checkpoint().await;
                    self.made_checkpoints.set(wanted);
                }
                Task::Mend(blocks) => self.mend(blocks).await,
                Task::Clean(segment) => self.clean(segment).await,
            }
            self.changed.notify();
            yield_now().await;
        }
    }

    fn next_task(&self) -> Option<Task> {
        let wanted = self.wanted_checkpoints.get();
        let state = self.state.borrow();
        if state.halted.is_some() {
            return Some(Task::Stop);
        }
        if state.is_checkpoint_due() {
            return Some(Task::Checkpoint { wanted });
        }
        let has_room = state.space.room_to_move_blocks() > 0;
        // Mending takes room and gives none back at once.
        if has_room && !state.mending.is_empty() && state.space.supply_segments() > 0 {
            return Some(Task::Mend(state.mending.iter().copied().take(MEND_BLOCKS_MAX).collect()));
        }
        if wanted > self.made_checkpoints.get() {
            return Some(Task::Checkpoint { wanted });
        }
        let is_due = state.is_cleaning_due() || state.space.is_thin();
        let victim = || state.space.victim(state.applied);
        if has_room && is_due { victim().map(Task::Clean) } else { None }
    }
}
