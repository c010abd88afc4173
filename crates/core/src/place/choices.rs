//! What was chosen for each object of a volume, in two bits.
//!
//! With this map nobody has to look for an object: not on reads, not on writes after the first, not
//! after a restart. It takes 64 KiB for a TiB in objects of 4 MiB, in pages that fit a block of
//! 4 KiB beside 64 bytes that say what it is. A
//! choice must be durable before the first byte of its object is written; then a crash leaves at
//! worst a choice without an object, which reads as zeroes like any other object that nobody wrote.

use std::collections::BTreeSet;

use super::CANDIDATES_MAX;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096 - 64;

/// Objects of which a page tells.
pub const PAGE_OBJECTS: u64 = PAGE_BYTES as u64 * 4;

/// Most objects of a volume: 4 PiB in objects of 4 MiB, and 260 MiB of map.
pub const OBJECTS_MAX: u64 = 1 << 30;

/// The choices of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceMap {
    objects: u64,
    /// Four objects to a byte, the first in the lowest bits: 0 for none yet, else one more than the
    /// candidate's position.
    bits: Vec<u8>,
    /// Pages that have changed since they were last taken.
    changed: BTreeSet<u32>,
}

impl ChoiceMap {
    /// The map of a volume of so many objects, up to [`OBJECTS_MAX`], of which none is written.
    pub fn new(objects: u64) -> Self {
        assert!(objects <= OBJECTS_MAX, "{objects} objects are more than a map holds");
        let pages = usize::try_from(objects.div_ceil(PAGE_OBJECTS)).expect("a bounded number");
        Self { objects, bits: vec![0; pages * PAGE_BYTES], changed: BTreeSet::new() }
    }

    /// Objects of the volume.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        u32::try_from(self.bits.len() / PAGE_BYTES).expect("a bounded number")
    }

    /// The position of the chosen candidate; `None` if the object was never written.
    pub fn choice(&self, object: u64) -> Option<usize> {
        let (byte, shift) = self.place(object);
        usize::from(self.bits[byte] >> shift & 3).checked_sub(1)
    }

    /// Notes a choice, or with `None` that the object is gone.
    pub fn set(&mut self, object: u64, choice: Option<usize>) {
        assert!(choice.is_none_or(|position| position < CANDIDATES_MAX), "{choice:?}");
        let (byte, shift) = self.place(object);
        let bits = choice.map_or(0, |position| u8::try_from(position + 1).expect("at most 3"));
        self.bits[byte] = self.bits[byte] & !(3 << shift) | bits << shift;
        self.changed.insert(u32::try_from(byte / PAGE_BYTES).expect("a bounded number"));
    }

    /// A page as it is to be stored.
    pub fn page(&self, page: u32) -> &[u8] {
        &self.bits[page as usize * PAGE_BYTES..][..PAGE_BYTES]
    }

    /// Takes a page as it was stored. Whoever stores it must know that it is whole: any bits are
    /// choices.
    pub fn load(&mut self, page: u32, bytes: &[u8; PAGE_BYTES]) {
        self.bits[page as usize * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(bytes);
    }

    /// A page that has changed and is yet to be stored; it counts as unchanged from now on.
    pub fn take_changed(&mut self) -> Option<u32> {
        self.changed.pop_first()
    }

    fn place(&self, object: u64) -> (usize, u32) {
        assert!(object < self.objects, "object {object} of {}", self.objects);
        let byte = usize::try_from(object / 4).expect("a bounded number");
        (byte, u32::try_from(object % 4).expect("below 4") * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    #[test]
    fn choices_are_found_again_and_disturb_no_neighbour() {
        let mut prng = Prng::new(11);
        let mut map = ChoiceMap::new(50_000);
        let mut naive = vec![None; 50_000];
        for _ in 0..100_000 {
            let object = usize::try_from(prng.below(50_000)).unwrap();
            let choice = usize::try_from(prng.below(4)).unwrap().checked_sub(1);
            map.set(object as u64, choice);
            naive[object] = choice;
        }
        let found: Vec<_> = (0..50_000).map(|object| map.choice(object)).collect();
        assert_eq!(found, naive);
    }

    #[test]
    fn changed_pages_are_stored_and_loaded() {
        let mut map = ChoiceMap::new(3 * PAGE_OBJECTS - 5);
        map.set(PAGE_OBJECTS + 1, Some(2));
        map.set(PAGE_OBJECTS + 2, Some(0));
        assert_eq!((map.pages(), map.take_changed(), map.take_changed()), (3, Some(1), None));
        let mut again = ChoiceMap::new(map.objects());
        again.load(1, map.page(1).try_into().unwrap());
        assert_eq!(again, map);
        assert_eq!(again.choice(PAGE_OBJECTS + 1), Some(2));
    }

    #[test]
    fn a_tebibyte_takes_64_kibibytes_and_17_pages() {
        let map = ChoiceMap::new((1 << 40) / (4 << 20));
        assert_eq!((map.objects() / 4, map.pages()), (64 << 10, 17));
    }
}
