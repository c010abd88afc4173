//! Who was here before: one bit of memory about far more blocks than the cache holds.
//!
//! Most places that are used are not used again soon, and to count them would crowd out those that
//! are. So only who comes for the second time is counted (the one-hit wonders of Maggs and
//! Sitaraman, Algorithmic nuggets in content delivery, CCR 2015). The SSD is much larger than the
//! memory, and so must be the reach of that rule: two Bloom filters of 16 bits for each block of
//! the SSD take turns. When the newer one has as many places as the SSD has blocks, the older one
//! is cleared and becomes the newer.
//!
//! ```text
//! seen?  [ newer: being filled ]  or  [ older: the time before ]     then noted in the newer
//! ```
//!
//! The four bits of a place lie in one line of 64 bytes, so that a look costs one access of memory
//! for each filter. They are wrong about one place in 200 in each, which is then counted a visit
//! too early.

use evenkeel_core::cache::table::mix;

const BITS_PER_BLOCK: usize = 16;
const HASHES: usize = 4;
const LINE_WORDS: usize = 8;

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

    /// Whether it came before.
    pub(super) fn knows(&self, key: u64) -> bool {
        let bits = bits(key, self.newer.len());
        has(&self.newer, bits) || has(&self.older, bits)
    }

    /// Whether it came before; from now on it did.
    #[inline]
    pub(super) fn greet(&mut self, key: u64) -> bool {
        let bits = bits(key, self.newer.len());
        let (is_in_newer, is_in_older) = (has(&self.newer, bits), has(&self.older, bits));
        if !is_in_newer {
            if self.noted == self.blocks {
                std::mem::swap(&mut self.newer, &mut self.older);
                self.newer.fill(0);
                self.noted = 0;
            }
            for (word, bit) in bits {
                self.newer[word] |= bit;
            }
            self.noted += 1;
        }
        is_in_newer || is_in_older
    }
}

fn words(blocks: usize) -> usize {
    (blocks * BITS_PER_BLOCK)
        .div_ceil(u64::BITS as usize)
        .next_multiple_of(LINE_WORDS)
        .max(LINE_WORDS)
}

fn has(filter: &[u64], bits: [(usize, u64); HASHES]) -> bool {
    bits.iter().all(|&(word, bit)| filter[word] & bit != 0)
}

/// The bits of a key, as word and mask: by one hash the line, by another four bits of its 512.
fn bits(key: u64, words: usize) -> [(usize, u64); HASHES] {
    let hash = mix(key);
    let line = line(hash, words / LINE_WORDS);
    let mut rest = mix(hash);
    std::array::from_fn(|_| {
        let within = rest % (LINE_WORDS as u64 * u64::from(u64::BITS));
        rest >>= 9;
        let word = usize::try_from(within / u64::from(u64::BITS)).expect("within a line");
        (line * LINE_WORDS + word, 1 << (within % u64::from(u64::BITS)))
    })
}

/// Which of so many lines a hash belongs to: the product's high half is as evenly spread over the
/// lines as the hash over 64 bits.
pub(super) fn line(hash: u64, lines: usize) -> usize {
    let line = (u128::from(hash) * lines as u128) >> u64::BITS;
    usize::try_from(line).expect("below `lines`")
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
