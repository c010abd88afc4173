//! What lies where on the tiers of a volume.
//!
//! ```text
//! every tier    | head A | head B | owner |                             | slot 0 | slot 1 | ..
//! the fastest   | head A | head B | owner | first half | second half    | slot 0 | slot 1 | ..
//!               0        4 KiB    8 KiB   12 KiB                        data offset
//!
//! a half        | map, area 0 | map, area 1 | journal |
//! ```
//!
//! A head says what the tier is, the owner which gate uses it. The map says which extent lies in
//! which slot; the journal holds the moves since. An owner notes in one half, and whoever takes
//! over from one that may still write uses the other. Slots begin at a multiple of the extent's
//! size. One slot of each tier stays free, so that there is always somewhere to move an extent to:
//! the volume has as many extents as there are slots less one per tier.

use std::fmt;
use std::ops::Range;

use evenkeel_core::bytes::Bytes;

use super::format::{BLOCK_BYTES, PLACES_PER_BLOCK};
use super::map::SLOTS_MAX;
use crate::lease::{FRONT_BYTES, Half, OWNER_OFFSET};
use crate::notes::blank::ends_of;

/// Slots of each tier that the volume's size leaves free.
pub const RESERVE_SLOTS: u32 = 1;
/// Sizes that extents may have, in bytes; each is a power of two.
pub const EXTENT_BYTES: std::ops::RangeInclusive<u64> = (64 << 10)..=(16 << 20);
/// The fewest records that a journal has room for.
const JOURNAL_RECORDS_MIN: u32 = 64;
/// A record stands in the journal twice, side by side.
pub(super) const COPIES: usize = 2;
const JOURNAL_COPIES: u64 = COPIES as u64;

/// What lies where. Offsets and sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of an extent and of a slot.
    pub extent_bytes: u64,
    /// The tiers, the slowest first; map and journal are on the last.
    pub tiers: Vec<TierLayout>,
    /// Extents of the volume.
    pub extents: u32,
    /// Blocks of one area of the map.
    pub checkpoint_blocks: u32,
    /// Records that the journal has room for.
    pub journal_records: u32,
}

/// The part of a tier that holds extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierLayout {
    /// Where the first slot begins.
    pub data_offset: u64,
    /// How many slots there are.
    pub slots: u32,
}

/// Why devices cannot be the tiers of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// This tier has no room for two extents and what the volume notes of itself.
    TooSmall {
        /// The tier, counted from the slowest.
        tier: usize,
        /// The least that it must have.
        needed_bytes: u64,
    },
    /// This tier has more slots than a place can number, or the volume more extents.
    TooManySlots {
        /// The tier, counted from the slowest.
        tier: usize,
        /// The smallest extents that would do.
        extent_bytes: u64,
    },
}

impl LayoutError {
    /// The tier, counted from the slowest.
    pub fn tier(&self) -> usize {
        let (Self::TooSmall { tier, .. } | Self::TooManySlots { tier, .. }) = self;
        *tier
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { needed_bytes, .. } => {
                write!(f, "it is too small: it needs at least {}", Bytes(*needed_bytes))
            }
            Self::TooManySlots { extent_bytes, .. } => {
                write!(f, "it has too many extents: make them at least {}", Bytes(*extent_bytes))
            }
        }
    }
}

