//! The hash that places things: the same on every machine and in every version, since data lies
//! where it said.
//!
//! Words are folded one after the other through the finaliser of `SplitMix64`. It withstands nobody
//! who wants collisions; tenants do not choose the numbers of their objects.

use crate::prng::splitmix64;

/// A hash under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(u64);

impl Hash {
    /// A hash of nothing yet, in a family of its own for each seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed).word(0)
    }

    /// Takes in a word.
    #[must_use]
    pub fn word(self, word: u64) -> Self {
        let mut state = self.0.rotate_left(23) ^ word;
        Self(splitmix64(&mut state))
    }

    /// Takes in bytes and their number.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let folded = bytes.chunks(8).fold(self, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash.word(u64::from_le_bytes(word))
        });
        folded.word(bytes.len() as u64)
    }

    /// The hash as a number.
    pub fn finish(self) -> u64 {
        self.0
    }

    /// The hash as a fraction in (0, 1].
    pub fn unit(self) -> f64 {
        ((self.0 >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_frozen() {
        let word = Hash::seeded(1).word(2).finish();
        let bytes = Hash::seeded(1).bytes(b"volume-7").finish();
        assert_eq!([word, bytes], RECORDED, "data lies where this said");
    }

    const RECORDED: [u64; 2] = [1_823_833_501_657_799_613, 17_291_703_369_698_820_188];

    #[test]
    fn order_and_length_count() {
        let hash = Hash::seeded(0);
        assert_ne!(hash.word(1).word(2), hash.word(2).word(1));
        assert_ne!(hash.bytes(b"a"), hash.bytes(b"a\0"));
        assert_ne!(hash.bytes(b""), hash);
    }

    #[test]
    fn neighbours_are_spread_evenly() {
        let mut counts = [0u32; 16];
        for number in 0..160_000u64 {
            counts[usize::try_from(Hash::seeded(5).word(number).finish() >> 60).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }
}
