//! What requests take of a device, as the gates before it agree on: shares over several gates add
//! up what each has served, so that they have to count alike.
//!
//! A gate learns it while it is alone before the device; beside others it sees what they do as
//! well, and cannot tell it apart. So each tells the best that it knows of, its own or another's,
//! and takes over what is better: written by a policy before learned, and of what was learned that
//! of the most load. All that hear each other come to the same, in whatever order words come, and
//! a gate that starts anew learns it from the others.
//!
//! ```text
//!   a learned it of 40 s of load    a: 40 s   b: nothing   c: 5 s
//!   each hears the others           a: 40 s   b: 40 s      c: 40 s      all by a's
//!   a restarts                      a: 40 s again, from b or c
//! ```

use crate::time::Span;

/// One direction: `fixed + bytes / rate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    /// Time that any request takes; at most [`FIXED_MAX`].
    pub fixed: Span,
    /// Bytes per second on top; at least 1.
    pub rate_bytes: u64,
}

/// What requests take, and how well that is known: of two the greater counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArrayCost {
    /// Seconds of load that it was learned from, at most [`LOAD_MAX_S`]; [`WRITTEN`] if a policy
    /// says it.
    pub load_s: u32,
    /// Reads.
    pub read: Rate,
    /// Writes.
    pub write: Rate,
    /// A flush, which has no bytes; at most [`FIXED_MAX`].
    pub flush: Span,
}

/// What was learned of so much load is as good as what was learned of more.
pub const LOAD_MAX_S: u32 = 600;

/// For [`ArrayCost::load_s`]: a policy says so.
pub const WRITTEN: u32 = LOAD_MAX_S + 1;

/// No request takes longer by itself.
pub const FIXED_MAX: Span = Span::from_secs(3600);

impl ArrayCost {
    /// Whether its figures can be those of a device. What others tell has to be held against this.
    pub fn is_plausible(&self) -> bool {
        let is_fixed = |time: Span| time <= FIXED_MAX;
        let is_rate = |rate: Rate| is_fixed(rate.fixed) && rate.rate_bytes > 0;
        let is_load = (1..=WRITTEN).contains(&self.load_s);
        is_load && is_rate(self.read) && is_rate(self.write) && is_fixed(self.flush)
    }

    /// Whether a policy says so.
    pub fn is_written(&self) -> bool {
        self.load_s == WRITTEN
    }
}

/// The best that is known. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreed(Option<ArrayCost>);

impl Agreed {
    /// Somebody knows it so; true if that is better than what was known.
    pub fn hear(&mut self, cost: ArrayCost) -> bool {
        let is_better = cost.is_plausible() && self.0.is_none_or(|known| cost > known);
        if is_better {
            self.0 = Some(cost);
        }
        is_better
    }

    /// The best that is known.
    pub fn cost(&self) -> Option<ArrayCost> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(load_s: u32, fixed_us: u64) -> ArrayCost {
        let rate = Rate { fixed: Span::from_micros(fixed_us), rate_bytes: 1 << 20 };
        ArrayCost { load_s, read: rate, write: rate, flush: Span::ZERO }
    }

    #[test]
    fn all_come_to_the_same_in_whatever_order() {
        let all = [cost(5, 900), cost(40, 100), cost(40, 200), cost(WRITTEN, 7)];
        for first in 0..all.len() {
            let mut agreed = Agreed::default();
            let order = (0..all.len()).map(|index| all[(first + index) % all.len()]);
            order.for_each(|cost| _ = agreed.hear(cost));
            assert_eq!(agreed.cost(), Some(all[3]), "what is written counts most");
        }
        let mut agreed = Agreed::default();
        assert!(agreed.hear(all[0]) && agreed.hear(all[2]));
        assert!(!agreed.hear(all[1]) && !agreed.hear(all[2]), "nothing new");
        assert_eq!(agreed.cost(), Some(all[2]));
    }

    #[test]
    fn figures_of_no_device_do_not_count() {
        let good = cost(40, 100);
        let no_rate = Rate { rate_bytes: 0, ..good.read };
        let endless = Rate { fixed: Span::from_secs(3601), ..good.read };
        for bad in [
            ArrayCost { load_s: 0, ..good },
            ArrayCost { load_s: WRITTEN + 1, ..good },
            ArrayCost { read: no_rate, ..good },
            ArrayCost { write: endless, ..good },
            ArrayCost { flush: Span(u64::MAX), ..good },
        ] {
            let mut agreed = Agreed::default();
            assert!(!agreed.hear(bad) && agreed.cost().is_none(), "{bad:?}");
        }
    }
}
