//! What lies on a drive of hundreds of gigabytes, in little memory.
//!
//! Throughput needs the store's headers as they are, and of the clients' data no more than what
//! makes the checksums come out right. So a block that repeats one word of eight bytes, as the
//! experiments write them, is kept as that word; any other block as its bytes, without the zeroes
//! at its end.
//!
//! ```text
//! 4 KiB of 0x1122334455667788, 512 times  ->  one word
//! a header of 150 bytes, then zeroes      ->  150 bytes
//! ```

use std::collections::BTreeMap;

const BLOCK: usize = 4096;
const WORD: usize = 8;

/// Blocks of a page, so that neighbours cost one search.
const PAGE: u64 = 256;

/// The content of a drive, by block.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    /// Rows of [`PAGE`] blocks each.
    pages: BTreeMap<u64, Vec<Block>>,
}

#[derive(Clone, Debug)]
enum Block {
    Word([u8; WORD]),
    Bytes(Box<[u8]>),
}

const ZEROES: Block = Block::Word([0; WORD]);

impl Stamps {
    /// A drive of zeroes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes whole blocks from block `first` on.
    pub fn write(&mut self, first: u64, bytes: &[u8]) {
        assert!(bytes.len().is_multiple_of(BLOCK), "whole blocks are written");
        let mut blocks = bytes.chunks_exact(BLOCK);
        for (page, range) in pages(first, bytes.len() / BLOCK) {
            let page = self.pages.entry(page).or_insert_with(|| vec![ZEROES; page_length()]);
            for (place, block) in page[range].iter_mut().zip(&mut blocks) {
                *place = Block::of(block);
            }
        }
    }

    /// Fills `bytes`, of whole blocks, from block `first` on.
    pub fn read(&self, first: u64, bytes: &mut [u8]) {
        assert!(bytes.len().is_multiple_of(BLOCK), "whole blocks are read");
        let count = bytes.len() / BLOCK;
        let mut targets = bytes.chunks_exact_mut(BLOCK);
        for (page, range) in pages(first, count) {
            let here = targets.by_ref().take(range.len());
            match self.pages.get(&page) {
                Some(page) => here.zip(&page[range]).for_each(|(to, block)| block.put(to)),
                None => here.for_each(|to| to.fill(0)),
            }
        }
    }

    /// Forgets blocks: they read as zeroes.
    pub fn discard(&mut self, first: u64, count: usize) {
        for (number, range) in pages(first, count) {
            if range.len() == page_length() {
                self.pages.remove(&number);
            } else if let Some(page) = self.pages.get_mut(&number) {
                page[range].fill(ZEROES);
            }
        }
    }
}

/// The pages of some blocks, with the part of each.
fn pages(first: u64, count: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let (mut at, end) = (first, first + count as u64);
    std::iter::from_fn(move || {
        let page = at / PAGE;
        let stop = ((page + 1) * PAGE).min(end);
        let within = |block: u64| usize::try_from(block - page * PAGE).expect("within a page");
        let range = within(at)..within(stop.max(at));
        at = stop;
        (!range.is_empty()).then_some((page, range))
    })
}

fn page_length() -> usize {
    usize::try_from(PAGE).expect("a page is short")
}

impl Block {
    fn of(bytes: &[u8]) -> Self {
        // Equal to itself one word further on: the word repeats.
        if bytes[WORD..] == bytes[..BLOCK - WORD] {
            return Self::Word(bytes[..WORD].try_into().expect("a block has a first word"));
        }
        let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Self::Bytes(bytes[..length].into())
    }

    fn put(&self, target: &mut [u8]) {
        match self {
            Self::Word(word) => {
                target.chunks_exact_mut(WORD).for_each(|to| to.copy_from_slice(word));
            }
            Self::Bytes(bytes) => {
                let (head, rest) = target.split_at_mut(bytes.len());
                head.copy_from_slice(bytes);
                rest.fill(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_written_is_read_again() {
        let mut stamps = Stamps::new();
        let mut bytes = vec![0; 4 * BLOCK];
        bytes[..BLOCK].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8].repeat(BLOCK / WORD));
        bytes[BLOCK..BLOCK + 3].copy_from_slice(&[7, 0, 9]);
        bytes[4 * BLOCK - 1] = 1;
        // Over the end of a page.
        stamps.write(254, &bytes);
        let mut read = vec![0xff; 6 * BLOCK];
        stamps.read(253, &mut read);
        assert_eq!(read[BLOCK..5 * BLOCK], bytes);
        assert!(read[..BLOCK].iter().chain(&read[5 * BLOCK..]).all(|byte| *byte == 0));
    }

    #[test]
    fn what_was_discarded_reads_as_zeroes() {
        let mut stamps = Stamps::new();
        stamps.write(0, &[1; 4 * BLOCK]);
        stamps.discard(1, 2);
        let mut read = vec![0xff; 4 * BLOCK];
        stamps.read(0, &mut read);
        assert!(read[..BLOCK].iter().chain(&read[3 * BLOCK..]).all(|byte| *byte == 1));
        assert!(read[BLOCK..3 * BLOCK].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn repeated_words_take_no_payload() {
        let mut stamps = Stamps::new();
        stamps.write(0, &[5; BLOCK]);
        assert!(matches!(stamps.pages[&0][0], Block::Word([5, 5, 5, 5, 5, 5, 5, 5])));
    }
}
