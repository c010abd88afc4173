//! The sizes of requests: exact while there are few different ones, as nearly every trace has.
//!
//! Beyond a bound a new size is rounded up to one of eight steps per power of two, so that a
//! quantile is at most one eighth too large and the memory stays bounded. Mean and maximum stay
//! exact.
//!
//! ```text
//! sizes seen    512 x 10, 4096 x 80, 65536 x 9, 1048576 x 1      p50 4096, p99 65536
//! ```

use std::collections::BTreeMap;

use super::tally::Tally;

/// How many different sizes are kept exactly.
const EXACT_MAX: usize = 1024;

/// Steps per power of two for further sizes, as a shift.
const STEP_BITS: u32 = 3;

/// Sizes in bytes, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    tally: Tally,
    counts: BTreeMap<u64, u64>,
}

impl Sizes {
    /// Counts one request.
    #[inline]
    pub fn add(&mut self, size_bytes: u64) {
        self.add_times(size_bytes, 1);
    }

    /// Adds all that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (&size_bytes, &times) in &other.counts {
            self.count_rounded(size_bytes, times);
        }
        self.tally.merge(&other.tally);
    }

    /// Exact count, sum, mean and maximum.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The least size that a part `q` (0 to 1) of the requests does not exceed; `None` without a
    /// request.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let rank = ((q.clamp(0.0, 1.0) * self.tally.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().find(|&(_, &times)| {
            seen += times;
            seen >= rank
        });
        found.map(|(&size_bytes, _)| size_bytes.min(self.tally.max))
    }

    /// Sizes and how many requests had them, least first.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().map(|(&size_bytes, &times)| (size_bytes, times))
    }

    fn add_times(&mut self, size_bytes: u64, times: u64) {
        self.tally.add_times(size_bytes, times);
        self.count_rounded(size_bytes, times);
    }

    fn count_rounded(&mut self, size_bytes: u64, times: u64) {
        if let Some(count) = self.counts.get_mut(&size_bytes) {
            *count += times;
            return;
        }
        let is_exact = self.counts.len() < EXACT_MAX;
        let key = if is_exact { size_bytes } else { rounded_up(size_bytes) };
        *self.counts.entry(key).or_default() += times;
    }
}

fn rounded_up(size_bytes: u64) -> u64 {
    let bits = u64::BITS - size_bytes.leading_zeros();
    let rest = (1u64 << bits.saturating_sub(STEP_BITS + 1)) - 1;
    size_bytes.checked_add(rest).map_or(u64::MAX, |above| above & !rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_of_few_sizes_are_those_of_the_sorted_list(
            mut sizes in proptest::collection::vec(0u64..500, 1..300), q in 0.0f64..=1.0
        ) {
            let mut counted = Sizes::default();
            for &size_bytes in &sizes {
                counted.add(size_bytes);
            }
            sizes.sort_unstable();
            let rank = (q * sizes.len() as f64).ceil().max(1.0);
            let expected = sizes.iter().enumerate().find(|(index, _)| (index + 1) as f64 >= rank);
            prop_assert_eq!(counted.quantile(q), expected.map(|(_, &size_bytes)| size_bytes));
        }
    }

    #[test]
    fn many_sizes_cost_bounded_memory_and_at_most_an_eighth() {
        let mut counted = Sizes::default();
        (0..1_000_000u64).step_by(7).for_each(|size_bytes| counted.add(size_bytes));
        counted.add(u64::MAX);
        assert!(counted.counts.len() < EXACT_MAX + 64 * 8);
        let median = counted.quantile(0.5).unwrap();
        assert!((500_000..562_500).contains(&median), "{median}");
        assert_eq!(counted.quantile(1.0), Some(u64::MAX));
    }

    #[test]
    fn merging_equals_counting_in_one() {
        let (mut one, mut left, mut right) = <(Sizes, Sizes, Sizes)>::default();
        for size_bytes in [512, 4096, 512, 8192, 4096, 512] {
            one.add(size_bytes);
            if size_bytes == 512 { left.add(size_bytes) } else { right.add(size_bytes) }
        }
        left.merge(&right);
        assert_eq!(left, one);
    }
}
