//! An indexed minimum heap: one key per small integer, each key replaceable in place.
//!
//! Four children per node instead of two: a sift-down visits half as many levels, and the four keys
//! that it compares lie side by side in memory. The keys live in the heap's own array, so that
//! comparing never leaves it.
//!
//! ```text
//! nodes      [ (key, id) | 4 children of 0 | 4 children of 1 | ... ]
//! positions  id -> index into nodes, or ABSENT
//! ```

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node<K> {
    key: K,
    id: u32,
}

/// A set of (id, key) with the least key at hand. Ids are dense: memory is four bytes per id ever
/// used. Equal keys come out in an unspecified but reproducible order.
#[derive(Clone, Debug)]
pub(crate) struct IndexedHeap<K> {
    nodes: Vec<Node<K>>,
    positions: Vec<u32>,
}

impl<K> Default for IndexedHeap<K> {
    fn default() -> Self {
        Self { nodes: Vec::new(), positions: Vec::new() }
    }
}

impl<K: Ord + Copy> IndexedHeap<K> {
    /// Makes room for ids below `ids`, so that no later call allocates.
    pub(crate) fn reserve_ids(&mut self, ids: usize) {
        if ids > self.positions.len() {
            self.positions.resize(ids, ABSENT);
            self.nodes.reserve(ids - self.nodes.len());
        }
    }

    /// The least key and its id.
    pub(crate) fn peek(&self) -> Option<(K, u32)> {
        self.nodes.first().map(|node| (node.key, node.id))
    }

    /// The entries of the root and of the two levels below it, 21 at most: the least one and some
    /// of the next.
    pub(crate) fn near_top(&self) -> impl Iterator<Item = (K, u32)> {
        self.nodes.iter().take(1 + ARITY + ARITY * ARITY).map(|node| (node.key, node.id))
    }

    /// Every id in the heap, in no particular order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|node| node.id)
    }

    /// Inserts `id`, or replaces its key. O(log n).
    pub(crate) fn set(&mut self, id: u32, key: K) {
        let node = Node { key, id };
        let position = self.positions[id as usize];
        if position == ABSENT {
            self.nodes.push(node);
            self.sift_up(self.nodes.len() - 1, node);
        } else {
            self.settle(position as usize, node);
        }
    }

    /// Takes `id` out, if it is in. O(log n).
    pub(crate) fn remove(&mut self, id: u32) {
        let position = std::mem::replace(&mut self.positions[id as usize], ABSENT);
        if position == ABSENT {
            return;
        }
        let last = self.nodes.pop().expect("an id with a position is in the heap");
        if last.id != id {
            self.settle(position as usize, last);
        }
    }

    /// Takes everything out; the room stays.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.positions.fill(ABSENT);
    }

    fn settle(&mut self, position: usize, node: Node<K>) {
        if position > 0 && node.key < self.nodes[(position - 1) / ARITY].key {
            self.sift_up(position, node);
        } else {
            self.sift_down(position, node);
        }
    }

    fn sift_up(&mut self, mut position: usize, node: Node<K>) {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if self.nodes[parent].key <= node.key {
                break;
            }
            self.place(position, self.nodes[parent]);
            position = parent;
        }
        self.place(position, node);
    }

    fn sift_down(&mut self, mut position: usize, node: Node<K>) {
        while let Some(child) = self.least_child(position) {
            if node.key <= self.nodes[child].key {
                break;
            }
            self.place(position, self.nodes[child]);
            position = child;
        }
        self.place(position, node);
    }

    fn least_child(&self, position: usize) -> Option<usize> {
        let first = position * ARITY + 1;
        let children = self.nodes.get(first..)?;
        if let Some([a, b, c, d]) = children.first_chunk::<ARITY>() {
            // Which child is least cannot be predicted: two rounds of a knock-out, as selections
            // rather than jumps, cost a third of a loop that jumps.
            let left = usize::from(b.key < a.key);
            let right = 2 + usize::from(d.key < c.key);
            let least = if children[right].key < children[left].key { right } else { left };
            return Some(first + least);
        }
        (0..children.len()).min_by_key(|&i| children[i].key).map(|least| first + least)
    }

    fn place(&mut self, position: usize, node: Node<K>) {
        self.nodes[position] = node;
        self.positions[node.id as usize] = u32::try_from(position).expect("ids are u32");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::prng::Prng;

    #[test]
    fn it_agrees_with_a_sorted_map_over_random_operations() {
        let mut prng = Prng::new(11);
        let mut heap = IndexedHeap::default();
        let mut model = BTreeMap::new();
        heap.reserve_ids(60);
        for _ in 0..20_000 {
            let id = u32::try_from(prng.below(60)).unwrap();
            if prng.below(3) == 0 {
                heap.remove(id);
                model.remove(&id);
            } else {
                let key = (prng.below(40), id);
                heap.set(id, key);
                model.insert(id, key);
            }
            let least = model.iter().map(|(&id, &key)| (key, id)).min();
            assert_eq!(heap.peek(), least);
            assert_eq!(heap.ids().count(), model.len());
        }
    }

    #[test]
    fn the_near_top_holds_the_two_least() {
        let mut heap = IndexedHeap::default();
        heap.reserve_ids(100);
        (0..100).for_each(|id| heap.set(id, (id * 37) % 101));
        let mut near: Vec<u32> = heap.near_top().map(|(key, _)| key).collect();
        near.sort_unstable();
        assert_eq!(near.len(), 21);
        let mut all: Vec<u32> = (0..100).map(|id| (id * 37) % 101).collect();
        all.sort_unstable();
        assert_eq!(near[..2], all[..2]);
    }

    #[test]
    fn clearing_forgets_every_id() {
        let mut heap = IndexedHeap::default();
        heap.reserve_ids(3);
        heap.set(2, 5);
        heap.clear();
        assert_eq!(heap.peek(), None);
        heap.remove(2);
        heap.set(2, 7);
        assert_eq!(heap.peek(), Some((7, 2)));
    }
}
