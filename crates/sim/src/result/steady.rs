//! The rate of one client from its first to its last answer.
//!
//! Where answers come in bunches, as behind a barrier, a count over the measured time is wrong by
//! up to a bunch at either end; this is not.

use evenkeel_core::time::Nanos;

/// What one client had delivered between its first and its last answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steady {
    ends: Option<(Nanos, Nanos)>,
    bytes: u64,
}

impl Steady {
    /// A request of `bytes` was answered.
    pub(crate) fn answered(&mut self, now: Nanos, bytes: u64) {
        match &mut self.ends {
            // What the first answer completed was done before it.
            None => self.ends = Some((now, now)),
            Some((_, last)) => {
                *last = now;
                self.bytes += bytes;
            }
        }
    }

    /// Bytes per second; zero before the second answer.
    pub(crate) fn bytes_per_second(self) -> f64 {
        let (first, last) = self.ends.unwrap_or_default();
        let seconds = last.since(first).as_secs_f64();
        if seconds > 0.0 { self.bytes as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_does_not_depend_on_where_the_window_cuts_a_bunch() {
        let mut steady = Steady::default();
        (0..4).for_each(|bunch| steady.answered(Nanos(600_000_000 * bunch), 6_000));
        assert!((steady.bytes_per_second() - 10_000.0).abs() < 1e-6);
        assert!(Steady::default().bytes_per_second().abs() < 1e-6);
    }
}
