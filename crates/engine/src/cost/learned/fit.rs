//! A line through the times that requests of one direction were given: fixed part and rate.
//!
//! Least squares, each request weighed by the square of what it was expected to take, so that a
//! small one counts as much as a large one. Sums are enough for that, old ones fade, and each
//! request costs O(1). Where sizes hardly differ the sums cannot tell the fixed part from the rate:
//! the line that was expected counts, too (ridge regression, Hoerl and Kennard 1970), like
//! [`EXPECTED_REQUESTS`] requests. It counts for less where requests were alone with the device and
//! their times agree: those are measured, not inferred. Neither part may be negative.

use evenkeel_core::float::{exponential, natural_log};

use super::{float, whole};
use crate::cost::Line;
use evenkeel_core::time::Span;

/// What the line that was expected counts for.
const EXPECTED_REQUESTS: f64 = 8.0;
/// The least variance of the times of requests alone with the device that is believed, as a part of
/// their square.
const VARIANCE_MIN: f64 = 0.01;
/// Requests are of these sizes, as far as the pace of a line goes.
const SIZES: [f64; 2] = [512.0, 33_554_432.0];

/// Nanoseconds of the device for a request, and for a byte of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slope {
    pub(super) fixed_ns: f64,
    pub(super) byte_ns: f64,
}

impl Slope {
    pub(super) fn at(&self, size_bytes: f64) -> f64 {
        self.fixed_ns + self.byte_ns * size_bytes
    }

    pub(super) fn times(&self, factor: f64) -> Self {
        Self { fixed_ns: self.fixed_ns * factor, byte_ns: self.byte_ns * factor }
    }

    /// On the way to another line, but no request's time changes by more than this logarithm.
    pub(super) fn towards(&self, target: &Self, step: f64) -> Self {
        // What they are at the least and the greatest size bounds what they are between.
        let parts = SIZES.map(|size_bytes| {
            let log = natural_log(target.at(size_bytes) / self.at(size_bytes));
            let part = || (exponential(step.copysign(log)) - 1.0) / (exponential(log) - 1.0);
            if log.abs() <= step { 1.0 } else { part() }
        });
        let part = parts[0].min(parts[1]).clamp(0.0, 1.0);
        Self {
            fixed_ns: self.fixed_ns + part * (target.fixed_ns - self.fixed_ns),
            byte_ns: self.byte_ns + part * (target.byte_ns - self.byte_ns),
        }
    }

    /// By how much another line differs, at most, as a logarithm.
    pub(super) fn differs_from(&self, other: &Self) -> f64 {
        let differs =
            |size_bytes: f64| natural_log(self.at(size_bytes) / other.at(size_bytes)).abs();
        SIZES.map(differs).into_iter().fold(0.0, f64::max)
    }

    pub(super) fn line(&self) -> Line {
        let rate_bytes = if self.byte_ns > 0.0 { whole(1e9 / self.byte_ns) } else { u64::MAX };
        Line { fixed: Span(whole(self.fixed_ns)), rate_bytes: rate_bytes.max(1) }
    }
}

impl From<Line> for Slope {
    fn from(line: Line) -> Self {
        Self { fixed_ns: float(line.fixed.0), byte_ns: 1e9 / float(line.rate_bytes.max(1)) }
    }
}

/// What requests of one direction were given, as sums.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fit {
    requests: f64,
    /// Of these, requests that were alone with the device.
    alone: f64,
    weight: f64,
    bytes: f64,
    bytes_squared: f64,
    time: f64,
    time_bytes: f64,
    time_squared: f64,
}

impl Fit {
    /// A request of this size was given this time, alone with the device or not, and `expected_ns`
    /// was expected.
    pub(super) fn add(&mut self, size_bytes: f64, time_ns: f64, expected_ns: f64, is_alone: bool) {
        let weight = 1.0 / (expected_ns * expected_ns);
        self.requests += 1.0;
        self.alone += f64::from(is_alone);
        self.weight += weight;
        self.bytes += weight * size_bytes;
        self.bytes_squared += weight * size_bytes * size_bytes;
        self.time += weight * time_ns;
        self.time_bytes += weight * time_ns * size_bytes;
        self.time_squared += weight * time_ns * time_ns;
    }

