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
//!
//! On a drive with zones, all that is ever written over lies in the conventional zones at its
//! start, and each sequential zone is a slot:
//!
//! ```text
//! | A | B | area 0 | area 1 | - | A | B | slot 0 | - | slot 1 | - | ..
//! <--------- conventional zones -------> <-- zone --> <-- zone -->
//! ```

use super::superblock::CheckpointPlace;
use crate::drive::zone::{DriveShape, Zoning};
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
    /// Blocks of one segment, at most the capacity of a zone.
    pub segment_blocks: u32,
    /// Its zones, if it has any.
    pub zones: Option<ZoneLayout>,
}

/// Where the zones of a drive lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneLayout {
    /// Blocks from the start of a zone to the start of the next.
    pub zone_blocks: u32,
    /// Conventional zones that the drive begins with.
    pub conventional_zones: u32,
}

impl ZoneLayout {
    fn conventional_blocks(self) -> u64 {
        u64::from(self.conventional_zones) * u64::from(self.zone_blocks)
    }
}

impl From<Zoning> for ZoneLayout {
    fn from(zoning: Zoning) -> Self {
        // A zone longer than 16 TiB is none that any drive has; it holds no segment.
        let zone_blocks = u32::try_from(zoning.zone_bytes / BLOCK_BYTES_U64).unwrap_or(u32::MAX);
        Self { zone_blocks, conventional_zones: zoning.conventional_zones }
    }
}

impl Layout {
    /// How a drive of this shape is divided.
    pub fn of(shape: DriveShape, area_blocks: u64, segment_blocks: u32) -> Self {
        let drive_blocks = shape.size_bytes / BLOCK_BYTES_U64;
        let zones = shape.zoning.map(ZoneLayout::from);
        Self { drive_blocks, area_blocks, segment_blocks, zones }
    }

    /// The part of the layout that is alike in all stores: where superblocks lie. `None` if the
    /// drive is too small for any.
    pub(crate) fn of_superblocks(shape: DriveShape) -> Option<Self> {
        let layout = Self::of(shape, 0, 16);
        (layout.superblock_end() >= 8).then_some(layout)
    }

