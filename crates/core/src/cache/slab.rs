//! A slab of cached objects with lists threaded through them: no allocation once it is full.
//!
//! ```text
//! slab    [0: a, mark] [1: b, mark] [2: free] [3: c, mark]
//! list     newest c <-> a <-> b oldest         neighbours are slots, two words per object
//! ```
//!
//! Several lists may share a slab, so that an object moves from one to another without a new
//! lookup; each object is in exactly one.

use super::table::{SLOTS_MAX, SlotTable};

/// No slot.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node<M> {
    object: u64,
    newer: u32,
    older: u32,
    mark: M,
}

/// Objects with a mark `M` each, found by their id.
#[derive(Clone, Debug)]
pub struct Slab<M> {
    nodes: Vec<Node<M>>,
    /// The first free slot; free slots are chained by `older`.
    free: u32,
    table: SlotTable,
}

/// The two ends and the length of one list.
#[derive(Clone, Copy, Debug)]
pub struct List {
    newest: u32,
    oldest: u32,
    length: usize,
}

impl Default for List {
    fn default() -> Self {
        Self { newest: NONE, oldest: NONE, length: 0 }
    }
}

impl List {
    /// How many objects it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The slot at the old end, or [`NONE`].
    pub fn oldest(&self) -> u32 {
        self.oldest
    }
}

impl<M: Copy> Slab<M> {
    /// Room for `objects`, reserved at once.
    pub fn with_capacity(objects: usize) -> Self {
        assert!(objects <= SLOTS_MAX, "a cache of {objects} objects is beyond its bound");
        let table = SlotTable::with_capacity(objects);
        Self { nodes: Vec::with_capacity(objects), free: NONE, table }
    }

    /// The bytes that a slab of so many objects takes.
    pub fn memory_bytes(objects: usize) -> usize {
        objects * size_of::<Node<M>>() + SlotTable::memory_bytes(objects)
    }

    /// The slot of an object, if it is there.
    #[inline]
    pub fn find(&self, object: u64) -> Option<u32> {
        self.table.find(object, |slot| self.nodes[slot as usize].object)
    }

    /// Which object is in a slot.
    #[inline]
    pub fn object(&self, slot: u32) -> u64 {
        self.nodes[slot as usize].object
    }

    /// What was noted of the object in a slot.
    #[inline]
    pub fn mark(&self, slot: u32) -> M {
        self.nodes[slot as usize].mark
    }

    /// Notes something else of the object in a slot.
    #[inline]
    pub fn set_mark(&mut self, slot: u32, mark: M) {
        self.nodes[slot as usize].mark = mark;
    }

    /// The slot that entered its list just after this one, or [`NONE`].
    #[inline]
    pub fn newer(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].newer
    }

    /// Takes in an object that is not there, at the new end of `list`.
    #[inline]
    pub fn insert(&mut self, list: &mut List, object: u64, mark: M) {
        let node = Node { object, newer: NONE, older: NONE, mark };
        let slot = if self.free == NONE {
            assert!(self.nodes.len() < self.nodes.capacity(), "a slab has room from the start");
            self.nodes.push(node);
            u32::try_from(self.nodes.len() - 1).expect("bounded by SLOTS_MAX")
        } else {
            let slot = self.free;
            self.free = self.nodes[slot as usize].older;
            self.nodes[slot as usize] = node;
            slot
        };
        self.table.insert(object, slot);
        self.link(list, slot);
    }

    /// Lets go of an object in `list`.
    #[inline]
    pub fn remove(&mut self, list: &mut List, slot: u32) {
        self.unlink(list, slot);
        self.table.remove(self.nodes[slot as usize].object, slot);
        self.nodes[slot as usize].older = self.free;
        self.free = slot;
    }

    /// Gives the object in a slot another id, which is not there; it keeps its place.
    pub fn rename(&mut self, slot: u32, object: u64) {
        self.table.remove(self.nodes[slot as usize].object, slot);
        self.nodes[slot as usize].object = object;
        self.table.insert(object, slot);
    }

    /// Moves an object from `list` to the new end of `target`.
    #[inline]
    pub fn transfer(&mut self, list: &mut List, target: &mut List, slot: u32) {
        self.unlink(list, slot);
        self.link(target, slot);
    }

    /// Moves an object to the new end of the list that it is in.
    #[inline]
    pub fn renew(&mut self, list: &mut List, slot: u32) {
        if list.newest != slot {
            self.unlink(list, slot);
            self.link(list, slot);
        }
    }

    #[inline]
    fn link(&mut self, list: &mut List, slot: u32) {
        let node = &mut self.nodes[slot as usize];
        (node.newer, node.older) = (NONE, list.newest);
        match list.newest {
            NONE => list.oldest = slot,
            newest => self.nodes[newest as usize].newer = slot,
        }
        list.newest = slot;
        list.length += 1;
    }

    #[inline]
    fn unlink(&mut self, list: &mut List, slot: u32) {
        let Node { newer, older, .. } = self.nodes[slot as usize];
        match newer {
            NONE => list.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => list.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        list.length -= 1;
    }
}
