//! Who was here before: one bit of memory about far more blocks than the cache holds.
//!
//! Most blocks that are read are never read again, and writing them to the SSD would only wear it.
//! So a block is let in when it comes for the second time (the one-hit wonders of Maggs and
//! Sitaraman, Algorithmic nuggets in content delivery, CCR 2015). The SSD is much larger than the
//! memory, and so must be the reach of that rule: two Bloom filters of 16 bits for each block of
//! the SSD take turns. When the newer one has as many blocks as the SSD, the older one is cleared
//! and becomes the newer.
//!
//! ```text
//! seen?  [ newer: being filled ]  or  [ older: the time before ]     then noted in the newer
//! ```
//!
//! Four bits of 16 are wrong about one block in 400 in each filter, which then comes in a visit too
//! early.

use evenkeel_core::cache::table::mix;

const BITS_PER_BLOCK: usize = 16;
const HASHES: u32 = 4;
const WORDS_MIN: usize = 16;

/// Two filters. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Doorkeeper {
    blocks: usize,
    noted: usize,
    newer: Box<[u64]>,
    older: Box<[u64]>,
}

impl Doorkeeper {
    /// Remembers the last so many visitors, and up to as many before them.
    pub(super) fn new(blocks: usize) -> Self {
        let filter = || vec![0; words(blocks)].into_boxed_slice();
        Self { blocks, noted: 0, newer: filter(), older: filter() }
    }

    pub(super) fn memory_bytes(blocks: usize) -> usize {
        2 * words(blocks) * size_of::<u64>()
    }

    /// Whether it came before; from now on it did.
    pub(super) fn greet(&mut self, key: u64) -> bool {
        let bits = self.newer.len() as u64 * u64::from(u64::BITS);
        let places = places(key, bits);
        let has = |filter: &[u64]| places.iter().all(|&(word, bit)| filter[word] & bit != 0);
        let (is_in_newer, is_in_older) = (has(&self.newer), has(&self.older));
        if !is_in_newer {
            if self.noted == self.blocks {
                std::mem::swap(&mut self.newer, &mut self.older);
                self.newer.fill(0);
                self.noted = 0;
            }
            for (word, bit) in places {
                self.newer[word] |= bit;
            }
            self.noted += 1;
        }
        is_in_newer || is_in_older
    }
}

fn words(blocks: usize) -> usize {
    (blocks * BITS_PER_BLOCK).div_ceil(u64::BITS as usize).max(WORDS_MIN)
}

/// The bits of a key, as word and mask: steps of an odd length from a start, both from its hash.
fn places(key: u64, bits: u64) -> [(usize, u64); HASHES as usize] {
    let start = mix(key);
    let step = mix(start) | 1;
    let mut at = start;
    std::array::from_fn(|_| {
        // The product's high half is as evenly spread over the bits as `at` over 64 bits.
        let bit = (u128::from(at) * u128::from(bits)) >> u64::BITS;
        at = at.wrapping_add(step);
        let bit = u64::try_from(bit).expect("below `bits`");
        let word = usize::try_from(bit / u64::from(u64::BITS)).expect("an index of the filter");
        (word, 1 << (bit % u64::from(u64::BITS)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_lately_is_known_and_hardly_anybody_else() {
        let mut doorkeeper = Doorkeeper::new(10_000);
        let strangers = (0..10_000).filter(|&key| doorkeeper.greet(key)).count();
        assert!(strangers < 30, "{strangers} of 10,000 taken for someone else");
        assert!((0..10_000).all(|key| doorkeeper.greet(key)));
        let strangers = (10_000..20_000).filter(|&key| doorkeeper.greet(key)).count();
        assert!(strangers < 100, "{strangers} of 10,000 taken for someone else");
        let mut before = (0..10_000).step_by(100);
        assert!(before.all(|key| doorkeeper.clone().greet(key)), "the time before counts as well");
    }

    #[test]
    fn who_came_long_ago_is_forgotten() {
        let mut doorkeeper = Doorkeeper::new(1_000);
        (0..3_000).for_each(|key| {
            doorkeeper.greet(key);
        });
        let known = (0..500).filter(|&key| doorkeeper.clone().greet(key)).count();
        assert!(known < 20, "{known} of 500");
    }
}
