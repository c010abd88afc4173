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

use std::collections::BTreeSet;

use crate::buffer::Buffer;
use crate::chain::Failure;
use crate::drive::Drive;
use crate::format::checkpoint::{ChunkWriter, Item, Root, SegmentRow};
use crate::format::record::Kind;
use crate::format::superblock::CheckpointPlace;
use crate::format::volume::VolumeRow;
use crate::map::{Map, MapRow};
use crate::rules::Rule;
use crate::state::State;
use crate::store::Store;
use crate::units::{BLOCK_BYTES_U64, Mount, Slot};

/// Chunks are written together once they are so many bytes: every write takes the tail's drive away
/// from its place, and back.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes of log that are provided for each byte of a large checkpoint. The next one is made when
/// half of it is used up, so that checkpoints are a thirty-second of what is written.
const LOG_PER_CHECKPOINT: u64 = 64;

/// What a checkpoint says, as of one instant.
struct Moment {
    map: Map,
    root: Root,
    moved_applied: u64,
    work_blocks: u64,
    segments: Vec<SegmentRow>,
    volumes: Vec<VolumeRow>,
    mount: Mount,
    number: u64,
    area: u8,
    /// Slots that were freed, and are not in use again.
    released: Vec<Slot>,
    drops: u64,
}

/// Segments that a checkpoint provides for writing until the next one.
///
/// The more there are, the rarer checkpoints need to be, and the longer a replay takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runway {
    pub(crate) user: usize,
    pub(crate) moved: usize,
}

impl Runway {
    /// Segments of the cleaner that every checkpoint provides before clients get any.
    pub(crate) const MOVED_MIN: usize = 2;

    /// For a store of so many segments, of which clients' records may fill so many before the next
    /// checkpoint.
    fn of(segments: usize, log_segments: usize) -> Self {
        Self {
            user: (segments / 8).clamp(1, 128).min(log_segments.max(1)),
            moved: (segments / 16).clamp(1, 64).min(log_segments / 2).max(Self::MOVED_MIN),
        }
    }
}

impl<D: Drive> Store<D> {
    /// Makes a checkpoint. If a drive drops out meanwhile, begins anew; if the store stops, gives
    /// up.
    pub(crate) async fn make_checkpoint(&self) {
        while self.check_running().is_ok() {
            let moment = self.moment();
            if !self.state.borrow().rules.hold(Rule::ResetAfterCheckpoint) {
                self.discard(&moment.released).await;
            }
            if self.write_checkpoint(&moment).await {
                self.discard(&moment.released).await;
                let mut state = self.state.borrow_mut();
                state.space.publish();
                state.space.cover(&moment.segments);
                state.durable = state.durable.max(moment.root.lsn);
                state.said_durable = state.said_durable.max(moment.root.lsn);
                state.moved_durable = state.moved_durable.max(moment.moved_applied);
                state.work.settle(moment.work_blocks);
                state.counters.checkpoints += 1;
                if state.space.thin_segments() == 0 && state.mending.is_empty() {
                    self.rescued.borrow_mut().clear();
                }
                return;
            }
        }
    }

