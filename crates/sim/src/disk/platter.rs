//! The medium: bytes by address, and the sectors that cannot be read.
//!
//! Only what was written takes memory. A 4 KiB block that repeats eight bytes (a version's stamp,
//! say) takes as many; a block of zeroes takes none; and blocks are shared between copies of a
//! platter, so that a test may keep the state of every instant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::command::DiskError;

/// The unit in which content is kept, and the physical sector of present drives.
pub const BLOCK_BYTES: u64 = 4096;
/// The smallest unit that a drive writes as a whole.
pub const SECTOR_BYTES: u64 = 512;

const BLOCK: usize = 4096;
const STAMP: usize = 8;

/// Sparse content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Platter {
    blocks: BTreeMap<u64, Block>,
    unreadable: BTreeSet<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Block {
    /// Eight bytes, over and over.
    Stamp([u8; STAMP]),
    Bytes(Arc<[u8; BLOCK]>),
}

impl Block {
    /// The shortest form; `None` for zeroes, which are not kept at all.
    fn of(bytes: &[u8; BLOCK]) -> Option<Self> {
        let stamp: [u8; STAMP] = bytes[..STAMP].try_into().expect("eight bytes of a block");
        if bytes[STAMP..] != bytes[..BLOCK - STAMP] {
            return Some(Self::Bytes(Arc::new(*bytes)));
        }
        (stamp != [0; STAMP]).then_some(Self::Stamp(stamp))
    }

    fn copy_to(&self, from: usize, buffer: &mut [u8]) {
        match self {
            Self::Bytes(bytes) => buffer.copy_from_slice(&bytes[from..from + buffer.len()]),
            Self::Stamp(stamp) => {
                let repeated = stamp.iter().cycle().skip(from % STAMP);
                buffer.iter_mut().zip(repeated).for_each(|(to, byte)| *to = *byte);
            }
        }
    }
}

impl Platter {
    /// Fills `buffer` with what stands at `offset`; zeroes where nothing was written.
    ///
    /// # Errors
    /// [`DiskError::Unreadable`] with the first sector that has gone bad.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let sectors = offset / SECTOR_BYTES..(offset + length(buffer)).div_ceil(SECTOR_BYTES);
        if let Some(sector) = self.unreadable.range(sectors).next() {
            return Err(DiskError::Unreadable { offset: sector * SECTOR_BYTES });
        }
        for piece in pieces(offset, length(buffer)) {
            let part = &mut buffer[piece.range()];
            match self.blocks.get(&piece.block) {
                Some(block) => block.copy_to(piece.within, part),
                None => part.fill(0),
            }
        }
        Ok(())
    }

    /// Writes `bytes` at `offset`; sectors that are written whole become readable again.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for piece in pieces(offset, length(bytes)) {
            self.write_block(piece.block, piece.within, &bytes[piece.range()]);
        }
        self.heal(offset, length(bytes));
    }

    /// Writes zeroes, which frees the memory of whole blocks.
    pub fn zero(&mut self, offset: u64, length_bytes: u64) {
        for piece in pieces(offset, length_bytes) {
            if piece.length == BLOCK {
                self.blocks.remove(&piece.block);
            } else {
                self.write_block(piece.block, piece.within, &[0; BLOCK][..piece.length]);
            }
        }
        self.heal(offset, length_bytes);
    }

    /// Makes the sectors of a range unreadable until they are written again.
    pub fn ruin(&mut self, offset: u64, length_bytes: u64) {
        let end = (offset + length_bytes).div_ceil(SECTOR_BYTES);
        self.unreadable.extend(offset / SECTOR_BYTES..end);
    }

    /// Turns one bit over: silent damage. `bit` counts from the byte at `offset`.
    pub fn rot(&mut self, offset: u64, bit: u64) {
        let at = offset + bit / 8;
        let mut byte = [0];
        let block = self.blocks.get(&(at / BLOCK_BYTES));
        if let Some(block) = block {
            block.copy_to(within(at), &mut byte);
        }
        self.write_block(at / BLOCK_BYTES, within(at), &[byte[0] ^ (1 << (bit % 8))]);
    }

    /// How many blocks hold anything but zeroes.
    pub fn occupied_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The byte offset of the occupied block after `skip` others, by address.
    pub fn occupied_block(&self, skip: usize) -> Option<u64> {
        self.blocks.keys().nth(skip).map(|block| block * BLOCK_BYTES)
    }

    fn write_block(&mut self, block: u64, within: usize, bytes: &[u8]) {
        let mut content = [0; BLOCK];
        if bytes.len() < BLOCK
            && let Some(old) = self.blocks.get(&block)
        {
            old.copy_to(0, &mut content);
        }
        content[within..within + bytes.len()].copy_from_slice(bytes);
        match Block::of(&content) {
            Some(new) => drop(self.blocks.insert(block, new)),
            None => drop(self.blocks.remove(&block)),
        }
    }

    fn heal(&mut self, offset: u64, length_bytes: u64) {
        let end = (offset + length_bytes) / SECTOR_BYTES;
        for sector in offset.div_ceil(SECTOR_BYTES)..end {
            if self.unreadable.is_empty() {
                return;
            }
            self.unreadable.remove(&sector);
        }
    }

    /// Takes over the range as it stands in `other`, bad sectors left aside.
    pub(super) fn copy_from(&mut self, other: &Self, offset: u64, length_bytes: u64) {
        for piece in pieces(offset, length_bytes) {
            let mut part = [0; BLOCK];
            let part = &mut part[..piece.length];
            if let Some(block) = other.blocks.get(&piece.block) {
                block.copy_to(piece.within, part);
            }
            self.write_block(piece.block, piece.within, part);
        }
    }
}

