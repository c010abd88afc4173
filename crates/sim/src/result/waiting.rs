//! For how long a tenant had requests waiting at the gate, interval by interval.

use evenkeel_core::time::{Nanos, Span};

/// The requests of one tenant that the gate holds back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    requests: u64,
    /// Up to when the time is counted.
    counted_to: Nanos,
    /// Since the interval began.
    time: Span,
}

impl Waiting {
    /// A request waits.
    pub(crate) fn begin(&mut self, now: Nanos) {
        self.count(now);
        self.requests += 1;
    }

    /// A request waits no more: the last of it went to its device, or it has failed.
    pub(crate) fn end(&mut self, now: Nanos) {
        self.count(now);
        self.requests = self.requests.checked_sub(1).expect("who stops waiting waited before");
    }

    /// The time since the interval began, which ends now.
    pub(crate) fn close_interval(&mut self, now: Nanos) -> Span {
        self.count(now);
        std::mem::take(&mut self.time)
    }

    fn count(&mut self, now: Nanos) {
        if self.requests > 0 {
            self.time += now.since(self.counted_to);
        }
        self.counted_to = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_while_anything_waits() {
        let mut waiting = Waiting::default();
        waiting.begin(Nanos(10));
        waiting.begin(Nanos(15));
        waiting.end(Nanos(20));
        assert_eq!(waiting.close_interval(Nanos(30)), Span(20));
        waiting.end(Nanos(35));
        assert_eq!(waiting.close_interval(Nanos(60)), Span(5));
        assert_eq!(waiting.close_interval(Nanos(90)), Span(0));
    }
}