    fn moment(&self) -> Moment {
        let state = &mut *self.state.borrow_mut();
        let freed = state.space.release();
        state.stage_runway();
        if !state.rules.hold(Rule::DeferReuse) {
            state.space.publish();
        }
        let segments = state.space.rows();
        let in_use: BTreeSet<Slot> =
            segments.iter().flat_map(|row| row.copies.into_iter().flatten()).collect();
        let volumes: Vec<VolumeRow> =
            state.map.order().map(|volume| state.volumes[&volume]).collect();
        let root = Root {
            lsn: state.applied,
            moved_sequence: state.moved_sequence,
            next_generation: state.next_generation,
            next_volume: state.next_volume,
            segments: u32::try_from(segments.len()).expect("segments are bounded"),
            volumes: u32::try_from(volumes.len()).expect("volumes are bounded"),
        };
        Moment {
            map: state.map.clone(),
            root,
            moved_applied: state.moved_applied,
            work_blocks: state.work.applied_blocks,
            volumes,
            mount: state.mount,
            number: state.superblock.checkpoint.number + 1,
            area: 1 - state.superblock.checkpoint.area,
            released: freed.into_iter().filter(|slot| !in_use.contains(slot)).collect(),
            segments,
            drops: state.drops,
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

    async fn write_body(&self, moment: &Moment) -> (CheckpointPlace, Vec<Failure>) {
        let store = self.state.borrow().superblock.store;
        let mut writer = ChunkWriter::new(store, moment.mount, moment.number);
        let mut place =
            CheckpointPlace { number: moment.number, area: moment.area, chunks: 0, blocks: 0 };
        let mut failures = Vec::new();
        let mut chunks = Vec::new();
        for item in moment.items() {
            chunks.extend(writer.push(&item).unwrap_or_default());
            if chunks.len() >= WRITE_BYTES {
                failures.extend(self.write_chunks(&mut place, &std::mem::take(&mut chunks)).await);
            }
        }
        let (last, count) = writer.finish();
        chunks.extend(last);
        failures.extend(self.write_chunks(&mut place, &chunks).await);
        place.chunks = count;
        (place, failures)
    }

    async fn write_chunks(&self, place: &mut CheckpointPlace, chunks: &[u8]) -> Vec<Failure> {
        let start_bytes = place.blocks * BLOCK_BYTES_U64;
        place.blocks += chunks.len() as u64 / BLOCK_BYTES_U64;
        let area_blocks = self.state.borrow().superblock.area_blocks;
        assert!(place.blocks <= area_blocks, "an area holds the worst checkpoint");
        let chunks = Buffer::copy_of(chunks);
        let area = place.area;
        self.chain
            .write_everywhere(|member| member.layout.area_offset_bytes(area) + start_bytes, &chunks)
            .await
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

impl Moment {
    fn items(&self) -> impl Iterator<Item = Item> {
        let root = std::iter::once(Item::Root(self.root));
        let segments = self.segments.iter().copied().map(Item::Segment);
        let volumes = self.volumes.iter().copied().map(Item::Volume);
        let rows = self.map.rows().map(|row| match row {
            MapRow::Leaf(row) => Item::Leaf(row),
            MapRow::Share(row) => Item::Share(row),
        });
        root.chain(segments).chain(volumes).chain(rows)
    }
}

impl State {
    /// How much is provided: as much log as is wanted behind a checkpoint, or as much as makes a
    /// large checkpoint a small part of what is written. To load that takes its time as well.
    fn runway(&self) -> Runway {
        let checkpoint_bytes = self.superblock.checkpoint.blocks * BLOCK_BYTES_U64;
        let log_bytes = self.log_bytes.max(checkpoint_bytes * LOG_PER_CHECKPOINT);
        let segment_bytes = u64::from(self.space.segment_blocks()) * BLOCK_BYTES_U64;
        let log_segments = usize::try_from(log_bytes / segment_bytes).unwrap_or(usize::MAX);
        Runway::of(self.space.segment_count(), log_segments)
    }

    /// Stages what the runway lacks: a minimum for the cleaner first, which makes room for all.
    fn stage_runway(&mut self) {
        let runway = self.runway();
        for (kind, wanted) in [
            (Kind::Moved, Runway::MOVED_MIN),
            (Kind::User, runway.user),
            (Kind::Moved, runway.moved),
        ] {
            while self.space.runway_segments(kind) < wanted {
                let generation = self.fresh_generation();
                if !self.space.stage(kind, generation) {
                    return;
                }
            }
        }
    }

    /// Whether a checkpoint made now would provide segments that are needed.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        let runway = self.runway();
        let lacking = |kind, wanted: usize| wanted.saturating_sub(self.space.runway_segments(kind));
        let supply = self.space.supply_segments();
        // The cleaner's minimum is provided first; what is more is for clients. While room is short
        // a checkpoint for every segment would cost a tenth of the drive, so it waits until it
        // provides three times what is left.
        let left = self.space.runway_segments(Kind::User);
        let gain = supply.saturating_sub(lacking(Kind::Moved, Runway::MOVED_MIN));
        let is_for_clients = left <= runway.user / 2 && gain > 0 && gain >= 3 * left;
        let is_for_cleaner = self.space.runway_segments(Kind::Moved) == 0 && supply > 0;
        is_for_clients || is_for_cleaner
    }
}
