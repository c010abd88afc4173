//! The servers of a cluster, and the table of groups made of them.
//!
//! Objects are many and servers change; between them stand **groups**, a fixed power of two. A
//! group is a set of servers, one for each replica, from different failure domains: the domains
//! with the longest straws (weight: the capacity in them), and in each the server with the longest.
//! The table is made when the cluster changes; then finding the servers of a group is one look-up,
//! whatever the number of servers.
//!
//! ```text
//! group 17    rack c   server 9          sets are in order; the first server is the primary
//!             rack a   server 2
//!             rack d   server 4
//! ```
//!
//! A server that comes takes over its part of the groups and nothing else moves; the groups of one
//! that goes are dealt to the others.

use std::collections::BTreeMap;
use std::fmt;

use super::hash::Hash;
use super::straw;
use crate::id::ServerId;

/// What may fail as one: a host, a rack. Replicas of an object never share one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DomainId(pub u32);

/// A server of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub server: ServerId,
    /// What it can hold; zero takes it out of use.
    pub capacity_bytes: u64,
    /// What it fails with.
    pub domain: DomainId,
}

/// How groups are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOptions {
    /// Groups, as a power of two: 2^`group_bits`, 0 to 24. 30 to 100 groups per server and replica
    /// are customary.
    pub group_bits: u32,
    /// Servers per group, 1 to 16.
    pub replicas: usize,
    /// Another seed gives another table.
    pub seed: u64,
}

/// The servers of every group, at one state of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMap {
    /// Sets one after the other.
    servers: Vec<ServerId>,
    /// Where each group's set begins, and where the last one ends.
    starts: Vec<u32>,
}

/// Why a table cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterError {
    /// A number is out of its range.
    Options(GroupOptions),
    /// There are not as many failure domains as replicas.
    Domains {
        /// Domains with capacity.
        domains: usize,
        /// Replicas wanted.
        replicas: usize,
    },
    /// The sets given are not a power of two, or one is empty.
    Sets {
        /// How many there are.
        count: usize,
    },
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(options) => {
                write!(f, "{options:?}: group bits go from 0 to 24, replicas from 1 to 16")
            }
            Self::Domains { domains, replicas } => write!(
                f,
                "{replicas} replicas need as many failure domains with capacity, of {domains}"
            ),
            Self::Sets { count } => {
                write!(f, "{count} sets of servers are no power of two, or one of them is empty")
            }
        }
    }
}

impl std::error::Error for ClusterError {}

impl GroupMap {
    /// The table of a cluster. O(groups * (domains + servers of a domain) * replicas).
    ///
    /// # Errors
    /// Options out of range, and fewer failure domains with capacity than replicas.
    pub fn new(members: &[Member], options: GroupOptions) -> Result<Self, ClusterError> {
        let GroupOptions { group_bits, replicas, seed } = options;
        if group_bits > 24 || !(1..=16).contains(&replicas) {
            return Err(ClusterError::Options(options));
        }
        let mut domains: BTreeMap<u32, Vec<(u32, u64)>> = BTreeMap::new();
        for member in members.iter().filter(|member| member.capacity_bytes > 0) {
            let domain = domains.entry(member.domain.0).or_default();
            domain.push((member.server.0, member.capacity_bytes));
        }
        if domains.len() < replicas {
            return Err(ClusterError::Domains { domains: domains.len(), replicas });
        }
        let total = |servers: &Vec<(u32, u64)>| {
            servers.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes))
        };
        let weights: Vec<(u32, u64)> =
            domains.iter().map(|(domain, servers)| (*domain, total(servers))).collect();
        let groups = 1usize << group_bits;
        let (mut servers, mut best, mut chosen) = (Vec::new(), Vec::new(), Vec::new());
        for group in 0..groups {
            let key = Hash::seeded(seed).word(group as u64);
            straw::longest(key.word(0), weights.iter().copied(), replicas, &mut best);
            for domain in &best {
                let inside = domains[&domain.item].iter().copied();
                straw::longest(key.word(1), inside, 1, &mut chosen);
                servers.push(ServerId(chosen[0].item));
            }
        }
        let starts = (0..=groups).map(|group| index(group * replicas)).collect();
        Ok(Self { servers, starts })
    }

    /// A table that somebody else made, such as the acting sets of a Ceph pool.
    ///
    /// # Errors
    /// A number of sets that is no power of two, or an empty set.
    pub fn of_sets(sets: &[Vec<ServerId>]) -> Result<Self, ClusterError> {
        if !sets.len().is_power_of_two() || sets.iter().any(Vec::is_empty) {
            return Err(ClusterError::Sets { count: sets.len() });
        }
        let mut starts = vec![0];
        let mut servers = Vec::new();
        for set in sets {
            servers.extend_from_slice(set);
            starts.push(index(servers.len()));
        }
        Ok(Self { servers, starts })
    }

    /// How many groups there are, a power of two.
    pub fn len(&self) -> u32 {
        index(self.starts.len() - 1)
    }

    /// Whether there is no group; never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The group that a hash falls into.
    pub fn group_of(&self, hash: u64) -> u32 {
        u32::try_from(hash & u64::from(self.len() - 1)).expect("fewer groups than 2^32")
    }

    /// The servers of a group, the primary first.
    pub fn servers(&self, group: u32) -> &[ServerId] {
        let at = |group: u32| self.starts[group as usize] as usize;
        &self.servers[at(group)..at(group + 1)]
    }

    /// All groups in order.
    pub fn sets(&self) -> impl Iterator<Item = &[ServerId]> {
        (0..self.len()).map(|group| self.servers(group))
    }

    /// One more than the greatest server that occurs: the length of a vector by server.
    pub fn server_rows(&self) -> usize {
        self.servers.iter().map(|server| server.index() + 1).max().unwrap_or(0)
    }
}

