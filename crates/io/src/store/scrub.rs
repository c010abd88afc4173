//! Scrubbing a store that a gate has open, while clients use it.

use evenkeel_store::{FlawKind, ScrubReport, ScrubStep, VolumeId};

use super::VolumeError;

/// Lost blocks that are named at most.
const NAMED_MAX: usize = 100;

/// What is to become of the scrub of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubOrder {
    /// Read everything that is sealed, from the beginning.
    Start,
    /// End the one under way.
    Stop,
}

/// Why it cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrubError {
    /// There is no such store, or it is not open.
    #[error(transparent)]
    Store(#[from] VolumeError),
    /// There is one already.
    #[error("the store is being scrubbed; wait, or end it with `evenkeel ctl scrub stop`")]
    Twice,
    /// There is none.
    #[error("the store is not being scrubbed; `evenkeel ctl scrub start` begins")]
    None,
}

/// The last scrub of a store since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubStatus {
    /// Counted from one since the store was opened.
    pub number: u64,
    /// How far it is.
    pub progress: Progress,
    /// What it found so far.
    pub report: ScrubReport,
    /// Volume and block of what is lost on all copies; the first hundred.
    pub lost: Vec<(VolumeId, u64)>,
}

/// How far a scrub is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Under way.
    Running,
    /// Ended before all was read: somebody wanted it so, or the store stopped.
    Stopped,
    /// All was read.
    Complete,
}

impl ScrubStatus {
    /// One that begins.
    pub(crate) fn new(number: u64, report: ScrubReport) -> Self {
        Self { number, progress: Progress::Running, report, lost: Vec::new() }
    }

    /// Takes in a step.
    pub(crate) fn note(&mut self, step: &ScrubStep, report: &ScrubReport) {
        let lost = step.flaws.iter().filter_map(|flaw| match flaw.kind {
            FlawKind::Lost { volume, block } => Some((volume, block)),
            FlawKind::Header | FlawKind::Data { .. } => None,
        });
        self.lost.extend(lost);
        self.lost.truncate(NAMED_MAX);
        self.report = report.clone();
    }
}
