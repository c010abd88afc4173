//! What monitors and managers tell of OSDs and pools, from their JSON.
//!
//! Where objects go is not told by any call of the library; it follows from the acting sets of the
//! placement groups and [`evenkeel_core::place::rados`].

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
    /// The OSDs that act for each placement group, in order; empty where nobody does.
    pub acting: Vec<Vec<ServerId>>,
    /// Part of its capacity at which an OSD counts as full, and stops every pool that it is of.
    pub full_part: f64,
    /// OSDs that count as full.
    pub full: Vec<ServerId>,
    /// One more than the greatest number of an OSD.
    pub osds: u32,
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
    let mut acting = vec![Vec::new(); pool.pg_num as usize];
    let osds = map.osds.iter().map(|row| row.osd + 1).max().unwrap_or(0);
    for row in groups.pg_stats {
        let place = row.pgid.split_once('.').and_then(|(of_pool, group)| {
            (of_pool.parse() == Ok(number)).then(|| usize::from_str_radix(group, 16).ok())?
        });
        // Beside a split the two answers may be of different states.
        if let Some(set) = place.and_then(|group| acting.get_mut(group)) {
            // Places of an erasure code that nobody fills are numbers beyond all OSDs.
            *set = row.acting.into_iter().filter(|osd| *osd < osds).map(ServerId).collect();
        }
    }
    let is_full = |row: &&StateRow| row.state.iter().any(|word| word == "full");
    Ok(PoolStatus {
        epoch: map.epoch,
        is_replicated: pool.kind == REPLICATED,
        copies: pool.size,
        acting,
        full_part: map.full_ratio,
        full: map.osds.iter().filter(is_full).map(|row| ServerId(row.osd)).collect(),
        osds,
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
}

#[derive(Deserialize)]
struct PoolRow {
    pool: i64,
    #[serde(rename = "type")]
    kind: u32,
    size: u32,
    pg_num: u32,
}

#[derive(Deserialize)]
struct StateRow {
    osd: u32,
    #[serde(default)]
    state: Vec<String>,
}

#[derive(Deserialize)]
struct GroupDump {
    pg_stats: Vec<GroupRow>,
}

#[derive(Deserialize)]
struct GroupRow {
    pgid: String,
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
            "osds":[{"osd":0,"state":["exists","up"]},{"osd":4,"state":["full","up"]}]}"#;
        let groups = br#"{"pg_ready":true,"pg_stats":[
            {"pgid":"3.1","acting":[4,2147483647]},{"pgid":"2.0","acting":[1,2,3]},
            {"pgid":"3.1f","acting":[1]}]}"#;
        let status = pool_status(map, groups, 3).unwrap();
        assert_eq!(status.acting, [vec![], vec![ServerId(4)]]);
        assert_eq!((status.full, status.osds, status.copies), (vec![ServerId(4)], 5, 2));
        assert!(status.is_replicated && !pool_status(map, groups, 2).unwrap().is_replicated);
        let gone = pool_status(map, groups, 9).unwrap_err().to_string();
        assert!(gone.contains("the pool is gone"), "{gone}");
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
