//! The device itself: time for which it does nothing for anybody.
//!
//! ```text
//! completions   | | ||  | |  ||                                   | ||| | |
//!                            |<-- patience -->|<---- stall ------>|
//! ```
//!
//! While requests are with a device, some come back every now and then. If none does for much
//! longer than usual, the device stands still, whoever has requests there, and what is waited
//! meanwhile is nobody's doing.
//!
//! What is usual is the mean interval between completions as an instant finds it: each interval
//! weighs by its length, so that a few large requests among many small ones count for the time that
//! they take. An interval counts for its patience at most, or the first stall would hide the next.

use evenkeel_core::time::{Nanos, Span};

/// So many usual intervals are no stall yet ..
const PATIENCE: f64 = 8.0;
/// .. and so short a time never is one.
const PATIENCE_MIN: Span = Span::from_millis(5);
/// What is patience enough before anything is known of the device.
const PATIENCE_UNKNOWN: Span = Span::from_secs(1);
/// So many completions make it known, and are remembered.
const KNOWN: u32 = 16;
const MEMORY: f64 = 64.0;

/// A meter of stalls. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Stalls {
    with_device: u32,
    /// When a request came back last, or the first one went to an idle device.
    progressed: Nanos,
    patience: Span,
    completions: u32,
    /// Sums over the latest intervals, in nanoseconds: of their lengths, and of their squares.
    lengths: f64,
    squares: f64,
    stalled: Span,
}

impl Stalls {
    /// A request goes to the device.
    pub(super) fn started(&mut self, now: Nanos) {
        if self.with_device == 0 {
            self.progressed = now;
        }
        self.with_device += 1;
    }

    /// A request is back.
    pub(super) fn ended(&mut self, now: Nanos) {
        self.stalled = self.at(now);
        self.learn(now.since(self.progressed));
        self.progressed = now;
        self.with_device -= 1;
    }

    /// How many requests are with the device.
    pub(super) fn with_device(&self) -> u32 {
        self.with_device
    }

    /// For how long the device has stood still up to now, in all.
    pub(super) fn at(&self, now: Nanos) -> Span {
        if self.with_device == 0 {
            return self.stalled;
        }
        let silence = now.since(self.progressed);
        self.stalled + Span(silence.0.saturating_sub(self.patience().0))
    }

    fn patience(&self) -> Span {
        if self.completions < KNOWN { PATIENCE_UNKNOWN } else { self.patience }
    }

    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of minutes")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    fn learn(&mut self, interval: Span) {
        let length = interval.0.min(self.patience().0) as f64;
        self.lengths += length - self.lengths / MEMORY;
        self.squares += length * length - self.squares / MEMORY;
        self.completions = self.completions.saturating_add(1);
        let usual = if self.lengths > 0.0 { self.squares / self.lengths } else { 0.0 };
        self.patience = Span((PATIENCE * usual) as u64).max(PATIENCE_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two requests are always with the device, of which one comes back after each interval.
    fn after(intervals: impl IntoIterator<Item = Span>) -> (Stalls, Nanos) {
        let (mut stalls, mut now) = (Stalls::default(), Nanos(0));
        (0..2).for_each(|_| stalls.started(now));
        for interval in intervals {
            now += interval;
            stalls.ended(now);
            stalls.started(now);
        }
        (stalls, now)
    }

    fn steady(interval: Span) -> impl Iterator<Item = Span> {
        std::iter::repeat_n(interval, 100)
    }

    #[test]
    fn a_silence_is_the_devices_but_for_what_is_usual() {
        let (stalls, now) = after(steady(Span::from_millis(1)));
        assert_eq!(stalls.at(now), Span::ZERO);
        assert_eq!(stalls.at(now + Span::from_millis(7)), Span::ZERO);
        let stalled = stalls.at(now + Span::from_millis(108));
        assert!(stalled.0.abs_diff(100_000_000) <= 1000, "{stalled:?}");
    }

    #[test]
    fn one_stall_does_not_hide_the_next() {
        let stall = || std::iter::once(Span::from_secs(1));
        let interval = Span::from_millis(1);
        let (stalls, now) = after(steady(interval).chain(stall()).chain(steady(interval)));
        let (again, then) =
            after(steady(interval).chain(stall()).chain(steady(interval)).chain(stall()));
        let second = Span(again.at(then).0 - stalls.at(now).0);
        assert!(second > Span::from_millis(900), "{second:?}");
    }

    #[test]
    fn a_large_request_now_and_then_is_no_stall() {
        let intervals = (0..1000).map(|n| Span::from_micros(if n % 20 == 0 { 6000 } else { 100 }));
        let (stalls, now) = after(intervals);
        // The first of them are longer than anything that was seen.
        assert!(stalls.at(now) < Span::from_millis(5), "{:?}", stalls.at(now));
    }

    #[test]
    fn an_idle_device_does_not_stall() {
        let mut stalls = after(steady(Span::from_millis(1))).0;
        let now = Nanos(1_000_000_000);
        (0..2).for_each(|_| stalls.ended(now));
        let before = stalls.at(now);
        assert_eq!(stalls.at(now + Span::from_secs(60)), before);
        stalls.started(now + Span::from_secs(60));
        assert_eq!(stalls.at(now + Span::from_secs(60)), before);
    }

    #[test]
    fn nothing_is_known_of_a_device_at_first() {
        let (stalls, now) = after(std::iter::repeat_n(Span::from_micros(10), 8));
        assert_eq!(stalls.at(now + Span::from_millis(900)), Span::ZERO);
    }
}
