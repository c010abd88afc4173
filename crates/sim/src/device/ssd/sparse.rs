//! A table of 32-bit numbers that takes memory for what was written, not for what it could hold.
//!
//! ```text
//! chunk   65,536 entries: nothing but a common value, or 1024 groups
//! group       64 entries: a bitmap of those that differ from the common value, and these, packed
//!
//! entry i of a group: bit i unset -> the chunk's common value
//!                     bit i set   -> packed[number of bits set below i]
//! ```
//!
//! A table of 64 million entries costs 16 KB untouched, some 50 MB after a million writes at random
//! places, and 6 bytes per entry when full. Both operations take O(1), a write up to 63 moves.

const GROUP: usize = 64;
const CHUNK: usize = 1 << 16;

/// The table. See the [module](self).
#[derive(Clone, Debug)]
pub struct SparseMap {
    chunks: Vec<Chunk>,
}

#[derive(Clone, Debug)]
struct Chunk {
    common: Option<u32>,
    groups: Option<Box<[Group]>>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    bitmap: u64,
    packed: Vec<u32>,
}

impl SparseMap {
    /// `length` entries, each `None`.
    pub fn new(length: u32) -> Self {
        let chunks = (length as usize).div_ceil(CHUNK);
        Self { chunks: vec![Chunk { common: None, groups: None }; chunks] }
    }

    /// The entry at `index`, which lies within the table.
    pub fn at(&self, index: u32) -> Option<u32> {
        let (chunk, group, bit) = split(index);
        let chunk = &self.chunks[chunk];
        let Some(groups) = &chunk.groups else { return chunk.common };
        let group = &groups[group];
        if group.bitmap & (1 << bit) == 0 {
            return chunk.common;
        }
        Some(group.packed[group.rank(bit)])
    }

    /// Sets the entry at `index`; there is no way back to `None`.
    pub fn set(&mut self, index: u32, value: u32) {
        let (chunk, group, bit) = split(index);
        let groups = self.chunks[chunk]
            .groups
            .get_or_insert_with(|| vec![Group::default(); CHUNK / GROUP].into_boxed_slice());
        groups[group].set(bit, value);
    }

    /// Sets `first..end`; whole chunks in it fall back to a common value and free their memory.
    pub fn fill(&mut self, first: u32, end: u32, value: u32) {
        let mut index = first as usize;
        while index < end as usize {
            let chunk_end = (index / CHUNK + 1) * CHUNK;
            if index.is_multiple_of(CHUNK) && chunk_end <= end as usize {
                self.chunks[index / CHUNK] = Chunk { common: Some(value), groups: None };
                index = chunk_end;
            } else {
                self.set(u32::try_from(index).expect("below `end`, which is 32 bits"), value);
                index += 1;
            }
        }
    }
}

impl Group {
    fn rank(&self, bit: u32) -> usize {
        (self.bitmap & ((1 << bit) - 1)).count_ones() as usize
    }

    fn set(&mut self, bit: u32, value: u32) {
        let rank = self.rank(bit);
        if self.bitmap & (1 << bit) != 0 {
            self.packed[rank] = value;
            return;
        }
        if self.packed.len() == self.packed.capacity() {
            // Doubling would waste a third of the memory of a full table.
            self.packed.reserve_exact((self.packed.len() / 4).max(2));
        }
        self.bitmap |= 1 << bit;
        self.packed.insert(rank, value);
    }
}

fn split(index: u32) -> (usize, usize, u32) {
    let index = index as usize;
    let bit = u32::try_from(index % GROUP).expect("below 64");
    (index / CHUNK, index % CHUNK / GROUP, bit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evenkeel_core::prng::Prng;

    use super::*;

    #[test]
    fn it_holds_what_a_plain_map_holds() {
        let mut prng = Prng::new(5);
        let (mut table, mut oracle) = (SparseMap::new(200_000), BTreeMap::new());
        let mut draw = |bound| u32::try_from(prng.below(bound)).unwrap();
        for round in 0..60_000 {
            let (index, value) = (draw(200_000), draw(1 << 32));
            if round % 10_000 == 9_999 {
                let end = index + draw(u64::from(200_000 - index));
                table.fill(index, end, value);
                oracle.extend((index..end).map(|index| (index, value)));
            } else {
                table.set(index, value);
                oracle.insert(index, value);
            }
        }
        assert!((0..200_000).all(|index| table.at(index) == oracle.get(&index).copied()));
    }

    #[test]
    fn filling_a_whole_chunk_frees_it() {
        let mut table = SparseMap::new(200_000);
        table.set(70_000, 1);
        table.fill(0, 200_000, 9);
        assert!(table.chunks[..3].iter().all(|chunk| chunk.groups.is_none()));
        assert_eq!((table.at(70_000), table.at(199_999)), (Some(9), Some(9)));
    }
}
