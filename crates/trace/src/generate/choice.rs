//! A choice among a few things, each with a weight.
//!
//! ```text
//! weights 1 1 2      sums 0.25 0.5 1      a draw of 0.3 in [0, 1) chooses the second
//! ```

use evenkeel_core::prng::Prng;

/// Indices with given chances. O(log choices) per draw.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    sums: Vec<f64>,
}

impl Choice {
    /// One index per weight; weights are finite, none negative, not all zero.
    pub(super) fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = weights
            .into_iter()
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        assert!(sum.is_finite() && sum > 0.0, "weights of sum {sum} choose nothing");
        for part in &mut sums {
            *part /= sum;
        }
        Self { sums }
    }

    /// Draws an index.
    #[inline]
    pub(super) fn draw(&self, prng: &mut Prng) -> usize {
        let draw = prng.unit_f64();
        // The last sum is 1 and the draw lies below, so that an index with a weight is found.
        self.sums.partition_point(|&sum| sum <= draw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_the_weights_and_nothing_without_a_weight_is_chosen() {
        let choice = Choice::new([0.0, 1.0, 0.0, 3.0, 0.0]);
        let mut prng = Prng::new(1);
        let mut counts = [0u32; 5];
        (0..40_000).for_each(|_| counts[choice.draw(&mut prng)] += 1);
        assert_eq!((counts[0], counts[2], counts[4]), (0, 0, 0));
        assert!((9_700..10_300).contains(&counts[1]), "{counts:?}");
    }
}
