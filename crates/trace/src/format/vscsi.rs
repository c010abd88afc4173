//! The VSCSI traces of `CloudPhysics`, as libCacheSim reads them: fixed records, little-endian.
//!
//! ```text
//! byte  0        4        8        12  14  16           24           32           40
//!  v1   serial   length   segments cmd ver block        time_us
//!  v2   cmd ver  serial   length   segments block       time_us      response_us
//!       0   2    4        8        12       16          24           32
//! ```
//!
//! `ver` is 0x0100 or 0x0200 and decides for the whole file; `cmd` is a SCSI operation code,
//! `length` counts bytes, `block` sectors of 512. There is one disk a file. A response of zero
//! stands for one that is not known. The encoder writes version 2.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::field::{instant, sectors};
use super::names::intern;
use super::sink::Sink;
use super::timeline::Timeline;
use super::trouble::Trouble;
use super::{Options, scsi};
use crate::codec::{Decoder, Defect, DefectAt, Encoder, Place};
use crate::{Record, SourceId, Sources};

const TICK_NS: u64 = 1_000;
const BYTES_V1: usize = 32;
const BYTES_V2: usize = 40;

/// The version of a file that starts so.
pub(super) fn version(head: &[u8]) -> Option<Version> {
    match head {
        // Where version 1 has its mark, version 2 has a number of segments, which is small.
        [_, _, _, _, _, _, _, _, _, _, _, _, _, _, 0, 1, ..] if head.len() >= BYTES_V1 => {
            Some(Version::One)
        }
        [_, _, 0, 2, ..] if head.len() >= BYTES_V2 => Some(Version::Two),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl Version {
    fn record_bytes(self) -> usize {
        match self {
            Self::One => BYTES_V1,
            Self::Two => BYTES_V2,
        }
    }
}

pub(super) struct VscsiDecoder {
    version: Option<Version>,
    source: String,
    sources: Sources,
    timeline: Timeline,
    byte: u64,
    /// The version is not known, or the rest too short: what comes is not read.
    is_over: bool,
}

impl VscsiDecoder {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            version: None,
            source: options.source.clone(),
            sources: Sources::default(),
            timeline: Timeline::of(options),
            byte: 0,
            is_over: false,
        }
    }

    fn record(&mut self, bytes: &[u8], records: &mut Vec<Record>) -> Result<(), Trouble> {
        let raw = Raw::read(bytes);
        let Some(kind) = scsi::kind(raw.command) else {
            let text = format!("SCSI operation {:#04x} reads and writes nothing", raw.command);
            return Err(Trouble::Text(text));
        };
        let source = intern(&mut self.sources, &self.source)?;
        let at = instant(raw.time_us, TICK_NS)?;
        let response = Span(instant(raw.response_us, TICK_NS)?.0);
        let length = if kind == Kind::Flush { 0 } else { u64::from(raw.length) };
        let offset = sectors(raw.block)?;
        let response = (raw.response_us > 0).then_some(response);
        let mut sink = Sink::new(&mut self.sources, &mut self.timeline, records);
        sink.push(Record { at, source, kind, offset, length, response })
    }

    /// What is wrong at the end of the file, or with its start.
    fn over(&mut self, rest: &[u8], end: bool) -> Result<usize, DefectAt> {
        if self.is_over {
            return Ok(rest.len());
        }
        if rest.is_empty() || (rest.len() < BYTES_V2 && !end) {
            return Ok(0);
        }
        self.is_over = true;
        let reason = match self.version {
            None => "no VSCSI trace: neither its byte 15 nor its byte 3 has a version".to_owned(),
            Some(version) => {
                format!("the file ends within a record of {} bytes", version.record_bytes())
            }
        };
        let defect = Defect { place: Place::Byte(self.byte), reason };
        Err(DefectAt { defect, used: rest.len() })
    }
}

/// The fields that both versions have.
struct Raw {
    command: u16,
    length: u32,
    block: u64,
    time_us: u64,
    response_us: u64,
}

impl Raw {
    fn read(bytes: &[u8]) -> Self {
        let two = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let is_two = bytes.len() == BYTES_V2;
        Self {
            command: two(if is_two { 0 } else { 12 }),
            length: four(if is_two { 8 } else { 4 }),
            block: eight(16),
            time_us: eight(24),
            response_us: if is_two { eight(32) } else { 0 },
        }
    }
}

