//! What monitors and managers tell of OSDs and pools, from their JSON.
//!
//! Where objects go is not told by any call of the library; it follows from the acting sets of the
//! placement groups and [`evenkeel_core::place::rados`].

use std::collections::BTreeMap;

use evenkeel_core::id::ServerId;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::cluster::{Cluster, Whom};
use super::error::RadosError;

/// A pool that keeps whole copies, rather than an erasure code.
const REPLICATED: u32 = 1;

/// How full an OSD is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsdUse {
    /// Which; its number in the cluster.
    pub osd: ServerId,
    /// Bytes that it can hold.
    pub capacity_bytes: u64,
    /// Bytes in use, by whatever is on it.
    pub used_bytes: u64,
    /// Bytes in use by data of pools.
    pub data_bytes: u64,
}

/// A pool at one state of the cluster's map.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolStatus {
    /// The number of that state.
    pub epoch: u64,
    /// Whether it keeps whole copies.
    pub is_replicated: bool,
    /// Copies of each object.
    pub copies: u32,
    /// Its placement groups, in order.
    pub groups: Vec<GroupStatus>,
    /// Part of its capacity at which an OSD counts as full, and stops every pool that it is of.
    pub full_part: f64,
    /// Why the monitors let nothing take room in it, if they do not.
    pub full: Option<PoolFull>,
    /// Every OSD of the cluster, by number.
    pub osds: Vec<OsdStatus>,
    /// The addresses whose requests the OSDs refuse, each with when that ends by the monitors'
    /// clock, in their words.
    pub shut_out: BTreeMap<String, String>,
}

/// Why nothing may take room in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolFull {
    /// It has reached its quota: so many bytes or objects, zero where there is no such bound.
    Quota {
        /// Bytes of it, each counted once.
        bytes_max: u64,
        /// Objects of it.
        objects_max: u64,
    },
    /// One of its OSDs is full.
    Osd,
}

/// A placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStatus {
    /// The OSDs that act for it, or did when it was last heard of; empty if it never was.
    pub acting: Vec<ServerId>,
    /// Whether they serve it now.
    pub is_served: bool,
    /// Whether the manager has heard of it. One that was just started has heard of none, while all
    /// are served as before.
    pub is_known: bool,
}

/// What monitors think of an OSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsdStatus {
    /// Which.
    pub osd: ServerId,
    /// Whether it runs.
    pub is_up: bool,
    /// Whether data is placed on it.
    pub is_in: bool,
    /// Whether it counts as full.
    pub is_full: bool,
}

impl PoolStatus {
    /// The OSDs that serve each group; empty where nobody does.
    pub fn serving(&self) -> Vec<Vec<ServerId>> {
        let of_group = |group: &GroupStatus| {
            if group.is_served { group.acting.clone() } else { Vec::new() }
        };
        self.groups.iter().map(of_group).collect()
    }

    /// Takes what was known of groups of which the manager has not heard yet: who acts for one
    /// changes with the map of the OSDs alone, which is the monitors' own.
    pub fn keep_known(&mut self, before: &Self) {
        if self.groups.len() != before.groups.len() {
            return;
        }
        let osds = &self.osds;
        let is_up = |osd: &ServerId| {
            let found = osds.binary_search_by_key(osd, |one| one.osd);
            found.is_ok_and(|at| osds[at].is_up)
        };
        let unknown = self.groups.iter_mut().zip(&before.groups).filter(|(own, _)| !own.is_known);
        for (own, before) in unknown {
            own.acting.clone_from(&before.acting);
            own.is_served = before.is_served && before.acting.iter().all(is_up);
            own.is_known = before.is_known;
        }
    }

    /// A number that no OSD has: one more than the greatest.
    pub fn nobody(&self) -> ServerId {
        ServerId(self.osds.iter().map(|one| one.osd.0 + 1).max().unwrap_or(0))
    }

