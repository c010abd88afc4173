//! Numbers in as few bytes as they need: LEB128, seven bits in a byte, the lowest first, the top
//! bit set on all but the last.
//!
//! ```text
//!   300 = 0b10_0101100   ->   1_0101100  0_0000010   =   ac 02
//! ```
//!
//! Only the shortest form is read: a last byte of zero could be left out, so it is refused.

use super::Malformed;

/// The most bytes of a number of 32 bits.
pub(super) const BYTES_MAX_32: usize = 5;

/// The most bytes of a number of 64 bits.
pub(super) const BYTES_MAX_64: usize = 10;

/// Appends a number.
pub(super) fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(0x80 | low_bits(value));
        value >>= 7;
    }
    out.push(low_bits(value));
}

fn low_bits(value: u64) -> u8 {
    u8::try_from(value & 0x7f).expect("seven bits")
}

/// What is left to read.
#[derive(Clone, Debug)]
pub(super) struct Varints<'a>(pub(super) &'a [u8]);

impl Varints<'_> {
    /// The next number, of 32 bits at most.
    pub(super) fn u32(&mut self, name: &'static str) -> Result<u32, Malformed> {
        u32::try_from(self.u64(name)?).map_err(|_| Malformed::Field { name })
    }

    /// The next number.
    pub(super) fn u64(&mut self, name: &'static str) -> Result<u64, Malformed> {
        let mut value = 0;
        for position in 0..BYTES_MAX_64 {
            let (&byte, rest) = self.0.split_first().ok_or(Malformed::Short)?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * u32::try_from(position).expect("below ten");
            let is_lossless = bits << shift >> shift == bits;
            let is_shortest = byte != 0 || position == 0;
            if !is_lossless || !is_shortest {
                return Err(Malformed::Field { name });
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::Field { name })
    }

    /// So many bytes as they are.
    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// Makes sure that nothing is left.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Trailing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<u64, Malformed> {
        Varints(bytes).u64("number")
    }

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        for (value, bytes) in [(0, 1), (127, 1), (128, 2), (300, 2), (u64::MAX, BYTES_MAX_64)] {
            let mut out = Vec::new();
            push(&mut out, value);
            assert_eq!((out.len(), read(&out)), (bytes, Ok(value)));
        }
        let mut out = Vec::new();
        push(&mut out, u64::from(u32::MAX));
        assert_eq!(out.len(), BYTES_MAX_32);
    }

    #[test]
    fn only_the_shortest_form_within_the_range_is_read() {
        let refused = Err(Malformed::Field { name: "number" });
        assert_eq!(read(&[0x80, 0x00]), refused, "zero in two bytes");
        assert_eq!(read(&[0xff; 11]), refused, "eleven bytes");
        let mut over = [0xff; 10];
        over[9] = 0x02;
        assert_eq!(read(&over), refused, "65 bits");
        assert_eq!(read(&[0x80]), Err(Malformed::Short));
        assert_eq!(Varints(&[0xff, 0xff, 0xff, 0xff, 0x10]).u32("number").ok(), None);
    }
}
