//! Scanning and writing the fields of text traces.
//!
//! A trace is read once, line by line, so a field is taken where the cursor stands and nothing is
//! copied: no `str`, no `parse`, no allocation. Eight bytes are looked at together where that pays
//! (ends of lines, long numbers); the bytes of a machine word in little-endian order are
//!
//! ```text
//! "12345678"  ->  0x38_37_36_35_34_33_32_31      the first byte is the lowest
//! ```

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// The place of the first line feed.
pub(crate) fn line_feed(bytes: &[u8]) -> Option<usize> {
    let mut words = bytes.chunks_exact(8);
    let mut at = 0;
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        let differs = word ^ (LOW_BITS * u64::from(b'\n'));
        // The lowest zero byte of `differs` is the first to get its high bit here; bytes above it
        // may get theirs by the borrow, which does no harm.
        let found = differs.wrapping_sub(LOW_BITS) & !differs & HIGH_BITS;
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    words.remainder().iter().position(|&byte| byte == b'\n').map(|rest| at + rest)
}

/// The value of eight digits; `None` if one of them is none.
fn eight_digits(bytes: &[u8]) -> Option<u64> {
    let word = u64::from_le_bytes(bytes.get(..8)?.try_into().expect("eight bytes"));
    let digits = word.wrapping_sub(LOW_BITS * u64::from(b'0'));
    // A byte below '0' wraps and gets its high bit; one above '9' gets it by adding 118.
    if (digits | digits.wrapping_add(LOW_BITS * 118)) & HIGH_BITS != 0 {
        return None;
    }
    // Neighbours join to pairs, pairs to fours, fours to the whole.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

/// A place in a line, with what lies behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// At the start of a line.
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// What has not been taken.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Nothing is left.
    pub(crate) fn is_at_end(self) -> bool {
        self.rest.is_empty()
    }

    /// Takes a whole number of at least one digit; `None`, and nothing taken, if there is none or
    /// it is above 64 bits.
    #[inline]
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        let (mut value, mut length) = (0_u64, 0);
        while let Some(digits) = eight_digits(&self.rest[length..]) {
            value = value.wrapping_mul(100_000_000).wrapping_add(digits);
            length += 8;
        }
        while let Some(digit) = digit(self.rest, length) {
            value = value.wrapping_mul(10).wrapping_add(digit);
            length += 1;
        }
        let (number, rest) = self.rest.split_at(length);
        // Nineteen digits always fit; longer numbers are rare enough for a second, careful look.
        let value = match length {
            0 => None,
            1..=19 => Some(value),
            _ => number.iter().try_fold(0_u64, |value, &byte| {
                value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
            }),
        }?;
        self.rest = rest;
        Some(value)
    }

    /// Takes a decimal number with or without a fraction, times ten to the power of `digits`:
    /// with 9, seconds become nanoseconds. Digits of the fraction beyond that are dropped.
    pub(crate) fn scaled(&mut self, digits: u32) -> Option<u64> {
        let start = self.rest;
        let value = self.scaled_or_stuck(digits);
        if value.is_none() {
            self.rest = start;
        }
        value
    }

    fn scaled_or_stuck(&mut self, digits: u32) -> Option<u64> {
        let whole = self.unsigned()?.checked_mul(10_u64.pow(digits))?;
        if !self.take(b'.') {
            return Some(whole);
        }
        let (mut fraction, mut length) = (0_u64, 0_u32);
        while let Some(digit) = digit(self.rest, 0) {
            if length < digits {
                fraction = fraction * 10 + digit;
                length += 1;
            }
            self.rest = &self.rest[1..];
        }
        whole.checked_add(fraction * 10_u64.pow(digits - length))
    }

    /// Takes a hexadecimal number of up to 16 digits, with or without `0x`.
    pub(crate) fn hexadecimal(&mut self) -> Option<u64> {
        let prefixed = self.rest.strip_prefix(b"0x").unwrap_or(self.rest);
        let length = prefixed.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (number, rest) = prefixed.split_at(length);
        if !(1..=16).contains(&length) {
            return None;
        }
        self.rest = rest;
        Some(number.iter().fold(0, |value, &byte| {
            let digit = char::from(byte).to_digit(16).expect("is_ascii_hexdigit above");
            value << 4 | u64::from(digit)
        }))
    }

    /// Takes this byte if it comes next.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((&first, rest)) if first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Takes the bytes up to a separator, and the separator; all the rest if there is none.
    #[inline]
    pub(crate) fn until(&mut self, separator: u8) -> &'a [u8] {
        let length = self.rest.iter().position(|&byte| byte == separator);
        let (field, rest) = self.rest.split_at(length.unwrap_or(self.rest.len()));
        self.rest = rest.get(1..).unwrap_or_default();
        field
    }

    /// Drops blanks and tabs.
    #[inline]
    pub(crate) fn skip_blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Drops blanks, then takes the bytes up to the next blank; empty at the end of the line.
    pub(crate) fn word(&mut self) -> &'a [u8] {
        self.skip_blanks();
        let blank = self.rest.iter().position(|&byte| byte == b' ' || byte == b'\t');
        let (word, rest) = self.rest.split_at(blank.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }
}

