//! Who holds a block: the images of one family, looked through where they could have it.
//!
//! Blocks are shared only with a copy of the whole image, so always at the same place: a block of
//! a volume at an address can be held by images of the same family, at the same block, and nowhere
//! else. So nothing is counted for each block. Whoever lets a block go asks the others:
//!
//! ```text
//! block 7   snapshot 1: 500   snapshot 2: 500   volume: 733 -> 901
//!           733 is nobody's now and dies. Had the volume been at 500, two others would hold it.
//! ```
//!
//! The price is a look into each distinct leaf at that place for a block that is overwritten in a
//! family of several images, and nothing at all in a family of one.

use std::rc::Rc;

use super::image::{Image, Place};
use super::leaf::Leaf;
use super::{Entry, ImageIndex, Map, Piece, pieces};
use crate::format::checkpoint::LEAF_BLOCKS;
use crate::units::{Address, VolumeId};

/// Which other images hold or have something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    None,
    One(ImageIndex),
    Many,
}

/// The leaves of other images at one place, each once, with those who have it.
type Relatives<'a> = Vec<(&'a Rc<Leaf>, Others)>;

/// Where the copy of an image belongs among its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// A snapshot is older than the volume that goes on.
    Before,
    /// A clone is younger than its snapshot.
    Behind,
}

impl Others {
    fn and(self, index: ImageIndex) -> Self {
        if self == Self::None { Self::One(index) } else { Self::Many }
    }

    fn with(self, others: Self) -> Self {
        match (self, others) {
            (Self::None, others) => others,
            (own, Self::None) => own,
            _ => Self::Many,
        }
    }
}

impl Map {
    /// Gives a volume or snapshot the image of another one, in constant time.
    pub(crate) fn copy(&mut self, source: VolumeId, volume: VolumeId, order: Order) {
        let from = self.names[&source];
        let original = self.image_mut(from);
        original.usage.own_blocks = 0;
        original.usage.own_leaves = 0;
        let (copy, family) = (original.clone(), original.family);
        let index = self.add(Image { volume: Some(volume), ..copy });
        self.names.insert(volume, index);
        let members = self.families.get_mut(&family).expect("every image has a family");
        let at = members.iter().position(|&member| member == from).expect("it is of the family");
        members.insert(if order == Order::Before { at } else { at + 1 }, index);
    }

    /// Whether images descend from a volume of this number.
    pub(crate) fn is_family(&self, volume: VolumeId) -> bool {
        self.families.contains_key(&volume)
    }

    /// Whether a volume shares with nobody for want of relatives.
    pub(crate) fn is_alone(&self, volume: VolumeId) -> bool {
        self.family(volume).is_none_or(|family| self.families[&family].len() == 1)
    }

    /// How many blocks of a range a volume does not hold alone, and in how many leaves it does not
    /// have alone.
    pub(crate) fn not_own(&self, volume: VolumeId, block: u64, blocks: u64) -> (u64, u64) {
        let (mut shared_blocks, mut shared_leaves) = (0, 0);
        let index = self.names[&volume];
        for piece in pieces(block, blocks) {
            shared_leaves += u64::from(!self.has_alone(index, &piece.place));
            let losses = self.losses(index, &piece);
            let own = losses.iter().filter(|(_, others)| *others == Others::None).count();
            shared_blocks += (piece.blocks - own) as u64;
        }
        (shared_blocks, shared_leaves)
    }

    /// How many leaves of a range a volume has, but not alone.
    pub(crate) fn shared_leaves(&self, volume: VolumeId, block: u64, blocks: u64) -> u64 {
        let index = self.names[&volume];
        let is_shared = |piece: &Piece| {
            self.image(index).leaf(&piece.place).is_some() && !self.has_alone(index, &piece.place)
        };
        let blocks = self.image(index).clipped(block, blocks);
        pieces(block, blocks).filter(is_shared).count() as u64
    }

    fn has_alone(&self, index: ImageIndex, place: &Place) -> bool {
        let leaf = self.image(index).leaf(place);
        leaf.is_some_and(|leaf| self.sharers(index, place, leaf) == Others::None)
    }

    /// The first ancestor of a volume or snapshot.
    pub(crate) fn family(&self, volume: VolumeId) -> Option<VolumeId> {
        self.named(volume).map(|image| image.family)
    }

    /// A volume or snapshot that still holds a block, once written to this volume, at this address.
    /// If only deleted ones do, their family stands for them.
    pub(crate) fn holder(
        &self,
        volume: VolumeId,
        block: u64,
        address: Address,
    ) -> Option<(VolumeId, Entry)> {
        let place = Place::of(block);
        let mut nameless = None;
        for image in self.kin(volume).map(|index| self.image(index)) {
            let entry = image.leaf(&place).and_then(|leaf| leaf.at(place.block));
            let Some(entry) = entry.filter(|entry| entry.address == address) else { continue };
            match image.volume {
                Some(volume) => return Some((volume, entry)),
                None => nameless = Some((image.family, entry)),
            }
        }
        nameless
    }

