//! What has to move when servers join or leave, object by object.
//!
//! An object is found by its choice: which of its candidates it lies on. Another map gives the
//! candidates other servers, so that some objects are no longer where their choice says:
//!
//! ```text
//!            candidates before    after a server joins
//! object 7   [a], c               [a], c      stays
//! object 8   [a], c                d, [a]     is on a as its other candidate: no move
//! object 9   [a], c                d, [c]     moves to the emptier of d and c
//! ```
//!
//! That is all that must move. What is left uneven then, later choices mend; or objects are moved
//! on purpose from full servers to other candidates of theirs, until no server is fuller than the
//! others by more than a margin. Objects here have one server each; where a set of servers holds
//! every object, as in Ceph, whoever keeps the replicas moves them.

use std::fmt;

use super::candidates::{Candidates, ObjectName};
use super::cluster::GroupMap;
use crate::id::ServerId;

/// A change of the servers of one volume.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The volume's number.
    pub volume: u64,
    /// The groups until now.
    pub before: &'a GroupMap,
    /// The groups from now on, as many; servers keep their numbers.
    pub after: &'a GroupMap,
    /// Candidates of each object.
    pub candidates: usize,
    /// Objects that each server may hold from now on, by server; zero for one that leaves.
    pub room: &'a [u64],
    /// If given, servers are levelled until nothing is gained by moving an object to a server that
    /// is emptier by more than this part of its room.
    pub level: Option<f64>,
}

/// An object that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its number within the volume.
    pub object: u64,
    /// Where it lies.
    pub from: ServerId,
    /// Where it is going to lie.
    pub to: ServerId,
    /// Which of its candidates that is, under the new map.
    pub choice: usize,
}

/// All that is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What moves, in the order of the objects: first what must, then what is levelled.
    pub moves: Vec<Move>,
    /// Of the moves, how many must be made; the others make servers even.
    pub forced: usize,
    /// Objects that stay and need another choice, which is written: number and choice.
    pub renamed: Vec<(u64, usize)>,
    /// Objects on each server afterwards, by server.
    pub used: Vec<u64>,
}

/// An object has nowhere to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// The first such object.
    pub object: u64,
    /// How many there are.
    pub objects: u64,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, objects } = self;
        write!(
            f,
            "{objects} objects, {object} the first of them, have no candidate with room; \
             add a server, or raise the ceiling"
        )
    }
}

impl std::error::Error for NoRoom {}

/// Plans a change for objects given by number and choice. O(objects * candidates), and as much
/// again for each round of levelling.
///
/// # Errors
/// If objects that must move find no room.
pub fn plan(change: &Change<'_>, objects: &[(u64, usize)]) -> Result<Plan, NoRoom> {
    assert!(change.before.len() == change.after.len(), "a change of servers leaves groups alone");
    let mut planner = Planner::new(change);
    let mut homeless = Vec::new();
    let mut settled = Vec::with_capacity(objects.len());
    for &(object, choice) in objects {
        let candidates = planner.candidates(object);
        let from = change.before.servers(candidates.groups()[choice])[0];
        match planner.position(&candidates, from) {
            Some(now) => {
                planner.plan.used[from.index()] += 1;
                if now != choice {
                    planner.plan.renamed.push((object, now));
                }
                settled.push((object, from));
            }
            None => homeless.push((object, from)),
        }
    }
    let mut stranded = NoRoom { object: 0, objects: 0 };
    for (object, from) in homeless {
        if !planner.rehome(object, from) {
            stranded.object = if stranded.objects == 0 { object } else { stranded.object };
            stranded.objects += 1;
        }
    }
    if stranded.objects > 0 {
        return Err(stranded);
    }
    planner.plan.forced = planner.plan.moves.len();
    if let Some(margin) = change.level {
        planner.level(settled, margin);
    }
    Ok(planner.plan)
}

/// Rounds of levelling; each moves every object at most once, and few are needed.
const ROUNDS_MAX: u32 = 8;

struct Planner<'a> {
    change: &'a Change<'a>,
    plan: Plan,
}

impl<'a> Planner<'a> {
    fn new(change: &'a Change<'a>) -> Self {
        let rows = change.before.server_rows().max(change.after.server_rows());
        let rows = rows.max(change.room.len());
        Self { change, plan: Plan { used: vec![0; rows], ..Plan::default() } }
    }