    /// How many count.
    pub(super) fn requests(&self) -> f64 {
        self.requests
    }

    /// The size around which the line is known, in bytes; none if hardly any were seen.
    pub(super) fn typical_bytes(&self) -> Option<u64> {
        (self.requests >= EXPECTED_REQUESTS).then(|| whole(self.bytes / self.weight))
    }

    /// Others count too, whose time is in another unit.
    pub(super) fn merge(&mut self, other: &Self, unit: f64) {
        self.requests += other.requests;
        self.alone += other.alone;
        self.weight += other.weight;
        self.bytes += other.bytes;
        self.bytes_squared += other.bytes_squared;
        self.time += other.time / unit;
        self.time_bytes += other.time_bytes / unit;
        self.time_squared += other.time_squared / (unit * unit);
    }

    /// What is old counts for less.
    pub(super) fn fade(&mut self, keep: f64) {
        self.requests *= keep;
        self.alone *= keep;
        self.weight *= keep;
        self.bytes *= keep;
        self.bytes_squared *= keep;
        self.time *= keep;
        self.time_bytes *= keep;
        self.time_squared *= keep;
    }

    /// How many times as long as by this line they took; none if hardly any were seen.
    pub(super) fn times_of(&self, line: &Slope) -> Option<f64> {
        let expected = self.weight * line.fixed_ns + self.bytes * line.byte_ns;
        (self.requests >= 1.0 && expected > 0.0 && self.time > 0.0).then(|| self.time / expected)
    }

    /// The line that fits best, beside so many times the one that was expected.
    pub(super) fn line(&self, expected: &Slope, times: f64) -> Slope {
        let seen = self.line_beside(expected, times, EXPECTED_REQUESTS * VARIANCE_MIN);
        let variance = self.variance_around(&seen).clamp(VARIANCE_MIN, 1.0);
        let alone = self.alone / self.requests.max(1.0);
        let doubt = alone * variance + (1.0 - alone);
        self.line_beside(expected, times, EXPECTED_REQUESTS * doubt)
    }

    /// The variance of times around a line, as a part of its square; 1 where nothing was seen.
    fn variance_around(&self, line: &Slope) -> f64 {
        let (f, b) = (line.fixed_ns, line.byte_ns);
        let squares = f * f * self.weight + 2.0 * f * b * self.bytes + b * b * self.bytes_squared;
        let products = f * self.time + b * self.time_bytes;
        if squares > 0.0 { (self.time_squared - 2.0 * products) / squares + 1.0 } else { 1.0 }
    }

