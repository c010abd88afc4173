//! How large a cache is: from bytes of memory to frames, with everything counted.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;

use evenkeel_core::bytes::Bytes;

use super::contents::Contents;
use super::flash::{FlashMeasures, PENDING_MAX};
use super::policy::Measures;
use crate::buffer::{ALIGN_BYTES, Buffer};
use crate::drive::DriveError;
use crate::format::Defect;
use crate::map::Tag;
use crate::units::{BLOCK_BYTES, Uuid};

/// What a store keeps in memory and on a cache drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes of memory for the cache with all that belongs to it: blocks, lists, the index of the
    /// cache drive, and what waits to be written there. Zero for no cache.
    pub memory_bytes: usize,
    /// Of the blocks in memory, so many percent are what was written last, 1 to 99; the others are
    /// what was read.
    pub tail_percent: u8,
    /// Blocks that are written to the cache drive at once, 1 to 4096.
    pub region_blocks: u32,
    /// Bytes that the cache drive can be written in its life; zero if nobody knows.
    pub endurance_bytes: u64,
    /// Bytes that may be written to the cache drive in a day; `None` for no bound. It needs
    /// [`crate::Store::set_time`].
    pub budget_bytes_per_day: Option<NonZeroU64>,
}

/// Why there is no such cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheError {
    /// An option is out of its range; the text says which and what is possible.
    Option(&'static str),
    /// The memory does not suffice for this cache; so much does.
    Memory {
        /// Bytes that suffice.
        needed_bytes: usize,
    },
    /// The cache drive is too small; this is the least.
    TooSmall {
        /// Bytes of the smallest cache drive.
        needed_bytes: u64,
    },
    /// The drive has zones, and a cache is written over in place.
    Zoned,
    /// The drive has no label of a cache drive.
    NotACache(Defect),
    /// It is the cache drive of another store.
    Foreign(Uuid),
    /// The drive failed.
    Drive(DriveError),
}

impl Default for CacheOptions {
    /// No cache; if memory is given, half of it for what was written last, and regions of 256 KiB.
    fn default() -> Self {
        Self {
            memory_bytes: 0,
            tail_percent: 50,
            region_blocks: 64,
            endurance_bytes: 0,
            budget_bytes_per_day: None,
        }
    }
}

impl CacheOptions {
    pub(crate) fn check(&self) -> Result<(), CacheError> {
        if !(1..=99).contains(&self.tail_percent) {
            return Err(CacheError::Option("tail_percent is 1 to 99"));
        }
        if !(1..=4096).contains(&self.region_blocks) {
            return Err(CacheError::Option("region_blocks is 1 to 4096"));
        }
        Ok(())
    }

    /// The log on a cache drive with room for so many regions: what half of the memory can index.
    pub(crate) fn flash(&self, regions_max: u64) -> Result<FlashMeasures, CacheError> {
        let measures = |regions| FlashMeasures { regions, region_blocks: self.region_blocks };
        let fits = |regions| self.flash_bytes(measures(regions)) <= self.memory_bytes / 2;
        if !fits(REGIONS_MIN) {
            let needed_bytes = self.flash_bytes(measures(REGIONS_MIN)) * 2;
            return Err(CacheError::Memory { needed_bytes });
        }
        let bound =
            (BLOCKS_MAX / self.region_blocks).min(u32::try_from(regions_max).unwrap_or(u32::MAX));
        Ok(measures(largest(REGIONS_MIN, bound, fits)))
    }

    /// The blocks that fit the memory.
    pub(crate) fn measures(&self, flash: Option<FlashMeasures>) -> Result<Measures, CacheError> {
        let split = |blocks: u32| {
            let blocks = blocks as usize;
            let tail_blocks = (blocks * usize::from(self.tail_percent) / 100).clamp(1, blocks - 1);
            Measures { tail_blocks, body_blocks: blocks - tail_blocks, flash }
        };
        let fits = |blocks| self.bytes(split(blocks)) <= self.memory_bytes;
        if !fits(BLOCKS_MIN) {
            return Err(CacheError::Memory { needed_bytes: self.bytes(split(BLOCKS_MIN)) });
        }
        let bound = u32::try_from(self.memory_bytes / BLOCK_BYTES).unwrap_or(u32::MAX);
        Ok(split(largest(BLOCKS_MIN, bound.clamp(BLOCKS_MIN, BLOCKS_MAX), fits)))
    }

    /// All the memory of a cache with these measures.
    fn bytes(&self, measures: Measures) -> usize {
        measures.policy_bytes()
            + measures.frames() * (BLOCK_BYTES + size_of::<Tag>())
            + size_of::<Contents>()
            + measures.flash.map_or(0, |_| self.staging_bytes())
    }

    fn flash_bytes(&self, flash: FlashMeasures) -> usize {
        flash.index_bytes() + self.staging_bytes()
    }

