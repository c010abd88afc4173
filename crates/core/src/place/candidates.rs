//! From an object to its candidate groups.
//!
//! Candidates are independent hashes of the object's name. They do not depend on the cluster, so
//! that "the second candidate" means the same for as long as the object lives.

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
}
