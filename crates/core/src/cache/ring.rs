//! Cached objects in the order of their arrival, in a ring: the slot of the oldest is reused.
//!
//! ```text
//! [0: e] [1: f] [2: c] [3: d]      hand at 2: c is the oldest, and makes room for the next
//! ```

use super::table::{SLOTS_MAX, SlotTable};

/// A full ring replaces at its hand; one that is not full yet appends.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    objects: Vec<u64>,
    capacity: usize,
    hand: u32,
    table: SlotTable,
}

impl Ring {
    /// Room for `capacity` objects, reserved at once.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        assert!(capacity <= SLOTS_MAX, "a cache of {capacity} objects is beyond its bound");
        let table = SlotTable::with_capacity(capacity);
        Self { objects: Vec::with_capacity(capacity), capacity, hand: 0, table }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.objects.len() == self.capacity
    }

    #[inline]
    pub(super) fn find(&self, object: u64) -> Option<u32> {
        self.table.find(object, |slot| self.objects[slot as usize])
    }

    /// The slot that [`Self::replace`] would reuse.
    pub(super) fn hand(&self) -> u32 {
        self.hand
    }

    /// Lets the hand pass over a slot, whose object thereby becomes the newest.
    pub(super) fn pass(&mut self) {
        self.hand = if self.hand as usize + 1 == self.capacity { 0 } else { self.hand + 1 };
    }

    /// Takes in an object while there is room.
    pub(super) fn append(&mut self, object: u64) {
        let slot = u32::try_from(self.objects.len()).expect("bounded by SLOTS_MAX");
        self.objects.push(object);
        self.table.insert(object, slot);
    }

    /// Takes in an object in place of the one at the hand.
    #[inline]
    pub(super) fn replace(&mut self, object: u64) {
        let slot = self.hand;
        let victim = std::mem::replace(&mut self.objects[slot as usize], object);
        self.table.remove(victim, slot);
        self.table.insert(object, slot);
        self.pass();
    }
}
