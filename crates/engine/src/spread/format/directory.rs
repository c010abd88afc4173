//! A block of a server's directory: which of its other notes there are, a bit for each.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 8 | generation of the volume when it was written |
//! | 56 | 4 | which block of the directory, from 0 |
//! | 60 | 4 | zero |
//! | 64 | 4032 | a bit for each of 32,256 notes, the first in the lowest: 1 if it is there |
//!
//! Notes count from 0: the blocks of the server's table, then the pages of the choices. What is not
//! listed was never in force: a block of the table lists nothing, and of a page nothing is chosen.

use crate::notes::VolumeId;
use crate::notes::block::{Block, BlockKind, Label, label, put_u32, put_u64, seal, u32_at, u64_at};

const BITS: usize = 64;

/// Bytes of the bits of a block.
pub(in crate::spread) const BITS_BYTES: usize = 4096 - BITS;

/// Notes that a block tells of.
#[expect(clippy::cast_possible_truncation, reason = "some tens of thousands")]
pub(in crate::spread) const DIRECTORY_NOTES: u32 = BITS_BYTES as u32 * 8;

/// What the block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::spread) struct DirectoryPart {
    /// Counts the writes of this block.
    pub(in crate::spread) number: u64,
    pub(in crate::spread) generation: u64,
    pub(in crate::spread) index: u32,
    pub(in crate::spread) bits: Box<[u8; BITS_BYTES]>,
}

impl DirectoryPart {
    /// What a block says that was read at this offset; none if it is no such block of this volume.
    pub(in crate::spread) fn decode(volume: VolumeId, offset: u64, block: &Block) -> Option<Self> {
        let label = label(BlockKind::Directory, block).ok()?;
        let is_ours = label.volume == volume && label.offset == offset && u32_at(block, 60) == 0;
        is_ours.then(|| Self {
            number: label.number,
            generation: u64_at(block, 48),
            index: u32_at(block, 56),
            bits: Box::new(std::array::from_fn(|index| block[BITS + index])),
        })
    }

    /// Makes the block for this offset.
    pub(in crate::spread) fn encode(&self, volume: VolumeId, offset: u64, block: &mut Block) {
        block.fill(0);
        put_u64(block, 48, self.generation);
        put_u32(block, 56, self.index);
        block[BITS..].copy_from_slice(&*self.bits);
        seal(BlockKind::Directory, &Label { volume, number: self.number, offset }, block);
    }

    /// Whether a note is listed, by its number within the block.
    pub(in crate::spread) fn has(&self, bit: u32) -> bool {
        self.bits[bit as usize / 8] >> (bit % 8) & 1 == 1
    }

    /// Lists a note.
    pub(in crate::spread) fn insert(&mut self, bit: u32) {
        self.bits[bit as usize / 8] |= 1 << (bit % 8);
    }
}
