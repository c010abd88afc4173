//! What was chosen for each object of a volume, in two bits.
//!
//! With this map nobody has to look for an object: not on reads, not on writes after the first, not
//! after a restart. It takes 64 KiB for a TiB in objects of 4 MiB that are all written, in pages
//! that fit a block of 4 KiB beside 64 bytes that say what it is; where nothing was written it
//! takes nothing. A choice must be durable before the first byte of its object is written; then a
//! crash leaves at worst a choice without an object, which reads as zeroes like any other object
//! that nobody wrote.

use std::collections::BTreeSet;

use super::CANDIDATES_MAX;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096 - 64;

/// Objects of which a page tells.
pub const PAGE_OBJECTS: u64 = PAGE_BYTES as u64 * 4;

/// Most objects of a volume: 4 PiB in objects of 4 MiB, and 260 MiB of map.
pub const OBJECTS_MAX: u64 = 1 << 30;

/// A page on which nothing was chosen.
static BLANK: Page = [0; PAGE_BYTES];

/// Four objects to a byte, the first in the lowest bits: 0 for none yet, else one more than the
/// candidate's position.
type Page = [u8; PAGE_BYTES];

/// The choices of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceMap {
    objects: u64,
    /// None where nothing is chosen.
    pages: Vec<Option<Box<Page>>>,
    chosen: Chosen,
    /// Pages that have changed since they were last taken.
    changed: BTreeSet<u32>,
}

/// How many objects have a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// In all.
    pub objects: u64,
    /// Of those, how many are not under their first name.
    pub diverted: u64,
}

impl Chosen {
    /// Of a page: the upper bit of a pair is set for the second candidate and the third.
    fn of(page: &Page) -> Self {
        let count = |of: fn(u8) -> u8| {
            page.iter().map(|byte| u64::from((of(*byte) & 0b0101_0101).count_ones())).sum()
        };
        Self { objects: count(|byte| byte | byte >> 1), diverted: count(|byte| byte >> 1) }
    }

    fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.diverted += other.diverted;
    }

    fn remove(&mut self, other: Self) {
        self.objects -= other.objects;
        self.diverted -= other.diverted;
    }
}

impl ChoiceMap {
    /// Pages of the map of a volume of so many objects, up to [`OBJECTS_MAX`].
    pub fn pages_of(objects: u64) -> u32 {
        assert!(objects <= OBJECTS_MAX, "{objects} objects are more than a map holds");
        u32::try_from(objects.div_ceil(PAGE_OBJECTS)).expect("a bounded number")
    }

    /// The map of a volume of so many objects, up to [`OBJECTS_MAX`], of which none is written.
    pub fn new(objects: u64) -> Self {
        let pages = vec![None; Self::pages_of(objects) as usize];
        Self { objects, pages, chosen: Chosen::default(), changed: BTreeSet::new() }
    }

    /// Objects of the volume.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// How many of them have a choice.
    pub fn chosen(&self) -> Chosen {
        self.chosen
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        u32::try_from(self.pages.len()).expect("a bounded number")
    }

    /// The volume has so many objects from now on, up to [`OBJECTS_MAX`]. Choices of those that it
    /// loses are forgotten.
    pub fn resize(&mut self, objects: u64) {
        let pages = Self::pages_of(objects) as usize;
        for object in self.chosen_from(objects).collect::<Vec<_>>() {
            self.set(object, None);
        }
        self.pages.resize(pages, None);
        self.changed.retain(|page| (*page as usize) < pages);
        self.objects = objects;
    }

    /// The objects from this one on that have a choice.
    pub fn chosen_from(&self, first: u64) -> impl Iterator<Item = u64> {
        let first_page = usize::try_from(first / PAGE_OBJECTS).expect("a bounded number");
        let pages = (0_u64..).zip(&self.pages).skip(first_page).filter(|(_, page)| page.is_some());
        let objects = pages.flat_map(|(page, _)| page * PAGE_OBJECTS..(page + 1) * PAGE_OBJECTS);
        let objects = objects.take_while(|object| *object < self.objects);
        objects.filter(move |object| *object >= first && self.choice(*object).is_some())
    }

    /// The objects of a page that have a choice, in order.
    pub fn chosen_on(&self, page: u32) -> impl Iterator<Item = u64> {
        let first = u64::from(page) * PAGE_OBJECTS;
        let is_blank = self.pages[page as usize].is_none();
        let end = if is_blank { first } else { self.objects.min(first + PAGE_OBJECTS) };
        (first..end).filter(|object| self.choice(*object).is_some())
    }

    /// The position of the chosen candidate; `None` if the object was never written.
    pub fn choice(&self, object: u64) -> Option<usize> {
        let (page, byte, shift) = self.place(object);
        let page = self.pages[page].as_deref()?;
        usize::from(page[byte] >> shift & 3).checked_sub(1)
    }

