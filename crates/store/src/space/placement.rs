//! Where the copies of the next segment go: the tail rotates over the drives, or over their pairs,
//! and stays on each for an epoch of several segments.
//!
//! ```text
//! 4 drives, mirrored, epochs of 2:   01 01  23 23  02 02  13 13  03 03  12 12  01 ..
//! ```
//!
//! While an epoch lasts, the other drives are the cleaner's and the readers' alone. An epoch ends
//! early where one more segment on the same drives would leave a slot without a partner.
//!
//! With pairs, a segment written earlier shares both drives with the tail only if it was written
//! to the same pair: one in n(n-1)/2, against one in n/2 for fixed pairs. All others can be read
//! from a drive that is not being written to.
//!
//! So the next epoch goes to the pair that fewest live blocks share: with no more data than epochs
//! on half of the pairs, the tail never comes to a pair that holds old data. First come those with
//! room for a whole epoch whose use leaves a partner to every other slot; among equals, the drives
//! with the most free slots, and then the combination that was used longest ago.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::units::DriveIndex;

/// One drive, or two, the lower one first.
pub(super) type Combination = [Option<DriveIndex>; 2];

/// The rotation of the tail. See the [module](self).
#[derive(Debug)]
pub(super) struct Placement {
    copies: u8,
    /// When each combination was used last.
    used: BTreeMap<Combination, u64>,
    clock: u64,
    epoch_segments: u32,
    /// Where the tail is, and for how many segments more.
    epoch: Option<(Combination, u32)>,
}

impl Placement {
    pub(super) fn new(copies: u8) -> Self {
        Self { copies, used: BTreeMap::new(), clock: 0, epoch_segments: 1, epoch: None }
    }

    /// Epochs last so many segments.
    pub(super) fn keep_tail_for(&mut self, segments: u32) {
        self.epoch_segments = segments;
    }

    /// The drives for the next segment of the tail. `shared` tells the live blocks that lie on both
    /// drives of a pair, for all pairs with any; it is asked where an epoch begins.
    pub(super) fn next_of_epoch(
        &mut self,
        free: &[(DriveIndex, usize)],
        shared: impl FnOnce() -> BTreeMap<Combination, u64>,
    ) -> Option<Combination> {
        let stays = self.epoch.filter(|&(place, left)| {
            left > 0 && self.is_candidate(place, free) && self.wastes_nothing(place, free)
        });
        let (place, left) = match stays {
            Some(epoch) => epoch,
            None => (self.next(free, &shared())?, self.epoch_segments),
        };
        self.epoch = Some((place, left.saturating_sub(1)));
        Some(place)
    }

    /// The drives for a segment of the cleaner: those with the fewest of its segments `ahead` (one
    /// number for each of `free`), so that wherever the tail is, there are some elsewhere.
    pub(super) fn next_spread(
        &self,
        free: &[(DriveIndex, usize)],
        ahead: &[usize],
    ) -> Option<Combination> {
        let ahead_of = |place: Combination| -> usize {
            let rows = free.iter().zip(ahead);
            rows.filter(|((drive, _), _)| place.contains(&Some(*drive))).map(|(_, &n)| n).sum()
        };
        let candidates = self.candidates(free).into_iter();
        let best = candidates.min_by_key(|&(place, slots)| {
            (!self.wastes_nothing(place, free), ahead_of(place), Reverse(slots), place)
        });
        best.map(|(place, _)| place)
    }

    /// Whether a segment can go there, with as many copies as are possible now.
    fn is_candidate(&self, place: Combination, free: &[(DriveIndex, usize)]) -> bool {
        self.candidates(free).iter().any(|&(candidate, _)| candidate == place)
    }

    /// Whether a segment at this candidate leaves room for all others that there is room for.
    fn wastes_nothing(&self, place: Combination, free: &[(DriveIndex, usize)]) -> bool {
        let takes = |drive| usize::from(place.contains(&Some(drive)));
        let left: Vec<_> = free.iter().map(|&(drive, n)| (drive, n - takes(drive))).collect();
        self.capacity(&left) + 1 == self.capacity(free)
    }

