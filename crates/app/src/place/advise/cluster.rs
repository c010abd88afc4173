//! What a Ceph cluster says of itself, as far as placing needs it: OSDs, pools, and which OSDs each
//! placement group lies on.
//!
//! Objects fall on placement groups by `ceph_stable_mod`: with a number of groups that is no power
//! of two, some groups take part twice. The table of `core::place` is made alike, so that hashing
//! there is as uneven as it is in the cluster.

use std::collections::BTreeMap;

use evenkeel_core::id::ServerId;
use evenkeel_core::place::cluster::GroupMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::cluster::{Osd, Server, osds};
use super::source::Texts;
use crate::exit::Exit;

/// An acting set has this number where no OSD was found.
const NO_OSD: i64 = 0x7fff_ffff;

/// Full if the cluster does not say at which part: Ceph's default.
const FULL_PART: f64 = 0.95;

/// A cluster.
pub(super) struct Cluster {
    /// Its OSDs; servers are positions in it.
    pub(super) osds: Vec<Server>,
    /// The part of an OSD at which the cluster stops writing.
    pub(super) full_part: f64,
    /// Positions by the numbers that Ceph gives.
    positions: BTreeMap<i64, ServerId>,
    pools: Vec<PoolDump>,
    profiles: BTreeMap<String, BTreeMap<String, String>>,
    /// By pool and number within it.
    groups: BTreeMap<(u64, u32), PgStat>,
}

/// A pool.
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) number: u64,
    /// Servers of an object, and how many of them hold what cannot be computed from the others.
    pub(super) size: u32,
    pub(super) data: u32,
    /// By placement group: its servers, and what each of them holds of it.
    pub(super) groups: Vec<Group>,
    /// By OSD number, as Ceph names them.
    pub(super) positions: BTreeMap<i64, ServerId>,
}

/// A placement group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) servers: Vec<ServerId>,
    pub(super) bytes: u64,
}

#[derive(Debug, Deserialize)]
struct OsdDump {
    pools: Vec<PoolDump>,
    #[serde(default)]
    full_ratio: f64,
    #[serde(default)]
    erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
struct PoolDump {
    pool: u64,
    pool_name: String,
    size: u32,
    pg_num: u32,
    #[serde(default)]
    erasure_code_profile: String,
}

/// Of `pg dump`: within `pg_map` since Nautilus.
#[derive(Debug, Deserialize)]
struct PgDump {
    #[serde(default)]
    pg_map: Option<PgStats>,
    #[serde(default)]
    pg_stats: Vec<PgStat>,
}

#[derive(Debug, Deserialize)]
struct PgStats {
    pg_stats: Vec<PgStat>,
}

#[derive(Clone, Debug, Deserialize)]
struct PgStat {
    pgid: String,
    acting: Vec<i64>,
    #[serde(default)]
    stat_sum: StatSum,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct StatSum {
    num_bytes: i64,
}

impl Cluster {
    /// Reads the documents.
    ///
    /// # Errors
    /// [`Exit::Invalid`] for documents that do not tell what is needed.
    pub(super) fn parse(texts: &Texts) -> anyhow::Result<Self> {
        let dump: OsdDump = json(&texts.dump, "ceph osd dump -f json")?;
        let groups: PgDump = json(&texts.pgs, "ceph pg dump -f json")?;
        let listed = osds(&texts.df, "the list of OSDs")?;
        let numbered = (0..).map(ServerId).zip(&listed);
        let positions = numbered.map(|(server, osd)| (osd.number, server)).collect();
        let full_part = if dump.full_ratio > 0.0 { dump.full_ratio } else { FULL_PART };
        Ok(Self {
            osds: listed.into_iter().map(|Osd { server, .. }| server).collect(),
            full_part,
            positions,
            pools: dump.pools,
            profiles: dump.erasure_code_profiles,
            groups: groups
                .pg_map
                .map_or(groups.pg_stats, |map| map.pg_stats)
                .into_iter()
                .filter_map(|group| Some((number(&group.pgid)?, group)))
                .collect(),
        })
    }

