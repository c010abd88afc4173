//! A page of the choices: for 16,128 objects, which of its candidates each is on.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 8 | generation of the volume when it was written |
//! | 56 | 4 | which page, from 0 |
//! | 60 | 2 | the era of the servers that it is of |
//! | 62 | 2 | its last objects that are still placed by the era before: so many |
//! | 64 | 4032 | two bits per object, the first in the lowest: 0 for none, else the candidate + 1 |
//!
//! Both are zero as long as the servers have not changed, which is era 0. A page that says an
//! earlier era than the heads is all of that.
//!
//! The label's number grows with every change of the page; all keepers count alike, so that the
//! greatest number is the last word.

use evenkeel_core::place::choices::{PAGE_BYTES, PAGE_OBJECTS};

use crate::notes::VolumeId;
use crate::notes::block::{Block, BlockKind, Label, label, put_u32, put_u64, seal, u32_at, u64_at};

const BITS: usize = 64;

/// How far the objects of a page have passed to the servers of an era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::spread) struct Passed {
    pub(in crate::spread) era: u16,
    /// The last objects of the page that have not.
    pub(in crate::spread) left: u16,
}

/// What the block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::spread) struct Page {
    pub(in crate::spread) number: u64,
    pub(in crate::spread) generation: u64,
    pub(in crate::spread) index: u32,
    pub(in crate::spread) passed: Passed,
    pub(in crate::spread) bits: [u8; PAGE_BYTES],
}

impl Page {
    /// What a block says that was read at this offset; none if it is no such block of this volume.
    pub(in crate::spread) fn decode(volume: VolumeId, offset: u64, block: &Block) -> Option<Self> {
        let label = label(BlockKind::Choices, block).ok()?;
        let both = u32_at(block, 60);
        let [era, left] =
            [both & 0xffff, both >> 16].map(|part| u16::try_from(part).expect("half of it"));
        let is_ours = label.volume == volume && label.offset == offset;
        let is_ours = is_ours && u64::from(left) <= PAGE_OBJECTS;
        is_ours.then(|| Self {
            number: label.number,
            generation: u64_at(block, 48),
            index: u32_at(block, 56),
            passed: Passed { era, left },
            bits: std::array::from_fn(|index| block[BITS + index]),
        })
    }

    /// Makes the block for this offset.
    pub(in crate::spread) fn encode(&self, volume: VolumeId, offset: u64, block: &mut Block) {
        block.fill(0);
        put_u64(block, 48, self.generation);
        put_u32(block, 56, self.index);
        put_u32(block, 60, u32::from(self.passed.left) << 16 | u32::from(self.passed.era));
        block[BITS..].copy_from_slice(&self.bits);
        seal(BlockKind::Choices, &Label { volume, number: self.number, offset }, block);
    }
}
