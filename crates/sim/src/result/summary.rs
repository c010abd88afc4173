//! The summary of a run: what each tenant, workload and backend got, and how long it took.

use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::Span;
use evenkeel_engine::report::DomainReport;

/// What a run found. Everything but `log_hash`, `events` and `requests_in_all` is of the measured
/// time only: rates, shares and what backends did go by what happened in it; counts and latencies
/// go by the requests that arrived in it, each until its answer.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The tenants that sent anything, in the order of the policy.
    pub tenants: Vec<TenantSummary>,
    /// Workloads, then replays, in the order of the scenario.
    pub groups: Vec<GroupSummary>,
    /// The backends with a device, in the order of the policy.
    pub backends: Vec<BackendSummary>,
    /// The gate's own accounts at the end, by scheduling domain, warm-up included; of the last
    /// start if it was restarted.
    pub domains: Vec<DomainReport>,
    /// The measured time.
    pub measured: Span,
    /// Width of one entry of each time series.
    pub interval: Span,
    /// Virtual time until the last request had its answer.
    pub ended: Span,
    /// From the end of the measured time to the last answer to a request that arrived in it: how
    /// long the backlog takes to drain when nothing is added to it.
    pub drain: Span,
    /// A hash over every event; equal for equal runs.
    pub log_hash: u64,
    /// Events in all.
    pub events: u64,
    /// Requests answered in all, warm-up and drain included.
    pub requests_in_all: u64,
    /// The worst lag between two tenants on a server where both kept a backlog; none where no
    /// server has a discipline that bounds it.
    pub fairness: Option<FairnessLag>,
}

/// What one tenant got.
#[derive(Clone, Debug, Default)]
pub struct TenantSummary {
    /// Its name.
    pub name: String,
    /// Its weight, in thousandths.
    pub weight_milli: u32,
    /// Requests and latencies.
    pub traffic: Traffic,
    /// Its part of all bytes delivered, 0 to 1.
    pub share_bytes: f64,
    /// Its part of all service delivered, in device time by the policy's cost model, 0 to 1.
    pub share_cost: f64,
    /// Service delivered, in device time by the policy's cost model.
    pub delivered_cost: Span,
    /// From arrival at the gate to the first unit's dispatch, per request.
    pub queue_time: Latency,
    /// From the dispatch of a unit to its answer, link included, per unit.
    pub device_time: Latency,
}

impl TenantSummary {
    /// Whether any of its requests came to an end.
    pub(crate) fn sent_anything(&self) -> bool {
        self.traffic.requests + self.traffic.errors + self.queue_time.histogram.count() > 0
    }
}

/// What one workload or replay got.
#[derive(Clone, Debug, Default)]
pub struct GroupSummary {
    /// Its name.
    pub name: String,
    /// Requests and latencies.
    pub traffic: Traffic,
    /// Bytes per second, each client counted from its first to its last answer, as the live load
    /// generator does: a count over the measured time is wrong by a bunch where answers come in
    /// bunches, as behind a barrier.
    pub steady_bytes_per_second: f64,
}

/// Requests of one tenant or group. Counts and latencies are of the requests that arrived in the
/// measured time, whenever they were answered; rates are of what was answered in it.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Requests that arrived in the measured time and were answered well.
    pub requests: u64,
    /// Those of them that read.
    pub reads: u64,
    /// Those that wrote.
    pub writes: u64,
    /// Their bytes, over all targets.
    pub bytes: u64,
    /// Requests that arrived in the measured time and ended with an error.
    pub errors: u64,
    /// Bytes delivered within the measured time, whenever their requests arrived.
    pub delivered_bytes: u64,
    /// Requests answered well within the measured time, per second of it.
    pub iops: f64,
    /// Bytes delivered within the measured time, per second of it, in units of 2^20.
    pub mib_per_second: f64,
    /// From the instant that a request was due to its last answer.
    pub latency: Latency,
    /// The same for requests that read.
    pub read_latency: Latency,
    /// The same for requests that wrote.
    pub write_latency: Latency,
    /// From the end of the measured time to the last answer to one of these requests.
    pub drain: Span,
    /// What ended when, from the start of the measured time to its end.
    pub series: Vec<IntervalSummary>,
    /// The same from there to the last answer of all; entries grow longer as the drain does.
    pub drain_series: Vec<IntervalSummary>,
}

/// Durations.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// The exact mean.
    pub mean: Span,
    /// Median, at most 3.1 % above the true one, as are all quantiles here.
    pub p50: Span,
    /// What one in twenty exceeded.
    pub p95: Span,
    /// What one in a hundred exceeded.
    pub p99: Span,
    /// What one in a thousand exceeded.
    pub p999: Span,
    /// The longest, exactly.
    pub max: Span,
    /// The whole distribution.
    pub histogram: Histogram,
}

/// One entry of a time series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalSummary {
    /// Since the start of the measured time.
    pub start: Span,
    /// Its width; the last one may be shorter.
    pub length: Span,
    /// Requests that ended well in it.
    pub requests: u64,
    /// Those of them that read.
    pub reads: u64,
    /// Those that wrote.
    pub writes: u64,
    /// Bytes read in it.
    pub read_bytes: u64,
    /// Bytes written in it.
    pub write_bytes: u64,
    /// Requests that ended with an error in it.
    pub errors: u64,
    /// How long the gate held back requests of the tenant, one at least at a time; zero in the
    /// series of a group.
    pub waiting: Span,
    /// Mean latency; zero if nothing ended in it.
    pub latency_mean: Span,
    /// Median latency.
    pub latency_p50: Span,
    /// The latency that one request in a hundred exceeded.
    pub latency_p99: Span,
    /// The longest latency.
    pub latency_max: Span,
}

/// What one backend did.
#[derive(Clone, Debug, Default)]
pub struct BackendSummary {
    /// Its name.
    pub name: String,
    /// Units that it answered.
    pub units: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Units that it answered with an error.
    pub failed_units: u64,
    /// Writes and flushes that it acknowledged without performing them.
    pub lies: u64,
    /// Bytes of those.
    pub lied_bytes: u64,
    /// Part of the measured time in which anything was with it, 0 to 1.
    pub busy: f64,
    /// Mean number of units with it.
    pub in_service_mean: f64,
    /// The most units that were with it at once.
    pub in_service_max: u32,
    /// The depth in force at the end, in requests or bytes as the policy says; zero for none.
    pub depth_at_end: u64,
    /// Over time, from the start of the measured time on.
    pub series: Vec<BackendInterval>,
}

/// What one backend did in one entry of a time series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BackendInterval {
    /// Units that it answered.
    pub units: u64,
    /// Part of the interval in which anything was with it, 0 to 1.
    pub busy: f64,
}

/// How far two tenants' services came apart while both kept a backlog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FairnessLag {
    /// The server.
    pub backend: String,
    /// The two tenants.
    pub tenants: [String; 2],
    /// Device time per unit of weight, the worst so far.
    pub lag: Span,
    /// What the discipline allows them.
    pub bound: Span,
}

/// How a run is going, for a progress display.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Virtual time so far, warm-up included.
    pub elapsed: Span,
    /// Part of the run that is done, 0 to 1.
    pub done: f64,
    /// Requests answered so far.
    pub requests: u64,
    /// Events so far.
    pub events: u64,
}
