//! SPC: the trace file format of the Storage Performance Council, in which the `UMass` repository
//! keeps `Financial1`, `WebSearch1` and their like.
//!
//! ```text
//! 0,303567,3584,w,0.000000
//! |  |      |   |  +- seconds since the start
//! |  |      |   +---- r or w, either case
//! |  |      +-------- bytes
//! |  +--------------- first block of 512 bytes
//! +------------------ application storage unit: the source
//! ```
//!
//! Further fields are allowed and passed over. The format has no response times.

use evenkeel_core::time::Nanos;

use super::field::{number, of_two, read_or_write, sectors};
use super::line::Layout;
use super::names::{Interner, Numbering, printable};
use super::sink::Sink;
use super::trouble::{OrField, Trouble, field};
use crate::codec::Encoder;
use crate::text::{Cursor, push_scaled, push_unsigned};
use crate::{Record, Sources};

#[derive(Default)]
pub(super) struct Spc {
    interner: Interner,
}

impl Layout for Spc {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        let mut fields = Cursor::new(line);
        let asu = fields.until(b',').trim_ascii();
        let source = self.interner.source(sink.sources, asu, |asu| {
            let mut cursor = Cursor::new(asu);
            let is_number = cursor.unsigned().is_some() && cursor.is_at_end();
            is_number.then_some(()).or_field("ASU", "the number of a storage unit")?;
            printable("ASU", asu)
        })?;
        let block = number(&mut fields, "LBA")?;
        let length = number(&mut fields, "Size")?;
        let kind = read_or_write(&mut fields, "Opcode")?;
        fields.skip_blanks();
        let at_ns = fields.scaled(9).or_field("Timestamp", "seconds")?;
        fields.skip_blanks();
        if !fields.is_at_end() && !fields.take(b',') {
            return Err(field("Timestamp", "seconds, and a comma if more follows"));
        }
        let offset = sectors(block)?;
        sink.push(Record { at: Nanos(at_ns), source, kind, offset, length, response: None })
    }
}

/// Writes instants with all nine digits.
#[derive(Default)]
pub(super) struct SpcEncoder {
    numbering: Numbering,
}

impl Encoder for SpcEncoder {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let kind = of_two("the SPC format", record.kind, [&b",r,"[..], b",w,"])?;
        if !record.offset.is_multiple_of(512) {
            return Err(format!("byte {} is no start of a 512-byte block", record.offset));
        }
        push_unsigned(out, u64::from(self.numbering.number(sources, record.source)));
        out.push(b',');
        push_unsigned(out, record.offset / 512);
        out.push(b',');
        push_unsigned(out, record.length);
        out.extend_from_slice(kind);
        push_scaled(out, record.at.0, 9);
        out.push(b'\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode_all;
    use crate::format::{Format, Options, refused};
    use evenkeel_core::ticket::Kind;

    #[test]
    fn a_line_is_a_record() {
        let text = b"0,303567,3584,w,0.026214\n1, 55590, 3072, R, 0.078643, 7\n";
        let mut decoder = Format::Spc.decoder(&Options::default());
        let (records, defects) = decode_all(&mut *decoder, text);
        assert_eq!(defects, []);
        assert_eq!(decoder.sources().names(), ["0", "1"]);
        assert_eq!(records[0].offset, 303_567 * 512);
        assert_eq!((records[0].kind, records[1].kind), (Kind::Write, Kind::Read));
        assert_eq!((records[0].at, records[1].at), (Nanos(0), Nanos(52_429_000)));
        assert_eq!(records[1].length, 3_072);
    }

    #[test]
    fn each_field_is_checked() {
        for (line, name) in [
            ("a,1,512,r,0", "ASU"),
            ("0,1 2,512,r,0", "LBA"),
            ("0,99999999999999999,512,r,0", "sector"),
            ("0,1,-512,r,0", "Size"),
            ("0,1,512,q,0", "Opcode"),
            ("0,1,512,r", "Timestamp"),
            ("0,1,512,r,1e-5", "Timestamp"),
        ] {
            let reason = refused(Format::Spc, line);
            assert!(reason.starts_with(name), "{line}: {reason}");
        }
    }
}
