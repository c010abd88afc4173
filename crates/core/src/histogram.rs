//! A histogram of durations: log-linear buckets, fixed size, O(1) to record.
//!
//! Every power of two is cut into 32 equal buckets, so that a bucket is at most 1/32 (3.1 %) as
//! wide as the values that it holds. Below 1024 ns the buckets are 32 ns wide; from 2^40 ns (18
//! minutes) on, everything falls into the last bucket, whose bound is the largest value seen.
//!
//! ```text
//! value   0 .. 1023      1024 .. 2047     2048 .. 4095   ...   2^39 .. 2^40-1
//! width      32 ns           32 ns            64 ns                2^34 ns
//! index    0 .. 31          32 .. 63         64 .. 95            960 .. 991
//! ```
//!
//! An empty histogram owns no table: a gate keeps several for each of thousands of tenants, most of
//! which never send a request. The first `record` allocates 8 KB, and nothing allocates after it.

use crate::time::Span;

/// Buckets of one power of two.
const SUBBUCKETS: usize = 32;
/// `log2(SUBBUCKETS)`.
const SUBBUCKET_BITS: u32 = 5;
/// Values below `2^LINEAR_BITS` ns share buckets of equal width.
const LINEAR_BITS: u32 = 10;
/// Values of `2^VALUE_BITS` ns and more share the last bucket.
const VALUE_BITS: u32 = 40;
const BUCKETS: usize = SUBBUCKETS * (1 + (VALUE_BITS - LINEAR_BITS) as usize);

/// Durations counted in buckets of at most 3.1 % width. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    table: Option<Box<[u64; BUCKETS]>>,
    count: u64,
    sum: Span,
    max: Span,
}

impl Histogram {
    /// Counts one duration. O(1).
    pub fn record(&mut self, value: Span) {
        let table = self.table.get_or_insert_with(|| Box::new([0; BUCKETS]));
        table[index_of(value)] += 1;
        self.count += 1;
        self.sum += value;
        self.max = self.max.max(value);
    }

    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their exact sum, saturating after 584 years.
    pub fn sum(&self) -> Span {
        self.sum
    }

    /// The longest, exactly; zero if none.
    pub fn max(&self) -> Span {
        self.max
    }

    /// Their exact mean; zero if none.
    pub fn mean(&self) -> Span {
        Span(self.sum.0.checked_div(self.count).unwrap_or(0))
    }

    /// The least bucket bound such that a part `q` (0 to 1) of the values lies at or below it: at
    /// most 3.1 % or 32 ns above the true quantile. None if nothing was recorded. O(buckets).
    pub fn quantile(&self, q: f64) -> Option<Span> {
        // `ceil` of a count in [0, 2^53] is exact; larger counts lose less than a bucket would.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let rank =
            ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        self.buckets().find_map(|(upper_bound, count)| {
            seen += count;
            (seen >= rank).then_some(upper_bound)
        })
    }

