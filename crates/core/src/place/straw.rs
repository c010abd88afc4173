//! Weighted choice by hash: everybody draws a straw, the longest wins.
//!
//! Source: straw2 of CRUSH (Weil et al., SC 2006, as improved in Ceph), which is the weighted
//! rendezvous hashing of Thaler and Ravishankar 1998. The straw of an item of weight w is
//!
//! ```text
//! ln(u) / w        u in (0, 1], from the hash of key and item
//! ```
//!
//! An item wins with a chance of w over the sum of the weights. When one weight changes, keys move
//! to that item or away from it, and between no two others.

use std::cmp::Ordering;

use super::hash::Hash;
use crate::float::natural_log;

/// One who draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Straw {
    /// Never above zero; minus infinity for an item of no weight, which never wins.
    length: f64,
    /// The item.
    pub item: u32,
}

impl Straw {
    /// The straw that an item draws for a key.
    pub fn draw(key: Hash, item: u32, weight: u64) -> Self {
        let unit = key.word(u64::from(item)).unit();
        let length = match weight {
            0 => f64::NEG_INFINITY,
            _ => natural_log(unit) / weight as f64,
        };
        Self { length, item }
    }

    /// Whether it beats another; of equal straws, the lower item's.
    pub fn beats(&self, other: &Self) -> bool {
        match self.length.total_cmp(&other.length) {
            Ordering::Greater => true,
            Ordering::Equal => self.item < other.item,
            Ordering::Less => false,
        }
    }
}

/// The items of the longest straws, the longest first; fewer than `count` if fewer have a weight.
/// O(items * count).
pub fn longest(
    key: Hash,
    items: impl Iterator<Item = (u32, u64)>,
    count: usize,
    best: &mut Vec<Straw>,
) {
    best.clear();
    for straw in
        items.filter(|(_, weight)| *weight > 0).map(|(item, weight)| Straw::draw(key, item, weight))
    {
        let place = best.iter().position(|one| straw.beats(one)).unwrap_or(best.len());
        if place < count {
            best.truncate(count - 1);
            best.insert(place, straw);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn winner(key: u64, weights: &[u64]) -> u32 {
        let mut best = Vec::new();
        longest(Hash::seeded(key), (0..).zip(weights.iter().copied()), 1, &mut best);
        best[0].item
    }

    #[test]
    fn items_win_in_proportion_to_their_weights() {
        let mut wins = [0u32; 4];
        (0..80_000).for_each(|key| wins[winner(key, &[1, 2, 5, 0]) as usize] += 1);
        assert_eq!(wins[3], 0, "no weight, no win");
        for (wins, expected) in wins.into_iter().zip([10_000, 20_000, 50_000u32]) {
            assert!(wins.abs_diff(expected) < 500, "{wins} of {expected}");
        }
    }

    #[test]
    fn a_change_of_weight_moves_keys_to_or_from_that_item_only() {
        for key in 0..5_000 {
            let (before, heavier) = (winner(key, &[3, 3, 3]), winner(key, &[3, 4, 3]));
            assert!(before == heavier || heavier == 1);
            let gone = winner(key, &[3, 0, 3]);
            assert!(before == gone || before == 1);
        }
    }

    #[test]
    fn the_second_best_is_the_best_without_the_first() {
        let mut best = Vec::new();
        for key in 0..1_000 {
            longest(Hash::seeded(key), (0..).zip([2, 7, 1, 8]), 3, &mut best);
            let order: Vec<u32> = best.iter().map(|straw| straw.item).collect();
            let mut weights = [2, 7, 1, 8];
            for item in order {
                assert_eq!(winner(key, &weights), item);
                weights[item as usize] = 0;
            }
        }
    }
}
