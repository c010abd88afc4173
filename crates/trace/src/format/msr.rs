//! MSR Cambridge: block traces of 36 volumes of an enterprise's servers for a week (Narayanan,
//! Donnelly and Rowstron, "Write Off-Loading", FAST 2008), as published by SNIA.
//!
//! ```text
//! Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
//! 128166372003061629,hm,1,Read,383496192,32768,413
//!  |                  |  |      |         |     +- 41.3 us, in 100 ns
//!  |                  |  |      |         +------- bytes
//!  |                  |  |      +----------------- bytes from the start of the disk
//!  |                  +--+------------------------ the source `hm_1`
//!  +---------------------------------------------- Windows file time: 100 ns since 1601
//! ```
//!
//! A response time of zero stands for one that is not known.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;

use super::field::{instant, nothing_behind, number, of_two};
use super::line::Layout;
use super::names::{Interner, printable};
use super::sink::Sink;
use super::trouble::{OrField, Trouble, field};
use crate::codec::Encoder;
use crate::text::{Cursor, push_unsigned};
use crate::{Record, Sources};

const TICK_NS: u64 = 100;

#[derive(Default)]
pub(super) struct Msr {
    interner: Interner,
}

impl Layout for Msr {
    #[inline]
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        if line.starts_with(b"Timestamp") {
            return Ok(());
        }
        let mut cursor = Cursor::new(line);
        let ticks = number(&mut cursor, "Timestamp")?;
        let source = cursor.rest();
        cursor.until(b',');
        cursor.until(b',');
        let key = source[..source.len() - cursor.rest().len()].strip_suffix(b",");
        let key = key.or_field("DiskNumber", "the number of a disk")?;
        let source = self.interner.source(sink.sources, key, name)?;
        let kind = kind(cursor.until(b','))?;
        let offset = number(&mut cursor, "Offset")?;
        let length = number(&mut cursor, "Size")?;
        let response = number(&mut cursor, "ResponseTime")?;
        nothing_behind(cursor, "ResponseTime")?;
        let response_ns = instant(response, TICK_NS)?.0;
        let response = (response > 0).then_some(Span(response_ns));
        let at = instant(ticks, TICK_NS)?;
        sink.push(Record { at, source, kind, offset, length, response })
    }
}

fn kind(word: &[u8]) -> Result<Kind, Trouble> {
    match word {
        b"Read" | b"read" => Ok(Kind::Read),
        b"Write" | b"write" => Ok(Kind::Write),
        _ => Err(field("Type", "`Read` or `Write`")),
    }
}

/// `hm,1` is the disk that the literature calls `hm_1`.
fn name(key: &[u8]) -> Result<String, Trouble> {
    let mut cursor = Cursor::new(key);
    let host = printable("Hostname", cursor.until(b','))?;
    let disk = cursor.unsigned().filter(|_| cursor.is_at_end());
    let disk = disk.or_field("DiskNumber", "the number of a disk")?;
    Ok(format!("{host}_{disk}"))
}

/// Writes instants as if the trace had started with the epoch; cuts them to 100 ns. A source
/// without a disk number gets disk 0.
pub(super) struct MsrEncoder;

impl Encoder for MsrEncoder {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let (host, disk) = host_and_disk(sources.name(record.source))?;
        let kind = of_two("the MSR format", record.kind, [&b",Read,"[..], b",Write,"])?;
        push_unsigned(out, record.at.0 / TICK_NS);
        out.push(b',');
        out.extend_from_slice(host.as_bytes());
        out.push(b',');
        out.extend_from_slice(disk.as_bytes());
        out.extend_from_slice(kind);
        let response_ticks = record.response.map_or(0, |response| response.0 / TICK_NS);
        for (number, end) in [(record.offset, b','), (record.length, b','), (response_ticks, b'\n')]
        {
            push_unsigned(out, number);
            out.push(end);
        }
        Ok(())
    }
}

fn host_and_disk(name: &str) -> Result<(&str, &str), String> {
    let parts = name.rsplit_once('_');
    let (host, disk) = parts.filter(|(_, disk)| is_number(disk)).unwrap_or((name, "0"));
    if host.is_empty() || host.contains(|c: char| c == ',' || c.is_control()) {
        return Err(format!("the MSR format cannot hold the source name {name:?}"));
    }
    Ok((host, disk))
}

fn is_number(text: &str) -> bool {
    let is_plain = text == "0" || !text.starts_with('0');
    is_plain && (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode_all;
    use crate::format::{Format, Options, refused};
    use evenkeel_core::time::Nanos;

    const TEXT: &[u8] = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
        128166372003061629,hm,1,Read,383496192,32768,413\n\
        128166372016382155,hm,0,Write,2822144,4096,0\n";

    #[test]
    fn a_line_is_a_record() {
        let mut decoder = Format::Msr.decoder(&Options::default());
        let (records, defects) = decode_all(&mut *decoder, TEXT);
        assert_eq!(defects, []);
        assert_eq!(decoder.sources().names(), ["hm_1", "hm_0"]);
        assert_eq!(decoder.origin_ns(), Some(12_816_637_200_306_162_900));
        let [first, second] = records[..] else { panic!("{records:?}") };
        assert_eq!((first.at, second.at), (Nanos(0), Nanos(1_332_052_600)));
        assert_eq!((first.kind, second.kind), (Kind::Read, Kind::Write));
        assert_eq!((first.offset, first.length), (383_496_192, 32_768));
        assert_eq!((first.response, second.response), (Some(Span(41_300)), None));
    }

    #[test]
    fn each_field_is_checked() {
        for (line, name) in [
            ("x,hm,1,Read,0,512,0", "Timestamp"),
            ("99999999999999999999,hm,1,Read,0,512,0", "Timestamp"),
            ("9999999999999999999,hm,1,Read,0,512,0", "time"),
            ("1,,1,Read,0,512,0", "Hostname"),
            ("1,hm,,Read,0,512,0", "DiskNumber"),
            ("1,hm", "DiskNumber"),
            ("1,hm,1,Reed,0,512,0", "Type"),
            ("1,hm,1,Read,-1,512,0", "Offset"),
            ("1,hm,1,Read,0", "Size"),
            ("1,hm,1,Read,0,512", "ResponseTime"),
            ("1,hm,1,Read,0,512,", "ResponseTime"),
            ("1,hm,1,Read,0,512,0,7", "ResponseTime"),
        ] {
            let reason = refused(Format::Msr, line);
            assert!(reason.starts_with(name), "{line}: {reason}");
        }
    }

    #[test]
    fn a_name_without_a_disk_gets_disk_zero() {
        assert_eq!(host_and_disk("prxy_12"), Ok(("prxy", "12")));
        assert_eq!(host_and_disk("db/vol_a"), Ok(("db/vol_a", "0")));
        assert!(host_and_disk("a,b").is_err());
    }
}
