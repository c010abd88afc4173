//! A volume in a pool of Ceph in the status document: how full the pool's OSDs are, and which are
//! missing.

use evenkeel_io::gate::{OsdReport, OsdStanding, PoolReport};
use serde::{Deserialize, Serialize};

/// An open volume in a pool of Ceph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// Its objects that were written.
    pub placed_objects: u64,
    /// Those of them that are not under their first name.
    pub diverted_objects: u64,
    /// The part of an OSD that new objects may fill, 0 to 1.
    pub ceiling: f64,
    /// The part in use of the pool's fullest OSD, with what was written since it reported.
    pub fullest: Option<f64>,
    /// Placement groups of the pool.
    pub groups: u64,
    /// Those of them that no OSD serves at present.
    pub unserved_groups: u64,
    /// Time since the manager last told how full OSDs are.
    pub age_seconds: f64,
    /// OSDs of the pool; `osds` lists them up to a bound.
    pub osds_all: u64,
    /// Each of them, in the order of numbers.
    pub osds: Vec<Osd>,
}

/// An OSD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Osd {
    /// Its number.
    pub osd: u32,
    /// Bytes that it can hold; 0 if it has not reported.
    pub capacity_bytes: u64,
    /// Bytes in use, by whatever is on it.
    pub used_bytes: u64,
    /// `up`, `down`, or `full` if it stops its pools.
    pub standing: String,
}

impl Osd {
    /// The part of it in use; 0 if it has not reported.
    pub fn used_part(&self) -> f64 {
        self.used_bytes as f64 / self.capacity_bytes.max(1) as f64
    }
}

impl From<&PoolReport> for Pool {
    fn from(report: &PoolReport) -> Self {
        Self {
            placed_objects: report.placed,
            diverted_objects: report.diverted,
            ceiling: report.ceiling,
            fullest: report.fullest,
            groups: report.groups as u64,
            unserved_groups: report.unserved as u64,
            age_seconds: report.age.as_secs_f64(),
            osds_all: report.osds_all as u64,
            osds: report.osds.iter().map(Osd::from).collect(),
        }
    }
}

impl From<&OsdReport> for Osd {
    fn from(report: &OsdReport) -> Self {
        let standing = match report.standing {
            OsdStanding::Up => "up",
            OsdStanding::Down => "down",
            OsdStanding::Full => "full",
        };
        Self {
            osd: report.osd,
            capacity_bytes: report.capacity_bytes,
            used_bytes: report.used_bytes,
            standing: standing.to_owned(),
        }
    }
}
