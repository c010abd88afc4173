//! Device time that tenants were given, as measured.
//!
//! The time for which anything was with a device, but for its stalls, is divided among tenants by
//! what their units took of it that came back meanwhile: by learned weights, whatever the policy
//! says that requests cost.
//!
//! ```text
//! busy for 100 ms     a: 60 units of weight 1    b: 3 of weight 20     50 ms each
//! ```
//!
//! The parts add up to the time in which the device was busy: over a saturated second of a device
//! that serves one at a time, to a second. Where it serves many at once they do, too: a tenant's
//! part of the device, as time. Of a device with little to do, whoever asks is given all the time
//! that it takes.
//!
//! A unit belongs to the time in which it was served, not to that in which it came back. So time
//! is divided when enough has come back, when nothing is there any more, or at last after a second.

/// So many units are enough.
const UNITS: u32 = 32;
/// Ticks after which time is divided among whatever has come back.
const TICKS_MAX: u32 = 10;

/// Busy time of one server that is not divided yet, and what came back in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undivided {
    time_ns: u64,
    weight: u64,
    units: u32,
    ticks: u32,
}

/// Divides a server's time; see [`Undivided::divide`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    time_ns: u64,
    weight: u64,
    /// What is given out, for this much weight.
    given_ns: u64,
    given_weight: u64,
}

impl Undivided {
    /// The device was busy for so long.
    pub(super) fn busy(&mut self, time_ns: u64) {
        self.time_ns += time_ns;
    }

    /// A unit of this weight came back.
    pub(super) fn served(&mut self, weight: u64) {
        self.weight = self.weight.saturating_add(weight);
        self.units += 1;
    }

    /// A tick has passed. The time to divide, if it is to be divided now.
    pub(super) fn divide(&mut self, is_idle: bool) -> Option<Division> {
        self.ticks += 1;
        let is_due = self.units >= UNITS || is_idle || self.ticks >= TICKS_MAX;
        if self.units == 0 || !is_due {
            return None;
        }
        let Self { time_ns, weight, .. } = std::mem::take(self);
        Some(Division { time_ns, weight, given_ns: 0, given_weight: 0 })
    }

    /// Weights are in another unit: what came back until now is forgotten, but not the time.
    pub(super) fn restart(&mut self) {
        *self = Self { time_ns: self.time_ns, ..Self::default() };
    }
}

impl Division {
    /// The part of whoever had so much. All parts add up to the time.
    pub(super) fn part(&mut self, weight: u64) -> u64 {
        self.given_weight = self.given_weight.saturating_add(weight).min(self.weight);
        let until = u128::from(self.time_ns) * u128::from(self.given_weight)
            / u128::from(self.weight.max(1));
        let until_ns = u64::try_from(until).expect("a part of the time");
        until_ns - std::mem::replace(&mut self.given_ns, until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_go_by_weight_and_add_up() {
        let mut undivided = Undivided::default();
        undivided.busy(100);
        (0..60).for_each(|_| undivided.served(1));
        (0..3).for_each(|_| undivided.served(20));
        let mut division = undivided.divide(false).expect("it is enough");
        assert_eq!([60, 60].map(|weight| division.part(weight)), [50, 50]);
        undivided.busy(10);
        (0..32).for_each(|_| undivided.served(3));
        let mut division = undivided.divide(false).expect("it is enough");
        let parts = [9, 30, 57].map(|weight| division.part(weight));
        assert_eq!(parts.iter().sum::<u64>(), 10, "{parts:?}");
    }

    #[test]
    fn a_long_unit_is_waited_for() {
        let mut undivided = Undivided::default();
        for _ in 1..TICKS_MAX {
            undivided.busy(100);
            undivided.served(1);
            assert!(undivided.divide(false).is_none());
        }
        undivided.busy(100);
        undivided.served(991);
        let mut division = undivided.divide(false).expect("a second has passed");
        assert_eq!([9, 991].map(|weight| division.part(weight)), [9, 991]);
        undivided.busy(5);
        undivided.served(1);
        assert!(undivided.divide(true).is_some(), "nothing is there any more");
    }

    #[test]
    fn time_in_which_nothing_comes_back_is_kept() {
        let mut undivided = Undivided::default();
        (0..100).for_each(|_| {
            undivided.busy(100);
            assert!(undivided.divide(false).is_none());
        });
        undivided.served(7);
        assert_eq!(undivided.divide(false).expect("it is back").part(7), 10_000);
    }
}
