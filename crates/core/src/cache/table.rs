//! Finds the slot of a key: an open-addressing table that holds no keys.
//!
//! The keys lie in the caller's slab, which a hit visits anyway. An entry is one word: half of the
//! key's hash, and the slot. The hash's top bits are the entry's home, so that an entry knows its
//! home without a look at its key: entries move up after a removal, and the table grows, without
//! touching the slab. The other bits of the half settle nearly every comparison.
//!
//! ```text
//! hash     1011 0110 1110 ... (32 bits)          entries (power of two, at most half full)
//!          ^^^^ home in a table of 16            [ hash | slot + 1 ]   0 = empty
//!
//! home 11:  [10: -] [11: a] [12: b, home 11] [13: c, home 13] [14: -]
//! remove a: [10: -] [11: b] [12: -]          [13: c, home 13] [14: -]   no tombstones
//! ```
//!
//! A lookup probes on from the home to the first empty entry: 1.5 entries on average for a hit and
//! 2.5 for a miss at half load (Knuth, The Art of Computer Programming, volume 3, section 6.4).

/// The most slots that a table may hold.
pub const SLOTS_MAX: usize = 1 << 28;

const BITS_MIN: u32 = 4;

/// Spreads a key over all 64 bits; the same key always gives the same word.
#[inline]
pub fn mix(key: u64) -> u64 {
    let mut mixed = key ^ (key >> 32);
    mixed = mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    mixed ^= mixed >> 32;
    mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Slots by key. See the [module](self).
#[derive(Clone, Debug)]
pub struct SlotTable {
    entries: Vec<u64>,
    bits: u32,
    length: usize,
}

impl SlotTable {
    /// A table that takes `slots` entries before it grows.
    pub fn with_capacity(slots: usize) -> Self {
        assert!(slots <= SLOTS_MAX, "a table of {slots} slots is beyond its bound");
        let bits = bits_for(slots);
        Self { entries: vec![0; 1 << bits], bits, length: 0 }
    }

    /// The bytes that a table for so many slots takes, if it never has to grow.
    pub fn memory_bytes(slots: usize) -> usize {
        size_of::<u64>() << bits_for(slots)
    }

    /// The slot of `key`; `key_at` tells the key in a slot.
    #[inline]
    pub fn find(&self, key: u64, key_at: impl Fn(u32) -> u64) -> Option<u32> {
        let tag = tag_of(key);
        let mut position = self.home(tag);
        loop {
            let entry = self.entries[position];
            if entry == 0 {
                return None;
            }
            if tag_in(entry) == tag && key_at(slot_in(entry)) == key {
                return Some(slot_in(entry));
            }
            position = self.after(position);
        }
    }

    /// Adds a key that is not in the table.
    #[inline]
    pub fn insert(&mut self, key: u64, slot: u32) {
        if (self.length + 1) * 2 > self.entries.len() {
            self.grow();
        }
        self.length += 1;
        self.place(u64::from(tag_of(key)) << 32 | u64::from(slot + 1));
    }

    /// Takes out a key that is in the table with this slot.
    #[inline]
    pub fn remove(&mut self, key: u64, slot: u32) {
        let wanted = u64::from(tag_of(key)) << 32 | u64::from(slot + 1);
        let mut hole = self.home(tag_of(key));
        while self.entries[hole] != wanted {
            assert!(self.entries[hole] != 0, "only keys in the table are taken out");
            hole = self.after(hole);
        }
        self.length -= 1;
        self.close(hole);
    }

    /// Moves entries up into the hole, each no further than its home.
    #[inline]
    fn close(&mut self, mut hole: usize) {
        let mask = self.entries.len() - 1;
        let mut position = hole;
        loop {
            position = self.after(position);
            let entry = self.entries[position];
            if entry == 0 {
                break;
            }
            let from_home = position.wrapping_sub(self.home(tag_in(entry))) & mask;
            if from_home >= position.wrapping_sub(hole) & mask {
                self.entries[hole] = entry;
                hole = position;
            }
        }
        self.entries[hole] = 0;
    }

    #[inline]
    fn place(&mut self, entry: u64) {
        let mut position = self.home(tag_in(entry));
        while self.entries[position] != 0 {
            position = self.after(position);
        }
        self.entries[position] = entry;
    }

    #[cold]
    fn grow(&mut self) {
        self.bits += 1;
        let entries = std::mem::replace(&mut self.entries, vec![0; 1 << self.bits]);
        entries.into_iter().filter(|&entry| entry != 0).for_each(|entry| self.place(entry));
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        (tag >> (u32::BITS - self.bits)) as usize
    }

    #[inline]
    fn after(&self, position: usize) -> usize {
        (position + 1) & (self.entries.len() - 1)
    }
}

fn bits_for(slots: usize) -> u32 {
    (slots * 2).next_power_of_two().trailing_zeros().max(BITS_MIN)
}

#[inline]
fn tag_of(key: u64) -> u32 {
    (mix(key) >> 32) as u32
}

#[inline]
fn tag_in(entry: u64) -> u32 {
    (entry >> 32) as u32
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
fn slot_in(entry: u64) -> u32 {
    (entry as u32).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::prng::Prng;

    use super::*;

    #[test]
    fn it_agrees_with_a_sorted_map_over_random_operations() {
        let mut prng = Prng::new(5);
        let mut table = SlotTable::with_capacity(0);
        let mut slab = Vec::new();
        let mut model = BTreeMap::new();
        for _ in 0..30_000 {
            let key = prng.below(500) << (8 * prng.below(3));
            let found = table.find(key, |slot| slab[slot as usize]);
            assert_eq!(found, model.get(&key).copied(), "key {key}");
            match found {
                Some(slot) if prng.below(2) == 0 => {
                    table.remove(key, slot);
                    model.remove(&key);
                }
                Some(_) => {}
                None => {
                    let slot = u32::try_from(slab.len()).unwrap();
                    slab.push(key);
                    table.insert(key, slot);
                    model.insert(key, slot);
                }
            }
            assert_eq!(table.length, model.len());
        }
    }

    #[test]
    fn a_removal_keeps_entries_that_wrapped_around_the_end_within_reach() {
        // All keys have a home in the last quarter, so that their run wraps to the front.
        let keys: Vec<u64> = (0..).filter(|&key| tag_of(key) >> 30 == 3).take(8).collect();
        for removed in 0..keys.len() {
            let mut table = SlotTable::with_capacity(8);
            for (slot, &key) in (0..).zip(&keys) {
                table.insert(key, slot);
            }
            table.remove(keys[removed], u32::try_from(removed).unwrap());
            for (index, &key) in keys.iter().enumerate() {
                let found = table.find(key, |slot| keys[slot as usize]);
                assert_eq!(found.is_some(), index != removed);
            }
        }
    }
}
