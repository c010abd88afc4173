//! The free slots of a server, in runs: a server that is empty is one of them, whatever its size.

use std::collections::BTreeMap;

/// A set of slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FreeSlots {
    /// The end of each run, by its first slot. Runs do not touch.
    runs: BTreeMap<u32, u32>,
    count: u32,
}

impl FreeSlots {
    /// The slots of a server that is empty.
    pub(super) fn all(slots: u32) -> Self {
        let runs = (slots > 0).then_some((0, slots));
        Self { runs: runs.into_iter().collect(), count: slots }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.runs.iter().flat_map(|(first, end)| *first..*end)
    }

    /// None is left.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A slot is free from now on.
    pub(super) fn insert(&mut self, slot: u32) {
        let before = self.runs.range(..=slot).next_back().map(|(first, end)| (*first, *end));
        if before.is_some_and(|(_, end)| slot < end) {
            return;
        }
        let first = before.filter(|(_, end)| *end == slot).map_or(slot, |(first, _)| first);
        let end = self.runs.remove(&(slot + 1)).unwrap_or(slot + 1);
        self.runs.insert(first, end);
        self.count += 1;
    }

    /// A slot is taken from now on.
    pub(super) fn remove(&mut self, slot: u32) {
        self.remove_range(slot..slot + 1);
    }

    /// These slots are taken from now on.
    pub(super) fn remove_range(&mut self, taken: std::ops::Range<u32>) {
        while let Some((&first, &end)) = self.runs.range(..taken.end).next_back()
            && end > taken.start
        {
            self.runs.remove(&first);
            if end > taken.end {
                self.runs.insert(taken.end, end);
            }
            if first < taken.start {
                self.runs.insert(first, taken.start);
            }
            self.count -= end.min(taken.end) - first.max(taken.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_set_that_it_says(
            acts in prop::collection::vec((any::<bool>(), 0..40_u32, 1..9_u32), 0..200),
        ) {
            let (mut free, mut naive) = (FreeSlots::all(40), (0..40).collect::<BTreeSet<u32>>());
            for (is_freed, slot, count) in acts {
                if is_freed {
                    free.insert(slot);
                    naive.insert(slot);
                } else if count == 1 {
                    free.remove(slot);
                    naive.remove(&slot);
                } else {
                    free.remove_range(slot..slot + count);
                    naive.retain(|one| !(slot..slot + count).contains(one));
                }
                prop_assert!(free.iter().eq(naive.iter().copied()));
                prop_assert!(free.iter().rev().eq(naive.iter().rev().copied()));
                prop_assert_eq!(free.count() as usize, naive.len());
                let mut ends = free.runs.iter().zip(free.runs.iter().skip(1));
                prop_assert!(ends.all(|((_, end), (first, _))| end < first));
            }
            free.clear();
            prop_assert_eq!(free.count(), 0);
        }
    }
}
