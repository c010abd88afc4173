//! A block of a server's table: which objects lie in 252 of its slots.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 8 | generation of the volume when it was written |
//! | 56 | 4 | which block of the table, from 0 |
//! | 60 | 4 | zero |
//! | 64 | 4032 | 252 entries of 16 bytes |
//!
//! An **entry** is the object (4 bytes), four zeroes, and the number of its placing (8 bytes),
//! which counts over the whole volume from 1; it is zero for a slot that holds nothing. Should two
//! slots claim an object, the greater number tells which is the later one.

use std::num::NonZeroU64;

use super::super::layout::ENTRIES_PER_BLOCK;
use crate::notes::VolumeId;
use crate::notes::block::{
    Block, BlockKind, Label, NUMBER_END, label, put_u32, put_u64, seal, u32_at, u64_at,
};

const ENTRIES: usize = 64;
const ENTRY_BYTES: usize = 16;

/// What lies in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::spread) struct Entry {
    pub(in crate::spread) object: u32,
    pub(in crate::spread) sequence: NonZeroU64,
}

impl Entry {
    /// The entry of a placing; none if its number is zero.
    pub(in crate::spread) fn new(object: u32, sequence: u64) -> Option<Self> {
        Some(Self { object, sequence: NonZeroU64::new(sequence)? })
    }
}

/// What the block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::spread) struct TablePart {
    /// Counts the writes of this block.
    pub(in crate::spread) number: u64,
    pub(in crate::spread) generation: u64,
    pub(in crate::spread) index: u32,
    /// By slot.
    pub(in crate::spread) entries: Box<[Option<Entry>; ENTRIES_PER_BLOCK as usize]>,
}

impl TablePart {
    /// What a block says that was read at this offset; none if it is no such block of this volume.
    pub(in crate::spread) fn decode(volume: VolumeId, offset: u64, block: &Block) -> Option<Self> {
        let label = label(BlockKind::Table, block).ok()?;
        if label.volume != volume || label.offset != offset || u32_at(block, 60) != 0 {
            return None;
        }
        let at = |index: u32| ENTRIES + index as usize * ENTRY_BYTES;
        let is_sound = |index: u32| {
            let (padding, sequence) = (u32_at(block, at(index) + 4), u64_at(block, at(index) + 8));
            padding == 0 && sequence < NUMBER_END && (sequence > 0 || u32_at(block, at(index)) == 0)
        };
        if !(0..ENTRIES_PER_BLOCK).all(is_sound) {
            return None;
        }
        let mut entries = Box::new([None; ENTRIES_PER_BLOCK as usize]);
        for (index, entry) in (0..).zip(entries.iter_mut()) {
            *entry = Entry::new(u32_at(block, at(index)), u64_at(block, at(index) + 8));
        }
        Some(Self {
            number: label.number,
            generation: u64_at(block, 48),
            index: u32_at(block, 56),
            entries,
        })
    }

    /// Makes the block for this offset.
    pub(in crate::spread) fn encode(&self, volume: VolumeId, offset: u64, block: &mut Block) {
        block.fill(0);
        put_u64(block, 48, self.generation);
        put_u32(block, 56, self.index);
        for (index, entry) in self.entries.iter().enumerate() {
            if let Some(Entry { object, sequence }) = entry {
                put_u32(block, ENTRIES + index * ENTRY_BYTES, *object);
                put_u64(block, ENTRIES + index * ENTRY_BYTES + 8, sequence.get());
            }
        }
        seal(BlockKind::Table, &Label { volume, number: self.number, offset }, block);
    }
}
