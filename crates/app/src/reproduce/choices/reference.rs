//! The paper's figures and the clusters, from `reference.toml`.

use evenkeel_core::place::cluster::{GroupMap, GroupOptions, Member};
use evenkeel_sim::fill::cluster;
use serde::Deserialize;

use crate::reproduce::data_file;

/// All of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    pub(super) moved_at_most: f64,
    pub(super) cluster: Vec<ClusterRow>,
    pub(super) writers: Vec<WritersRow>,
    pub(super) change: Vec<ChangeRow>,
    pub(super) ceph: Vec<CephRow>,
    pub(super) theory: Vec<TheoryRow>,
    pub(super) upmap: Vec<UpmapRow>,
    pub(super) serving: ServingFigures,
    pub(super) local: Vec<LocalRow>,
    pub(super) memory: Vec<MemoryRow>,
    pub(super) memory_live: MemoryLive,
    pub(super) harmless: Vec<HarmlessRow>,
    pub(super) probe: Vec<ProbeRow>,
}

/// The machines of a cluster at work, and its clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServingFigures {
    pub(super) machines: u32,
    pub(super) servers_each: u32,
    pub(super) link_bytes_per_s: u64,
    pub(super) hop_us: u64,
    pub(super) cores: u32,
    pub(super) work_us: u64,
    pub(super) seek_us: u64,
    pub(super) disk_bytes_per_s: u64,
    pub(super) log_us: u64,
    pub(super) journal_bytes_per_s: u64,
    pub(super) journal_bytes: u64,
    pub(super) memory_bytes: u64,
    pub(super) images: u32,
    pub(super) image_objects: u64,
    pub(super) harm_at_most: f64,
}

/// What a near primary is worth.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LocalRow {
    pub(super) what: String,
    pub(super) writes: bool,
    pub(super) copies: usize,
    pub(super) depth: u32,
    pub(super) paper: f64,
    pub(super) at_least: f64,
}

/// What a primary with free memory is worth beside a hog.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryRow {
    pub(super) what: String,
    pub(super) request_bytes: u64,
    pub(super) hog_bytes: u64,
    pub(super) depth: u32,
    pub(super) paper: f64,
    pub(super) at_least: f64,
}

/// The same with real servers on this machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryLive {
    pub(super) hosts: u32,
    pub(super) memory_bytes: u64,
    pub(super) hogged_bytes: u64,
    pub(super) disk: Vec<LiveDisk>,
    pub(super) image_bytes: u64,
    pub(super) object_bytes: u32,
    pub(super) request_bytes: u32,
    pub(super) depth: u32,
    pub(super) paper: f64,
}

/// What disks the real servers have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LiveDisk {
    pub(super) id: String,
    pub(super) what: String,
    /// How often they can be read in a second; as often as this machine's if none.
    pub(super) reads: Option<u32>,
    /// What must be gained, if that is demanded.
    pub(super) at_least: Option<f64>,
}

/// A policy that gains nothing on an even cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HarmlessRow {
    pub(super) policy: HarmlessPolicy,
    pub(super) paper: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HarmlessPolicy {
    Cpu,
    Latency,
    Journal,
}

/// What asking before the first access costs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProbeRow {
    pub(super) what: String,
    pub(super) sequential: bool,
    pub(super) request_bytes: u64,
    pub(super) depth: u32,
    pub(super) at_most: f64,
}

/// A cluster that is filled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClusterRow {
    pub(super) name: String,
    /// Its name in the figure.
    pub(super) label: String,
    pub(super) servers: u32,
    pub(super) per_domain: u32,
    /// Relative capacities, in turn.
    pub(super) sizes: Vec<u64>,
    pub(super) replicas: usize,
    pub(super) group_bits: u32,
    /// What two choices must reach.
    pub(super) at_least: f64,
    pub(super) paper: Option<Paper>,
}

/// What the paper reports of a cluster.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    pub(super) hashing: f64,
    pub(super) two_choices: f64,
}

/// Clients that do not know all.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WritersRow {
    pub(super) clients: u32,
    pub(super) report_every: f64,
    pub(super) at_least: f64,
}

/// A change of a cluster of equal servers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeRow {
    pub(super) name: String,
    pub(super) servers: u32,
    pub(super) come: u32,
    pub(super) go: u32,
}

/// A pool of a real Ceph that is filled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CephRow {
    pub(super) name: String,
    /// Placement groups.
    pub(super) groups: u32,
    /// Copies of each object.
    pub(super) copies: u32,
    /// What two choices must reach.
    pub(super) at_least: f64,
    /// What the average OSD must have of the fullest, of what was written.
    pub(super) evenness_at_least: f64,
    /// What the paper reports.
    pub(super) paper_crush: Option<f64>,
    pub(super) paper_choices: Option<f64>,
}

/// Servers whose fullest one is held against the theory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TheoryRow {
    /// A power of two.
    pub(super) servers: u32,
    /// Objects on the average server.
    pub(super) objects_each: Vec<u64>,
    /// What stands for the constant of the bound with several choices.
    pub(super) constant: f64,
}

/// A cluster that Ceph's balancer evens out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UpmapRow {
    /// A power of two, those that join included.
    pub(super) servers: u32,
    pub(super) join: u32,
    pub(super) leave: u32,
}

impl Reference {
    /// The figures of the data file.
    pub(super) fn load() -> Self {
        data_file(include_str!("reference.toml"))
    }
}

impl ClusterRow {
    /// Its servers, which hold so many objects on average, and its groups.
    pub(super) fn build(&self, objects_each: u64, seed: u64) -> (Vec<Member>, GroupMap) {
        let mean = self.sizes.iter().sum::<u64>() as f64 / self.sizes.len() as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let objects = |&size: &u64| (size as f64 / mean * objects_each as f64) as u64;
        let capacities: Vec<u64> = self.sizes.iter().map(objects).collect();
        let members = cluster::mixed(self.servers, self.per_domain, &capacities);
        let options = GroupOptions { group_bits: self.group_bits, replicas: self.replicas, seed };
        let map = GroupMap::new(&members, options).expect("the data file is part of the build");
        (members, map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cluster_can_be_built() {
        for row in Reference::load().cluster {
            let (members, map) = row.build(1_000, 1);
            assert!(members.len() == map.server_rows(), "{row:?}");
        }
    }
}
