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
//!
//! Each cached object has a value, such as the place of its bytes; who only counts hits takes `()`.

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
struct Mark<V> {
    place: Place,
    /// Uses since it entered its queue, at most [`COUNT_MAX`].
    count: u8,
    value: V,
}

/// Small, main and ghost queue. O(1) per access, amortised.
#[derive(Clone, Debug)]
pub struct S3Fifo<V = ()> {
    capacity: usize,
    small_target: usize,
    slab: Slab<Mark<V>>,
    small: List,
    main: List,
    ghost: List,
}

/// An object that had to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted<V> {
    /// Its id.
    pub object: u64,
    /// Its value.
    pub value: V,
    /// Whether it had been used often enough for the main queue.
    pub was_main: bool,
}

impl<V: Copy> S3Fifo<V> {
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

    /// The bytes that a cache for so many objects takes.
    pub fn memory_bytes(capacity: usize) -> usize {
        let small_target = (capacity / 10).max(1);
        Slab::<Mark<V>>::memory_bytes(capacity + Self::ghosts_max(capacity, small_target))
    }

    /// How many objects are cached.
    pub fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a cached object; it does not count as a use.
    #[inline]
    pub fn peek(&self, object: u64) -> Option<V> {
        let (_, mark) = self.resident(object)?;
        Some(mark.value)
    }

    /// Uses an object: its value, if it is cached.
    #[inline]
    pub fn hit(&mut self, object: u64) -> Option<V> {
        let (slot, mark) = self.resident(object)?;
        self.slab.set_mark(slot, Mark { count: (mark.count + 1).min(COUNT_MAX), ..mark });
        Some(mark.value)
    }

    /// Takes in an object that is not cached; gives the one that leaves for it, if the cache is
    /// full. An object that left lately enters the main queue.
    #[inline]
    pub fn insert(&mut self, object: u64, value: V) -> Option<Evicted<V>> {
        if self.forget_ghost(object) {
            return self.insert_at(Place::Main, object, value);
        }
        self.insert_at(Place::Small, object, value)
    }

    /// Takes in an object that is not cached and is known to be used again: it enters the main
    /// queue. Gives the one that leaves for it.
    pub fn insert_main(&mut self, object: u64, value: V) -> Option<Evicted<V>> {
        self.forget_ghost(object);
        self.insert_at(Place::Main, object, value)
    }

    /// Lets go of an object, and of the memory of it; gives its value if it was cached.
    pub fn remove(&mut self, object: u64) -> Option<V> {
        let slot = self.slab.find(object)?;
        let mark = self.slab.mark(slot);
        let list = match mark.place {
            Place::Small => &mut self.small,
            Place::Main => &mut self.main,
            Place::Ghost => &mut self.ghost,
        };
        self.slab.remove(list, slot);
        (mark.place != Place::Ghost).then_some(mark.value)
    }

    /// Gives an object, cached or remembered, another id, which is neither.
    pub fn rename(&mut self, object: u64, name: u64) {
        if let Some(slot) = self.slab.find(object) {
            self.slab.rename(slot, name);
        }
    }

    fn resident(&self, object: u64) -> Option<(u32, Mark<V>)> {
        let slot = self.slab.find(object)?;
        let mark = self.slab.mark(slot);
        (mark.place != Place::Ghost).then_some((slot, mark))
    }

    /// Whether it left lately.
    fn forget_ghost(&mut self, object: u64) -> bool {
        let Some(slot) = self.slab.find(object) else { return false };
        assert!(self.slab.mark(slot).place == Place::Ghost, "a cached object is not taken in anew");
        self.slab.remove(&mut self.ghost, slot);
        true
    }

    fn insert_at(&mut self, place: Place, object: u64, value: V) -> Option<Evicted<V>> {
        let evicted = if self.len() < self.capacity { None } else { self.evict() };
        let list = if place == Place::Main { &mut self.main } else { &mut self.small };
        self.slab.insert(list, object, Mark { place, count: 0, value });
        evicted
    }

    fn ghosts_max(capacity: usize, small_target: usize) -> usize {
        (capacity - small_target).max(1)
    }

    /// Goes through the queues until an object has left. There is one.
    fn evict(&mut self) -> Option<Evicted<V>> {
        loop {
            let evicted = if self.small.len() >= self.small_target || self.main.is_empty() {
                self.evict_small()
            } else {
                self.evict_main()
            };
            if evicted.is_some() {
                return evicted;
            }
        }
    }

    /// The oldest of the small queue goes on to main, or becomes a ghost.
    fn evict_small(&mut self) -> Option<Evicted<V>> {
        let slot = self.small.oldest();
        let mark = self.slab.mark(slot);
        if mark.count >= COUNT_TO_STAY {
            self.slab.set_mark(slot, Mark { place: Place::Main, count: 0, ..mark });
            self.slab.transfer(&mut self.small, &mut self.main, slot);
            return None;
        }
        if self.ghost.len() == Self::ghosts_max(self.capacity, self.small_target) {
            let oldest = self.ghost.oldest();
            self.slab.remove(&mut self.ghost, oldest);
        }
        self.slab.set_mark(slot, Mark { place: Place::Ghost, count: 0, ..mark });
        self.slab.transfer(&mut self.small, &mut self.ghost, slot);
        Some(Evicted { object: self.slab.object(slot), value: mark.value, was_main: false })
    }

    /// The oldest of the main queue goes another round, or leaves.
    fn evict_main(&mut self) -> Option<Evicted<V>> {
        let slot = self.main.oldest();
        let mark = self.slab.mark(slot);
        if mark.count == 0 {
            let object = self.slab.object(slot);
            self.slab.remove(&mut self.main, slot);
            return Some(Evicted { object, value: mark.value, was_main: true });
        }
        self.slab.set_mark(slot, Mark { count: mark.count - 1, ..mark });
        self.slab.renew(&mut self.main, slot);
        None
    }
}

impl Policy for S3Fifo {
    #[inline]
    fn access(&mut self, object: u64) -> bool {
        let is_hit = self.hit(object).is_some();
        if !is_hit {
            self.insert(object, ());
        }
        is_hit
    }

    fn len(&self) -> usize {
        self.len()
    }
}
