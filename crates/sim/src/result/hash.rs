//! The log hash: 64 bits that stand for every event of a run, in order.
//!
//! Two runs with the same hash took the same way; goldens and bug reports quote it. It mixes words
//! by multiplication, which is quick and spreads well; nobody is expected to forge one.

use evenkeel_core::time::Nanos;

/// The hash so far, and how many events went into it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogHash {
    state: u64,
    events: u64,
}

/// What an event is, as part of the hash. The numbers are frozen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    Reach = 1,
    Submit = 2,
    Answer = 3,
    Failure = 4,
    Finish = 5,
    Reply = 6,
    GateDown = 7,
    GateUp = 8,
    Policy = 9,
}

/// The golden ratio in 64 bits, and another odd number without pattern.
const FACTORS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];

impl LogHash {
    /// The hash of no event.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed ^ FACTORS[0], events: 0 }
    }

    /// Mixes in an event: what happened to whom, and when.
    #[inline]
    pub(crate) fn note(&mut self, at: Nanos, mark: Mark, subject: u32, amount: u64) {
        let what = ((mark as u64) << 56) ^ (u64::from(subject) << 20) ^ amount.rotate_left(7);
        let mixed = (self.state ^ at.0).wrapping_mul(FACTORS[0]);
        let mixed = ((mixed ^ (mixed >> 32)) ^ what).wrapping_mul(FACTORS[1]);
        self.state = mixed ^ (mixed >> 29);
        self.events += 1;
    }

    /// Events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// The hash so far.
    pub(crate) fn value(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(events: &[(u64, u32, u64)]) -> u64 {
        let mut hash = LogHash::new(1);
        for &(at, who, amount) in events {
            hash.note(Nanos(at), Mark::Reach, who, amount);
        }
        hash.value()
    }

    #[test]
    fn time_subject_amount_and_order_all_count() {
        let base = of(&[(1, 2, 3), (4, 5, 6)]);
        assert_eq!(base, of(&[(1, 2, 3), (4, 5, 6)]));
        for other in [
            of(&[(4, 5, 6), (1, 2, 3)]),
            of(&[(2, 2, 3), (4, 5, 6)]),
            of(&[(1, 3, 3), (4, 5, 6)]),
            of(&[(1, 2, 4), (4, 5, 6)]),
            of(&[(1, 2, 3)]),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn it_is_frozen() {
        assert_eq!(of(&[(1, 2, 3), (4, 5, 6)]), FROZEN);
    }

    const FROZEN: u64 = 4_754_809_769_930_950_755;
}
