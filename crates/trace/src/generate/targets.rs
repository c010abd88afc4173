//! What a generated trace should have beside what it has.

use evenkeel_core::time::Span;

use super::profile::Profile;
use crate::statistics::{Figures, Summary};

/// A figure that a trace is compared by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Reads by reads and writes.
    ReadShare,
    /// The mean size of reads.
    ReadBytesMean,
    /// The mean size of writes.
    WriteBytesMean,
    /// The mean size of reads and writes together.
    BytesMean,
    /// Requests per second.
    RatePerSecond,
    /// The coefficient of variation of the time between arrivals.
    GapVariation,
    /// The index of dispersion for counts in windows of this length.
    Dispersion(Span),
    /// The part of the requests that go on where the last one ended.
    SequentialShare,
    /// From the first byte used to the last, over all sources.
    SpanBytes,
    /// Different blocks of 4 KiB that are read or written.
    FootprintBlocks,
    /// Hits of an LRU cache of so many blocks of 4 KiB, by accesses.
    LruHitShare(u64),
}

impl Figure {
    /// What it is called, with its unit.
    pub fn name(&self) -> String {
        match self {
            Self::ReadShare => "read share".to_owned(),
            Self::ReadBytesMean => "mean read, bytes".to_owned(),
            Self::WriteBytesMean => "mean write, bytes".to_owned(),
            Self::BytesMean => "mean request, bytes".to_owned(),
            Self::RatePerSecond => "requests per second".to_owned(),
            Self::GapVariation => "variation of gaps".to_owned(),
            Self::Dispersion(window) => format!("dispersion of counts in {window}"),
            Self::SequentialShare => "sequential share".to_owned(),
            Self::SpanBytes => "address span, bytes".to_owned(),
            Self::FootprintBlocks => "different blocks of 4 KiB".to_owned(),
            Self::LruHitShare(blocks) => format!("LRU hits, cache of {} MiB", blocks / 256),
        }
    }

    /// Its value in a trace; `None` where the trace does not tell.
    pub fn of(&self, summary: &Summary) -> Option<f64> {
        let total: &Figures = &summary.total;
        match *self {
            Self::ReadShare => total.read_share,
            Self::ReadBytesMean => total.read_sizes.tally().mean(),
            Self::WriteBytesMean => total.write_sizes.tally().mean(),
            Self::BytesMean => {
                let mut both = *total.read_sizes.tally();
                both.merge(total.write_sizes.tally());
                both.mean()
            }
            Self::RatePerSecond => total.rate_per_second,
            Self::GapVariation => total.gap_variation,
            Self::Dispersion(window) => {
                let of_window = total.dispersion.iter().find(|entry| entry.window == window);
                of_window.and_then(|entry| entry.index)
            }
            Self::SequentialShare => total.sequential_share,
            Self::SpanBytes => Some(total.span_bytes as f64),
            Self::FootprintBlocks => Some(total.footprint_blocks.count as f64),
            Self::LruHitShare(blocks) => {
                (total.reuse.accesses > 0).then(|| 1.0 - total.reuse.at(blocks))
            }
        }
    }
}

/// What the trace that a profile resembles has.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Which figure.
    pub figure: Figure,
    /// Its value.
    pub value: f64,
    /// How far a generated trace may be off, by the value.
    pub tolerance: f64,
    /// Where the value is from.
    pub source: String,
    /// The requests that the value was counted over, where it depends on their number: a shorter
    /// trace is not comparable.
    pub requests_min: u64,
}

/// One row of the comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What should be.
    pub target: Target,
    /// What is.
    pub achieved: Option<f64>,
    /// Whether the trace is long enough to tell.
    pub is_comparable: bool,
}

impl Comparison {
    /// Whether what is lies within the tolerance of what should be; a trace that cannot tell does
    /// not contradict.
    pub fn holds(&self) -> bool {
        let Target { value, tolerance, .. } = self.target;
        let is_near = |achieved: f64| (achieved - value).abs() <= tolerance * value.abs();
        !self.is_comparable || self.achieved.is_some_and(is_near)
    }
}

impl Profile {
    /// What the trace that it resembles has, each with its source.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// A row per target, in their order.
    pub fn compare(&self, summary: &Summary) -> Vec<Comparison> {
        let row = |target: &Target| Comparison {
            target: target.clone(),
            achieved: target.figure.of(summary),
            is_comparable: summary.total.requests >= target.requests_min,
        };
        self.targets.iter().map(row).collect()
    }
}