impl Layout {
    /// The layout of a new volume over devices of these sizes, the slowest first.
    ///
    /// # Errors
    /// If a device is too small or too large.
    ///
    /// # Panics
    /// Unless there are two tiers or more, and the extent's size is a power of two within
    /// [`EXTENT_BYTES`]; the policy's checks see to both.
    pub fn plan(extent_bytes: u64, sizes_bytes: &[u64]) -> Result<Self, LayoutError> {
        assert!(extent_bytes.is_power_of_two() && EXTENT_BYTES.contains(&extent_bytes));
        assert!(sizes_bytes.len() >= 2, "one tier is no tiered volume");
        let fastest = sizes_bytes.len() - 1;
        // The map's size depends on the number of slots, and theirs on what the map leaves: the
        // map is made large enough for slots all over the devices.
        let most: u64 = sizes_bytes.iter().map(|bytes| bytes / extent_bytes).sum();
        let too_many = |tier| LayoutError::TooManySlots {
            tier,
            extent_bytes: (extent_bytes * most.div_ceil(u64::from(SLOTS_MAX))).next_power_of_two(),
        };
        let most = u32::try_from(most).ok().filter(|most| *most <= SLOTS_MAX);
        let checkpoint_blocks = most.ok_or_else(|| too_many(fastest))?.div_ceil(PLACES_PER_BLOCK);
        let journal_records = JOURNAL_RECORDS_MIN.max(2 * checkpoint_blocks);
        let mut layout = Self {
            extent_bytes,
            tiers: Vec::new(),
            extents: 0,
            checkpoint_blocks: checkpoint_blocks.max(1),
            journal_records,
        };
        for (tier, &size_bytes) in sizes_bytes.iter().enumerate() {
            let used = if tier == fastest { layout.metadata_end() } else { FRONT_BYTES };
            let data_offset = used.next_multiple_of(extent_bytes);
            let slots = size_bytes.saturating_sub(data_offset) / extent_bytes;
            if slots <= u64::from(RESERVE_SLOTS) {
                let needed_bytes = data_offset + (u64::from(RESERVE_SLOTS) + 1) * extent_bytes;
                return Err(LayoutError::TooSmall { tier, needed_bytes });
            }
            let slots = u32::try_from(slots).expect("no more than the sum of all");
            layout.tiers.push(TierLayout { data_offset, slots });
            layout.extents += slots - RESERVE_SLOTS;
        }
        Ok(layout)
    }

    /// Whether what the volume notes has room before the first slots, and is not more than a volume
    /// of this size can need.
    pub(super) fn is_sound(&self) -> bool {
        let map_blocks = self.extents.div_ceil(PLACES_PER_BLOCK);
        let records_max = JOURNAL_RECORDS_MIN.max(2 * self.checkpoint_blocks.min(SLOTS_MAX));
        self.tiers.iter().all(|tier| tier.data_offset >= FRONT_BYTES)
            && self.checkpoint_blocks >= map_blocks
            && (2..=records_max).contains(&self.journal_records)
            && self.metadata_end() <= self.tiers[self.fastest()].data_offset
    }

    /// The volume's size.
    pub fn size_bytes(&self) -> u64 {
        u64::from(self.extents) * self.extent_bytes
    }

    /// The tier that map and journal are on.
    pub fn fastest(&self) -> usize {
        self.tiers.len() - 1
    }

    /// Where a slot begins on its tier.
    pub fn slot_offset(&self, tier: usize, slot: u32) -> u64 {
        self.tiers[tier].data_offset + u64::from(slot) * self.extent_bytes
    }

    /// The bytes of its tier that a slot is.
    pub(super) fn slot_range(&self, tier: usize, slot: u32) -> Range<u64> {
        let start = self.slot_offset(tier, slot);
        start..start + self.extent_bytes
    }

    /// Where the used part of a tier ends.
    pub fn end(&self, tier: usize) -> u64 {
        self.slot_offset(tier, self.tiers[tier].slots)
    }

    /// Where the first and the last block stand of all that the volume notes on a tier beside its
    /// heads.
    pub(super) fn note_ends(&self, tier: usize) -> Vec<u64> {
        let owner = OWNER_OFFSET..FRONT_BYTES;
        let noted = [Half::First, Half::Second].map(|half| {
            let map = u64::from(self.extents.div_ceil(PLACES_PER_BLOCK)) * BLOCK_BYTES;
            let area = |area| self.checkpoint_offset(half, area);
            let journal = self.journal_offset(half);
            let maps = [0, 1].map(|index| area(index)..area(index) + map);
            let [first, second] = maps;
            [first, second, journal..journal + self.journal_bytes()]
        });
        let noted = noted.into_iter().flatten().filter(|_| tier == self.fastest());
        ends_of(std::iter::once(owner).chain(noted))
    }

