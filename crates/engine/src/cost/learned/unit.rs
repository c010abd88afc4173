//! How large a unit may be, so that whoever comes next does not wait for long.
//!
//! A unit that is with the device cannot be called back. So large requests are cut into units whose
//! bytes take [`BOUND`] at the rate that was measured. Each unit pays the fixed part anew: where
//! that is large, units are so large that their bytes take [`FIXED_PARTS`] times as long as it.
//!
//! Sizes are powers of two, and change where the bound is missed by much, so that a rate at the
//! edge of two of them does not make them change all the time.

use evenkeel_core::time::Span;

use super::fit::Slope;
use super::float;

/// What the bytes of a unit may take.
const BOUND: Span = Span::from_millis(5);
/// Or so many times the fixed part, if that is more.
const FIXED_PARTS: f64 = 4.0;
/// No unit is smaller.
const LEAST_BYTES: u64 = 64 << 10;
/// None is larger.
const MOST_BYTES: u64 = 1 << 20;
/// By how much the bound is missed before the size changes.
const SLACK: f64 = 1.4;

/// The size of units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    bytes: u64,
}

impl Unit {
    pub(super) fn new() -> Self {
        Self { bytes: MOST_BYTES }
    }

    /// The size in force.
    pub(super) fn bytes(self) -> u64 {
        self.bytes
    }

    /// Requests were found to take so long.
    pub(super) fn fit(&mut self, lines: &[Slope]) {
        let parts = |bytes: u64| {
            let of = |line: &Slope| {
                let bound_ns = float(BOUND.0).max(FIXED_PARTS * line.fixed_ns);
                line.byte_ns * float(bytes) / bound_ns
            };
            lines.iter().map(of).fold(0.0, f64::max)
        };
        while self.bytes > LEAST_BYTES && parts(self.bytes) > SLACK {
            self.bytes /= 2;
        }
        while self.bytes < MOST_BYTES && parts(self.bytes * 2) < 1.0 / SLACK {
            self.bytes *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(fixed_us: u32, rate_mib: u32) -> u64 {
        let byte_ns = 1e9 / (f64::from(rate_mib) * 1_048_576.0);
        let mut unit = Unit::new();
        unit.fit(&[Slope { fixed_ns: f64::from(fixed_us) * 1e3, byte_ns }]);
        unit.bytes() >> 10
    }

    #[test]
    fn the_bytes_of_a_unit_take_five_milliseconds() {
        assert_eq!(fitted(20, 40), 256, "6.25 ms, within the slack");
        assert_eq!(fitted(20, 30), 128);
        assert_eq!(fitted(100, 500), 1024);
        assert_eq!(fitted(20, 2), 64, "31 ms: no unit is smaller");
    }

    #[test]
    fn a_large_fixed_part_is_not_paid_for_little() {
        assert_eq!(fitted(6600, 120), 1024, "a disk: 8 ms of bytes for 6.6 of seek");
        assert_eq!(fitted(4000, 30), 512, "17 ms for 4");
    }

    #[test]
    fn a_rate_at_the_edge_changes_nothing() {
        let mut unit = Unit::new();
        let mut sizes = Vec::new();
        for rate_mib in [40, 44, 36, 45, 36] {
            let byte_ns = 1e9 / (f64::from(rate_mib) * 1_048_576.0);
            unit.fit(&[Slope { fixed_ns: 0.0, byte_ns }]);
            sizes.push(unit.bytes() >> 10);
        }
        assert_eq!(sizes, [256; 5]);
    }
}
