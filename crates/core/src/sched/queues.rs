//! First-in-first-out queues by tenant, all in one slab.
//!
//! Each queue is a singly linked list through the slab; freed cells form another. So the memory is
//! that of the most entries ever queued at once, whoever queued them, an empty queue costs twelve
//! bytes, and nothing allocates once that peak was reached.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Cell<T> {
    entry: T,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
    length: u32,
}

/// Queues of `T` by tenant index.
#[derive(Clone, Debug)]
pub(crate) struct Queues<T> {
    cells: Vec<Cell<T>>,
    free: u32,
    ends: Vec<Ends>,
    length: usize,
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Self { cells: Vec::new(), free: NONE, ends: Vec::new(), length: 0 }
    }
}

impl<T: Copy> Queues<T> {
    /// Makes room for tenants below `tenants`.
    pub(crate) fn reserve_tenants(&mut self, tenants: usize) {
        if tenants > self.ends.len() {
            self.ends.resize(tenants, Ends { first: NONE, last: NONE, length: 0 });
        }
    }

    /// Entries in all queues.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Entries in the tenant's queue.
    pub(crate) fn len_of(&self, tenant: usize) -> u32 {
        self.ends[tenant].length
    }

    /// The oldest entry of the tenant.
    pub(crate) fn front(&self, tenant: usize) -> Option<&T> {
        self.cells.get(self.ends[tenant].first as usize).map(|cell| &cell.entry)
    }

    /// Appends. O(1), and allocates only when more is queued than ever before.
    pub(crate) fn push(&mut self, tenant: usize, entry: T) {
        let cell = Cell { entry, next: NONE };
        let index = self.free;
        let index = if index == NONE {
            self.cells.push(cell);
            u32::try_from(self.cells.len() - 1).expect("slots are u32, so tickets are fewer")
        } else {
            self.free = std::mem::replace(&mut self.cells[index as usize], cell).next;
            index
        };
        let ends = &mut self.ends[tenant];
        match ends.last {
            NONE => ends.first = index,
            last => self.cells[last as usize].next = index,
        }
        ends.last = index;
        ends.length += 1;
        self.length += 1;
    }

    /// Takes the oldest entry. O(1).
    pub(crate) fn pop(&mut self, tenant: usize) -> Option<T> {
        (self.ends[tenant].first != NONE).then(|| self.unlink(tenant, NONE))
    }

    /// Takes the first entry that `wanted` accepts and lets `amend` change every entry behind it,
    /// oldest first. O(entries of the tenant).
    pub(crate) fn remove(
        &mut self,
        tenant: usize,
        wanted: impl Fn(&T) -> bool,
        mut amend: impl FnMut(&T, &mut T),
    ) -> Option<T> {
        let mut before = NONE;
        let mut index = self.ends[tenant].first;
        while index != NONE && !wanted(&self.cells[index as usize].entry) {
            before = index;
            index = self.cells[index as usize].next;
        }
        if index == NONE {
            return None;
        }
        let mut follower = self.cells[index as usize].next;
        let removed = self.unlink(tenant, before);
        while follower != NONE {
            let cell = &mut self.cells[follower as usize];
            amend(&removed, &mut cell.entry);
            follower = cell.next;
        }
        Some(removed)
    }

    /// Lets `amend` change every entry of the tenant, oldest first. O(entries of the tenant).
    pub(crate) fn amend(&mut self, tenant: usize, mut amend: impl FnMut(&mut T)) {
        let mut index = self.ends[tenant].first;
        while index != NONE {
            let cell = &mut self.cells[index as usize];
            amend(&mut cell.entry);
            index = cell.next;
        }
    }

    /// Takes out the entry after `before` (the first if none).
    fn unlink(&mut self, tenant: usize, before: u32) -> T {
        let ends = &mut self.ends[tenant];
        let index = if before == NONE { ends.first } else { self.cells[before as usize].next };
        let Cell { entry, next } = self.cells[index as usize];
        match before {
            NONE => ends.first = next,
            before => self.cells[before as usize].next = next,
        }
        if next == NONE {
            ends.last = before;
        }
        ends.length -= 1;
        self.length -= 1;
        self.cells[index as usize].next = std::mem::replace(&mut self.free, index);
        entry
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::prng::Prng;

    #[test]
    fn it_agrees_with_separate_queues_and_reuses_its_cells() {
        let mut prng = Prng::new(5);
        let mut queues = Queues::default();
        let mut model: Vec<VecDeque<u64>> = vec![VecDeque::new(); 4];
        let mut peak = 0;
        queues.reserve_tenants(4);
        for entry in 0..20_000u64 {
            let tenant = usize::try_from(prng.below(4)).unwrap();
            match prng.below(5) {
                0 | 1 => {
                    queues.push(tenant, entry);
                    model[tenant].push_back(entry);
                }
                2 | 3 => assert_eq!(queues.pop(tenant), model[tenant].pop_front()),
                _ => {
                    let nth = usize::try_from(prng.below(6)).unwrap();
                    let wanted = model[tenant].get(nth).copied();
                    let removed = queues.remove(tenant, |e| Some(*e) == wanted, |_, _| ());
                    assert_eq!(removed, wanted);
                    model[tenant].retain(|e| Some(*e) != wanted);
                }
            }
            assert_eq!(queues.front(tenant), model[tenant].front());
            assert_eq!(queues.len(), model.iter().map(VecDeque::len).sum::<usize>());
            assert_eq!(queues.len_of(tenant) as usize, model[tenant].len());
            peak = peak.max(queues.len());
        }
        assert_eq!(queues.cells.len(), peak);
    }

    #[test]
    fn those_behind_a_removed_entry_are_amended() {
        let mut queues = Queues::default();
        queues.reserve_tenants(1);
        (1..=4).for_each(|entry| queues.push(0, entry));
        let removed = queues.remove(0, |e| *e == 2, |removed, entry| *entry -= removed);
        assert_eq!(removed, Some(2));
        assert_eq!(std::iter::from_fn(|| queues.pop(0)).collect::<Vec<_>>(), [1, 1, 2]);
    }
}
