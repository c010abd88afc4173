//! Reuse: the miss ratio of an LRU cache of every size, from one pass over a trace.
//!
//! The reuse distance of an access is the number of different blocks since the last access to the
//! same one; a cache of c blocks hits if it is below c (Mattson and others, Evaluation techniques
//! for storage hierarchies, IBM Systems Journal 1970). Sampling keeps it cheap: only blocks whose
//! hash lies below a threshold are followed, all accesses to them are, and a distance among them
//! stands for one that is larger by the inverse of the sampled part. When more blocks are followed
//! than there is room for, the one with the largest hash goes and the threshold sinks to it
//! (Waldspurger and others, Efficient MRC construction with SHARDS, FAST 2015, section 3.2).
//!
//! ```text
//! accesses      a  b  c  b  a  a        a different blocks since: a 2, b 1, c -, a 0
//! distance      -  -  -  1  2  0        cache of 2 hits those of 0 and 1: 2 of 6
//! ```
//!
//! While every block fits, nothing is left out and the curve is exact. Distances are counted by a
//! tree of sums (Fenwick) over the order of last accesses, O(log samples) per sampled access.

use std::collections::BinaryHeap;

use evenkeel_core::cache::table::{SlotTable, mix};

/// Hashes are compared with the threshold in so many bits.
const HASH_BITS: u32 = 24;

/// The weight of an access when every block is followed.
const WEIGHT_ONE: u64 = 1 << 16;

/// Buckets of equal width per power of two of the distance, as a shift.
const BUCKET_BITS: u32 = 5;

/// Follows sampled blocks. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Reuse {
    samples_max: usize,
    /// Blocks whose hash lies below are followed.
    threshold: u32,
    table: SlotTable,
    samples: Vec<Sample>,
    free: Vec<u32>,
    /// The followed blocks, the largest hash on top.
    by_hash: BinaryHeap<(u32, u32)>,
    order: Order,
    accesses: u64,
    /// Weights of accesses that came back, by bucket of their distance.
    weights: Vec<u64>,
    weight_cold: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    block: u64,
    /// Its place in the order of last accesses.
    position: u32,
}

/// The miss ratio of LRU caches by their size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MissRatioCurve {
    /// Accesses to blocks that it stands for.
    pub accesses: u64,
    /// The part of the blocks that was followed at the end; 1 if the curve is exact up to the
    /// width of its steps.
    pub sampled_share: f64,
    /// Where the ratio sinks, smallest cache first; a cache between two points has the ratio of
    /// the smaller. Without a cache the ratio is 1.
    pub points: Vec<MissRatio>,
}

/// One point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissRatio {
    /// The size of the cache in blocks of 4 KiB.
    pub cache_blocks: u64,
    /// Misses by accesses, 0 to 1.
    pub miss_ratio: f64,
}

impl MissRatioCurve {
    /// The miss ratio of a cache of so many blocks.
    pub fn at(&self, cache_blocks: u64) -> f64 {
        let above = self.points.partition_point(|point| point.cache_blocks <= cache_blocks);
        above.checked_sub(1).map_or(1.0, |index| self.points[index].miss_ratio)
    }
}

impl Reuse {
    /// Follows up to so many blocks at once.
    pub(super) fn new(samples_max: usize) -> Self {
        Self {
            samples_max: samples_max.max(1),
            threshold: 1 << HASH_BITS,
            table: SlotTable::with_capacity(0),
            samples: Vec::new(),
            free: Vec::new(),
            by_hash: BinaryHeap::new(),
            order: Order::default(),
            accesses: 0,
            weights: Vec::new(),
            weight_cold: 0,
        }
    }

    /// Counts one access.
    #[inline]
    pub(super) fn add(&mut self, block: u64) {
        self.accesses += 1;
        let hash = hash_of(block);
        if hash < self.threshold {
            self.follow(block, hash);
        }
    }

