//! The SSD as a log of its own: regions, filled in memory, written whole, round and round.
//!
//! ```text
//! regions   [ 0: old ] [ 1: aging ] [ 2 ] [ 3 ] [ 4: pending ] [ 5: open, in memory ]
//!             ^ next to be written over            sealed, on its way
//! ```
//!
//! A region that is opened anew loses what it had: nothing is read back to be kept. What is worth
//! keeping gets its second chance elsewhere. A block that is read comes to memory, and when it
//! leaves from there it is written again if by then it is *aging*, in the oldest quarter. So the
//! SSD sees only large writes that replace its oldest content in order, which is what its own
//! garbage collection copes with best: nothing is left to be moved.
//!
//! The index lies in memory, 8 bytes and a word or two of hash table for each block, and 4 bytes to
//! know again who was sent away. It ends with the mount, and with it all entries.

use std::collections::VecDeque;

use evenkeel_core::cache::table::SlotTable;

use super::Key;
use super::doorkeeper::Doorkeeper;

/// The measures of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashMeasures {
    /// Regions; at least 4, so that one can be open and one on its way.
    pub regions: u32,
    /// Blocks of a region, at least one; regions times this is at most 2^28, a TiB.
    pub region_blocks: u32,
}

/// A block of the log: its region times the blocks of a region, plus the block within.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlashBlock(pub u32);

/// A region of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region(pub u32);

/// Sealed regions that may be on their way at once; then the log takes nothing in.
pub(super) const PENDING_MAX: usize = 2;

/// No key: addresses of the log are below 2^40.
const NONE: Key = Key(u64::MAX);

/// The log. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct FlashLog {
    measures: FlashMeasures,
    /// Of each block.
    keys: Vec<Key>,
    table: SlotTable,
    /// Reads under way from each region.
    readers: Vec<u32>,
    /// The next region to open.
    next: u32,
    open: Option<Open>,
    pending: VecDeque<Region>,
    doorkeeper: Doorkeeper,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    region: Region,
    filled: u32,
}

/// Room for a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    pub(super) block: FlashBlock,
    /// The region that is full with it.
    pub(super) sealed: Option<Region>,
}

impl FlashMeasures {
    /// Blocks of the log.
    pub fn blocks(self) -> usize {
        self.regions as usize * self.region_blocks as usize
    }

    /// Bytes of memory that the index of the log takes.
    pub fn index_bytes(self) -> usize {
        self.blocks() * size_of::<Key>()
            + SlotTable::memory_bytes(self.blocks())
            + Doorkeeper::memory_bytes(self.blocks())
            + self.regions as usize * size_of::<u32>()
            + PENDING_MAX * size_of::<Region>()
    }

    /// The region of a block, and the block within.
    pub fn locate(self, block: FlashBlock) -> (Region, u32) {
        (Region(block.0 / self.region_blocks), block.0 % self.region_blocks)
    }
}

impl FlashLog {
    pub(super) fn new(measures: FlashMeasures) -> Self {
        assert!(measures.regions >= 4 && measures.region_blocks > 0, "options were checked");
        Self {
            measures,
            keys: vec![NONE; measures.blocks()],
            table: SlotTable::with_capacity(measures.blocks()),
            readers: vec![0; measures.regions as usize],
            next: 0,
            open: None,
            pending: VecDeque::with_capacity(PENDING_MAX),
            doorkeeper: Doorkeeper::new(measures.blocks()),
        }
    }

    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<FlashBlock> {
        self.table.find(key.0, |slot| self.keys[slot as usize].0).map(FlashBlock)
    }

    /// Whether a block is in the quarter of the regions that is written over next.
    pub(super) fn is_aging(&self, block: FlashBlock) -> bool {
        let (Region(region), _) = self.measures.locate(block);
        let ahead = (region + self.measures.regions - self.next) % self.measures.regions;
        ahead < self.measures.regions / 4
    }

    /// Whether a block came before that was used once; from now on it did.
    pub(super) fn comes_again(&mut self, key: Key) -> bool {
        self.doorkeeper.greet(key.0)
    }

