//! What no cache of the tail can exceed: one that knows the future.
//!
//! For hits it keeps the blocks that are read again soonest, and takes nothing in that is never
//! read again (Belady, IBM Systems Journal 5(2), 1966; with the choice not to keep a block at all).
//! It has the memory and the SSD as one.
//!
//! ```text
//! room for one:   write a   write b   read b   read a   read a
//! kept behind it  a         b         -        a        -
//! hit                                 yes      no       yes
//! ```
//!
//! For the SSD's life it has the memory alone, and keeps there the blocks that are overwritten
//! soonest: each is an interval from its write to its end, and of intervals of which only so many
//! may overlap the most are kept by dropping the one that ends last.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_store::BLOCK_BYTES;
use evenkeel_store::cache::Hits;

use super::caches::CacheSizes;
use super::published::Found;

const BLOCK: u64 = BLOCK_BYTES as u64;
const NEVER: u32 = u32::MAX;

/// A read or a write of a block of the tail.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    Read(u32),
    /// The block at this address, instead of that which the client had at the other.
    Write(u32, Option<u32>),
}

/// What such a cache does with a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Best {
    /// Reads of the tail that it serves, by steps like those of [`super::caches::replay`]; its hits
    /// count as memory's.
    pub by_step: Vec<Hits>,
    /// Blocks that it writes to the SSD if it keeps in memory what is overwritten soonest, and
    /// nothing else.
    pub flash_written: u64,
}

/// What a cache could do that has room for everything and takes in what is read, but nothing that
/// was only written: reads of what was read before. The others are of what nobody had asked for
/// when it left the memory, so that nothing told it from what is never read.
pub(super) fn read_before(accesses: &[Access], sizes: &CacheSizes) -> Vec<Hits> {
    let mut read = BTreeSet::new();
    let mut steps = Steps::new(sizes);
    for access in accesses {
        match *access {
            Access::Read(key) if read.insert(key) => steps.read(Found::Nowhere),
            Access::Read(_) => steps.read(Found::Memory),
            Access::Write(..) => steps.write(),
        }
    }
    steps.finished()
}

/// What a cache of these sizes could do at best.
pub(super) fn best(accesses: &[Access], sizes: &CacheSizes) -> Best {
    let written = accesses.iter().filter(|access| matches!(access, Access::Write(..))).count();
    let deaths = most_deaths(accesses, sizes.memory_bytes / BLOCK);
    Best { by_step: most_hits(accesses, sizes), flash_written: written as u64 - deaths }
}

fn most_hits(accesses: &[Access], sizes: &CacheSizes) -> Vec<Hits> {
    let next = next_uses(accesses, |access| match access {
        Access::Read(key) => Some(key),
        Access::Write(..) => None,
    });
    let capacity = (sizes.memory_bytes + sizes.flash_bytes) / BLOCK;
    let mut kept = Kept::default();
    let mut steps = Steps::new(sizes);
    for (access, next) in accesses.iter().zip(next) {
        let key = access.key();
        let was_kept = kept.take(key);
        if next != NEVER {
            kept.put(key, next, capacity);
        }
        match access {
            Access::Read(_) => steps.read(if was_kept { Found::Memory } else { Found::Nowhere }),
            Access::Write(..) => steps.write(),
        }
    }
    steps.finished()
}

fn most_deaths(accesses: &[Access], capacity: u64) -> u64 {
    let ends = next_uses(accesses, |access| match access {
        Access::Write(_, before) => before,
        Access::Read(_) => None,
    });
    let mut kept = Kept::default();
    let mut deaths = 0;
    for (access, end) in accesses.iter().zip(ends) {
        let Access::Write(key, before) = *access else { continue };
        deaths += u64::from(before.is_some_and(|before| kept.take(before)));
        if end != NEVER {
            kept.put(key, end, capacity);
        }
    }
    deaths
}

