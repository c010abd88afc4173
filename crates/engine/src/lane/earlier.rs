//! What schedulers that are no longer in force have sent, and the backend still has.
//!
//! A new scheduler does not know of it. Where it fills the depth, nothing is sent on top of it: a
//! device that is to have one request at a time must not get it behind forty. What that one took
//! would be taken for what requests cost.
//!
//! ```text
//! observe   |------- 40 with the device -------|
//! enforce                          40 39 .. 2 1 0 | one at a time
//! ```
//!
//! A request that never comes back holds nobody: the wait ends when nothing has come back for
//! [`PATIENCE`], and after [`WAIT_MAX`] in any case.

use evenkeel_core::time::{Nanos, Span};

/// If none of them comes back for so long, nobody waits for them.
const PATIENCE: Span = Span::from_millis(200);
/// Nobody waits for longer than this.
const WAIT_MAX: Span = Span::from_secs(2);

/// Requests of earlier schedulers. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Earlier {
    requests: u32,
    /// When the scheduler in force began.
    since: Nanos,
    /// When one came back last, or the scheduler in force began.
    back_at: Nanos,
}

impl Earlier {
    /// A scheduler begins while the backend has so many requests.
    pub(super) fn begin(now: Nanos, requests: u32) -> Self {
        Self { requests, since: now, back_at: now }
    }

    /// One of them is back.
    pub(super) fn back(&mut self, now: Nanos) {
        self.requests = self.requests.saturating_sub(1);
        self.back_at = now;
    }

    /// Until when to wait for them, at most, where they may be all that the depth allows; none if
    /// there is nothing to wait for.
    pub(super) fn wait(&self, now: Nanos) -> Option<Nanos> {
        let until = (self.back_at + PATIENCE).min(self.since + WAIT_MAX);
        (self.requests > 0 && now < until).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    #[test]
    fn it_waits_for_as_long_as_they_come_back() {
        let mut earlier = Earlier::begin(at(0), 3);
        assert_eq!(earlier.wait(at(199)), Some(at(200)));
        assert_eq!(earlier.wait(at(200)), None, "none of them has come back");
        earlier.back(at(150));
        assert_eq!(earlier.wait(at(200)), Some(at(350)));
        earlier.back(at(151));
        earlier.back(at(152));
        assert_eq!(earlier.wait(at(152)), None, "all are back");
        assert_eq!(Earlier::begin(at(0), 0).wait(at(0)), None);
    }

    #[test]
    fn a_trickle_holds_nobody_for_ever() {
        let mut earlier = Earlier::begin(at(0), 1000);
        (0..19).for_each(|n| earlier.back(at(100 * (n + 1))));
        assert_eq!(earlier.wait(at(1950)), Some(at(2000)));
        assert_eq!(earlier.wait(at(2000)), None);
    }
}
