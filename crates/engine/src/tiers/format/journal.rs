//! A record of the journal: an extent has moved.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 4 | the extent |
//! | 52 | 4 | the place that it left: tier in the upper 3 bits, slot in the others |
//! | 56 | 4 | the place where it is now |
//! | 60 | 4036 | zeroes |
//!
//! Each record is a block of its own, so that writing one touches no other, and stands twice, side
//! by side, so that a sector that goes bad takes no move back.

use super::Block;
use crate::notes::block::{BlockKind, Label, VolumeId, label, put_u32, seal, u32_at};
use crate::tiers::map::Place;

/// One move. Records are numbered from 1 in the order of the moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tiers) struct Record {
    pub(in crate::tiers) sequence: u64,
    pub(in crate::tiers) extent: u32,
    pub(in crate::tiers) from: Place,
    pub(in crate::tiers) to: Place,
}

impl Record {
    /// The record in a block that was read at this offset; none if it is no record of this volume,
    /// or belongs elsewhere.
    pub(in crate::tiers) fn decode(volume: VolumeId, offset: u64, block: &Block) -> Option<Self> {
        let label = label(BlockKind::Journal, block).ok()?;
        (label.volume == volume && label.offset == offset).then(|| Self {
            sequence: label.number,
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
        seal(BlockKind::Journal, &Label { volume, number: self.sequence, offset }, block);
    }
}
