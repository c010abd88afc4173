//! What all text formats share: lines are cut out, counted, bounded and given to a [`Layout`].
//!
//! Blank lines and those that start with `#` are passed over. A line may have [`LINE_BYTES_MAX`]
//! bytes; of a longer one nothing is kept.

use evenkeel_core::time::Nanos;

use super::Options;
use super::timeline::Timeline;
use crate::codec::{Decoder, Defect, DefectAt, Place};
use crate::text::{Cursor, line_feed, quoted};
use crate::{Record, Sources};

/// The most bytes of a line, its end not counted.
pub(crate) const LINE_BYTES_MAX: usize = 4096;

/// Why a line is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A field is not what it should be; the line is shown with it.
    Field { field: &'static str, expected: &'static str },
    /// Anything else, in full.
    Text(String),
}

impl Trouble {
    /// In words, for a format that has no lines to show.
    pub(crate) fn in_binary(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Field { field, expected } => format!("{field}: expected {expected}"),
        }
    }
}

/// As [`Trouble::Field`].
pub(crate) const fn field(field: &'static str, expected: &'static str) -> Trouble {
    Trouble::Field { field, expected }
}

/// Says which field is missing.
pub(crate) trait OrField<T> {
    /// The value, or that this field is not what is expected.
    fn or_field(self, field: &'static str, expected: &'static str) -> Result<T, Trouble>;
}

impl<T> OrField<T> for Option<T> {
    #[inline]
    fn or_field(self, field: &'static str, expected: &'static str) -> Result<T, Trouble> {
        match self {
            Some(value) => Ok(value),
            None => Err(Trouble::Field { field, expected }),
        }
    }
}

/// What one text format makes of a line.
pub(crate) trait Layout {
    /// Gives the records of a line to the sink. The line has no end and is not empty.
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble>;

    /// Gives what was held back until the end.
    fn end(&mut self, _sink: &mut Sink<'_>) -> Result<(), Trouble> {
        Ok(())
    }
}

/// Where a decoder puts its records.
pub(crate) struct Sink<'a> {
    /// The names of the trace.
    pub(crate) sources: &'a mut Sources,
    timeline: &'a mut Timeline,
    records: &'a mut Vec<Record>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(
        sources: &'a mut Sources,
        timeline: &'a mut Timeline,
        records: &'a mut Vec<Record>,
    ) -> Self {
        Self { sources, timeline, records }
    }

    /// Takes a record whose `at` counts from the format's own epoch.
    #[inline]
    pub(crate) fn push(&mut self, record: Record) -> Result<(), Trouble> {
        if record.offset.checked_add(record.length).is_none() {
            let text =
                format!("{} bytes from byte {} end beyond 64 bits", record.length, record.offset);
            return Err(Trouble::Text(text));
        }
        self.timeline.push(record, self.records).map_err(Trouble::Text)
    }
}

/// The decoder of a text format.
pub(crate) struct LineDecoder<L> {
    layout: L,
    sources: Sources,
    timeline: Timeline,
    line: u64,
    in_overlong_line: bool,
}

impl<L: Layout> LineDecoder<L> {
    pub(crate) fn new(layout: L, options: &Options) -> Self {
        Self {
            layout,
            sources: Sources::default(),
            timeline: Timeline::new(options.window_records),
            line: 0,
            in_overlong_line: false,
        }
    }

    /// The next line and the bytes it takes with its end; `None` if it is not all there.
    fn cut<'i>(&mut self, rest: &'i [u8], end: bool) -> Option<(&'i [u8], usize)> {
        match line_feed(rest) {
            Some(length) => Some((&rest[..length], length + 1)),
            // Overlong lines are dropped as they come.
            None if end || self.in_overlong_line || rest.len() > LINE_BYTES_MAX => {
                (!rest.is_empty()).then_some((rest, rest.len()))
            }
            None => None,
        }
    }

    fn take(&mut self, line: &[u8], ended: bool, records: &mut Vec<Record>) -> Result<(), String> {
        if self.in_overlong_line {
            self.in_overlong_line = !ended;
            return Ok(());
        }
        self.line += 1;
        if line.len() > LINE_BYTES_MAX {
            self.in_overlong_line = !ended;
            return Err(format!("the line has more than {LINE_BYTES_MAX} bytes: no trace's has"));
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if matches!(line.first(), None | Some(b'#')) || line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut sink = Sink::new(&mut self.sources, &mut self.timeline, records);
        self.layout.line(line, &mut sink).map_err(|trouble| explain(&trouble, line))
    }
}

#[cold]
fn explain(trouble: &Trouble, line: &[u8]) -> String {
    match trouble {
        Trouble::Field { field, expected } => {
            format!("{field}: expected {expected}; the line is {}", quoted(line))
        }
        Trouble::Text(text) => text.clone(),
    }
}

