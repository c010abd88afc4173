//! A record of the journal: an extent has moved.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 4 | the extent |
//! | 52 | 4 | the place that it left: tier in the upper 3 bits, slot in the others |
//! | 56 | 4 | the place where it is now |
//! | 60 | 4 | zeroes |
//! | 64 | 8 | the generation of the opening whose owner wrote it: its term |
//! | 72 | 4024 | zeroes |
//!
//! Each record is a block of its own, so that writing one touches no other, and stands twice, side
//! by side, so that a sector that goes bad takes no move back.

use super::Block;
use crate::notes::block::{
    BlockKind, Label, NUMBER_END, VolumeId, label, put_u32, put_u64, seal, u32_at, u64_at,
};
use crate::tiers::map::Place;

const TERM: usize = 64;

/// One move. Records are numbered from 1 in the order of the moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tiers) struct Record {
    pub(in crate::tiers) sequence: u64,
    /// Whose it is.
    pub(in crate::tiers) term: u64,
    pub(in crate::tiers) extent: u32,
    pub(in crate::tiers) from: Place,
    pub(in crate::tiers) to: Place,
}

impl Record {
    /// The record in a block that was read at this offset; none if it is no record of this volume,
    /// or belongs elsewhere.
    pub(in crate::tiers) fn decode(volume: VolumeId, offset: u64, block: &Block) -> Option<Self> {
        let label = label(BlockKind::Journal, block).ok()?;
        let term = u64_at(block, TERM);
        let is_ours = label.volume == volume && label.offset == offset && term < NUMBER_END;
        is_ours.then(|| Self {
            sequence: label.number,
            term,
            extent: u32_at(block, 48),
            from: Place::from_bits(u32_at(block, 52)),
            to: Place::from_bits(u32_at(block, 56)),
        })
    }

    /// Makes the block for this offset.
    pub(in crate::tiers) fn encode(&self, volume: VolumeId, offset: u64, block: &mut Block) {
        block.fill(0);
        put_u32(block, 48, self.extent);
        put_u32(block, 52, self.from.to_bits());
        put_u32(block, 56, self.to.to_bits());
        put_u64(block, TERM, self.term);
        seal(BlockKind::Journal, &Label { volume, number: self.sequence, offset }, block);
    }
}