#[inline]
fn digit(bytes: &[u8], at: usize) -> Option<u64> {
    let digit = bytes.get(at)?.wrapping_sub(b'0');
    (digit < 10).then_some(u64::from(digit))
}

/// Appends a whole number.
pub(crate) fn push_unsigned(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    let mut rest = value;
    loop {
        start -= 1;
        digits[start] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends `value` divided by ten to the power of `digits`, with all its digits: what
/// [`Cursor::scaled`] reads back.
pub(crate) fn push_scaled(out: &mut Vec<u8>, value: u64, digits: u32) {
    let unit = 10_u64.pow(digits);
    push_unsigned(out, value / unit);
    if digits > 0 {
        out.push(b'.');
    }
    let mut place = unit;
    while place > 1 {
        place /= 10;
        out.push(b'0' + u8::try_from(value / place % 10).expect("a digit"));
    }
}

/// At most so many characters of somebody's bytes, printable, in quotes.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 72;
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let more = if shown.len() < bytes.len() { ".." } else { "" };
    format!("\"{}\"{more}", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_end_at_the_first_other_byte() {
        let mut cursor = Cursor::new(b"123456789012,7x");
        assert_eq!(cursor.unsigned(), Some(123_456_789_012));
        assert!(cursor.take(b','));
        assert_eq!(cursor.unsigned(), Some(7));
        assert_eq!(cursor.unsigned(), None);
        assert_eq!(cursor.rest(), b"x");
    }

    #[test]
    fn a_number_above_64_bits_is_none() {
        assert_eq!(Cursor::new(b"18446744073709551615").unsigned(), Some(u64::MAX));
        assert_eq!(Cursor::new(b"18446744073709551616").unsigned(), None);
        assert_eq!(Cursor::new(b"0000000000000000000000001").unsigned(), Some(1));
        assert_eq!(Cursor::new(b"18446744074").scaled(9), None);
    }

    #[test]
    fn fractions_are_cut_to_the_digits_asked_for() {
        let nanoseconds = |text: &str| Cursor::new(text.as_bytes()).scaled(9);
        assert_eq!(nanoseconds("1.5"), Some(1_500_000_000));
        assert_eq!(nanoseconds("0.0262140009"), Some(26_214_000));
        assert_eq!(nanoseconds("2."), Some(2_000_000_000));
        assert_eq!(nanoseconds(".5"), None);
    }

    #[test]
    fn foreign_bytes_are_shown_printable_and_short() {
        assert_eq!(quoted(b"a\x1b\"\n"), r#""a\x1b\"\n""#);
        assert_eq!(quoted(&[b'x'; 100]).len(), 72 + 4);
    }

    proptest! {
        #[test]
        fn numbers_read_as_the_standard_library_does(text in "[0-9]{0,24}[,a]?") {
            let digits = text.trim_end_matches([',', 'a']);
            prop_assert_eq!(Cursor::new(text.as_bytes()).unsigned(), digits.parse().ok());
        }

        #[test]
        fn hexadecimal_reads_as_the_standard_library_does(text in "[0-9a-fA-F]{1,18}") {
            let naive = if text.len() > 16 { None } else { u64::from_str_radix(&text, 16).ok() };
            prop_assert_eq!(Cursor::new(text.as_bytes()).hexadecimal(), naive);
        }

        #[test]
        fn a_line_ends_where_a_plain_search_finds_it(
            bytes in proptest::collection::vec(8_u8..12, 0..40),
        ) {
            prop_assert_eq!(line_feed(&bytes), bytes.iter().position(|&byte| byte == b'\n'));
        }

        #[test]
        fn what_is_written_is_read_back(value: u64, digits in 0_u32..10) {
            let mut out = Vec::new();
            push_unsigned(&mut out, value);
            prop_assert_eq!(String::from_utf8_lossy(&out), value.to_string());
            out.clear();
            push_scaled(&mut out, value, digits);
            prop_assert_eq!(Cursor::new(&out).scaled(digits), Some(value));
        }
    }
}
