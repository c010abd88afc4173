//! The map from the rows of a checkpoint, and who owns what in it.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::image::{DIRECTORY_LEAVES, Directory, Image, Place};
use super::leaf::Leaf;
use super::{ImageIndex, Map, Tag};
use crate::format::checkpoint::{LEAF_BLOCKS, LeafRow, ShareRow};
use crate::units::{Address, VolumeId};

/// What rows cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadError(pub(crate) &'static str);

impl Map {
    /// Takes in a volume or snapshot, behind those of its family that came before.
    pub(crate) fn load_image(
        &mut self,
        volume: VolumeId,
        family: VolumeId,
    ) -> Result<(), LoadError> {
        if self.names.contains_key(&volume) {
            return Err(LoadError("a volume twice"));
        }
        let index = self.add(Image::new(volume, family));
        self.names.insert(volume, index);
        self.families.entry(family).or_default().push(index);
        Ok(())
    }

    /// Takes in a leaf, whose runs cover it and whose tags are as many as its mapped blocks.
    pub(crate) fn load_leaf(&mut self, row: &LeafRow) -> Result<(), LoadError> {
        let index = *self.names.get(&row.volume).ok_or(LoadError("a leaf of no volume"))?;
        let place = Place::of(row.index * LEAF_BLOCKS as u64);
        if self.image(index).leaf(&place).is_some() {
            return Err(LoadError("a leaf twice"));
        }
        let leaf = self.image_mut(index).leaf_mut(&place);
        let mut block = 0;
        let mut tags = row.tags.iter().copied().map(Tag);
        for run in &row.runs {
            if let Some(address) = run.address {
                let tags: Vec<Tag> = tags.by_ref().take(usize::from(run.blocks)).collect();
                leaf.map(block, address, &tags);
            }
            block += usize::from(run.blocks);
        }
        self.leaves += 1;
        Ok(())
    }

    /// Has a volume or snapshot share leaves of one that came before it.
    pub(crate) fn load_share(&mut self, row: &ShareRow) -> Result<(), LoadError> {
        let image = |map: &Self, volume| {
            map.names.get(&volume).copied().ok_or(LoadError("shared leaves of no volume"))
        };
        let (index, source) = (image(self, row.volume)?, image(self, row.source)?);
        let family = self.image(index).family;
        let before = |index| self.families[&family].iter().position(|&member| member == index);
        if before(source).is_none_or(|at| Some(at) >= before(index)) {
            return Err(LoadError("leaves shared with a stranger"));
        }
        let source = Rc::clone(&self.image(source).table);
        let first = row.first as usize;
        let end = (first + row.leaves as usize).min(source.len() * DIRECTORY_LEAVES);
        let image = self.image_mut(index);
        if image.table.is_empty() && first == 0 && end == source.len() * DIRECTORY_LEAVES {
            image.table = source;
            return Ok(());
        }
        let mut next = first;
        while next < end {
            let place = Place::of_leaf(next);
            let stop = ((place.directory + 1) * DIRECTORY_LEAVES).min(end);
            if let Some(directory) = &source[place.directory] {
                image.share(directory, &place, stop - next)?;
            }
            next = stop;
        }
        Ok(())
    }

    /// Every image is there, and nobody else has a part of them: counts what each takes. Whether
    /// several leaves hold an address, `is_again` says.
    pub(crate) fn loaded(&mut self, is_again: impl Fn(Address) -> bool) {
        let mut known: BTreeMap<*const Directory, u64> = BTreeMap::new();
        let members: Vec<ImageIndex> = self.families.values().flatten().copied().collect();
        for index in members {
            let image = self.image(index);
            let mut usage = image.usage;
            for directory in image.table.iter().flatten() {
                usage.mapped_blocks +=
                    *known.entry(Rc::as_ptr(directory)).or_insert_with(|| mapped(directory));
                let is_own = |leaf: &&Rc<Leaf>| Rc::strong_count(leaf) == 1;
                if Rc::strong_count(&image.table) > 1 || Rc::strong_count(directory) > 1 {
                    continue;
                }
                for leaf in directory.iter().flatten().filter(is_own) {
                    usage.own_leaves += 1;
                    usage.own_blocks += leaf.mapped().filter(|&it| !is_again(it)).count() as u64;
                }
            }
            self.image_mut(index).usage = usage;
        }
    }
}

fn mapped(directory: &Directory) -> u64 {
    directory.iter().flatten().map(|leaf| leaf.mapped().count() as u64).sum()
}

impl Image {
    /// Shares some leaves of a directory, or all of it.
    fn share(
        &mut self,
        directory: &Rc<Directory>,
        place: &Place,
        leaves: usize,
    ) -> Result<(), LoadError> {
        let table = Rc::make_mut(&mut self.table);
        if table.len() <= place.directory {
            table.resize(place.directory + 1, None);
        }
        let own = &mut table[place.directory];
        if own.is_none() && place.leaf == 0 && leaves >= directory.len() {
            *own = Some(Rc::clone(directory));
            return Ok(());
        }
        let own = Rc::make_mut(own.get_or_insert_default());
        let end = (place.leaf + leaves).min(directory.len());
        if own.len() < end {
            own.resize(end, None);
        }
        for number in place.leaf..end {
            if own[number].is_some() && directory[number].is_some() {
                return Err(LoadError("a leaf twice"));
            }
            if let Some(leaf) = &directory[number] {
                own[number] = Some(Rc::clone(leaf));
            }
        }
        Ok(())
    }
}