    /// Every block that is alive, once: a volume or snapshot that holds it, or its family if only
    /// deleted ones do; the block; and the entry.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (VolumeId, u64, Entry)> {
        self.families.values().flat_map(move |members| {
            (0..members.len()).flat_map(move |number| {
                let image = self.image(members[number]);
                let volume = image.volume.unwrap_or(image.family);
                image.leaves().flat_map(move |(index, leaf)| {
                    let place = Place::of_leaf(index);
                    let earlier = members[..number].iter();
                    let earlier: Vec<&Rc<Leaf>> =
                        earlier.filter_map(|&other| self.image(other).leaf(&place)).collect();
                    leaf.new_beside(earlier).map(move |(block, entry)| {
                        (volume, (index * LEAF_BLOCKS + block) as u64, entry)
                    })
                })
            })
        })
    }

    /// The images that may hold what was written to a volume: its family, or all if nobody knows
    /// it any more.
    pub(super) fn kin(&self, volume: VolumeId) -> impl Iterator<Item = ImageIndex> {
        let families = match self.family(volume) {
            Some(family) => self.families.range(family..=family),
            None => self.families.range(..),
        };
        families.flat_map(|(_, members)| members.iter().copied())
    }

    /// Makes a leaf the image's own before it is changed, as far as it is counted.
    pub(super) fn claim_leaf(&mut self, index: ImageIndex, place: &Place) {
        let others = match self.image(index).leaf(place) {
            Some(leaf) => match self.sharers(index, place, leaf) {
                Others::None => return,
                others => others,
            },
            None => Others::None,
        };
        self.leaves += 1;
        self.image_mut(index).usage.own_leaves += 1;
        if let Others::One(other) = others {
            self.image_mut(other).usage.own_leaves += 1;
        }
    }

    /// Has an image hold some blocks no more, as far as they are counted; tells `replaced` those
    /// that nobody holds now.
    pub(super) fn let_go(
        &mut self,
        index: ImageIndex,
        piece: &Piece,
        mut replaced: impl FnMut(Address),
    ) {
        for (address, others) in self.losses(index, piece) {
            let usage = &mut self.image_mut(index).usage;
            usage.mapped_blocks -= 1;
            match others {
                Others::None => {
                    usage.own_blocks -= 1;
                    replaced(address);
                }
                Others::One(other) => self.image_mut(other).usage.own_blocks += 1,
                Others::Many => {}
            }
        }
    }

    /// Which other images have this leaf of an image.
    pub(super) fn sharers(&self, index: ImageIndex, place: &Place, leaf: &Rc<Leaf>) -> Others {
        if self.image(index).is_unshared(place) {
            return Others::None;
        }
        let relatives = self.relatives(index, place);
        let same = relatives.iter().filter(|(other, _)| Rc::ptr_eq(other, leaf));
        same.fold(Others::None, |sharers, &(_, others)| sharers.with(others))
    }

    /// The mapped blocks of a piece, and which other images hold them.
    fn losses(&self, index: ImageIndex, piece: &Piece) -> Vec<(Address, Others)> {
        let Some(leaf) = self.image(index).leaf(&piece.place) else { return Vec::new() };
        let relatives = self.relatives(index, &piece.place);
        let blocks = piece.place.block..piece.place.block + piece.blocks;
        let mapped = blocks.filter_map(|block| Some((block, leaf.at(block)?.address)));
        mapped.map(|(block, address)| (address, holders(&relatives, block, address))).collect()
    }

    fn relatives(&self, index: ImageIndex, place: &Place) -> Relatives<'_> {
        let members = &self.families[&self.image(index).family];
        let mut relatives: Relatives<'_> = Vec::new();
        for &other in members.iter().filter(|&&other| other != index) {
            let Some(leaf) = self.image(other).leaf(place) else { continue };
            // Those who share a leaf mostly stand side by side; if not, it is looked at twice.
            match relatives.last_mut() {
                Some((last, others)) if Rc::ptr_eq(last, leaf) => *others = others.and(other),
                _ => relatives.push((leaf, Others::One(other))),
            }
        }
        relatives
    }
}

fn holders(relatives: &Relatives<'_>, block: usize, address: Address) -> Others {
    let mut holders = Others::None;
    for (leaf, others) in relatives {
        if leaf.holds(block, address) {
            holders = holders.with(*others);
        }
        if holders == Others::Many {
            break;
        }
    }
    holders
}
