//! A keyed permutation of the numbers below any bound, computed and not stored.
//!
//! A Feistel network permutes the numbers of 2b bits: it halves the word and mixes one half into
//! the other, back and forth, which can be undone whatever the mixing function (Luby and Rackoff,
//! How to construct pseudorandom permutations, SIAM Journal on Computing 1988). A bound that is no
//! such power is met by walking: what falls beyond it is permuted again until it falls below, which
//! is still a permutation (Black and Rogaway, Ciphers with arbitrary finite domains, CT-RSA 2002).
//! The power is less than four times the bound, so that a walk takes less than four steps on
//! average.
//!
//! ```text
//! bound 10, words of 4 bits    3 -> 12 -> 7      so 3 becomes 7: 12 is beyond the bound
//! ```

use super::siphash::Key;

/// Small domains need more rounds than the four of theory to look random.
const ROUNDS: u64 = 8;

/// A permutation of the numbers below its bound. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    key: Key,
    bound: u64,
    half_bits: u32,
}

impl Permutation {
    /// The permutation that `key` determines, of the numbers below `bound`.
    pub fn new(key: Key, bound: u64) -> Self {
        let bits = u64::BITS - bound.saturating_sub(1).leading_zeros();
        Self { key, bound, half_bits: bits.div_ceil(2).max(1) }
    }

    /// What `number`, which lies below the bound, becomes.
    pub fn of(&self, number: u64) -> u64 {
        assert!(number < self.bound, "{number} is not below {}", self.bound);
        let mut image = self.step(number);
        while image >= self.bound {
            image = self.step(image);
        }
        image
    }

    fn step(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (self.key.hash_words([right, round]) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_below_the_bound_comes_once(bound in 1u64..600, key: [u8; 16]) {
            let permutation = Permutation::new(Key::new(key), bound);
            let mut images: Vec<u64> = (0..bound).map(|number| permutation.of(number)).collect();
            images.sort_unstable();
            prop_assert!(images.into_iter().eq(0..bound));
        }
    }

    #[test]
    fn the_largest_bounds_work() {
        for bound in [1 << 63, u64::MAX] {
            let permutation = Permutation::new(Key::new([7; 16]), bound);
            assert!(permutation.of(bound - 1) < bound);
            assert_ne!(permutation.of(0), permutation.of(1));
        }
    }
}
