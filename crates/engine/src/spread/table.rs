//! What lies in the slots of a server. Of blocks of the table that list nothing, nothing is kept.

use super::format::table::Entry;
use super::free::FreeSlots;
use super::layout::ENTRIES_PER_BLOCK;
use super::volume::Latest;
use crate::lease::Half;

/// The entries of a block of a table.
pub(super) type Entries = [Option<Entry>; ENTRIES_PER_BLOCK as usize];

static NOTHING: Entries = [None; ENTRIES_PER_BLOCK as usize];

/// A block of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    entries: Box<Entries>,
    /// The copy that was written last.
    latest: Latest,
}

/// The table of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// None where nothing was ever entered.
    blocks: Vec<Option<Box<Block>>>,
    /// Where blocks are written that were not.
    half: Half,
    /// Slots that may be taken.
    pub(super) free: FreeSlots,
}

impl Table {
    /// A table of nothing.
    pub(super) fn new(slots: u32, half: Half) -> Self {
        let blocks = slots.div_ceil(ENTRIES_PER_BLOCK) as usize;
        Self { blocks: vec![None; blocks], half, free: FreeSlots::all(slots) }
    }

    /// What lies in a slot.
    #[cfg(test)]
    pub(super) fn entry(&self, slot: u32) -> Option<Entry> {
        self.entries(slot / ENTRIES_PER_BLOCK)[(slot % ENTRIES_PER_BLOCK) as usize]
    }

    /// This lies in a slot from now on.
    pub(super) fn enter(&mut self, slot: u32, entry: Option<Entry>) {
        let block = slot / ENTRIES_PER_BLOCK;
        if self.blocks[block as usize].is_none() && entry.is_none() {
            return;
        }
        self.block(block).entries[(slot % ENTRIES_PER_BLOCK) as usize] = entry;
    }

    /// The entries of a block.
    pub(super) fn entries(&self, block: u32) -> &Entries {
        self.blocks[block as usize].as_ref().map_or(&NOTHING, |block| &block.entries)
    }

    /// The copy of a block that was written last.
    pub(super) fn latest(&self, block: u32) -> Latest {
        let none = || Latest::none(self.half);
        self.blocks[block as usize].as_ref().map_or_else(none, |block| block.latest)
    }

    /// The same, to be changed.
    pub(super) fn latest_mut(&mut self, block: u32) -> &mut Latest {
        &mut self.block(block).latest
    }

    /// Takes a block as it was read.
    pub(super) fn load(&mut self, block: u32, entries: Box<Entries>, latest: Latest) {
        self.blocks[block as usize] = Some(Box::new(Block { entries, latest }));
    }

    fn block(&mut self, block: u32) -> &mut Block {
        let none = Latest::none(self.half);
        let make = || Box::new(Block { entries: Box::new(NOTHING), latest: none });
        self.blocks[block as usize].get_or_insert_with(make)
    }
}
