//! The translation map: which slot holds a unit, which unit a slot holds, and how many units of a
//! block are still valid.
//!
//! A slot is valid if the map of units points at it; nothing else needs to be kept about it. What
//! was never written since the start is answered by the computed [`Layout`], so that only writes
//! take memory: a packed entry per unit written ([`SparseMap`]) and a table of owners per block
//! that was opened.

use super::geometry::{Block, Geometry, Slot, Unit};
use super::layout::Layout;
use super::sparse::SparseMap;

/// Stands for "nowhere" among slots, and for "nobody" among units.
const NONE: u32 = u32::MAX;

/// The map. See the [module](self).
#[derive(Clone, Debug)]
pub struct Map {
    geometry: Geometry,
    layout: Option<Layout>,
    slots: SparseMap,
    blocks: Vec<BlockMap>,
}

#[derive(Clone, Debug)]
struct BlockMap {
    valid: u32,
    owners: Owners,
}

#[derive(Clone, Debug)]
enum Owners {
    /// As the layout says.
    Initial,
    /// Written since; slots beyond the table's end are not.
    Written(Vec<u32>),
}

impl Map {
    /// The map of a drive in the state of `layout`; `None` is a drive never written.
    pub fn new(geometry: &Geometry, layout: Option<Layout>) -> Self {
        let valid = |block| layout.as_ref().map_or(0, |layout| layout.valid_in(block));
        let blocks = (0..geometry.blocks())
            .map(|block| BlockMap { valid: valid(Block(block)), owners: Owners::Initial })
            .collect();
        let slots = SparseMap::new(geometry.units());
        Self { geometry: *geometry, layout, slots, blocks }
    }

    /// Where a unit lies, if it was written and not trimmed.
    pub fn slot_of(&self, unit: Unit) -> Option<Slot> {
        match self.slots.at(unit.0) {
            Some(NONE) => None,
            Some(slot) => Some(Slot(slot)),
            None => self.layout.as_ref().map(|layout| layout.slot_of(unit)),
        }
    }

    /// The unit that lies at a slot, if that is its latest place.
    pub fn unit_at(&self, slot: Slot) -> Option<Unit> {
        let (block, index) = self.geometry.place(slot);
        let written = match &self.blocks[block.0 as usize].owners {
            Owners::Initial => self.layout.as_ref().and_then(|layout| layout.unit_at(slot)),
            Owners::Written(owners) => owners.get(index as usize).copied().map(Unit),
        };
        written.filter(|&unit| unit.0 != NONE && self.slot_of(unit) == Some(slot))
    }

    /// Valid units of a block.
    pub fn valid_in(&self, block: Block) -> u32 {
        self.blocks[block.0 as usize].valid
    }

    /// Notes that `unit` was written to the next slot of an open block; its former slot is stale.
    pub fn assign(&mut self, unit: Unit, slot: Slot) {
        self.invalidate(unit);
        self.slots.set(unit.0, slot.0);
        let (block, index) = self.geometry.place(slot);
        let block = &mut self.blocks[block.0 as usize];
        block.valid += 1;
        block.owners.push(index, unit.0);
    }

    /// Notes that the next slot of an open block was filled with nothing.
    pub fn pad(&mut self, slot: Slot) {
        let (block, index) = self.geometry.place(slot);
        self.blocks[block.0 as usize].owners.push(index, NONE);
    }

    /// Forgets units `first..end`.
    pub fn trim(&mut self, first: Unit, end: Unit) {
        (first.0..end.0).for_each(|unit| self.invalidate(Unit(unit)));
        self.slots.fill(first.0, end.0, NONE);
    }

    /// Makes a block empty; nothing in it is valid.
    pub fn erase(&mut self, block: Block) {
        let block = &mut self.blocks[block.0 as usize];
        assert_eq!(block.valid, 0, "valid data is moved before its block is erased");
        block.owners = Owners::Written(Vec::new());
    }

    fn invalidate(&mut self, unit: Unit) {
        if let Some(slot) = self.slot_of(unit) {
            let (block, _) = self.geometry.place(slot);
            self.blocks[block.0 as usize].valid -= 1;
        }
    }
}

impl Owners {
    fn push(&mut self, index: u32, unit: u32) {
        if let Self::Initial = self {
            *self = Self::Written(Vec::new());
        }
        let Self::Written(owners) = self else { unreachable!("made so above") };
        assert_eq!(owners.len(), index as usize, "a block is written slot by slot");
        owners.push(unit);
    }
}
