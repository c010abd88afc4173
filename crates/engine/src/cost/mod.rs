//! What a request costs: device time, by a linear model per direction.
//!
//! `cost = fixed + bytes / rate`. "1 per request", which the papers use, is the special case that
//! ignores size (design: section 3).

pub mod learned;
pub mod measured;

use evenkeel_core::control::array_cost::{ArrayCost, Rate};
use evenkeel_core::ticket::{Cost, Kind};
use evenkeel_core::time::Span;

/// One direction of a linear model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Time that any request takes.
    pub fixed: Span,
    /// Bytes per second on top; at least 1.
    pub rate_bytes: u64,
}

/// The cost model of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostModel {
    /// Every request costs the same.
    PerRequest,
    /// Device time, by direction.
    Linear {
        /// READ and CACHE.
        read: Line,
        /// WRITE, and `WRITE_ZEROES` and TRIM by their effect.
        write: Line,
        /// A flush carries no bytes; it costs this.
        flush: Span,
    },
}

impl Default for CostModel {
    /// A quick disk: 100 us and 500 MiB/s either way.
    fn default() -> Self {
        let line = Line { fixed: Span::from_micros(100), rate_bytes: 500 << 20 };
        Self::Linear { read: line, write: line, flush: Span::from_millis(1) }
    }
}

impl Line {
    fn cost(self, size_bytes: u64) -> Cost {
        let transfer_ns =
            u128::from(size_bytes) * 1_000_000_000 / u128::from(self.rate_bytes.max(1));
        Cost(self.fixed.0.saturating_add(u64::try_from(transfer_ns).unwrap_or(u64::MAX)).max(1))
    }
}

impl CostModel {
    /// The lines of reads and of writes, and what a flush costs. Where every request costs the same
    /// they say so.
    pub(crate) fn lines(&self) -> (Line, Line, Span) {
        match *self {
            Self::Linear { read, write, flush } => (read, write, flush),
            Self::PerRequest => {
                let line = Line { fixed: Span(Cost::ONE.0), rate_bytes: u64::MAX };
                (line, line, Span(Cost::ONE.0))
            }
        }
    }

    /// The same for other gates, learned from so much load, or
    /// [written](evenkeel_core::control::array_cost::WRITTEN) in a policy.
    pub fn for_other_gates(&self, load_s: u32) -> ArrayCost {
        let (read, write, flush) = self.lines();
        let rate = |line: Line| Rate { fixed: line.fixed, rate_bytes: line.rate_bytes };
        ArrayCost { load_s, read: rate(read), write: rate(write), flush }
    }

    /// What other gates say that requests cost.
    pub fn of_other_gates(cost: &ArrayCost) -> Self {
        let line = |rate: Rate| Line { fixed: rate.fixed, rate_bytes: rate.rate_bytes };
        Self::Linear { read: line(cost.read), write: line(cost.write), flush: cost.flush }
    }

    /// The cost of one request of `size_bytes`.
    pub fn cost(&self, kind: Kind, size_bytes: u64) -> Cost {
        match (self, kind) {
            (Self::PerRequest, _) => Cost::ONE,
            (Self::Linear { read, .. }, Kind::Read | Kind::Cache) => read.cost(size_bytes),
            (Self::Linear { write, .. }, Kind::Write | Kind::WriteZeroes | Kind::Trim) => {
                write.cost(size_bytes)
            }
            (Self::Linear { flush, .. }, Kind::Flush) => Cost(flush.0.max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::control::array_cost::WRITTEN;

    use super::*;

    #[test]
    fn size_counts_under_the_linear_model_only() {
        let line = Line { fixed: Span::from_micros(50), rate_bytes: 1_000_000_000 };
        let linear = CostModel::Linear { read: line, write: line, flush: Span::ZERO };
        assert_eq!(linear.cost(Kind::Read, 4096), Cost(50_000 + 4096));
        assert_eq!(linear.cost(Kind::Flush, 0), Cost(1), "nothing is free: tags must advance");
        assert_eq!(linear.cost(Kind::Trim, 1 << 40), Cost(50_000 + (1 << 40)), "beyond 64 bits");
        assert_eq!(CostModel::PerRequest.cost(Kind::Read, 1 << 30), Cost::ONE);
    }

    #[test]
    fn other_gates_count_as_this_one_does() {
        for model in [CostModel::default(), CostModel::PerRequest] {
            let theirs = CostModel::of_other_gates(&model.for_other_gates(WRITTEN));
            for (kind, size_bytes) in [(Kind::Read, 512), (Kind::Write, 1 << 24), (Kind::Flush, 0)]
            {
                let costs = [model, theirs].map(|model| model.cost(kind, size_bytes));
                assert_eq!(costs[0], costs[1], "{model:?} {kind:?}");
            }
        }
    }
}