    /// The drives for the next epoch, given each active drive's free slots. If only one drive is
    /// active, mirrored segments get one copy.
    fn next(
        &mut self,
        free: &[(DriveIndex, usize)],
        shared: &BTreeMap<Combination, u64>,
    ) -> Option<Combination> {
        let candidates = self.candidates(free).into_iter();
        let (combination, _) = candidates.max_by_key(|&(candidate, slots)| {
            let used = self.used.get(&candidate).copied().unwrap_or(0);
            let has_room = self.has_room_for_epoch(candidate, free);
            let shared = shared.get(&candidate).copied().unwrap_or(0);
            let is_safe = self.wastes_nothing(candidate, free);
            (is_safe, has_room, Reverse(shared), slots, Reverse(used), Reverse(candidate))
        })?;
        self.clock += 1;
        self.used.insert(combination, self.clock);
        Some(combination)
    }

    fn has_room_for_epoch(&self, place: Combination, free: &[(DriveIndex, usize)]) -> bool {
        let of_place = free.iter().filter(|(drive, _)| place.contains(&Some(*drive)));
        let slots = of_place.map(|&(_, slots)| slots).min();
        slots.is_some_and(|slots| slots >= self.epoch_segments as usize)
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
        while let Some(combination) = placement.next(&free, &BTreeMap::new()) {
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
    fn the_tail_stays_for_an_epoch_unless_a_slot_would_lose_its_partner() {
        let mut placement = Placement::new(2);
        placement.keep_tail_for(3);
        let mut free = drives(&[4, 4, 4]);
        let mut used = Vec::new();
        while let Some(combination) = placement.next_of_epoch(&free, BTreeMap::new) {
            used.push(combination.iter().flatten().map(ToString::to_string).collect::<String>());
            for drive in combination.into_iter().flatten() {
                free[drive.index()].1 -= 1;
            }
        }
        assert_eq!(used, ["01", "01", "02", "02", "12", "12"]);
    }

    #[test]
    fn an_epoch_of_single_copies_ends_when_a_second_drive_is_there() {
        let mut placement = Placement::new(2);
        placement.keep_tail_for(9);
        let alone = Some([Some(DriveIndex(0)), None]);
        assert_eq!(placement.next_of_epoch(&drives(&[5]), BTreeMap::new), alone);
        let both = Some([Some(DriveIndex(0)), Some(DriveIndex(1))]);
        assert_eq!(placement.next_of_epoch(&drives(&[4, 9]), BTreeMap::new), both);
    }

    #[test]
    fn the_tail_comes_to_the_pair_that_shares_least_with_it() {
        let mut placement = Placement::new(2);
        let pair = |first, second| [Some(DriveIndex(first)), Some(DriveIndex(second))];
        let free = drives(&[6, 6, 6, 9, 9]);
        let shared = || BTreeMap::from([(pair(3, 4), 100), (pair(0, 3), 1), (pair(0, 4), 1)]);
        assert_eq!(placement.next_of_epoch(&free, shared), Some(pair(1, 3)));
        placement.keep_tail_for(7);
        placement.epoch = None;
        let next = placement.next_of_epoch(&free, shared);
        assert_eq!(next, Some(pair(3, 4)), "the only one with room for a whole epoch");
    }

    #[test]
    fn the_cleaner_keeps_segments_everywhere() {
        let placement = Placement::new(1);
        let next = |ahead: &[usize]| placement.next_spread(&drives(&[9, 2, 5]), ahead);
        assert_eq!(next(&[0, 0, 0]), Some([Some(DriveIndex(0)), None]), "the emptiest");
        assert_eq!(next(&[1, 0, 0]), Some([Some(DriveIndex(2)), None]));
        assert_eq!(next(&[1, 0, 1]), Some([Some(DriveIndex(1)), None]));
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
