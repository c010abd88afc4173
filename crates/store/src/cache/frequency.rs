//! How often places were used lately: a sketch that decides what is worth a write to the SSD.
//!
//! Most blocks that leave the memory are not read again before they die, and writing them to the
//! SSD wears it and pushes out others that are. What tells them apart is the past of their *place*,
//! what clients call the block: it outlives the block, which dies with each overwrite. A doorkeeper
//! knows what was used once, and a count-min sketch counts what was used more often, as in
//! `TinyLFU` (Einziger, Friedman and Manes, A highly efficient cache admission policy, ACM
//! Transactions on Storage 13(4), 2017): each place has four counters of 4 bits, shares them with
//! others, and the least of them is nearest to the truth.
//!
//! ```text
//! line of 64 bytes, by hash   [ 32 counters ][ 32 counters ][ 32 counters ][ 32 counters ]
//! counters of one place            ^ 5              ^ 3            ^ 3            ^ 9     -> 3
//! one use more: only the least count on             3 -> 4         3 -> 4                 -> 4
//! ```
//!
//! A hand goes round over the counters and halves a word at a time, so that each counter forgets
//! half of what it knows in ten times as many uses as the SSD has blocks. One sweep over all of
//! them at once would do the same, and stop everything else for as long as it takes.
//!
//! Both together take 8 bytes for each block of the SSD.

use evenkeel_core::cache::table::mix;

use super::doorkeeper::{Doorkeeper, line};

/// What clients call a block, as a number: a hash of its volume and its block there. Two places
/// with the same number are taken for one, which costs a little judgement and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u32);

impl Place {
    /// The place of a block of a volume.
    pub fn of(volume: u64, block: u64) -> Self {
        let hash = mix(mix(volume) ^ block);
        Self(u32::try_from(hash >> u32::BITS).expect("the upper half of a word"))
    }
}

/// The most that is counted.
pub(super) const COUNT_MAX: u8 = 15;

const COUNTERS_EACH: usize = 4;
const LINE_WORDS: usize = 8;
/// Of each counter all bits but the highest: what a halved word may have set.
const HALVES: u64 = 0x7777_7777_7777_7777;
/// Blocks for each word of 16 counters.
const BLOCKS_PER_WORD: usize = 2;
/// Uses for each word that is halved: ten for each block of the SSD until all are.
const USES_PER_WORD: usize = 10 * BLOCKS_PER_WORD;

/// A counter: its word, and its lowest bit there.
type Counter = (usize, u32);

/// The sketch. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Frequency {
    doorkeeper: Doorkeeper,
    words: Box<[u64]>,
    /// The next word to halve.
    hand: usize,
    /// Since the last one was halved.
    uses: usize,
}

impl Frequency {
    /// For an SSD of so many blocks.
    pub(super) fn new(blocks: usize) -> Self {
        let words = vec![0; words(blocks)].into_boxed_slice();
        Self { doorkeeper: Doorkeeper::new(blocks), words, hand: 0, uses: 0 }
    }

    pub(super) fn memory_bytes(blocks: usize) -> usize {
        Doorkeeper::memory_bytes(blocks) + words(blocks) * size_of::<u64>()
    }

    /// A place was used.
    #[inline]
    pub(super) fn note(&mut self, place: Place) {
        if self.doorkeeper.greet(u64::from(place.0)) {
            self.count_on(self.counters(place));
        }
        self.uses += 1;
        if self.uses == USES_PER_WORD {
            self.uses = 0;
            self.words[self.hand] = (self.words[self.hand] >> 1) & HALVES;
            self.hand = (self.hand + 1) % self.words.len();
        }
    }

    fn count_on(&mut self, counters: [Counter; COUNTERS_EACH]) {
        let least = self.least(counters);
        if least == COUNT_MAX {
            return;
        }
        for (word, bit) in counters {
            if self.count((word, bit)) == least {
                self.words[word] += 1 << bit;
            }
        }
    }

    /// How often a place was used lately, at most [`COUNT_MAX`] and once more; hardly ever too
    /// little.
    pub(super) fn estimate(&self, place: Place) -> u8 {
        let is_known = self.doorkeeper.knows(u64::from(place.0));
        u8::from(is_known) + self.least(self.counters(place))
    }

    fn least(&self, counters: [Counter; COUNTERS_EACH]) -> u8 {
        counters.into_iter().map(|counter| self.count(counter)).min().expect("there are four")
    }

    /// One in each quarter of a line.
    fn counters(&self, place: Place) -> [Counter; COUNTERS_EACH] {
        let hash = mix(u64::from(place.0));
        let first = line(hash, self.words.len() / LINE_WORDS) * LINE_WORDS;
        let mut rest = mix(hash);
        std::array::from_fn(|quarter| {
            let within = u32::try_from(rest % 32).expect("below 32");
            rest >>= 5;
            let word = first + 2 * quarter + usize::from(within >= 16);
            (word, within % 16 * 4)
        })
    }

    fn count(&self, (word, bit): Counter) -> u8 {
        u8::try_from((self.words[word] >> bit) & u64::from(COUNT_MAX)).expect("four bits")
    }
}

fn words(blocks: usize) -> usize {
    blocks.div_ceil(BLOCKS_PER_WORD).next_multiple_of(LINE_WORDS).max(LINE_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> Place {
        Place::of(7, number)
    }

    #[test]
    fn hardly_anything_is_counted_wrong() {
        let mut frequency = Frequency::new(4_000);
        for number in 0..400 {
            (0..=number % 4).for_each(|_| frequency.note(place(number)));
        }
        // 1,000 uses halve a fortieth of the counters.
        let wrong = |number: &u64| u64::from(frequency.estimate(place(*number))) != number % 4 + 1;
        let wrong = (0..400).filter(wrong).count();
        assert!(wrong < 20, "{wrong} of 400");
    }

    #[test]
    fn what_is_used_once_crowds_out_nothing() {
        let mut frequency = Frequency::new(4_000);
        (0..100_000).for_each(|number| frequency.note(place(number)));
        let seems_used_again = |number: &u64| frequency.estimate(place(*number)) > 1;
        let strangers = (99_000..100_000).filter(seems_used_again).count();
        assert!(strangers < 20, "{strangers} of 1,000");
    }

    #[test]
    fn counts_end_where_they_can_and_are_forgotten() {
        let mut frequency = Frequency::new(100);
        (0..40).for_each(|_| frequency.note(place(1)));
        assert!(frequency.estimate(place(1)) >= COUNT_MAX / 2);
        (0..5_000).for_each(|number| frequency.note(place(2 + number % 3)));
        assert!(frequency.estimate(place(1)) <= 1, "{}", frequency.estimate(place(1)));
        assert!(frequency.estimate(place(2)) >= COUNT_MAX / 2);
    }
}