    /// The regions that are open or on their way, with a note of each block: none is opened while
    /// so many are on theirs. One more is read back, and what stays of it listed.
    fn staging_bytes(&self) -> usize {
        let blocks = self.region_blocks as usize;
        let region_bytes = blocks * BLOCK_BYTES + ALIGN_BYTES;
        let listed_bytes =
            blocks.div_ceil(2) * size_of::<Range<u32>>() + (blocks + 1) * size_of::<Buffer>();
        PENDING_MAX * (region_bytes + blocks * size_of::<bool>()) + region_bytes + listed_bytes
    }
}

/// Blocks in memory at least: one that was written, one that was read.
const BLOCKS_MIN: u32 = 2;

/// Blocks in memory, or on the cache drive, at most: a TiB.
const BLOCKS_MAX: u32 = 1 << 28;

/// Regions at least: one open, one on its way, and two to read from.
pub(crate) const REGIONS_MIN: u32 = 4;

/// The largest number up to `bound` that fits; `least` does.
fn largest(least: u32, bound: u32, fits: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (least, bound.max(least));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(what) => f.write_str(what),
            Self::Memory { needed_bytes } => {
                let needed = Bytes(*needed_bytes as u64);
                write!(f, "the cache needs {needed} of memory at least; allow it more")
            }
            Self::TooSmall { needed_bytes } => {
                write!(f, "a cache drive has {} at least; give a larger one", Bytes(*needed_bytes))
            }
            Self::Zoned => f.write_str(
                "the drive has zones, which cannot be written over in place as a cache is; give a \
                 drive without",
            ),
            Self::NotACache(defect) => write!(
                f,
                "the drive is no cache drive ({defect}); format it as one if nothing on it is \
                 needed"
            ),
            Self::Foreign(store) => write!(
                f,
                "the drive caches store {store}; format it anew if that store does without"
            ),
            Self::Drive(error) => write!(f, "cache drive: {error}"),
        }
    }
}

impl std::error::Error for CacheError {}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Nanos;

    use super::*;
    use crate::cache::contents::Block;
    use crate::cache::{Endurance, Key, Place, Side};

    #[test]
    fn a_cache_is_as_large_as_its_memory_allows_and_no_larger() {
        for memory_bytes in [16_384, 65_536, 1 << 20, 100 << 20, 3 << 30] {
            let options = CacheOptions { memory_bytes, ..CacheOptions::default() };
            let measures = options.measures(None).unwrap();
            let bytes = options.bytes(measures);
            let blocks = (measures.tail_blocks + measures.body_blocks) * BLOCK_BYTES;
            assert!(bytes <= memory_bytes, "{memory_bytes}");
            assert!(memory_bytes < 1 << 20 || blocks >= memory_bytes / 100 * 97, "{memory_bytes}");
        }
        let options = CacheOptions { memory_bytes: 8192, ..CacheOptions::default() };
        let Err(CacheError::Memory { needed_bytes }) = options.measures(None) else { panic!() };
        let enough = CacheOptions { memory_bytes: needed_bytes, ..options };
        assert_eq!(enough.measures(None).map(Measures::frames), Ok(3));
    }

    #[test]
    fn not_a_byte_more_is_allocated() {
        let options =
            CacheOptions { memory_bytes: 400_000, region_blocks: 4, ..CacheOptions::default() };
        for flash in [None, Some(options.flash(100).unwrap())] {
            let measures = options.measures(flash).unwrap();
            let allocated = allocation_counter::measure(|| {
                let contents = Contents::new(Nanos::ZERO, measures, Endurance::default());
                let mut contents = Box::new(contents);
                for number in 0..2_000 {
                    let (place, bytes) = (Place::of(0, number % 500), &[0; BLOCK_BYTES]);
                    let block = Block { key: Key(number), place, tag: Tag(1), bytes };
                    contents.take_written(Nanos::ZERO, block, |_| Side::Tail.into());
                    let read = Block { key: Key(5_000 + number % 700), ..block };
                    contents.take_read(Nanos::ZERO, read, |_| Side::Tail.into());
                    if number % 5 == 0
                        && let Some(sealed) = contents.next_sealed()
                    {
                        let _ = sealed.over(&Buffer::zeroed(4 * BLOCK_BYTES));
                        contents.written(sealed.region);
                    }
                }
            });
            let allocated_bytes = usize::try_from(allocated.bytes_max).unwrap();
            assert!(allocated_bytes <= options.memory_bytes, "{allocated_bytes} bytes, {flash:?}");
            assert!(allocated_bytes >= options.memory_bytes - 20_000, "{allocated_bytes} bytes");
        }
    }

    #[test]
    fn the_index_of_a_large_cache_drive_takes_at_most_half_of_the_memory() {
        let options = CacheOptions { memory_bytes: 64 << 20, ..CacheOptions::default() };
        let flash = options.flash(1 << 20).unwrap();
        assert!(flash.index_bytes() <= 32 << 20 && flash.blocks() >= 640 << 10, "{flash:?}");
        assert!(options.bytes(options.measures(Some(flash)).unwrap()) <= 64 << 20);
        assert_eq!(options.flash(10).unwrap().regions, 10, "a small one is used wholly");
        let poor = CacheOptions { memory_bytes: 1 << 20, ..options };
        assert!(matches!(poor.flash(10), Err(CacheError::Memory { .. })));
    }
}
