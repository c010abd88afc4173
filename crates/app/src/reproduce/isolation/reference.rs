//! The published figures, from `reference.toml`.

use serde::Deserialize;

use crate::reproduce::data_file;

/// All of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    /// What the device gives, in MB/s.
    pub(super) device_rate_mb: u32,
    pub(super) row: Vec<Row>,
}

/// One number of sessions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    /// Of the aggressor.
    pub(super) sessions: u32,
    /// Percent that the victim gets by Ceph's weighted priority queue; none if nobody measured it.
    pub(super) wpq: Option<f64>,
    /// By Ceph's mClock.
    pub(super) mclock: Option<f64>,
}

impl Reference {
    /// The figures of the data file.
    pub(super) fn load() -> Self {
        data_file(include_str!("reference.toml"))
    }
}

impl Row {
    /// The figures, for people.
    pub(super) fn describe(&self) -> String {
        let (Some(wpq), Some(mclock)) = (self.wpq, self.mclock) else { return String::new() };
        format!("{wpq:.1} % (wpq), {mclock:.1} % (mclock)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_has_what_was_published_and_one_row_more() {
        let reference = Reference::load();
        let sessions: Vec<_> = reference.row.iter().map(|row| row.sessions).collect();
        assert_eq!(sessions, [1, 4, 16, 64]);
        assert_eq!(reference.row[1].describe(), "20.0 % (wpq), 20.1 % (mclock)");
        assert_eq!(reference.row[3].describe(), "");
    }
}
