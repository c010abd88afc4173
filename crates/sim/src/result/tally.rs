//! Counts and latencies of requests, whatever they have in common.

use evenkeel_core::histogram::Histogram;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::{IntervalSummary, Latency};

/// A request that came to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) kind: Kind,
    /// Over all of its targets.
    pub(crate) bytes: u64,
    /// When it arrived: the instant at which it should have been sent.
    pub(crate) due: Nanos,
    pub(crate) ok: bool,
}

/// Counts and latencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// Requests that neither read nor wrote.
    pub(crate) others: u64,
    pub(crate) errors: u64,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    /// Of requests answered well: reads, writes, others.
    pub(crate) latency: [Histogram; 3],
}

impl Tally {
    /// Requests answered well.
    pub(crate) fn requests(&self) -> u64 {
        self.reads + self.writes + self.others
    }

    /// Bytes read and written.
    pub(crate) fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests() + self.errors + self.bytes() == 0
    }

    /// Counts bytes.
    pub(crate) fn deliver(&mut self, kind: Kind, bytes: u64) {
        match kind {
            Kind::Read => self.read_bytes += bytes,
            _ => self.write_bytes += bytes,
        }
    }

    /// Counts a request, but not its bytes.
    pub(crate) fn end(&mut self, now: Nanos, ending: &Ending) {
        if !ending.ok {
            self.errors += 1;
            return;
        }
        let (count, class) = match ending.kind {
            Kind::Read => (&mut self.reads, 0),
            Kind::Write => (&mut self.writes, 1),
            _ => (&mut self.others, 2),
        };
        *count += 1;
        self.latency[class].record(now.since(ending.due));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.errors += other.errors;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        for (mine, theirs) in self.latency.iter_mut().zip(&other.latency) {
            mine.merge(theirs);
        }
    }

    pub(crate) fn whole_latency(&self) -> Histogram {
        let mut whole = Histogram::default();
        self.latency.iter().for_each(|one| whole.merge(one));
        whole
    }

    /// The entry of a time series.
    pub(crate) fn summary(&self, start: Span, length: Span) -> IntervalSummary {
        let latency = self.whole_latency();
        let quantile = |q| latency.quantile(q).unwrap_or(Span::ZERO);
        IntervalSummary {
            start,
            length,
            requests: self.requests(),
            reads: self.reads,
            writes: self.writes,
            read_bytes: self.read_bytes,
            write_bytes: self.write_bytes,
            errors: self.errors,
            waiting: Span::ZERO,
            latency_mean: latency.mean(),
            latency_p50: quantile(0.50),
            latency_p99: quantile(0.99),
            latency_max: latency.max(),
        }
    }
}

impl Latency {
    /// The figures of a distribution.
    pub(crate) fn of(histogram: Histogram) -> Self {
        let quantile = |q| histogram.quantile(q).unwrap_or(Span::ZERO);
        Self {
            mean: histogram.mean(),
            p50: quantile(0.50),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: histogram.max(),
            histogram,
        }
    }
}
