//! What all text formats share: lines are cut out, counted, bounded and given to a [`Layout`].
//!
//! Blank lines and those that start with `#` are passed over. A line may have [`LINE_BYTES_MAX`]
//! bytes; of a longer one nothing is kept.

use super::Options;
use super::sink::Sink;
use super::timeline::Timeline;
use super::trouble::Trouble;
use crate::codec::{Decoder, Defect, DefectAt, Place};
use crate::text::{line_feed, quoted};
use crate::{Record, Sources};

/// The most bytes of a line, its end not counted.
pub(crate) const LINE_BYTES_MAX: usize = 4096;

/// What one text format makes of a line.
pub(crate) trait Layout {
    /// Gives the records of a line to the sink. The line has no end and is not empty.
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble>;

    /// Gives what was held back until the end.
    fn end(&mut self, _sink: &mut Sink<'_>) -> Result<(), Trouble> {
        Ok(())
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
            timeline: Timeline::of(options),
            line: 0,
            in_overlong_line: false,
        }
    }

    /// The next line and the bytes it takes with its end; `None` if it is not all there.
    fn cut<'i>(&self, rest: &'i [u8], end: bool) -> Option<(&'i [u8], usize)> {
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
                let defect = Defect { place: Place::Line(self.line), reason: trouble.in_words() };
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
