//! How many requests clients keep with a device that nobody orders.
//!
//! In observe mode there is no depth that could be full, and what requests take of a device shows
//! while it is (`cost::learned`). Clients have depths of their own: while about as much is with the
//! device as they have had there at most lately, it has all that it is ever asked for.

use evenkeel_core::time::{Nanos, Span};

/// The greatest number is remembered for one to two of these.
const PERIOD: Span = Span::from_millis(500);

/// The greatest number of requests with a device lately. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crowd {
    peaks: [u32; 2],
    since: Nanos,
}

impl Crowd {
    /// What stands for the depth while so many are with the device, and whether it is full. A power
    /// of two, so that it changes seldom.
    pub(super) fn depth(&mut self, now: Nanos, present: u32) -> (u64, bool) {
        if now.since(self.since) >= PERIOD {
            (self.peaks, self.since) = ([present, self.peaks[0]], now);
        }
        self.peaks[0] = self.peaks[0].max(present);
        let peak = u64::from(self.peaks[0].max(self.peaks[1]));
        (peak.next_power_of_two(), present > 0 && u64::from(present) * 10 >= peak * 9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_while_all_are_there_that_ever_are() {
        let mut crowd = Crowd::default();
        let at = |millis: u64| Nanos(millis * 1_000_000);
        assert_eq!(crowd.depth(at(0), 0), (1, false));
        assert_eq!(crowd.depth(at(1), 48), (64, true));
        assert_eq!(crowd.depth(at(2), 44), (64, true));
        assert_eq!(crowd.depth(at(3), 40), (64, false));
        // Fewer are there from now on.
        assert_eq!(crowd.depth(at(600), 40), (64, false));
        assert_eq!(crowd.depth(at(1200), 40), (64, true));
    }
}
