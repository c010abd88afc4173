//! What a load run found: counts, latencies and a time series for each group.

use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::Span;

/// The outcome of one plan.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// In the plan's order.
    pub groups: Vec<GroupReport>,
    /// The measured time: the runtime, or until the last group had made its requests.
    pub measured: Span,
    /// The part of it during which every group ran.
    pub common: Span,
    /// Width of one entry of each time series.
    pub interval: Span,
    /// Processor time that the load generator itself took, ramp and drain included.
    pub cpu: CpuTime,
    /// Requests answered in all, ramp and drain included: what `cpu` was spent on.
    pub requests_in_all: u64,
}

/// Processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In the program.
    pub user: Span,
    /// In the kernel.
    pub system: Span,
}

impl CpuTime {
    /// Both together.
    pub fn sum(self) -> Span {
        Span(self.user.0 + self.system.0)
    }
}

/// The outcome of one group.
#[derive(Clone, Debug, Default)]
pub struct GroupReport {
    /// Its name.
    pub name: String,
    /// Its measured time: until it had made its requests, or the whole.
    pub measured: Span,
    /// Requests that read.
    pub read: DirectionReport,
    /// Requests that wrote.
    pub write: DirectionReport,
    /// Flushes; their bytes are zero.
    pub flush: DirectionReport,
    /// Requests that affect a range without carrying its bytes (trim, zeroes, cache); their bytes
    /// are what they affect.
    pub other: DirectionReport,
    /// From the instant that a request was due to its sending; empty in the closed loop.
    pub lateness: Latency,
    /// Bytes delivered, read or written, while every group ran.
    pub common_bytes: u64,
    /// Bytes per second, each client counted from its first to its last answer. Where answers come
    /// in bunches, as behind a barrier, a count over the measured time is wrong by up to a bunch;
    /// this is not.
    pub steady_bytes_per_second: f64,
    /// Bytes and latencies over time, from the start of the measured time on.
    pub series: Vec<IntervalReport>,
    /// Requests that ended with an error.
    pub errors: u64,
    /// The first error, for people.
    pub first_error: Option<String>,
    /// What verification found, if it was asked for.
    pub verification: Option<Verification>,
    /// Requests that were due and had no answer when the run was given up.
    pub unanswered: u64,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct DirectionReport {
    /// Requests answered well in the measured time.
    pub requests: u64,
    /// Bytes delivered in the measured time, over all targets.
    pub bytes: u64,
    /// From the instant that the request was due to its last answer, of requests that were due in
    /// the measured time.
    pub latency: Latency,
    /// From the instant that the request was sent; empty in the closed loop, where a request is
    /// due when it is sent.
    pub service: Latency,
}

/// Durations with their exact minimum.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// Their distribution.
    pub histogram: Histogram,
    /// The shortest; zero if none.
    pub min: Span,
}

impl Latency {
    pub(super) fn record(&mut self, value: Span) {
        if self.histogram.count() == 0 || value < self.min {
            self.min = value;
        }
        self.histogram.record(value);
    }
}

/// One entry of a time series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalReport {
    /// Since the start of the measured time.
    pub start: Span,
    /// Its width; the last one may be shorter.
    pub length: Span,
    /// Requests of every kind that ended in it.
    pub requests: u64,
    /// Those of them that read.
    pub reads: u64,
    /// Those that wrote.
    pub writes: u64,
    /// Bytes read in it.
    pub read_bytes: u64,
    /// Bytes written in it.
    pub write_bytes: u64,
    /// Median latency of every kind; zero if nothing ended in it.
    pub latency_p50: Span,
    /// The latency that one request in a hundred exceeded.
    pub latency_p99: Span,
    /// The longest latency.
    pub latency_max: Span,
}

/// What verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Blocks compared with what was written.
    pub blocks_checked: u64,
    /// Blocks that differed.
    pub blocks_wrong: u64,
    /// The first difference, for people.
    pub first_wrong: Option<String>,
}

/// How a run is going, for a progress display.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Since the start, ramp included.
    pub elapsed: Span,
    /// Part of the work that is done, 0 to 1.
    pub done: f64,
    /// Requests answered so far in all groups.
    pub requests: u64,
    /// Bytes delivered so far in all groups.
    pub bytes: u64,
}
