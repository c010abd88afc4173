//! The paper's figures, from `reference.toml`.

use serde::Deserialize;

use crate::reproduce::data_file;

/// All of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    pub(super) capacity: Capacity,
    pub(super) level: Vec<LevelFigures>,
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
}
