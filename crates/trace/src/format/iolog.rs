//! fio's I/O logs, version 2 and 3 (`read_iolog`, `write_iolog`; "Trace file format" in its
//! HOWTO). The first line tells the version.
//!
//! ```text
//! fio version 3 iolog             fio version 2 iolog
//! 0 /dev/sda add                  /dev/sda add
//! 0 /dev/sda open                 /dev/sda open
//! 12 /dev/sda read 4096 8192      /dev/sda wait 3 0
//! |    |       |    |    |        /dev/sda read 4096 8192
//! |    |       |    |    +- bytes
//! |    |       |    +------ bytes from the start of the file
//! |    |       +----------- read, write, trim, sync, datasync
//! |    +------------------- the file: the source
//! +------------------------ microseconds since the start
//! ```
//!
//! What `wait N` means in version 2 depends on whom one asks. The HOWTO says microseconds since
//! the last `wait`; fio up to 3.33 waits until N milliseconds since the start of the job. Decoders
//! are told with [`WaitUnit`]; the encoder writes for what fio does. Neither version has response
//! times.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::Options;
use super::field::{instant, whole};
use super::line::Layout;
use super::names::{Interner, printable};
use super::sink::Sink;
use super::trouble::{OrField, Trouble, field};
use crate::codec::Encoder;
use crate::text::{Cursor, push_unsigned};
use crate::{Record, SourceId, Sources};

const HEAD_V2: &[u8] = b"fio version 2 iolog";
const HEAD_V3: &[u8] = b"fio version 3 iolog";
/// What fio reads of a name.
const NAME_BYTES_MAX: usize = 255;
const MICROSECOND_NS: u64 = 1_000;
const MILLISECOND_NS: u64 = 1_000_000;

/// What the number of a `wait` line of version 2 counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitUnit {
    /// Milliseconds since the start of the job, as fio replays.
    #[default]
    MillisecondsSinceStart,
    /// Microseconds since the last `wait`, as fio documents.
    MicrosecondsSinceLast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Two,
    Three,
}

/// The version of a file that starts so.
pub(super) fn version(head: &[u8]) -> Option<Version> {
    if head.starts_with(HEAD_V2) {
        Some(Version::Two)
    } else if head.starts_with(HEAD_V3) {
        Some(Version::Three)
    } else {
        None
    }
}

pub(super) struct Iolog {
    /// As the user says, until the first line knows better.
    version: Version,
    wait_unit: WaitUnit,
    now: Nanos,
    interner: Interner,
}

impl Iolog {
    pub(super) fn new(version: Version, options: &Options) -> Self {
        let wait_unit = options.wait_unit;
        Self { version, wait_unit, now: Nanos::ZERO, interner: Interner::default() }
    }

    fn wait(&mut self, number: u64) -> Result<(), Trouble> {
        self.now = match self.wait_unit {
            WaitUnit::MillisecondsSinceStart => instant(number, MILLISECOND_NS)?,
            WaitUnit::MicrosecondsSinceLast => {
                let now = self.now.0.checked_add(instant(number, MICROSECOND_NS)?.0);
                Nanos(now.or_field("wait", "an instant within 584 years")?)
            }
        };
        Ok(())
    }
}

impl Layout for Iolog {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        if let Some(version) = version(line) {
            self.version = version;
            return Ok(());
        }
        let mut words = Cursor::new(line);
        if self.version == Version::Three {
            self.now = instant(whole(words.word(), "time")?, MICROSECOND_NS)?;
        }
        let file = words.word();
        let action = words.word();
        let kind = match action {
            b"add" | b"open" | b"close" => return Ok(()),
            b"wait" if self.version == Version::Two => {
                return self.wait(whole(words.word(), "wait")?);
            }
            b"read" => Kind::Read,
            b"write" => Kind::Write,
            b"trim" => Kind::Trim,
            b"sync" | b"datasync" | b"sync_file_range" => Kind::Flush,
            _ => return Err(field("action", "read, write, trim, sync, wait, add, open or close")),
        };
        let source =
            self.interner.source(sink.sources, file, |file| printable("file name", file))?;
        let (offset, length) = match kind {
            Kind::Flush => (0, 0),
            _ => (whole(words.word(), "offset")?, whole(words.word(), "length")?),
        };
        sink.push(Record { at: self.now, source, kind, offset, length, response: None })
    }
}

/// Cuts instants to microseconds (version 3) or milliseconds (version 2).
pub(super) struct IologEncoder {
    version: Version,
    has_head: bool,
    /// Version 2: until when the last `wait` line waits.
    waited_ms: u64,
    /// Whether a file was opened, by source.
    is_open: Vec<bool>,
}

impl IologEncoder {
    pub(super) fn new(version: Version) -> Self {
        Self { version, has_head: false, waited_ms: 0, is_open: Vec::new() }
    }

    fn push_head_once(&mut self, out: &mut Vec<u8>) {
        if !self.has_head {
            self.has_head = true;
            out.extend_from_slice(if self.version == Version::Two { HEAD_V2 } else { HEAD_V3 });
            out.push(b'\n');
        }
    }

