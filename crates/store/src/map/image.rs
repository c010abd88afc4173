//! One image: where the blocks of a volume or of a snapshot are.
//!
//! ```text
//! image -> table -> directory of 1,024 leaves (4 GiB) -> leaf of 1,024 blocks (4 MiB)
//! ```
//!
//! Tables, directories and leaves are shared until they change. A copy of an image is one
//! reference, however much it maps; the first change behind it copies one leaf, its directory and
//! the table.

use std::rc::Rc;

use super::leaf::Leaf;
use crate::format::checkpoint::LEAF_BLOCKS;
use crate::units::VolumeId;

pub(super) const DIRECTORY_LEAVES: usize = 1024;

pub(super) type Directory = Vec<Option<Rc<Leaf>>>;
pub(super) type Table = Vec<Option<Rc<Directory>>>;

/// An image. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// Whose it is; nobody's if it was deleted and is being taken apart.
    pub(super) volume: Option<VolumeId>,
    /// The first ancestor: only images of one family share anything.
    pub(super) family: VolumeId,
    pub(super) table: Rc<Table>,
    pub(super) usage: Usage,
}

/// What an image takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Blocks that it maps.
    pub(crate) mapped_blocks: u64,
    /// Those whose data no other image maps.
    pub(crate) own_blocks: u64,
    /// Its leaves that no other image has.
    pub(crate) own_leaves: u64,
}

/// The way to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) directory: usize,
    pub(super) leaf: usize,
    pub(super) block: usize,
}

impl Place {
    pub(super) fn of(block: u64) -> Self {
        let leaf = usize::try_from(block / LEAF_BLOCKS as u64).expect("a volume fits the map");
        let block = usize::try_from(block % LEAF_BLOCKS as u64).expect("less than a leaf");
        Self { block, ..Self::of_leaf(leaf) }
    }

    /// The first block of the leaf with this index.
    pub(super) fn of_leaf(index: usize) -> Self {
        Self { directory: index / DIRECTORY_LEAVES, leaf: index % DIRECTORY_LEAVES, block: 0 }
    }

    pub(super) fn leaf_index(&self) -> usize {
        self.directory * DIRECTORY_LEAVES + self.leaf
    }
}

impl Image {
    pub(super) fn new(volume: VolumeId, family: VolumeId) -> Self {
        let (table, usage) = (Rc::default(), Usage::default());
        Self { volume: Some(volume), family, table, usage }
    }

    pub(super) fn leaf(&self, place: &Place) -> Option<&Rc<Leaf>> {
        self.table.get(place.directory)?.as_ref()?.get(place.leaf)?.as_ref()
    }

    /// The room of a leaf, in a directory and a table that nobody shares.
    pub(super) fn slot_mut(&mut self, place: &Place) -> &mut Option<Rc<Leaf>> {
        let table = Rc::make_mut(&mut self.table);
        if table.len() <= place.directory {
            table.resize(place.directory + 1, None);
        }
        let directory = Rc::make_mut(table[place.directory].get_or_insert_default());
        if directory.len() <= place.leaf {
            directory.resize(place.leaf + 1, None);
        }
        &mut directory[place.leaf]
    }

    /// The leaf, made if need be, and shared with nobody.
    pub(super) fn leaf_mut(&mut self, place: &Place) -> &mut Leaf {
        Rc::make_mut(self.slot_mut(place).get_or_insert_with(|| Rc::new(Leaf::new())))
    }

    /// Takes a leaf away, and what behind it is empty.
    pub(super) fn remove_leaf(&mut self, place: &Place) {
        let table = Rc::make_mut(&mut self.table);
        if let Some(directory) = table.get_mut(place.directory).and_then(Option::as_mut) {
            let directory = Rc::make_mut(directory);
            if let Some(leaf) = directory.get_mut(place.leaf) {
                *leaf = None;
            }
            trim(directory);
        }
        let is_empty = |directory: &Rc<Directory>| directory.is_empty();
        if table.get(place.directory).is_some_and(|slot| slot.as_ref().is_some_and(is_empty)) {
            table[place.directory] = None;
        }
        trim(table);
    }

    /// The place of the last leaf.
    pub(super) fn last_leaf(&self) -> Option<Place> {
        let directory = self.table.len().checked_sub(1)?;
        let leaves = self.table[directory].as_ref().map_or(0, |directory| directory.len());
        let leaf = leaves.checked_sub(1)?;
        Some(Place { directory, leaf, block: 0 })
    }

    /// How many blocks of a range lie before the end of the last leaf.
    pub(super) fn clipped(&self, block: u64, blocks: u64) -> u64 {
        let leaves = self.last_leaf().map_or(0, |place| place.leaf_index() + 1);
        blocks.min(((leaves * LEAF_BLOCKS) as u64).saturating_sub(block))
    }

    /// Its leaves in order.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (usize, &Rc<Leaf>)> {
        self.table.iter().enumerate().flat_map(|(number, directory)| {
            let leaves = directory.iter().flat_map(|directory| directory.iter());
            let first = number * DIRECTORY_LEAVES;
            (first..).zip(leaves).filter_map(|(index, leaf)| Some((index, leaf.as_ref()?)))
        })
    }

    /// Whether nobody else has the leaf, as far as the counts of references tell; a checkpoint that
    /// is being written counts as somebody.
    pub(super) fn is_unshared(&self, place: &Place) -> bool {
        let directory = self.table.get(place.directory).and_then(Option::as_ref);
        Rc::strong_count(&self.table) == 1
            && directory.is_none_or(|directory| Rc::strong_count(directory) == 1)
            && self.leaf(place).is_none_or(|leaf| Rc::strong_count(leaf) == 1)
    }
}

/// Takes the empty rooms at the end away.
fn trim<T>(rooms: &mut Vec<Option<T>>) {
    let used = rooms.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    rooms.truncate(used);
}
