//! CLOCK: FIFO with a second chance.
//!
//! A hit sets the object's bit. The hand goes round in the order of arrival, clears bits that are
//! set, and evicts the first object whose bit is clear (Corbato, A paging experiment with the
//! Multics system, 1969).
//!
//! ```text
//! capacity 3    a b c a d      ring [a*] [b] [c], hand at a: clears a's bit, evicts b for d
//! ```

use super::Policy;
use super::ring::Ring;

/// Second chance. O(1) per access, amortised: each bit that the hand clears was set by a hit.
#[derive(Clone, Debug)]
pub struct Clock {
    ring: Ring,
    used_again: Vec<bool>,
}

impl Clock {
    /// An empty cache for `capacity` objects, at least one.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a cache holds at least one object");
        Self { ring: Ring::with_capacity(capacity), used_again: vec![false; capacity] }
    }
}

impl Policy for Clock {
    #[inline]
    fn access(&mut self, object: u64) -> bool {
        if let Some(slot) = self.ring.find(object) {
            self.used_again[slot as usize] = true;
            return true;
        }
        if !self.ring.is_full() {
            self.ring.append(object);
            return false;
        }
        while std::mem::take(&mut self.used_again[self.ring.hand() as usize]) {
            self.ring.pass();
        }
        self.ring.replace(object);
        false
    }

    fn len(&self) -> usize {
        self.ring.len()
    }
}
