//! A page of the choices: for 16,128 objects, which of its candidates each is on.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 8 | generation of the volume when it was written |
//! | 56 | 4 | which page, from 0 |
//! | 60 | 4 | zero |
//! | 64 | 4032 | two bits per object, the first in the lowest: 0 for none, else the candidate + 1 |
//!
//! The label's number grows with every change of the page; all keepers count alike, so that the
//! greatest number is the last word.

use evenkeel_core::place::choices::PAGE_BYTES;

use crate::notes::VolumeId;
use crate::notes::block::{Block, BlockKind, Label, label, put_u32, put_u64, seal, u32_at, u64_at};

const BITS: usize = 64;

/// What the block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::spread) struct Page {
    pub(in crate::spread) number: u64,
    pub(in crate::spread) generation: u64,
    pub(in crate::spread) index: u32,
    pub(in crate::spread) bits: [u8; PAGE_BYTES],
}

impl Page {
    /// What a block says that was read at this offset; none if it is no such block of this volume.
    pub(in crate::spread) fn decode(volume: VolumeId, offset: u64, block: &Block) -> Option<Self> {
        let label = label(BlockKind::Choices, block).ok()?;
        let is_ours = label.volume == volume && label.offset == offset && u32_at(block, 60) == 0;
        is_ours.then(|| Self {
            number: label.number,
            generation: u64_at(block, 48),
            index: u32_at(block, 56),
            bits: std::array::from_fn(|index| block[BITS + index]),
        })
    }

    /// Makes the block for this offset.
    pub(in crate::spread) fn encode(&self, volume: VolumeId, offset: u64, block: &mut Block) {
        block.fill(0);
        put_u64(block, 48, self.generation);
        put_u32(block, 56, self.index);
        block[BITS..].copy_from_slice(&self.bits);
        seal(BlockKind::Choices, &Label { volume, number: self.number, offset }, block);
    }
}
