//! What lies in the slots of a server. Of blocks of the table that list nothing, nothing is kept.

use super::format::table::Entry;
use super::free::FreeSlots;
use super::layout::ENTRIES_PER_BLOCK;
use super::volume::Latest;

/// The entries of a block of a table.
pub(super) type Entries = [Option<Entry>; ENTRIES_PER_BLOCK as usize];

const NOTHING: Entries = [None; ENTRIES_PER_BLOCK as usize];

/// The table of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// By block; none where nothing was ever entered.
    blocks: Vec<Option<Box<Entries>>>,
    /// By block.
    pub(super) latest: Vec<Latest>,
    /// Slots that may be taken.
    pub(super) free: FreeSlots,
}

impl Table {
    /// A table of nothing.
    pub(super) fn new(slots: u32) -> Self {
        let blocks = slots.div_ceil(ENTRIES_PER_BLOCK) as usize;
        Self {
            blocks: vec![None; blocks],
            latest: vec![Latest::default(); blocks],
            free: FreeSlots::all(slots),
        }
    }

    /// What lies in a slot.
    #[cfg(test)]
    pub(super) fn entry(&self, slot: u32) -> Option<Entry> {
        self.entries(slot / ENTRIES_PER_BLOCK)[(slot % ENTRIES_PER_BLOCK) as usize]
    }

    /// This lies in a slot from now on.
    pub(super) fn enter(&mut self, slot: u32, entry: Option<Entry>) {
        let block = &mut self.blocks[(slot / ENTRIES_PER_BLOCK) as usize];
        if block.is_none() && entry.is_none() {
            return;
        }
        let block = block.get_or_insert_with(|| Box::new(NOTHING));
        block[(slot % ENTRIES_PER_BLOCK) as usize] = entry;
    }

    /// The entries of a block.
    pub(super) fn entries(&self, block: u32) -> &Entries {
        self.blocks[block as usize].as_deref().unwrap_or(&NOTHING)
    }

    /// Takes a block as it was read.
    pub(super) fn load(&mut self, block: u32, entries: Box<Entries>) {
        self.blocks[block as usize] = Some(entries);
    }
}