    /// The OSDs that count as full.
    pub fn full(&self) -> Vec<ServerId> {
        self.osds.iter().filter(|one| one.is_full).map(|one| one.osd).collect()
    }
}

/// The OSDs in the answer to `ceph osd df --format json`.
///
/// # Errors
/// If it is no such answer.
pub fn osd_uses(answer: &[u8]) -> Result<Vec<OsdUse>, RadosError> {
    let table: OsdTable = read("osd df", answer)?;
    let of_row = |row: OsdRow| OsdUse {
        osd: ServerId(row.id),
        capacity_bytes: row.kb << 10,
        used_bytes: row.kb_used << 10,
        data_bytes: row.kb_used_data << 10,
    };
    Ok(table.nodes.into_iter().map(of_row).collect())
}

impl Cluster {
    /// How full every OSD is, as it last told the manager.
    ///
    /// # Errors
    /// If the manager does not answer in time.
    pub fn osd_uses(&self) -> Result<Vec<OsdUse>, RadosError> {
        osd_uses(&self.command(Whom::Manager, r#"{"prefix":"osd df","format":"json"}"#)?)
    }

    /// A pool, with where its placement groups are.
    ///
    /// # Errors
    /// If there is none of this number, or nobody answers in time.
    pub fn pool_status(&self, pool: i64) -> Result<PoolStatus, RadosError> {
        let map = self.command(Whom::Monitor, r#"{"prefix":"osd dump","format":"json"}"#)?;
        let groups = self.command(
            Whom::Manager,
            r#"{"prefix":"pg dump","dumpcontents":["pgs_brief"],"format":"json"}"#,
        )?;
        pool_status(&map, &groups, pool)
    }
}

fn pool_status(map: &[u8], groups: &[u8], number: i64) -> Result<PoolStatus, RadosError> {
    let map: MapDump = read("osd dump", map)?;
    let groups: GroupDump = read("pg dump", groups)?;
    let pool = map.pools.iter().find(|pool| pool.pool == number);
    let pool = pool.ok_or_else(|| misread("osd dump", "the pool is gone"))?;
    let mut osds: Vec<_> = map.osds.iter().map(StateRow::status).collect();
    osds.sort_by_key(|one| one.osd);
    let state = |osd: u32| {
        let found = osds.binary_search_by_key(&ServerId(osd), |one| one.osd);
        found.ok().map(|at| &osds[at])
    };
    let mut statuses = vec![GroupStatus::default(); pool.pg_num as usize];
    for row in groups.pg_stats {
        let place = row.pgid.split_once('.').and_then(|(of_pool, group)| {
            (of_pool.parse() == Ok(number)).then(|| usize::from_str_radix(group, 16).ok())?
        });
        // Beside a split the two answers may be of different states.
        if let Some(status) = place.and_then(|group| statuses.get_mut(group)) {
            // Places of an erasure code that nobody fills are numbers beyond all OSDs.
            let acting = row.acting.iter().filter_map(|osd| state(*osd));
            // The last word of a group may be from before the death of all who could tell.
            let is_up = acting.clone().next().is_some() && acting.clone().all(|one| one.is_up);
            let says = |state: &str| row.state.split('+').any(|word| word == state);
            if says("unknown") {
                continue;
            }
            // Whoever acts now waits until whoever did before must have noticed, or has lost touch.
            let is_held_up = says("wait") || says("laggy");
            *status = GroupStatus {
                acting: acting.map(|one| one.osd).collect(),
                is_served: says("active") && !is_held_up && is_up,
                is_known: true,
            };
        }
    }
    Ok(PoolStatus {
        epoch: map.epoch,
        is_replicated: pool.kind == REPLICATED,
        copies: pool.size,
        groups: statuses,
        full_part: map.full_ratio,
        full: pool.full(),
        osds,
        shut_out: map.blocklist,
    })
}

#[derive(Deserialize)]
struct OsdTable {
    nodes: Vec<OsdRow>,
}

#[derive(Deserialize)]
struct OsdRow {
    id: u32,
    kb: u64,
    kb_used: u64,
    #[serde(default)]
    kb_used_data: u64,
}

#[derive(Deserialize)]
struct MapDump {
    epoch: u64,
    full_ratio: f64,
    pools: Vec<PoolRow>,
    osds: Vec<StateRow>,
    #[serde(default)]
    blocklist: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct PoolRow {
    pool: i64,
    #[serde(rename = "type")]
    kind: u32,
    size: u32,
    pg_num: u32,
    #[serde(default)]
    flags_names: String,
    #[serde(default)]
    quota_max_bytes: u64,
    #[serde(default)]
    quota_max_objects: u64,
}

impl PoolRow {
    fn full(&self) -> Option<PoolFull> {
        let says = |flag: &str| self.flags_names.split(',').any(|word| word == flag);
        let quota = PoolFull::Quota {
            bytes_max: self.quota_max_bytes,
            objects_max: self.quota_max_objects,
        };
        // A pool at its quota says both.
        if says("full_quota") { Some(quota) } else { says("full").then_some(PoolFull::Osd) }
    }
}

#[derive(Deserialize)]
struct StateRow {
    osd: u32,
    #[serde(rename = "in")]
    is_in: u8,
    #[serde(default)]
    state: Vec<String>,
}

impl StateRow {
    fn status(&self) -> OsdStatus {
        let says = |state: &str| self.state.iter().any(|word| word == state);
        OsdStatus {
            osd: ServerId(self.osd),
            is_up: says("up"),
            is_in: self.is_in == 1,
            is_full: says("full"),
        }
    }
}

#[derive(Deserialize)]
struct GroupDump {
    pg_stats: Vec<GroupRow>,
}

#[derive(Deserialize)]
struct GroupRow {
    pgid: String,
    state: String,
    acting: Vec<u32>,
}

fn read<T: DeserializeOwned>(what: &'static str, answer: &[u8]) -> Result<T, RadosError> {
    serde_json::from_slice(answer).map_err(|error| misread(what, &error.to_string()))
}

fn misread(what: &'static str, why: &str) -> RadosError {
    RadosError::Answer { what, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_other_pools_and_places_without_an_osd_do_not_count() {
        let map = br#"{"epoch":7,"full_ratio":0.95,"pools":[
            {"pool":3,"pool_name":"a","type":1,"size":2,"pg_num":2},
            {"pool":2,"pool_name":"b","type":3,"size":3,"pg_num":1}],
            "osds":[{"osd":0,"in":1,"state":["exists","up"]},
            {"osd":4,"in":1,"state":["full","up"]}]}"#;
        let groups = br#"{"pg_ready":true,"pg_stats":[
            {"pgid":"3.1","state":"active+clean","acting":[4,2147483647]},
            {"pgid":"2.0","state":"active+clean","acting":[1,2,3]},
            {"pgid":"3.1f","state":"active+clean","acting":[1]}]}"#;
        let status = pool_status(map, groups, 3).unwrap();
        assert_eq!(status.serving(), [vec![], vec![ServerId(4)]]);
        assert_eq!((status.full(), status.nobody()), (vec![ServerId(4)], ServerId(5)));
        assert_eq!(status.copies, 2);
        assert!(status.is_replicated && !pool_status(map, groups, 2).unwrap().is_replicated);
        let gone = pool_status(map, groups, 9).unwrap_err().to_string();
        assert!(gone.contains("the pool is gone"), "{gone}");
    }

    #[test]
    fn a_group_is_served_if_it_is_active_and_whoever_said_so_still_runs() {
        let map = br#"{"epoch":7,"full_ratio":0.95,"pools":[
            {"pool":1,"type":1,"size":1,"pg_num":5}],
            "blocklist":{"10.0.0.7:0/31":"2026-11-20T13:54:07.215146+0000"},
            "osds":[{"osd":1,"in":0,"state":["exists"]},
            {"osd":0,"in":1,"state":["exists","up"]}]}"#;
        let groups = br#"{"pg_stats":[{"pgid":"1.0","state":"active+clean","acting":[0]},
            {"pgid":"1.1","state":"stale+active+clean","acting":[1]},
            {"pgid":"1.2","state":"undersized+degraded+peered","acting":[0]},
            {"pgid":"1.3","state":"activating","acting":[0]},
            {"pgid":"1.4","state":"active+undersized+wait","acting":[0]}]}"#;
        let status = pool_status(map, groups, 1).unwrap();
        assert_eq!(status.serving(), [vec![ServerId(0)], vec![], vec![], vec![], vec![]]);
        assert_eq!(status.groups[1].acting, [ServerId(1)], "who would serve it");
        assert_eq!(status.full, None);
        let down = OsdStatus { osd: ServerId(1), is_up: false, is_in: false, is_full: false };
        assert_eq!(status.osds[1], down);
        assert!(status.shut_out.contains_key("10.0.0.7:0/31"), "{:?}", status.shut_out);
    }

    #[test]
    fn a_manager_that_was_just_started_tells_nothing_new() {
        let map = |up: &str| {
            format!(
                r#"{{"epoch":7,"full_ratio":0.95,
                "pools":[{{"pool":1,"type":1,"size":1,"pg_num":3}}],
                "osds":[{{"osd":0,"in":1,"state":["exists","up"]}},
                {{"osd":1,"in":1,"state":["exists"{up}]}}]}}"#
            )
        };
        let before = br#"{"pg_stats":[{"pgid":"1.0","state":"active+clean","acting":[0]},
            {"pgid":"1.1","state":"active+clean","acting":[1]},
            {"pgid":"1.2","state":"peering","acting":[0]}]}"#;
        let before = pool_status(map(",\"up\"").as_bytes(), before, 1).unwrap();
        let young = br#"{"pg_stats":[{"pgid":"1.0","state":"unknown","acting":[]}]}"#;
        let mut after = pool_status(map("").as_bytes(), young, 1).unwrap();
        assert!(after.groups.iter().all(|group| !group.is_known && !group.is_served));
        after.keep_known(&before);
        assert_eq!(after.serving(), [vec![ServerId(0)], vec![], vec![]], "osd.1 has died");
        assert_eq!(after.groups[1].acting, [ServerId(1)]);
    }

    #[test]
    fn a_full_pool_says_why() {
        let full = |flags: &str| {
            let map = format!(
                r#"{{"epoch":7,"full_ratio":0.95,"pools":[{{"pool":1,"type":1,"size":1,"pg_num":1,
                "flags_names":"hashpspool,{flags}","quota_max_bytes":4096,"quota_max_objects":0}}],
                "osds":[]}}"#
            );
            pool_status(map.as_bytes(), br#"{"pg_stats":[]}"#, 1).unwrap().full
        };
        let quota = PoolFull::Quota { bytes_max: 4096, objects_max: 0 };
        assert_eq!((full("full,full_quota"), full("full")), (Some(quota), Some(PoolFull::Osd)));
        assert_eq!((full("nearfull"), full("selfmanaged_snaps")), (None, None));
    }

    #[test]
    fn what_osds_hold_is_told_in_kibibytes() {
        let answer = br#"{"nodes":[{"id":3,"kb":2048,"kb_used":100,"kb_used_data":60}]}"#;
        let expected = OsdUse {
            osd: ServerId(3),
            capacity_bytes: 2 << 20,
            used_bytes: 100 << 10,
            data_bytes: 60 << 10,
        };
        assert_eq!(osd_uses(answer).unwrap(), [expected]);
        assert!(osd_uses(b"[]").is_err());
    }
}
