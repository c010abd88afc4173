//! Sizes of requests: a few, each with a weight, since that is what real requests have.
//!
//! Where only the mean is known, sizes are powers of two and each is r times as likely as the one
//! below it: among all mixes of these sizes that decay or grow steadily, one has the given mean.
//!
//! ```text
//! 4 to 32 KiB, mean 10 KiB      4 KiB x .45   8 KiB x .28   16 KiB x .17   32 KiB x .10
//! ```

/// Sizes in bytes and their weights.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeMix {
    /// Size in bytes, weight. Weights need not sum to one.
    pub sizes: Vec<(u64, f64)>,
}

impl SizeMix {
    /// One size.
    pub fn fixed(size_bytes: u64) -> Self {
        Self { sizes: vec![(size_bytes, 1.0)] }
    }

    /// Powers of two from `least_bytes` to `most_bytes` with a mean of `mean_bytes`, which lies
    /// between them.
    pub fn with_mean(least_bytes: u64, most_bytes: u64, mean_bytes: f64) -> Self {
        let ladder =
            std::iter::successors(Some(least_bytes), |size_bytes| size_bytes.checked_mul(2));
        let ladder: Vec<u64> = ladder.take_while(|&size_bytes| size_bytes <= most_bytes).collect();
        let mix = |ratio: f64| {
            let weights = std::iter::successors(Some(1.0), move |weight| Some(weight * ratio));
            Self { sizes: ladder.iter().copied().zip(weights).collect() }
        };
        // The mean grows with the ratio, which is searched as low / (1 - low) with low in (0, 1).
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if mix(middle / (1.0 - middle)).mean_bytes() < mean_bytes {
                low = middle;
            } else {
                high = middle;
            }
        }
        mix(low / (1.0 - low))
    }

    /// The mean size.
    pub fn mean_bytes(&self) -> f64 {
        let (weighted, weights) = self.sizes.iter().fold((0.0, 0.0), |sums, &(size, weight)| {
            (sums.0 + size as f64 * weight, sums.1 + weight)
        });
        weighted / weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_with_a_mean_has_it() {
        for mean in [4_200.0, 10_650.0, 40_000.0, 63_386.0, 120_000.0] {
            let mix = SizeMix::with_mean(4096, 131_072, mean);
            assert_eq!(mix.sizes.len(), 6);
            assert!((mix.mean_bytes() - mean).abs() < 1e-6 * mean, "{mean}: {mix:?}");
        }
    }

    #[test]
    fn the_worked_example_holds() {
        let mix = SizeMix::with_mean(4096, 32_768, 10_240.0);
        let sum: f64 = mix.sizes.iter().map(|(_, weight)| weight).sum();
        let shares: Vec<f64> =
            mix.sizes.iter().map(|(_, weight)| (weight / sum * 100.0).round()).collect();
        assert_eq!(shares, [45.0, 28.0, 17.0, 10.0]);
    }
}
