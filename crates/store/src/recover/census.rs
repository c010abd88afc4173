//! Which addresses the leaves of a checkpoint hold, and which of them several hold.
//!
//! Leaves that differ in one block have all others in common. A bit for each block of the log says
//! that it was seen, another one that it was seen again: 64 MiB for a TiB, while the checkpoint is
//! loaded, and nothing for segments that hold no shared data.

use crate::units::{Address, SegmentId};

/// The addresses seen so far. See the [module](self).
#[derive(Debug)]
pub(super) struct Census {
    segment_blocks: u64,
    segments: Vec<Option<Seen>>,
}

#[derive(Clone, Debug)]
struct Seen {
    once: Vec<u64>,
    again: Vec<u64>,
}

impl Census {
    pub(super) fn new(segments: usize, segment_blocks: u32) -> Self {
        Self { segment_blocks: u64::from(segment_blocks), segments: vec![None; segments] }
    }

    /// Takes note of an address within the log; whether it is the first time.
    pub(super) fn note(&mut self, address: Address) -> bool {
        let (segment, word, bit) = self.place(address);
        let words = usize::try_from(self.segment_blocks.div_ceil(64)).expect("segments fit memory");
        let seen = self.segments[segment.index()]
            .get_or_insert_with(|| Seen { once: vec![0; words], again: vec![0; words] });
        let is_first = seen.once[word] & bit == 0;
        seen.once[word] |= bit;
        if !is_first {
            seen.again[word] |= bit;
        }
        is_first
    }

    /// Whether an address was noted more than once.
    pub(super) fn is_again(&self, address: Address) -> bool {
        let (segment, word, bit) = self.place(address);
        self.segments[segment.index()].as_ref().is_some_and(|seen| seen.again[word] & bit != 0)
    }

    fn place(&self, address: Address) -> (SegmentId, usize, u64) {
        let segment = u32::try_from(address.0 / self.segment_blocks).expect("within the log");
        let block = address.0 % self.segment_blocks;
        let word = usize::try_from(block / 64).expect("segments fit memory");
        (SegmentId(segment), word, 1 << (block % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_first_once_and_again_from_the_second_time_on() {
        let mut census = Census::new(3, 100);
        for address in [0, 99, 100, 163, 164, 299].map(Address) {
            assert!(census.note(address));
            assert!(!census.is_again(address));
            assert!(!census.note(address));
            assert!(census.is_again(address));
        }
        assert!(!census.is_again(Address(250)));
    }
}
