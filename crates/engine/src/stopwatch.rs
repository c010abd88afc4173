//! Time during which a count was above zero, and the sum of the times of all that it counted: a
//! tenant's backlog, a server's busy time.

use evenkeel_core::time::{Nanos, Span};

/// Counts what is present, and sums the time during which anything was, and that of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stopwatch {
    present: u32,
    started: Nanos,
    stopped_total: Span,
    changed: Nanos,
    each_total: Span,
}

impl Stopwatch {
    /// One more is present.
    pub(crate) fn enter(&mut self, now: Nanos) {
        self.change(now);
        if self.present == 0 {
            self.started = now;
        }
        self.present += 1;
    }

    /// One less is present.
    pub(crate) fn leave(&mut self, now: Nanos) {
        assert!(self.present > 0, "more left than had entered");
        self.change(now);
        self.present -= 1;
        if self.present == 0 {
            self.stopped_total += now.since(self.started);
        }
    }

    fn change(&mut self, now: Nanos) {
        self.each_total = self.total_of_each(now);
        self.changed = now;
    }

    /// How many are present.
    pub(crate) fn present(&self) -> u32 {
        self.present
    }

    /// The time in all, up to `now`.
    pub(crate) fn total(&self, now: Nanos) -> Span {
        let running = if self.present > 0 { now.since(self.started) } else { Span::ZERO };
        self.stopped_total + running
    }

    /// The time of each that was present in all, up to `now`: two for a second are two seconds.
    pub(crate) fn total_of_each(&self, now: Nanos) -> Span {
        self.each_total + Span(now.since(self.changed).0.saturating_mul(u64::from(self.present)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_with_something_present_counts() {
        let mut watch = Stopwatch::default();
        watch.enter(Nanos(10));
        watch.enter(Nanos(20));
        watch.leave(Nanos(30));
        assert_eq!(watch.total(Nanos(35)), Span(25));
        watch.leave(Nanos(40));
        watch.enter(Nanos(100));
        assert_eq!(watch.total(Nanos(101)), Span(31));
        assert_eq!(
            watch.total_of_each(Nanos(101)),
            Span(20 + 20 + 1),
            "two of 20 ns, and one of 1"
        );
        assert_eq!(watch.present(), 1);
    }
}
