//! LRU: evicts what was not used for the longest time.
//!
//! ```text
//! capacity 3    a b c a d      newest d a c | b went, since a had been used again
//! ```

use super::Policy;
use super::slab::{List, Slab};

/// Least recently used. O(1) per access.
#[derive(Clone, Debug)]
pub struct Lru {
    capacity: usize,
    slab: Slab<()>,
    list: List,
}

impl Lru {
    /// An empty cache for `capacity` objects, at least one.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a cache holds at least one object");
        Self { capacity, slab: Slab::with_capacity(capacity), list: List::default() }
    }
}

impl Policy for Lru {
    #[inline]
    fn access(&mut self, object: u64) -> bool {
        if let Some(slot) = self.slab.find(object) {
            self.slab.renew(&mut self.list, slot);
            return true;
        }
        if self.list.len() == self.capacity {
            let oldest = self.list.oldest();
            self.slab.remove(&mut self.list, oldest);
        }
        self.slab.insert(&mut self.list, object, ());
        false
    }

    fn len(&self) -> usize {
        self.list.len()
    }
}
