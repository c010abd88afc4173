//! How many different hashes were seen, in a fixed number of bytes.
//!
//! A hash chooses a register by its first bits; the register keeps the longest run of zeroes with
//! which the rest of a hash began. Many different hashes make long runs likely (Flajolet and
//! others, `HyperLogLog`, AOFA 2007). While registers are still empty, their share tells the number
//! better (linear counting).
//!
//! ```text
//! hash 0101|0001...    register 5: run of 3, keeps 4        error 1.04 / sqrt(registers)
//! ```

use evenkeel_core::float::natural_log;

/// A sketch of a set of hashes. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct HyperLogLog {
    registers: Vec<u8>,
    bits: u32,
}

impl HyperLogLog {
    /// `2^bits` registers of one byte; `bits` from 7 to 16.
    pub(super) fn new(bits: u32) -> Self {
        assert!((7..=16).contains(&bits), "the constants hold for 2^7 to 2^16 registers");
        Self { registers: vec![0; 1 << bits], bits }
    }

    /// Notes a hash, all of whose bits are random.
    #[inline]
    pub(super) fn add(&mut self, hash: u64) {
        let index = usize::try_from(hash >> (u64::BITS - self.bits)).unwrap_or(0);
        // The bit behind the hash's last bounds the run.
        let rest = hash << self.bits | 1 << (self.bits - 1);
        let rank = u8::try_from(rest.leading_zeros() + 1).unwrap_or(u8::MAX);
        self.registers[index] = self.registers[index].max(rank);
    }

    /// The estimated number of different hashes.
    pub(super) fn estimate(&self) -> u64 {
        let count = self.registers.len() as f64;
        // Sums of powers of two are exact as whole numbers.
        let sum: u128 = self.registers.iter().map(|&rank| 1u128 << (64 - u32::from(rank))).sum();
        let mean = sum as f64 / 2f64.powi(64);
        let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / mean;
        let empty: usize = self.registers.iter().map(|&rank| usize::from(rank == 0)).sum();
        let estimate = if raw <= 2.5 * count && empty > 0 {
            count * natural_log(count / empty as f64)
        } else {
            raw
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        let rounded = estimate.round() as u64;
        rounded
    }

    /// The standard deviation of the estimate by its value.
    pub(super) fn relative_error(&self) -> f64 {
        1.04 / (self.registers.len() as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::prng::Prng;

    #[test]
    fn the_estimate_is_within_four_deviations_from_none_to_millions() {
        for (seed, count) in (0..).zip([0u64, 1, 10, 1_000, 9_000, 12_000, 50_000, 1_000_000]) {
            let mut prng = Prng::new(seed);
            let mut sketch = HyperLogLog::new(12);
            for _ in 0..count {
                sketch.add(prng.next_u64());
            }
            let error = (sketch.estimate() as f64 - count as f64).abs();
            assert!(
                error <= 4.0 * sketch.relative_error() * count as f64 + 0.5,
                "{count}: {error}"
            );
        }
    }

    #[test]
    fn what_was_seen_counts_once() {
        let mut sketch = HyperLogLog::new(7);
        (0..1_000).for_each(|_| sketch.add(0x1234_5678_9ABC_DEF0));
        assert_eq!(sketch.estimate(), 1);
    }
}
