//! Virtual time of fair queuing, in integers.
//!
//! A tag counts normalised service, `cost / weight`, in units of 2^-30 ns per thousandth of weight:
//! one nanosecond of device time at the least weight advances a tag by 2^30, at the greatest
//! (10^9 thousandths) by just over 1. What the division leaves over is carried to the tenant's next
//! request, so tags never drift from the exact sum.
//!
//! **They cannot overflow.** 100 years are less than 2^62 ns. A device that serves 2^16 requests at
//! a time, and a tenant charged for 2^16 servers like it ([`super::dsfq`]), advance a tag of the
//! least weight by at most 2^(62 + 16 + 16 + 30) = 2^124, which leaves room for sixteen such lives.

use std::ops::{Add, Sub};

use crate::ticket::Cost;

const FRACTION_BITS: u32 = 30;

/// A point in virtual time, or a distance between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag(pub(crate) u128);

impl Tag {
    /// The distance that `cost` advances the tags of so much weight by, rounded up.
    pub(crate) fn of(cost: Cost, weight_milli: u64) -> Self {
        Self((u128::from(cost.0) << FRACTION_BITS).div_ceil(u128::from(weight_milli)))
    }

    /// A quarter of this distance, rounded down.
    pub(crate) fn quarter(self) -> Self {
        Self(self.0 >> 2)
    }

    /// The distance of the same cost under another weight, rounded down.
    pub(crate) fn rescaled(self, before_milli: u32, after_milli: u32) -> Self {
        let (before, after) = (u128::from(before_milli.max(1)), u128::from(after_milli.max(1)));
        // The whole part first: the product of the two need not fit.
        let whole = (self.0 / after).saturating_mul(before);
        Self(whole.saturating_add(self.0 % after * before / after))
    }

    /// The upper and the lower half.
    pub(crate) fn halves(self) -> [u64; 2] {
        let low = u64::try_from(self.0 & u128::from(u64::MAX)).expect("masked");
        let high = u64::try_from(self.0 >> 64).expect("shifted");
        [high, low]
    }
}

impl Add for Tag {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Tag {
    type Output = Self;
    /// Zero if `other` lies ahead.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Turns costs into tag distances for one tenant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    weight_milli: u32,
    /// What earlier divisions left over; less than the weight.
    remainder: u32,
}

impl Scale {
    pub(crate) fn new(weight_milli: u32) -> Self {
        Self { weight_milli: weight_milli.max(1), remainder: 0 }
    }

    pub(crate) fn weight_milli(self) -> u32 {
        self.weight_milli
    }

    /// The distance that `cost` advances the tenant's tags by.
    pub(crate) fn advance(&mut self, cost: Cost) -> Tag {
        // Eight seconds of device time fit the quick division, which is nearly every request.
        if cost.0 < 1 << (63 - FRACTION_BITS) {
            let scaled = (cost.0 << FRACTION_BITS) + u64::from(self.remainder);
            let weight = u64::from(self.weight_milli);
            self.remainder = narrow(scaled % weight);
            Tag(u128::from(scaled / weight))
        } else {
            let scaled = (u128::from(cost.0) << FRACTION_BITS) + u128::from(self.remainder);
            let weight = u128::from(self.weight_milli);
            self.remainder = narrow(u64::try_from(scaled % weight).expect("below a u32"));
            Tag(scaled / weight)
        }
    }
}

fn narrow(remainder: u64) -> u32 {
    u32::try_from(remainder).expect("a remainder is less than its divisor, a u32")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_advances_equal_one_large_one() {
        for weight_milli in [1, 3, 7_001, 999_999_937, 1_000_000_000] {
            let mut scale = Scale::new(weight_milli);
            let sum = (0..100_000).fold(Tag(0), |sum, _| sum + scale.advance(Cost(1_001)));
            assert_eq!(sum, Scale::new(weight_milli).advance(Cost(100_100_000)));
        }
    }

    #[test]
    fn a_distance_is_of_the_same_cost_under_another_weight() {
        let cost = Cost(1_000_001);
        for (before, after) in [(1, 1_000_000_000), (1_000_000_000, 1), (3000, 1000), (7, 7)] {
            let rescaled = Scale::new(before).advance(cost).rescaled(before, after);
            let fresh = Scale::new(after).advance(cost);
            let off = rescaled.0.abs_diff(fresh.0);
            assert!(off <= 1 + u128::from(before) / u128::from(after), "{rescaled:?} {fresh:?}");
        }
    }

    #[test]
    fn the_quick_and_the_wide_division_agree_at_their_border() {
        let border = 1u64 << (63 - FRACTION_BITS);
        for weight_milli in [1, 1_000, u32::MAX] {
            let narrow = Scale::new(weight_milli).advance(Cost(border - 1));
            let wide = Scale::new(weight_milli).advance(Cost(border));
            let step = (1u128 << FRACTION_BITS).div_ceil(u128::from(weight_milli));
            assert!(wide >= narrow && wide - narrow <= Tag(step));
        }
    }

    #[test]
    fn the_least_cost_at_the_greatest_weight_still_advances() {
        assert_eq!(Scale::new(1_000_000_000).advance(Cost(1)), Tag(1));
    }

    #[test]
    fn a_century_at_the_least_weight_fits() {
        let mut scale = Scale::new(1);
        let century = scale.advance(Cost(100 * 366 * 86_400 * 1_000_000_000));
        assert!(century.0.checked_mul(1 << 32).is_some_and(|most| most < 1 << 124));
    }
}