impl Decoder for VscsiDecoder {
    fn decode(
        &mut self,
        input: &[u8],
        end: bool,
        records: &mut Vec<Record>,
    ) -> Result<usize, DefectAt> {
        if self.version.is_none() && !self.is_over && (input.len() >= BYTES_V2 || end) {
            self.version = version(input);
        }
        let record_bytes = self.version.map_or(usize::MAX, Version::record_bytes);
        let mut used = 0;
        while let Some(bytes) = input[used..].get(..record_bytes) {
            used += bytes.len();
            let place = Place::Byte(self.byte);
            self.byte += bytes.len() as u64;
            self.record(bytes, records).map_err(|trouble| {
                let defect = Defect { place, reason: trouble.in_words() };
                DefectAt { defect, used }
            })?;
        }
        used +=
            self.over(&input[used..], end).map_err(|at| DefectAt { used: used + at.used, ..at })?;
        if end {
            self.timeline.drain(records);
        }
        Ok(used)
    }

    fn sources(&self) -> &Sources {
        &self.sources
    }

    fn origin_ns(&self) -> Option<u64> {
        self.timeline.origin_ns()
    }
}

/// Writes version 2, which has response times; cuts them and instants to microseconds.
#[derive(Default)]
pub(super) struct VscsiEncoder {
    serial: u32,
    source: Option<SourceId>,
}

impl Encoder for VscsiEncoder {
    fn encode(
        &mut self,
        _sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if *self.source.get_or_insert(record.source) != record.source {
            return Err("a VSCSI trace has one disk; write one file for each source".to_owned());
        }
        let length = u32::try_from(record.length)
            .map_err(|_| format!("{} bytes; a VSCSI request has at most 4 GiB", record.length))?;
        if !record.offset.is_multiple_of(512) {
            return Err(format!("byte {} is no start of a 512-byte block", record.offset));
        }
        out.extend_from_slice(&scsi::operation(record.kind).to_le_bytes());
        out.extend_from_slice(&0x0200_u16.to_le_bytes());
        out.extend_from_slice(&self.serial.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&1_u32.to_le_bytes());
        let Nanos(at_ns) = record.at;
        let response_ns = record.response.map_or(0, |response| response.0);
        for field in [record.offset / 512, at_ns / TICK_NS, response_ns / TICK_NS] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        self.serial = self.serial.wrapping_add(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode_all;
    use crate::format::Format;

    fn version_one(command: u16, length: u32, block: u64, time_us: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for field in [244_u32, length, 1] {
            out.extend(field.to_le_bytes());
        }
        out.extend(command.to_le_bytes());
        out.extend(0x0100_u16.to_le_bytes());
        out.extend(block.to_le_bytes());
        out.extend(time_us.to_le_bytes());
        out
    }

    #[test]
    fn version_one_has_no_responses() {
        let mut bytes = version_one(0x2a, 512, 42_932_745, 5_633_898_000);
        bytes.extend(version_one(0x12, 96, 0, 5_633_898_000));
        bytes.extend(version_one(0x28, 4_096, 8, 5_633_898_007));
        let mut decoder =
            Format::Vscsi.decoder(&Options { source: "w1".into(), ..Options::default() });
        let (records, defects) = decode_all(&mut *decoder, &bytes);
        assert_eq!(decoder.sources().names(), ["w1"]);
        assert_eq!(records[0].offset, 42_932_745 * 512);
        assert_eq!((records[1].at, records[1].length), (Nanos(7_000), 4_096));
        assert_eq!((records[0].kind, records[1].kind), (Kind::Write, Kind::Read));
        assert_eq!(defects.len(), 1);
        assert_eq!(defects[0].to_string(), "byte 32: SCSI operation 0x12 reads and writes nothing");
    }

    #[test]
    fn a_cut_record_and_a_foreign_file_are_named() {
        let bytes = version_one(0x2a, 512, 1, 1);
        let twice = [&bytes[..], &bytes[..20]].concat();
        let (records, defects) =
            decode_all(&mut *Format::Vscsi.decoder(&Options::default()), &twice);
        assert_eq!((records.len(), defects[0].place), (1, Place::Byte(32)));
        let foreign = [7; 100];
        let (records, defects) =
            decode_all(&mut *Format::Vscsi.decoder(&Options::default()), &foreign);
        assert_eq!((records.len(), defects.len()), (0, 1));
    }

    #[test]
    fn one_file_has_one_disk() {
        let mut sources = Sources::default();
        let ids = ["a", "b"].map(|name| sources.intern(name).unwrap());
        let mut encoder = VscsiEncoder::default();
        let [first, second] = ids.map(|source| {
            let (at, kind) = (Nanos(0), Kind::Read);
            let record = Record { at, source, kind, offset: 0, length: 512, response: None };
            encoder.encode(&sources, &record, &mut Vec::new())
        });
        assert!(first.is_ok() && second.unwrap_err().contains("one disk"));
    }
}
