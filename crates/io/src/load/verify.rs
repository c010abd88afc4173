//! Content that proves where and when it was written.
//!
//! The range is cut into blocks. A block of generation `g` at offset `o` holds
//!
//! ```text
//! "EVENKEEL" | seed u64 | offset u64 | generation u64 | pseudo-random words of (seed, o, g)
//! ```
//!
//! so that a stale, misplaced or torn block is told apart from a right one, and from each other.
//! The ledger in memory knows the generation of each block. A request claims its range while it is
//! under way, so that no two overlap; after a write that failed its blocks may hold either
//! generation, and are not checked until they are written again.

use std::ops::Range;

use evenkeel_core::prng::Prng;

use super::report::Verification;

/// The smallest block: header and one word.
pub(super) const BLOCK_BYTES_MIN: u64 = 512;
/// The customary block.
const BLOCK_BYTES_MAX: u64 = 4096;

const MAGIC: [u8; 8] = *b"EVENKEEL";

/// State of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// Whatever was there before.
    Unwritten,
    /// Holds this generation.
    Known { generation: u32 },
    /// Holds this generation or an earlier one: its write is under way or has failed.
    Doubtful { generation: u32 },
}

/// What one client wrote where.
#[derive(Debug)]
pub(super) struct Ledger {
    seed: u64,
    base: u64,
    block_bytes: u64,
    blocks: Vec<Block>,
    claims: Vec<Range<u64>>,
    found: Verification,
}

/// The block size for requests of these sizes: all of them must be multiples of it.
pub(super) fn block_bytes(sizes: impl Iterator<Item = u32>) -> u64 {
    let mut block_bytes = BLOCK_BYTES_MAX;
    for size in sizes {
        while !u64::from(size).is_multiple_of(block_bytes) {
            block_bytes /= 2;
        }
    }
    block_bytes
}

impl Ledger {
    /// The ledger of `length` bytes from `base` on.
    pub(super) fn new(seed: u64, base: u64, length: u64, block_bytes: u64) -> Self {
        let count = usize::try_from(length / block_bytes).expect("an export's blocks fit memory");
        let found = Verification::default();
        let blocks = vec![Block::Unwritten; count];
        Self { seed, base, block_bytes, blocks, claims: Vec::new(), found }
    }

    /// Claims a range for a request. False if one that overlaps is under way. O(requests).
    pub(super) fn claim(&mut self, offset: u64, length: u64) -> bool {
        let range = offset..offset + length;
        if range.is_empty() {
            return true;
        }
        let free =
            self.claims.iter().all(|other| other.end <= range.start || range.end <= other.start);
        if free {
            self.claims.push(range);
        }
        free
    }

    /// The request that claimed this range has ended.
    pub(super) fn release(&mut self, offset: u64, length: u64) {
        let range = offset..offset + length;
        if let Some(index) = self.claims.iter().position(|claim| *claim == range) {
            self.claims.swap_remove(index);
        }
    }

    /// Fills `payload` with new generations for `offset`.
    pub(super) fn start_write(&mut self, offset: u64, payload: &mut [u8]) {
        let range = self.indices(offset, payload.len() as u64);
        let chunks = payload.chunks_exact_mut(self.block_size());
        for (index, chunk) in range.zip(chunks) {
            let generation = match self.blocks[index] {
                Block::Unwritten => 1,
                Block::Known { generation } | Block::Doubtful { generation } => generation + 1,
            };
            self.blocks[index] = Block::Doubtful { generation };
            fill(chunk, self.seed, self.offset_of(index), generation);
        }
    }

    /// A write was acknowledged.
    pub(super) fn end_write(&mut self, offset: u64, length: u64) {
        for index in self.indices(offset, length) {
            if let Block::Doubtful { generation } = self.blocks[index] {
                self.blocks[index] = Block::Known { generation };
            }
        }
    }

    /// Compares what was read at `offset` with what was written there. Blocks of unknown content
    /// are passed over.
    pub(super) fn check(&mut self, offset: u64, data: &[u8]) {
        let mut expected = vec![0; self.block_size()];
        for (index, chunk) in
            self.indices(offset, data.len() as u64).zip(data.chunks_exact(self.block_size()))
        {
            let Block::Known { generation } = self.blocks[index] else { continue };
            fill(&mut expected, self.seed, self.offset_of(index), generation);
            self.found.blocks_checked += 1;
            if chunk != expected {
                self.found.blocks_wrong += 1;
                let at = self.offset_of(index);
                let what = || describe(chunk, self.seed, at, generation);
                self.found.first_wrong.get_or_insert_with(what);
            }
        }
    }

