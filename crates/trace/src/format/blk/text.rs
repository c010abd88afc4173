//! The text that `blkparse` prints.
//!
//! ```text
//!   8,0    3        1     0.000000000   697  Q   WS 223490 + 56 [kjournald]
//!   |      |        |     |               |  |   |  |        |
//!   device cpu sequence seconds         pid  |   |  sector   sectors
//!                                            |   +- what: R, W, D(iscard), F(lush), flags
//!                                            +----- action: Q, D, R and C are read
//! ```
//!
//! The letters before the sector are an F for a flush that goes first, the operation and flags
//! (S sync, M metadata, A read-ahead, F force to medium). A flush has no sectors. Events of other
//! kinds, and the summary that blkparse prints behind them, are passed over. The source is the
//! device, `8,0`.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::completions::Completions;
use super::pairing::Pairing;
use super::{Action, Event, device, device_name, devices};
use crate::codec::Encoder;
use crate::format::Options;
use crate::format::field::{sectors, whole_sectors};
use crate::format::line::Layout;
use crate::format::names::{Interner, Numbering, printable};
use crate::format::sink::Sink;
use crate::format::trouble::{OrField, Trouble};
use crate::text::{Cursor, push_scaled, push_unsigned};
use crate::{Record, SourceId, Sources};

pub(in crate::format) struct Blkparse {
    interner: Interner,
    pairing: Pairing,
    is_in_summary: bool,
}

impl Blkparse {
    pub(in crate::format) fn new(options: &Options) -> Self {
        Self {
            interner: Interner::default(),
            pairing: Pairing::new(options.arrival),
            is_in_summary: false,
        }
    }

    /// Whether the line belongs to the summary behind the events.
    fn is_summary(&mut self, line: &[u8]) -> bool {
        let text = line.trim_ascii_start();
        if text.first().is_some_and(u8::is_ascii_digit) {
            self.is_in_summary = false;
        } else if text.starts_with(b"CPU") || text.starts_with(b"Total") {
            self.is_in_summary = true;
        }
        self.is_in_summary
    }
}

/// Whether a line looks like an event.
pub(in crate::format) fn is_event(line: &[u8]) -> bool {
    let mut words = Cursor::new(line);
    let is_number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let device_word = str::from_utf8(words.word()).ok();
    let is_device = device_word.is_some_and(|word| device(word).is_some());
    is_device && is_number(words.word()) && is_number(words.word()) && words.word().contains(&b'.')
}

impl Layout for Blkparse {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        if self.is_summary(line) {
            return Ok(());
        }
        let mut words = Cursor::new(line);
        let name = words.word();
        is_device(name)?;
        words.word();
        words.word();
        let mut time = Cursor::new(words.word());
        let at = time.scaled(9).filter(|_| time.is_at_end());
        let at = Nanos(at.or_field("time", "seconds with nine digits behind the point")?);
        words.word();
        let Some(action) = action(words.word()) else { return Ok(()) };
        let what = words.word();
        let (offset, length) = range(&mut words)?;
        let Some(kind) = kind(what, length) else { return Ok(()) };
        let source = self.interner.source(sink.sources, name, |name| printable("device", name))?;
        let offset = if kind == Kind::Flush { 0 } else { offset };
        let event = Event { action, at, source, kind, offset, length };
        self.pairing.take(&event, sink)
    }

    fn end(&mut self, sink: &mut Sink<'_>) -> Result<(), Trouble> {
        self.pairing.drain(sink)
    }
}

fn is_device(name: &[u8]) -> Result<(), Trouble> {
    let mut cursor = Cursor::new(name);
    let is_device = cursor.unsigned().is_some()
        && cursor.take(b',')
        && cursor.unsigned().is_some()
        && cursor.is_at_end();
    is_device.then_some(()).or_field("device", "major and minor number, as in `8,0`")
}

fn action(word: &[u8]) -> Option<Action> {
    match word {
        b"Q" => Some(Action::Queue),
        b"D" => Some(Action::Issue),
        b"R" => Some(Action::Requeue),
        b"C" => Some(Action::Complete),
        _ => None,
    }
}

/// First byte and number of bytes; zeroes where there are none.
fn range(words: &mut Cursor<'_>) -> Result<(u64, u64), Trouble> {
    let mut sector = Cursor::new(words.word());
    let Some(first) = sector.unsigned() else { return Ok((0, 0)) };
    if !sector.is_at_end() || words.word() != b"+" {
        return Ok((0, 0));
    }
    let mut count = Cursor::new(words.word());
    let count = count.unsigned().or_field("sectors", "a whole number behind the `+`")?;
    Ok((sectors(first)?, sectors(count)?))
}

/// What the letters say of a request with so many bytes; `None` if it asks for nothing.
fn kind(what: &[u8], length: u64) -> Option<Kind> {
    let (is_flush_first, operation) = match what {
        [b'F', rest @ ..] => (true, rest),
        _ => (false, what),
    };
    if length == 0 {
        return is_flush_first.then_some(Kind::Flush);
    }
    match operation.first()? {
        b'R' => Some(Kind::Read),
        b'W' => Some(Kind::Write),
        b'D' => Some(Kind::Trim),
        _ => None,
    }
}

