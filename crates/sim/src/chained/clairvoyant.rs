//! What no cache of the tail can exceed: one that knows the future.
//!
//! It keeps the blocks that are read again soonest, and takes nothing in that is never read again
//! (Belady, IBM Systems Journal 5(2), 1966; with the choice not to keep a block at all). It has the
//! memory and the SSD as one, and all of it for the tail.
//!
//! ```text
//! room for one:   write a   write b   read b   read a   read a
//! kept behind it  a         b         -        a        -
//! hit                                 yes      no       yes
//! ```

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ticket::Kind;
use evenkeel_store::BLOCK_BYTES;
use evenkeel_store::cache::Hits;
use evenkeel_trace::Record;

use super::caches::CacheSizes;

const BLOCK: u64 = BLOCK_BYTES as u64;
const NEVER: u32 = u32::MAX;

/// A read or a write of a block of the tail.
#[derive(Clone, Copy, Debug)]
struct Access {
    key: u32,
    is_read: bool,
}

/// Reads of the tail that such a cache serves, by steps like those of [`super::caches::replay`];
/// its hits count as memory's.
pub fn best(records: impl Iterator<Item = (usize, Record)>, sizes: &CacheSizes) -> Vec<Hits> {
    let accesses = accesses(records, sizes);
    let next = next_reads(&accesses);
    let capacity = (sizes.memory_bytes + sizes.flash_bytes) / BLOCK;
    let mut kept = Kept::default();
    let (mut by_step, mut hits, mut writes) = (Vec::new(), Hits::default(), 0);
    for (access, next) in accesses.iter().zip(next) {
        let was_kept = kept.take(access.key);
        if access.is_read {
            hits.memory += u64::from(was_kept);
            hits.misses += u64::from(!was_kept);
        } else {
            writes += 1;
        }
        if next != NEVER {
            kept.put(access.key, next, capacity);
        }
        if !access.is_read && writes * BLOCK / sizes.step_bytes > by_step.len() as u64 {
            by_step.push(std::mem::take(&mut hits));
        }
    }
    by_step
}

/// The accesses to the tail until its drive is full.
fn accesses(records: impl Iterator<Item = (usize, Record)>, sizes: &CacheSizes) -> Vec<Access> {
    let most = sizes.step_bytes * u64::from(sizes.steps) / BLOCK;
    let mut map = BTreeMap::new();
    let mut accesses = Vec::new();
    let mut head = 0_u32;
    for (trace, record) in records {
        for block in record.offset / BLOCK..(record.offset + record.length).div_ceil(BLOCK) {
            let place = (trace, record.source.0, block);
            match record.kind {
                Kind::Read => {
                    let key = map.get(&place).copied();
                    accesses.extend(key.map(|key| Access { key, is_read: true }));
                }
                Kind::Write | Kind::WriteZeroes => {
                    map.insert(place, head);
                    accesses.push(Access { key: head, is_read: false });
                    head += 1;
                }
                Kind::Flush | Kind::Trim | Kind::Cache => {}
            }
        }
        if u64::from(head) >= most {
            break;
        }
    }
    accesses
}

/// When each access's block is read next, as an index.
fn next_reads(accesses: &[Access]) -> Vec<u32> {
    let keys = accesses.iter().map(|access| access.key + 1).max().unwrap_or(0);
    let mut later = vec![NEVER; keys as usize];
    let mut next = vec![NEVER; accesses.len()];
    for (index, access) in accesses.iter().enumerate().rev() {
        next[index] = later[access.key as usize];
        if access.is_read {
            later[access.key as usize] = u32::try_from(index).expect("a drive bounds accesses");
        }
    }
    next
}

/// The blocks in the cache, by when they are read next.
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
    use evenkeel_core::time::Nanos;
    use evenkeel_trace::SourceId;

    use super::*;

    #[test]
    fn the_example_has_two_hits_of_three() {
        let record = |kind, block: u64| Record {
            at: Nanos::ZERO,
            source: SourceId(0),
            kind,
            offset: block * BLOCK,
            length: BLOCK,
            response: None,
        };
        let (write, read) = (Kind::Write, Kind::Read);
        let records =
            [(write, 1), (write, 2), (read, 2), (read, 1), (read, 1), (write, 3), (write, 4)];
        let records = records.map(|(kind, block)| (0, record(kind, block)));
        let sizes =
            CacheSizes { memory_bytes: BLOCK, flash_bytes: 0, step_bytes: 3 * BLOCK, steps: 1 };
        let hits = best(records.into_iter(), &sizes);
        assert_eq!(hits, [Hits { memory: 2, flash: 0, misses: 1 }]);
    }
}
