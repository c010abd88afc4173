//! Fields that several text formats have: whole numbers between commas, instants, sectors, and
//! whether a request reads or writes.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::trouble::{OrField, Trouble, field};
use crate::Record;
use crate::text::Cursor;

/// An instant of the format's clock, in units of so many nanoseconds.
#[inline]
pub(crate) fn instant(units: u64, unit_ns: u64) -> Result<Nanos, Trouble> {
    let expected = "an instant within 584 years of the format's epoch";
    units.checked_mul(unit_ns).map(Nanos).or_field("time", expected)
}

/// Takes a whole number and the comma behind it, with blanks around; at the end of the line the
/// comma is missing, and so will be the next field.
#[inline]
pub(crate) fn number(fields: &mut Cursor<'_>, field: &'static str) -> Result<u64, Trouble> {
    fields.skip_blanks();
    let number = fields.unsigned();
    fields.skip_blanks();
    number.filter(|_| fields.take(b',') || fields.is_at_end()).or_field(field, "a whole number")
}

/// A field that is a whole number and nothing else.
#[inline]
pub(crate) fn whole(field: &[u8], name: &'static str) -> Result<u64, Trouble> {
    let mut field = Cursor::new(field);
    field.unsigned().filter(|_| field.is_at_end()).or_field(name, "a whole number")
}

/// Takes `R` or `W`, in either case, and the comma behind it.
#[inline]
pub(crate) fn read_or_write(fields: &mut Cursor<'_>, name: &'static str) -> Result<Kind, Trouble> {
    match fields.until(b',').trim_ascii() {
        b"R" | b"r" => Ok(Kind::Read),
        b"W" | b"w" => Ok(Kind::Write),
        _ => Err(field(name, "`R` or `W`")),
    }
}

/// What stands for a read or a write, for an encoder of a format that has nothing else.
#[inline]
pub(crate) fn of_two<T>(format: &str, kind: Kind, [read, write]: [T; 2]) -> Result<T, String> {
    match kind {
        Kind::Read => Ok(read),
        Kind::Write => Ok(write),
        other => Err(format!("{format} has no {}", other.name())),
    }
}

/// Nothing may follow the last field.
#[inline]
pub(crate) fn nothing_behind(fields: Cursor<'_>, field: &'static str) -> Result<(), Trouble> {
    fields.is_at_end().then_some(()).or_field(field, "nothing behind it")
}

/// A number of sectors in bytes.
#[inline]
pub(crate) fn sectors(count: u64) -> Result<u64, Trouble> {
    let expected = "a number of 512-byte sectors below 2^55";
    count.checked_mul(512).or_field("sector", expected)
}

/// Offset and length in sectors, for an encoder of a format that counts so.
pub(crate) fn whole_sectors(record: &Record) -> Result<(u64, u64), String> {
    if record.offset.is_multiple_of(512) && record.length.is_multiple_of(512) {
        return Ok((record.offset / 512, record.length / 512));
    }
    let (offset, length) = (record.offset, record.length);
    Err(format!("{length} bytes from byte {offset} are no whole 512-byte sectors"))
}
