//! What a power cut has torn where it cannot be mended, moved elsewhere before the mount begins.
//!
//! Nothing is written over in a zone. A record of which a power cut has left one copy whole would
//! keep that one alone, and nobody would know after the next cut. So what is alive of it is written
//! anew, to segments that the mount's checkpoint is the first to name:
//!
//! ```text
//! copy | record | record | torn  | -      |      what is alive from here on ---> another segment
//! copy | record | record | whole | record |
//! ```
//!
//! Until that checkpoint is durable, the one before stands with all that it needs, and the same is
//! found again. From then on nothing alive is left behind the tear, and both copies count.
//!
//! Where there is no room for that yet, the torn copy is set apart, and the segment is cleaned
//! before any other.

use crate::drive::Drive;
use crate::format::record::Kind;
use crate::read::Run;
use crate::store::Store;
use crate::units::{Address, SegmentId};

/// Runs that are moved between two flushes: 16 MiB at most.
const RUNS_AT_ONCE: usize = 16;

impl<D: Drive> Store<D> {
    /// A copy of the record with its header at this address cannot be made whole.
    pub(super) fn note_torn(&self, segment: SegmentId, header: Address) {
        let mut torn = self.torn.borrow_mut();
        let first = torn.entry(segment).or_insert(header);
        *first = header.min(*first);
    }

    /// Moves what was noted, as far as there is room.
    pub(super) async fn move_torn(&self) {
        for (segment, header) in self.torn.take() {
            if self.move_behind(segment, header).await {
                self.state.borrow_mut().space.count_again(segment);
            }
        }
    }

    /// Moves what is alive in a segment behind an address; whether nothing is left there.
    async fn move_behind(&self, segment: SegmentId, header: Address) -> bool {
        loop {
            let mut live = self.live_blocks(segment).await;
            live.retain(|run| run.address > header);
            if live.is_empty() {
                return true;
            }
            let blocks = live.iter().flat_map(Run::blocks).collect::<Vec<_>>();
            live.truncate(RUNS_AT_ONCE);
            // Nobody else flushes yet, and the cleaner waits for that if it has moved much.
            let is_moved = self.provide_to_move()
                && self.relocate(live, |_| {}).await.is_ok()
                && self.flush().await.is_ok();
            if !is_moved {
                self.note_for_mending(blocks);
                return false;
            }
        }
    }

    /// Room for a record of what is moved, in a segment that no checkpoint needs.
    fn provide_to_move(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        if state.space.room_to_move_blocks() > 0 {
            return true;
        }
        let generation = state.fresh_generation();
        let is_staged = state.space.stage(Kind::Moved, generation);
        state.space.publish();
        is_staged
    }
}
