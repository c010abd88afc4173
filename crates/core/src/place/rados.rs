//! Where Ceph's RADOS puts an object, by its name: what a client must know to choose among names.
//!
//! RADOS hashes the name of an object to a placement group of the pool, and the cluster's map says
//! which OSDs act for that group. A client cannot choose the group, but it can choose the name:
//! each candidate of an object is another name, and the object lives under the one chosen.
//!
//! ```text
//! db.0000002a.0 --hash--> 0x9c3f..e1 --mod 512--> group 1e1 --map--> OSDs 4, 9, 2
//! db.0000002a.1 --hash--> 0x51d0..07 --mod 512--> group 107 --map--> OSDs 1, 9, 7
//! ```
//!
//! Names outlive every map: when OSDs come and go or a pool is split, RADOS moves the object and it
//! is found under the same name. Only the choices of the future depend on what is known here.
//!
//! Sources: the hash is Jenkins' of 1997 ("Hash functions", Dr. Dobb's Journal); groups that are no
//! power of two are reached by linear hashing (Litwin, VLDB 1980), so that a split moves only what
//! it has to.

use super::cluster::{ClusterError, GroupMap};
use crate::id::ServerId;

/// What Jenkins' hash begins with: the golden ratio, an arbitrary number.
const ARBITRARY: u32 = 0x9e37_79b9;

/// The hash by which RADOS places an object of this name in the default namespace.
pub fn hash_of(name: &str) -> u32 {
    let mut state = [ARBITRARY, ARBITRARY, 0];
    let mut blocks = name.as_bytes().chunks_exact(12);
    for block in &mut blocks {
        for (word, bytes) in state.iter_mut().zip(block.chunks_exact(4)) {
            let bytes = bytes.try_into().expect("chunks of four");
            *word = word.wrapping_add(u32::from_le_bytes(bytes));
        }
        mix(&mut state);
    }
    #[expect(clippy::cast_possible_truncation, reason = "names are short, and the hash says so")]
    let length = name.len() as u32;
    state[2] = state[2].wrapping_add(length);
    for (at, &byte) in blocks.remainder().iter().enumerate() {
        // The lowest byte of the last word is taken by the length.
        let at = if at < 8 { at } else { at + 1 };
        state[at / 4] = state[at / 4].wrapping_add(u32::from(byte) << (at % 4 * 8));
    }
    mix(&mut state);
    state[2]
}

/// A pool as a map of groups, from the acting set of each placement group in order. A group for
/// which nobody acts is given to `nobody`, a server that never reports: it counts as full, and
/// nothing is placed there.
///
/// # Errors
/// A pool without placement groups.
pub fn pool_map(acting: &[Vec<ServerId>], nobody: ServerId) -> Result<GroupMap, ClusterError> {
    if acting.is_empty() {
        return Err(ClusterError::Sets { count: 0 });
    }
    let slots = acting.len().next_power_of_two();
    let set = |slot| {
        let acting = &acting[reached(slot, acting.len())];
        Some(acting.clone()).filter(|set| !set.is_empty())
    };
    let sets: Vec<_> = (0..slots).map(|slot| set(slot).unwrap_or_else(|| vec![nobody])).collect();
    GroupMap::of_sets(&sets)
}

/// The number of the placement group that an object of this name is in, in a pool with so many.
pub fn group_of(name: &str, groups: usize) -> usize {
    reached(hash_of(name) as usize & (groups.next_power_of_two() - 1), groups)
}

/// Linear hashing: what would fall on a group that is yet to come falls on the one that it will be
/// split from.
fn reached(slot: usize, groups: usize) -> usize {
    if slot < groups { slot } else { slot & (groups.next_power_of_two() / 2 - 1) }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |one: &mut u32, two: u32, three: u32, shifted: fn(u32) -> u32| {
        *one = one.wrapping_sub(two).wrapping_sub(three) ^ shifted(three);
    };
    step(a, *b, *c, |c| c >> 13);
    step(b, *c, *a, |a| a << 8);
    step(c, *a, *b, |b| b >> 13);
    step(a, *b, *c, |c| c >> 12);
    step(b, *c, *a, |a| a << 16);
    step(c, *a, *b, |b| b >> 5);
    step(a, *b, *c, |c| c >> 3);
    step(b, *c, *a, |a| a << 10);
    step(c, *a, *b, |b| b >> 15);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hash_as_ceph_says() {
        // From `ceph osd map` of version 16.2.
        let told = [
            ("a", 0x29ee_c818),
            ("db.0000002a.0", 0x83db_bcb5),
            ("db.0000002a.1", 0xb177_0923),
            ("filled.00000001.1", 0xc9e4_a248),
            ("elevenchars", 0xf7ba_464c),
            ("twelve-chars", 0x2c14_9082),
            ("thirteen-char", 0x2659_1841),
            ("a-name-of-more-than-twenty-four-bytes", 0x294b_50ed),
        ];
        for (name, hash) in told {
            assert_eq!(hash_of(name), hash, "{name}");
        }
    }

    #[test]
    fn groups_that_are_no_power_of_two_are_those_that_a_split_has_reached() {
        let acting: Vec<_> = (0..6).map(|group| vec![ServerId(group)]).collect();
        let map = pool_map(&acting, ServerId(9)).unwrap();
        let group = |hash: u64| map.servers(map.group_of(hash))[0].0;
        let found: Vec<u32> = (0..10).map(group).collect();
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 2, 3, 0, 1]);
        for name in ["a", "db.0000002a.0", "db.0000002a.1", "elevenchars", "twelve-chars"] {
            let told = map.servers(map.group_of(u64::from(hash_of(name))))[0].0;
            assert_eq!(group_of(name, 6), told as usize, "{name}");
        }
    }

    #[test]
    fn a_group_without_an_osd_is_given_to_nobody() {
        let map = pool_map(&[vec![ServerId(0)], Vec::new()], ServerId(9)).unwrap();
        assert_eq!(map.servers(1), [ServerId(9)]);
        assert!(pool_map(&[], ServerId(9)).is_err());
    }
}
