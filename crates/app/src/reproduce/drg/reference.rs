//! The papers' figures, from `reference.toml`.

use serde::Deserialize;

use crate::reproduce::data_file;

/// All of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    pub(super) capacity: Capacity,
    pub(super) level: Vec<LevelFigures>,
    pub(super) parda: Parda,
    pub(super) sioc: Machines,
}

/// What PARDA's authors measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parda {
    pub(super) equal: Equal,
    pub(super) ratio: Ratio,
    pub(super) machines: MeasuredMachines,
    pub(super) burst: Burst,
}

/// Hosts of equal shares, without control and with PARDA.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Equal {
    pub(super) threshold_ms: u64,
    pub(super) uncontrolled_iops: [u32; 4],
    pub(super) uncontrolled_ms: u32,
    pub(super) iops: [u32; 4],
    pub(super) latency_ms: u32,
}

/// Hosts of unlike shares, of which only a figure is printed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ratio {
    pub(super) threshold_ms: u64,
    pub(super) shares: [u32; 4],
}

/// The shares of virtual machines, by host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machines {
    pub(super) threshold_ms: u64,
    pub(super) shares: Vec<Vec<u32>>,
}

/// The same, and what they had, by kind in the order of the hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasuredMachines {
    pub(super) threshold_ms: u64,
    pub(super) shares: Vec<Vec<u32>>,
    pub(super) database_ops: Vec<u32>,
    pub(super) reads_iops: Vec<u32>,
}

/// A machine stops and comes back.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Burst {
    /// Which of [`MeasuredMachines::shares`].
    pub(super) machine: usize,
    pub(super) stops_s: u64,
    pub(super) resumes_s: u64,
    pub(super) settled_by_s: u64,
}

/// What the array takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Capacity {
    /// Requests at the device.
    pub(super) slots: u32,
    /// The mean latency with so many.
    pub(super) latency_ms: f64,
}

/// Violations at one service level, by workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LevelFigures {
    pub(super) name: String,
    pub(super) request_windows_percent: [f64; 4],
    pub(super) drg_violations: [u32; 4],
}

impl Reference {
    /// The figures of the data file.
    pub(super) fn load() -> Self {
        data_file(include_str!("reference.toml"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_levels_have_their_figures() {
        let names: Vec<String> =
            Reference::load().level.into_iter().map(|level| level.name).collect();
        assert_eq!(names, ["SLO_A", "SLO_B"]);
    }

    #[test]
    fn every_machine_of_the_table_has_a_share_and_a_figure() {
        let MeasuredMachines { shares, database_ops, reads_iops, .. } =
            Reference::load().parda.machines;
        let count: usize = shares.iter().map(Vec::len).sum();
        assert_eq!(count, database_ops.len() + reads_iops.len());
    }
}
