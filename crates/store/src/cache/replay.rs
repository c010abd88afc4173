//! The cache without bytes: what a trace would find in it, and what it would do to the SSD.
//!
//! ```
//! use evenkeel_core::time::Nanos;
//! use evenkeel_store::cache::{Endurance, Found, Key, Measures, Place, Replay, Side, Standing};
//!
//! let measures = Measures { tail_blocks: 2, body_blocks: 1, flash: None };
//! let mut replay = Replay::new(Nanos::ZERO, measures, Endurance::default());
//! let on_tail = |_| Standing::from(Side::Tail);
//! let place = Place::of(0, 5);
//! replay.write(Nanos(1), Key(7), place, on_tail);
//! assert!(matches!(replay.read(Nanos(2), Key(7), place, on_tail), Found::Memory(_)));
//! replay.forget(Key(7));
//! assert_eq!(replay.read(Nanos(3), Key(7), place, on_tail), Found::Nowhere);
//! ```

use evenkeel_core::time::Nanos;

use super::{
    CacheCounters, Endurance, Found, Key, Measures, Place, Policy, Staged, Standing, WearReport,
};

/// A cache whose drives and SSD take no time.
#[derive(Clone, Debug)]
pub struct Replay {
    policy: Policy,
}

impl Replay {
    /// An empty cache.
    pub fn new(now: Nanos, measures: Measures, endurance: Endurance) -> Self {
        Self { policy: Policy::new(now, measures, endurance) }
    }

    /// A block is read, and is cached afterwards; tells where it was. `standing` tells what any
    /// block is to the chain.
    pub fn read(
        &mut self,
        now: Nanos,
        key: Key,
        place: Place,
        standing: impl Fn(Key) -> Standing,
    ) -> Found {
        let found = self.policy.read(key, place, standing(key).side);
        if !matches!(found, Found::Memory(_)) {
            let placed = self.policy.take_read(now, key, place, standing);
            self.write_sealed(placed.and_then(|placed| placed.staged));
        }
        found
    }

    /// A block is written at an address that nothing alive has.
    pub fn write(
        &mut self,
        now: Nanos,
        key: Key,
        place: Place,
        standing: impl Fn(Key) -> Standing,
    ) {
        let placed = self.policy.take_written(now, key, place, standing);
        self.write_sealed(placed.staged);
    }

    /// A block is no more: it was overwritten, by a write to another address, or discarded.
    pub fn forget(&mut self, key: Key) {
        self.policy.forget(key);
    }

    /// A block was moved by the cleaner.
    pub fn rename(&mut self, from: Key, to: Key) {
        self.policy.rename(from, to);
    }

    /// What happened so far.
    pub fn counters(&self) -> CacheCounters {
        self.policy.counters()
    }

    /// How worn the SSD is.
    pub fn wear(&self, now: Nanos) -> WearReport {
        self.policy.wear(now)
    }

    fn write_sealed(&mut self, staged: Option<Staged>) {
        if let Some(region) = staged.and_then(|staged| staged.sealed) {
            self.policy.written(region);
        }
    }
}
