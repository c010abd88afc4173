//! `SipHash-2-4`, a keyed hash: without the key its output tells nothing about its input.
//!
//! Aumasson and Bernstein, `SipHash`: a fast short-input PRF, INDOCRYPT 2012. 128 bits of key, 64
//! of output; two rounds per word of input and four at the end.

/// The secret that a hash depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u64; 2]);

impl Key {
    /// Sixteen bytes of secret.
    pub fn new(bytes: [u8; 16]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Self([word(0), word(8)])
    }

    /// The hash of some bytes.
    pub fn hash(self, input: &[u8]) -> u64 {
        let mut state = State::new(self);
        let mut words = input.chunks_exact(8);
        for word in &mut words {
            state.absorb(u64::from_le_bytes(std::array::from_fn(|i| word[i])));
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        // The last word ends with the length modulo 256, as the algorithm says.
        last[7] = input.len().to_le_bytes()[0];
        state.absorb(u64::from_le_bytes(last));
        state.finish()
    }

    /// The hash of two words, as of their sixteen bytes.
    pub(crate) fn hash_words(self, words: [u64; 2]) -> u64 {
        let mut state = State::new(self);
        state.absorb(words[0]);
        state.absorb(words[1]);
        state.absorb(16 << 56);
        state.finish()
    }

    /// A key for one purpose, which tells nothing about this one.
    #[must_use]
    pub fn derived(self, purpose: &[u8]) -> Self {
        let seed = self.hash(purpose);
        Self([self.hash_words([seed, 0]), self.hash_words([seed, 1])])
    }
}

impl std::fmt::Debug for Key {
    /// Prints no part of the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

struct State([u64; 4]);

impl State {
    fn new(Key([low, high]): Key) -> Self {
        Self([
            low ^ 0x736F_6D65_7073_6575,
            high ^ 0x646F_7261_6E64_6F6D,
            low ^ 0x6C79_6765_6E65_7261,
            high ^ 0x7465_6462_7974_6573,
        ])
    }

    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xFF;
        (0..4).for_each(|_| self.round());
        let [a, b, c, d] = self.0;
        a ^ b ^ c ^ d
    }

    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper_key() -> Key {
        Key::new(std::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    #[test]
    fn it_gives_the_test_vector_of_the_paper() {
        // Appendix A: the key 00 01 .. 0f and the input 00 01 .. 0e.
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(paper_key().hash(&input), 0xA129_CA61_49BE_45E5);
    }

    #[test]
    fn words_hash_as_their_bytes() {
        let words = [0x0123_4567_89AB_CDEF, 42];
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        assert_eq!(paper_key().hash_words(words), paper_key().hash(&bytes));
    }

    #[test]
    fn the_secret_is_not_printed() {
        assert_eq!(format!("{:?}", paper_key()), "Key(..)");
    }
}
