//! Filling a cluster object by object until its first server is full.
//!
//! No time passes here; what matters is who knows what. Clients write objects in turn. Each has its
//! own view of the servers, all of them refreshed after so many bytes, and in between corrected by
//! what the client wrote itself ([`evenkeel_core::place::loads`]).
//!
//! ```text
//! object -> candidates -> chooser (hashing, policy over the client's view, odds) -> servers fill
//!                                        ^                                            |
//!                                        +------- report every so many bytes ---------+
//! ```

mod clients;
pub mod cluster;

use evenkeel_core::id::ServerId;
use evenkeel_core::place::candidates::{Candidates, ObjectName};
use evenkeel_core::place::choose::choose;
use evenkeel_core::place::cluster::{GroupMap, Member};
use evenkeel_core::place::odds::Odds;
use evenkeel_core::place::policy::{Policy, View};

use clients::Clients;

/// How objects are placed.
pub enum Chooser<'a> {
    /// Where the first candidate is.
    Hashing,
    /// By comparing candidates.
    Policy {
        /// The policy.
        policy: &'a dyn Policy,
        /// Candidates per object.
        candidates: usize,
    },
    /// By lot between two candidates.
    Odds(&'a Odds),
}

/// Who writes, and what is known.
#[derive(Clone, Copy, Debug)]
pub struct Writers {
    /// Clients that write in turn.
    pub clients: u32,
    /// Whether each of them knows how many they are.
    pub know_each_other: bool,
    /// Part of the capacity of the cluster that is written between two reports of the servers, 0
    /// to 1; 0 for reports after every object.
    pub report_every: f64,
}

impl Default for Writers {
    /// One client, which knows all at any time.
    fn default() -> Self {
        Self { clients: 1, know_each_other: true, report_every: 0.0 }
    }
}

/// A cluster that is to be filled.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Its servers; those of the map are among them.
    pub members: &'a [Member],
    /// Its groups.
    pub map: &'a GroupMap,
    /// What an object takes on each server of its set.
    pub object_bytes: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filled {
    /// Part of the whole capacity in use when an object met a server without room.
    pub used_part: f64,
    /// The mean of the used parts of the servers over the greatest of them.
    pub mean_to_max: f64,
    /// Part of the objects that did not go to their first candidate.
    pub diverted_part: f64,
    /// Objects that were placed.
    pub objects: u64,
}

/// Fills a cluster with the objects of one volume until one of them meets a server without room.
/// `used_bytes` is what the servers hold before and after, by server. O(objects * candidates).
pub fn fill(
    cluster: &Cluster<'_>,
    chooser: &Chooser<'_>,
    writers: Writers,
    volume: u64,
    used_bytes: &mut [u64],
) -> Filled {
    let mut clients = Clients::new(cluster, writers, used_bytes);
    let (mut objects, mut diverted) = (0, 0);
    loop {
        let name = ObjectName { volume, index: objects };
        let client = usize::try_from(objects % u64::from(writers.clients)).expect("a small number");
        let position = pick(cluster, chooser, name, &clients, client);
        let candidates = name.candidates(cluster.map, count(chooser));
        let servers = cluster.map.servers(candidates.groups()[position]);
        if !has_room(cluster, servers, used_bytes) {
            return outcome(cluster, used_bytes, objects, diverted);
        }
        for &server in servers {
            used_bytes[server.index()] += cluster.object_bytes;
            clients.wrote(client, server, cluster.object_bytes);
        }
        clients.pass(cluster, servers.len() as u64 * cluster.object_bytes, used_bytes);
        objects += 1;
        diverted += u64::from(position > 0);
    }
}

fn count(chooser: &Chooser<'_>) -> usize {
    match chooser {
        Chooser::Hashing => 1,
        Chooser::Policy { candidates, .. } => *candidates,
        Chooser::Odds(_) => 2,
    }
}

