//! The paper's figures, from `reference.toml`.

use serde::Deserialize;

use crate::reproduce::data_file;

/// All of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    /// What one data server gave, in MB/s.
    pub(super) server_rate_mb: f64,
    pub(super) ratio: Vec<Ratio>,
    pub(super) unequal: Vec<Unequal>,
    pub(super) overhead: Vec<Overhead>,
    pub(super) proxy: Proxy,
}

/// Two equal applications at unequal shares.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ratio {
    /// Request size at each server.
    pub(super) size_kib: u32,
    /// Shares asked for, to one.
    pub(super) targets: Vec<f64>,
    /// Throughput ratios reached.
    pub(super) achieved: Vec<f64>,
}

/// Two unequal applications at equal shares.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unequal {
    /// Clients of each.
    pub(super) clients: [u32; 2],
    /// Throughput ratio reached.
    pub(super) achieved: f64,
}

/// What the proxy cost one application.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Overhead {
    pub(super) clients: u32,
    pub(super) servers: usize,
    /// Of throughput.
    pub(super) percent: f64,
}

/// What the proxy used.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Proxy {
    pub(super) cpu_percent: f64,
    pub(super) memory_mb: f64,
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
    fn every_target_has_its_figure() {
        let reference = Reference::load();
        assert!(reference.ratio.iter().all(|row| row.targets.len() == row.achieved.len()));
        assert_eq!(reference.unequal.len(), 4);
        assert_eq!(reference.overhead.len(), 3);
    }
}