    /// A line up to and with its action.
    fn push_start(&self, at: Nanos, name: &str, action: &str, out: &mut Vec<u8>) {
        if self.version == Version::Three {
            push_unsigned(out, at.0 / MICROSECOND_NS);
            out.push(b' ');
        }
        out.extend_from_slice(name.as_bytes());
        out.push(b' ');
        out.extend_from_slice(action.as_bytes());
    }

    fn open_once(&mut self, at: Nanos, source: SourceId, name: &str, out: &mut Vec<u8>) {
        let index = source.0 as usize;
        if self.is_open.len() <= index {
            self.is_open.resize(index + 1, false);
        }
        if self.is_open[index] {
            return;
        }
        self.is_open[index] = true;
        for action in ["add\n", "open\n"] {
            self.push_start(at, name, action, out);
        }
    }

    fn wait_until(&mut self, at: Nanos, name: &str, out: &mut Vec<u8>) {
        let at_ms = at.0 / MILLISECOND_NS;
        if self.version == Version::Two && at_ms != self.waited_ms {
            self.waited_ms = at_ms;
            self.push_start(at, name, "wait ", out);
            push_unsigned(out, at_ms);
            out.extend_from_slice(b" 0\n");
        }
    }
}

impl Encoder for IologEncoder {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let action = match record.kind {
            Kind::Read => "read ",
            Kind::Write => "write ",
            Kind::Trim => "trim ",
            Kind::Flush => "sync ",
            other => return Err(format!("fio's log has no {}", other.name())),
        };
        let name = sources.name(record.source);
        check_name(name)?;
        self.push_head_once(out);
        self.open_once(record.at, record.source, name, out);
        self.wait_until(record.at, name, out);
        self.push_start(record.at, name, action, out);
        push_unsigned(out, record.offset);
        out.push(b' ');
        push_unsigned(out, record.length);
        out.push(b'\n');
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.push_head_once(out);
    }
}

/// A name is a word of its line; where it stands first, it must not look like a remark.
fn check_name(name: &str) -> Result<(), String> {
    let is_word = !name.is_empty() && !name.contains(|c: char| c == ' ' || c.is_control());
    if is_word && name.len() <= NAME_BYTES_MAX && !name.starts_with('#') {
        return Ok(());
    }
    Err(format!("fio's log needs a file name without blanks and `#`, not {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode_all;
    use crate::format::Format;

    const V2: &[u8] = b"fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda wait 2000 0\n\
        /dev/sda read 4096 8192\n/dev/sda wait 3000 0\n/dev/sda sync 0 0\n/dev/sda close\n";

    fn instants(format: Format, options: &Options, text: &[u8]) -> Vec<u64> {
        let (records, defects) = decode_all(&mut *format.decoder(options), text);
        assert_eq!(defects, []);
        records.iter().map(|record| record.at.0).collect()
    }

    #[test]
    fn waits_count_as_fio_replays_them_unless_told() {
        let replayed = Options::default();
        assert_eq!(instants(Format::Iolog2, &replayed, V2), [0, 1_000 * MILLISECOND_NS]);
        let documented = Options { wait_unit: WaitUnit::MicrosecondsSinceLast, ..replayed };
        assert_eq!(instants(Format::Iolog2, &documented, V2), [0, 3_000 * MICROSECOND_NS]);
    }

    #[test]
    fn the_first_line_knows_the_version() {
        let text = b"fio version 3 iolog\n7 f add\n7 f open\n10 f write 0 512\n25 f trim 512 512\n\
            26 f datasync\n30 f close\n";
        assert_eq!(instants(Format::Iolog2, &Options::default(), text), [0, 15_000, 16_000]);
    }

    #[test]
    fn an_action_that_is_none_is_named() {
        let text = b"fio version 3 iolog\n1 f wait 5 0\n1 f fly 0 0\nx f read 0 1\n1 f read 0\n";
        let (records, defects) =
            decode_all(&mut *Format::Iolog3.decoder(&Options::default()), text);
        assert!(records.is_empty());
        let fields = ["action", "action", "time", "length"];
        for (defect, name) in defects.iter().zip(fields) {
            assert!(defect.reason.starts_with(name), "{defect}");
        }
        assert_eq!(defects.len(), fields.len());
    }

    #[test]
    fn names_are_words() {
        assert_eq!(check_name("/dev/sda#1"), Ok(()));
        for name in ["", "#a", "a b", "a\tb", "a\u{85}", &"a".repeat(256)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn version_two_is_written_in_absolute_milliseconds() {
        let mut sources = Sources::default();
        let source = sources.intern("disk").unwrap();
        let mut encoder = IologEncoder::new(Version::Two);
        let mut out = Vec::new();
        for at_ms in [0, 5, 5, 9] {
            let (at, kind) = (Nanos(at_ms * MILLISECOND_NS + 17), Kind::Read);
            let record = Record { at, source, kind, offset: 0, length: 512, response: None };
            encoder.encode(&sources, &record, &mut out).unwrap();
        }
        let lines = "fio version 2 iolog|disk add|disk open|disk read 0 512|disk wait 5 0|\
            disk read 0 512|disk read 0 512|disk wait 9 0|disk read 0 512|";
        assert_eq!(String::from_utf8(out).unwrap().replace('\n', "|"), lines);
    }
}
