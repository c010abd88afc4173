//! Tencent CBS: ten days of 5,584 volumes of a cloud block store (Zhang and others, "OSCA: An
//! Online-Model Based Cache Allocation Scheme in Cloud Block Storage Systems", USENIX ATC 2020).
//!
//! ```text
//! Timestamp,Offset,Size,IOType,VolumeID
//! 1538323200,12910952,128,0,1063
//!  |            |      |  |   +- the volume: the source
//!  |            |      |  +----- 0 read, 1 write
//!  |            +------+-------- sectors of 512 bytes
//!  +---------------------------- seconds since 1970
//! ```
//!
//! Instants are whole seconds, so requests come in bursts; fractions are read where they appear.
//! The format has no response times.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::field::{nothing_behind, number, of_two, sectors, whole_sectors};
use super::line::Layout;
use super::names::{Interner, Numbering, numbered};
use super::sink::Sink;
use super::trouble::{OrField, Trouble, field};
use crate::codec::Encoder;
use crate::text::{Cursor, push_unsigned};
use crate::{Record, Sources};

const TICK_NS: u64 = 1_000_000_000;

#[derive(Default)]
pub(super) struct Tencent {
    interner: Interner,
}

impl Layout for Tencent {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        if line.starts_with(b"Timestamp") {
            return Ok(());
        }
        let mut fields = Cursor::new(line);
        fields.skip_blanks();
        let at_ns = fields.scaled(9).filter(|_| fields.take(b','));
        let at = Nanos(at_ns.or_field("Timestamp", "seconds since 1970")?);
        let offset = sectors(number(&mut fields, "Offset")?)?;
        let length = sectors(number(&mut fields, "Size")?)?;
        let kind = match number(&mut fields, "IOType")? {
            0 => Kind::Read,
            1 => Kind::Write,
            _ => return Err(field("IOType", "0 (read) or 1 (write)")),
        };
        let volume = fields.until(b',').trim_ascii();
        let source = self.interner.source(sink.sources, volume, |it| numbered("VolumeID", it))?;
        nothing_behind(fields, "VolumeID")?;
        sink.push(Record { at, source, kind, offset, length, response: None })
    }
}

/// Writes instants as if the trace had started with 1970; cuts them to seconds.
#[derive(Default)]
pub(super) struct TencentEncoder {
    numbering: Numbering,
}

impl Encoder for TencentEncoder {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let kind = of_two("the Tencent format", record.kind, [0, 1])?;
        let (offset, length) = whole_sectors(record)?;
        let volume = u64::from(self.numbering.number(sources, record.source));
        let fields = [record.at.0 / TICK_NS, offset, length, kind];
        for value in fields {
            push_unsigned(out, value);
            out.push(b',');
        }
        push_unsigned(out, volume);
        out.push(b'\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode_all;
    use crate::format::{Format, Options, refused};

    #[test]
    fn a_line_is_a_record() {
        let text = b"1538323200,12910952,128,0,1063\n1538323201,6338688,8,1,1627\n";
        let mut decoder = Format::Tencent.decoder(&Options::default());
        let (records, defects) = decode_all(&mut *decoder, text);
        assert_eq!(defects, []);
        assert_eq!(decoder.sources().names(), ["1063", "1627"]);
        assert_eq!(records[1].at, Nanos(1_000_000_000));
        assert_eq!((records[0].offset, records[0].length), (12_910_952 * 512, 65_536));
        assert_eq!((records[0].kind, records[1].kind), (Kind::Read, Kind::Write));
    }

    #[test]
    fn each_field_is_checked() {
        for (line, name) in [
            ("x,0,8,0,1", "Timestamp"),
            ("1", "Timestamp"),
            ("1,0 0,8,0,1", "Offset"),
            ("1,0,,0,1", "Size"),
            ("1,0,36028797018963968,0,1", "sector"),
            ("1,0,8,2,1", "IOType"),
            ("1,0,8,1", "VolumeID"),
            ("1,0,8,1,v", "VolumeID"),
            ("1,0,8,1,1,1", "VolumeID"),
        ] {
            let reason = refused(Format::Tencent, line);
            assert!(reason.starts_with(name), "{line}: {reason}");
        }
    }
}