    /// Slots that the drive has; none if it is too small for its checkpoint areas, or its zones for
    /// its segments.
    pub fn slots(&self) -> u32 {
        let slots = match self.zones {
            None => {
                let used_blocks = self.overhead_blocks();
                self.drive_blocks.saturating_sub(used_blocks) / u64::from(self.segment_blocks)
            }
            Some(zones)
                if !self.has_room_for_areas() || zones.zone_blocks < self.segment_blocks =>
            {
                0
            }
            Some(zones) => (self.drive_blocks / u64::from(zones.zone_blocks))
                .saturating_sub(u64::from(zones.conventional_zones)),
        };
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// Whether superblocks and checkpoint areas fit where they have to lie.
    pub fn has_room_for_areas(&self) -> bool {
        self.overhead_blocks() <= self.superblock_end()
    }

    /// Bytes of superblocks and checkpoint areas.
    pub fn overhead_bytes(&self) -> u64 {
        self.overhead_blocks() * BLOCK_BYTES_U64
    }

    /// Bytes of the smallest drive with so many slots, divided likewise.
    pub fn least_bytes(&self, slots: u32) -> u64 {
        let slots_blocks = u64::from(slots) * self.stride_blocks();
        let blocks = match self.zones {
            None => self.overhead_blocks() + slots_blocks,
            Some(zones) => zones.conventional_blocks() + slots_blocks,
        };
        blocks * BLOCK_BYTES_U64
    }

    /// The two places, in bytes, of superblock slot 0 (A) or 1 (B).
    pub fn superblock_offsets_bytes(&self, slot: u8) -> [u64; 2] {
        assert!(slot < 2, "there are two slots");
        let at_end = self.superblock_end() - SUPERBLOCK_BLOCKS;
        [0, at_end].map(|block| (block + u64::from(slot)) * BLOCK_BYTES_U64)
    }

    /// Where checkpoint area 0 or 1 starts, in bytes.
    pub fn area_offset_bytes(&self, area: u8) -> u64 {
        (SUPERBLOCK_BLOCKS + u64::from(area) * self.area_blocks) * BLOCK_BYTES_U64
    }

    /// Where a chunk of a checkpoint lies that begins at this block of it, in bytes: once for each
    /// copy on the drive.
    pub fn chunk_offsets_bytes(
        &self,
        place: &CheckpointPlace,
        at_block: u64,
    ) -> impl Iterator<Item = u64> + use<> {
        let start_bytes = self.area_offset_bytes(place.area) + at_block * BLOCK_BYTES_U64;
        let room_bytes = place.room_blocks(self.area_blocks) * BLOCK_BYTES_U64;
        (0..u64::from(place.copies)).map(move |copy| start_bytes + copy * room_bytes)
    }

    /// Where a block of a slot lies, in bytes.
    pub fn block_offset_bytes(&self, slot: u32, block: u64) -> u64 {
        let first = match self.zones {
            None => SUPERBLOCK_BLOCKS + self.area_blocks * 2,
            Some(zones) => zones.conventional_blocks(),
        };
        (first + u64::from(slot) * self.stride_blocks() + block) * BLOCK_BYTES_U64
    }

    /// Blocks from the start of a slot to the start of the next.
    fn stride_blocks(&self) -> u64 {
        u64::from(self.zones.map_or(self.segment_blocks, |zones| zones.zone_blocks))
    }

    /// Blocks of both superblocks at both ends, and of both areas.
    fn overhead_blocks(&self) -> u64 {
        2 * SUPERBLOCK_BLOCKS + self.area_blocks * 2
    }

    /// Where the part of the drive ends that superblocks and areas can lie in.
    fn superblock_end(&self) -> u64 {
        self.zones
            .map_or(self.drive_blocks, |zones| zones.conventional_blocks().min(self.drive_blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_nothing_lies_outside() {
        for drive_blocks in 60..200 {
            let layout = Layout { drive_blocks, area_blocks: 7, segment_blocks: 16, zones: None };
            check(layout);
            let least_blocks = layout.least_bytes(layout.slots()) / BLOCK_BYTES_U64;
            assert!(least_blocks <= drive_blocks && drive_blocks - least_blocks < 16);
            let zones = ZoneLayout { zone_blocks: 20, conventional_zones: 2 };
            let divided = Layout { zones: Some(zones), segment_blocks: 18, ..layout };
            check(divided);
            assert_eq!(u64::from(divided.slots()), drive_blocks / 20 - 2, "each zone is a slot");
            assert_eq!(divided.block_offset_bytes(3, 0) % (20 * BLOCK_BYTES_U64), 0);
        }
    }

    /// Holds a layout against a list of the blocks of its drive.
    fn check(layout: Layout) {
        let drive_blocks = layout.drive_blocks;
        let mut used = vec![false; usize::try_from(drive_blocks).unwrap()];
        let mut claim = |offset_bytes: u64, blocks: u64| {
            for block in offset_bytes / BLOCK_BYTES_U64..offset_bytes / BLOCK_BYTES_U64 + blocks {
                let is_used = &mut used[usize::try_from(block).unwrap()];
                assert!(!*is_used, "block {block} is used twice");
                *is_used = true;
            }
        };
        for part in 0..2 {
            layout.superblock_offsets_bytes(part).iter().for_each(|&at| claim(at, 1));
            claim(layout.area_offset_bytes(part), 7);
        }
        let segment_blocks = u64::from(layout.segment_blocks);
        let slots = 0..layout.slots();
        slots.for_each(|slot| claim(layout.block_offset_bytes(slot, 0), segment_blocks));
        let wasted = used.iter().filter(|used| !**used).count();
        assert!(layout.zones.is_some() || wasted < 16, "less than a slot is wasted");
    }

    #[test]
    fn zones_that_are_too_short_or_conventional_ones_that_are_too_few_make_no_slots() {
        let zones = Some(ZoneLayout { zone_blocks: 16, conventional_zones: 2 });
        let layout = Layout { drive_blocks: 160, area_blocks: 14, segment_blocks: 16, zones };
        assert_eq!(layout.slots(), 8);
        assert_eq!(Layout { segment_blocks: 17, ..layout }.slots(), 0);
        assert_eq!(Layout { area_blocks: 15, ..layout }.slots(), 0);
    }

    #[test]
    fn a_drive_smaller_than_its_areas_has_no_slot() {
        let layout =
            Layout { drive_blocks: 10, area_blocks: 1 << 47, segment_blocks: 16, zones: None };
        assert_eq!(layout.slots(), 0);
    }
}
