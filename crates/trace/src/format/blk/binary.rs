//! The records that `blktrace` writes: 48 bytes, little-endian, and a payload that is passed over
//! (`struct blk_io_trace` of Linux's `include/uapi/linux/blktrace_api.h`).
//!
//! ```text
//! 0      4         8        16      24     28      32   36      40   44     46      48
//! magic  sequence  time_ns  sector  bytes  action  pid  device  cpu  error  payload_bytes
//! ```
//!
//! The magic is 0x65617407, the last byte being the version. The low half of the action is what
//! happened (1 queued, 6 requeued, 7 issued, 8 completed), the high half bits of what it was. The
//! source is the device, `8,0`. A trace is one file, as `blkparse -d` joins it from those of each
//! CPU.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::completions::Completions;
use super::pairing::Pairing;
use super::{Action, Event, device_name, devices};
use crate::codec::{Decoder, Defect, DefectAt, Encoder, Place};
use crate::format::Options;
use crate::format::field::{sectors, whole_sectors};
use crate::format::names::{Interner, Numbering};
use crate::format::sink::Sink;
use crate::format::timeline::Timeline;
use crate::format::trouble::Trouble;
use crate::{Record, Sources};

const RECORD_BYTES: usize = 48;
/// 0x65617407 with its lowest byte first.
pub(in crate::format) const MAGIC: [u8; 4] = [0x07, 0x74, 0x61, 0x65];

const IS_WRITE: u32 = 1 << 17;
const IS_READ: u32 = 1 << 16;
const IS_FLUSH: u32 = 1 << 18;
const IS_QUEUE: u32 = 1 << 20;
const IS_COMPLETE: u32 = 1 << 23;
const IS_MESSAGE: u32 = 1 << 26;
const IS_DISCARD: u32 = 1 << 29;
const QUEUED: u32 = 1;
const COMPLETED: u32 = 8;

pub(in crate::format) struct BlktraceDecoder {
    pairing: Pairing,
    interner: Interner,
    sources: Sources,
    timeline: Timeline,
    byte: u64,
    /// Bytes of a payload that are still to come.
    payload_bytes: usize,
    /// Behind bytes that are no record: on to the next magic number.
    is_lost: bool,
}

impl BlktraceDecoder {
    pub(in crate::format) fn new(options: &Options) -> Self {
        Self {
            pairing: Pairing::new(options.arrival),
            interner: Interner::default(),
            sources: Sources::default(),
            timeline: Timeline::of(options),
            byte: 0,
            payload_bytes: 0,
            is_lost: false,
        }
    }

    /// How many bytes to pass over before the next record.
    fn skip(&mut self, rest: &[u8], end: bool) -> usize {
        if self.payload_bytes > 0 {
            let bytes = self.payload_bytes.min(rest.len());
            self.payload_bytes -= bytes;
            return bytes;
        }
        if !self.is_lost {
            return 0;
        }
        let place = rest.windows(MAGIC.len()).position(|word| word == MAGIC);
        self.is_lost = place.is_none();
        // The start of a magic number may stand at the end.
        let kept = if end { 0 } else { MAGIC.len() - 1 };
        place.unwrap_or_else(|| rest.len().saturating_sub(kept))
    }

    /// The record that stands here: the bytes it takes, or what is wrong and the bytes to drop.
    fn record(
        &mut self,
        rest: &[u8],
        end: bool,
        records: &mut Vec<Record>,
    ) -> Result<usize, (usize, String)> {
        if rest.len() >= MAGIC.len() && !rest.starts_with(&MAGIC) {
            self.is_lost = true;
            let reason = "no record starts here; going on at the next magic number";
            return Err((1, reason.to_owned()));
        }
        let Some(bytes) = rest.first_chunk::<RECORD_BYTES>() else {
            if end && !rest.is_empty() {
                return Err((rest.len(), "the file ends within a record of 48 bytes".to_owned()));
            }
            return Ok(0);
        };
        let raw = Raw::read(bytes);
        self.payload_bytes = usize::from(raw.payload_bytes);
        let event = self.event(&raw).map_err(|trouble| (RECORD_BYTES, trouble.in_words()))?;
        if let Some(event) = event {
            let mut sink = Sink::new(&mut self.sources, &mut self.timeline, records);
            let taken = self.pairing.take(&event, &mut sink);
            taken.map_err(|trouble| (RECORD_BYTES, trouble.in_words()))?;
        }
        Ok(RECORD_BYTES)
    }

