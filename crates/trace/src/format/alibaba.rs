//! Alibaba Cloud: a month of 1,000 volumes of a block store (Li and others, "An In-Depth Analysis
//! of Cloud Block Storage Workloads in Large-Scale Production", IISWC 2020).
//!
//! ```text
//! device_id,opcode,offset,length,timestamp
//! 419,W,8792731648,16384,1577808144360767
//! |   |     |        |          +- microseconds since 1970
//! |   |     |        +------------ bytes
//! |   |     +--------------------- bytes from the start of the volume
//! |   +--------------------------- R or W
//! +------------------------------- the volume: the source
//! ```
//!
//! The format has no response times.

use super::field::{instant, nothing_behind, number, of_two, read_or_write};
use super::line::Layout;
use super::names::{Interner, Numbering, numbered};
use super::sink::Sink;
use super::trouble::Trouble;
use crate::codec::Encoder;
use crate::text::{Cursor, push_unsigned};
use crate::{Record, Sources};

const TICK_NS: u64 = 1_000;

#[derive(Default)]
pub(super) struct Alibaba {
    interner: Interner,
}

impl Layout for Alibaba {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        if line.starts_with(b"device_id") {
            return Ok(());
        }
        let mut fields = Cursor::new(line);
        let device = fields.until(b',').trim_ascii();
        let source = self.interner.source(sink.sources, device, |it| numbered("device_id", it))?;
        let kind = read_or_write(&mut fields, "opcode")?;
        let offset = number(&mut fields, "offset")?;
        let length = number(&mut fields, "length")?;
        let at = instant(number(&mut fields, "timestamp")?, TICK_NS)?;
        nothing_behind(fields, "timestamp")?;
        sink.push(Record { at, source, kind, offset, length, response: None })
    }
}

/// Writes instants as if the trace had started with 1970; cuts them to microseconds.
#[derive(Default)]
pub(super) struct AlibabaEncoder {
    numbering: Numbering,
}

impl Encoder for AlibabaEncoder {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let kind = of_two("the Alibaba format", record.kind, [&b",R,"[..], b",W,"])?;
        push_unsigned(out, u64::from(self.numbering.number(sources, record.source)));
        out.extend_from_slice(kind);
        push_unsigned(out, record.offset);
        out.push(b',');
        push_unsigned(out, record.length);
        out.push(b',');
        push_unsigned(out, record.at.0 / TICK_NS);
        out.push(b'\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::codec::decode_all;
    use crate::format::{Format, Options, refused};
    use evenkeel_core::ticket::Kind;
    use evenkeel_core::time::Nanos;

    #[test]
    fn a_line_is_a_record() {
        let text = b"device_id,opcode,offset,length,timestamp\n\
            419,W,8792731648,16384,1577808144360767\n725,R,59110326272,4096,1577808144360800\n";
        let mut decoder = Format::Alibaba.decoder(&Options::default());
        let (records, defects) = decode_all(&mut *decoder, text);
        assert_eq!(defects, []);
        assert_eq!(decoder.sources().names(), ["419", "725"]);
        assert_eq!(decoder.origin_ns(), Some(1_577_808_144_360_767_000));
        assert_eq!(records[1].at, Nanos(33_000));
        assert_eq!((records[0].offset, records[0].length), (8_792_731_648, 16_384));
        assert_eq!((records[0].kind, records[1].kind), (Kind::Write, Kind::Read));
    }

    #[test]
    fn each_field_is_checked() {
        for (line, name) in [
            ("a,W,0,512,1", "device_id"),
            (",W,0,512,1", "device_id"),
            ("1,X,0,512,1", "opcode"),
            ("1,W,,512,1", "offset"),
            ("1,W,0,51a,1", "length"),
            ("1,W,0,512", "timestamp"),
            ("1,W,0,512,1,2", "timestamp"),
            ("1,W,0,512,18446744073709551615", "time"),
        ] {
            let reason = refused(Format::Alibaba, line);
            assert!(reason.starts_with(name), "{line}: {reason}");
        }
    }
}
