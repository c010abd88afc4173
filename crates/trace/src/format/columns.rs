//! The five columns of the disk and flash simulators, which differ in their units.
//!
//! ```text
//! time  device  start  length  direction      0 write, 1 read (bit 0 of a bit field)
//!
//! DiskSim ascii   ms   512 B   512 B
//! SSDsim, MQSim   ns   512 B   512 B
//! Heimdall        ms   bytes   bytes
//! ```
//!
//! Files look the same, so that only their user knows which it is. No format of these has response
//! times.

use evenkeel_core::ticket::Kind;

use super::field::{instant, of_two, whole};
use super::line::Layout;
use super::names::{Interner, Numbering, numbered};
use super::sink::Sink;
use super::trouble::{OrField, Trouble};
use crate::codec::Encoder;
use crate::text::{Cursor, push_scaled, push_unsigned};
use crate::{Record, Sources};

/// What one of the formats counts in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    /// Decimal digits of a time unit that a nanosecond is: 6 for milliseconds.
    time_digits: u32,
    range_bytes: u64,
}

pub(super) const DISKSIM: Units = Units { time_digits: 6, range_bytes: 512 };
pub(super) const SSDSIM: Units = Units { time_digits: 0, range_bytes: 512 };
pub(super) const HEIMDALL: Units = Units { time_digits: 6, range_bytes: 1 };

pub(super) struct Columns {
    units: Units,
    interner: Interner,
}

impl Columns {
    pub(super) fn new(units: Units) -> Self {
        Self { units, interner: Interner::default() }
    }

    fn bytes(&self, words: &mut Cursor<'_>, name: &'static str) -> Result<u64, Trouble> {
        let count = whole(words.word(), name)?;
        count.checked_mul(self.units.range_bytes).or_field(name, "a number below 2^64 bytes")
    }
}

impl Layout for Columns {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        let mut words = Cursor::new(line);
        let mut time = Cursor::new(words.word());
        let time = time.scaled(self.units.time_digits).filter(|_| time.is_at_end());
        let at = instant(time.or_field("time", "a number")?, 1)?;
        let device = words.word();
        let source = self.interner.source(sink.sources, device, |it| numbered("device", it))?;
        let offset = self.bytes(&mut words, "start")?;
        let length = self.bytes(&mut words, "length")?;
        let flags = whole(words.word(), "direction")?;
        words.word().is_empty().then_some(()).or_field("direction", "nothing behind it")?;
        let kind = if flags & 1 == 1 { Kind::Read } else { Kind::Write };
        sink.push(Record { at, source, kind, offset, length, response: None })
    }
}

/// Writes instants with all digits that a nanosecond needs.
pub(super) struct ColumnsEncoder {
    units: Units,
    numbering: Numbering,
}

impl ColumnsEncoder {
    pub(super) fn new(units: Units) -> Self {
        Self { units, numbering: Numbering::default() }
    }
}

impl Encoder for ColumnsEncoder {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let direction = of_two("the format", record.kind, [1, 0])?;
        let unit = self.units.range_bytes;
        let (offset, length) = (record.offset, record.length);
        if !offset.is_multiple_of(unit) || !length.is_multiple_of(unit) {
            return Err(format!("{length} bytes from byte {offset} are no whole sectors"));
        }
        push_scaled(out, record.at.0, self.units.time_digits);
        let device = u64::from(self.numbering.number(sources, record.source));
        for value in [device, offset / unit, length / unit, direction] {
            out.push(b' ');
            push_unsigned(out, value);
        }
        out.push(b'\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode_all;
    use crate::format::{Format, Options, refused};
    use evenkeel_core::time::Nanos;

    #[test]
    fn the_same_line_means_other_things_in_other_units() {
        let text = b"0 0 8 16 0\n1.5\t3 8 16 1\n";
        let read = |format: Format| {
            let mut decoder = format.decoder(&Options::default());
            let (records, defects) = decode_all(&mut *decoder, text);
            assert_eq!(defects, []);
            assert_eq!(decoder.sources().names(), ["0", "3"]);
            assert_eq!((records[0].kind, records[1].kind), (Kind::Write, Kind::Read));
            (records[1].at, records[1].offset, records[1].length)
        };
        assert_eq!(read(Format::DiskSim), (Nanos(1_500_000), 4_096, 8_192));
        assert_eq!(read(Format::SsdSim), (Nanos(1), 4_096, 8_192));
        assert_eq!(read(Format::Heimdall), (Nanos(1_500_000), 8, 16));
    }

    #[test]
    fn each_field_is_checked() {
        for (line, name) in [
            ("x 0 8 16 0", "time"),
            ("0x 0 8 16 0", "time"),
            ("0 d 8 16 0", "device"),
            ("0 0 -8 16 0", "start"),
            ("0 0 8 36028797018963968 0", "length"),
            ("0 0 8 16", "direction"),
            ("0 0 8 16 1 0", "direction"),
        ] {
            let reason = refused(Format::DiskSim, line);
            assert!(reason.starts_with(name), "{line}: {reason}");
        }
    }
}