    /// Numbers of groups do not depend on the servers, so both maps have the same candidates.
    fn candidates(&self, object: u64) -> Candidates {
        let name = ObjectName { volume: self.change.volume, index: object };
        name.candidates(self.change.after, self.change.candidates)
    }

    /// Which candidate lies on this server under the new map.
    fn position(&self, candidates: &Candidates, server: ServerId) -> Option<usize> {
        candidates.sets(self.change.after).position(|set| set[0] == server)
    }

    fn used_part(&self, server: ServerId, more: u64) -> f64 {
        let room = self.change.room.get(server.index()).copied().unwrap_or(0);
        (self.plan.used[server.index()] + more) as f64 / room.max(1) as f64
    }

    /// The emptiest candidate that has room.
    fn emptiest(&self, candidates: &Candidates) -> Option<(usize, ServerId)> {
        let servers = candidates.sets(self.change.after).map(|set| set[0]).enumerate();
        let with_room = servers.filter(|(_, server)| self.used_part(*server, 1) <= 1.0);
        with_room.min_by(|(_, one), (_, other)| {
            self.used_part(*one, 1).total_cmp(&self.used_part(*other, 1))
        })
    }

    fn rehome(&mut self, object: u64, from: ServerId) -> bool {
        let Some((choice, to)) = self.emptiest(&self.candidates(object)) else { return false };
        self.plan.used[to.index()] += 1;
        self.plan.moves.push(Move { object, from, to, choice });
        true
    }

    /// Moves objects that could stay, the most uneven differences first, down to the margin.
    fn level(&mut self, mut settled: Vec<(u64, ServerId)>, margin: f64) {
        let mut moved = vec![false; settled.len()];
        for round in (0..ROUNDS_MAX).rev() {
            // What is moved for a large difference is not moved again for a small one.
            let least = margin * f64::from(1 << round);
            for (place, moved) in settled.iter_mut().zip(&mut moved).filter(|(_, moved)| !**moved) {
                let (object, from) = *place;
                let Some((choice, to)) = self.emptiest(&self.candidates(object)) else { continue };
                if self.used_part(from, 0) - self.used_part(to, 1) <= least {
                    continue;
                }
                self.plan.used[from.index()] -= 1;
                self.plan.used[to.index()] += 1;
                self.plan.moves.push(Move { object, from, to, choice });
                *moved = true;
            }
        }
        let gone: std::collections::BTreeSet<u64> =
            self.plan.moves.iter().map(|one| one.object).collect();
        self.plan.renamed.retain(|(object, _)| !gone.contains(object));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::cluster::{DomainId, GroupOptions, Member};

    const VOLUME: u64 = 5;

    fn map(room: &[u64]) -> GroupMap {
        let members: Vec<Member> = (0..)
            .zip(room)
            .map(|(number, &capacity_bytes)| Member {
                server: ServerId(number),
                capacity_bytes,
                domain: DomainId(number),
            })
            .collect();
        GroupMap::new(&members, GroupOptions { group_bits: 12, replicas: 1, seed: 9 }).unwrap()
    }

    /// Objects on the emptier of two candidates, one after the other.
    fn filled(map: &GroupMap, room: &[u64], count: u64) -> Vec<(u64, usize)> {
        let mut used = vec![0u64; room.len()];
        let one = |object| {
            let candidates = ObjectName { volume: VOLUME, index: object }.candidates(map, 2);
            let servers: Vec<usize> = candidates.sets(map).map(|set| set[0].index()).collect();
            let part = |&server: &usize| (used[server] + 1) as f64 / room[server] as f64;
            let choice = usize::from(part(&servers[1]) < part(&servers[0]));
            used[servers[choice]] += 1;
            (object, choice)
        };
        (0..count).map(one).collect()
    }

    fn change<'a>(
        [before, after]: [&'a GroupMap; 2],
        room: &'a [u64],
        level: Option<f64>,
    ) -> Change<'a> {
        Change { volume: VOLUME, before, after, candidates: 2, room, level }
    }

