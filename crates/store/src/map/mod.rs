//! The map: for each block of each volume, its address in the log and the tag of its data.
//!
//! ```text
//! volume -> directory of 1,024 leaves (4 GiB) -> leaf of 1,024 blocks (4 MiB)
//! ```
//!
//! Directories and leaves are shared until they change: a clone of the map costs one reference per
//! directory, however large the volume is, and stays as it was while the original goes on. That is
//! how a checkpoint sees one instant while clients write.
//!
//! Memory: 8 bytes for each block mapped at random, so 2 GiB for a TiB; 3 bytes and little more for
//! data written in sequence.

mod addresses;
mod leaf;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::format::checkpoint::{LEAF_BLOCKS, LeafRow};
use crate::units::{Address, VolumeId};
use leaf::Leaf;

const DIRECTORY_LEAVES: usize = 1024;

/// The low 24 bits of the CRC-32C of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(pub(crate) u32);

/// Where a block is and what its data must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) address: Address,
    pub(crate) tag: Tag,
}

/// The map of all volumes. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    volumes: BTreeMap<VolumeId, Vec<Directory>>,
}

type Directory = Rc<Vec<Option<Rc<Leaf>>>>;

impl Tag {
    /// The tag of a block with this checksum.
    pub(crate) fn of(checksum: u32) -> Self {
        Self(checksum & 0x00ff_ffff)
    }
}

impl Map {
    /// Where a block is, if it is mapped.
    pub(crate) fn at(&self, volume: VolumeId, block: u64) -> Option<Entry> {
        let place = Place::of(block);
        let directory = self.volumes.get(&volume)?.get(place.directory)?;
        directory[place.leaf].as_ref()?.at(place.block)
    }

    /// Maps blocks in a row to addresses in a row; tells `replaced` every address that no block
    /// needs any more.
    pub(crate) fn map(
        &mut self,
        volume: VolumeId,
        block: u64,
        first: Address,
        tags: &[Tag],
        mut replaced: impl FnMut(Address),
    ) {
        let mut done = 0;
        while done < tags.len() {
            let place = Place::of(block + done as u64);
            let count = (LEAF_BLOCKS - place.block).min(tags.len() - done);
            let leaf = self.leaf_mut(volume, &place);
            for at in place.block..place.block + count {
                leaf.at(at).into_iter().for_each(|entry| replaced(entry.address));
            }
            leaf.map(place.block, first.plus(done as u64), &tags[done..done + count]);
            done += count;
        }
    }

    /// Makes blocks read as zeroes; tells `replaced` every address that no block needs any more.
    pub(crate) fn unmap(
        &mut self,
        volume: VolumeId,
        block: u64,
        blocks: u64,
        mut replaced: impl FnMut(Address),
    ) {
        let end = block + blocks;
        let mut block = block;
        while block < end {
            let place = Place::of(block);
            let count = usize::try_from(end - block).unwrap_or(usize::MAX);
            let count = count.min(LEAF_BLOCKS - place.block);
            if let Some(leaf) = self.existing_leaf_mut(volume, &place) {
                for at in place.block..place.block + count {
                    leaf.at(at).into_iter().for_each(|entry| replaced(entry.address));
                }
                leaf.unmap(place.block, count);
            }
            block += count as u64;
        }
    }

    /// Every mapped block, in order: volume, block, entry.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (VolumeId, u64, Entry)> {
        self.leaves().flat_map(|(volume, index, leaf)| {
            let start = index * LEAF_BLOCKS as u64;
            (0..LEAF_BLOCKS).filter_map(move |at| Some((volume, start + at as u64, leaf.at(at)?)))
        })
    }

    /// The leaves as a checkpoint keeps them, in order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = LeafRow> {
        self.leaves().map(|(volume, index, leaf)| leaf.row(volume, index))
    }

    /// How many leaves there are.
    pub(crate) fn leaf_count(&self) -> u64 {
        self.leaves().count() as u64
    }

    /// Takes in a leaf of a checkpoint, whose runs cover it and whose tags are as many as its
    /// mapped blocks.
    pub(crate) fn load(&mut self, row: &LeafRow) {
        let mut block = row.index * LEAF_BLOCKS as u64;
        let mut tags = row.tags.iter().copied().map(Tag);
        for run in &row.runs {
            if let Some(address) = run.address {
                let tags: Vec<Tag> = tags.by_ref().take(usize::from(run.blocks)).collect();
                self.map(row.volume, block, address, &tags, |_| {});
            }
            block += u64::from(run.blocks);
        }
    }

    /// Bytes of memory that the leaves take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.leaves().map(|(_, _, leaf)| size_of::<Leaf>() + leaf.memory_bytes()).sum()
    }

    fn leaves(&self) -> impl Iterator<Item = (VolumeId, u64, &Leaf)> {
        self.volumes.iter().flat_map(|(&volume, directories)| {
            let slots = directories.iter().flat_map(|directory| directory.iter());
            (0..)
                .zip(slots)
                .filter_map(move |(index, leaf)| Some((volume, index, leaf.as_deref()?)))
        })
    }

    fn leaf_mut(&mut self, volume: VolumeId, place: &Place) -> &mut Leaf {
        let directories = self.volumes.entry(volume).or_default();
        if directories.len() <= place.directory {
            directories.resize_with(place.directory + 1, || Rc::new(vec![None; DIRECTORY_LEAVES]));
        }
        let directory = Rc::make_mut(&mut directories[place.directory]);
        Rc::make_mut(directory[place.leaf].get_or_insert_with(|| Rc::new(Leaf::new())))
    }

    fn existing_leaf_mut(&mut self, volume: VolumeId, place: &Place) -> Option<&mut Leaf> {
        let directory = self.volumes.get_mut(&volume)?.get_mut(place.directory)?;
        directory[place.leaf].as_ref()?;
        Rc::make_mut(directory)[place.leaf].as_mut().map(Rc::make_mut)
    }
}

