//! From here on: the pool grows until the first OSD is full, by every way to place what comes.

use evenkeel_core::place::certificate::Certificate;
use evenkeel_core::place::cluster::{DomainId, GroupMap, Member};
use evenkeel_core::place::policy::space::Space;
use evenkeel_sim::fill::{Chooser, Cluster as Filled, Filling, Writers};

use evenkeel_core::id::ServerId;

use super::super::parts;
use super::Args;
use super::cluster::{Cluster, Group, Pool};
use super::upmap::Upmap;

/// Objects that fill the average OSD, at most; larger ones are placed if there would be more.
const OBJECTS_EACH: u64 = 20_000;

/// Shards placed in one filling, at most: some seconds.
const SHARDS_MAX: u64 = 10_000_000;

/// What choices would gain.
pub(super) struct Outcome {
    pub(super) pool: String,
    pub(super) size: u32,
    pub(super) data: u32,
    pub(super) groups: usize,
    pub(super) full_part: f64,
    pub(super) osds: Vec<Osd>,
    /// Of the whole capacity, what is in use now.
    pub(super) used_part: f64,
    /// What would have to move, at least, for all OSDs to be as full as the average.
    pub(super) uneven_bytes: u64,
    pub(super) ways: Vec<Way>,
    /// Why there is no comparison with upmap, if there is none.
    pub(super) no_upmap: Option<String>,
    /// What no choice between candidates can exceed, were the pool filled from the start.
    pub(super) at_most: f64,
}

/// An OSD now.
pub(super) struct Osd {
    pub(super) name: String,
    pub(super) capacity_bytes: u64,
    pub(super) used_bytes: u64,
}

/// One way to go on.
pub(super) struct Way {
    pub(super) name: String,
    /// What has to be moved for it, before anything is gained.
    pub(super) moved_bytes: u64,
    /// What can be written until the first OSD is full, replicas not counted.
    pub(super) data_bytes: u64,
    /// Of the whole capacity, what is in use then.
    pub(super) used_part: f64,
    pub(super) diverted_part: f64,
    /// How full each OSD is then, by position.
    pub(super) used_parts: Vec<f64>,
}

/// Reckons all ways.
pub(super) fn run(args: &Args, cluster: &Cluster, pool: &Pool, upmap: Upmap) -> Outcome {
    let stage = Stage::new(args, cluster, pool);
    let used: Vec<u64> = cluster.osds.iter().map(|osd| osd.used_bytes).collect();
    let map = pool.map();
    let mut ways = vec![stage.fill("hashing, as it is", &map, &Chooser::Hashing, (0, &used))];
    let no_upmap = match upmap {
        Upmap::Proposal(groups) => {
            let (moved, after) = moved(pool, &groups, &used);
            let map = Pool::map_of(&groups);
            ways.push(stage.fill("hashing after upmap", &map, &Chooser::Hashing, (moved, &after)));
            None
        }
        Upmap::None(why) => Some(why),
    };
    let candidates = args.candidates as usize;
    let mut choose = |name: String, margin: f64| {
        let policy = Space::with_margin(margin);
        let chooser = Chooser::Policy { policy: &policy, candidates };
        ways.push(stage.fill(&name, &map, &chooser, (0, &used)));
    };
    choose(format!("{candidates} choices"), 0.0);
    if args.margin > 0.0 {
        choose(format!("{candidates} choices, margin {}", parts::show(args.margin)), args.margin);
    }
    let osd = |osd: &super::super::cluster::Server| Osd {
        name: osd.name.clone(),
        capacity_bytes: osd.capacity_bytes,
        used_bytes: osd.used_bytes,
    };
    Outcome {
        pool: pool.name.clone(),
        size: pool.size,
        data: pool.data,
        groups: pool.groups.len(),
        full_part: cluster.full_part,
        osds: cluster.osds.iter().map(osd).collect(),
        used_part: used.iter().sum::<u64>() as f64 / stage.capacity,
        uneven_bytes: uneven(cluster, &used),
        ways,
        no_upmap,
        at_most: stage.at_most(&map, args.candidates),
    }
}

/// The OSDs as the algorithms take them.
struct Stage {
    /// With room up to the part at which the cluster stops writing.
    members: Vec<Member>,
    /// All room, in bytes.
    capacity: f64,
    /// What an object takes on each server of its set.
    shard_bytes: u64,
    data: u64,
    full_part: f64,
}