    fn event(&mut self, raw: &Raw) -> Result<Option<Event>, Trouble> {
        let (Some(action), Some(kind)) = (raw.action(), raw.kind()) else { return Ok(None) };
        let key = raw.device.to_le_bytes();
        let source =
            self.interner.source(&mut self.sources, &key, |_| Ok(device_name(raw.device)))?;
        let offset = if kind == Kind::Flush { 0 } else { sectors(raw.sector)? };
        let (at, length) = (Nanos(raw.time_ns), u64::from(raw.bytes));
        Ok(Some(Event { action, at, source, kind, offset, length }))
    }

    fn end(&mut self, records: &mut Vec<Record>) -> Result<(), String> {
        let mut sink = Sink::new(&mut self.sources, &mut self.timeline, records);
        let drained = self.pairing.drain(&mut sink);
        self.timeline.drain(records);
        if self.payload_bytes > 0 {
            self.payload_bytes = 0;
            return Err("the file ends within the payload of a record".to_owned());
        }
        drained.map_err(Trouble::in_words)
    }
}

struct Raw {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
    payload_bytes: u16,
}

impl Raw {
    fn read(bytes: &[u8; RECORD_BYTES]) -> Self {
        let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        Self {
            time_ns: eight(8),
            sector: eight(16),
            bytes: four(24),
            action: four(28),
            device: four(36),
            payload_bytes: u16::from_le_bytes([bytes[46], bytes[47]]),
        }
    }

    fn action(&self) -> Option<Action> {
        if self.action & IS_MESSAGE != 0 {
            return None;
        }
        // The bits above the lowest eight of the low half say whether a cgroup's id follows.
        match self.action & 0xff {
            QUEUED => Some(Action::Queue),
            6 => Some(Action::Requeue),
            7 => Some(Action::Issue),
            COMPLETED => Some(Action::Complete),
            _ => None,
        }
    }

    fn kind(&self) -> Option<Kind> {
        let has = |bit: u32| self.action & bit != 0;
        if self.bytes == 0 {
            return has(IS_FLUSH).then_some(Kind::Flush);
        }
        if has(IS_DISCARD) {
            Some(Kind::Trim)
        } else if has(IS_WRITE) {
            Some(Kind::Write)
        } else {
            has(IS_READ).then_some(Kind::Read)
        }
    }
}

