//! Time during which a count was above zero: a tenant's backlog, a server's busy time.

use evenkeel_core::time::{Nanos, Span};

/// Counts what is present and sums the time during which anything was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stopwatch {
    present: u32,
    started: Nanos,
    stopped_total: Span,
}

impl Stopwatch {
    /// One more is present.
    pub(crate) fn enter(&mut self, now: Nanos) {
        if self.present == 0 {
            self.started = now;
        }
        self.present += 1;
    }

    /// One less is present.
    pub(crate) fn leave(&mut self, now: Nanos) {
        assert!(self.present > 0, "more left than had entered");
        self.present -= 1;
        if self.present == 0 {
            self.stopped_total += now.since(self.started);
        }
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
        assert_eq!(watch.present(), 1);
    }
}