impl Stage {
    fn new(args: &Args, cluster: &Cluster, pool: &Pool) -> Self {
        let capacity_bytes: u64 = cluster.osds.iter().map(|osd| osd.capacity_bytes).sum();
        let osds = cluster.osds.len() as u64;
        let each = (SHARDS_MAX / osds).clamp(100, OBJECTS_EACH);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "parts of it")]
        let room = |bytes: u64| (bytes as f64 * cluster.full_part) as u64;
        let member = |(number, osd): (u32, &super::super::cluster::Server)| Member {
            server: ServerId(number),
            capacity_bytes: room(osd.capacity_bytes),
            // The groups are given; domains have done their part.
            domain: DomainId(number),
        };
        let shard_bytes = args.object / u64::from(pool.data);
        Self {
            members: (0..).zip(&cluster.osds).map(member).collect(),
            capacity: capacity_bytes as f64,
            shard_bytes: shard_bytes.max(capacity_bytes / osds / each).max(1),
            data: u64::from(pool.data),
            full_part: cluster.full_part,
        }
    }

    /// Fills from what is in use on each OSD, after so much was moved.
    fn fill(
        &self,
        name: &str,
        map: &GroupMap,
        chooser: &Chooser<'_>,
        (moved_bytes, used): (u64, &[u64]),
    ) -> Way {
        let cluster = Filled { members: &self.members, map, object_bytes: self.shard_bytes };
        let mut filling = Filling::new(&cluster, chooser, Writers::default(), 1, used.to_vec());
        while filling.place() {}
        let outcome = filling.outcome();
        let part = |(&bytes, member): (&u64, &Member)| {
            bytes as f64 / (member.capacity_bytes.max(1) as f64 / self.full_part)
        };
        Way {
            name: name.to_owned(),
            moved_bytes,
            data_bytes: outcome.objects * self.shard_bytes * self.data,
            used_part: filling.used_bytes().iter().sum::<u64>() as f64 / self.capacity,
            diverted_part: outcome.diverted_part,
            used_parts: filling.used_bytes().iter().zip(&self.members).map(part).collect(),
        }
    }

    /// The certificate, which speaks of OSDs that the pool lies on alone.
    fn at_most(&self, map: &GroupMap, candidates: u32) -> f64 {
        let mut within = vec![0; map.server_rows()];
        for server in map.sets().flatten() {
            within[server.index()] = self.members[server.index()].capacity_bytes;
        }
        let reach = within.iter().sum::<u64>() as f64 / self.capacity;
        Certificate::of(map, &within, candidates).at_most * reach
    }
}

/// What moves between two layouts of the same groups, and what each OSD holds then.
fn moved(pool: &Pool, groups: &[Group], used: &[u64]) -> (u64, Vec<u64>) {
    let mut after = used.to_vec();
    let mut moved_bytes = 0;
    for (old, new) in pool.groups.iter().zip(groups) {
        for server in old.servers.iter().filter(|server| !new.servers.contains(server)) {
            let bytes = &mut after[server.index()];
            *bytes = bytes.saturating_sub(old.bytes);
        }
        for server in new.servers.iter().filter(|server| !old.servers.contains(server)) {
            after[server.index()] += old.bytes;
            moved_bytes += old.bytes;
        }
    }
    (moved_bytes, after)
}

/// What lies above the average, in all.
fn uneven(cluster: &Cluster, used: &[u64]) -> u64 {
    let capacity: f64 = cluster.osds.iter().map(|osd| osd.capacity_bytes as f64).sum();
    let mean = used.iter().sum::<u64>() as f64 / capacity;
    let above = cluster.osds.iter().zip(used).map(|(osd, &bytes)| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "parts of it")]
        let fair = (osd.capacity_bytes as f64 * mean) as u64;
        bytes.saturating_sub(fair)
    });
    above.sum()
}

#[cfg(test)]
mod tests {
    use super::super::cluster::testing;
    use super::*;

    #[test]
    fn moves_take_from_one_and_give_to_another() {
        let cluster = Cluster::parse(&testing::texts()).unwrap();
        let pool = cluster.pool(None).unwrap();
        let mut groups = pool.groups.clone();
        groups[1].servers[0] = ServerId(0);
        let (bytes, after) = moved(&pool, &groups, &[5000; 4]);
        assert_eq!((bytes, after), (2000, vec![7000, 5000, 3000, 5000]));
        assert_eq!(moved(&pool, &pool.groups, &[5000; 4]).0, 0);
    }

    #[test]
    fn what_lies_above_the_average_has_to_move() {
        let cluster = Cluster::parse(&testing::texts()).unwrap();
        let used: Vec<u64> = cluster.osds.iter().map(|osd| osd.used_bytes).collect();
        // 1, 2, 3 and 4 parts: the average is 2.5, above it are 0.5 and 1.5.
        assert!(uneven(&cluster, &used).abs_diff(2 * 100_000 * 1024) < 10);
    }
}
