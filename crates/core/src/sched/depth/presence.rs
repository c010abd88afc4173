//! Whether a tenant sends now and then, or always has requests outstanding.
//!
//! ```text
//! always asks         |----------------------------|   a closed loop: asks anew when answered
//! now and then        |-|  |-|  |--------|-|  |-|      has nothing here for part of the time
//! starved for good    |-1-3-2-5-9-17-32-4-1-2-9-..     what it has here varies
//! ```
//!
//! Two signs tell, either of which is enough:
//!
//! - **It has nothing here for a twentieth of the time**, neither waiting nor with the device. A
//!   client in a closed loop always has something here, be it ever so little.
//! - **What it has here varies, and is often with the device as a whole.** In an open loop requests
//!   arrive whatever became of those before: how many are here has a variance like its mean (a
//!   Poisson process), and rises and falls while the device starves them. In a closed loop it is
//!   nearly the same at all times. But of a tenant that asks for more than its share the gate
//!   always has something waiting, in an open loop too; its requests wait for its own sake.
//!
//! All of its requests count then: while the device starves some, it sends on, or sends afterwards
//! at once what it could not.

use crate::float::exponential;
use crate::time::{Nanos, Span};

/// It has nothing here for so great a part of the time ..
const IDLE_MIN: f64 = 0.05;
/// .. or nothing waiting for that, and what it has here varies by this, as variance / mean squared.
const VARIATION_MIN: f64 = 0.15;
/// All this of the last second or so, of which this much is added up at a time. A pause says no
/// more than that, however long it is.
const MEMORY: Span = Span::from_secs(1);
const STEP: Span = Span::from_millis(100);

/// What of a tenant is here. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Presence {
    queued: u32,
    with_device: u32,
    /// Since when it has as much here as now; none before its first request.
    since: Option<Nanos>,
    /// Of the last second or so, and of the step that is not yet a part of it.
    sums: Sums,
    step: Sums,
}

/// Integrals over time, in seconds, of how many are here.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    all: f64,
    /// Time in which it had nothing here, and in which nothing waited.
    idle: f64,
    unqueued: f64,
    here: f64,
    squares: f64,
}

impl Presence {
    /// A request has come, and waits. Whether it is sparse.
    pub(super) fn arrived(&mut self, now: Nanos) -> bool {
        self.pass(now, true);
        self.queued += 1;
        // Of a step that is not over yet little fades, so that two terms of the series will do.
        let part = self.step.all.min(STEP.as_secs_f64()) / MEMORY.as_secs_f64();
        let mut sums = self.sums;
        sums.add(&self.step, 1.0 - part * (1.0 - part / 2.0));
        sums.is_idle_at_times() || sums.varies()
    }

    /// A request has come that has waited elsewhere: its tenant was not idle meanwhile.
    pub(super) fn arrived_late(&mut self, now: Nanos) {
        self.pass(now, false);
        self.queued += 1;
    }

    /// One that waited was taken back.
    pub(super) fn withdrawn(&mut self, now: Nanos) {
        self.pass(now, false);
        self.queued = self.queued.saturating_sub(1);
    }

    /// All that waited were taken back.
    pub(super) fn drained(&mut self) {
        self.queued = 0;
    }

    /// One went to the device. Those from before this was there are not counted.
    pub(super) fn started(&mut self, now: Nanos) {
        self.pass(now, false);
        self.queued = self.queued.saturating_sub(1);
        self.with_device += 1;
    }

    /// One is no longer with the device.
    pub(super) fn left(&mut self, now: Nanos) {
        self.pass(now, false);
        self.with_device = self.with_device.saturating_sub(1);
    }

    /// Time has passed in which this was here; if nothing was, that counts if it was idle.
    fn pass(&mut self, now: Nanos, is_idle: bool) {
        let length = now.since(self.since.replace(now).unwrap_or(now));
        let here = self.queued + self.with_device;
        if here == 0 && !is_idle {
            return;
        }
        let length = if here == 0 { length.min(STEP) } else { length };
        self.step.pass(length.as_secs_f64(), here, self.queued);
        if self.step.all >= STEP.as_secs_f64() {
            let step = std::mem::take(&mut self.step);
            self.sums.add(&step, exponential(-step.all / MEMORY.as_secs_f64()));
        }
    }
}

impl Sums {
    fn pass(&mut self, seconds: f64, here: u32, queued: u32) {
        self.all += seconds;
        self.idle += if here == 0 { seconds } else { 0.0 };
        self.unqueued += if queued == 0 { seconds } else { 0.0 };
        self.here += seconds * f64::from(here);
        self.squares += seconds * f64::from(here) * f64::from(here);
    }

    /// Another step has passed, and this part of what was before is kept.
    fn add(&mut self, step: &Self, keep: f64) {
        self.all = self.all * keep + step.all;
        self.idle = self.idle * keep + step.idle;
        self.unqueued = self.unqueued * keep + step.unqueued;
        self.here = self.here * keep + step.here;
        self.squares = self.squares * keep + step.squares;
    }

    fn is_idle_at_times(&self) -> bool {
        self.idle > IDLE_MIN * self.all
    }