    /// The same where the one that was expected counts like so many requests.
    fn line_beside(&self, expected: &Slope, times: f64, ridge: f64) -> Slope {
        // In parts of what is expected: the fixed part u and the rate v, both 1 if it is right.
        let (f, b) = (expected.fixed_ns, expected.byte_ns);
        let uu = self.weight * f * f + ridge;
        let uv = self.bytes * f * b;
        let vv = self.bytes_squared * b * b + ridge;
        let (u1, v1) = (self.time * f / times + ridge, self.time_bytes * b / times + ridge);
        let determinant = uu * vv - uv * uv;
        let (mut u, mut v) = ((u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant);
        if u < 0.0 {
            (u, v) = (0.0, v1 / vv);
        } else if v < 0.0 {
            (u, v) = (u1 / uu, 0.0);
        }
        Slope { fixed_ns: f * u * times, byte_ns: b * v * times }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Slope = Slope { fixed_ns: 100_000.0, byte_ns: 2.0 };

    fn fitted(truth: Slope, sizes: &[f64]) -> Slope {
        let mut fit = Fit::default();
        for size in sizes.iter().cycle().take(2000) {
            fit.add(*size, truth.at(*size), EXPECTED.at(*size), false);
        }
        let times = fit.times_of(&EXPECTED).unwrap();
        fit.line(&EXPECTED, times)
    }

    fn is_near(one: f64, other: f64) -> bool {
        (one - other).abs() < 0.05 * other.abs()
    }

    #[test]
    fn two_sizes_tell_the_fixed_part_from_the_rate() {
        for truth in [
            Slope { fixed_ns: 50_000.0, byte_ns: 25.0 },
            Slope { fixed_ns: 6_000_000.0, byte_ns: 8.0 },
        ] {
            let line = fitted(truth, &[4096.0, 262_144.0]);
            for size in [4096.0, 65_536.0, 262_144.0] {
                assert!(is_near(line.at(size), truth.at(size)), "{line:?} for {truth:?}");
            }
        }
    }

    #[test]
    fn a_few_exact_times_of_requests_alone_say_more_than_what_was_expected() {
        let truth = Slope { fixed_ns: 1_000_000.0, byte_ns: 0.0 };
        let ratio = |noise: f64, is_alone: bool| {
            let mut fit = Fit::default();
            for n in 0..20 {
                let size = if n % 4 == 0 { 65_536.0 } else { 4096.0 };
                let factor = if n / 4 % 2 == 0 { 1.0 + noise } else { 1.0 - noise };
                fit.add(size, truth.at(size) * factor, EXPECTED.at(size), is_alone);
            }
            let line = fit.line(&EXPECTED, fit.times_of(&EXPECTED).unwrap());
            line.at(65_536.0) / line.at(4096.0)
        };
        // By what was expected it is 2.1.
        for (noise, is_alone, expected) in
            [(0.05, true, 0.95..1.1), (0.95, true, 1.4..2.1), (0.05, false, 1.4..2.1)]
        {
            let ratio = ratio(noise, is_alone);
            assert!(expected.contains(&ratio), "{noise}, {is_alone}: {ratio}");
        }
    }

    #[test]
    fn one_size_keeps_the_shape_that_was_expected() {
        let truth = Slope { fixed_ns: 0.0, byte_ns: 100.0 };
        let line = fitted(truth, &[4096.0]);
        assert!(is_near(line.at(4096.0), truth.at(4096.0)), "{line:?}");
        assert!(is_near(line.at(1e6) / line.at(4096.0), EXPECTED.at(1e6) / EXPECTED.at(4096.0)));
    }

    #[test]
    fn no_part_is_negative() {
        // What is larger takes less.
        let mut fit = Fit::default();
        for (size, time) in [(4096.0, 1e6), (1e6, 1e5)].into_iter().cycle().take(200) {
            fit.add(size, time, EXPECTED.at(size), false);
        }
        let line = fit.line(&EXPECTED, 1.0);
        assert!(line.fixed_ns > 0.0 && line.byte_ns == 0.0, "{line:?}");
    }

    #[test]
    fn a_line_moves_by_a_step_at_most_at_any_size() {
        let target = Slope { fixed_ns: 1_000_000.0, byte_ns: 0.1 };
        let step = 0.05;
        let next = EXPECTED.towards(&target, step);
        for size in [512.0, 4096.0, 262_144.0, 33_554_432.0] {
            let change = natural_log(next.at(size) / EXPECTED.at(size));
            assert!(change.abs() <= step + 1e-9, "{size}: {change}");
        }
        let there = EXPECTED.towards(&target, f64::INFINITY);
        assert!(is_near(there.at(1e6), target.at(1e6)), "{there:?}");
        let mut line = EXPECTED;
        for _ in 0..200 {
            line = line.towards(&target, step);
        }
        assert!(is_near(line.at(4096.0), target.at(4096.0)), "{line:?}");
    }
}