    /// A pool by its name, or the one that holds most.
    ///
    /// # Errors
    /// [`Exit::Usage`] if there is none, [`Exit::Invalid`] if its groups are not all told of.
    pub(super) fn pool(&self, name: Option<&str>) -> anyhow::Result<Pool> {
        let found = match name {
            Some(name) => self.pools.iter().find(|pool| pool.pool_name == name),
            None => self.pools.iter().max_by_key(|pool| self.bytes_of(pool.pool)),
        };
        let Some(found) = found else {
            let names: Vec<&str> = self.pools.iter().map(|pool| &*pool.pool_name).collect();
            let what = match name {
                Some(name) => format!("no pool is called {name}; there are {}", names.join(", ")),
                None => "the cluster has no pool; make one first".to_owned(),
            };
            return Err(Exit::Usage.because(what));
        };
        let data = self.data_shards(found);
        let groups = (0..found.pg_num).map(|number| self.group(found, number, data));
        Ok(Pool {
            name: found.pool_name.clone(),
            number: found.pool,
            size: found.size,
            data,
            groups: groups.collect::<anyhow::Result<_>>()?,
            positions: self.positions.clone(),
        })
    }

    fn bytes_of(&self, pool: u64) -> i64 {
        let groups = self.groups.range((pool, 0)..=(pool, u32::MAX));
        groups.map(|(_, group)| group.stat_sum.num_bytes).sum()
    }

    /// Parts of an object that are not redundant: 1 with replicas, k with erasure codes.
    fn data_shards(&self, pool: &PoolDump) -> u32 {
        let profile = self.profiles.get(&pool.erasure_code_profile);
        let k = profile.and_then(|profile| profile.get("k")?.parse().ok());
        k.filter(|k| (1..pool.size).contains(k)).unwrap_or(1)
    }

    fn group(&self, pool: &PoolDump, wanted: u32, data: u32) -> anyhow::Result<Group> {
        let invalid = |what: &str| {
            let remedy = "wait until all groups are active, and look again";
            let text = format!("group {wanted:x} of pool {} {what}; {remedy}", pool.pool_name);
            Exit::Invalid.because(text)
        };
        let told = self.groups.get(&(pool.pool, wanted));
        let told = told.ok_or_else(|| invalid("is not told of"))?;
        let acting = told.acting.iter().filter(|osd| **osd != NO_OSD && **osd >= 0);
        let servers: Option<Vec<ServerId>> =
            acting.map(|osd| self.positions.get(osd).copied()).collect();
        let servers = servers.ok_or_else(|| invalid("lies on an OSD that is not listed"))?;
        if servers.is_empty() {
            return Err(invalid("lies on no OSD"));
        }
        let bytes = u64::try_from(told.stat_sum.num_bytes).unwrap_or(0) / u64::from(data);
        Ok(Group { servers, bytes })
    }
}

impl Pool {
    /// The table of groups, as hashing meets them.
    pub(super) fn map(&self) -> GroupMap {
        Self::map_of(&self.groups)
    }

