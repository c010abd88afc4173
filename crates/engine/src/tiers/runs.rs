//! A table of numbers by index that mostly count upwards, as places do before extents move.
//!
//! The table is cut into pages of 256 entries. A page keeps one base, to which an entry adds its
//! index, and the value of every entry for which that does not hold. A bitmap says which these are;
//! how many bits are set before an entry's says where among them its value stands.
//!
//! ```text
//! values      70 71 72  9 74 75  3 ..        base 70
//! bitmap       0  0  0  1  0  0  1 ..        exceptions [9, 3, ..]
//! ```
//!
//! Get is O(1); set moves up to 1 KiB. Memory: 64 bytes a page, and 4 per exception. That is a
//! quarter of a byte per entry as long as all count, and at most 4.3 besides what the allocator
//! adds.

/// Entries of a page.
const PAGE: usize = 256;
const WORDS: usize = PAGE / 64;
/// Room for exceptions grows by so many.
const GROWTH: usize = 8;

/// The table. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    pages: Vec<Page>,
    /// Entries that do not fill a page yet.
    rest: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Page {
    base: u32,
    is_exception: [u64; WORDS],
    exceptions: Vec<u32>,
}

impl Runs {
    /// So many entries that count from `first` on, wrapping around.
    pub(super) fn counting(first: u32, len: u32) -> Self {
        let pages = len as usize / PAGE;
        let bases = (0..pages).map(|page| first.wrapping_add(number(page * PAGE)));
        let rest = (number(pages * PAGE)..len).map(|index| first.wrapping_add(index));
        Self { pages: bases.map(Page::counting).collect(), rest: rest.collect() }
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> u32 {
        number(self.pages.len() * PAGE + self.rest.len())
    }

    /// Appends an entry.
    pub(super) fn push(&mut self, value: u32) {
        self.rest.push(value);
        if self.rest.len() == PAGE {
            let values = self.rest.first_chunk().expect("as many as fill a page");
            self.pages.push(Page::of(values));
            self.rest.clear();
        }
    }

    /// The value of an entry, if there is one. O(1).
    pub(super) fn get(&self, index: u32) -> Option<u32> {
        let (page, at) = split(index);
        match self.pages.get(page) {
            Some(page) => Some(page.get(at)),
            None if page == self.pages.len() => self.rest.get(at).copied(),
            None => None,
        }
    }

    /// Changes an entry.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn set(&mut self, index: u32, value: u32) {
        let (page, at) = split(index);
        if let Some(page) = self.pages.get_mut(page) {
            page.set(at, value);
        } else {
            assert_eq!(page, self.pages.len(), "entry {index} of {}", self.len());
            self.rest[at] = value;
        }
    }

    /// The values from this entry on.
    pub(super) fn iter_from(&self, first: u32) -> impl ExactSizeIterator<Item = u32> + '_ {
        (first..self.len()).map(|index| self.get(index).expect("below the length"))
    }

    /// Bytes that the table takes, without what the allocator adds.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let exceptions = self.pages.iter().map(|page| page.exceptions.capacity() * 4);
        self.pages.capacity() * size_of::<Page>() + exceptions.sum::<usize>()
    }
}

impl PartialEq for Runs {
    /// The same values may be kept over different bases.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter_from(0).eq(other.iter_from(0))
    }
}

impl Eq for Runs {}

impl Page {
    fn counting(base: u32) -> Self {
        Self { base, ..Self::default() }
    }

    /// The page of these values, over the base that most of them have, if it is more than half.
    fn of(values: &[u32; PAGE]) -> Self {
        if values.is_sorted_by(|before, value| before.wrapping_add(1) == *value) {
            return Self::counting(values[0]);
        }
        let bases = || (0..).zip(values).map(|(at, value)| value.wrapping_sub(at));
        let (mut base, mut votes) = (0, 0_u32);
        for candidate in bases() {
            if votes == 0 {
                base = candidate;
            }
            votes = if candidate == base { votes + 1 } else { votes - 1 };
        }
        let mut page = Self::counting(base);
        let exceptions = bases().filter(|candidate| *candidate != base).count();
        page.exceptions.reserve_exact(exceptions);
        for (at, value) in values.iter().enumerate() {
            if *value != page.counted(at) {
                page.is_exception[at / 64] |= 1 << (at % 64);
                page.exceptions.push(*value);
            }
        }
        page
    }

    /// What the entry is if it is no exception.
    fn counted(&self, at: usize) -> u32 {
        self.base.wrapping_add(number(at))
    }

    /// Where the value of an entry stands among the exceptions, or would stand.
    fn rank(&self, at: usize) -> usize {
        let before: u32 = self.is_exception[..at / 64].iter().map(|word| word.count_ones()).sum();
        let below = self.is_exception[at / 64] & ((1 << (at % 64)) - 1);
        (before + below.count_ones()) as usize
    }

    fn is_exception(&self, at: usize) -> bool {
        self.is_exception[at / 64] >> (at % 64) & 1 == 1
    }

    fn get(&self, at: usize) -> u32 {
        if self.is_exception(at) { self.exceptions[self.rank(at)] } else { self.counted(at) }
    }

    fn set(&mut self, at: usize, value: u32) {
        match (self.is_exception(at), value == self.counted(at)) {
            (false, true) => {}
            (false, false) => self.insert(at, value),
            (true, false) => {
                let rank = self.rank(at);
                self.exceptions[rank] = value;
            }
            (true, true) => {
                self.exceptions.remove(self.rank(at));
                self.is_exception[at / 64] &= !(1 << (at % 64));
            }
        }
    }

    fn insert(&mut self, at: usize, value: u32) {
        if self.exceptions.len() == self.exceptions.capacity() {
            self.exceptions.reserve_exact(GROWTH);
        }
        self.exceptions.insert(self.rank(at), value);
        self.is_exception[at / 64] |= 1 << (at % 64);
    }
}

/// The page of an entry, and where it is there.
fn split(index: u32) -> (usize, usize) {
    (index as usize / PAGE, index as usize % PAGE)
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("entries are numbered by u32")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u32]) -> Runs {
        let mut runs = Runs::default();
        for value in values {
            runs.push(*value);
        }
        runs
    }

    proptest! {
        #[test]
        fn a_table_says_what_a_plain_one_does(
            (first, len) in (any::<u32>(), 0..1500_u32),
            changes in prop::collection::vec((any::<u32>(), any::<u32>(), 0..4_u8), 0..400),
        ) {
            let mut runs = Runs::counting(first, len);
            let counting: Vec<u32> = (0..len).map(|at| first.wrapping_add(at)).collect();
            let mut plain = counting.clone();
            for (index, value, how) in changes {
                let Some(index) = index.checked_rem(len) else { continue };
                let value = if how == 0 { counting[index as usize] } else { value };
                runs.set(index, value);
                plain[index as usize] = value;
                prop_assert_eq!(runs.get(index), Some(value));
            }
            prop_assert_eq!((runs.len(), runs.get(len)), (len, None));
            prop_assert!(runs.iter_from(0).eq(plain.iter().copied()));
            prop_assert!(runs.iter_from(len / 3).eq(plain[len as usize / 3..].iter().copied()));
            prop_assert_eq!(of(&plain), runs);
        }
    }

    #[test]
    fn a_first_entry_that_has_moved_costs_no_more_than_any_other() {
        let mut values: Vec<u32> = (1000..1256).collect();
        values[0] = 7;
        let runs = of(&values);
        assert_eq!(runs.pages[0].exceptions, [7]);
        assert_eq!(runs.get(255), Some(1255));
    }
}
