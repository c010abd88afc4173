//! SIEVE: FIFO with a second chance that does not move the survivors.
//!
//! A hit sets the object's bit. The hand goes from the oldest to the newest, clears bits that are
//! set, evicts the first object whose bit is clear, and stays there: survivors keep their place, so
//! that new objects are looked at soon (Zhang and others, SIEVE is simpler than LRU, NSDI 2024).
//!
//! ```text
//! capacity 3    a b c a d      newest c b a*: the hand clears a's bit, evicts b, stays at c
//!                              newest d c a
//! ```

use super::Policy;
use super::slab::{List, NONE, Slab};

/// Lazy promotion, quick demotion. O(1) per access, amortised.
#[derive(Clone, Debug)]
pub struct Sieve {
    capacity: usize,
    /// The mark says whether the object was used again.
    slab: Slab<bool>,
    list: List,
    /// Where the search for a victim goes on; [`NONE`] for the oldest.
    hand: u32,
}

impl Sieve {
    /// An empty cache for `capacity` objects, at least one.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a cache holds at least one object");
        let slab = Slab::with_capacity(capacity);
        Self { capacity, slab, list: List::default(), hand: NONE }
    }

    fn evict(&mut self) {
        let mut victim = if self.hand == NONE { self.list.oldest() } else { self.hand };
        while self.slab.mark(victim) {
            self.slab.set_mark(victim, false);
            victim = match self.slab.newer(victim) {
                NONE => self.list.oldest(),
                newer => newer,
            };
        }
        self.hand = self.slab.newer(victim);
        self.slab.remove(&mut self.list, victim);
    }
}

impl Policy for Sieve {
    #[inline]
    fn access(&mut self, object: u64) -> bool {
        if let Some(slot) = self.slab.find(object) {
            self.slab.set_mark(slot, true);
            return true;
        }
        if self.list.len() == self.capacity {
            self.evict();
        }
        self.slab.insert(&mut self.list, object, false);
        false
    }

    fn len(&self) -> usize {
        self.list.len()
    }
}