/// The index of the next access at which each access's block is used, if `used` tells which block
/// that is at any.
fn next_uses(accesses: &[Access], used: impl Fn(Access) -> Option<u32>) -> Vec<u32> {
    let keys = accesses.iter().map(|access| access.key() + 1).max().unwrap_or(0);
    let mut later = vec![NEVER; keys as usize];
    let mut next = vec![NEVER; accesses.len()];
    for (index, &access) in accesses.iter().enumerate().rev() {
        next[index] = later[access.key() as usize];
        if let Some(key) = used(access) {
            later[key as usize] = u32::try_from(index).expect("a drive bounds accesses");
        }
    }
    next
}

impl Access {
    fn key(self) -> u32 {
        match self {
            Self::Read(key) | Self::Write(key, _) => key,
        }
    }
}

/// Hits, step by step.
pub(super) struct Steps {
    step_blocks: u64,
    written: u64,
    hits: Hits,
    by_step: Vec<Hits>,
}

impl Steps {
    pub(super) fn new(sizes: &CacheSizes) -> Self {
        let step_blocks = sizes.step_bytes / BLOCK;
        Self { step_blocks, written: 0, hits: Hits::default(), by_step: Vec::new() }
    }

    pub(super) fn read(&mut self, found: Found) {
        match found {
            Found::Memory => self.hits.memory += 1,
            Found::Flash => self.hits.flash += 1,
            Found::Nowhere => self.hits.misses += 1,
        }
    }

    pub(super) fn write(&mut self) {
        self.written += 1;
        if self.written.is_multiple_of(self.step_blocks) {
            self.by_step.push(std::mem::take(&mut self.hits));
        }
    }

    /// Those of whole steps.
    pub(super) fn finished(self) -> Vec<Hits> {
        self.by_step
    }
}

/// The blocks in the cache, by when they are used next.
#[derive(Debug, Default)]
struct Kept {
    by_next: BTreeSet<(u32, u32)>,
    next: BTreeMap<u32, u32>,
}

impl Kept {
    /// Takes a block out; whether it was there.
    fn take(&mut self, key: u32) -> bool {
        let next = self.next.remove(&key);
        next.is_some_and(|next| self.by_next.remove(&(next, key)))
    }

    fn put(&mut self, key: u32, next: u32, capacity: u64) {
        self.by_next.insert((next, key));
        self.next.insert(key, next);
        if self.by_next.len() as u64 > capacity
            && let Some((_, last)) = self.by_next.pop_last()
        {
            self.next.remove(&last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_BLOCK: CacheSizes =
        CacheSizes { memory_bytes: BLOCK, flash_bytes: 0, step_bytes: 3 * BLOCK, steps: 1 };

    #[test]
    fn the_example_has_two_hits_of_three() {
        use Access::{Read, Write};
        let accesses = [Write(0, None), Write(1, None), Read(1), Read(0), Read(0), Write(2, None)];
        let best = best(&accesses, &ONE_BLOCK);
        assert_eq!(best.by_step, [Hits { memory: 2, flash: 0, misses: 1 }]);
    }

    #[test]
    fn only_what_was_read_before_could_be_told_from_what_is_never_read() {
        use Access::{Read, Write};
        let accesses = [Write(0, None), Read(0), Write(1, None), Read(1), Read(0), Write(2, None)];
        let again = read_before(&accesses, &ONE_BLOCK);
        assert_eq!(again, [Hits { memory: 1, flash: 0, misses: 2 }]);
    }

    #[test]
    fn with_room_for_one_the_blocks_that_are_overwritten_soonest_die_in_memory() {
        // Blocks a, b, b, c, c, a, a.
        let before = [None, None, Some(1), None, Some(3), Some(0), Some(5)];
        let accesses: Vec<Access> =
            (0..).zip(before).map(|(key, before)| Access::Write(key, before)).collect();
        // b and c die at once, and a the second time: the first one would take their room.
        assert_eq!(best(&accesses, &ONE_BLOCK).flash_written, 7 - 3);
    }
}
