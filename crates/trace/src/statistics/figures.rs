//! The result: plain figures, for whoever renders them.

use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::{Nanos, Span};

use super::footprint::Distinct;
use super::reuse::MissRatioCurve;
use super::sizes::Sizes;
use crate::SourceId;

/// What a trace is like.
#[derive(Clone, Debug)]
pub struct Summary {
    /// From the first arrival to the last: what every rate refers to, so that rates add up.
    pub duration: Span,
    /// Records that arrived before the one in front of them; they count as arrived with it.
    pub stepped_back: u64,
    /// All sources together.
    pub total: Figures,
    /// Each source, in the order of their ids.
    pub sources: Vec<SourceFigures>,
    /// The sources beyond the bound, together.
    pub others: Option<Figures>,
}

/// One source's figures.
#[derive(Clone, Debug)]
pub struct SourceFigures {
    /// Which.
    pub source: SourceId,
    /// Its figures.
    pub figures: Figures,
}

/// The figures of one source, or of several together. `None` where there is nothing to tell from.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Requests of every kind.
    pub requests: u64,
    /// By [`Kind::index`](evenkeel_core::ticket::Kind::index).
    pub kinds: [KindFigures; 6],
    /// Reads by reads and writes, 0 to 1.
    pub read_share: Option<f64>,
    /// Sizes of reads.
    pub read_sizes: Sizes,
    /// Sizes of writes.
    pub write_sizes: Sizes,
    /// The first arrival.
    pub first: Nanos,
    /// The last arrival.
    pub last: Nanos,
    /// Requests per second of the trace's whole duration.
    pub rate_per_second: Option<f64>,
    /// Bytes read and written per second of the trace's whole duration.
    pub bytes_per_second: Option<f64>,
    /// The most requests in one second, of those that follow each other from the first arrival.
    pub peak_per_second: u64,
    /// The mean time between arrivals.
    pub gap_mean_ns: Option<f64>,
    /// The coefficient of variation of the time between arrivals: 1 for Poisson arrivals.
    pub gap_variation: Option<f64>,
    /// Burstiness by length of window, shortest first.
    pub dispersion: Vec<Dispersion>,
    /// The part of reads and writes that begin where the same source's last one ended.
    pub sequential_share: Option<f64>,
    /// Accesses to blocks of 4 KiB by reads and writes.
    pub block_accesses: u64,
    /// From the first byte read or written to the last; of several sources, the sum.
    pub span_bytes: u64,
    /// Different blocks of 4 KiB that were read or written.
    pub footprint_blocks: Distinct,
    /// Different blocks of 4 KiB that were written.
    pub written_blocks: Distinct,
    /// The part of block writes that rewrite a block written before.
    pub overwrite_share: Option<f64>,
    /// Reuse of blocks.
    pub reuse: MissRatioCurve,
}

/// One kind of request.
#[derive(Clone, Debug, Default)]
pub struct KindFigures {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their response times, where recorded.
    pub responses: Histogram,
}

/// Burstiness at one length of window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dispersion {
    /// The length.
    pub window: Span,
    /// Whole windows of that length in the trace.
    pub windows: u64,
    /// The index of dispersion for counts: 1 for Poisson arrivals. `None` with fewer than two
    /// windows or without an arrival.
    pub index: Option<f64>,
}
