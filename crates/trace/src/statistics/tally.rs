//! Exact count, mean and spread of a quantity from integer sums: no rounding until the end, and the
//! same result in whatever order values come or parts are merged.
//!
//! ```text
//! values 1 3 8      count 3, sum 12, squares 74      mean 4, variance 74/3 - 16 = 8.67
//! ```

/// Sums of values and of their squares. Squares saturate at 2^128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub sum: u128,
    /// The sum of their squares.
    pub squares: u128,
    /// The largest.
    pub max: u64,
}

impl Tally {
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_times(value, 1);
    }

    /// Counts a value several times.
    #[inline]
    pub fn add_times(&mut self, value: u64, times: u64) {
        let (wide, times_wide) = (u128::from(value), u128::from(times));
        self.count += times;
        self.sum += wide * times_wide;
        self.squares = self.squares.saturating_add((wide * wide).saturating_mul(times_wide));
        self.max = if times > 0 { self.max.max(value) } else { self.max };
    }

    /// Adds all that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares = self.squares.saturating_add(other.squares);
        self.max = self.max.max(other.max);
    }

    /// The mean; `None` without a value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The mean squared distance from the mean; `None` without a value.
    pub fn variance(&self) -> Option<f64> {
        let mean = self.mean()?;
        // The subtraction is done on whole numbers where they fit, since both terms may be huge
        // and close to each other.
        let count = u128::from(self.count);
        let exact = self.squares.checked_mul(count).zip(self.sum.checked_mul(self.sum));
        Some(match exact {
            Some((left, right)) => left.saturating_sub(right) as f64 / (count * count) as f64,
            None => (self.squares as f64 / self.count as f64 - mean * mean).max(0.0),
        })
    }

    /// Standard deviation by mean; `None` if there is no value or the mean is zero.
    pub fn variation(&self) -> Option<f64> {
        let mean = self.mean().filter(|&mean| mean > 0.0)?;
        Some(self.variance()?.sqrt() / mean)
    }

    /// Variance by mean; `None` if there is no value or the mean is zero.
    pub fn dispersion(&self) -> Option<f64> {
        let mean = self.mean().filter(|&mean| mean > 0.0)?;
        Some(self.variance()? / mean)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_two_passes_over_the_values(
            values in proptest::collection::vec(0u64..1 << 50, 1..100)
        ) {
            let mut tally = Tally::default();
            for &value in &values {
                tally.add(value);
            }
            let count = values.len() as f64;
            let mean = values.iter().map(|&value| value as f64).sum::<f64>() / count;
            let squares = values.iter().map(|&value| (value as f64 - mean) * (value as f64 - mean));
            let variance = squares.sum::<f64>() / count;
            prop_assert!((tally.mean().unwrap() - mean).abs() <= 1e-9 * mean);
            prop_assert!((tally.variance().unwrap() - variance).abs() <= 1e-6 * variance + 1e-6);
        }
    }

    #[test]
    fn nothing_has_no_mean_and_zeroes_no_variation() {
        assert_eq!(Tally::default().mean(), None);
        let mut zeroes = Tally::default();
        zeroes.add_times(0, 5);
        assert_eq!((zeroes.mean(), zeroes.variation()), (Some(0.0), None));
    }

    #[test]
    fn merging_equals_counting_in_one() {
        let (mut one, mut left, mut right) = <(Tally, Tally, Tally)>::default();
        for value in [3, 1, 4, 1, 5, 9] {
            one.add(value);
            if value % 2 == 0 { left.add(value) } else { right.add(value) }
        }
        left.merge(&right);
        assert_eq!(left, one);
    }
}
