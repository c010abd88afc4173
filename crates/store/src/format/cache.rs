//! The label of a cache drive: whose cache it is, and how much was ever written to it.
//!
//! There is nothing else on a cache drive that is ever looked for: its index lies in memory. The
//! label keeps a foreign drive from being written over, and the books of its wear.

use super::codec::{Defect, Writer, unseal};
use super::{VERSION, magic};
use crate::units::Uuid;

/// The label of a cache drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLabel {
    /// The store that it serves.
    pub store: Uuid,
    /// Counts the labels written; odd ones go to block 1, even ones to block 0.
    pub sequence: u64,
    /// Bytes that were written to the drive in its life, at most: this is written ahead of them.
    pub written_bytes_max: u64,
}

impl CacheLabel {
    /// One sealed block.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(&magic::CACHE);
        writer.u16(VERSION);
        writer.pad_to(8);
        writer.uuid(self.store);
        writer.u64(self.sequence);
        writer.u64(self.written_bytes_max);
        writer.into_sealed_block()
    }

    /// Reads one block.
    ///
    /// # Errors
    /// The first [`Defect`] found.
    pub fn decode(block: &[u8]) -> Result<Self, Defect> {
        let mut reader = unseal(block, magic::CACHE)?;
        reader.u16()?;
        Ok(Self {
            store: reader.uuid()?,
            sequence: reader.counter()?,
            written_bytes_max: reader.counter()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_comes_back_as_it_was() {
        let label =
            CacheLabel { store: Uuid([3; 16]), sequence: 7, written_bytes_max: 64_000_000_000_000 };
        let mut block = label.encode();
        assert_eq!(CacheLabel::decode(&block), Ok(label));
        block[33] ^= 1;
        assert_eq!(CacheLabel::decode(&block), Err(Defect::Checksum));
    }
}
