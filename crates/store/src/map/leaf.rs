//! One leaf of the map: where 1,024 blocks are, and 24 bits of each one's checksum.
//!
//! The tag is not a luxury. A drive that lost a write without noticing still holds what was there
//! before, and that may be an older version of the very same block; only a checksum that is kept
//! elsewhere tells them apart.

use std::rc::Rc;

use super::addresses::Addresses;
use super::{Entry, Tag};
use crate::format::checkpoint::LeafRow;
use crate::units::{Address, VolumeId};

/// 24 bits of a block's checksum, little-endian.
type Packed = [u8; 3];

/// A leaf. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Leaf {
    addresses: Addresses,
    /// As long as up to the last block that ever was mapped.
    tags: Vec<Packed>,
}

impl Leaf {
    pub(super) fn new() -> Self {
        Self { addresses: Addresses::default(), tags: Vec::new() }
    }

    /// Where a block is, if it is mapped.
    pub(super) fn at(&self, block: usize) -> Option<Entry> {
        Some(Entry { address: self.addresses.at(block)?, tag: self.tag(block) })
    }

    fn tag(&self, block: usize) -> Tag {
        let [low, middle, high] = self.tags[block];
        Tag(u32::from_le_bytes([low, middle, high, 0]))
    }

    /// Maps blocks in a row to addresses in a row.
    pub(super) fn map(&mut self, block: usize, first: Address, tags: &[Tag]) {
        self.addresses.set(block, tags.len(), Some(first));
        let end = block + tags.len();
        if self.tags.len() < end {
            self.tags.resize(end, [0; 3]);
        }
        for (packed, tag) in self.tags[block..end].iter_mut().zip(tags) {
            let [low, middle, high, _] = tag.0.to_le_bytes();
            *packed = [low, middle, high];
        }
    }

    pub(super) fn unmap(&mut self, block: usize, blocks: usize) {
        self.addresses.set(block, blocks, None);
    }

    /// Whether any of these blocks is mapped.
    pub(super) fn is_any_mapped(&self, block: usize, blocks: usize) -> bool {
        (block..block + blocks).any(|block| self.addresses.at(block).is_some())
    }

    /// Whether a block is at this address.
    pub(super) fn holds(&self, block: usize, address: Address) -> bool {
        self.addresses.at(block) == Some(address)
    }

    /// Where its mapped blocks are, in order.
    pub(super) fn mapped(&self) -> impl Iterator<Item = Address> {
        self.addresses.mapped().map(|(_, address)| address)
    }

    /// The mapped blocks that none of these other leaves holds.
    pub(super) fn new_beside(
        &self,
        others: Vec<&Rc<Self>>,
    ) -> impl Iterator<Item = (usize, Entry)> {
        let is_known = others.iter().any(|other| std::ptr::eq(Rc::as_ptr(other), self));
        let mapped = (!is_known).then(|| self.addresses.mapped()).into_iter().flatten();
        let entries =
            mapped.map(|(block, address)| (block, Entry { address, tag: self.tag(block) }));
        entries.filter(move |&(block, entry)| {
            !others.iter().any(|other| other.holds(block, entry.address))
        })
    }

    /// The leaf as a checkpoint keeps it.
    pub(super) fn row(&self, volume: VolumeId, index: u64) -> LeafRow {
        let tags = self.addresses.mapped().map(|(block, _)| self.tag(block).0).collect();
        LeafRow { volume, index, runs: self.addresses.runs(), tags }
    }

    /// Bytes of memory behind it.
    pub(super) fn memory_bytes(&self) -> usize {
        self.addresses.memory_bytes() + self.tags.capacity() * size_of::<Packed>()
    }
}
