//! The numbers of a table: exact, and within 64 bits whatever they count.

use crate::format::trouble::{OrField, Trouble};
use crate::text::Cursor;

/// Digits of a fraction that are looked at; more must be zeros.
const FRACTION_DIGITS_MAX: usize = 9;

/// A number of so many bytes each, in bytes. A fraction must come to whole bytes: 4.5 KiB does,
/// 4.5 bytes do not.
#[inline]
pub(super) fn bytes(text: &[u8], unit_bytes: u64, name: &'static str) -> Result<u64, Trouble> {
    let mut cursor = Cursor::new(text);
    let whole = cursor.unsigned().or_field(name, "a number")?;
    let bytes = whole.checked_mul(unit_bytes).or_field(name, "a number below 2^64 bytes")?;
    if cursor.is_at_end() {
        return Ok(bytes);
    }
    let part = fraction_bytes(cursor, unit_bytes).or_field(name, "a number of whole bytes")?;
    bytes.checked_add(part).or_field(name, "a number below 2^64 bytes")
}

fn fraction_bytes(mut cursor: Cursor<'_>, unit_bytes: u64) -> Option<u64> {
    let digits = if cursor.take(b'.') { cursor.rest() } else { return None };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (near, far) = digits.split_at(digits.len().min(FRACTION_DIGITS_MAX));
    if far.iter().any(|&digit| digit != b'0') {
        return None;
    }
    let (mut value, mut scale) = (0_u128, 1_u128);
    for &digit in near {
        value = value * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    let bytes = value * u128::from(unit_bytes);
    if bytes % scale == 0 { u64::try_from(bytes / scale).ok() } else { None }
}

/// A number of units of time, in nanoseconds; what is below one is dropped.
#[inline]
pub(super) fn nanoseconds(text: &[u8], digits: u32, name: &'static str) -> Result<u64, Trouble> {
    let mut cursor = Cursor::new(text);
    let value = cursor.scaled(digits).filter(|_| cursor.is_at_end());
    value.or_field(name, "a number, within 584 years")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_unit_are_exact_or_refused() {
        let read = |text: &str, unit: u64| bytes(text.as_bytes(), unit, "size").ok();
        assert_eq!(read("8", 512), Some(4096));
        assert_eq!(read("4096.0", 1), Some(4096));
        assert_eq!(read("4.5", 1024), Some(4608));
        assert_eq!(read("0.500000000000", 1024), Some(512));
        assert_eq!(read("4.5", 1), None);
        assert_eq!(read("0.0000000001", 1 << 20), None);
        assert_eq!(read("36028797018963967", 512), Some(u64::MAX - 511));
        assert_eq!(read("36028797018963968", 512), None);
        assert_eq!(read("18446744073709551615.5", u64::MAX), None);
        for text in ["", "-1", "1e3", "1.5.", "0x10", "1 2", "."] {
            assert_eq!(read(text, 1), None, "{text}");
        }
    }

    #[test]
    fn instants_beyond_64_bits_are_refused() {
        let read = |text: &str, digits| nanoseconds(text.as_bytes(), digits, "time").ok();
        assert_eq!(read("100.25", 3), Some(100_250));
        assert_eq!(read("128166372003061629", 2), Some(12_816_637_200_306_162_900));
        assert_eq!(read("18446744074", 9), None);
        assert_eq!(read("2024-01-01", 9), None);
    }
}
