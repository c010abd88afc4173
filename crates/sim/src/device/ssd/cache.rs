//! The write cache: units that the host has written and the flash has not.
//!
//! ```text
//! write --> dirty --take--> being programmed --release--> gone
//!             ^                    |
//!             +-- written again ---+   (both: the new content waits for its own turn)
//! ```
//!
//! Units leave in the order in which they became dirty. Writing a dirty unit again takes no room:
//! the cache absorbs it. Room is given back when the program has ended, and until there is room a
//! write waits, which is the back-pressure that a host feels.
//!
//! A flush without power-loss protection must wait for what is dirty now and not for what comes
//! later. Each flush therefore starts an *epoch*; a unit belongs to the epoch in which it became
//! dirty, and the flush is done when no unit of its epoch or an earlier one is left.

use std::collections::{BTreeMap, VecDeque};

use super::geometry::Unit;

/// A period between two flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// A unit on its way to the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Which.
    pub unit: Unit,
    epoch: Epoch,
}

/// The cache. See the [module](self).
#[derive(Clone, Debug)]
pub struct Cache {
    capacity_units: u32,
    entries: BTreeMap<Unit, Entry>,
    /// In the order of becoming dirty, each with a stamp that tells whether that still holds.
    queue: VecDeque<(Unit, u64)>,
    stamp: u64,
    dirty: u32,
    used: u32,
    epoch: Epoch,
    epochs: BTreeMap<Epoch, u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The stamp of its place in the queue, and the epoch, if dirty.
    dirty: Option<(u64, Epoch)>,
    programming: u32,
}

impl Cache {
    /// An empty cache of so many units; at least 1.
    pub fn new(capacity_units: u32) -> Self {
        Self {
            capacity_units,
            entries: BTreeMap::new(),
            queue: VecDeque::new(),
            stamp: 0,
            dirty: 0,
            used: 0,
            epoch: Epoch(0),
            epochs: BTreeMap::new(),
        }
    }

    /// Units that wait to be programmed.
    pub fn dirty(&self) -> u32 {
        self.dirty
    }

    /// Whether the cache can answer a read of this unit.
    pub fn holds(&self, unit: Unit) -> bool {
        self.entries.contains_key(&unit)
    }

    /// Takes a written unit, unless there is no room for it. O(log units).
    #[must_use]
    pub fn write(&mut self, unit: Unit) -> bool {
        let is_full = self.used == self.capacity_units;
        if is_full && self.entries.get(&unit).is_none_or(|entry| entry.dirty.is_none()) {
            return false;
        }
        let entry = self.entries.entry(unit).or_default();
        if entry.dirty.is_none() {
            self.stamp += 1;
            entry.dirty = Some((self.stamp, self.epoch));
            self.queue.push_back((unit, self.stamp));
            *self.epochs.entry(self.epoch).or_default() += 1;
            self.dirty += 1;
            self.used += 1;
        }
        true
    }

    /// Forgets a dirty unit; what is being programmed goes on. O(log units).
    pub fn discard(&mut self, unit: Unit) {
        let Some(entry) = self.entries.get_mut(&unit) else { return };
        if let Some((_, epoch)) = entry.dirty.take() {
            self.dirty -= 1;
            self.leave(unit, epoch);
        }
    }

    /// Forgets the dirty units of `first..end`. O(dirty units in it).
    pub fn discard_range(&mut self, first: Unit, end: Unit) {
        let dirty: Vec<Unit> = self.entries.range(first..end).map(|(&unit, _)| unit).collect();
        for unit in dirty {
            self.discard(unit);
        }
    }

    /// Takes out up to `most` dirty units, the oldest first, to be programmed.
    pub fn take(&mut self, most: u32) -> Vec<Leaving> {
        let count = most.min(self.dirty) as usize;
        let mut leaving = Vec::with_capacity(count);
        while leaving.len() < count {
            let (unit, stamp) = self.queue.pop_front().expect("every dirty unit is queued");
            let Some(entry) = self.entries.get_mut(&unit) else { continue };
            let Some((_, epoch)) = entry.dirty.take_if(|dirty| dirty.0 == stamp) else { continue };
            entry.programming += 1;
            self.dirty -= 1;
            leaving.push(Leaving { unit, epoch });
        }
        leaving
    }

    /// Notes that a unit taken out has been programmed; its room is free.
    pub fn release(&mut self, left: Leaving) {
        let entry = self.entries.get_mut(&left.unit).expect("it stays until it is programmed");
        entry.programming -= 1;
        self.leave(left.unit, left.epoch);
    }

    /// Ends the present epoch and returns it.
    pub fn end_epoch(&mut self) -> Epoch {
        let ended = self.epoch;
        self.epoch.0 += 1;
        ended
    }

    /// Whether everything of this epoch and of all before it is in the flash.
    pub fn is_durable(&self, epoch: Epoch) -> bool {
        self.epochs.first_key_value().is_none_or(|(&oldest, _)| oldest > epoch)
    }

    fn leave(&mut self, unit: Unit, epoch: Epoch) {
        self.used -= 1;
        let count = self.epochs.get_mut(&epoch).expect("the unit was counted when it came");
        *count -= 1;
        if *count == 0 {
            self.epochs.remove(&epoch);
        }
        if self.entries.get(&unit).is_some_and(|it| it.dirty.is_none() && it.programming == 0) {
            self.entries.remove(&unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(leaving: &[Leaving]) -> Vec<u32> {
        leaving.iter().map(|it| it.unit.0).collect()
    }

    #[test]
    fn a_full_cache_absorbs_what_is_dirty_and_refuses_the_rest_until_a_program_ends() {
        let mut cache = Cache::new(2);
        assert!([1, 2, 1].into_iter().all(|unit| cache.write(Unit(unit))));
        assert!(!cache.write(Unit(3)), "full");
        let leaving = cache.take(1);
        assert_eq!(units(&leaving), [1], "the oldest leaves first");
        assert!(!cache.write(Unit(1)), "its former content still takes the room");
        assert!(cache.holds(Unit(1)));
        cache.release(leaving[0]);
        assert!(!cache.holds(Unit(1)));
        assert!(cache.write(Unit(3)));
        assert_eq!(units(&cache.take(9)), [2, 3]);
    }

    #[test]
    fn a_unit_forgotten_and_written_again_leaves_once_in_its_new_turn() {
        let mut cache = Cache::new(4);
        assert!([1, 2].into_iter().all(|unit| cache.write(Unit(unit))));
        cache.discard_range(Unit(0), Unit(2));
        assert!(cache.write(Unit(1)));
        assert_eq!(units(&cache.take(9)), [2, 1]);
        assert_eq!(cache.dirty(), 0);
    }

    #[test]
    fn a_flush_waits_for_what_came_before_it_alone() {
        let mut cache = Cache::new(4);
        assert!(cache.write(Unit(1)));
        let epoch = cache.end_epoch();
        assert!(cache.write(Unit(2)));
        assert!(!cache.is_durable(epoch));
        let leaving = cache.take(1);
        assert!(!cache.is_durable(epoch), "being programmed is not programmed");
        cache.release(leaving[0]);
        assert!(cache.is_durable(epoch));
    }
}
