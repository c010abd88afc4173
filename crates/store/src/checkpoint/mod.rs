//! Making a checkpoint: the state at one LSN, durable on every drive, while clients go on.
//!
//! ```text
//! moment -> flush -> body -> flush -> superblock -> flush -> publish the new runway
//!    |          |                 |                     |
//!    |          |                 |                     +- from here on the old one is not needed
//!    |          |                 +- the superblock never names a body that is not there
//!    |          +- all that the moment refers to is durable
//!    +- the map is shared, not copied
//! ```
//!
//! The order is a commit rule. Recovery finds either the old checkpoint, with all that it refers to
//! untouched, or the new one.
//!
//! Most checkpoints are *increments*: their body is what has changed since the one before, and lies
//! behind it in the same area. Only when increments have come to half of the whole is the whole
//! state written, to the other area. So a checkpoint costs in proportion to what was written, and
//! not to what the store holds: about 15 bytes for each block that was moved or written alone, and
//! twice that for the whole that becomes due.

mod journal;
mod moment;
mod runway;

pub(crate) use journal::Journal;
pub(crate) use moment::Base;
pub(crate) use runway::Runway;

use crate::buffer::Buffer;
use crate::chain::{Failure, Member};
use crate::drive::Drive;
use crate::format::area::checkpoint_copies;
use crate::format::superblock::CheckpointPlace;
use crate::rules::Rule;
use crate::store::Store;
use crate::units::{BLOCK_BYTES_U64, Slot};
use moment::Moment;

/// Chunks are written together once they are so many bytes: every write takes the tail's drive away
/// from its place, and back.
const WRITE_BYTES: usize = 1 << 20;

impl<D: Drive> Store<D> {
    /// Makes a checkpoint, an increment if there is something to add it to. If a drive drops out
    /// meanwhile, begins anew; if the store stops, gives up.
    pub(crate) async fn make_checkpoint(&self) {
        while self.check_running().is_ok() {
            self.settle_unfinished().await;
            let moment = self.state.borrow_mut().moment();
            if !self.state.borrow().rules.hold(Rule::ResetAfterCheckpoint) {
                self.discard(&moment.released).await;
            }
            if self.write_checkpoint(&moment).await {
                self.discard(&moment.released).await;
                let mut state = self.state.borrow_mut();
                state.space.publish();
                state.adopt_checkpoint(&moment);
                if state.space.thin_segments() == 0 && state.mending.is_empty() {
                    self.rescued.borrow_mut().clear();
                }
                return;
            }
        }
    }

    /// Whoever ran the store may have stopped amid a checkpoint, and gone on. Which superblock is
    /// on the drives is not known then: it is written again, and a whole checkpoint follows.
    async fn settle_unfinished(&self) {
        if self.state.borrow().is_checkpoint_unfinished {
            self.state.borrow_mut().base = Base::default();
            self.repeat_superblock().await;
        }
    }

    /// Whether the checkpoint is durable.
    async fn write_checkpoint(&self, moment: &Moment) -> bool {
        if !self.is_done(moment, self.chain.flush(|_| true).await).await {
            return false;
        }
        let (place, failures) = self.write_body(moment).await;
        if !self.is_done(moment, failures).await {
            return false;
        }
        if self.state.borrow().rules.hold(Rule::CheckpointBarrier)
            && !self.is_done(moment, self.chain.flush(|_| true).await).await
        {
            return false;
        }
        let held = self.superblock.acquire().await;
        if self.state.borrow().drops != moment.drops {
            return false;
        }
        let failures = self.write_next_superblock(|next| {
            (next.checkpoint, next.mount) = (place, moment.mount);
        });
        let failures = failures.await;
        drop(held);
        // The superblock is durable on the drives that are left, or the store has stopped.
        self.fail_drives(failures).await;
        self.check_running().is_ok()
    }

    /// Whether a step was done by all drives that took part in the moment.
    async fn is_done(&self, moment: &Moment, failures: Vec<Failure>) -> bool {
        self.fail_drives(failures).await;
        self.check_running().is_ok() && self.state.borrow().drops == moment.drops
    }

    /// Writes what a moment says, in each place where it is to stand.
    async fn write_body(&self, moment: &Moment) -> (CheckpointPlace, Vec<Failure>) {
        let (mut place, mut failures) = self.write_items(moment, moment.place, 0).await;
        if moment.is_whole() {
            let area_blocks = self.state.borrow().superblock.area_blocks;
            place.copies =
                checkpoint_copies(self.chain.active().count(), place.blocks, area_blocks);
        }
        for copy in 1..place.copies {
            let begin = CheckpointPlace { copies: place.copies, ..moment.place };
            failures.extend(self.write_items(moment, begin, usize::from(copy)).await.1);
        }
        (place, failures)
    }

    async fn write_items(
        &self,
        moment: &Moment,
        begin: CheckpointPlace,
        copy: usize,
    ) -> (CheckpointPlace, Vec<Failure>) {
        let mut writer = moment.writer();
        let mut place = begin;
        let mut failures = Vec::new();
        let mut chunks = Vec::new();
        for item in moment.items() {
            chunks.extend(writer.push_encoded(&item).unwrap_or_default());
            if chunks.len() >= WRITE_BYTES {
                let some = std::mem::take(&mut chunks);
                failures.extend(self.write_chunks(&mut place, &some, copy).await);
            }
        }
        let (last, count) = writer.finish();
        chunks.extend(&last);
        failures.extend(self.write_chunks(&mut place, &chunks, copy).await);
        place.chunks = count;
        place.last_block = place.blocks - last.len() as u64 / BLOCK_BYTES_U64;
        (place, failures)
    }

    async fn write_chunks(
        &self,
        place: &mut CheckpointPlace,
        chunks: &[u8],
        copy: usize,
    ) -> Vec<Failure> {
        let at_block = place.blocks;
        place.blocks += chunks.len() as u64 / BLOCK_BYTES_U64;
        {
            let mut state = self.state.borrow_mut();
            let room_blocks = place.room_blocks(state.superblock.area_blocks);
            assert!(place.blocks <= room_blocks, "an area holds the largest checkpoint");
            state.counters.checkpoint_bytes += chunks.len() as u64;
        }
        let chunks = Buffer::copy_of(chunks);
        let offset = |member: &Member<D>| {
            let mut offsets = member.layout.chunk_offsets_bytes(place, at_block);
            offsets.nth(copy).expect("it stands so often")
        };
        self.chain.write_everywhere(offset, &chunks).await
    }

    /// Gives the room of freed slots back. That a drive cannot is no harm.
    async fn discard(&self, slots: &[Slot]) {
        for slot in slots {
            let member = &self.chain.members[slot.drive.index()];
            if member.is_active() {
                member.discard_slot(*slot).await;
            }
        }
    }
}
