//! The map as a checkpoint keeps it: each leaf once, and who shares it.
//!
//! Images come family by family. A leaf that an earlier image of the family has is not written
//! again; neighbours that are shared with the same image make one [`ShareRow`]:
//!
//! ```text
//! snapshot 1   leaves 0 1 2 3                     leaf 0, leaf 1, leaf 2, leaf 3
//! snapshot 2   the same, but 2 was written to     share 0-1 of snapshot 1, leaf 2, share 3
//! volume       as snapshot 2                      share 0-3 of snapshot 2
//! ```
//!
//! How many rows there are is bounded by the leaves, however many images share them. A snapshot
//! stands before the volume that goes on, a clone behind its snapshot; so at any one place the
//! leaves along a family nest and never cross (no A B A B), and n distinct ones change at most
//! 2 n - 2 times. That is also why a leaf that has nothing mapped any more stays a leaf.

use std::rc::Rc;

use super::image::{Image, Place};
use super::{ImageIndex, Map};
use crate::format::checkpoint::{LeafRow, ShareRow};
use crate::units::VolumeId;

/// A piece of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MapRow {
    /// A leaf, for the first image that has it.
    Leaf(LeafRow),
    /// Leaves of an earlier image.
    Share(ShareRow),
}

/// Rows that share leaves, for each leaf at most; beside one for each volume.
pub(crate) const SHARES_PER_LEAF_MAX: u64 = 4;

/// Walks along an image.
struct Walk<'a> {
    image: &'a Image,
    /// The family before it, the nearest first.
    earlier: Vec<&'a Image>,
    next: usize,
    end: usize,
}

impl Map {
    /// The volumes and snapshots in the order in which a checkpoint has them: each behind those
    /// that it may share leaves with.
    pub(crate) fn order(&self) -> impl Iterator<Item = VolumeId> {
        self.families.values().flatten().filter_map(|&index| self.image(index).volume)
    }

    /// The rows of a checkpoint.
    pub(crate) fn rows(&self) -> impl Iterator<Item = MapRow> {
        self.families.values().flat_map(move |members| {
            let is_named = |&&index: &&ImageIndex| self.image(index).volume.is_some();
            let images: Vec<&Image> =
                members.iter().filter(is_named).map(|&index| self.image(index)).collect();
            (0..images.len()).flat_map(move |number| Self::walk(&images[..=number]))
        })
    }

    fn walk<'a>(images: &[&'a Image]) -> Walk<'a> {
        let (image, earlier) = images.split_last().expect("there is at least one");
        let end = image.last_leaf().map_or(0, |place| place.leaf_index() + 1);
        Walk { image, earlier: earlier.iter().rev().copied().collect(), next: 0, end }
    }
}

impl Iterator for Walk<'_> {
    type Item = MapRow;

    fn next(&mut self) -> Option<MapRow> {
        loop {
            let place = Place::of_leaf(self.next);
            if self.next >= self.end {
                return None;
            }
            let Some(leaf) = self.image.leaf(&place) else {
                self.next += 1;
                continue;
            };
            let volume = self.image.volume.expect("only named images are walked along");
            let is_same =
                |other: &&&Image| other.leaf(&place).is_some_and(|same| Rc::ptr_eq(same, leaf));
            if let Some(source) = self.earlier.iter().find(is_same).copied() {
                return Some(MapRow::Share(self.share(volume, source)));
            }
            let index = self.next as u64;
            self.next += 1;
            return Some(MapRow::Leaf(leaf.row(volume, index)));
        }
    }
}

impl Walk<'_> {
    /// The longest row from here on.
    fn share(&mut self, volume: VolumeId, source: &Image) -> ShareRow {
        let first = self.next;
        while self.next < self.end && self.is_alike(source) {
            self.next += 1;
        }
        let narrow = |index: usize| u32::try_from(index).expect("a volume has a bound");
        ShareRow {
            volume,
            source: source.volume.expect("only named images are walked along"),
            first: narrow(first),
            leaves: narrow(self.next - first),
        }
    }

    /// Whether both images have the same leaf at the next place, or both have none.
    fn is_alike(&self, source: &Image) -> bool {
        let place = Place::of_leaf(self.next);
        match (self.image.leaf(&place), source.leaf(&place)) {
            (Some(own), Some(other)) => Rc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }
}