    fn follow(&mut self, block: u64, hash: u32) {
        let weight = (WEIGHT_ONE << HASH_BITS) / u64::from(self.threshold);
        if let Some(slot) = self.table.find(block, |slot| self.samples[slot as usize].block) {
            let position = self.samples[slot as usize].position;
            let distance = u64::from(self.order.after(position));
            let scaled = (distance << HASH_BITS) / u64::from(self.threshold);
            let bucket = bucket_of(scaled);
            self.weights.resize(self.weights.len().max(bucket + 1), 0);
            self.weights[bucket] += weight;
            self.order.remove(position);
            self.append(slot);
            return;
        }
        self.weight_cold += weight;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.samples.push(Sample { block, position: 0 });
            u32::try_from(self.samples.len() - 1).expect("bounded by samples_max")
        });
        self.samples[slot as usize].block = block;
        self.table.insert(block, slot);
        self.by_hash.push((hash, slot));
        self.append(slot);
        if self.by_hash.len() > self.samples_max {
            self.lower_threshold();
        }
    }

    /// Lets go of the blocks with the largest hash.
    fn lower_threshold(&mut self) {
        let (largest, _) = *self.by_hash.peek().expect("more than samples_max are followed");
        self.threshold = largest.max(1);
        while let Some(&(hash, slot)) = self.by_hash.peek()
            && hash >= self.threshold
        {
            self.by_hash.pop();
            let Sample { block, position } = self.samples[slot as usize];
            self.order.remove(position);
            self.table.remove(block, slot);
            self.free.push(slot);
        }
    }

    fn append(&mut self, slot: u32) {
        if self.order.is_full() {
            let mut slots: Vec<u32> = self.by_hash.iter().map(|&(_, slot)| slot).collect();
            slots.retain(|&other| other != slot);
            slots.sort_unstable_by_key(|&other| self.samples[other as usize].position);
            self.order = Order::packed(slots.len());
            for (position, other) in (0..).zip(slots) {
                self.samples[other as usize].position = position;
            }
        }
        self.samples[slot as usize].position = self.order.push();
    }

    /// The curve of what was counted so far.
    pub(super) fn curve(&self) -> MissRatioCurve {
        if self.accesses == 0 {
            return MissRatioCurve { sampled_share: 1.0, ..MissRatioCurve::default() };
        }
        // Which blocks are followed is chance: if they had more or fewer accesses than blocks have
        // on average, the difference is that of few hot blocks, whose distances are short (the
        // same paper, section 3.3).
        let total = i128::from(self.accesses) * i128::from(WEIGHT_ONE);
        let found: i128 = self.weights.iter().map(|&weight| i128::from(weight)).sum();
        let mut hits = total - found - i128::from(self.weight_cold);
        let mut points = Vec::new();
        for (bucket, &weight) in self.weights.iter().enumerate() {
            hits += i128::from(weight);
            if weight > 0 {
                let miss_ratio = (total - hits.max(0)) as f64 / total as f64;
                points.push(MissRatio { cache_blocks: last_of(bucket) + 1, miss_ratio });
            }
        }
        let sampled_share = f64::from(self.threshold) / f64::from(1u32 << HASH_BITS);
        MissRatioCurve { accesses: self.accesses, sampled_share, points }
    }
}

#[inline]
fn hash_of(block: u64) -> u32 {
    u32::try_from(mix(!block) >> (u64::BITS - HASH_BITS)).expect("24 bits are left")
}

fn bucket_of(distance: u64) -> usize {
    let bits = (u64::BITS - distance.leading_zeros()).max(BUCKET_BITS + 1);
    let shift = bits - BUCKET_BITS - 1;
    let within = usize::try_from(distance >> shift).expect("six bits are left");
    (shift as usize) * (1 << BUCKET_BITS) + within
}

/// The largest distance of a bucket.
fn last_of(bucket: usize) -> u64 {
    let shift = (bucket >> BUCKET_BITS).saturating_sub(1);
    let within = (bucket - (shift << BUCKET_BITS)) as u64;
    ((within + 1) << shift) - 1
}

/// Positions in the order of last accesses, and how many are taken behind each.
#[derive(Clone, Debug, Default)]
struct Order {
    /// A Fenwick tree: entry i - 1 sums the positions from i minus its lowest bit to i.
    sums: Vec<u32>,
    next: u32,
    taken: u32,
}

