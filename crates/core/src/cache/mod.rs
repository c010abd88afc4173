//! Replacement policies: what a cache keeps, and what it lets go of.
//!
//! An access names an object by a 64-bit id; all objects have the same size. Every policy allocates
//! when it is built, for its whole capacity, and never again. Traces are replayed through them, and
//! caches that hold bytes stand on them: what such a cache needs besides hits and misses (values,
//! victims, removal) [`S3Fifo`] and the lists of a [`slab`] have.
//!
//! ```
//! use evenkeel_core::cache::Algorithm;
//!
//! let mut lru = Algorithm::Lru.build(3);
//! let hits = [1, 2, 3, 1, 4, 2].map(|object| lru.access(object));
//! assert_eq!(hits, [false, false, false, true, false, false]);
//! ```

mod arc;
mod clock;
mod fifo;
mod lru;
mod ring;
mod s3_fifo;
mod sieve;
pub mod slab;
pub mod table;
#[cfg(test)]
mod tests;

pub use arc::Arc;
pub use clock::Clock;
pub use fifo::Fifo;
pub use lru::Lru;
pub use s3_fifo::{Evicted, S3Fifo};
pub use sieve::Sieve;

/// The most objects that a cache may hold.
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
            Self::S3Fifo => Box::new(S3Fifo::<()>::new(capacity)),
            Self::Sieve => Box::new(Sieve::new(capacity)),
            Self::Arc => Box::new(Arc::new(capacity)),
        }
    }
}