fn index(count: usize) -> u32 {
    u32::try_from(count).expect("2^24 groups of 16 servers at most")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: GroupOptions = GroupOptions { group_bits: 12, replicas: 3, seed: 7 };

    fn racks(capacities: &[u64]) -> Vec<Member> {
        let member = |(server, &capacity_bytes): (u32, &u64)| Member {
            server: ServerId(server),
            capacity_bytes,
            domain: DomainId(server / 4),
        };
        (0..).zip(capacities).map(member).collect()
    }

    #[test]
    fn replicas_lie_in_different_domains() {
        let map = GroupMap::new(&racks(&[1 << 40; 20]), OPTIONS).unwrap();
        assert_eq!((map.len(), map.server_rows()), (4096, 20));
        for set in map.sets() {
            let mut racks: Vec<u32> = set.iter().map(|server| server.0 / 4).collect();
            racks.sort_unstable();
            racks.dedup();
            assert_eq!(racks.len(), 3);
        }
    }

    #[test]
    fn servers_hold_groups_in_proportion_to_their_capacity() {
        let members = racks(&[1, 2, 3, 4, 4, 3, 2, 1]);
        let options = GroupOptions { group_bits: 15, replicas: 1, ..OPTIONS };
        let map = GroupMap::new(&members, options).unwrap();
        let mut counts = [0u64; 8];
        map.sets().for_each(|set| counts[set[0].index()] += 1);
        for (count, member) in counts.into_iter().zip(&members) {
            let expected = 32_768 * member.capacity_bytes / 20;
            assert!(count.abs_diff(expected) < expected / 10 + 50, "{count} of {expected}");
        }
    }

    #[test]
    fn a_server_that_comes_takes_its_part_and_nothing_else_moves() {
        let options = GroupOptions { replicas: 1, ..OPTIONS };
        let flat = |count: u32| -> Vec<Member> {
            let member = |n| Member { server: ServerId(n), capacity_bytes: 9, domain: DomainId(n) };
            (0..count).map(member).collect()
        };
        let before = GroupMap::new(&flat(15), options).unwrap();
        let after = GroupMap::new(&flat(16), options).unwrap();
        let moved: Vec<_> = before.sets().zip(after.sets()).filter(|(b, a)| b != a).collect();
        assert!(moved.iter().all(|(_, after)| after[0] == ServerId(15)));
        assert!(moved.len().abs_diff(4096 / 16) < 60, "{}", moved.len());
    }

    #[test]
    fn what_cannot_be_placed_is_refused() {
        let few = GroupMap::new(&racks(&[1; 8]), OPTIONS);
        assert_eq!(few, Err(ClusterError::Domains { domains: 2, replicas: 3 }));
        assert!(
            GroupMap::new(&racks(&[1; 8]), GroupOptions { group_bits: 25, ..OPTIONS }).is_err()
        );
        assert!(GroupMap::of_sets(&[vec![ServerId(1)], vec![]]).is_err());
        let given =
            GroupMap::of_sets(&[vec![ServerId(1)], vec![ServerId(0), ServerId(3)]]).unwrap();
        assert_eq!((given.servers(1), given.group_of(7)), (&[ServerId(0), ServerId(3)][..], 1));
    }
}