fn pick(
    cluster: &Cluster<'_>,
    chooser: &Chooser<'_>,
    name: ObjectName,
    clients: &Clients,
    client: usize,
) -> usize {
    let candidates: Candidates = name.candidates(cluster.map, count(chooser));
    match chooser {
        Chooser::Hashing => 0,
        Chooser::Policy { policy, .. } => {
            let view = View { loads: clients.loads(client), size_bytes: cluster.object_bytes };
            // Nothing is held back here: the question is when the first server is full.
            choose(*policy, &view, candidates.sets(cluster.map), f64::INFINITY)
                .expect("there is no ceiling")
        }
        Chooser::Odds(odds) => {
            let groups = [candidates.groups()[0], candidates.groups()[1]];
            odds.pick(groups, candidates.lot())
        }
    }
}

fn has_room(cluster: &Cluster<'_>, servers: &[ServerId], used_bytes: &[u64]) -> bool {
    servers.iter().all(|server| {
        let capacity_bytes = cluster.members[server.index()].capacity_bytes;
        used_bytes[server.index()] + cluster.object_bytes <= capacity_bytes
    })
}

fn outcome(cluster: &Cluster<'_>, used_bytes: &[u64], objects: u64, diverted: u64) -> Filled {
    let parts = cluster::used_parts(cluster.members, used_bytes);
    let capacity: f64 = cluster.members.iter().map(|member| member.capacity_bytes as f64).sum();
    Filled {
        used_part: used_bytes.iter().map(|&bytes| bytes as f64).sum::<f64>() / capacity,
        mean_to_max: parts.iter().sum::<f64>()
            / parts.len() as f64
            / parts.iter().copied().fold(0.0, f64::max),
        diverted_part: diverted as f64 / objects.max(1) as f64,
        objects,
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::place::cluster::GroupOptions;
    use evenkeel_core::place::policy::space::{Score, Space};

    use super::*;

    /// 45 servers in three racks, three replicas, 512 groups: 34 sets to a server.
    fn filled(chooser: &Chooser<'_>, writers: Writers) -> Filled {
        let members = cluster::even(45, 15, 3_000);
        let options = GroupOptions { group_bits: 9, replicas: 3, seed: 3 };
        let map = GroupMap::new(&members, options).unwrap();
        let cluster = Cluster { members: &members, map: &map, object_bytes: 1 };
        fill(&cluster, chooser, writers, 1, &mut vec![0; 45])
    }

    fn by_space(margin: f64, score: Score) -> Space {
        Space { margin, score }
    }

    #[test]
    fn choices_fill_what_hashing_leaves_empty() {
        let hashing = filled(&Chooser::Hashing, Writers::default());
        assert!((0.55..0.85).contains(&hashing.used_part), "{hashing:?}");
        let [sum, fullest, primary] = [Score::Sum, Score::Fullest, Score::Primary].map(|score| {
            let policy = by_space(0.0, score);
            filled(&Chooser::Policy { policy: &policy, candidates: 2 }, Writers::default())
        });
        assert!(sum.used_part > 0.99, "{sum:?}");
        assert!(fullest.used_part > 0.94 && fullest.used_part < sum.used_part, "{fullest:?}");
        assert!(primary.used_part < fullest.used_part, "{primary:?}");
    }

    #[test]
    fn a_margin_leaves_nearly_all_objects_where_they_are_looked_for_first() {
        let policy = by_space(0.01, Score::Sum);
        let chooser = Chooser::Policy { policy: &policy, candidates: 2 };
        let filled = filled(&chooser, Writers::default());
        assert!(filled.used_part > 0.98 && filled.diverted_part < 0.2, "{filled:?}");
    }

    #[test]
    fn clients_that_count_each_other_outdo_old_figures() {
        let policy = by_space(0.0, Score::Sum);
        let chooser = Chooser::Policy { policy: &policy, candidates: 2 };
        let with = |know_each_other| {
            filled(&chooser, Writers { clients: 64, know_each_other, report_every: 0.1 }).used_part
        };
        let (alone, together) = (with(false), with(true));
        assert!(together > 0.97 && alone < together, "{alone} {together}");
    }
}