impl<L: Layout> Decoder for LineDecoder<L> {
    fn decode(
        &mut self,
        input: &[u8],
        end: bool,
        records: &mut Vec<Record>,
    ) -> Result<usize, DefectAt> {
        let mut used = 0;
        while let Some((line, length)) = self.cut(&input[used..], end) {
            used += length;
            let ended = length > line.len();
            if let Err(reason) = self.take(line, ended, records) {
                let defect = Defect { place: Place::Line(self.line), reason };
                return Err(DefectAt { defect, used });
            }
        }
        if end {
            let mut sink = Sink::new(&mut self.sources, &mut self.timeline, records);
            let ended = self.layout.end(&mut sink);
            self.timeline.drain(records);
            if let Err(trouble) = ended {
                let defect =
                    Defect { place: Place::Line(self.line), reason: explain(&trouble, b"") };
                return Err(DefectAt { defect, used });
            }
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

/// An instant of the format's clock, in units of so many nanoseconds.
#[inline]
pub(crate) fn instant(units: u64, unit_ns: u64) -> Result<Nanos, Trouble> {
    let expected = "an instant within 584 years of the format's epoch";
    units.checked_mul(unit_ns).map(Nanos).or_field("time", expected)
}

/// Takes a whole number and the comma behind it, with blanks around; at the end of the line the
/// comma is missing, and so will be the next field.
#[inline]
pub(crate) fn number(fields: &mut Cursor<'_>, field: &'static str) -> Result<u64, Trouble> {
    fields.skip_blanks();
    let number = fields.unsigned();
    fields.skip_blanks();
    number.filter(|_| fields.take(b',') || fields.is_at_end()).or_field(field, "a whole number")
}

/// Nothing may follow the last field.
#[inline]
pub(crate) fn nothing_behind(fields: Cursor<'_>, field: &'static str) -> Result<(), Trouble> {
    fields.is_at_end().then_some(()).or_field(field, "nothing behind it")
}

/// A number of sectors in bytes.
#[inline]
pub(crate) fn sectors(count: u64) -> Result<u64, Trouble> {
    let expected = "a number of 512-byte sectors below 2^55";
    count.checked_mul(512).or_field("sector", expected)
}

/// Offset and length in sectors, for an encoder of a format that counts so.
pub(crate) fn whole_sectors(record: &Record) -> Result<(u64, u64), String> {
    if record.offset.is_multiple_of(512) && record.length.is_multiple_of(512) {
        return Ok((record.offset / 512, record.length / 512));
    }
    let (offset, length) = (record.offset, record.length);
    Err(format!("{length} bytes from byte {offset} are no whole 512-byte sectors"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode_all;
    use crate::format::Format;

    fn lines_of(defects: &[Defect]) -> Vec<Place> {
        defects.iter().map(|defect| defect.place).collect()
    }

    #[test]
    fn a_bad_line_is_named_and_the_next_one_read() {
        let text = b"0,8,512,r,0.5\n# a remark\n\n0,x,512,r,0.6\r\n0,16,512,w,0.75";
        let (records, defects) = decode_all(&mut *Format::Spc.decoder(&Options::default()), text);
        assert_eq!(records.len(), 2);
        assert_eq!(lines_of(&defects), [Place::Line(4)]);
        let reason = &defects[0].reason;
        assert_eq!(reason, "LBA: expected a whole number; the line is \"0,x,512,r,0.6\"");
    }

    #[test]
    fn an_overlong_line_is_one_defect_however_it_comes() {
        let mut text = vec![b'7'; 3 * LINE_BYTES_MAX];
        text.extend(b"\n0,8,512,r,0.5\n");
        for piece in [1, 100, LINE_BYTES_MAX, LINE_BYTES_MAX + 1, usize::MAX] {
            let mut decoder = Format::Spc.decoder(&Options::default());
            let (mut records, mut defects, mut pending) = (Vec::new(), Vec::new(), Vec::new());
            let mut pieces = text.chunks(piece);
            loop {
                let next = pieces.next();
                pending.extend_from_slice(next.unwrap_or_default());
                loop {
                    match decoder.decode(&pending, next.is_none(), &mut records) {
                        Ok(used) => break drop(pending.drain(..used)),
                        Err(at) => {
                            defects.push(at.defect);
                            pending.drain(..at.used);
                        }
                    }
                }
                assert!(pending.len() <= LINE_BYTES_MAX);
                if next.is_none() {
                    break;
                }
            }
            assert_eq!((records.len(), lines_of(&defects)), (1, vec![Place::Line(1)]));
        }
    }

    #[test]
    fn a_range_that_wraps_is_refused() {
        let text = b"128166372003061629,hm,1,Read,18446744073709551615,2,0\n";
        let (records, defects) = decode_all(&mut *Format::Msr.decoder(&Options::default()), text);
        assert!(records.is_empty());
        assert!(defects[0].reason.contains("end beyond 64 bits"));
    }
}