    /// Notes a choice, or with `None` that the object is gone.
    pub fn set(&mut self, object: u64, choice: Option<usize>) {
        assert!(choice.is_none_or(|position| position < CANDIDATES_MAX), "{choice:?}");
        let (number, byte, shift) = self.place(object);
        let bits = choice.map_or(0, |position| u8::try_from(position + 1).expect("at most 3"));
        let page = self.pages[number].get_or_insert_with(|| Box::new(BLANK));
        let of = |bits: u8| Chosen { objects: u64::from(bits > 0), diverted: u64::from(bits > 1) };
        self.chosen.remove(of(page[byte] >> shift & 3));
        self.chosen.add(of(bits));
        page[byte] = page[byte] & !(3 << shift) | bits << shift;
        self.changed.insert(u32::try_from(number).expect("a bounded number"));
    }

    /// A page as it is to be stored.
    pub fn page(&self, page: u32) -> &[u8; PAGE_BYTES] {
        self.pages[page as usize].as_deref().unwrap_or(&BLANK)
    }

    /// Takes a page as it was stored. Whoever stores it must know that it is whole: any bits are
    /// choices, but for those of objects beyond the last.
    pub fn load(&mut self, page: u32, bytes: &[u8; PAGE_BYTES]) {
        let number = page as usize;
        let before = self.pages[number].take();
        self.chosen.remove(before.as_deref().map_or_else(Chosen::default, Chosen::of));
        let mut bytes = *bytes;
        let first = u64::from(page) * PAGE_OBJECTS;
        for object in self.objects.max(first)..first + PAGE_OBJECTS {
            let (byte, shift) = within(object);
            bytes[byte] &= !(3 << shift);
        }
        let chosen = Chosen::of(&bytes);
        self.chosen.add(chosen);
        self.pages[number] = (chosen.objects > 0).then(|| Box::new(bytes));
    }

    /// A page that has changed and is yet to be stored; it counts as unchanged from now on.
    pub fn take_changed(&mut self) -> Option<u32> {
        self.changed.pop_first()
    }

    fn place(&self, object: u64) -> (usize, usize, u32) {
        assert!(object < self.objects, "object {object} of {}", self.objects);
        let page = usize::try_from(object / PAGE_OBJECTS).expect("a bounded number");
        let (byte, shift) = within(object);
        (page, byte, shift)
    }
}

/// Where an object is on its page.
fn within(object: u64) -> (usize, u32) {
    let object = object % PAGE_OBJECTS;
    let byte = usize::try_from(object / 4).expect("a bounded number");
    (byte, u32::try_from(object % 4).expect("below 4") * 2)
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
        let count =
            |of: fn(&usize) -> bool| naive.iter().flatten().filter(|at| of(at)).count() as u64;
        assert_eq!(
            map.chosen(),
            Chosen { objects: count(|_| true), diverted: count(|at| *at > 0) }
        );
    }

    #[test]
    fn changed_pages_are_stored_and_loaded() {
        let mut map = ChoiceMap::new(3 * PAGE_OBJECTS - 5);
        map.set(PAGE_OBJECTS + 1, Some(2));
        map.set(PAGE_OBJECTS + 2, Some(0));
        assert_eq!((map.pages(), map.take_changed(), map.take_changed()), (3, Some(1), None));
        let mut again = ChoiceMap::new(map.objects());
        again.load(1, map.page(1));
        assert_eq!(again, map);
        assert_eq!(again.choice(PAGE_OBJECTS + 1), Some(2));
        again.load(1, &BLANK);
        assert_eq!(again, ChoiceMap::new(map.objects()));
        again.load(2, &[0xff; PAGE_BYTES]);
        assert_eq!(again.chosen().objects, PAGE_OBJECTS - 5, "there are no more");
    }

    #[test]
    fn a_map_grows_and_shrinks() {
        let mut map = ChoiceMap::new(10);
        map.set(9, Some(1));
        map.resize(3 * PAGE_OBJECTS);
        map.set(2 * PAGE_OBJECTS + 7, Some(0));
        assert_eq!(map.chosen_from(0).collect::<Vec<_>>(), [9, 2 * PAGE_OBJECTS + 7]);
        assert_eq!(map.chosen_from(10).collect::<Vec<_>>(), [2 * PAGE_OBJECTS + 7]);
        map.resize(2 * PAGE_OBJECTS + 7);
        assert_eq!((map.pages(), map.chosen()), (3, Chosen { objects: 1, diverted: 1 }));
        map.resize(9);
        assert_eq!((map.pages(), map.chosen()), (1, Chosen::default()));
        map.resize(10);
        assert_eq!(map.choice(9), None, "it is forgotten");
    }

    #[test]
    fn a_tebibyte_takes_64_kibibytes_and_17_pages() {
        let map = ChoiceMap::new((1 << 40) / (4 << 20));
        assert_eq!((map.objects() / 4, map.pages()), (64 << 10, 17));
    }
}