    /// The bytes of the fastest tier that an owner of this half notes in.
    pub(super) fn half_range(&self, half: Half) -> Range<u64> {
        let bytes = self.journal_bytes() + 2 * self.area_bytes();
        let start = FRONT_BYTES + if half == Half::First { 0 } else { bytes };
        start..start + bytes
    }

    /// Where an area of the map begins on the fastest tier.
    pub(super) fn checkpoint_offset(&self, half: Half, area: u32) -> u64 {
        self.half_range(half).start + u64::from(area) * self.area_bytes()
    }

    /// Where the journal begins on the fastest tier.
    pub(super) fn journal_offset(&self, half: Half) -> u64 {
        self.checkpoint_offset(half, 2)
    }

    /// Bytes of one area of the map.
    fn area_bytes(&self) -> u64 {
        u64::from(self.checkpoint_blocks) * BLOCK_BYTES
    }

    /// Bytes of the journal of one half.
    pub(super) fn journal_bytes(&self) -> u64 {
        u64::from(self.journal_records) * JOURNAL_COPIES * BLOCK_BYTES
    }

    /// Where the record of this sequence number stands, both copies.
    pub(super) fn record_offset(&self, half: Half, sequence: u64) -> u64 {
        let index = sequence % u64::from(self.journal_records);
        self.journal_offset(half) + index * JOURNAL_COPIES * BLOCK_BYTES
    }

    /// Where the notes end on the fastest tier, if that can be: the numbers may be anybody's.
    pub(super) fn checked_metadata_end(&self) -> Option<u64> {
        let is_small = self.checkpoint_blocks <= SLOTS_MAX && self.journal_records <= 2 * SLOTS_MAX;
        is_small.then(|| self.metadata_end())
    }

    /// Where the notes end on the fastest tier.
    pub(super) fn metadata_end(&self) -> u64 {
        self.half_range(Half::Second).end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn slots_and_what_the_volume_notes_do_not_overlap() {
        let layout = Layout::plan(MIB, &[4096 * MIB, 64 * MIB]).unwrap();
        assert_eq!(layout.checkpoint_blocks, 5, "4160 places, 1006 in a block");
        let [first, second] = [Half::First, Half::Second];
        assert_eq!(layout.journal_offset(first), 12_288 + 10 * 4096);
        assert_eq!(layout.checkpoint_offset(second, 0), layout.journal_offset(first) + 64 * 8192);
        assert_eq!(layout.metadata_end(), 12_288 + 2 * (10 * 4096 + 64 * 8192));
        assert_eq!(layout.tiers[1], TierLayout { data_offset: 2 * MIB, slots: 62 });
        assert_eq!(layout.tiers[0], TierLayout { data_offset: MIB, slots: 4095 });
        assert_eq!(layout.size_bytes(), (4094 + 61) * MIB);
        assert_eq!(layout.record_offset(second, 65), layout.journal_offset(second) + 8192);
    }

    #[test]
    fn devices_that_cannot_serve_are_named() {
        let small = Layout::plan(MIB, &[2 * MIB, 64 * MIB]).unwrap_err();
        assert_eq!(small, LayoutError::TooSmall { tier: 0, needed_bytes: 3 * MIB });
        let large = Layout::plan(64 << 10, &[64 << 40, 64 << 30]).unwrap_err();
        let LayoutError::TooManySlots { tier: 1, extent_bytes } = large else { panic!("{large}") };
        assert!(Layout::plan(extent_bytes, &[64 << 40, 64 << 30]).is_ok());
    }
}
