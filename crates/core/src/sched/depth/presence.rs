//! Whether a tenant sends now and then, or always has requests outstanding.
//!
//! ```text
//! always asks         |----------------------------|   a closed loop: asks anew when answered
//! now and then        |-|  |-|  |--------|-|  |-|      has nothing here for part of the time
//! starved for good    |-1-3-2-5-4-3-6-8-7-5-7-9-..     what it has with the device varies
//! ```
//!
//! Two signs tell, either of which is enough:
//!
//! - **It has nothing here for a twentieth of the time**, neither waiting nor with the device. Then
//!   all of its requests count, for while the device starves them it sends on, or sends afterwards
//!   at once what it could not. A client in a closed loop always has something here, be it ever so
//!   little.
//! - **What it has with the device varies** as in an open loop, where requests arrive whatever
//!   became of those before (a Poisson process: variance and mean of its counts are equal). In a
//!   closed loop that number is nearly the same each time. Then those count that find nothing of
//!   their tenant's waiting. Only this tells a tenant that is starved for good.

use crate::float::exponential;
use crate::time::{Nanos, Span};

/// It has nothing here for so great a part of the time ..
const IDLE_MIN: f64 = 0.05;
/// .. of the last second or so. A pause says no more than this, however long it is.
const MEMORY: Span = Span::from_secs(1);
const PAUSE_MAX: Span = Span::from_millis(100);

/// What of the counts before is kept when another request comes.
const COUNTS_KEPT: f64 = 15.0 / 16.0;
/// Above this index of dispersion, variance / mean, requests arrive in an open loop.
const DISPERSION_MIN: f64 = 1.0 / 3.0;

/// What of a tenant is here. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Presence {
    queued: u32,
    with_device: u32,
    /// Since when it has something here, or nothing; none before its first request.
    since: Option<Nanos>,
    /// Time in which it had nothing here, and all time before that, both fading.
    idle_seconds: f64,
    all_seconds: f64,
    /// Of those with the device when requests came that found nothing waiting.
    mean: f64,
    variance: f64,
}

impl Presence {
    /// A request has come, and waits. Whether it is sparse.
    pub(super) fn arrived(&mut self, now: Nanos) -> bool {
        self.come(now, true);
        let is_first = self.queued == 1;
        if is_first {
            self.count();
        }
        self.is_idle_at_times(now) || is_first && self.is_open_loop()
    }

    /// A request has come that has waited elsewhere: its tenant was not idle meanwhile.
    pub(super) fn arrived_late(&mut self, now: Nanos) {
        self.come(now, false);
    }

    /// One that waited was taken back.
    pub(super) fn withdrawn(&mut self, now: Nanos) {
        self.queued = self.queued.saturating_sub(1);
        self.go(now);
    }

    /// All that waited were taken back.
    pub(super) fn drained(&mut self) {
        self.queued = 0;
    }

    /// One went to the device. Those from before this was there are not counted.
    pub(super) fn started(&mut self) {
        self.queued = self.queued.saturating_sub(1);
        self.with_device += 1;
    }

    /// One is no longer with the device.
    pub(super) fn left(&mut self, now: Nanos) {
        self.with_device = self.with_device.saturating_sub(1);
        self.go(now);
    }

    fn is_here(&self) -> bool {
        self.queued + self.with_device > 0
    }

    fn come(&mut self, now: Nanos, is_sent_now: bool) {
        if !self.is_here() {
            self.pass(now, is_sent_now);
        }
        self.queued += 1;
    }

    fn go(&mut self, now: Nanos) {
        if !self.is_here() {
            self.pass(now, false);
        }
    }

    /// Time has passed in which it had something here, or nothing.
    fn pass(&mut self, now: Nanos, is_idle: bool) {
        let length = now.since(self.since.replace(now).unwrap_or(now));
        let length = if is_idle { length.min(PAUSE_MAX) } else { length };
        let (seconds, keep) = (length.as_secs_f64(), kept(length));
        self.idle_seconds = self.idle_seconds * keep + if is_idle { seconds } else { 0.0 };
        self.all_seconds = self.all_seconds * keep + seconds;
    }

    fn is_idle_at_times(&self, now: Nanos) -> bool {
        let busy = now.since(self.since.unwrap_or(now));
        let all_seconds = self.all_seconds * kept(busy) + busy.as_secs_f64();
        self.idle_seconds * kept(busy) > IDLE_MIN * all_seconds
    }

    fn count(&mut self) {
        let off = f64::from(self.with_device) - self.mean;
        self.mean += (1.0 - COUNTS_KEPT) * off;
        self.variance = COUNTS_KEPT * (self.variance + (1.0 - COUNTS_KEPT) * off * off);
    }

    fn is_open_loop(&self) -> bool {
        self.variance > DISPERSION_MIN * self.mean
    }
}

/// What is left of what was before this.
fn kept(length: Span) -> f64 {
    exponential(-length.as_secs_f64() / MEMORY.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// For two seconds, so much of every 100 ms.
    fn here_for(busy_ms: u64, is_sent_now: bool) -> Presence {
        let mut tenant = Presence::default();
        for begin in (0..20).map(|n| 100 * n) {
            tenant.come(at(begin), is_sent_now);
            tenant.started();
            tenant.left(at(begin + busy_ms));
        }
        tenant
    }

    #[test]
    fn whoever_has_nothing_here_at_times_sends_now_and_then() {
        let is_idle = |tenant: Presence| tenant.is_idle_at_times(at(2000));
        assert!(!is_idle(Presence::default()), "nothing is known of it");
        assert!(is_idle(here_for(1, true)) && is_idle(here_for(90, true)));
        assert!(!is_idle(here_for(99, true)), "hardly ever");
        assert!(!is_idle(here_for(1, false)), "it waited for its own limit");
    }

    #[test]
    fn whoever_begins_to_ask_all_the_time_does_so_for_a_second_at_most() {
        let mut tenant = Presence::default();
        tenant.come(at(0), true);
        tenant.started();
        tenant.left(at(1));
        tenant.come(at(10_000), true);
        assert!(tenant.is_idle_at_times(at(10_100)) && !tenant.is_idle_at_times(at(11_000)));
    }

    /// Requests come one by one to a tenant that has so many with the device each time.
    fn counted(counts: impl Iterator<Item = u32>) -> Presence {
        let mut tenant = Presence::default();
        for with_device in counts {
            tenant.with_device = with_device;
            tenant.count();
        }
        tenant
    }

    #[test]
    fn a_closed_loop_is_no_open_one() {
        let in_a_loop = |depth: u32| counted(std::iter::repeat_n(depth - 1, 200));
        assert!([1, 2, 16].iter().all(|depth| !in_a_loop(*depth).is_open_loop()));
        // Starved for a while, now and then.
        let starved = counted((0..200).map(|n| if n % 20 < 4 { 4 * (n % 20) } else { 1 }));
        assert!(starved.is_open_loop(), "{starved:?}");
    }
}
