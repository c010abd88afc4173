//! Integer time: instants ([`Nanos`]) and durations ([`Span`]).
//!
//! The driver chooses the epoch (process start, or zero in a simulation); only differences matter.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// An instant, in nanoseconds since the driver's epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Nanos {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);

    /// Time since `earlier`; zero if `earlier` lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `us` microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// `ms` milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// `s` seconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }

    /// The duration in seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<Span> for Nanos {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Nanos {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Nanos {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Span {
    /// Picks the unit that people would use: `250 ns`, `12.5 us`, `3.2 ms`, `1.5 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            ns @ 0..1_000 => return write!(f, "{ns} ns"),
            ns @ 1_000..1_000_000 => (ns as f64 / 1e3, "us"),
            ns @ 1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
            ns => (ns as f64 / 1e9, "s"),
        };
        let text = format!("{value:.1}");
        write!(f, "{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_never_runs_backwards() {
        assert_eq!(Nanos(5).since(Nanos(9)), Span::ZERO);
        assert_eq!(Nanos(u64::MAX) + Span(1), Nanos(u64::MAX));
    }

    #[test]
    fn spans_print_in_the_unit_people_use() {
        let shown: Vec<_> =
            [0, 999, 12_500, 3_200_000, 2_000_000_000].map(|ns| Span(ns).to_string()).into();
        assert_eq!(shown, ["0 ns", "999 ns", "12.5 us", "3.2 ms", "2 s"]);
    }
}
