//! Zipf-distributed ranks in constant time and memory: rejection-inversion after Hoermann and
//! Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions"
//! (ACM TOMACS 6(3), 1996).
//!
//! The area under the continuous `h(x) = x^-theta` is inverted in closed form; where the curve and
//! the bars of the discrete distribution differ, the draw is repeated. At most about one draw in
//! ten is repeated, whatever the number of ranks.
//!
//! ```text
//! h |#
//!   |##         accept rank k if the point drawn under the curve lies within k's bar
//!   |###__
//!   |#######____________
//!   +1-2-3-----------------> rank
//! ```

use evenkeel_core::prng::Prng;

/// Draws ranks 1 to `ranks`, rank `k` with a probability proportional to `k^-theta`.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    ranks: f64,
    theta: f64,
    /// The integral of `h` up to one half below the first bar's right edge.
    integral_first: f64,
    integral_last: f64,
    /// Draws this close to their rank's centre are always accepted.
    shortcut: f64,
}

impl Zipf {
    /// A distribution over `ranks` ranks (at least 1) with skew `theta` above zero.
    pub(super) fn new(ranks: u64, theta: f64) -> Self {
        let mut zipf = Self {
            ranks: ranks.max(1) as f64,
            theta,
            integral_first: 0.0,
            integral_last: 0.0,
            shortcut: 0.0,
        };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(zipf.ranks + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.height(2.0));
        zipf
    }

    /// The next rank.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to ranks")]
    pub(super) fn draw(&self, prng: &mut Prng) -> u64 {
        loop {
            let span = self.integral_first - self.integral_last;
            let area = self.integral_last + prng.unit_f64() * span;
            let x = self.inverse(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.ranks);
            if rank - x <= self.shortcut || area >= self.integral(rank + 0.5) - self.height(rank) {
                return rank as u64;
            }
        }
    }

    fn height(&self, x: f64) -> f64 {
        x.powf(-self.theta)
    }

    /// `(x^(1-theta) - 1) / (1 - theta)`, which is `ln x` at theta 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        exp_minus_one_over((1.0 - self.theta) * log) * log
    }

    fn inverse(&self, area: f64) -> f64 {
        let scaled = (area * (1.0 - self.theta)).max(-1.0);
        (log_one_plus_over(scaled) * area).exp()
    }
}

/// `(e^x - 1) / x`, also near zero.
fn exp_minus_one_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// `ln(1 + x) / x`, also near zero.
fn log_one_plus_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
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
        for theta in [0.5, 0.99, 1.0, 1.2, 2.0] {
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
        let wide = Zipf::new(1 << 40, 0.99);
        assert!((0..10_000).all(|_| (1..=1 << 40).contains(&wide.draw(&mut prng))));
    }
}
