//! Moving blocks: every image that holds a block gets its new address, and what images share stays
//! shared.
//!
//! ```text
//! snapshot --> leaf A (7: 500)            snapshot --> leaf A' (7: 901)
//! clone ----> leaf A            becomes   clone ----> leaf A'
//! volume ---> leaf B (7: 500)             volume ---> leaf B' (7: 901)
//! ```
//!
//! Each distinct leaf is changed once. To do that in place, one reference of each table, directory
//! and leaf is taken from those who share it, and given back to all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::image::{Directory, Place, Table};
use super::leaf::Leaf;
use super::{Entry, ImageIndex, Map, Piece, Tag, pieces, skip};
use crate::units::{Address, VolumeId};

/// How far a move reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Every image that holds the block.
    All,
    /// The first one: what a store without the rule `MoveEverywhere` does.
    First,
}

impl Map {
    /// Moves blocks in a row, once written to this volume, to addresses in a row, those that are
    /// still at the addresses from `from` on; tells `moved` the old and the new address of each.
    ///
    /// Only what has the same tag there counts: in replay, on a drive that has lost a checkpoint,
    /// the record may be of a later use of the address, and so of another content.
    pub(crate) fn relocate(
        &mut self,
        (volume, block): (VolumeId, u64),
        (from, to): (Address, Address),
        tags: &[Tag],
        reach: Reach,
        mut moved: impl FnMut(Address, Address),
    ) {
        for piece in pieces(block, tags.len() as u64) {
            let (from, to) = (from.plus(piece.done), to.plus(piece.done));
            let tags = &tags[skip(piece.done)..][..piece.blocks];
            let mut is_held = vec![false; piece.blocks];
            let mut holders: Vec<ImageIndex> = self.kin(volume).collect();
            holders.retain(|&index| self.mark_held(index, &piece, (from, tags), &mut is_held));
            if reach == Reach::First {
                holders.truncate(1);
            }
            for (offset, _) in (0..).zip(&is_held).filter(|(_, is_held)| **is_held) {
                moved(from.plus(offset), to.plus(offset));
            }
            self.change_leaves(&holders, &piece.place, |leaf| {
                for (offset, tag) in tags.iter().enumerate() {
                    let (at, blocks) = (piece.place.block + offset, offset as u64);
                    if leaf.at(at) == Some(Entry { address: from.plus(blocks), tag: *tag }) {
                        leaf.map(at, to.plus(blocks), std::slice::from_ref(tag));
                    }
                }
            });
        }
    }

    /// Whether the image holds a block of the piece; marks those that it does.
    fn mark_held(
        &self,
        index: ImageIndex,
        piece: &Piece,
        (from, tags): (Address, &[Tag]),
        is_held: &mut [bool],
    ) -> bool {
        let Some(leaf) = self.image(index).leaf(&piece.place) else { return false };
        let mut is_any = false;
        for (offset, (is_held, &tag)) in is_held.iter_mut().zip(tags).enumerate() {
            let sought = Entry { address: from.plus(offset as u64), tag };
            let is_here = leaf.at(piece.place.block + offset) == Some(sought);
            *is_held |= is_here;
            is_any |= is_here;
        }
        is_any
    }

    /// Changes the leaves that these images have at a place, each once.
    fn change_leaves(
        &mut self,
        holders: &[ImageIndex],
        place: &Place,
        mut change: impl FnMut(&mut Leaf),
    ) {
        if let [index] = holders {
            return change(self.image_mut(*index).leaf_mut(place));
        }
        let holders: BTreeSet<usize> = holders.iter().map(|index| index.0).collect();
        let images = self.images.iter_mut().enumerate();
        let images = images.filter(|(index, _)| holders.contains(index));
        let tables = images.flat_map(|(_, image)| image).map(|image| &mut image.table).collect();
        for_each_distinct(tables, |tables: Vec<&mut Table>| {
            let directories =
                tables.into_iter().filter_map(|table| table[place.directory].as_mut());
            for_each_distinct(directories.collect(), |directories: Vec<&mut Directory>| {
                let leaves = directories.into_iter().filter_map(|it| it[place.leaf].as_mut());
                for_each_distinct(leaves.collect(), |leaves: Vec<&mut Leaf>| {
                    leaves.into_iter().for_each(&mut change);
                });
            });
        });
    }
}

/// Changes the distinct values behind some references; who shared one goes on sharing it.
fn for_each_distinct<T: Clone + Default>(
    references: Vec<&mut Rc<T>>,
    change: impl FnOnce(Vec<&mut T>),
) {
    let nobody: Rc<T> = Rc::default();
    let mut numbers: BTreeMap<*const T, usize> = BTreeMap::new();
    let mut distinct: Vec<Rc<T>> = Vec::new();
    let mut places = Vec::with_capacity(references.len());
    for reference in references {
        let value = std::mem::replace(reference, Rc::clone(&nobody));
        let number = *numbers.entry(Rc::as_ptr(&value)).or_insert(distinct.len());
        if number == distinct.len() {
            distinct.push(value);
        }
        places.push((reference, number));
    }
    change(distinct.iter_mut().map(Rc::make_mut).collect());
    for (reference, number) in places {
        *reference = Rc::clone(&distinct[number]);
    }
}
