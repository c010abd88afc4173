//! ARC: balances recency against frequency by what it lately evicted wrongly.
//!
//! T1 holds objects seen once, T2 those seen again; B1 and B2 remember the ids of as many evicted
//! from each. A hit in B1 says that T1 should have been larger, one in B2 that T2 should: the
//! target size of T1 moves by the ratio of the two histories, at least by one (Megiddo and Modha,
//! ARC: a self-tuning, low overhead replacement cache, FAST 2003, figure 4).
//!
//! ```text
//! B1 <- oldest [ T1: once ] newest <- new        T1 + T2 <= c      T1 + B1 <= c
//!                     \ used again               all four <= 2c
//! B2 <- oldest [ T2: again ] newest <- hit in B1 or B2
//! ```

use super::Policy;
use super::slab::{List, Slab};

/// One object in the unit of the target.
const ONE: u64 = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Once,
    Again,
    OnceGhost,
    AgainGhost,
}

/// Adaptive replacement. O(1) per access.
#[derive(Clone, Debug)]
pub struct Arc {
    capacity: usize,
    /// The size that `once` should have, in units of 1/65536 object, so that ratios count.
    target: u64,
    slab: Slab<Place>,
    once: List,
    again: List,
    once_ghosts: List,
    again_ghosts: List,
}

impl Arc {
    /// An empty cache for `capacity` objects, at least one.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a cache holds at least one object");
        Self {
            capacity,
            target: 0,
            slab: Slab::with_capacity(2 * capacity),
            once: List::default(),
            again: List::default(),
            once_ghosts: List::default(),
            again_ghosts: List::default(),
        }
    }

    /// Turns the oldest of one of the two queues into a ghost: the figure's REPLACE.
    fn replace(&mut self, is_again_ghost: bool) {
        let once = self.once.len() as u64 * ONE;
        let is_once_over = once > self.target || is_again_ghost && once == self.target;
        if !self.once.is_empty() && is_once_over || self.again.is_empty() {
            let slot = self.once.oldest();
            self.slab.set_mark(slot, Place::OnceGhost);
            self.slab.transfer(&mut self.once, &mut self.once_ghosts, slot);
        } else {
            let slot = self.again.oldest();
            self.slab.set_mark(slot, Place::AgainGhost);
            self.slab.transfer(&mut self.again, &mut self.again_ghosts, slot);
        }
    }

    fn revive_once(&mut self, slot: u32) {
        let ratio = self.again_ghosts.len() as u64 * ONE / self.once_ghosts.len() as u64;
        self.target = (self.target + ratio.max(ONE)).min(self.capacity as u64 * ONE);
        self.replace(false);
        self.slab.set_mark(slot, Place::Again);
        self.slab.transfer(&mut self.once_ghosts, &mut self.again, slot);
    }

    fn revive_again(&mut self, slot: u32) {
        let ratio = self.once_ghosts.len() as u64 * ONE / self.again_ghosts.len() as u64;
        self.target = self.target.saturating_sub(ratio.max(ONE));
        self.replace(true);
        self.slab.set_mark(slot, Place::Again);
        self.slab.transfer(&mut self.again_ghosts, &mut self.again, slot);
    }

    fn insert(&mut self, object: u64) {
        let once_and_ghosts = self.once.len() + self.once_ghosts.len();
        let all = once_and_ghosts + self.again.len() + self.again_ghosts.len();
        if once_and_ghosts == self.capacity {
            if self.once.len() < self.capacity {
                let oldest = self.once_ghosts.oldest();
                self.slab.remove(&mut self.once_ghosts, oldest);
                self.replace(false);
            } else {
                let oldest = self.once.oldest();
                self.slab.remove(&mut self.once, oldest);
            }
        } else if all >= self.capacity {
            if all == 2 * self.capacity {
                let oldest = self.again_ghosts.oldest();
                self.slab.remove(&mut self.again_ghosts, oldest);
            }
            self.replace(false);
        }
        self.slab.insert(&mut self.once, object, Place::Once);
    }
}

impl Policy for Arc {
    #[inline]
    fn access(&mut self, object: u64) -> bool {
        let Some(slot) = self.slab.find(object) else {
            self.insert(object);
            return false;
        };
        match self.slab.mark(slot) {
            Place::Once => {
                self.slab.set_mark(slot, Place::Again);
                self.slab.transfer(&mut self.once, &mut self.again, slot);
                true
            }
            Place::Again => {
                self.slab.renew(&mut self.again, slot);
                true
            }
            Place::OnceGhost => {
                self.revive_once(slot);
                false
            }
            Place::AgainGhost => {
                self.revive_again(slot);
                false
            }
        }
    }

    fn len(&self) -> usize {
        self.once.len() + self.again.len()
    }
}
