//! S3-FIFO: three queues, so that what is used only once leaves soon.
//!
//! New objects enter a small queue, a tenth of the cache. Those used at least twice again while in
//! it go on to the main queue; the others leave, and a ghost queue remembers their ids, as many as
//! the main queue holds. An object that comes back while its ghost is remembered enters the main
//! queue at once. The main queue gives an object another round for each use, three at most (Yang
//! and others, FIFO queues are all you need for cache eviction, SOSP 2023, algorithm 1).
//!
//! ```text
//! new ---> [ small, 10 % ] --used twice--> [ main, 90 % ] --not used--> out
//!               | used less                   ^    ^   |
//!               v                             |    +---+ used: count - 1
//!          [ ghost: ids ] ---- comes back ----+
//! ```
//!
//! What the algorithm leaves open is settled as in the authors' simulator: an object that moves
//! from small to main starts there with a count of zero.

use super::Policy;
use super::slab::{List, Slab};

const COUNT_MAX: u8 = 3;
const COUNT_TO_STAY: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Small,
    Main,
    Ghost,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    place: Place,
    /// Uses since it entered its queue, at most [`COUNT_MAX`].
    count: u8,
}

/// Small, main and ghost queue. O(1) per access, amortised.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    capacity: usize,
    small_target: usize,
    slab: Slab<Mark>,
    small: List,
    main: List,
    ghost: List,
}

impl S3Fifo {
    /// An empty cache for `capacity` objects, at least one.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a cache holds at least one object");
        let small_target = (capacity / 10).max(1);
        Self {
            capacity,
            small_target,
            slab: Slab::with_capacity(capacity + Self::ghosts_max(capacity, small_target)),
            small: List::default(),
            main: List::default(),
            ghost: List::default(),
        }
    }

    fn ghosts_max(capacity: usize, small_target: usize) -> usize {
        (capacity - small_target).max(1)
    }

    fn evict(&mut self) {
        while self.len() >= self.capacity {
            if self.small.len() >= self.small_target || self.main.len() == 0 {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
    }

    /// The oldest of the small queue goes on to main, or becomes a ghost.
    fn evict_small(&mut self) {
        let slot = self.small.oldest();
        if self.slab.mark(slot).count >= COUNT_TO_STAY {
            self.slab.set_mark(slot, Mark { place: Place::Main, count: 0 });
            self.slab.transfer(&mut self.small, &mut self.main, slot);
            return;
        }
        if self.ghost.len() == Self::ghosts_max(self.capacity, self.small_target) {
            let oldest = self.ghost.oldest();
            self.slab.remove(&mut self.ghost, oldest);
        }
        self.slab.set_mark(slot, Mark { place: Place::Ghost, count: 0 });
        self.slab.transfer(&mut self.small, &mut self.ghost, slot);
    }

    /// The oldest of the main queue goes another round, or leaves.
    fn evict_main(&mut self) {
        let slot = self.main.oldest();
        match self.slab.mark(slot).count {
            0 => self.slab.remove(&mut self.main, slot),
            count => {
                self.slab.set_mark(slot, Mark { place: Place::Main, count: count - 1 });
                self.slab.renew(&mut self.main, slot);
            }
        }
    }
}

impl Policy for S3Fifo {
    #[inline]
    fn access(&mut self, object: u64) -> bool {
        let found = self.slab.find(object).map(|slot| (slot, self.slab.mark(slot)));
        match found {
            Some((slot, Mark { place: Place::Ghost, .. })) => {
                self.slab.remove(&mut self.ghost, slot);
                self.evict();
                self.slab.insert(&mut self.main, object, Mark { place: Place::Main, count: 0 });
                false
            }
            Some((slot, Mark { place, count })) => {
                self.slab.set_mark(slot, Mark { place, count: (count + 1).min(COUNT_MAX) });
                true
            }
            None => {
                self.evict();
                self.slab.insert(&mut self.small, object, Mark { place: Place::Small, count: 0 });
                false
            }
        }
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }
}
