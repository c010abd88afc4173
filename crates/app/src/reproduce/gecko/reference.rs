//! The paper's figures and the settings, from `reference.toml`.

use serde::Deserialize;

use crate::reproduce::data_file;

/// All of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    pub(super) cleaning: Cleaning,
    pub(super) amplification: Amplification,
    pub(super) readers: Contention,
    pub(super) length: Length,
    pub(super) mirrors: Mirrors,
    pub(super) traces: Traces,
    pub(super) caches: Caches,
}

/// Writing under cleaning.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cleaning {
    /// The chain's throughput in all, as a multiple of the striped log's.
    pub(super) aggregate_times: f64,
    /// The same of clients alone.
    pub(super) application_times: f64,
    /// By how much the striped log falls when cleaning begins.
    pub(super) drop_times: f64,
    /// What compacting in the body leaves to clients, of one drive.
    pub(super) kept: f64,
    /// In the large regime the chain's advantage is at most this.
    pub(super) gone_times: f64,
    pub(super) row: Vec<CleaningRow>,
}

/// How much is under way.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CleaningRow {
    pub(super) window_kib: u64,
    pub(super) quantum_kib: u64,
    pub(super) regime: Regime,
}

/// What is demanded of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Regime {
    Small,
    Between,
    Large,
}

/// What drives get under cleaning.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Amplification {
    /// How many drives there are.
    pub(super) drives: Vec<usize>,
    /// Bytes are at most so many times what theory says of FIFO.
    pub(super) fifo_times: f64,
    /// Of which checkpoints are at most so many percent, in stores that are at most so full.
    pub(super) checkpoint_percent: f64,
    pub(super) checkpoint_full_percent: u64,
}

/// Writing beside readers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contention {
    pub(super) drives: u32,
    pub(super) readers: Vec<u32>,
    pub(super) read_kib: u32,
    pub(super) window_kib: u64,
    pub(super) kept: f64,
    pub(super) ahead_from: u32,
}

/// Chains of several lengths.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Length {
    pub(super) drives: u32,
    pub(super) readers: u32,
    pub(super) read_kib: u32,
    pub(super) window_kib: u64,
    pub(super) body_hits_milli: u32,
    pub(super) tail_hits_milli: u32,
    pub(super) lengths: Vec<u32>,
}

/// Mirrored layouts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mirrors {
    pub(super) body_hits_milli: u32,
}

/// Eight traces beside each other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Traces {
    pub(super) drives: u32,
    pub(super) drive_gb: u64,
    pub(super) filled_gb: u64,
    pub(super) memory_gb: u64,
    pub(super) flash_gb: u64,
    pub(super) under_way: Vec<u32>,
    pub(super) generated: Vec<String>,
    pub(super) recordings: Vec<String>,
    pub(super) at_least: f64,
    pub(super) paper_times: [f64; 2],
}

/// The tail's cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Caches {
    pub(super) memory_gb: u64,
    pub(super) flash_gb: u64,
    pub(super) step_gb: u64,
    pub(super) steps: u32,
    pub(super) mixes: usize,
    pub(super) tail_hits: f64,
    pub(super) full_hits: f64,
    pub(super) lifetime_times: [f64; 2],
    pub(super) recordings: Vec<String>,
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
    fn every_regime_has_a_row() {
        let rows = Reference::load().cleaning.row;
        for regime in [Regime::Small, Regime::Between, Regime::Large] {
            assert!(rows.iter().any(|row| row.regime == regime), "{regime:?}");
        }
    }
}