    fn varies(&self) -> bool {
        // variance / mean^2 = all * squares / here^2 - 1
        self.unqueued > IDLE_MIN * self.all
            && self.all * self.squares > (1.0 + VARIATION_MIN) * self.here * self.here
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    fn come(tenant: &mut Presence, now: Nanos) -> bool {
        let is_sparse = tenant.arrived(now);
        tenant.started(now);
        is_sparse
    }

    /// For two seconds, so much of every 100 ms.
    fn here_for(busy_ms: u64) -> bool {
        let mut tenant = Presence::default();
        for begin in (0..20).map(|n| 100 * n) {
            come(&mut tenant, at(begin));
            tenant.left(at(begin + busy_ms));
        }
        tenant.arrived(at(2000))
    }

    #[test]
    fn whoever_has_nothing_here_at_times_sends_now_and_then() {
        assert!(!Presence::default().arrived(at(0)), "nothing is known of it");
        assert!(here_for(1) && here_for(90));
        assert!(!here_for(99), "hardly ever");
    }

    #[test]
    fn what_waited_elsewhere_was_not_idle() {
        let mut tenant = Presence::default();
        for begin in (0..20).map(|n| 100 * n) {
            tenant.arrived_late(at(begin));
            tenant.started(at(begin));
            tenant.left(at(begin + 1));
        }
        tenant.arrived_late(at(2000));
        assert!(!tenant.arrived(at(2000)));
    }

    #[test]
    fn whoever_begins_to_ask_all_the_time_does_so_for_a_second_or_so() {
        let mut tenant = Presence::default();
        come(&mut tenant, at(0));
        tenant.left(at(1));
        assert!(come(&mut tenant, at(10_000)));
        for begin in (0..150).map(|n| 10_000 + 10 * n) {
            come(&mut tenant, at(begin));
            tenant.left(at(begin));
        }
        assert!(!tenant.arrived(at(11_500)));
    }

    /// A client with 32 requests at most, of which one comes every 10 ms, and those that could not
    /// at once. The device takes 2 ms for one, but starves all for so much of every 500 ms.
    fn starved(starved_ms: u64) -> (u32, u32) {
        let mut tenant = Presence::default();
        let (mut due, mut here, mut sparse, mut all) = (0_u32, 0_u32, 0, 0);
        for millis in 0..5000_u64 {
            due += u32::from(millis % 10 == 0);
            while due > 0 && here < 32 {
                let is_sparse = come(&mut tenant, at(millis));
                (due, here) = (due - 1, here + 1);
                let counts = millis > 2000;
                all += u32::from(counts);
                sparse += u32::from(counts && is_sparse);
            }
            if millis % 500 >= starved_ms && millis % 2 == 0 && here > 0 {
                tenant.left(at(millis));
                here -= 1;
            }
        }
        (sparse, all)
    }

    #[test]
    fn what_the_device_starves_counts_with_all_that_comes_afterwards_at_once() {
        for starved_ms in [0, 100, 300, 350] {
            let (sparse, all) = starved(starved_ms);
            assert!(sparse >= all * 9 / 10, "{starved_ms} ms: {sparse} of {all}");
        }
    }

    /// A closed loop, of which the device has at most so many; each goes on after a pause.
    fn closed(outstanding: u32, depth: u32, starved_ms: u64) -> u32 {
        let mut tenant = Presence::default();
        let (mut waiting, mut there, mut sparse) = (0, 0, 0);
        for millis in 0..5000_u64 {
            while waiting + there < outstanding {
                sparse += u32::from(tenant.arrived(at(millis)) && millis > 2000);
                waiting += 1;
            }
            while waiting > 0 && there < depth {
                tenant.started(at(millis));
                (waiting, there) = (waiting - 1, there + 1);
            }
            // In bursts of a quarter.
            if millis % 500 >= starved_ms && millis % 4 == 0 {
                for _ in 0..(outstanding / 4).max(1).min(there) {
                    tenant.left(Nanos(at(millis).0 + 500_000));
                    there -= 1;
                }
            }
        }
        sparse
    }

    #[test]
    fn a_closed_loop_is_no_open_one() {
        for (outstanding, depth) in [(2, 4), (16, 4), (16, 64), (32, 8), (32, 256)] {
            for starved_ms in [0, 200, 400] {
                assert_eq!(closed(outstanding, depth, starved_ms), 0, "{outstanding} at {depth}");
            }
        }
    }

    #[test]
    fn whoever_asks_for_more_than_it_gets_waits_for_its_own_sake() {
        let mut tenant = Presence::default();
        let mut sparse = 0;
        for millis in 0..5000_u64 {
            // An open loop: 3 every 10 ms in bursts, of which 2 are done.
            if millis % 100 == 0 {
                let is_late = millis > 2000;
                sparse +=
                    (0..30).map(|_| u32::from(tenant.arrived(at(millis)) && is_late)).sum::<u32>();
            }
            if millis % 5 == 0 {
                tenant.started(at(millis));
                tenant.left(Nanos(at(millis).0 + 500_000));
            }
        }
        assert_eq!(sparse, 0);
    }
}
