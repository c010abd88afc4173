//! Slots of a host of which the last is there for a part of the time only.
//!
//! Where a device is full with two requests and three hosts share it, no whole number of slots
//! gives each its part. So a host has thousandths of slots: 2,250 are two slots at all times and a
//! third for a quarter of the time.
//!
//! ```text
//!   credit  0 --.        ,-------.        ,--       a slot for a quarter of the time: in use it
//!                `.   ,-'         `.   ,-'          costs 3/4 of the time, free it earns 1/4;
//!                  `-'              `-'             a request goes when nothing is owed
//! ```
//!
//! Nothing is saved up: a host that was idle has no more than its part afterwards.

use crate::time::{Nanos, Span};

/// The most that is owed: who sent one request to a device that hung for minutes need not wait for
/// minutes after that.
const DEBT_MAX: Span = Span::from_secs(1);

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    milli: u64,
    in_use: u32,
    /// Time that is owed for the last slot, in thousandths of it.
    debt_milli: u64,
    updated: Nanos,
}

/// Whether a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// Now.
    Now,
    /// At this instant, if nothing changes.
    At(Nanos),
    /// Not before one comes back.
    Never,
}

impl Slots {
    /// So many thousandths of a slot.
    pub fn new(milli: u64) -> Self {
        Self { milli, in_use: 0, debt_milli: 0, updated: Nanos::ZERO }
    }

    /// The thousandths in force.
    pub fn milli(&self) -> u64 {
        self.milli
    }

    /// From now on there are so many thousandths. What is in use stays so.
    pub fn set(&mut self, now: Nanos, milli: u64) {
        self.advance(now);
        self.milli = milli;
    }

    /// A request takes one.
    pub fn take(&mut self, now: Nanos) {
        self.advance(now);
        self.in_use += 1;
    }

    /// A request gives one back.
    pub fn give_back(&mut self, now: Nanos) {
        self.advance(now);
        self.in_use -= 1;
    }

    /// Whether one is free.
    pub fn free(&mut self, now: Nanos) -> Free {
        self.advance(now);
        let (whole, part_milli) = (self.milli / 1000, self.milli % 1000);
        match u64::from(self.in_use).cmp(&whole) {
            std::cmp::Ordering::Less => Free::Now,
            std::cmp::Ordering::Equal if part_milli == 0 => Free::Never,
            std::cmp::Ordering::Equal if self.debt_milli == 0 => Free::Now,
            std::cmp::Ordering::Equal => {
                Free::At(now + Span(self.debt_milli.div_ceil(part_milli).max(1)))
            }
            std::cmp::Ordering::Greater => Free::Never,
        }
    }

    fn advance(&mut self, now: Nanos) {
        let elapsed_ns = now.since(self.updated).0;
        self.updated = now;
        let (whole, part_milli) = (self.milli / 1000, self.milli % 1000);
        if u64::from(self.in_use) > whole {
            let owed = self.debt_milli.saturating_add(elapsed_ns.saturating_mul(1000 - part_milli));
            self.debt_milli = owed.min(DEBT_MAX.0.saturating_mul(1000));
        } else {
            let earned = elapsed_ns.saturating_mul(part_milli);
            self.debt_milli = self.debt_milli.saturating_sub(earned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean number in use over 10 s of a host that always has something to send, before a
    /// device that takes a millisecond.
    fn mean_in_use(milli: u64) -> f64 {
        let mut slots = Slots::new(milli);
        let mut done: Vec<Nanos> = Vec::new();
        let (mut now, mut slot_ns) = (Nanos::ZERO, 0);
        while now < Nanos::ZERO + Span::from_secs(10) {
            let mut next = Nanos(u64::MAX);
            loop {
                match slots.free(now) {
                    Free::Now => {
                        slots.take(now);
                        done.push(now + Span::from_millis(1));
                    }
                    Free::At(at) => {
                        assert!(at > now);
                        break next = at;
                    }
                    Free::Never => break,
                }
            }
            next = done.iter().copied().fold(next, Nanos::min);
            slot_ns += next.since(now).0 * u64::from(slots.in_use);
            now = next;
            while let Some(at) = done.iter().position(|at| *at <= now) {
                done.remove(at);
                slots.give_back(now);
            }
        }
        slot_ns as f64 / now.0 as f64
    }

    #[test]
    fn a_part_of_a_slot_is_in_use_for_that_part_of_the_time() {
        for milli in [50_u64, 250, 333, 1000, 1500, 2250, 2999, 7000] {
            let (mean, promised) = (mean_in_use(milli), milli as f64 / 1000.0);
            assert!((mean / promised - 1.0).abs() < 0.002, "{milli}: {mean}");
        }
    }

    #[test]
    fn nothing_is_saved_up_and_no_debt_is_for_ever() {
        let mut slots = Slots::new(250);
        let later = Nanos::ZERO + Span::from_secs(100);
        assert_eq!(slots.free(later), Free::Now);
        slots.take(later);
        assert_eq!(slots.free(later), Free::Never);
        let back = later + Span::from_secs(100);
        slots.give_back(back);
        assert_eq!(slots.free(back), Free::At(back + Span::from_secs(4)));
        slots.set(back, 1000);
        assert_eq!(slots.free(back), Free::Now, "a whole slot");
    }
}