    /// Adds all that `other` recorded.
    pub fn merge(&mut self, other: &Self) {
        let Some(theirs) = &other.table else { return };
        let ours = self.table.get_or_insert_with(|| Box::new([0; BUCKETS]));
        for (mine, count) in ours.iter_mut().zip(theirs.iter()) {
            *mine += count;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// The buckets that are not empty, least first: largest value that falls into it, and count.
    pub fn buckets(&self) -> impl Iterator<Item = (Span, u64)> {
        let counts = self.table.iter().flat_map(|table| table.iter().copied().enumerate());
        counts
            .filter(|&(_, count)| count > 0)
            .map(|(index, count)| (upper_bound_of(index).min(self.max), count))
    }

    /// How many values lie at or below `bound`, for cumulative (`le`) buckets. A bucket that the
    /// bound cuts is left out, so the answer never overstates and grows with `bound`. O(buckets).
    pub fn count_at_most(&self, bound: Span) -> u64 {
        self.buckets().take_while(|&(upper, _)| upper <= bound).map(|(_, count)| count).sum()
    }
}

fn index_of(value: Span) -> usize {
    let value_ns = value.0.min((1 << VALUE_BITS) - 1);
    // The highest set bit chooses the power of two, the next five choose the bucket in it.
    let magnitude = (u64::BITS - value_ns.leading_zeros()).max(LINEAR_BITS + 1) - 1;
    let octave = (magnitude - LINEAR_BITS) as usize;
    let within = usize::try_from(value_ns >> (magnitude - SUBBUCKET_BITS)).unwrap_or(usize::MAX);
    octave * SUBBUCKETS + within
}

fn upper_bound_of(index: usize) -> Span {
    // The inverse of `index_of`: `within` has 32 added in every octave but the linear one.
    let octave = (index / SUBBUCKETS).saturating_sub(1);
    let within = (index - octave * SUBBUCKETS) as u64;
    if index == BUCKETS - 1 {
        return Span(u64::MAX);
    }
    let shift = u32::try_from(octave).unwrap_or(0) + LINEAR_BITS - SUBBUCKET_BITS;
    Span(((within + 1) << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_bound_is_within_one_part_in_32_of_every_value_in_it() {
        let mut value = 1u64;
        while value < 1 << VALUE_BITS {
            for value in [value - 1, value, value + 1, value + value / 3] {
                let index = index_of(Span(value));
                if index == BUCKETS - 1 {
                    continue;
                }
                let bound = upper_bound_of(index).0;
                assert!(bound >= value, "{value} lies above its bucket's bound {bound}");
                assert!(bound - value <= (value / 32).max(32), "{value} is far from {bound}");
                assert_eq!(index_of(Span(bound + 1)), index + 1, "buckets leave no gap");
            }
            value = value * 5 / 4 + 1;
        }
    }

    #[test]
    fn values_beyond_the_table_count_in_the_last_bucket_with_their_maximum() {
        let mut histogram = Histogram::default();
        histogram.record(Span(u64::MAX - 5));
        assert_eq!(histogram.quantile(0.5), Some(Span(u64::MAX - 5)));
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(Span(u64::MAX - 5), 1)]);
    }

    #[test]
    fn quantiles_of_a_known_set() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (1..=1000).for_each(|us| histogram.record(Span::from_micros(us)));
        assert_eq!(histogram.count(), 1000);
        assert_eq!(histogram.mean(), Span(500_500));
        assert_eq!(histogram.max(), Span::from_micros(1000));
        for (q, exact_us) in [(0.0, 1), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let got = histogram.quantile(q).unwrap().0;
            let exact = exact_us * 1000;
            assert!((exact..=exact + exact / 32 + 32).contains(&got), "q {q}: {got}");
        }
    }

    #[test]
    fn merging_equals_recording_in_one() {
        let (mut one, mut left, mut right) = <(Histogram, Histogram, Histogram)>::default();
        for ns in [0, 31, 32, 5_000, 123_456_789] {
            one.record(Span(ns));
            if ns % 2 == 0 { left.record(Span(ns)) } else { right.record(Span(ns)) }
        }
        left.merge(&right);
        left.merge(&Histogram::default());
        assert_eq!(left.buckets().collect::<Vec<_>>(), one.buckets().collect::<Vec<_>>());
        assert_eq!((left.count(), left.sum(), left.max()), (one.count(), one.sum(), one.max()));
    }

    #[test]
    fn cumulative_counts_grow_to_the_whole() {
        let mut histogram = Histogram::default();
        for ns in [10, 2_000, 3_000_000] {
            histogram.record(Span(ns));
        }
        let at_most = |ns| histogram.count_at_most(Span(ns));
        assert_eq!(
            [at_most(9), at_most(1_000), at_most(1 << 20), at_most(3_000_000)],
            [0, 1, 2, 3]
        );
    }

    #[test]
    fn an_empty_histogram_is_small() {
        assert!(size_of::<Histogram>() <= 32);
    }
}
