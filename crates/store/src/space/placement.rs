//! Where the copies of the next segment go: the tail rotates over the drives, or over their pairs.
//!
//! ```text
//! 4 drives, mirrored:   01  23  02  13  03  12  01 ..
//! ```
//!
//! With pairs, a segment written earlier shares both drives with the tail only if it was written
//! to the same pair: one in n(n-1)/2, against one in n/2 for fixed pairs. All others can be read
//! from a drive that is not being written to.
//!
//! The drives with the most free slots go first, which keeps all slots usable as pairs; among
//! equals, the combination that was used longest ago.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::units::DriveIndex;

/// One drive, or two.
type Combination = [Option<DriveIndex>; 2];

/// The rotation of the tail. See the [module](self).
#[derive(Debug)]
pub(super) struct Placement {
    copies: u8,
    /// When each combination was used last.
    used: BTreeMap<Combination, u64>,
    clock: u64,
}

impl Placement {
    pub(super) fn new(copies: u8) -> Self {
        Self { copies, used: BTreeMap::new(), clock: 0 }
    }

    /// The drives for the next segment, given each active drive's free slots. If only one drive is
    /// active, mirrored segments get one copy.
    pub(super) fn next(&mut self, free: &[(DriveIndex, usize)]) -> Option<Combination> {
        let candidates = self.candidates(free);
        let (combination, _) = candidates.into_iter().max_by_key(|&(candidate, free)| {
            let used = self.used.get(&candidate).copied().unwrap_or(0);
            (free, Reverse(used), Reverse(candidate))
        })?;
        self.clock += 1;
        self.used.insert(combination, self.clock);
        Some(combination)
    }

    /// Segments that these free slots can hold.
    pub(super) fn capacity(&self, free: &[(DriveIndex, usize)]) -> usize {
        let sum: usize = free.iter().map(|&(_, slots)| slots).sum();
        let largest = free.iter().map(|&(_, slots)| slots).max().unwrap_or(0);
        if self.copies == 1 || free.len() == 1 { sum } else { (sum / 2).min(sum - largest) }
    }

    /// All combinations with room, with their free slots.
    fn candidates(&self, free: &[(DriveIndex, usize)]) -> Vec<(Combination, usize)> {
        let with_room: Vec<_> = free.iter().copied().filter(|&(_, slots)| slots > 0).collect();
        if self.copies == 1 || free.len() == 1 {
            return with_room.iter().map(|&(drive, slots)| ([Some(drive), None], slots)).collect();
        }
        let pairs = with_room.iter().enumerate().flat_map(|(index, &(first, first_slots))| {
            with_room[index + 1..].iter().map(move |&(second, second_slots)| {
                ([Some(first), Some(second)], first_slots + second_slots)
            })
        });
        pairs.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drives(free: &[usize]) -> Vec<(DriveIndex, usize)> {
        (0..).map(DriveIndex).zip(free.iter().copied()).collect()
    }

    /// Allocates until nothing fits; gives the combinations used.
    fn fill(copies: u8, slots: &[usize]) -> Vec<String> {
        let mut placement = Placement::new(copies);
        let mut free = drives(slots);
        let mut used = Vec::new();
        while let Some(combination) = placement.next(&free) {
            let names = combination.iter().flatten().map(ToString::to_string);
            used.push(names.collect::<String>());
            for drive in combination.into_iter().flatten() {
                free[drive.index()].1 -= 1;
            }
        }
        used
    }

    #[test]
    fn the_tail_visits_every_pair() {
        let used = fill(2, &[3; 4]);
        assert_eq!(used, ["01", "23", "02", "13", "03", "12"]);
    }

    #[test]
    fn without_mirrors_the_tail_goes_round() {
        assert_eq!(fill(1, &[2, 2]), ["0", "1", "0", "1"]);
    }

    #[test]
    fn unequal_drives_are_used_up_as_pairs() {
        for slots in [[5, 3, 2], [9, 3, 2], [4, 4, 4], [7, 1, 7]] {
            let placement = Placement::new(2);
            assert_eq!(fill(2, &slots).len(), placement.capacity(&drives(&slots)), "{slots:?}");
        }
    }
}
