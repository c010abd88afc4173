//! Zipf-distributed ranks in constant time and memory, by rejection-inversion (Hoermann and
//! Derflinger, ACM Transactions on Modeling and Computer Simulation 6(3), 1996).
//!
//! The continuous curve `h(x) = x^-theta` lies close to the bars of the discrete distribution and
//! can be inverted. A point is drawn below the curve; if it falls outside its rank's bar, another
//! one is drawn, which happens about once in ten draws at the most. Logarithms and exponentials are
//! those of [`crate::float`], so that every platform draws the same ranks.

use crate::float::{exponential, natural_log};
use crate::prng::Prng;

/// Below this the first terms of a series are more exact than a difference.
const NEAR_ZERO: f64 = 1e-5;

/// Draws ranks 1 to `ranks`, rank `k` with a probability proportional to `k^-theta`.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    ranks: f64,
    theta: f64,
    /// The area up to the middle between the first two ranks, less the first bar.
    area_first: f64,
    area_last: f64,
    /// Points this close to their rank's centre lie in its bar for sure.
    certain: f64,
}

impl Zipf {
    /// A distribution over `ranks` ranks (at least 1) with skew `theta` above zero.
    pub(super) fn new(ranks: u64, theta: f64) -> Self {
        let ranks = ranks.max(1) as f64;
        let mut zipf = Self { ranks, theta, area_first: 0.0, area_last: 0.0, certain: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(ranks + 0.5);
        zipf.certain = 2.0 - zipf.inverse(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// The next rank.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to ranks")]
    pub(super) fn draw(&self, prng: &mut Prng) -> u64 {
        loop {
            let width = self.area_first - self.area_last;
            let area = self.area_last + prng.unit_f64() * width;
            let x = self.inverse(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.ranks);
            if rank - x <= self.certain || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64;
            }
        }
    }

    fn height(&self, x: f64) -> f64 {
        exponential(-self.theta * natural_log(x))
    }

    /// `(x^(1-theta) - 1) / (1-theta)`, which is `ln x` at theta 1.
    fn area(&self, x: f64) -> f64 {
        let log = natural_log(x);
        let scaled = (1.0 - self.theta) * log;
        let factor = if scaled.abs() < NEAR_ZERO {
            1.0 + scaled / 2.0 + scaled * scaled / 6.0
        } else {
            (exponential(scaled) - 1.0) / scaled
        };
        factor * log
    }

    fn inverse(&self, area: f64) -> f64 {
        let scaled = (area * (1.0 - self.theta)).max(f64::EPSILON - 1.0);
        let factor = if scaled.abs() < NEAR_ZERO {
            1.0 - scaled / 2.0 + scaled * scaled / 3.0
        } else {
            natural_log(1.0 + scaled) / scaled
        };
        exponential(factor * area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(ranks: u64, theta: f64, draws: u32) -> Vec<f64> {
        let (zipf, mut prng) = (Zipf::new(ranks, theta), Prng::new(5));
        let mut counts = vec![0u32; usize::try_from(ranks).unwrap()];
        for _ in 0..draws {
            counts[usize::try_from(zipf.draw(&mut prng)).unwrap() - 1] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / f64::from(draws)).collect()
    }

    #[test]
    fn ranks_are_drawn_as_often_as_the_formula_says() {
        for theta in [0.5, 0.99, 1.0, 1.000_001, 1.2, 2.0] {
            let got = frequencies(20, theta, 200_000);
            let norm: f64 = (1..=20).map(|k| f64::from(k).powf(-theta)).sum();
            for (k, frequency) in (1..=20).zip(got) {
                let expected = f64::from(k).powf(-theta) / norm;
                let slack = 5.0 * (expected / 200_000.0).sqrt();
                assert!(
                    (frequency - expected).abs() < slack,
                    "theta {theta} rank {k}: {frequency} for {expected}"
                );
            }
        }
    }

    #[test]
    fn one_rank_and_very_many_ranks_stay_in_range() {
        let mut prng = Prng::new(1);
        assert_eq!(Zipf::new(1, 0.99).draw(&mut prng), 1);
        for theta in [0.2, 0.99, 3.0] {
            let wide = Zipf::new(1 << 40, theta);
            assert!((0..10_000).all(|_| (1..=1 << 40).contains(&wide.draw(&mut prng))));
        }
    }
}
