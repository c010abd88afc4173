//! Tables whose first line names the columns, among them the CSV traces of libCacheSim.
//!
//! ```text
//! version,time,op,size,lbn              time_ns,source,op,offset,size,response_ns
//! 1,33898,2a,512,42932745               0,db/main,read,4096,8192,350000
//! ```
//!
//! | column | read as |
//! |---|---|
//! | `time`, `time_s`, `timestamp` | seconds, with or without a fraction |
//! | `time_ms`, `ts_ms`, `time_us`, `ts_us`, `time_ns`, `ts_ns` | other units |
//! | `source`, `device`, `dev`, `disk`, `volume`, `tenant` | the source; else the file has one |
//! | `op`, `kind`, `type` | a name, a letter, or a SCSI operation code in hexadecimal; else reads |
//! | `offset`, `offset_bytes` | bytes |
//! | `lbn`, `lba`, `sector`, `block` | sectors of 512 bytes |
//! | `size`, `length`, `size_bytes`, `length_bytes` | bytes |
//! | `sectors` | sectors of 512 bytes |
//! | `response_ns`, `resp_ns`, `response_us`, `resp_us`, `response_ms` | empty: not known |
//!
//! Time, offset and size must be there; other columns are passed over. Upper and lower case are
//! the same. The encoder writes the columns of the second example.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::field::sectors;
use super::line::Layout;
use super::names::{Interner, printable};
use super::sink::Sink;
use super::trouble::{OrField, Trouble};
use super::{Options, scsi};
use crate::codec::Encoder;
use crate::text::{Cursor, push_unsigned};
use crate::{Record, Sources};

const HEAD: &[u8] = b"time_ns,source,op,offset,size,response_ns\n";
const COLUMNS_MAX: usize = 64;

/// What a column means; times with the decimal digits down to a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Time(u32),
    Source,
    Kind,
    OffsetBytes,
    OffsetSectors,
    LengthBytes,
    LengthSectors,
    Response(u32),
    Other,
}

impl Role {
    fn of(title: &[u8]) -> Self {
        match title.trim_ascii().to_ascii_lowercase().as_slice() {
            b"time" | b"time_s" | b"timestamp" => Self::Time(9),
            b"time_ms" | b"ts_ms" => Self::Time(6),
            b"time_us" | b"ts_us" => Self::Time(3),
            b"time_ns" | b"ts_ns" => Self::Time(0),
            b"source" | b"device" | b"dev" | b"disk" | b"volume" | b"tenant" => Self::Source,
            b"op" | b"kind" | b"type" => Self::Kind,
            b"offset" | b"offset_bytes" => Self::OffsetBytes,
            b"lbn" | b"lba" | b"sector" | b"block" => Self::OffsetSectors,
            b"size" | b"length" | b"size_bytes" | b"length_bytes" => Self::LengthBytes,
            b"sectors" => Self::LengthSectors,
            b"response_ms" => Self::Response(6),
            b"response_us" | b"resp_us" => Self::Response(3),
            b"response_ns" | b"resp_ns" => Self::Response(0),
            _ => Self::Other,
        }
    }
}

/// What the columns of a line of titles mean; `None` if time, offset or size are missing.
fn roles(line: &[u8]) -> Option<Vec<Role>> {
    let roles: Vec<Role> =
        line.split(|&byte| byte == b',').take(COLUMNS_MAX).map(Role::of).collect();
    let has = |wanted: fn(&Role) -> bool| roles.iter().any(wanted);
    let is_whole = has(|role| matches!(role, Role::Time(_)))
        && has(|role| matches!(role, Role::OffsetBytes | Role::OffsetSectors))
        && has(|role| matches!(role, Role::LengthBytes | Role::LengthSectors));
    is_whole.then_some(roles)
}

/// Whether a line names columns that this format understands.
pub(super) fn is_head(line: &[u8]) -> bool {
    roles(line).is_some()
}

pub(super) struct Csv {
    source: String,
    roles: Vec<Role>,
    interner: Interner,
}

impl Csv {
    pub(super) fn new(options: &Options) -> Self {
        Self { source: options.source.clone(), roles: Vec::new(), interner: Interner::default() }
    }

    fn head(&mut self, line: &[u8]) -> Result<(), Trouble> {
        let expected = "a line of titles with time, offset and size";
        self.roles = roles(line).or_field("first line", expected)?;
        Ok(())
    }
}

impl Layout for Csv {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        if self.roles.is_empty() {
            return self.head(line);
        }
        let mut row = Row::default();
        let mut fields = Cursor::new(line);
        let mut source = None;
        for &role in &self.roles {
            let text = fields.until(b',').trim_ascii();
            if role == Role::Source {
                source = Some(text);
            } else {
                row.take(role, text)?;
            }
        }
        let source = source.unwrap_or(self.source.as_bytes());
        let source =
            self.interner.source(sink.sources, source, |source| printable("source", source))?;
        let length = if row.kind == Kind::Flush { 0 } else { row.length };
        sink.push(Record {
            at: row.at,
            source,
            kind: row.kind,
            offset: row.offset,
            length,
            response: row.response,
        })
    }
}

struct Row {
    at: Nanos,
    kind: Kind,
    offset: u64,
    length: u64,
    response: Option<Span>,
}