    /// Room for one block more; none while too many regions are on their way, or while the oldest
    /// one is being read.
    pub(super) fn admit(&mut self, key: Key) -> Option<Admitted> {
        let open = match self.open {
            Some(open) => open,
            None => self.open_next()?,
        };
        let block = FlashBlock(open.region.0 * self.measures.region_blocks + open.filled);
        self.forget(key);
        self.keys[block.0 as usize] = key;
        self.table.insert(key.0, block.0);
        let filled = open.filled + 1;
        let is_full = filled == self.measures.region_blocks;
        self.open = (!is_full).then_some(Open { filled, ..open });
        let sealed = is_full.then_some(open.region);
        self.pending.extend(sealed);
        Some(Admitted { block, sealed })
    }

    fn open_next(&mut self) -> Option<Open> {
        let region = Region(self.next);
        let is_busy = self.readers[region.0 as usize] > 0 || self.pending.contains(&region);
        if is_busy || self.pending.len() == PENDING_MAX {
            return None;
        }
        let first = region.0 * self.measures.region_blocks;
        for block in first..first + self.measures.region_blocks {
            self.clear(FlashBlock(block));
        }
        self.next = (self.next + 1) % self.measures.regions;
        Some(Open { region, filled: 0 })
    }

    /// A sealed region is on the SSD.
    pub(super) fn written(&mut self, region: Region) {
        self.pending.retain(|pending| *pending != region);
    }

    pub(super) fn forget(&mut self, key: Key) {
        if let Some(block) = self.find(key) {
            self.clear(block);
        }
    }

    fn clear(&mut self, block: FlashBlock) {
        let key = std::mem::replace(&mut self.keys[block.0 as usize], NONE);
        if key != NONE {
            self.table.remove(key.0, block.0);
        }
    }

    /// Gives a block another key, which is not there.
    pub(super) fn rename(&mut self, from: Key, to: Key) {
        if let Some(block) = self.find(from) {
            self.clear(block);
            self.keys[block.0 as usize] = to;
            self.table.insert(to.0, block.0);
        }
    }

    /// Keeps the region of a block from being written over while it is read.
    pub(super) fn pin(&mut self, block: FlashBlock) {
        let (region, _) = self.measures.locate(block);
        self.readers[region.0 as usize] += 1;
    }

    pub(super) fn unpin(&mut self, block: FlashBlock) {
        let (region, _) = self.measures.locate(block);
        self.readers[region.0 as usize] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(log: &mut FlashLog, keys: std::ops::Range<u64>) -> Vec<Region> {
        let mut sealed = Vec::new();
        for key in keys {
            let admitted = log.admit(Key(key)).expect("nothing is under way");
            if let Some(region) = admitted.sealed {
                log.written(region);
                sealed.push(region);
            }
        }
        sealed
    }

    #[test]
    fn it_goes_round_and_loses_its_oldest_region_whole() {
        let mut log = FlashLog::new(FlashMeasures { regions: 4, region_blocks: 3 });
        assert_eq!(filled(&mut log, 0..12), [0, 1, 2, 3].map(Region));
        assert!((0..12).all(|key| log.find(Key(key)).is_some()));
        log.admit(Key(12)).expect("room");
        let kept: Vec<u64> = (0..13).filter(|&key| log.find(Key(key)).is_some()).collect();
        assert_eq!(kept, (3..13).collect::<Vec<_>>());
        assert!(
            log.is_aging(log.find(Key(3)).unwrap()) && !log.is_aging(log.find(Key(6)).unwrap())
        );
        assert!(!log.is_aging(log.find(Key(12)).unwrap()), "the open region is the youngest");
    }

    #[test]
    fn it_takes_nothing_in_while_regions_are_on_their_way_or_the_oldest_is_read() {
        let mut log = FlashLog::new(FlashMeasures { regions: 4, region_blocks: 1 });
        assert!(log.admit(Key(1)).is_some() && log.admit(Key(2)).is_some());
        assert!(log.admit(Key(3)).is_none(), "two are on their way");
        log.written(Region(0));
        log.written(Region(1));
        filled(&mut log, 3..5);
        let oldest = log.find(Key(1)).unwrap();
        log.pin(oldest);
        assert!(log.admit(Key(5)).is_none(), "it is being read");
        log.unpin(oldest);
        assert!(log.admit(Key(5)).is_some());
    }

    #[test]
    fn a_renamed_block_stays_in_its_place() {
        let mut log = FlashLog::new(FlashMeasures { regions: 4, region_blocks: 2 });
        filled(&mut log, 0..3);
        let block = log.find(Key(1));
        log.rename(Key(1), Key(100));
        assert_eq!((log.find(Key(1)), log.find(Key(100))), (None, block));
        log.forget(Key(100));
        assert_eq!(log.find(Key(100)), None);
    }
}
