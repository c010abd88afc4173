//! When requests arrive: gaps between them, and their counts in windows of several lengths.
//!
//! The index of dispersion for counts is the variance of the counts in windows of one length by
//! their mean: 1 for Poisson arrivals at every length, and growing with the length when bursts are
//! correlated (Gusella, Characterizing the variability of arrival processes with indexes of
//! dispersion, IEEE JSAC 1991). Windows follow each other from the trace's first record on; the one
//! that the trace ends in is left out, since it is not whole.
//!
//! ```text
//! arrivals   | ||| |    |      ||   |     |         windows of 1 s: 3 2 1 2 1
//! ```

use evenkeel_core::time::{Nanos, Span};

use super::tally::Tally;

/// The lengths of the windows.
pub const WINDOWS: [Span; 5] = [
    Span::from_millis(10),
    Span::from_millis(100),
    Span::from_secs(1),
    Span::from_secs(10),
    Span::from_secs(100),
];

/// The window that the peak rate is counted in, as an index into [`WINDOWS`].
const PEAK_WINDOW: usize = 2;

/// The arrivals of one source, or of all.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    last: Option<Nanos>,
    gaps_ns: Tally,
    windows: [Windows; WINDOWS.len()],
}

/// Counts in windows of one length.
#[derive(Clone, Debug, Default)]
struct Windows {
    /// The window that is being counted, from 0.
    index: u64,
    count: u64,
    /// Windows before it.
    complete: Tally,
}

impl Windows {
    #[inline]
    fn advance(&mut self, index: u64) {
        if index > self.index {
            self.complete.add(self.count);
            self.complete.add_times(0, index - self.index - 1);
            (self.index, self.count) = (index, 0);
        }
    }
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self { last: None, gaps_ns: Tally::default(), windows: Default::default() }
    }

    /// Counts one arrival, so long after the trace's first.
    #[inline]
    pub(super) fn add(&mut self, at: Nanos, since_origin: Span) {
        if let Some(last) = self.last.replace(at) {
            self.gaps_ns.add(at.since(last).0);
        }
        for (windows, length) in self.windows.iter_mut().zip(WINDOWS) {
            windows.advance(since_origin.0 / length.0);
            windows.count += 1;
        }
    }

    pub(super) fn gaps_ns(&self) -> &Tally {
        &self.gaps_ns
    }

    /// The most arrivals in a second, the last one included.
    pub(super) fn peak_per_second(&self) -> u64 {
        let windows = &self.windows[PEAK_WINDOW];
        windows.complete.max.max(windows.count)
    }

    /// The counts in complete windows, by length, of a trace that lasted so long.
    pub(super) fn complete(&self, duration: Span) -> [Tally; WINDOWS.len()] {
        std::array::from_fn(|i| {
            let mut windows = self.windows[i].clone();
            windows.advance(duration.0 / WINDOWS[i].0);
            windows.complete
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn window_counts_are_those_of_a_plain_array(
            gaps in proptest::collection::vec(0u64..400, 1..100), idle_ms in 0u64..3_000
        ) {
            let mut arrivals = Arrivals::new();
            let mut plain = vec![0u64; 60_000 / 100];
            let mut ms = 0;
            for gap in gaps {
                ms += gap;
                arrivals.add(Nanos(7 + ms * 1_000_000), Span::from_millis(ms));
                plain[usize::try_from(ms / 100).unwrap()] += 1;
            }
            let duration_ms = ms + idle_ms;
            plain.truncate(usize::try_from(duration_ms / 100).unwrap());
            let mut expected = Tally::default();
            for &count in &plain {
                expected.add(count);
            }
            prop_assert_eq!(arrivals.complete(Span::from_millis(duration_ms))[1], expected);
        }
    }

    #[test]
    fn regular_arrivals_have_no_variation() {
        let mut arrivals = Arrivals::new();
        (0..50u64).for_each(|i| arrivals.add(Nanos(i * 100_000_000), Span(i * 100_000_000)));
        assert_eq!(arrivals.gaps_ns().variation(), Some(0.0));
        assert_eq!(arrivals.complete(Span::from_secs(5))[2].dispersion(), Some(0.0));
        assert_eq!(arrivals.peak_per_second(), 10);
    }
}