impl Default for Row {
    fn default() -> Self {
        Self { at: Nanos::ZERO, kind: Kind::Read, offset: 0, length: 0, response: None }
    }
}

impl Row {
    fn take(&mut self, role: Role, text: &[u8]) -> Result<(), Trouble> {
        match role {
            Role::Time(digits) => self.at = Nanos(scaled(text, digits, "time")?),
            Role::Kind => self.kind = kind(text)?,
            Role::OffsetBytes => self.offset = scaled(text, 0, "offset")?,
            Role::OffsetSectors => self.offset = sectors(scaled(text, 0, "offset")?)?,
            Role::LengthBytes => self.length = scaled(text, 0, "size")?,
            Role::LengthSectors => self.length = sectors(scaled(text, 0, "size")?)?,
            Role::Response(_) if text.is_empty() => self.response = None,
            Role::Response(digits) => self.response = Some(Span(scaled(text, digits, "response")?)),
            Role::Source | Role::Other => {}
        }
        Ok(())
    }
}

fn scaled(text: &[u8], digits: u32, name: &'static str) -> Result<u64, Trouble> {
    let mut cursor = Cursor::new(text);
    cursor.scaled(digits).filter(|_| cursor.is_at_end()).or_field(name, "a number")
}

fn kind(text: &[u8]) -> Result<Kind, Trouble> {
    let is = |name: &str| text.eq_ignore_ascii_case(name.as_bytes());
    if let Some(kind) = Kind::ALL.into_iter().find(|kind| is(kind.name())) {
        return Ok(kind);
    }
    let kind = match text {
        b"R" | b"r" => Some(Kind::Read),
        b"W" | b"w" => Some(Kind::Write),
        _ => scsi_kind(text),
    };
    kind.or_field("op", "a kind of request, `R`, `W`, or a SCSI operation in hexadecimal")
}

fn scsi_kind(text: &[u8]) -> Option<Kind> {
    let mut cursor = Cursor::new(text);
    let operation = cursor.hexadecimal().filter(|_| cursor.is_at_end())?;
    scsi::kind(u16::try_from(operation).ok()?)
}

/// [`Kind`] and everything else of a record fit; names must be without commas.
#[derive(Default)]
pub(super) struct CsvEncoder {
    has_head: bool,
}

impl CsvEncoder {
    fn push_head_once(&mut self, out: &mut Vec<u8>) {
        if !self.has_head {
            self.has_head = true;
            out.extend_from_slice(HEAD);
        }
    }
}

impl Encoder for CsvEncoder {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let name = sources.name(record.source);
        let is_plain =
            name.trim_ascii() == name && !name.contains(|c: char| c == ',' || c.is_control());
        if name.is_empty() || !is_plain {
            return Err(format!("a table of commas cannot hold the source name {name:?}"));
        }
        self.push_head_once(out);
        push_unsigned(out, record.at.0);
        for text in [name, record.kind.name()] {
            out.push(b',');
            out.extend_from_slice(text.as_bytes());
        }
        for value in [record.offset, record.length] {
            out.push(b',');
            push_unsigned(out, value);
        }
        out.push(b',');
        if let Some(Span(response_ns)) = record.response {
            push_unsigned(out, response_ns);
        }
        out.push(b'\n');
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.push_head_once(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode_all;
    use crate::format::Format;

    fn read(text: &str) -> (Vec<Record>, Vec<String>) {
        let mut decoder = Format::Csv.decoder(&Options::default());
        let (records, defects) = decode_all(&mut *decoder, text.as_bytes());
        (records, defects.into_iter().map(|defect| defect.to_string()).collect())
    }

    #[test]
    fn a_table_of_libcachesim_is_read() {
        let (records, defects) =
            read("version,time,op,size,lbn\n1,33898,2a,512,42932745\n1,33899,28,4096,8\n");
        assert_eq!(defects, [""; 0]);
        assert_eq!((records[0].kind, records[1].kind), (Kind::Write, Kind::Read));
        assert_eq!((records[0].offset, records[0].length), (42_932_745 * 512, 512));
        assert_eq!(records[1].at, Nanos(1_000_000_000));
    }

    #[test]
    fn columns_stand_in_any_order_with_their_units() {
        let (records, defects) = read(
            "resp_us,size,Offset,ts_us,dev,op\n12.5,4096,0,100.25,3,WRITE\n,0,0,101,4,flush\n",
        );
        assert_eq!(defects, [""; 0]);
        assert_eq!(records[0].response, Some(Span(12_500)));
        assert_eq!((records[1].kind, records[1].at), (Kind::Flush, Nanos(750)));
        assert_ne!(records[0].source, records[1].source);
    }

    #[test]
    fn missing_columns_and_fields_are_named() {
        assert!(read("time,size\n1,2\n").1[0].contains("a line of titles"));
        let head = "time,size,offset,op\n";
        for (line, name) in [
            ("", ""),
            ("x,1,1,R", "time"),
            ("1,,1,R", "size"),
            ("1,1,?,R", "offset"),
            ("1,1,1,12", "op"),
            ("1,1,1", "op"),
        ] {
            let (_, defects) = read(&format!("{head}{line}"));
            let named = defects.iter().all(|defect| defect.contains(&format!("2: {name}: ")));
            assert!(named && defects.len() == usize::from(!line.is_empty()), "{line}: {defects:?}");
        }
    }
}
