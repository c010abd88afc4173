//! What is counted of one source, or of all.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::arrivals::{Arrivals, WINDOWS};
use super::figures::{Dispersion, Figures, KindFigures};
use super::footprint::Distinct;
use super::reuse::Reuse;
use super::sizes::Sizes;
use crate::Record;

/// One source's counters.
#[derive(Clone, Debug)]
pub(super) struct Row {
    first: Nanos,
    last: Nanos,
    kinds: [KindFigures; 6],
    read_sizes: Sizes,
    write_sizes: Sizes,
    arrivals: Arrivals,
    sequential: u64,
    /// The lowest and the highest byte read or written, as a range.
    span: Option<(u64, u64)>,
    block_accesses: u64,
    block_writes: u64,
    reuse: Reuse,
}

impl Row {
    pub(super) fn new(first: Nanos, reuse_samples: usize) -> Self {
        Self {
            first,
            last: first,
            kinds: Default::default(),
            read_sizes: Sizes::default(),
            write_sizes: Sizes::default(),
            arrivals: Arrivals::new(),
            sequential: 0,
            span: None,
            block_accesses: 0,
            block_writes: 0,
            reuse: Reuse::new(reuse_samples),
        }
    }

    /// Counts a request that arrived so long after the trace's first.
    pub(super) fn add(&mut self, record: &Record, since_origin: Span, is_sequential: bool) {
        self.last = record.at;
        self.arrivals.add(record.at, since_origin);
        let kind = &mut self.kinds[record.kind.index()];
        kind.requests += 1;
        kind.bytes = kind.bytes.saturating_add(record.length);
        if let Some(response) = record.response {
            kind.responses.record(response);
        }
        match record.kind {
            Kind::Read => self.read_sizes.add(record.length),
            Kind::Write => self.write_sizes.add(record.length),
            _ => {}
        }
        self.sequential += u64::from(is_sequential);
        if matches!(record.kind, Kind::Read | Kind::Write) {
            let end = record.offset.saturating_add(record.length);
            let (lowest, highest) = self.span.unwrap_or((record.offset, end));
            self.span = Some((lowest.min(record.offset), highest.max(end)));
        }
    }

    /// Counts an access to a block, named uniquely in the scope of the row.
    #[inline]
    pub(super) fn add_block(&mut self, block: u64, is_write: bool) {
        self.block_accesses += 1;
        self.block_writes += u64::from(is_write);
        self.reuse.add(block);
    }

    pub(super) fn figures(&self, duration: Span, [touched, written]: [Distinct; 2]) -> Figures {
        let seconds = Some(duration.as_secs_f64()).filter(|&seconds| seconds > 0.0);
        let requests = self.kinds.iter().map(|kind| kind.requests).sum();
        let [reads, writes] = [Kind::Read, Kind::Write].map(|kind| &self.kinds[kind.index()]);
        let transfers = reads.requests + writes.requests;
        let bytes = reads.bytes.saturating_add(writes.bytes);
        Figures {
            requests,
            kinds: self.kinds.clone(),
            read_share: share(reads.requests, transfers),
            read_sizes: self.read_sizes.clone(),
            write_sizes: self.write_sizes.clone(),
            first: self.first,
            last: self.last,
            rate_per_second: seconds.map(|seconds| requests as f64 / seconds),
            bytes_per_second: seconds.map(|seconds| bytes as f64 / seconds),
            peak_per_second: self.arrivals.peak_per_second(),
            gap_mean_ns: self.arrivals.gaps_ns().mean(),
            gap_variation: self.arrivals.gaps_ns().variation(),
            dispersion: self.dispersion(duration),
            sequential_share: share(self.sequential, transfers),
            block_accesses: self.block_accesses,
            span_bytes: self.span.map_or(0, |(lowest, highest)| highest - lowest),
            footprint_blocks: touched,
            written_blocks: written,
            overwrite_share: share(
                self.block_writes.saturating_sub(written.count),
                self.block_writes,
            ),
            reuse: self.reuse.curve(),
        }
    }

    fn dispersion(&self, duration: Span) -> Vec<Dispersion> {
        let complete = self.arrivals.complete(duration);
        let of_window = |(window, counts): (Span, &super::tally::Tally)| Dispersion {
            window,
            windows: counts.count,
            index: counts.dispersion().filter(|_| counts.count >= 2),
        };
        WINDOWS.into_iter().zip(&complete).map(of_window).collect()
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
