//! Taking apart what was deleted, a few leaves at a time.
//!
//! A deleted volume or snapshot loses its name at once; its image stays a member of its family
//! until the last leaf is gone. As long as a leaf is there, it holds its blocks like any other, so
//! that the books are right at every moment. A checkpoint does not know deleted images: after a
//! power cut there is nothing left to take apart.

use super::family::{Order, Others};
use super::image::Place;
use super::{ImageIndex, Map, Piece};
use crate::format::checkpoint::LEAF_BLOCKS;
use crate::units::{Address, VolumeId};

impl Map {
    /// Takes the name off an image.
    pub(crate) fn delete(&mut self, volume: VolumeId) {
        let index = self.names.remove(&volume).expect("the caller knows the volume");
        self.image_mut(index).volume = None;
        self.condemned.push(index);
    }

    /// Gives a volume the image of a snapshot instead of its own.
    pub(crate) fn roll_back(&mut self, volume: VolumeId, snapshot: VolumeId) {
        self.delete(volume);
        self.copy(snapshot, volume, Order::Behind);
    }

    /// Whether there is something to take apart.
    pub(crate) fn is_any_condemned(&self) -> bool {
        !self.condemned.is_empty()
    }

    /// Takes at most so many leaves apart; tells `replaced` every address that no image needs any
    /// more.
    pub(crate) fn take_apart(&mut self, leaves: usize, mut replaced: impl FnMut(Address)) {
        for _ in 0..leaves {
            let Some(&index) = self.condemned.last() else { return };
            match self.image(index).last_leaf() {
                Some(place) => self.drop_leaf(index, place, &mut replaced),
                None => self.forget(index),
            }
        }
    }

    fn drop_leaf(&mut self, index: ImageIndex, place: Place, replaced: &mut impl FnMut(Address)) {
        let leaf = self.image(index).leaf(&place).expect("the last leaf is there");
        let sharers = self.sharers(index, &place, leaf);
        match sharers {
            Others::None => self.leaves -= 1,
            Others::One(other) => self.image_mut(other).usage.own_leaves += 1,
            Others::Many => {}
        }
        if sharers != Others::Many {
            self.let_go(index, &Piece { place, blocks: LEAF_BLOCKS, done: 0 }, replaced);
        }
        self.image_mut(index).remove_leaf(&place);
    }

    fn forget(&mut self, index: ImageIndex) {
        self.condemned.retain(|&other| other != index);
        let image = self.images[index.0].take().expect("an index is of an image");
        let members = self.families.get_mut(&image.family).expect("every image has a family");
        members.retain(|&other| other != index);
        if members.is_empty() {
            self.families.remove(&image.family);
        }
    }
}
