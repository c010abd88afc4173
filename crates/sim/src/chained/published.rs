//! The tail's cache as the talk has it: least recently used in memory, over the same on an SSD.
//!
//! ```text
//! written or read --> [ memory: LRU ] --oldest--> [ SSD: LRU ] --oldest--> nowhere
//!                           ^------------read------------'  (stays, and is not written again)
//! ```
//!
//! It is what the store's policy is held against: where a trace gives this cache fewer hits than
//! the paper reports, the trace has less to give than the paper's. Without memory all that is
//! written, and all that is read in vain, goes to the SSD at once; that is what memory is worth to
//! the SSD's life.

use std::collections::BTreeMap;

use evenkeel_store::BLOCK_BYTES;
use evenkeel_store::cache::Hits;

use super::caches::CacheSizes;
use super::clairvoyant::{Access, Steps};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Reads of the tail, by steps like those of [`super::caches::replay`].
    pub by_step: Vec<Hits>,
    /// Blocks that were written to the SSD.
    pub flash_written: u64,
}

/// Replays accesses.
pub(super) fn replay(accesses: &[Access], sizes: &CacheSizes) -> Published {
    let mut cache = TwoLevels {
        memory: Lru::new(sizes.memory_bytes / BLOCK),
        flash: Lru::new(sizes.flash_bytes / BLOCK),
        flash_written: 0,
    };
    let mut steps = Steps::new(sizes);
    for access in accesses {
        match *access {
            Access::Read(key) => steps.read(cache.read(key)),
            Access::Write(key, before) => {
                if let Some(before) = before {
                    cache.forget(before);
                }
                cache.keep(key);
                steps.write();
            }
        }
    }
    Published { by_step: steps.finished(), flash_written: cache.flash_written }
}

/// Where a block was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Memory,
    Flash,
    Nowhere,
}

struct TwoLevels {
    memory: Lru,
    flash: Lru,
    flash_written: u64,
}

impl TwoLevels {
    fn read(&mut self, key: u32) -> Found {
        if self.memory.renew(key) {
            return Found::Memory;
        }
        let is_on_flash = self.flash.renew(key);
        self.keep(key);
        if is_on_flash { Found::Flash } else { Found::Nowhere }
    }

    /// Takes a block into memory, and what leaves it to the SSD.
    fn keep(&mut self, key: u32) {
        let Some(left) = self.memory.insert(key) else { return };
        if !self.flash.renew(left) {
            self.flash.insert(left);
            self.flash_written += 1;
        }
    }

    fn forget(&mut self, key: u32) {
        self.memory.remove(key);
        self.flash.remove(key);
    }
}

/// Keys by their last use.
struct Lru {
    capacity: u64,
    clock: u64,
    used: BTreeMap<u32, u64>,
    by_use: BTreeMap<u64, u32>,
}

impl Lru {
    fn new(capacity: u64) -> Self {
        Self { capacity, clock: 0, used: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    /// Whether it is there; if so it was used just now.
    fn renew(&mut self, key: u32) -> bool {
        let is_there = self.remove(key);
        if is_there {
            self.insert(key);
        }
        is_there
    }

    /// Takes a key in that is not there; gives the one that leaves for it, which is the same one
    /// where there is no room at all.
    fn insert(&mut self, key: u32) -> Option<u32> {
        self.clock += 1;
        self.used.insert(key, self.clock);
        self.by_use.insert(self.clock, key);
        if self.by_use.len() as u64 <= self.capacity {
            return None;
        }
        let (_, left) = self.by_use.pop_first()?;
        self.used.remove(&left);
        Some(left)
    }

    fn remove(&mut self, key: u32) -> bool {
        let used = self.used.remove(&key);
        used.is_some_and(|used| self.by_use.remove(&used).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(memory_blocks: u64, accesses: &[Access]) -> Published {
        let sizes = CacheSizes {
            memory_bytes: memory_blocks * BLOCK,
            flash_bytes: 2 * BLOCK,
            step_bytes: 4 * BLOCK,
            steps: 1,
        };
        replay(accesses, &sizes)
    }

    #[test]
    fn what_leaves_memory_is_on_the_ssd_and_what_dies_before_never_was() {
        use Access::{Read, Write};
        let accesses =
            [Write(0, None), Write(1, None), Read(0), Write(2, Some(1)), Read(2), Write(3, None)];
        let outcome = played(1, &accesses);
        // 0 leaves for 1, 1 for 0 that is read from the SSD, 2 for 3; 0 is on the SSD already.
        assert_eq!(outcome.by_step, [Hits { memory: 1, flash: 1, misses: 0 }]);
        assert_eq!(outcome.flash_written, 3);
        assert_eq!(played(4, &accesses).flash_written, 0, "all of it fits");
    }

    #[test]
    fn without_memory_all_that_is_written_or_missed_goes_to_the_ssd() {
        use Access::{Read, Write};
        let writes = (0..4).map(|key| Write(key, None));
        let accesses: Vec<Access> = writes.chain([Read(0), Read(0), Read(3)]).collect();
        assert_eq!(played(0, &accesses).flash_written, 5);
    }
}
