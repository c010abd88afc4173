//! A recorded trace as the load: each request of the trace goes to an export when its time comes.
//!
//! ```text
//! trace --next()--> feed thread: Mapper ----batches----> one client for each export
//!                   (fits offsets, leaves out)             open loop: at its recorded instant
//!                                                          closed loop: when a place is free
//! ```
//!
//! In the open loop every request has an absolute deadline, `start + recorded instant / speed`;
//! a request that starts late does not move those behind it, so that the replay never drifts.
//! Latency counts from the deadline; how late requests started is reported apart, so that one can
//! tell a slow server from a replay that could not keep up.
//!
//! In the closed loop a client keeps so many requests under way. Between an answer and the next
//! request it can wait as long as the recorded client did (its think time).

mod feed;
mod log;
mod map;
mod session;

use evenkeel_core::time::Span;
use evenkeel_trace::Record;
use evenkeel_trace::transform::ratio::Ratio;
use evenkeel_wire::nbd::uri::NbdUri;

use super::DEPTH_MAX;
use super::LoadError;
use super::report::LoadReport;

pub(super) use feed::{Due, Feed};
pub use log::LogEntry;
pub(super) use log::{Logged, RequestLog};
pub use session::{Next, replay};

/// Exports that one replay may use.
pub const TARGETS_MAX: usize = 256;

/// Where a trace goes, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayPlan {
    /// The exports; a request names one by its index.
    pub targets: Vec<ReplayTarget>,
    /// When requests start.
    pub pace: ReplayPace,
    /// Where requests go that an export has no room for.
    pub fit: Fit,
    /// What becomes of requests that change data.
    pub writes: Writes,
    /// Width of one entry of the time series; at least 10 ms.
    pub interval: Span,
    /// Determines the payload of writes.
    pub seed: u64,
}

/// One export of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayTarget {
    /// Its name in the report.
    pub name: String,
    /// Where it is.
    pub uri: NbdUri,
}

/// When requests start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplayPace {
    /// When the trace says, counted from its first request.
    Recorded {
        /// Recorded time that passes in one second, in seconds.
        speed: Ratio,
        /// Requests that one export may have under way; more of them start late.
        depth: u32,
    },
    /// As soon as one of so many places is free.
    Closed {
        /// Requests that each export has under way.
        depth: u32,
        /// Whether clients think between an answer and the next request.
        think: Think,
    },
}

/// What becomes of the think times of a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// A request waits after the last answer as long as the recorded client did: from the end of
    /// the request that ended last to its own arrival, or from the last arrival where the trace
    /// has no response times.
    Kept,
    /// A request starts at once.
    Dropped,
}

/// Where requests go that an export has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Nowhere: they are left out.
    Exact,
    /// To their offset modulo the size of the export.
    Wrap,
    /// Every request, to its offset times the export's size over `extent_bytes`.
    Scale {
        /// What the trace's offsets stay below; above 0.
        extent_bytes: u64,
    },
}

/// What becomes of requests that change data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// They are left out.
    LeaveOut,
    /// They read instead.
    Read,
    /// They are carried out, with random bytes for their payload.
    Write,
}

/// A request of a trace, and the index of the export that it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Into [`ReplayPlan::targets`].
    pub target: usize,
    /// What to do.
    pub record: Record,
}

/// The outcome of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// One group for each export.
    pub load: LoadReport,
    /// Requests that were not replayed.
    pub left_out: LeftOut,
    /// Entries of the log that were dropped because whoever writes it could not keep up.
    pub log_dropped: u64,
}

/// Requests that were not replayed, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// They change data, and that was not allowed.
    pub writes: u64,
    /// The export does not offer what they ask.
    pub unsupported: u64,
    /// They lie outside of the export.
    pub outside: u64,
    /// They are longer than the export takes.
    pub too_long: u64,
    /// They ask for no bytes.
    pub empty: u64,
}

impl LeftOut {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.writes + self.unsupported + self.outside + self.too_long + self.empty
    }
}

impl ReplayPace {
    pub(super) fn depth(self) -> u32 {
        match self {
            Self::Recorded { depth, .. } | Self::Closed { depth, .. } => depth,
        }
    }

    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Recorded { .. })
    }
}

impl ReplayPlan {
    /// Checks what can be checked before connecting.
    fn check(&self) -> Result<(), LoadError> {
        let faults = [
            (self.targets.is_empty(), "there is no address to send to"),
            (self.targets.len() > TARGETS_MAX, "more than 256 exports"),
            (!(1..=DEPTH_MAX).contains(&self.pace.depth()), "the depth is not within 1 to 4096"),
            (self.fit == Fit::Scale { extent_bytes: 0 }, "the extent of the trace is zero"),
            (
                self.interval < Span::from_millis(10),
                "the interval of the time series is below 10 ms",
            ),
            (
                self.targets.iter().any(|target| target.uri.tls),
                "TLS is not offered here; use nbd://",
            ),
        ];
        match faults.iter().find(|(is_fault, _)| *is_fault) {
            Some((_, what)) => {
                Err(LoadError::Plan { group: String::new(), what: (*what).to_owned() })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_that_cannot_run_is_refused_with_the_reason() {
        let uri: NbdUri = "nbd://127.0.0.1:1".parse().unwrap();
        let good = ReplayPlan {
            targets: vec![ReplayTarget { name: "disk".to_owned(), uri }],
            pace: ReplayPace::Recorded { speed: Ratio::ONE, depth: 1 },
            fit: Fit::Wrap,
            writes: Writes::LeaveOut,
            interval: Span::from_secs(1),
            seed: 1,
        };
        let refusal = |change: fn(&mut ReplayPlan)| {
            let mut plan = good.clone();
            change(&mut plan);
            plan.check().err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refusal(|_| ()), "");
        assert!(refusal(|plan| plan.targets.clear()).contains("address"));
        assert!(refusal(|plan| plan.fit = Fit::Scale { extent_bytes: 0 }).contains("extent"));
        let shallow = |plan: &mut ReplayPlan| {
            plan.pace = ReplayPace::Closed { depth: 0, think: Think::Kept };
        };
        assert!(refusal(shallow).contains("depth"));
    }
}
