//! How far the notes of a volume have got: which record comes next, and which map they start from.
//!
//! The journal is a ring. A map is written anew, into the area that the last one is not in, as soon
//! as half of the ring has been filled since; so the ring always has every record since the map
//! before the last, and a map that turns out to be damaged costs nothing but time.
//!
//! An owner notes in one half of the places that there are, and writes its term, the generation of
//! its opening, into every block: what an owner before writes late lies elsewhere, or is known to
//! be older.
//!
//! ```text
//! ring of 8:      | 9 | 10 | 11 | 12 | 5 | 6 | 7 | 8 |     next: 13
//!                                        newest map has all up to 8, the other one up to 4
//! ```

use super::format::checkpoint::{self, CheckpointHead};
use super::format::journal::Record;
use super::format::{BLOCK, BLOCK_BYTES, Block, PLACES_PER_BLOCK, VolumeId};
use super::layout::{COPIES, Layout};
use super::map::{Place, TierMap};
use crate::lease::Half;

/// Where the notes stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    volume: VolumeId,
    half: Half,
    /// What is written has this term.
    term: u64,
    /// The sequence number of the next record.
    next: u64,
    checkpoint: Checkpoint,
}

/// A map on the fastest tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// Counts the maps that were written.
    pub(super) number: u64,
    /// Which area it is in.
    pub(super) area: u32,
    /// The last move that it has in it.
    pub(super) sequence: u64,
    /// The term of who wrote it.
    pub(super) term: u64,
}

impl Journal {
    /// The notes of a volume, from now on in this half and with this term; the last record, if
    /// there is any behind the map, is `last`.
    pub(super) fn new(
        volume: VolumeId,
        (half, term): (Half, u64),
        last: u64,
        checkpoint: Checkpoint,
    ) -> Self {
        Self { volume, half, term, next: last + 1, checkpoint }
    }

    /// The volume that they are of.
    pub(crate) fn volume(&self) -> VolumeId {
        self.volume
    }

    /// The sequence number of the last record.
    pub(crate) fn last(&self) -> u64 {
        self.next - 1
    }

    /// Whether a map must be written before the next record.
    pub(crate) fn needs_checkpoint(&self, layout: &Layout) -> bool {
        self.next - 1 - self.checkpoint.sequence >= u64::from(layout.journal_records / 2)
    }

    /// Makes the next record, both copies; returns where it goes on the fastest tier.
    pub(crate) fn write_record(
        &self,
        layout: &Layout,
        extent: u32,
        [from, to]: [Place; 2],
        bytes: &mut Vec<u8>,
    ) -> u64 {
        let record = Record { sequence: self.next, term: self.term, extent, from, to };
        let start = layout.record_offset(self.half, self.next);
        bytes.clear();
        for copy in 0..COPIES as u64 {
            push_block(bytes, |block| {
                record.encode(self.volume, start + copy * BLOCK_BYTES, block);
            });
        }
        start
    }

    /// The record that was made last is durable.
    pub(crate) fn record_is_durable(&mut self) {
        self.next += 1;
    }

    /// Makes up to `blocks_max` blocks of the next map from block `first` on; returns where they
    /// go on the fastest tier. No bytes are left to write once `first` is past the last block.
    pub(crate) fn write_checkpoint(
        &self,
        layout: &Layout,
        map: &TierMap,
        (first, blocks_max): (u32, u32),
        bytes: &mut Vec<u8>,
    ) -> u64 {
        let following = self.following();
        let start = layout.checkpoint_offset(self.half, following.area);
        let end = map.extents().div_ceil(PLACES_PER_BLOCK).min(first.saturating_add(blocks_max));
        bytes.clear();
        for index in first..end {
            let places = map.places_from(index * PLACES_PER_BLOCK).take(PLACES_PER_BLOCK as usize);
            let Checkpoint { number, sequence, .. } = following;
            let head = CheckpointHead { number, sequence, term: self.term, index };
            let offset = start + u64::from(index) * BLOCK_BYTES;
            push_block(bytes, |block| {
                checkpoint::encode(self.volume, offset, &head, places, block);
            });
        }
        start + u64::from(first) * BLOCK_BYTES
    }

    /// The map whose blocks were made last is durable, all of it.
    pub(crate) fn checkpoint_is_durable(&mut self) {
        self.checkpoint = self.following();
    }

    /// What the next map will be called.
    fn following(&self) -> Checkpoint {
        Checkpoint {
            number: self.checkpoint.number + 1,
            area: 1 - self.checkpoint.area,
            sequence: self.next - 1,
            term: self.term,
        }
    }
}

fn push_block(bytes: &mut Vec<u8>, fill: impl FnOnce(&mut Block)) {
    let start = bytes.len();
    bytes.resize(start + BLOCK, 0);
    let block = bytes.last_chunk_mut::<BLOCK>();
    fill(block.expect("a block was just added"));
}
