//! The map: for each block of each volume and snapshot, its address in the log and the tag of its
//! data.
//!
//! Every volume and every snapshot has an [image](image); images share what they have in common.
//! A clone of the whole map is a reference for each image, and stays as it was while the original
//! goes on: that is how a checkpoint sees one instant while clients write.
//!
//! Memory: 8 bytes for each block mapped at random, so 2 GiB for a TiB; 3 bytes and little more for
//! data written in sequence. What images share is there once.
//!
//! A block is alive as long as an image holds it; [`family`] says who does.

mod addresses;
mod family;
mod image;
mod leaf;
mod load;
mod relocate;
mod rows;
mod take_apart;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::format::checkpoint::LEAF_BLOCKS;
use crate::units::{Address, VolumeId};
use image::{Image, Place};
use leaf::Leaf;

pub(crate) use family::Order;
pub(crate) use image::Usage;
pub(crate) use load::LoadError;
pub(crate) use relocate::Reach;
pub(crate) use rows::{MapRow, SHARES_PER_LEAF_MAX};

/// The low 24 bits of the CRC-32C of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(pub(crate) u32);

/// Where a block is and what its data must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) address: Address,
    pub(crate) tag: Tag,
}

/// Which image of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ImageIndex(usize);

/// The map of all volumes and snapshots. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    images: Vec<Option<Image>>,
    /// The images that have a name.
    names: BTreeMap<VolumeId, ImageIndex>,
    /// The images of each family, each near those that it has most in common with; see [`rows`].
    families: BTreeMap<VolumeId, Vec<ImageIndex>>,
    /// Deleted images that still have leaves.
    condemned: Vec<ImageIndex>,
    /// Leaves in all, each counted once.
    leaves: u64,
}

/// Blocks in a row within one leaf.
#[derive(Clone, Copy, Debug)]
struct Piece {
    place: Place,
    blocks: usize,
    /// Blocks of the range before it.
    done: u64,
}

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
        self.named(volume)?.leaf(&place)?.at(place.block)
    }

    /// Maps blocks in a row of a volume to addresses in a row; tells `replaced` every address that
    /// no image needs any more.
    pub(crate) fn map(
        &mut self,
        volume: VolumeId,
        block: u64,
        first: Address,
        tags: &[Tag],
        mut replaced: impl FnMut(Address),
    ) {
        let index = self.names[&volume];
        for piece in pieces(block, tags.len() as u64) {
            self.claim_leaf(index, &piece.place);
            self.let_go(index, &piece, &mut replaced);
            let tags = &tags[skip(piece.done)..][..piece.blocks];
            let image = self.image_mut(index);
            image.leaf_mut(&piece.place).map(piece.place.block, first.plus(piece.done), tags);
            image.usage.mapped_blocks += piece.blocks as u64;
            image.usage.own_blocks += piece.blocks as u64;
        }
    }

    /// Makes blocks of a volume read as zeroes; tells `replaced` every address that no image needs
    /// any more.
    pub(crate) fn unmap(
        &mut self,
        volume: VolumeId,
        block: u64,
        blocks: u64,
        mut replaced: impl FnMut(Address),
    ) {
        let index = self.names[&volume];
        for piece in pieces(block, self.image(index).clipped(block, blocks)) {
            let Some(leaf) = self.image(index).leaf(&piece.place) else { continue };
            if !leaf.is_any_mapped(piece.place.block, piece.blocks) {
                continue;
            }
            self.claim_leaf(index, &piece.place);
            self.let_go(index, &piece, &mut replaced);
            if piece.blocks < LEAF_BLOCKS {
                let leaf = self.image_mut(index).leaf_mut(&piece.place);
                leaf.unmap(piece.place.block, piece.blocks);
            } else {
                self.empty_leaf(index, &piece.place);
            }
        }
    }

    /// Makes the image of a new volume.
    pub(crate) fn create(&mut self, volume: VolumeId) {
        let index = self.add(Image::new(volume, volume));
        self.names.insert(volume, index);
        self.families.insert(volume, vec![index]);
    }

    /// What the image of a volume or snapshot takes.
    pub(crate) fn usage(&self, volume: VolumeId) -> Usage {
        self.named(volume).map(|image| image.usage).unwrap_or_default()
    }

    /// Bytes of memory that the leaves take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let mut shared: BTreeSet<*const Leaf> = BTreeSet::new();
        let leaves = self.images.iter().flatten().flat_map(|image| {
            let is_alone = self.families[&image.family].len() == 1;
            image.leaves().map(move |(_, leaf)| (is_alone, leaf))
        });
        leaves
            .filter(|(is_alone, leaf)| *is_alone || shared.insert(Rc::as_ptr(leaf)))
            .map(|(_, leaf)| size_of::<Leaf>() + leaf.memory_bytes())
            .sum()
    }

    /// How many leaves there are, each counted once.
    pub(crate) fn leaf_count(&self) -> u64 {
        self.leaves
    }

    fn named(&self, volume: VolumeId) -> Option<&Image> {
        Some(self.image(*self.names.get(&volume)?))
    }

    fn image(&self, index: ImageIndex) -> &Image {
        self.images[index.0].as_ref().expect("an index is of an image")
    }

    fn image_mut(&mut self, index: ImageIndex) -> &mut Image {
        self.images[index.0].as_mut().expect("an index is of an image")
    }

    fn add(&mut self, image: Image) -> ImageIndex {
        let free = self.images.iter().position(Option::is_none);
        let index = free.unwrap_or(self.images.len());
        if index == self.images.len() {
            self.images.push(None);
        }
        self.images[index] = Some(image);
        ImageIndex(index)
    }

    /// Leaves a leaf that has nothing mapped any more without memory.
    fn empty_leaf(&mut self, index: ImageIndex, place: &Place) {
        let image = self.images[index.0].as_mut().expect("an index is of an image");
        if self.families[&image.family].len() > 1 {
            // That there was a leaf stays known: see `rows`.
            *image.slot_mut(place) = Some(Rc::new(Leaf::new()));
        } else {
            image.remove_leaf(place);
            image.usage.own_leaves -= 1;
            self.leaves -= 1;
        }
    }
}

/// A range cut at the leaves.
fn pieces(block: u64, blocks: u64) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let place = Place::of(block + done);
        let room = LEAF_BLOCKS - place.block;
        let blocks = usize::try_from(blocks - done).unwrap_or(usize::MAX).min(room);
        let piece = Piece { place, blocks, done };
        done += blocks as u64;
        (blocks > 0).then_some(piece)
    })
}

fn skip(done: u64) -> usize {
    usize::try_from(done).expect("a record is bounded")
}

#[cfg(test)]
mod tests;