    /// The written ranges, each at most `length_max` bytes, in order.
    pub(super) fn written(&self, length_max: u64) -> Vec<(u64, u32)> {
        let mut ranges: Vec<(u64, u32)> = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            if !matches!(block, Block::Known { .. }) {
                continue;
            }
            let offset = self.offset_of(index);
            let block_bytes = u32::try_from(self.block_bytes).expect("at most 4096");
            match ranges.last_mut() {
                Some((start, length))
                    if *start + u64::from(*length) == offset
                        && u64::from(*length) + self.block_bytes <= length_max =>
                {
                    *length += block_bytes;
                }
                _ => ranges.push((offset, block_bytes)),
            }
        }
        ranges
    }

    /// What was found.
    pub(super) fn found(&self) -> &Verification {
        &self.found
    }

    fn block_size(&self) -> usize {
        usize::try_from(self.block_bytes).expect("at most 4096")
    }

    fn indices(&self, offset: u64, length: u64) -> Range<usize> {
        let index = |at: u64| {
            usize::try_from((at - self.base) / self.block_bytes).expect("a block in memory")
        };
        index(offset)..index(offset + length)
    }

    fn offset_of(&self, index: usize) -> u64 {
        self.base + index as u64 * self.block_bytes
    }
}

fn fill(block: &mut [u8], seed: u64, offset: u64, generation: u32) {
    let generation = u64::from(generation);
    let header = [seed, offset, generation];
    block[..8].copy_from_slice(&MAGIC);
    for (word, chunk) in header.iter().zip(block[8..32].chunks_exact_mut(8)) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    let mut prng = Prng::new(seed ^ offset.rotate_left(20) ^ generation.rotate_left(50));
    for chunk in block[32..].chunks_exact_mut(8) {
        chunk.copy_from_slice(&prng.next_u64().to_be_bytes());
    }
}

fn describe(block: &[u8], seed: u64, offset: u64, generation: u32) -> String {
    let word = |index: usize| {
        let bytes = block[index * 8..index * 8 + 8].try_into().expect("eight bytes");
        u64::from_be_bytes(bytes)
    };
    let story = if block[..8] != MAGIC {
        "holds what was never written there".to_owned()
    } else if word(1) != seed {
        "holds a block of another run".to_owned()
    } else if word(2) != offset {
        format!("holds the block of offset {}", word(2))
    } else if word(3) != u64::from(generation) {
        format!("holds generation {}", word(3))
    } else {
        "is torn: its header is right, its content is not".to_owned()
    };
    format!("block at offset {offset} of generation {generation} {story}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(ledger: &mut Ledger, offset: u64) -> Vec<u8> {
        let mut data = vec![0; 8192];
        ledger.start_write(offset, &mut data);
        ledger.end_write(offset, 8192);
        data
    }

    #[test]
    fn what_was_written_passes_and_every_kind_of_damage_is_named() {
        let mut ledger = Ledger::new(7, 4096, 65_536, 4096);
        let old = written(&mut ledger, 8192);
        let new = written(&mut ledger, 8192);
        let other = written(&mut ledger, 16_384);
        ledger.check(8192, &new);
        assert_eq!((ledger.found().blocks_checked, ledger.found().blocks_wrong), (2, 0));

        let mut torn = new.clone();
        torn[4000] ^= 1;
        let damage = [
            (old, "holds generation 1"),
            (other, "holds the block of offset 16384"),
            (vec![0; 8192], "never written"),
            (torn, "is torn"),
        ];
        for (data, story) in damage {
            ledger.found = Verification::default();
            ledger.check(8192, &data);
            let found = ledger.found().first_wrong.clone().unwrap();
            assert!(found.contains(story), "{found}");
        }
    }

    #[test]
    fn requests_that_overlap_wait_for_each_other() {
        let mut ledger = Ledger::new(7, 0, 65_536, 4096);
        assert!(ledger.claim(4096, 8192));
        assert!(!ledger.claim(8192, 4096));
        assert!(ledger.claim(12_288, 4096));
        assert!(ledger.claim(0, 0), "a flush is in nobody's way");
        ledger.release(4096, 8192);
        assert!(ledger.claim(0, 12_288));
    }

    #[test]
    fn blocks_of_a_write_that_was_not_acknowledged_are_not_checked() {
        let mut ledger = Ledger::new(7, 0, 65_536, 4096);
        ledger.start_write(0, &mut [0; 4096]);
        ledger.check(0, &[0; 8192]);
        assert_eq!(ledger.found().blocks_checked, 0);
    }

    #[test]
    fn written_ranges_are_joined_up_to_the_limit() {
        let mut ledger = Ledger::new(7, 0, 65_536, 4096);
        written(&mut ledger, 0);
        written(&mut ledger, 8192);
        written(&mut ledger, 32_768);
        assert_eq!(ledger.written(12_288), [(0, 12_288), (12_288, 4096), (32_768, 8192)]);
    }

    #[test]
    fn blocks_divide_every_size() {
        assert_eq!(block_bytes([4096, 65_536].into_iter()), 4096);
        assert_eq!(block_bytes([512, 65_536].into_iter()), 512);
        assert_eq!(block_bytes([1000].into_iter()), 8);
    }
}
