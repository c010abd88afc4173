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

pub mod change;
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
    /// Candidates that somebody looks at on average who has no memory of what was chosen, and asks
    /// one after the other; from 1 on.
    pub looks_mean: f64,
    /// Objects that were placed.
    pub objects: u64,
}

/// A filling under way, with the objects of one volume.
pub struct Filling<'a> {
    cluster: &'a Cluster<'a>,
    chooser: &'a Chooser<'a>,
    clients: Clients,
    volume: u64,
    /// What the servers hold, by server.
    used_bytes: Vec<u64>,
    /// What was placed in each group, counted once for all its servers.
    group_bytes: Vec<u64>,
    /// What all servers hold.
    stored_bytes: u64,
    capacity: f64,
    objects: u64,
    diverted: u64,
    looks: u64,
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
    let mut filling = Filling::new(cluster, chooser, writers, volume, used_bytes.to_vec());
    while filling.place() {}
    used_bytes.copy_from_slice(filling.used_bytes());
    filling.outcome()
}

impl<'a> Filling<'a> {
    /// Servers that hold so much, by server, and nothing of the volume yet.
    pub fn new(
        cluster: &'a Cluster<'a>,
        chooser: &'a Chooser<'a>,
        writers: Writers,
        volume: u64,
        used_bytes: Vec<u64>,
    ) -> Self {
        Self {
            cluster,
            chooser,
            clients: Clients::new(cluster, writers, &used_bytes),
            volume,
            stored_bytes: used_bytes.iter().sum(),
            capacity: cluster.members.iter().map(|member| member.capacity_bytes as f64).sum(),
            used_bytes,
            group_bytes: vec![0; cluster.map.len() as usize],
            objects: 0,
            diverted: 0,
            looks: 0,
        }
    }

    /// Places the next object; false, and nothing is changed, if it meets a server without room.
    pub fn place(&mut self) -> bool {
        let name = ObjectName { volume: self.volume, index: self.objects };
        let client = self.clients.turn(self.objects);
        let candidates = name.candidates(self.cluster.map, count(self.chooser));
        let position = self.pick(&candidates, client);
        let group = candidates.groups()[position];
        let servers = self.cluster.map.servers(group);
        if !self.has_room(servers) {
            return false;
        }
        let bytes = self.cluster.object_bytes;
        for &server in servers {
            self.used_bytes[server.index()] += bytes;
            self.clients.wrote(client, server, bytes);
        }
        self.group_bytes[group as usize] += bytes;
        let in_all = servers.len() as u64 * bytes;
        self.stored_bytes += in_all;
        self.clients.pass(self.cluster, in_all, &self.used_bytes);
        self.objects += 1;
        self.diverted += u64::from(position > 0);
        self.looks += 1 + position as u64;
        true
    }

    /// What the servers hold, by server.
    pub fn used_bytes(&self) -> &[u64] {
        &self.used_bytes
    }

    /// What was placed in each group, counted once for all its servers.
    pub fn group_bytes(&self) -> &[u64] {
        &self.group_bytes
    }

    /// How far it has come.
    pub fn outcome(&self) -> Filled {
        let parts = cluster::used_parts(self.cluster.members, &self.used_bytes);
        let objects = self.objects.max(1) as f64;
        Filled {
            used_part: self.used_part(),
            mean_to_max: parts.iter().sum::<f64>()
                / parts.len() as f64
                / parts.iter().copied().fold(0.0, f64::max),
            diverted_part: self.diverted as f64 / objects,
            looks_mean: self.looks as f64 / objects,
            objects: self.objects,
        }
    }

    /// The part of the whole capacity that is in use.
    pub fn used_part(&self) -> f64 {
        self.stored_bytes as f64 / self.capacity
    }

    fn pick(&self, candidates: &Candidates, client: usize) -> usize {
        match self.chooser {
            Chooser::Hashing => 0,
            Chooser::Policy { policy, .. } => {
                let size_bytes = self.cluster.object_bytes;
                let view = View { loads: self.clients.loads(client), size_bytes };
                // Nothing is held back here: the question is when the first server is full.
                choose(*policy, &view, candidates.sets(self.cluster.map), f64::INFINITY)
                    .expect("there is no ceiling")
            }
            Chooser::Odds(odds) => {
                let groups = [candidates.groups()[0], candidates.groups()[1]];
                odds.pick(groups, candidates.lot())
            }
        }
    }

    fn has_room(&self, servers: &[ServerId]) -> bool {
        servers.iter().all(|server| {
            let capacity_bytes = self.cluster.members[server.index()].capacity_bytes;
            self.used_bytes[server.index()] + self.cluster.object_bytes <= capacity_bytes
        })
    }
}

fn count(chooser: &Chooser<'_>) -> usize {
    match chooser {
        Chooser::Hashing => 1,
        Chooser::Policy { candidates, .. } => *candidates,
        Chooser::Odds(_) => 2,
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
