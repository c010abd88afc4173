//! Where things lie on a drive. All places are in blocks of 4 KiB from its start.
//!
//! ```text
//! 0   1   2            2+a          2+2a                                   n-2 n-1
//! | A | B | area 0 (a) | area 1 (a) | slot 0 | slot 1 | .. | slot s-1 | - | A | B |
//! ```
//!
//! A superblock has two places on the drive, so that neither a tool that writes a partition table
//! nor one rotten sector takes the newest one away. Checkpoints alternate between the areas, which
//! are as large as the worst checkpoint of the store. A slot holds one copy of a segment.

use crate::units::BLOCK_BYTES_U64;

/// Blocks of a superblock's two slots at one end of the drive.
const SUPERBLOCK_BLOCKS: u64 = 2;

/// How one drive is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Whole blocks of the drive.
    pub drive_blocks: u64,
    /// Blocks of one checkpoint area, below 2^48.
    pub area_blocks: u64,
    /// Blocks of one segment.
    pub segment_blocks: u32,
}

impl Layout {
    /// Slots that the drive has; none if it is too small for its checkpoint areas.
    pub fn slots(&self) -> u32 {
        let room = self.drive_blocks.saturating_sub(self.first_slot_block() + SUPERBLOCK_BLOCKS);
        u32::try_from(room / u64::from(self.segment_blocks)).unwrap_or(u32::MAX)
    }

    /// Bytes of the smallest drive with so many slots, divided likewise.
    pub fn least_bytes(&self, slots: u32) -> u64 {
        let slots_blocks = u64::from(slots) * u64::from(self.segment_blocks);
        (self.first_slot_block() + slots_blocks + SUPERBLOCK_BLOCKS) * BLOCK_BYTES_U64
    }

    /// The two places, in bytes, of superblock slot 0 (A) or 1 (B).
    pub fn superblock_offsets_bytes(&self, slot: u8) -> [u64; 2] {
        assert!(slot < 2, "there are two slots");
        let at_end = self.drive_blocks - SUPERBLOCK_BLOCKS;
        [0, at_end].map(|block| (block + u64::from(slot)) * BLOCK_BYTES_U64)
    }

    /// Where checkpoint area 0 or 1 starts, in bytes.
    pub fn area_offset_bytes(&self, area: u8) -> u64 {
        (SUPERBLOCK_BLOCKS + u64::from(area) * self.area_blocks) * BLOCK_BYTES_U64
    }

    /// Where a block of a slot lies, in bytes.
    pub fn block_offset_bytes(&self, slot: u32, block: u64) -> u64 {
        let start = self.first_slot_block() + u64::from(slot) * u64::from(self.segment_blocks);
        (start + block) * BLOCK_BYTES_U64
    }

    fn first_slot_block(&self) -> u64 {
        SUPERBLOCK_BLOCKS + self.area_blocks * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_nothing_lies_outside() {
        for drive_blocks in 60..200 {
            let layout = Layout { drive_blocks, area_blocks: 7, segment_blocks: 16 };
            let mut used = vec![false; usize::try_from(drive_blocks).unwrap()];
            let mut claim = |offset_bytes: u64, blocks: u64| {
                for block in offset_bytes / BLOCK_BYTES_U64..offset_bytes / BLOCK_BYTES_U64 + blocks
                {
                    let is_used = &mut used[usize::try_from(block).unwrap()];
                    assert!(!*is_used, "block {block} is used twice");
                    *is_used = true;
                }
            };
            for part in 0..2 {
                layout.superblock_offsets_bytes(part).iter().for_each(|&at| claim(at, 1));
                claim(layout.area_offset_bytes(part), 7);
            }
            (0..layout.slots()).for_each(|slot| claim(layout.block_offset_bytes(slot, 0), 16));
            assert!(used.iter().filter(|used| !**used).count() < 16, "less than a slot is wasted");
            let least_blocks = layout.least_bytes(layout.slots()) / BLOCK_BYTES_U64;
            assert!(least_blocks <= drive_blocks && drive_blocks - least_blocks < 16);
        }
    }

    #[test]
    fn a_drive_smaller_than_its_areas_has_no_slot() {
        let layout = Layout { drive_blocks: 10, area_blocks: 1 << 47, segment_blocks: 16 };
        assert_eq!(layout.slots(), 0);
    }
}
