//! Cache simulation: how many accesses of a trace a cache of a given size and policy would serve.
//!
//! An access names an object by a 64-bit id; all objects have the same size. [`Blocks`] turns a
//! record into the accesses to its blocks. The policies are those of [`evenkeel_core::cache`].
//!
//! ```
//! use evenkeel_trace::cache::{Algorithm, Simulation};
//!
//! let mut lru = Simulation::new(Algorithm::Lru, 3);
//! for block in [1, 2, 3, 1, 4, 2] {
//!     lru.access(block);
//! }
//! assert_eq!((lru.counts().hits, lru.counts().misses()), (1, 5));
//! ```

#[cfg(test)]
mod tests;

use std::ops::Range;

pub use evenkeel_core::cache::{Algorithm, Arc, Clock, Fifo, Lru, Policy, S3Fifo, Sieve};

use crate::Record;

/// The block that caches and footprints count in, unless told otherwise.
pub const BLOCK_BYTES: u64 = 4096;

/// The most objects that a simulated cache may hold.
pub const CAPACITY_MAX: usize = evenkeel_core::cache::CAPACITY_MAX;

/// What a simulated cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses.
    pub accesses: u64,
    /// Those that found their object cached.
    pub hits: u64,
}

impl Counts {
    /// Accesses that did not find their object.
    pub fn misses(&self) -> u64 {
        self.accesses - self.hits
    }

    /// Misses by accesses; `None` without an access.
    pub fn miss_ratio(&self) -> Option<f64> {
        (self.accesses > 0).then(|| self.misses() as f64 / self.accesses as f64)
    }
}

/// A cache with its counts.
pub struct Simulation {
    policy: Box<dyn Policy>,
    counts: Counts,
}

impl Simulation {
    /// An empty cache for `capacity` objects, from 1 to [`CAPACITY_MAX`].
    pub fn new(algorithm: Algorithm, capacity: usize) -> Self {
        Self { policy: algorithm.build(capacity), counts: Counts::default() }
    }

    /// One access.
    pub fn access(&mut self, object: u64) {
        self.counts.accesses += 1;
        self.counts.hits += u64::from(self.policy.access(object));
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// Cuts requests into the blocks that they touch.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    block_bytes: u64,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { block_bytes: BLOCK_BYTES }
    }
}

impl Blocks {
    /// The most blocks of one request that are visited: a longer one counts by its front. What a
    /// line of a trace claims must not decide how long its reader works.
    pub const PER_REQUEST_MAX: u64 = 1 << 14;

    /// Blocks of this size; `None` for zero.
    pub fn new(block_bytes: u64) -> Option<Self> {
        (block_bytes > 0).then_some(Self { block_bytes })
    }

    /// The numbers of the blocks that a request touches; empty if it has no bytes.
    #[inline]
    pub fn of(self, record: &Record) -> Range<u64> {
        if record.length == 0 {
            return 0..0;
        }
        let first = record.offset / self.block_bytes;
        let last = record.offset.saturating_add(record.length - 1) / self.block_bytes;
        first..last.min(first.saturating_add(Self::PER_REQUEST_MAX - 1)).saturating_add(1)
    }
}
