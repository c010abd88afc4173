//! FIFO: evicts what came in first, used again or not.
//!
//! ```text
//! capacity 3    a b c a d      newest d c b | a went, although it had been used again
//! ```

use super::Policy;
use super::ring::Ring;

/// First in, first out. O(1) per access.
#[derive(Clone, Debug)]
pub struct Fifo {
    ring: Ring,
}

impl Fifo {
    /// An empty cache for `capacity` objects, at least one.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a cache holds at least one object");
        Self { ring: Ring::with_capacity(capacity) }
    }
}

impl Policy for Fifo {
    #[inline]
    fn access(&mut self, object: u64) -> bool {
        if self.ring.find(object).is_some() {
            return true;
        }
        if self.ring.is_full() {
            self.ring.replace(object);
        } else {
            self.ring.append(object);
        }
        false
    }

    fn len(&self) -> usize {
        self.ring.len()
    }
}
