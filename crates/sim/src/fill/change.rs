//! Servers come and go: what moves, how evenly what was there lies afterwards, and how full the
//! cluster gets when writing goes on.
//!
//! Objects keep their names and their candidates; groups move to other servers, and whatever lies
//! in them with them. So no more moves than what hashing moves anyway. But old choices were right
//! for the old map, and a cluster that was even is not, until later choices have made it so again:
//!
//! ```text
//! fill to a part --> new map: groups move with their bytes --> uneven --> fill until it is full
//! ```

use evenkeel_core::id::ServerId;
use evenkeel_core::place::cluster::{GroupMap, Member};

use super::{Chooser, Cluster, Filled, Filling, Writers, cluster, fill};

/// What a change of a cluster does, as parts of the whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Changed {
    /// Of all bytes stored, what moves to another server.
    pub moved_part: f64,
    /// Of all places of replicas in groups, those that move to another server.
    pub regrouped_part: f64,
    /// What has to move at least, so that every server may have its part: what those gain whose
    /// part of the whole capacity grows.
    pub least_part: f64,
    /// The used part of the fullest server after the moves; above 1 if what moves has no room.
    pub fullest_part: f64,
    /// That over the mean.
    pub max_to_mean: f64,
    /// When writing goes on until the first server is full.
    pub full: Filled,
}

/// Fills `before` to a part of its capacity, moves to `after`, and fills that. Members of both are
/// the same servers, with no capacity where they are not there. Choices go by `choosers`, one for
/// each map, since odds are fitted to one.
pub fn change(
    [before, after]: [&Cluster<'_>; 2],
    [old, new]: [&Chooser<'_>; 2],
    writers: Writers,
    filled_part: f64,
    seed: u64,
) -> Changed {
    assert!(before.map.len() == after.map.len(), "a change of servers leaves groups as they are");
    let mut filling = Filling::new(before, old, writers, seed, vec![0; before.members.len()]);
    while filling.used_part() < filled_part && filling.place() {}
    let groups = filling.group_bytes();
    let mut used = vec![0; after.members.len()];
    let (mut all, mut moved) = (0, 0);
    for (set, &bytes) in after.map.sets().zip(groups) {
        for server in set {
            used[server.index()] += bytes;
        }
    }
    for ((old, new), &bytes) in before.map.sets().zip(after.map.sets()).zip(groups) {
        all += bytes * new.len() as u64;
        moved += bytes * newcomers(old, new);
    }
    let parts = cluster::used_parts(after.members, &used);
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    let fullest_part = parts.iter().copied().fold(0.0, f64::max);
    Changed {
        moved_part: moved as f64 / all.max(1) as f64,
        regrouped_part: regrouped(before.map, after.map),
        least_part: least(before.members, after.members),
        fullest_part,
        max_to_mean: fullest_part / mean,
        full: fill(after, new, writers, seed + 1, &mut used),
    }
}

/// Servers of a set that were not in it.
fn newcomers(old: &[ServerId], new: &[ServerId]) -> u64 {
    new.iter().filter(|server| !old.contains(server)).count() as u64
}

fn regrouped(before: &GroupMap, after: &GroupMap) -> f64 {
    let pairs = before.sets().zip(after.sets());
    let moved: u64 = pairs.map(|(old, new)| newcomers(old, new)).sum();
    let places: usize = after.sets().map(<[ServerId]>::len).sum();
    moved as f64 / places as f64
}

fn least(before: &[Member], after: &[Member]) -> f64 {
    let whole = |members: &[Member]| -> f64 {
        members.iter().map(|member| member.capacity_bytes as f64).sum()
    };
    let (old, new) = (whole(before), whole(after));
    let gain = |(was, is): (&Member, &Member)| {
        (is.capacity_bytes as f64 / new - was.capacity_bytes as f64 / old).max(0.0)
    };
    before.iter().zip(after).map(gain).sum()
}

#[cfg(test)]
mod tests {
    use evenkeel_core::place::cluster::GroupOptions;
    use evenkeel_core::place::policy::space::Space;

    use super::*;

    /// 44 servers of which the last four come later, 50 groups to each.
    fn four_come(chooser: &Chooser<'_>) -> Changed {
        let after = cluster::even(48, 1, 2_000);
        let mut before = after.clone();
        before[44..].iter_mut().for_each(|member| member.capacity_bytes = 0);
        let options = GroupOptions { group_bits: 11, replicas: 1, seed: 3 };
        let [old, new] = [&before, &after].map(|members| GroupMap::new(members, options).unwrap());
        let of = |members, map| Cluster { members, map, object_bytes: 1 };
        let clusters = [&of(&before, &old), &of(&after, &new)];
        change(clusters, [chooser, chooser], Writers::default(), 0.6, 1)
    }

    #[test]
    fn choices_move_no_more_than_hashing_and_fill_up_again() {
        let policy = Space::with_margin(0.0);
        let choices = four_come(&Chooser::Policy { policy: &policy, candidates: 2 });
        let hashing = four_come(&Chooser::Hashing);
        assert!((choices.least_part - 4.0 / 48.0).abs() < 1e-12, "{choices:?}");
        assert!(choices.regrouped_part < choices.least_part * 1.2, "{choices:?}");
        assert!((choices.moved_part - hashing.moved_part).abs() < 0.01, "{choices:?} {hashing:?}");
        assert!(choices.max_to_mean < hashing.max_to_mean, "{choices:?} {hashing:?}");
        assert!(choices.full.used_part > 0.99 && hashing.full.used_part < 0.9, "{choices:?}");
    }

    #[test]
    fn what_does_not_change_moves_nothing() {
        let members = cluster::even(8, 1, 500);
        let options = GroupOptions { group_bits: 8, replicas: 2, seed: 3 };
        let map = GroupMap::new(&members, options).unwrap();
        let one = Cluster { members: &members, map: &map, object_bytes: 1 };
        let chooser = Chooser::Hashing;
        let changed = change([&one, &one], [&chooser, &chooser], Writers::default(), 0.3, 1);
        let none = [changed.moved_part, changed.regrouped_part, changed.least_part];
        assert!(none.iter().all(|part| *part == 0.0), "{changed:?}");
    }
}