impl Decoder for BlktraceDecoder {
    fn decode(
        &mut self,
        input: &[u8],
        end: bool,
        records: &mut Vec<Record>,
    ) -> Result<usize, DefectAt> {
        let mut used = 0;
        loop {
            let skipped = self.skip(&input[used..], end);
            used += skipped;
            self.byte += skipped as u64;
            if self.is_lost || self.payload_bytes > 0 {
                break;
            }
            let place = Place::Byte(self.byte);
            let (bytes, reason) = match self.record(&input[used..], end, records) {
                Ok(0) => break,
                Ok(bytes) => (bytes, None),
                Err((bytes, reason)) => (bytes, Some(reason)),
            };
            used += bytes;
            self.byte += bytes as u64;
            if let Some(reason) = reason {
                return Err(DefectAt { defect: Defect { place, reason }, used });
            }
        }
        if end {
            let place = Place::Byte(self.byte);
            self.end(records)
                .map_err(|reason| DefectAt { defect: Defect { place, reason }, used })?;
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

/// Writes a Q for each record and a C for its response.
pub(in crate::format) struct BlktraceEncoder {
    devices: Numbering,
    completions: Completions,
    sequence: u32,
}

impl BlktraceEncoder {
    pub(in crate::format) fn new() -> Self {
        Self { devices: devices(), completions: Completions::default(), sequence: 0 }
    }

    fn push(&mut self, at: Nanos, device: u32, action: u32, record: &Record, out: &mut Vec<u8>) {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = u32::try_from(record.length).expect("checked when the record came");
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&at.0.to_le_bytes());
        out.extend_from_slice(&(record.offset / 512).to_le_bytes());
        for field in [bytes, action | bits(record.kind), 0, device, 0, 0] {
            out.extend_from_slice(&field.to_le_bytes());
        }
    }

    fn push_completion(&mut self, at: Nanos, record: &Record, out: &mut Vec<u8>) {
        let device = self.devices.known(record.source);
        self.push(at, device, COMPLETED | IS_COMPLETE, record, out);
    }
}

fn bits(kind: Kind) -> u32 {
    match kind {
        Kind::Read | Kind::Cache => IS_READ,
        Kind::Write | Kind::WriteZeroes => IS_WRITE,
        Kind::Flush => IS_WRITE | IS_FLUSH,
        Kind::Trim => IS_WRITE | IS_DISCARD,
    }
}

impl Encoder for BlktraceEncoder {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        super::check(record)?;
        whole_sectors(record)?;
        if record.length > u64::from(u32::MAX) {
            return Err(format!("{} bytes; an event has at most 4 GiB", record.length));
        }
        while let Some((at, done)) = self.completions.pop_until(record.at) {
            self.push_completion(at, &done, out);
        }
        let device = self.devices.number(sources, record.source);
        self.push(record.at, device, QUEUED | IS_QUEUE, record, out);
        self.completions.push(*record);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        while let Some((at, done)) = self.completions.pop() {
            self.push_completion(at, &done, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode_all;
    use crate::format::Format;
    use evenkeel_core::time::Span;

    /// One event on 8,0 at sector 64, with so many bytes of payload.
    fn event(time_ns: u64, bytes: u32, action: u32, payload_bytes: u16) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(1_u32.to_le_bytes());
        out.extend(time_ns.to_le_bytes());
        out.extend(64_u64.to_le_bytes());
        for field in [bytes, action, 697, 8 << 20, 3] {
            out.extend(field.to_le_bytes());
        }
        out.extend(0_u16.to_le_bytes());
        out.extend(payload_bytes.to_le_bytes());
        out.extend(vec![0x07; usize::from(payload_bytes)]);
        out
    }

    fn read(bytes: &[u8]) -> (Vec<Record>, Vec<String>) {
        let mut decoder = Format::Blktrace.decoder(&Options::default());
        let (records, defects) = decode_all(&mut *decoder, bytes);
        (records, defects.into_iter().map(|defect| defect.to_string()).collect())
    }

    #[test]
    fn events_become_requests_and_payloads_are_passed_over() {
        let bytes = [
            event(5, 0, IS_MESSAGE | 2, 20),
            event(10, 4_096, QUEUED | IS_QUEUE | IS_READ, 0),
            event(15, 0, QUEUED | IS_QUEUE | IS_WRITE | IS_FLUSH, 0),
            event(20, 4_096, 15 | IS_READ, 16),
            event(110, 4_096, COMPLETED | IS_COMPLETE | IS_READ, 0),
        ]
        .concat();
        let (records, defects) = read(&bytes);
        assert_eq!(defects, [""; 0]);
        assert_eq!((records[0].kind, records[1].kind), (Kind::Read, Kind::Flush));
        assert_eq!((records[0].offset, records[0].length), (32_768, 4_096));
        assert_eq!((records[0].response, records[1].response), (Some(Span(100)), None));
    }

    #[test]
    fn damage_is_named_and_the_next_record_read() {
        let good = event(10, 4_096, QUEUED | IS_READ, 0);
        let bytes = [&good[..], b"noise", &good, &good[..30]].concat();
        let (records, defects) = read(&bytes);
        assert_eq!(records.len(), 2);
        assert_eq!(defects[0].split(':').next(), Some("byte 48"));
        assert_eq!(defects[1], "byte 101: the file ends within a record of 48 bytes");
        let cut = event(10, 4_096, QUEUED | IS_READ, 9);
        let (records, defects) = read(&cut[..50]);
        assert_eq!((records.len(), defects.len()), (1, 1));
        assert!(defects[0].contains("payload"));
    }
}