    /// The same of other groups of the pool.
    pub(super) fn map_of(groups: &[Group]) -> GroupMap {
        let slots = groups.len().next_power_of_two();
        let set = |slot: usize| groups[stable_mod(slot, groups.len())].servers.clone();
        let sets: Vec<Vec<ServerId>> = (0..slots).map(set).collect();
        GroupMap::of_sets(&sets).expect("a power of two of sets, none of them empty")
    }
}

/// Which of `count` groups a hash falls into, of which only the bits up to the next power of two
/// are given.
fn stable_mod(slot: usize, count: usize) -> usize {
    if slot < count { slot } else { slot & (count.next_power_of_two() / 2 - 1) }
}

/// Pool and number of a group, from a name such as `1.2f`.
pub(super) fn number(pgid: &str) -> Option<(u64, u32)> {
    let (pool, number) = pgid.split_once('.')?;
    Some((pool.parse().ok()?, u32::from_str_radix(number, 16).ok()?))
}

fn json<T: DeserializeOwned>(text: &str, command: &str) -> anyhow::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        Exit::Invalid.because(format!("this is not what `{command}` prints: {error}"))
    })
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Four OSDs of 1 GiB, a pool of two replicas in three groups and one of 2 + 1 shards.
    pub(in super::super) fn texts() -> Texts {
        let osd = |number: u32| {
            format!(
                "{{\"id\": {number}, \"name\": \"osd.{number}\", \"type\": \"osd\", \
                 \"crush_weight\": 1, \"reweight\": 1, \"kb\": 1048576, \"kb_used\": {}}}",
                100_000 * (number % 10 + 1)
            )
        };
        let osds = [10, 11, 12, 13].map(osd).join(",");
        let group = |(pgid, acting, bytes): (&str, &str, u64)| {
            format!(
                "{{\"pgid\": \"{pgid}\", \"acting\": [{acting}], \
                 \"stat_sum\": {{\"num_bytes\": {bytes}}}}}"
            )
        };
        let groups = [
            ("3.0", "10,11", 1000),
            ("3.1", "12,11", 2000),
            ("3.2", "13,2147483647", 3000),
            ("4.0", "10,11,12", 600),
        ];
        let groups = groups.map(group).join(",");
        Texts {
            df: format!("{{\"nodes\": [{osds}], \"stray\": []}}"),
            pgs: format!("{{\"pg_ready\": true, \"pg_map\": {{\"pg_stats\": [{groups}]}}}}"),
            dump: "{\"full_ratio\": 0.9, \"pools\": [\
                   {\"pool\": 3, \"pool_name\": \"images\", \"size\": 2, \"pg_num\": 3},\
                   {\"pool\": 4, \"pool_name\": \"cold\", \"size\": 3, \"pg_num\": 1,\
                    \"erasure_code_profile\": \"default\"}],\
                   \"erasure_code_profiles\": {\"default\": {\"k\": \"2\", \"m\": \"1\"}}}"
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_have_groups_on_servers_by_position() {
        let cluster = Cluster::parse(&testing::texts()).unwrap();
        assert_eq!((cluster.osds.len(), cluster.full_part.to_bits()), (4, 0.9f64.to_bits()));
        let pool = cluster.pool(None).unwrap();
        assert_eq!((pool.name.as_str(), pool.size, pool.data), ("images", 2, 1), "holds most");
        let two = Group { servers: vec![ServerId(2), ServerId(1)], bytes: 2000 };
        assert_eq!((pool.groups.len(), &pool.groups[1]), (3, &two));
        assert_eq!(pool.groups[2].servers, [ServerId(3)], "one of its OSDs is away");
        let map = pool.map();
        assert_eq!(map.len(), 4);
        assert_eq!(map.servers(3), map.servers(1), "three groups: hash 3 falls into group 1");
        let cold = cluster.pool(Some("cold")).unwrap();
        assert_eq!((cold.data, cold.groups[0].bytes), (2, 300), "each server has half of it");
    }

    #[test]
    fn what_is_missing_is_named() {
        let texts = testing::texts();
        let fails = |texts: &Texts, pool: Option<&str>| {
            let pool = Cluster::parse(texts).and_then(|cluster| cluster.pool(pool));
            pool.err().expect("it cannot be read").to_string()
        };
        assert!(fails(&texts, Some("x")).contains("there are images, cold"));
        let pgs = texts.pgs.replace("3.1", "3.5");
        let gap = Texts { pgs, ..testing::texts() };
        assert!(fails(&gap, None).contains("group 1 of pool images is not told of"));
        let unknown = Texts { pgs: texts.pgs.replace("12,11", "12,99"), ..testing::texts() };
        assert!(fails(&unknown, None).contains("not listed"));
        let other = Texts { dump: "[]".to_owned(), ..testing::texts() };
        assert!(fails(&other, None).contains("ceph osd dump"));
    }

    #[test]
    fn groups_split_as_in_ceph() {
        assert_eq!([0, 5, 6, 7, 11].map(|slot| stable_mod(slot, 12)), [0, 5, 6, 7, 11]);
        assert_eq!([12, 13, 14, 15].map(|slot| stable_mod(slot, 12)), [4, 5, 6, 7]);
        assert_eq!(number("12.1f"), Some((12, 31)));
        assert_eq!(number("12"), None);
    }
}