/// The part of a range that lies in one block.
struct Piece {
    block: u64,
    /// First byte within the block.
    within: usize,
    length: usize,
    /// First byte within the range.
    start: usize,
}

impl Piece {
    fn range(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.length
    }
}

fn pieces(offset: u64, length_bytes: u64) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done;
        let left = length_bytes - done;
        let piece_bytes = left.min(BLOCK_BYTES - at % BLOCK_BYTES);
        let start = index(done);
        done += piece_bytes;
        let (block, within, length) = (at / BLOCK_BYTES, within(at), index(piece_bytes));
        (left > 0).then_some(Piece { block, within, length, start })
    })
}

fn within(offset: u64) -> usize {
    index(offset % BLOCK_BYTES)
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a command's bytes are in memory")
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("a length fits 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::prng::Prng;
    use proptest::prelude::*;

    fn content(platter: &Platter, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0xEE; length];
        platter.read(offset, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn zeroes_take_no_memory_and_equal_what_was_never_written() {
        let mut platter = Platter::default();
        platter.write(4096, &[7; 8192]);
        assert_eq!(platter.occupied_blocks(), 2);
        platter.write(4096, &[0; 4096]);
        platter.zero(8192, 4096);
        assert_eq!(platter, Platter::default());
    }

    #[test]
    fn a_stamp_that_repeats_reads_back_at_any_place() {
        let bytes: Vec<u8> = (0..8).cycle().take(4096).collect();
        let mut platter = Platter::default();
        platter.write(0, &bytes);
        assert!(matches!(platter.blocks[&0], Block::Stamp(_)));
        assert_eq!(content(&platter, 13, 100), bytes[13..113]);
        platter.write(512, &[9]);
        assert_eq!(content(&platter, 510, 4), [6, 7, 9, 1]);
    }

    #[test]
    fn a_ruined_sector_is_an_error_until_it_is_written_whole() {
        let mut platter = Platter::default();
        platter.write(0, &[5; 4096]);
        platter.ruin(1024, 512);
        let bad = Err(DiskError::Unreadable { offset: 1024 });
        assert_eq!(platter.read(0, &mut [0; 4096]), bad);
        assert_eq!(content(&platter, 0, 1024), [5; 1024]);
        platter.write(1024, &[6; 100]);
        assert_eq!(platter.read(1500, &mut [0; 1]), bad, "a part does not heal");
        platter.write(1024, &[6; 512]);
        assert_eq!(content(&platter, 1024, 1024)[510..514], [6, 6, 5, 5]);
    }

    #[test]
    fn rot_turns_one_bit_over() {
        let mut platter = Platter::default();
        platter.rot(4096, 8 * 5 + 1);
        assert_eq!(content(&platter, 4096, 8), [0, 0, 0, 0, 0, 2, 0, 0]);
        platter.rot(4096, 8 * 5 + 1);
        assert_eq!(platter, Platter::default());
    }

    proptest! {
        #[test]
        fn a_platter_is_an_array_of_bytes(seed in any::<u64>()) {
            let mut prng = Prng::new(seed);
            let mut plain = vec![0u8; 40_000];
            let mut platter = Platter::default();
            for _ in 0..60 {
                let offset = prng.below(38_000);
                let length = usize::try_from(prng.below(40_000 - offset)).unwrap();
                let at = usize::try_from(offset).unwrap();
                let byte = u8::try_from(prng.below(3)).unwrap();
                if prng.below(4) == 0 {
                    plain[at..at + length].fill(0);
                    platter.zero(offset, length as u64);
                } else {
                    plain[at..at + length].fill(byte);
                    platter.write(offset, &vec![byte; length]);
                }
                prop_assert_eq!(&content(&platter, offset, length), &plain[at..at + length]);
            }
            prop_assert_eq!(content(&platter, 0, 40_000), plain);
        }
    }
}
