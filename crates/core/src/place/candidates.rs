//! From an object to its candidate groups.
//!
//! Candidates are independent hashes of the object's name. They do not depend on the cluster, so
//! that "the second candidate" means the same for as long as the object lives.
//!
//! So two candidates may be the same server: with n alike, for one object in n. They are not kept
//! apart (the tests below reckon what that would be worth):
//!
//! - Servers fill no less alike, since the other objects make up for these: the fullest of four is
//!   at 1.0000 of the mean.
//! - Which draws are passed over would depend on the cluster, and objects would move whose own
//!   group has not: 17 % rather than 15 % when a fifth server joins four.
//! - What was noted of objects would mean other servers than when they were placed.
//!
//! It costs that one new object in n^2 has no place while its server is away. A third candidate
//! makes that one in n^3.

use super::CANDIDATES_MAX;
use super::cluster::GroupMap;
use super::hash::Hash;
use crate::id::ServerId;

/// The name of an object: a part of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// The volume, by a number that is its own for ever.
    pub volume: u64,
    /// Which part of it.
    pub index: u64,
}

/// The candidates of one object, in the order in which they are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates {
    groups: [u32; CANDIDATES_MAX],
    count: usize,
    /// A hash of the name that says nothing of the groups.
    lot: u64,
}

impl ObjectName {
    /// The first `count` candidates, 1 to [`CANDIDATES_MAX`].
    pub fn candidates(self, map: &GroupMap, count: usize) -> Candidates {
        assert!((1..=CANDIDATES_MAX).contains(&count), "{count} candidates");
        let name = Hash::seeded(self.volume).word(self.index);
        let mut groups = [0; CANDIDATES_MAX];
        for (salt, group) in (1..).zip(&mut groups[..count]) {
            *group = map.group_of(name.word(salt).finish());
        }
        Candidates { groups, count, lot: name.word(0).finish() }
    }
}

impl Candidates {
    /// Their groups.
    pub fn groups(&self) -> &[u32] {
        &self.groups[..self.count]
    }

    /// The servers of each.
    pub fn sets<'a>(&self, map: &'a GroupMap) -> impl Iterator<Item = &'a [ServerId]> {
        self.groups.into_iter().take(self.count).map(|group| map.servers(group))
    }

    /// A number that the name alone determines, for a choice by lot.
    pub fn lot(&self) -> u64 {
        self.lot
    }
}

#[cfg(test)]
mod tests {
    use super::super::cluster::{DomainId, GroupOptions, Member};
    use super::*;

    #[test]
    fn candidates_are_independent_of_each_other_and_of_their_number() {
        let sets: Vec<_> = (0..64).map(|server| vec![ServerId(server)]).collect();
        let map = GroupMap::of_sets(&sets).unwrap();
        let mut pairs = vec![0u32; 64 * 64];
        for index in 0..409_600 {
            let name = ObjectName { volume: 3, index };
            let two = name.candidates(&map, 2);
            assert_eq!(two.groups()[0], name.candidates(&map, 1).groups()[0]);
            let [one, other] = [two.groups()[0], two.groups()[1]];
            pairs[(one * 64 + other) as usize] += 1;
        }
        let (least, most) = (pairs.iter().min().unwrap(), pairs.iter().max().unwrap());
        assert!((50..100).contains(least) && (100..160).contains(most), "{least} {most} of 100");
    }

    /// So many servers, each for itself.
    fn servers(count: u32) -> GroupMap {
        let member = |server| Member {
            server: ServerId(server),
            capacity_bytes: 1,
            domain: DomainId(server),
        };
        let members: Vec<_> = (0..count).map(member).collect();
        let options = GroupOptions { group_bits: 12, replicas: 1, seed: 3 };
        GroupMap::new(&members, options).unwrap()
    }

    /// The first server of an object and the next one that is another, or the first once more, of
    /// so many draws; or just the first two.
    fn pair(map: &GroupMap, index: u64, draws: usize, is_apart: bool) -> [usize; 2] {
        let found = ObjectName { volume: 7, index }.candidates(map, draws);
        let all: Vec<_> = found.sets(map).map(|set| set[0].index()).collect();
        let other = all.iter().find(|one| **one != all[0]).filter(|_| is_apart);
        [all[0], *other.unwrap_or(&all[1])]
    }

    #[test]
    fn servers_fill_no_less_alike_since_candidates_may_be_the_same() {
        let map = servers(4);
        for (draws, coinciding) in [(2, 0.25), (3, 0.0625)] {
            let (mut used, mut alone) = ([0_u32; 4], 0);
            for index in 0..100_000 {
                let [one, other] = pair(&map, index, draws, true);
                alone += u32::from(one == other);
                used[if used[other] < used[one] { other } else { one }] += 1;
            }
            let fullest = f64::from(*used.iter().max().unwrap()) / 25_000.0;
            let alone = f64::from(alone) / 100_000.0;
            println!("{draws} draws: {alone:.3} without a choice, fullest {fullest:.5}");
            assert!((alone - coinciding).abs() < 0.02 && fullest < 1.0005, "{alone} {fullest}");
        }
    }

    #[test]
    fn keeping_candidates_apart_would_move_more_when_a_server_joins() {
        let (before, after) = (servers(4), servers(5));
        let moved = |is_apart| {
            let mut used = [0_u32; 4];
            let moves = (0..100_000).filter(|index| {
                let [one, other] = pair(&before, *index, 3, is_apart);
                let place = if used[other] < used[one] { other } else { one };
                used[place] += 1;
                !pair(&after, *index, 3, is_apart).contains(&place)
            });
            moves.count() as f64 / 100_000.0
        };
        let (as_drawn, apart) = (moved(false), moved(true));
        println!("{as_drawn:.3} of the objects as they are drawn, {apart:.3} if kept apart");
        assert!(apart > 1.08 * as_drawn, "{as_drawn} {apart}");
    }
}
