//! The `.load` files of blkreplay: prose, a line of titles, then one request a line.
//!
//! ```text
//! Copyright and whatever else there is to say
//! start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0
//!       0.449518165 ;     37766917 ;   14 ; W ; 0.0 ; 0.0
//!       |                 |            |    |   |     +- seconds that the replay took to answer
//!       |                 |            |    |   +------- seconds that the replay was late
//!       |                 |            |    +----------- R or W, and flags such as A (read-ahead)
//!       |                 +------------+---------------- sectors of 512 bytes
//!       +----------------------------------------------- seconds since the start
//! ```
//!
//! There is one disk a file. A duration of zero stands for one that is not known. Files without
//! prose and titles are read as well.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::Options;
use super::field::{of_two, sectors, whole, whole_sectors};
use super::line::Layout;
use super::names::intern;
use super::sink::Sink;
use super::trouble::{OrField, Trouble, field};
use crate::codec::Encoder;
use crate::text::{Cursor, push_scaled, push_unsigned};
use crate::{Record, SourceId, Sources};

const TITLES: &[u8] = b"start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n";

pub(super) struct Blkreplay {
    source: String,
    is_in_prose: bool,
}

impl Blkreplay {
    pub(super) fn new(options: &Options) -> Self {
        Self { source: options.source.clone(), is_in_prose: true }
    }

    /// Whether the line belongs to what stands before the requests.
    fn is_prose(&mut self, line: &[u8]) -> bool {
        // Some files say it all twice, titles included; the first request ends it.
        let text = line.trim_ascii_start();
        let starts_as_request = text.first().is_some_and(u8::is_ascii_digit);
        self.is_in_prose &= !(starts_as_request && text.contains(&b';'));
        self.is_in_prose
    }
}

impl Layout for Blkreplay {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        if self.is_prose(line) {
            return Ok(());
        }
        let mut fields = Cursor::new(line);
        let at = Nanos(seconds(&mut fields, "start")?.or_field("start", "seconds")?);
        let offset = sectors(whole(fields.until(b';').trim_ascii(), "sector")?)?;
        let length = sectors(whole(fields.until(b';').trim_ascii(), "length")?)?;
        let kind = match fields.until(b';').trim_ascii() {
            [b'R' | b'r', ..] => Kind::Read,
            [b'W' | b'w', ..] => Kind::Write,
            _ => return Err(field("op", "`R` or `W`, and flags behind it")),
        };
        seconds(&mut fields, "replay_delay")?;
        let response_ns = seconds(&mut fields, "replay_duration")?;
        let response = response_ns.filter(|&ns| ns > 0).map(Span);
        let source = intern(sink.sources, &self.source)?;
        sink.push(Record { at, source, kind, offset, length, response })
    }
}

/// Takes seconds and the semicolon behind them; `None` for a field that is missing.
fn seconds(fields: &mut Cursor<'_>, name: &'static str) -> Result<Option<u64>, Trouble> {
    let text = fields.until(b';').trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    let mut field = Cursor::new(text);
    let value = field.scaled(9).filter(|_| field.is_at_end());
    Ok(Some(value.or_field(name, "seconds")?))
}

/// Writes titles and requests, without prose.
#[derive(Default)]
pub(super) struct BlkreplayEncoder {
    source: Option<SourceId>,
}

impl Encoder for BlkreplayEncoder {
    fn encode(
        &mut self,
        _sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let kind =
            of_two("the blkreplay format", record.kind, [&b" ; R ; 0.0 ; "[..], b" ; W ; 0.0 ; "])?;
        let (sector, count) = whole_sectors(record)?;
        let is_first = self.source.is_none();
        if *self.source.get_or_insert(record.source) != record.source {
            return Err("a blkreplay file has one disk; write one for each source".to_owned());
        }
        if is_first {
            out.extend_from_slice(TITLES);
        }
        push_scaled(out, record.at.0, 9);
        for value in [sector, count] {
            out.extend_from_slice(b" ; ");
            push_unsigned(out, value);
        }
        out.extend_from_slice(kind);
        push_scaled(out, record.response.map_or(0, |response| response.0), 9);
        out.push(b'\n');
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if self.source.is_none() {
            out.extend_from_slice(TITLES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode_all;
    use crate::format::Format;

    const TEXT: &[u8] = b"Made in 2012 by somebody\n\
        PLEASE do this; and that.\n\
        start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n\
        2012 was a good year\n\n\
        start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n\
        \x20     0.000000000 ;     37766853 ;   64 ; W ; 0.0 ; 0.0\n\
        \x20     0.449518165 ;     37766917 ;   14 ;RA ; 0.0 ; 0.002\n";

    #[test]
    fn prose_and_titles_are_passed_over() {
        let mut decoder = Format::Blkreplay.decoder(&Options::default());
        let (records, defects) = decode_all(&mut *decoder, TEXT);
        assert_eq!(defects, []);
        assert_eq!(decoder.sources().names(), ["trace"]);
        assert_eq!((records[0].offset, records[0].length), (37_766_853 * 512, 32_768));
        assert_eq!((records[0].kind, records[1].kind), (Kind::Write, Kind::Read));
        assert_eq!((records[0].response, records[1].response), (None, Some(Span(2_000_000))));
        assert_eq!(records[1].at, Nanos(449_518_165));
    }

    #[test]
    fn a_file_may_start_with_its_requests() {
        let text = b"0.5 ; 8 ; 8 ; R\nprose; no more\n";
        let (records, defects) =
            decode_all(&mut *Format::Blkreplay.decoder(&Options::default()), text);
        assert_eq!((records.len(), defects.len()), (1, 1));
        assert!(defects[0].reason.starts_with("start: expected seconds"));
    }
}