/// Writes a Q for each record and a C for its response.
pub(in crate::format) struct BlkparseEncoder {
    devices: Numbering,
    completions: Completions,
    sequence: u64,
}

impl BlkparseEncoder {
    pub(in crate::format) fn new() -> Self {
        Self { devices: devices(), completions: Completions::default(), sequence: 0 }
    }

    fn push(&mut self, at: Nanos, device: &str, action: u8, record: &Record, out: &mut Vec<u8>) {
        self.sequence += 1;
        let mut line = format!("{device:>7}    0 {:8} ", self.sequence).into_bytes();
        push_scaled(&mut line, at.0, 9);
        line.extend_from_slice(b"     0  ");
        line.push(action);
        line.extend_from_slice(letters(record.kind));
        if record.kind != Kind::Flush {
            push_unsigned(&mut line, record.offset / 512);
            line.extend_from_slice(b" + ");
            push_unsigned(&mut line, record.length / 512);
            line.push(b' ');
        }
        line.extend_from_slice(if action == b'C' { b"[0]\n" } else { b"[evenkeel]\n" });
        out.extend_from_slice(&line);
    }

    fn device(&mut self, sources: &Sources, source: SourceId) -> String {
        device_name(self.devices.number(sources, source))
    }
}

fn letters(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Read => b"   R ",
        Kind::Trim => b"   D ",
        Kind::Flush => b" FWS ",
        Kind::Write | Kind::Cache | Kind::WriteZeroes => b"   W ",
    }
}

impl Encoder for BlkparseEncoder {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        super::check(record)?;
        whole_sectors(record)?;
        while let Some((at, done)) = self.completions.pop_until(record.at) {
            let device = device_name(self.devices.known(done.source));
            self.push(at, &device, b'C', &done, out);
        }
        let device = self.device(sources, record.source);
        self.push(record.at, &device, b'Q', record, out);
        self.completions.push(*record);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        while let Some((at, done)) = self.completions.pop() {
            let device = device_name(self.devices.known(done.source));
            self.push(at, &device, b'C', &done, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode_all;
    use crate::format::{Arrival, Format};
    use evenkeel_core::time::Span;

    const TEXT: &str = "\
  8,0    3        1     0.000000000   697  A   W 223490 + 8 <- (8,1) 223427
  8,0    3        2     0.000001829   697  Q  WS 223490 + 8 [kjournald]
  8,0    3        3     0.000006623   697  G   W 223490 + 8 [kjournald]
  8,0    3        4     0.000007968   697  P   N [kjournald]
  8,0    3        5     0.000012000   697  U   N [kjournald] 1
  8,0    3        6     0.000015000   697  D  WS 223490 + 8 [kjournald]
  8,0    1        7     0.000020000     0  Q FWFS [kjournald]
  8,0    1        8     0.000021000     0  Q  DS 4096 + 1024 [fstrim]
  8,0    3        9     0.000100829     0  C   W 223490 + 8 [0]
  8,0    3       10     0.000120000     0  C FWFS 0 [0]
  8,0    3       11     0.000121000     0  m   N cfq workload slice:300
CPU3 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
Total (8,0):
Throughput (R/W): 0KiB/s / 4KiB/s
";

    fn read(options: &Options, text: &str) -> (Vec<Record>, Vec<String>) {
        let mut decoder = Format::Blkparse.decoder(options);
        let (records, defects) = decode_all(&mut *decoder, text.as_bytes());
        (records, defects.into_iter().map(|defect| defect.to_string()).collect())
    }

    #[test]
    fn events_become_requests() {
        let (records, defects) = read(&Options::default(), TEXT);
        assert_eq!(defects, [""; 0]);
        let kinds: Vec<_> = records.iter().map(|record| record.kind).collect();
        assert_eq!(kinds, [Kind::Write, Kind::Flush, Kind::Trim]);
        assert_eq!((records[0].offset, records[0].length), (223_490 * 512, 4_096));
        assert_eq!(records[0].response, Some(Span(99_000)));
        assert_eq!((records[1].length, records[1].response), (0, Some(Span(100_000))));
        assert_eq!((records[2].at, records[2].response), (Nanos(19_171), None));
    }

    #[test]
    fn what_the_device_sees_starts_with_the_issue() {
        let options = Options { arrival: Arrival::Issued, ..Options::default() };
        let (records, _) = read(&options, TEXT);
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].response, Some(Span(85_829)));
    }

    #[test]
    fn lines_that_are_no_events_are_named() {
        for (line, name) in [
            ("sda 0 1 0.5 1 Q R 0 + 8 [x]", "device"),
            ("8,0 0 1 now 1 Q R 0 + 8 [x]", "time"),
            ("8,0 0 1 0.5 1 Q R 0 + many [x]", "sectors"),
            ("8,0 0 1 0.5 1 Q R 36028797018963968 + 8 [x]", "sector"),
        ] {
            let (records, defects) = read(&Options::default(), line);
            assert!(records.is_empty());
            assert!(defects[0].starts_with(&format!("1: {name}:")), "{line}: {defects:?}");
        }
    }

    #[test]
    fn an_event_is_told_from_other_text() {
        assert!(is_event(TEXT.lines().next().unwrap().as_bytes()));
        assert!(!is_event(b"0 8,0 512 r 0.5") && !is_event(b""));
    }
}
