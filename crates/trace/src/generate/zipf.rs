//! Popularity by Zipf's law: the k-th most popular of n objects is chosen in proportion to k^-s.
//!
//! The first 32 ranks have a chance of their own. Behind them the ranks of every power of two share
//! 16 buckets, a rank is equally likely within its bucket, and a bucket's chance is the integral of
//! the law over it. So the law holds for every bucket, is off by about s/32 at a single rank, and a
//! draw needs no power function.
//!
//! ```text
//! rank     1 | 2 | 3 | .. | 32 | 33-34 | 35-36 | .. | 63-64 | 65-68 | 69-72 | ..
//! ```

use evenkeel_core::float::{exponential, natural_log};
use evenkeel_core::prng::Prng;

use super::choice::Choice;

/// Buckets per power of two.
const BUCKETS: u64 = 16;

/// Ranks from 0, the most popular first.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    buckets: Choice,
    /// The first rank of each bucket, and the end of the last.
    starts: Vec<u64>,
}

impl Zipf {
    /// `objects` (at least 1) under the exponent `skew`; 0 makes all equally likely. Each has the
    /// chance of so many ranks in a row.
    pub(super) fn grouped(objects: u64, skew: f64, ranks_each: u64) -> Self {
        let mut starts = vec![0];
        let mut next = 0u64;
        while next < objects {
            let width = ((next + 1).next_power_of_two() / 2 / BUCKETS).max(1);
            next = next.saturating_add(width).min(objects);
            starts.push(next);
        }
        let rank = |object: u64| object.saturating_mul(ranks_each);
        let weights = starts.windows(2).map(|ends| weight(rank(ends[0]), rank(ends[1]), skew));
        Self { buckets: Choice::new(weights.collect::<Vec<_>>()), starts }
    }

    /// Draws a rank.
    #[inline]
    pub(super) fn draw(&self, prng: &mut Prng) -> u64 {
        let bucket = self.buckets.draw(prng);
        let (start, end) = (self.starts[bucket], self.starts[bucket + 1]);
        if end - start == 1 { start } else { start + prng.below(end - start) }
    }
}

/// The chance of the ranks from `start` to before `end`, but for a common factor.
fn weight(start: u64, end: u64, skew: f64) -> f64 {
    let logarithm = |rank: u64, shift: f64| natural_log(rank as f64 + shift);
    if end - start == 1 {
        return exponential(-skew * logarithm(start, 1.0));
    }
    // Rank k (from 1) takes the law's integral from k - 1/2 to k + 1/2.
    let (low, high) = (logarithm(start, 0.5), logarithm(end, 0.5));
    let rest = 1.0 - skew;
    if rest.abs() < 1e-9 {
        return high - low;
    }
    (exponential(rest * high) - exponential(rest * low)) / rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_law() {
        for skew in [0.0, 0.5, 1.0, 1.3] {
            let zipf = Zipf::grouped(1_000, skew, 1);
            let mut prng = Prng::new(4);
            let mut counts = vec![0u32; 1_000];
            for _ in 0..200_000 {
                counts[usize::try_from(zipf.draw(&mut prng)).unwrap()] += 1;
            }
            let law: Vec<f64> = (1..=1_000).map(|rank| f64::from(rank).powf(-skew)).collect();
            let whole: f64 = law.iter().sum();
            for ends in [0..1, 1..4, 4..16, 16..100, 100..400, 400..1_000] {
                let expected = law[ends.clone()].iter().sum::<f64>() / whole * 200_000.0;
                let got = f64::from(counts[ends.clone()].iter().sum::<u32>());
                let error = (got - expected).abs();
                assert!(error < 5.0 * expected.sqrt() + 0.003 * expected, "{skew} {ends:?} {got}");
            }
        }
    }

    #[test]
    fn objects_of_many_ranks_have_the_same_part_of_the_draws() {
        let popular = |zipf: &Zipf, part: u64| {
            let mut prng = Prng::new(4);
            (0..100_000).filter(|_| zipf.draw(&mut prng) < part).count() as f64 / 100_000.0
        };
        let whole = Zipf::grouped(1 << 20, 0.9, 1);
        let divided = Zipf::grouped(1 << 12, 0.9, 1 << 8);
        for part in [1 << 4, 1 << 8, 1 << 11] {
            let [many, few] = [popular(&whole, part << 8), popular(&divided, part)];
            assert!((many - few).abs() < 0.01, "{part}: {many} {few}");
        }
    }

    #[test]
    fn the_edges_are_in_range() {
        let mut prng = Prng::new(4);
        assert_eq!(Zipf::grouped(1, 1.0, 1).draw(&mut prng), 0);
        let vast = Zipf::grouped(1 << 50, 0.3, 1);
        assert!((0..1_000).all(|_| vast.draw(&mut prng) < 1 << 50));
    }
}
