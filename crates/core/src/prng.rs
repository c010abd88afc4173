//! One small seeded generator, frozen for ever: goldens, seeds in bug reports and simulations
//! depend on its exact output, on every platform.
//!
//! The generator is xoshiro256** (Blackman and Vigna, 2018), its state filled by splitmix64 as its
//! authors advise. It is not for secrets.

use crate::float::natural_log;
use crate::time::Span;

/// A stream of pseudo-random numbers that its seed determines. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// The stream of `seed`; any seed is as good as another.
    pub fn new(seed: u64) -> Self {
        let mut mixer = seed;
        Self { state: std::array::from_fn(|_| splitmix64(&mut mixer)) }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let output = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let carried = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= carried;
        *d = d.rotate_left(45);
        output
    }

    /// A number below `bound`, each equally likely; `bound` is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number lies below zero");
        // Lemire's way: the high half of a product scales 64 random bits to the range; the few low
        // halves that would favour some numbers are drawn again.
        let unfair = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            let [low, high] = halves(product);
            if low >= unfair {
                return high;
            }
        }
    }

    /// A number in [0, 1), a multiple of 2^-53.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A duration of the exponential distribution, rounded down to whole nanoseconds.
    pub fn exponential(&mut self, mean: Span) -> Span {
        let draw = mean.0 as f64 * -natural_log(1.0 - self.unit_f64());
        // A draw lies below 37 means; a float beyond the range saturates.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        Span(draw as u64)
    }
}

pub(crate) fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[expect(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
fn halves(product: u128) -> [u64; 2] {
    [product as u64, (product >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_frozen() {
        let mut prng = Prng::new(1);
        let words: Vec<u64> = (0..4).map(|_| prng.next_u64()).collect();
        assert_eq!(words, RECORDED_WORDS);
        let draws: Vec<u64> = (0..4).map(|_| prng.exponential(Span::from_millis(1)).0).collect();
        assert_eq!(draws, RECORDED_EXPONENTIALS);
        assert_eq!((0..8).map(|_| prng.below(6)).collect::<Vec<_>>(), RECORDED_DICE);
    }

    const RECORDED_WORDS: [u64; 4] = [
        12_966_619_160_104_079_557,
        9_600_361_134_598_540_522,
        10_590_380_919_521_690_900,
        7_218_738_570_589_545_383,
    ];
    const RECORDED_EXPONENTIALS: [u64; 4] = [1_194_611, 154_985, 73_695, 479_948];
    const RECORDED_DICE: [u64; 8] = [5, 3, 5, 5, 5, 4, 3, 5];

    #[test]
    fn the_seeding_matches_the_published_splitmix64_sequence() {
        let mut state = 1_234_567;
        let words: Vec<u64> = (0..3).map(|_| splitmix64(&mut state)).collect();
        assert_eq!(
            words,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn dice_are_fair() {
        let mut prng = Prng::new(7);
        let mut counts = [0u32; 6];
        (0..60_000).for_each(|_| counts[usize::try_from(prng.below(6)).unwrap()] += 1);
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
        assert_eq!(prng.below(1), 0);
    }

    #[test]
    fn the_exponential_has_its_mean_and_its_median() {
        let mut prng = Prng::new(3);
        let mut draws: Vec<u64> =
            (0..50_000).map(|_| prng.exponential(Span(1_000_000)).0).collect();
        draws.sort_unstable();
        let mean = draws.iter().sum::<u64>() / 50_000;
        assert!((980_000..1_020_000).contains(&mean), "{mean}");
        assert!((675_000..711_000).contains(&draws[25_000]), "{}", draws[25_000]);
    }
}
