//! What a tenant is promised about response times, and when a window breaks it.
//!
//! Time is cut into windows at whole multiples of their length since the epoch. A request belongs
//! to the window in which it completes. Either the mean over a window is bounded, or all but a part
//! of a window's requests are.
//!
//! # Device time that a target leaves
//!
//! A device that reorders its queue answers at times that are nearly exponentially distributed
//! about their mean L. For a percentile q of at most r that asks `e^(-r/L) <= 1-q`, so
//! `L <= r / ln(1/(1-q))`: a 99th percentile of 250 ms leaves a mean of 54 ms.

use crate::float::natural_log;
use crate::time::{Nanos, Span};

/// A promise on response times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// What is bounded.
    pub bounds: Bounds,
    /// The bound, above zero.
    pub latency_max: Span,
    /// Length of a window, above zero.
    pub window: Span,
}

/// What a target bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bounds {
    /// The mean of a window's response times.
    #[default]
    Mean,
    /// All but so many thousandths of a window's response times, 1 to 999.
    AllBut {
        /// How many may be longer.
        late_milli: u16,
    },
}

impl Target {
    /// A mean of at most this, over each such window.
    pub fn mean(latency_max: Span, window: Span) -> Self {
        Self { bounds: Bounds::Mean, latency_max, window }
    }

    /// All but `late_milli` thousandths at most this, over each such window: 10 for a 99th
    /// percentile.
    pub fn all_but(late_milli: u16, latency_max: Span, window: Span) -> Self {
        Self { bounds: Bounds::AllBut { late_milli }, latency_max, window }
    }

    /// The times in whole microseconds, rounded down: what hosts tell each other.
    #[must_use]
    pub fn in_microseconds(self) -> Self {
        let rounded = |span: Span| Span(span.0 / 1_000 * 1_000);
        Self { latency_max: rounded(self.latency_max), window: rounded(self.window), ..self }
    }

    /// When a request that arrived then ought to be answered.
    pub fn deadline(&self, arrival: Nanos) -> Nanos {
        arrival + self.latency_max
    }

    /// The mean time at the device, in seconds, with which the target holds if nothing waits.
    pub fn device_latency_max_s(&self) -> f64 {
        let bound_s = self.latency_max.as_secs_f64();
        match self.bounds {
            Bounds::Mean => bound_s,
            Bounds::AllBut { late_milli } => {
                bound_s / natural_log(1000.0 / f64::from(late_milli.clamp(1, 999))).max(1.0)
            }
        }
    }

    /// The number of the window that this instant lies in.
    pub fn window_of(&self, now: Nanos) -> u64 {
        now.0 / self.window.0.max(1)
    }
}

/// The response times of one window against its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that completed in it.
    pub completions: u64,
    /// Those that took longer than the target's latency.
    pub late: u64,
    /// Sum of their response times, in nanoseconds.
    pub response_ns: u128,
}

impl Tally {
    /// A request completed.
    pub fn note(&mut self, target: &Target, response: Span) {
        self.completions += 1;
        self.late += u64::from(response > target.latency_max);
        self.response_ns += u128::from(response.0);
    }

    /// Whether the window breaks the target; an empty one never does.
    pub fn breaks(&self, target: &Target) -> bool {
        match target.bounds {
            Bounds::Mean => {
                self.response_ns > u128::from(self.completions) * u128::from(target.latency_max.0)
            }
            Bounds::AllBut { late_milli } => {
                self.late * 1000 > self.completions * u64::from(late_milli)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Span = Span::from_secs(1);

    #[test]
    fn a_window_breaks_a_mean_only_above_it() {
        let target = Target::mean(Span(100), SECOND);
        let mut tally = Tally::default();
        assert!(!tally.breaks(&target), "nothing completed");
        for response in [50, 150] {
            tally.note(&target, Span(response));
        }
        assert!(!tally.breaks(&target), "the mean is the bound itself");
        tally.note(&target, Span(101));
        assert!(tally.breaks(&target) && tally.late == 2);
    }

    #[test]
    fn a_percentile_counts_the_late() {
        let target = Target::all_but(100, Span(100), SECOND);
        let mut tally = Tally::default();
        (0..9).for_each(|_| tally.note(&target, Span(1)));
        tally.note(&target, Span(1_000_000));
        assert!(!tally.breaks(&target), "one of ten may be late, however late");
        tally.note(&target, Span(101));
        assert!(tally.breaks(&target));
    }

    #[test]
    fn a_percentile_leaves_less_time_at_the_device_than_a_mean() {
        let bound = Span::from_millis(250);
        assert!((Target::mean(bound, SECOND).device_latency_max_s() - 0.25).abs() < 1e-12);
        let strict = Target::all_but(10, bound, SECOND).device_latency_max_s();
        assert!((strict - 0.0543).abs() < 1e-4, "{strict}");
        // Half may be late: the device's mean need not be below the bound, yet more than the bound
        // is never asked for.
        assert!(Target::all_but(500, bound, SECOND).device_latency_max_s() <= 0.25);
    }
}
