//! How the flash is divided, and the dense numbers of its parts.
//!
//! The host's data is mapped in *units* (4 KiB in most drives); a flash *page* holds several. A
//! *block* here spans all planes of its die, since programs and erases use the planes together:
//!
//! ```text
//! block of a die with 2 planes, 2 units per page, slots in the order in which they are written
//!
//!            plane 0     plane 1
//! row 0      0   1       2   3        one program: 4 slots
//! row 1      4   5       6   7
//! ```
//!
//! Consecutive dies lie on different channels: die `d` is on channel `d % channels`.

use serde::Deserialize;

/// A unit of the host's address space: `offset / unit_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit(pub u32);

/// A place for a unit in the flash: block by block, and in a block in the order of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// A block over all planes of a die: die by die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block(pub u32);

/// A die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Die(pub u32);

/// The divisions of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// What the host sees; the rest of the flash is over-provisioning.
    pub capacity_bytes: u64,
    /// Buses between controller and flash.
    pub channels: u32,
    /// Dies on each of them.
    pub dies_per_channel: u32,
    /// Planes of a die; each reads by itself, all program and erase together.
    pub planes_per_die: u32,
    /// Erase blocks of a plane.
    pub blocks_per_plane: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// What an array read or a program moves per plane.
    pub page_bytes: u32,
    /// What the map points at; divides the page.
    pub unit_bytes: u32,
}

impl Geometry {
    /// Dies in all.
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Units of the host's address space.
    pub fn units(&self) -> u32 {
        u32::try_from(self.capacity_bytes / u64::from(self.unit_bytes))
            .expect("checked: every slot has a number of 32 bits, and there are fewer units")
    }

    /// Units that a page holds.
    pub fn units_per_page(&self) -> u32 {
        self.page_bytes / self.unit_bytes
    }

    /// Units that one program writes: a page in each plane.
    pub fn units_per_program(&self) -> u32 {
        self.units_per_page() * self.planes_per_die
    }

    /// Units that a block holds.
    pub fn units_per_block(&self) -> u32 {
        self.units_per_program() * self.pages_per_block
    }

    /// Blocks of all dies.
    pub fn blocks(&self) -> u32 {
        self.dies() * self.blocks_per_plane
    }

    /// Slots of all blocks, as a number that cannot overflow.
    pub fn slots(&self) -> u64 {
        u64::from(self.blocks()) * u64::from(self.units_per_block())
    }

    /// Bytes that one program writes.
    pub fn program_bytes(&self) -> u64 {
        u64::from(self.units_per_program()) * u64::from(self.unit_bytes)
    }

    /// The die of a block.
    pub fn die_of(&self, block: Block) -> Die {
        Die(block.0 / self.blocks_per_plane)
    }

    /// The channel of a die.
    pub fn channel_of(&self, die: Die) -> u32 {
        die.0 % self.channels
    }

    /// The `index`-th block of a die.
    pub fn block(&self, die: Die, index: u32) -> Block {
        Block(die.0 * self.blocks_per_plane + index)
    }

    /// The `index`-th slot of a block.
    pub fn slot(&self, block: Block, index: u32) -> Slot {
        Slot(block.0 * self.units_per_block() + index)
    }

    /// The block of a slot, and the slot's index in it.
    pub fn place(&self, slot: Slot) -> (Block, u32) {
        let per_block = self.units_per_block();
        (Block(slot.0 / per_block), slot.0 % per_block)
    }

    /// The plane within its die that holds the `index`-th slot of any block.
    pub fn plane_of(&self, index: u32) -> u32 {
        index % self.units_per_program() / self.units_per_page()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry = Geometry {
        capacity_bytes: 64 * 4096,
        channels: 2,
        dies_per_channel: 2,
        planes_per_die: 2,
        blocks_per_plane: 3,
        pages_per_block: 4,
        page_bytes: 8192,
        unit_bytes: 4096,
    };

    #[test]
    fn numbers_are_dense_and_places_are_inverse() {
        assert_eq!((SMALL.dies(), SMALL.units_per_program(), SMALL.units_per_block()), (4, 4, 16));
        assert_eq!(SMALL.slots(), 4 * 3 * 16);
        for number in 0..192 {
            let (block, index) = SMALL.place(Slot(number));
            assert_eq!(SMALL.slot(block, index), Slot(number));
            assert!(SMALL.die_of(block).0 < 4 && SMALL.plane_of(index) < 2);
        }
        assert_eq!(SMALL.block(Die(2), 1), Block(7));
        assert_eq!([0, 1, 2, 3, 4].map(|index| SMALL.plane_of(index)), [0, 0, 1, 1, 0]);
    }
}