impl Order {
    /// The first `count` positions are taken, and as many again are free (at least 64).
    fn packed(count: usize) -> Self {
        let mut order = Self { sums: vec![0; (2 * count).max(64)], next: 0, taken: 0 };
        for _ in 0..count {
            order.push();
        }
        order
    }

    fn is_full(&self) -> bool {
        self.next as usize == self.sums.len()
    }

    /// Takes the next position.
    fn push(&mut self) -> u32 {
        let position = self.next;
        self.next += 1;
        self.taken += 1;
        self.change(position, 1);
        position
    }

    fn remove(&mut self, position: u32) {
        self.taken -= 1;
        self.change(position, u32::MAX);
    }

    /// How many taken positions lie behind this one.
    fn after(&self, position: u32) -> u32 {
        let mut up_to = 0;
        let mut index = position as usize + 1;
        while index > 0 {
            up_to += self.sums[index - 1];
            index &= index - 1;
        }
        self.taken - up_to
    }

    /// Adds modulo 2^32, so that the largest number takes one away.
    fn change(&mut self, position: u32, amount: u32) {
        let mut index = position as usize + 1;
        while let Some(sum) = self.sums.get_mut(index - 1) {
            *sum = sum.wrapping_add(amount);
            index += index & index.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::prng::Prng;
    use proptest::prelude::*;

    use super::*;
    use crate::cache::{Algorithm, Simulation};

    fn exact(accesses: &[u64], cache_blocks: u64) -> f64 {
        let mut lru = Simulation::new(Algorithm::Lru, usize::try_from(cache_blocks).unwrap());
        for &block in accesses {
            lru.access(block);
        }
        lru.counts().miss_ratio().unwrap()
    }

    fn curve_of(accesses: &[u64], samples_max: usize) -> MissRatioCurve {
        let mut reuse = Reuse::new(samples_max);
        for &block in accesses {
            reuse.add(block);
        }
        reuse.curve()
    }

    proptest! {
        #[test]
        fn while_every_block_fits_the_curve_is_that_of_simulated_caches(
            accesses in proptest::collection::vec(0u64..60, 1..2_000)
        ) {
            let curve = curve_of(&accesses, 60);
            prop_assert_eq!(curve.sampled_share.to_bits(), 1f64.to_bits());
            for cache_blocks in 1..=64 {
                let difference = curve.at(cache_blocks) - exact(&accesses, cache_blocks);
                prop_assert!(difference.abs() < 1e-9, "{} blocks: {}", cache_blocks, difference);
            }
        }
    }

    #[test]
    fn sampling_a_skewed_trace_is_within_three_hundredths() {
        // Squares of uniform numbers: some blocks are hot, most are not.
        let mut prng = Prng::new(9);
        let accesses: Vec<u64> = (0..400_000)
            .map(|_| {
                let root = prng.below(300);
                root * prng.below(300) * 3 + prng.below(3)
            })
            .collect();
        let curve = curve_of(&accesses, 8_192);
        assert!(curve.sampled_share < 0.15, "{}", curve.sampled_share);
        for cache_blocks in [500, 2_000, 8_000, 20_000, 50_000] {
            let (got, expected) = (curve.at(cache_blocks), exact(&accesses, cache_blocks));
            assert!((got - expected).abs() < 0.03, "{cache_blocks}: {got} {expected}");
        }
    }

    #[test]
    fn buckets_leave_no_gap() {
        let mut bucket = 0;
        for distance in 0..100_000 {
            if bucket_of(distance) != bucket {
                bucket += 1;
                assert_eq!(last_of(bucket - 1) + 1, distance);
            }
            assert_eq!(bucket_of(distance), bucket);
        }
        assert!(bucket_of(u64::MAX) < 64 * 32 + 32);
    }

    #[test]
    fn an_empty_curve_misses_everything() {
        assert!((Reuse::new(5).curve().at(1_000) - 1.0).abs() < 1e-12);
    }
}