/// The way to a block.
struct Place {
    directory: usize,
    leaf: usize,
    block: usize,
}

impl Place {
    fn of(block: u64) -> Self {
        let leaf = usize::try_from(block / LEAF_BLOCKS as u64).expect("a volume fits the map");
        Self {
            directory: leaf / DIRECTORY_LEAVES,
            leaf: leaf % DIRECTORY_LEAVES,
            block: usize::try_from(block % LEAF_BLOCKS as u64).expect("less than a leaf"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VOLUME: VolumeId = VolumeId(2);

    fn tags(blocks: usize, seed: u32) -> Vec<Tag> {
        (0..).take(blocks).map(|index| Tag::of(seed.wrapping_mul(index + 77))).collect()
    }

    proptest! {
        #[test]
        fn the_map_agrees_with_a_plain_list_and_names_what_it_replaces(
            changes in prop::collection::vec((0..3000_u64, 1..1500_usize, any::<bool>()), 1..40)
        ) {
            let mut plain = vec![None; 4500];
            let mut map = Map::default();
            let mut before = None;
            let mut next = 0;
            for (block, blocks, is_unmap) in changes {
                let range = usize::try_from(block).unwrap()..;
                let mut dropped: Vec<Address> = Vec::new();
                let mut expected: Vec<Address> = Vec::new();
                let tags = tags(blocks, 5);
                for (offset, entry) in plain[range][..blocks].iter_mut().enumerate() {
                    let address = Address(next + offset as u64);
                    let new = (!is_unmap).then(|| Entry { address, tag: tags[offset] });
                    expected.extend(std::mem::replace(entry, new).map(|old: Entry| old.address));
                }
                before.get_or_insert_with(|| (map.clone(), map.entries().collect::<Vec<_>>()));
                if is_unmap {
                    map.unmap(VOLUME, block, blocks as u64, |address| dropped.push(address));
                } else {
                    map.map(VOLUME, block, Address(next), &tags, |address| dropped.push(address));
                    next += blocks as u64;
                }
                prop_assert_eq!(dropped, expected);
            }
            let listed: Vec<_> = (0..)
                .zip(&plain)
                .filter_map(|(block, entry)| Some((VOLUME, block, (*entry)?)))
                .collect();
            prop_assert_eq!(map.entries().collect::<Vec<_>>(), listed.clone());
            let mut loaded = Map::default();
            map.rows().for_each(|row| loaded.load(&row));
            prop_assert_eq!(loaded.entries().collect::<Vec<_>>(), listed);
            let (clone, as_it_was) = before.unwrap();
            prop_assert_eq!(clone.entries().collect::<Vec<_>>(), as_it_was);
        }
    }

    /// The promise: 2 GiB per TiB at random, far less in sequence.
    #[test]
    fn a_mapped_block_takes_8_bytes_at_random_and_little_more_than_3_in_sequence() {
        let blocks = 64 * LEAF_BLOCKS;
        let (mut random, mut sequential) = (Map::default(), Map::default());
        for block in 0..blocks as u64 {
            random.map(VOLUME, block, Address(block * 2), &tags(1, 3), |_| {});
            sequential.map(VOLUME, block, Address(block), &tags(1, 3), |_| {});
        }
        let per_block = |map: &Map| map.memory_bytes() as f64 / blocks as f64;
        assert!(per_block(&random) < 8.1, "{}", per_block(&random));
        assert!(per_block(&sequential) < 3.2, "{}", per_block(&sequential));
    }
}
