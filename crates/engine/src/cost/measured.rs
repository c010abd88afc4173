//! What requests were measured to take of a device, for whoever holds promises and written figures
//! against it.
//!
//! It is measured while the device is full ([`learned`](super::learned)), whether the costs in
//! force are found or written. A promise is held against it once [`PROVEN_AFTER`] of load was seen;
//! what was seen of less is provisional.

use evenkeel_core::control::array_cost::{ArrayCost, LOAD_MAX_S};
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;

use super::{CostModel, Line};

/// So much load must have been seen before a floor counts as provable.
pub const PROVEN_AFTER: Span = Span::from_secs(60);

/// Written figures that are off by more than this, either way, are far from what was measured.
const FAR: f64 = 2.0;

/// What was measured of one backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Reads.
    pub read: MeasuredLine,
    /// Writes.
    pub write: MeasuredLine,
    /// What a flush takes: not measured, but as much dearer than at first as the others are.
    pub flush: Span,
    /// How many requests the device seems to serve at once; at most the depth.
    pub at_once: u32,
    /// Device time of the requests that were measured.
    pub load: Span,
}

/// What was measured of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredLine {
    /// Time of the whole device. Where nothing was seen it is taken to be as much dearer than at
    /// first as the other direction.
    pub line: Line,
    /// The size of requests around which it was measured, in bytes; none if hardly any were seen.
    pub size_bytes: Option<u64>,
}

/// A written figure that is far from what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discrepancy {
    /// Reads or writes.
    pub kind: Kind,
    /// Of this size.
    pub size_bytes: u64,
    /// What such a request takes by the figures that are written.
    pub written: Span,
    /// What it takes by what was measured.
    pub measured: Span,
}

impl Measured {
    /// The model that follows from it.
    pub fn model(&self) -> CostModel {
        CostModel::Linear { read: self.read.line, write: self.write.line, flush: self.flush }
    }

    /// The same for other gates before the device.
    pub fn for_other_gates(&self) -> ArrayCost {
        let load_s = u32::try_from(self.load.0 / Span::from_secs(1).0).unwrap_or(u32::MAX);
        self.model().for_other_gates(load_s.min(LOAD_MAX_S))
    }

    /// Whether enough load was seen to hold promises against it.
    pub fn is_proven(&self) -> bool {
        self.load >= PROVEN_AFTER
    }

    /// Where figures that were written are far off, by sizes that were seen; at most one for each
    /// direction. Models that say nothing of device time are not compared.
    pub fn discrepancies(&self, written: &CostModel) -> Vec<Discrepancy> {
        if *written == CostModel::PerRequest {
            return Vec::new();
        }
        let model = self.model();
        let sides = [(Kind::Read, self.read.size_bytes), (Kind::Write, self.write.size_bytes)];
        let of = |(kind, size_bytes): (Kind, Option<u64>)| {
            let size_bytes = size_bytes?;
            let [written, measured] =
                [written, &model].map(|model| Span(model.cost(kind, size_bytes).0));
            let ratio = written.as_secs_f64() / measured.as_secs_f64().max(1e-9);
            let is_far = !(1.0 / FAR..=FAR).contains(&ratio);
            is_far.then_some(Discrepancy { kind, size_bytes, written, measured })
        };
        sides.into_iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fixed_us: u64) -> Line {
        Line { fixed: Span::from_micros(fixed_us), rate_bytes: 100 << 20 }
    }

    fn measured(read_us: u64, write_us: u64) -> Measured {
        let of = |fixed_us| MeasuredLine { line: line(fixed_us), size_bytes: Some(4096) };
        Measured {
            read: of(read_us),
            write: of(write_us),
            flush: Span::from_millis(1),
            at_once: 1,
            load: PROVEN_AFTER,
        }
    }

    fn written(fixed_us: u64) -> CostModel {
        let line = line(fixed_us);
        CostModel::Linear { read: line, write: line, flush: Span::from_millis(1) }
    }

    #[test]
    fn figures_are_far_off_beyond_a_factor_of_two_either_way() {
        assert_eq!(measured(1000, 1000).discrepancies(&written(1000)), []);
        assert_eq!(measured(1000, 1000).discrepancies(&written(1900)), []);
        let kinds = |found: Vec<Discrepancy>| found.iter().map(|one| one.kind).collect::<Vec<_>>();
        assert_eq!(kinds(measured(1000, 5000).discrepancies(&written(1000))), [Kind::Write]);
        assert_eq!(kinds(measured(100, 1000).discrepancies(&written(1000))), [Kind::Read]);
    }

    #[test]
    fn what_was_not_seen_contradicts_nothing() {
        let mut one = measured(1000, 9000);
        one.write.size_bytes = None;
        assert_eq!(one.discrepancies(&written(1000)), []);
        assert_eq!(one.discrepancies(&CostModel::PerRequest), []);
    }
}
