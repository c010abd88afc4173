//! Housekeeping: one task that makes checkpoints, mends bad copies and cleans, one thing at a time.
//!
//! Cleaning reads what is alive in a victim and writes it again, to segments of the cleaner's own.
//! Separate segments keep data that lasts apart from data that is about to be overwritten, which
//! is worth more than any choice of victims (15 to 50 % fewer copies on skewed loads).

mod find;
mod gather;
mod pace;
mod relocate;
mod turn;

pub(crate) use pace::Pace;
pub(crate) use turn::Turns;
pub use turn::{Attendance, Chore, ChoreKind};

use crate::drive::Drive;
use crate::state::State;
use crate::store::{Store, Tuning};
use crate::sync::yield_now;
use crate::units::{SegmentId, VolumeId};

/// What housekeeping does next.
#[derive(Debug)]
enum Task {
    Stop,
    Checkpoint { wanted: u64 },
    TakeApart,
    Mend(Vec<(VolumeId, u64)>),
    Clean(SegmentId),
}

/// Of a segment that is cleaned in advance, at least: with less, waiting pays.
const GARBAGE_IN_ADVANCE_PERCENT: u32 = 15;

/// Blocks that are mended at once; a record has room for more.
const MEND_BLOCKS_MAX: usize = 64;

/// Leaves of deleted volumes that are taken apart at once.
const TAKE_APART_LEAVES: usize = 16;

impl<D: Drive> Store<D> {
    /// Does what is due until the store stops.
    pub(crate) async fn maintain(&self) {
        let mut is_after_checkpoint = false;
        loop {
            let task = self.changed.until(|| self.next_task(is_after_checkpoint)).await;
            is_after_checkpoint = matches!(task, Task::Checkpoint { .. });
            match task {
                Task::Stop => return std::future::pending().await,
                Task::Checkpoint { wanted } => {
                    self.make_checkpoint().await;
                    self.made_checkpoints.set(wanted);
                }
                Task::TakeApart => self.take_apart(),
                Task::Mend(blocks) => self.mend(blocks).await,
                Task::Clean(segment) => self.clean(segment).await,
            }
            self.changed.notify();
            yield_now().await;
        }
    }

    /// Takes a little of the deleted volumes and snapshots apart.
    fn take_apart(&self) {
        let state = &mut *self.state.borrow_mut();
        state.map.take_apart(TAKE_APART_LEAVES, |replaced| state.space.lose(replaced));
    }

    /// Whether a checkpoint is due, or was asked for.
    fn is_checkpoint_wanted(&self) -> bool {
        let is_asked_for = self.wanted_checkpoints.get() > self.made_checkpoints.get();
        is_asked_for || self.state.borrow().is_checkpoint_due()
    }

    /// What is due, the most urgent first. Cleaning and checkpoints that were asked for take turns.
    fn next_task(&self, is_after_checkpoint: bool) -> Option<Task> {
        let wanted = self.wanted_checkpoints.get();
        let state = self.state.borrow();
        if state.halted.is_some() {
            return Some(Task::Stop);
        }
        if state.is_checkpoint_due() {
            return Some(Task::Checkpoint { wanted });
        }
        let checkpoint =
            (wanted > self.made_checkpoints.get()).then_some(Task::Checkpoint { wanted });
        if is_after_checkpoint {
            state.next_chore(&self.tuning).or(checkpoint)
        } else {
            checkpoint.or_else(|| state.next_chore(&self.tuning))
        }
    }
}

impl State {
    /// What should be mended or cleaned.
    fn next_chore(&self, tuning: &Tuning) -> Option<Task> {
        if self.map.is_any_condemned() {
            return Some(Task::TakeApart);
        }
        let room_blocks = self.space.room_to_move_blocks();
        if room_blocks == 0 {
            return None;
        }
        if !self.mending.is_empty()
            && let Some(task) = self.next_mending(room_blocks)
        {
            return Some(task);
        }
        if self.shortage().is_any() || self.space.is_thin() {
            return self.space.victim(self.applied).map(Task::Clean);
        }
        self.victim_in_advance(tuning).map(Task::Clean)
    }

    /// Mending, or cleaning for its sake: it takes room, and gives none back at once. A store that
    /// has been full for long has no more room than it keeps ready for writers, and nobody may be
    /// writing.
    fn next_mending(&self, room_blocks: usize) -> Option<Task> {
        if self.space.supply_segments() == 0 {
            return self.victim_worth_it().map(Task::Clean);
        }
        // No more than fit one record: what found no room would be forgotten.
        let count = MEND_BLOCKS_MAX.min(room_blocks);
        Some(Task::Mend(self.mending.iter().copied().take(count).collect()))
    }

    /// What to clean before room is short, if that is wanted and worth it.
    fn victim_in_advance(&self, tuning: &Tuning) -> Option<SegmentId> {
        let wanted = self.space.segment_count() * usize::from(tuning.clean_ahead_percent) / 100;
        if self.space.supply_segments() >= wanted { None } else { self.victim_worth_it() }
    }

    /// The best victim, if enough of it is dead.
    fn victim_worth_it(&self) -> Option<SegmentId> {
        let segment_blocks = self.space.segment_blocks();
        let live_max = segment_blocks - segment_blocks * GARBAGE_IN_ADVANCE_PERCENT / 100;
        self.space.victim(self.applied).filter(|&segment| self.space.live(segment) <= live_max)
    }
}
