//! The drive models beside real drives and beside DiskSim, row by row.
//!
//! The reference figures stand in `reference.toml`, with their sources; what is ours is computed
//! here and nowhere else.

use serde::Deserialize;

use super::Hdd;
use super::depth::ClosedLoop;
use super::parameters::Parameters;
use super::queue::Policy;
use super::recording::Measured;
use super::validate::Validation;
use crate::device::array::{Array, Layout};

/// A figure of ours beside one that it is held against.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is compared, with its unit.
    pub name: String,
    /// The figure held against.
    pub reference: f64,
    /// Ours.
    pub ours: f64,
    /// How far they may be apart.
    pub tolerance: Tolerance,
    /// What else is to be known of it.
    pub note: Option<String>,
}

/// How far a figure may be from its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// At most this much, whatever the reference.
    AtMost(f64),
    /// Within this part of the reference, to either side.
    Within(f64),
}

impl Row {
    /// Whether ours is close enough.
    pub fn holds(&self) -> bool {
        match self.tolerance {
            Tolerance::AtMost(most) => self.ours <= most,
            Tolerance::Within(part) => self.deviation().abs() <= part,
        }
    }

    /// By which part of the reference ours lies above it.
    pub fn deviation(&self) -> f64 {
        self.ours / self.reference - 1.0
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reference {
    recording: Vec<Recording>,
    known: Vec<Known>,
    depth: Depth,
}

/// A recording of a real drive.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The name of the built-in drive.
    pub drive: String,
    /// The name of the recording, without an ending.
    pub file: String,
    /// DiskSim's demerit on it.
    pub disksim_us: u32,
    /// What the model's demerit may be.
    pub at_most_us: u32,
}

/// A recording of a drive that is not built in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    file: String,
    disksim_us: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Depth {
    drive: String,
    drives: u32,
    stripe_unit_bytes: u64,
    align_bytes: u64,
    clients: Vec<u32>,
    row: Vec<DepthRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DepthRow {
    policy: Policy,
    request_bytes: u64,
    read_percent: u64,
    iops: Vec<u32>,
    latency_ms: Vec<u32>,
    /// Requests of a run, where not every number would do.
    requests: Option<u64>,
    /// Runs of which the mean is taken; one unless told.
    runs: Option<u64>,
    note: Option<String>,
}

fn reference() -> Reference {
    toml::from_str(include_str!("reference.toml")).expect("the file is part of this module")
}

/// The recordings of real drives that models are held against.
pub fn recordings() -> Vec<Recording> {
    reference().recording
}

/// DiskSim's demerit, in microseconds, on a recording that comes with it; `file` is its name
/// without an ending.
pub fn disksim_us(file: &str) -> Option<u32> {
    let Reference { recording, known, .. } = reference();
    let held = recording.into_iter().map(|recording| (recording.file, recording.disksim_us));
    let others = known.into_iter().map(|known| (known.file, known.disksim_us));
    held.chain(others).find(|(name, _)| name == file).map(|(_, us)| us)
}

/// A drive's demerit on its recording, beside DiskSim's.
pub fn demerit(recording: &Recording, requests: &[Measured]) -> Row {
    let parameters = Parameters::built_in(&recording.drive).expect("the reference names it");
    Row {
        name: format!("{}: demerit, us", recording.drive),
        reference: f64::from(recording.disksim_us),
        ours: Validation::of(&parameters, requests).demerit().0 as f64 / 1e3,
        tolerance: Tolerance::AtMost(f64::from(recording.at_most_us)),
        note: None,
    }
}

/// Requests per second and mean latency of the array of eight drives, by policy and depth, beside
/// DiskSim's: two rows per cell of its table. Each cell completes `requests`, unless the reference
/// says otherwise.
pub fn depth_table(requests: u64, seed: u64) -> Vec<Row> {
    let depth = reference().depth;
    let cells = depth.row.iter().flat_map(|row| (0..depth.clients.len()).map(move |at| (row, at)));
    cells.flat_map(|(row, at)| depth.cell(row, at, requests, seed)).collect()
}

impl Depth {
    fn cell(&self, row: &DepthRow, at: usize, requests: u64, seed: u64) -> [Row; 2] {
        let clients = self.clients[at];
        let runs = row.runs.unwrap_or(1);
        let requests = row.requests.unwrap_or(requests);
        let (mut per_second, mut latency_ms) = (0.0, 0.0);
        for run in 0..runs {
            let throughput = ClosedLoop {
                clients,
                request_bytes: row.request_bytes,
                read_percent: row.read_percent,
                align_bytes: self.align_bytes,
                requests,
                seed: seed + run,
            }
            .run(&mut self.array(row.policy));
            per_second += throughput.per_second() / runs as f64;
            latency_ms += throughput.latency.as_secs_f64() * 1e3 / runs as f64;
        }
        let compared = |what: &str, reference: u32, ours| Row {
            name: format!(
                "{} KiB, {} % reads, {}, {clients} clients: {what}",
                row.request_bytes >> 10,
                row.read_percent,
                row.policy.name(),
            ),
            reference: f64::from(reference),
            ours,
            tolerance: Tolerance::Within(0.05),
            note: row.note.clone(),
        };
        [
            compared("requests/s", row.iops[at], per_second),
            compared("latency, ms", row.latency_ms[at], latency_ms),
        ]
    }

    fn array(&self, policy: Policy) -> Array<Hdd> {
        let parameters = Parameters::built_in(&self.drive).expect("the reference names it");
        let drives = (0..self.drives).map(|_| Hdd::new(&parameters, policy)).collect();
        let layout = Layout::Striped { unit_bytes: self.stripe_unit_bytes };
        Array::new(layout, drives).expect("the reference has drives and a stripe unit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_whole() {
        let reference = reference();
        let cells = reference.depth.clients.len();
        assert_eq!(reference.recording.len(), super::super::BUILT_IN.len());
        for row in &reference.depth.row {
            assert_eq!((row.iops.len(), row.latency_ms.len()), (cells, cells));
        }
    }

    #[test]
    fn the_demerits_of_disksim_are_known_for_drives_built_in_or_not() {
        let known = ["cheetah9LP", "ibm18es", "atlas_III", "mine"].map(disksim_us);
        assert_eq!(known, [Some(107), Some(135), Some(378), None]);
    }

    #[test]
    fn a_row_holds_within_its_tolerance() {
        let row = |ours, tolerance| Row {
            name: String::new(),
            reference: 100.0,
            ours,
            tolerance,
            note: None,
        };
        assert!(row(105.0, Tolerance::Within(0.051)).holds());
        assert!(!row(94.0, Tolerance::Within(0.05)).holds());
        assert!(row(149.0, Tolerance::AtMost(150.0)).holds());
        assert!(!row(151.0, Tolerance::AtMost(150.0)).holds());
    }
}
