//! Requests and bytes over the time of a trace, in a bounded number of intervals.
//!
//! ```text
//! 1 s:  5 3 8 1 . . .       full, and time goes on
//! 2 s:  8   9   . . .       pairs become one
//! ```

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_trace::Record;

/// Intervals at most; an even number.
const INTERVALS_MAX: usize = 1024;

/// What happened in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) others: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
}

/// Counts by interval; all have the same width.
#[derive(Clone, Debug)]
pub(super) struct OverTime {
    width: Span,
    intervals: Vec<Interval>,
}

impl Default for OverTime {
    fn default() -> Self {
        Self { width: Span::from_millis(10), intervals: Vec::new() }
    }
}

impl OverTime {
    /// Counts a request.
    pub(super) fn add(&mut self, record: &Record) {
        while record.at.0 / self.width.0 >= INTERVALS_MAX as u64 {
            self.widen();
        }
        let index = usize::try_from(record.at.0 / self.width.0).expect("below INTERVALS_MAX");
        if self.intervals.len() <= index {
            self.intervals.resize(index + 1, Interval::default());
        }
        let interval = &mut self.intervals[index];
        match record.kind {
            Kind::Read => {
                interval.reads += 1;
                interval.read_bytes = interval.read_bytes.saturating_add(record.length);
            }
            Kind::Write => {
                interval.writes += 1;
                interval.write_bytes = interval.write_bytes.saturating_add(record.length);
            }
            Kind::Flush | Kind::Trim | Kind::Cache | Kind::WriteZeroes => interval.others += 1,
        }
    }

    /// The width of an interval.
    pub(super) fn width(&self) -> Span {
        self.width
    }

    /// From the first instant of the trace on.
    pub(super) fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    fn widen(&mut self) {
        let pairs = self.intervals.chunks(2).map(|pair| pair[0].plus(pair.get(1)));
        self.intervals = pairs.collect();
        self.width = self.width + self.width;
    }
}

impl Interval {
    fn plus(self, other: Option<&Self>) -> Self {
        let other = other.copied().unwrap_or_default();
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            others: self.others + other.others,
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            write_bytes: self.write_bytes.saturating_add(other.write_bytes),
        }
    }

    /// Requests of every kind.
    pub(super) fn requests(self) -> u64 {
        self.reads + self.writes + self.others
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Nanos;
    use evenkeel_trace::SourceId;

    use super::*;

    #[test]
    fn a_long_trace_has_wider_intervals_and_loses_no_request() {
        let mut over_time = OverTime::default();
        for second in 0..100_000 {
            over_time.add(&Record {
                at: Nanos(second * 1_000_000_000),
                source: SourceId(0),
                kind: if second % 2 == 0 { Kind::Read } else { Kind::Write },
                offset: 0,
                length: 512,
                response: None,
            });
        }
        let intervals = over_time.intervals();
        assert!((INTERVALS_MAX / 2..=INTERVALS_MAX).contains(&intervals.len()));
        let sum = intervals.iter().map(|interval| interval.requests()).sum::<u64>();
        assert_eq!(sum, 100_000);
        assert_eq!(over_time.width(), Span::from_millis(10 << 14));
    }
}
