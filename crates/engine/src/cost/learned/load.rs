//! What is with a device, beside what it may have: whether it shows what requests take.
//!
//! It does while the device is full ([module](super)). Full is
//!
//! - a device that has as many requests as the depth in force allows;
//! - one that has all that it is ever asked for, about as many requests as it has had at most
//!   lately: in observe mode, where there is no depth, and where an automatic depth is what clients
//!   ask for, or the next one above. Costs that are wrong would hold the depth there: they make a
//!   change of the mix look like a loss of throughput.

use evenkeel_core::sched::Scheduler;
use evenkeel_core::time::{Nanos, Span};

/// The greatest number is remembered for one to two of these.
const PERIOD: Span = Span::from_millis(500);

/// How much a device has, and whether that shows what requests take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// What it may have.
    pub(super) depth: u64,
    /// It shows what requests take.
    pub(super) is_full: bool,
    /// Requests wait for a place.
    pub(super) has_queue: bool,
}

/// The greatest number of requests with a device lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crowd {
    peaks: [u32; 2],
    since: Nanos,
}

impl Crowd {
    /// The load of a device with so many requests that nobody orders. A power of two stands for the
    /// depth, so that it changes seldom.
    pub fn unordered(&mut self, now: Nanos, present: u32) -> Load {
        let peak = self.peak(now, present);
        let depth = u64::from(peak).next_power_of_two();
        Load { depth, is_full: is_all(present, peak), has_queue: false }
    }

    /// The load of a device with so many requests behind a scheduler, where others wait or not.
    pub fn behind(
        &mut self,
        now: Nanos,
        scheduler: &dyn Scheduler,
        present: u32,
        has_queue: bool,
    ) -> Load {
        let peak = self.peak(now, present);
        let depth = scheduler.depth_now();
        // The rung below would hold less than two thirds.
        let is_near = scheduler.depth_found().is_some() && u64::from(present) * 3 > depth * 2;
        let is_full = scheduler.is_full() || !has_queue && is_near && is_all(present, peak);
        Load { depth, is_full, has_queue }
    }

    fn peak(&mut self, now: Nanos, present: u32) -> u32 {
        if now.since(self.since) >= PERIOD {
            (self.peaks, self.since) = ([present, self.peaks[0]], now);
        }
        self.peaks[0] = self.peaks[0].max(present);
        self.peaks[0].max(self.peaks[1])
    }
}

/// Whether so many are about as many as there ever are.
fn is_all(present: u32, peak: u32) -> bool {
    present > 0 && u64::from(present) * 10 >= u64::from(peak) * 9
}

#[cfg(test)]
impl Load {
    /// A load without a crowd.
    pub(super) fn of(depth: u64, is_full: bool) -> Self {
        Self { depth, is_full, has_queue: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_while_all_are_there_that_ever_are() {
        let mut crowd = Crowd::default();
        let mut load = |millis: u64, present| {
            let load = crowd.unordered(Nanos(millis * 1_000_000), present);
            (load.depth, load.is_full)
        };
        assert_eq!(load(0, 0), (1, false));
        assert_eq!(load(1, 48), (64, true));
        assert_eq!(load(2, 44), (64, true));
        assert_eq!(load(3, 40), (64, false));
        // Fewer are there from now on.
        assert_eq!(load(600, 40), (64, false));
        assert_eq!(load(1200, 40), (64, true));
    }
}
