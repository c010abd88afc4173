//! The blocks that were written last, oldest first out.
//!
//! ```text
//! written --> newest [ f e d c b a ] oldest --> leaves with a note whether it was read
//! overwritten: c dies, its frame is free:  [ f e d b a ]
//! ```
//!
//! Since what dies makes room, the queue reaches back further than its size says: it holds the last
//! so many blocks that are still alive.

use evenkeel_core::cache::slab::{List, Slab};

use super::{Frame, Key};

/// What is noted of a block.
#[derive(Clone, Copy, Debug)]
struct Mark {
    frame: Frame,
    was_read: bool,
}

/// A block that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) key: Key,
    pub(super) frame: Frame,
    pub(super) was_read: bool,
}

/// The queue. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Tail {
    capacity: usize,
    slab: Slab<Mark>,
    list: List,
}

impl Tail {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, slab: Slab::with_capacity(capacity), list: List::default() }
    }

    pub(super) fn memory_bytes(capacity: usize) -> usize {
        Slab::<Mark>::memory_bytes(capacity)
    }

    pub(super) fn is_full(&self) -> bool {
        self.list.len() == self.capacity
    }

    pub(super) fn contains(&self, key: Key) -> bool {
        self.slab.find(key.0).is_some()
    }

    /// The frame of a block, noting that it was read.
    #[inline]
    pub(super) fn hit(&mut self, key: Key) -> Option<Frame> {
        let slot = self.slab.find(key.0)?;
        let mark = self.slab.mark(slot);
        self.slab.set_mark(slot, Mark { was_read: true, ..mark });
        Some(mark.frame)
    }

    /// Takes in a block that is not there; there is room.
    pub(super) fn insert(&mut self, key: Key, frame: Frame) {
        self.slab.insert(&mut self.list, key.0, Mark { frame, was_read: false });
    }

    pub(super) fn take_oldest(&mut self) -> Option<Left> {
        if self.list.is_empty() {
            return None;
        }
        let slot = self.list.oldest();
        let (key, mark) = (Key(self.slab.object(slot)), self.slab.mark(slot));
        self.slab.remove(&mut self.list, slot);
        Some(Left { key, frame: mark.frame, was_read: mark.was_read })
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Frame> {
        let slot = self.slab.find(key.0)?;
        let frame = self.slab.mark(slot).frame;
        self.slab.remove(&mut self.list, slot);
        Some(frame)
    }

    /// Gives a block another key, which is not there.
    pub(super) fn rename(&mut self, from: Key, to: Key) {
        if let Some(slot) = self.slab.find(from.0) {
            self.slab.rename(slot, to.0);
        }
    }
}
