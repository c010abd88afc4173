//! Cache simulation: how many accesses of a trace a cache of a given size and policy would serve.
//!
//! An access names an object by a 64-bit id; all objects have the same size. [`Blocks`] turns a
//! record into the accesses to its blocks. Every [`Policy`] allocates when it is built, for its
//! whole capacity, and never again.
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

mod arc;
mod clock;
mod fifo;
mod lru;
mod ring;
mod s3_fifo;
mod sieve;
mod slab;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use arc::Arc;
pub use clock::Clock;
pub use fifo::Fifo;
pub use lru::Lru;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;

use crate::Record;

/// The block that caches and footprints count in, unless told otherwise.
pub const BLOCK_BYTES: u64 = 4096;

/// The most objects that a simulated cache may hold.
pub const CAPACITY_MAX: usize = table::SLOTS_MAX / 2;

/// A cache of objects of equal size.
pub trait Policy {
    /// Uses an object: true if it was cached. Afterwards it is.
    fn access(&mut self, object: u64) -> bool;

    /// How many objects are cached.
    fn len(&self) -> usize;

    /// Whether nothing is cached.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// [`Lru`].
    Lru,
    /// [`Fifo`].
    Fifo,
    /// [`Clock`].
    Clock,
    /// [`S3Fifo`].
    S3Fifo,
    /// [`Sieve`].
    Sieve,
    /// [`Arc`].
    Arc,
}

impl Algorithm {
    /// Every policy.
    pub const ALL: [Self; 6] =
        [Self::Lru, Self::Fifo, Self::Clock, Self::S3Fifo, Self::Sieve, Self::Arc];

    /// The name used in commands and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Fifo => "fifo",
            Self::Clock => "clock",
            Self::S3Fifo => "s3-fifo",
            Self::Sieve => "sieve",
            Self::Arc => "arc",
        }
    }

    /// The policy of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// An empty cache for `capacity` objects, from 1 to [`CAPACITY_MAX`].
    pub fn build(self, capacity: usize) -> Box<dyn Policy> {
        match self {
            Self::Lru => Box::new(Lru::new(capacity)),
            Self::Fifo => Box::new(Fifo::new(capacity)),
            Self::Clock => Box::new(Clock::new(capacity)),
            Self::S3Fifo => Box::new(S3Fifo::new(capacity)),
            Self::Sieve => Box::new(Sieve::new(capacity)),
            Self::Arc => Box::new(Arc::new(capacity)),
        }
    }
}

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