    /// Applies a plan naively and holds it against what it says.
    fn check(change: &Change<'_>, objects: &[(u64, usize)], plan: &Plan) {
        let mut places: Vec<(u64, usize, ServerId)> = objects
            .iter()
            .map(|&(object, choice)| {
                let name = ObjectName { volume: VOLUME, index: object };
                let group = name.candidates(change.before, 2).groups()[choice];
                (object, choice, change.before.servers(group)[0])
            })
            .collect();
        for &(object, choice) in &plan.renamed {
            places[usize::try_from(object).unwrap()].1 = choice;
        }
        for one in &plan.moves {
            let place = &mut places[usize::try_from(one.object).unwrap()];
            assert_eq!(place.2, one.from, "it moves from where it is, and once");
            assert_ne!(one.from, one.to);
            *place = (one.object, one.choice, one.to);
        }
        let mut used = vec![0; plan.used.len()];
        for (object, choice, server) in places {
            let name = ObjectName { volume: VOLUME, index: object };
            let group = name.candidates(change.after, 2).groups()[choice];
            assert_eq!(change.after.servers(group)[0], server, "object {object} is found");
            used[server.index()] += 1;
        }
        assert_eq!(used, plan.used);
        assert!(used.iter().zip(change.room).all(|(used, room)| used <= room), "{used:?}");
    }

    fn max_to_mean(plan: &Plan, room: &[u64]) -> f64 {
        let parts: Vec<f64> = plan
            .used
            .iter()
            .zip(room)
            .filter(|(_, room)| **room > 0)
            .map(|(used, room)| *used as f64 / *room as f64)
            .collect();
        parts.iter().copied().fold(0.0, f64::max) / (parts.iter().sum::<f64>() / parts.len() as f64)
    }

    #[test]
    fn a_server_that_joins_gets_its_part_and_nothing_else_moves() {
        let (old_room, room) = ([1000, 1000, 1000, 1000, 0], [1000; 5]);
        let (before, after) = (map(&old_room), map(&room));
        let objects = filled(&before, &old_room, 2400);
        let change = change([&before, &after], &room, None);
        let plan = plan(&change, &objects).unwrap();
        check(&change, &objects, &plan);
        assert!(plan.moves.iter().all(|one| one.to == ServerId(4) || one.from != ServerId(4)));
        let moved = plan.moves.len() as f64 / 2400.0;
        assert!(moved < 0.24 && plan.forced == plan.moves.len(), "{moved}: a fifth at best");
    }

    #[test]
    fn levelling_makes_servers_even_for_few_moves_more() {
        let (old_room, room) =
            ([2000, 1000, 1000, 1000, 0, 0], [2000, 1000, 1000, 1000, 1000, 500]);
        let (before, after) = (map(&old_room), map(&room));
        let objects = filled(&before, &old_room, 3000);
        let [bare, level] = [None, Some(0.01)].map(|level| {
            let change = change([&before, &after], &room, level);
            let plan = plan(&change, &objects).unwrap();
            check(&change, &objects, &plan);
            plan
        });
        assert!(max_to_mean(&level, &room) < 1.03, "{:?}", level.used);
        assert!(max_to_mean(&level, &room) < max_to_mean(&bare, &room));
        let more = level.moves.len() - bare.moves.len();
        assert!(more * 10 < objects.len(), "{more} more of {}", objects.len());
    }

    #[test]
    fn a_server_that_leaves_is_empty_afterwards() {
        let (old_room, room) = ([1000; 5], [1000, 0, 1000, 1000, 1000]);
        let (before, after) = (map(&old_room), map(&room));
        let objects = filled(&before, &old_room, 3000);
        let change = change([&before, &after], &room, Some(0.01));
        let plan = plan(&change, &objects).unwrap();
        check(&change, &objects, &plan);
        assert_eq!(plan.used[1], 0);
        let forced = plan.moves[..plan.forced].iter();
        assert!(forced.filter(|one| one.from == ServerId(1)).count() >= 590);
    }

    #[test]
    fn without_a_change_nothing_happens_and_without_room_it_is_said() {
        let room = [1000; 4];
        let before = map(&room);
        let objects = filled(&before, &room, 3500);
        let same = plan(&change([&before, &before], &room, Some(0.01)), &objects).unwrap();
        assert!(same.moves.len() < 20 && same.forced == 0, "{}", same.moves.len());
        let less = [1000, 1000, 1000, 0];
        let after = map(&less);
        let error = plan(&change([&before, &after], &less, None), &objects).unwrap_err();
        assert!(error.objects >= 500 && error.to_string().contains("add a server"), "{error}");
    }
}
