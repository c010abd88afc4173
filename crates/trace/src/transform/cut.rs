//! Cut: the records of a trace that lie in a window of time, count, source, kind and place.
//!
//! Every bound includes its start and excludes its end, so that windows which touch cut a trace
//! into parts that hold each record once. A request belongs to the place of its first byte, however
//! long it is. A flush has no place and belongs to all of them.
//!
//! ```text
//! records     1s r a | 2s w b | 3s r b | 4s r b | 5s w a
//! time 2s..5s          2s w b   3s r b   4s r b
//! kinds r                       3s r b   4s r b
//! skip 1                                 4s r b             counted last: "the second read .."
//! rebase                                 0s r b             the first kept becomes the instant 0
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use crate::{Record, Sources};

/// What to keep. The default keeps everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutOptions {
    /// Arrivals from the first instant to before the second.
    pub window: Option<Range<Nanos>>,
    /// Only sources with these names.
    pub sources: Option<BTreeSet<String>>,
    /// Only these kinds.
    pub kinds: Option<BTreeSet<Kind>>,
    /// Only requests whose first byte lies in this range of bytes, and flushes.
    pub offsets: Option<Range<u64>>,
    /// Leaves out so many of the records that everything above would keep.
    pub skip: u64,
    /// Ends after so many records.
    pub count: Option<u64>,
    /// What becomes the instant zero.
    pub origin: Origin,
}

/// What the times of a cut count from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The trace's own first instant: times are kept.
    #[default]
    Trace,
    /// The start of the window.
    Window,
    /// The first record kept.
    FirstRecord,
}

/// What becomes of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is kept, as given here.
    Keep(Record),
    /// It is left out.
    Drop,
    /// It is left out, and so is whatever follows: reading on is of no use.
    End,
}

/// Decides record by record, in the order of their arrival. See the [module](self).
#[derive(Clone, Debug)]
pub struct Cut {
    options: CutOptions,
    /// By source id: whether its name is wanted, once that was looked up.
    wanted: Vec<Option<bool>>,
    matched: u64,
    kept: u64,
    first_kept: Option<Nanos>,
}

impl Cut {
    /// A cut that has seen nothing.
    pub fn new(options: CutOptions) -> Self {
        Self { options, wanted: Vec::new(), matched: 0, kept: 0, first_kept: None }
    }

    /// Decides about the next record; `sources` names its source.
    pub fn apply(&mut self, sources: &Sources, record: &Record) -> Verdict {
        let is_full = self.options.count.is_some_and(|count| self.kept >= count);
        let is_past = self.options.window.as_ref().is_some_and(|window| record.at >= window.end);
        if is_full || is_past {
            return Verdict::End;
        }
        if !self.matches(sources, record) {
            return Verdict::Drop;
        }
        self.matched += 1;
        if self.matched <= self.options.skip {
            return Verdict::Drop;
        }
        self.kept += 1;
        Verdict::Keep(self.rebased(*record))
    }

    /// When something that holds from `at` on, such as a policy, begins in the cut: not before its
    /// window; `None` if behind it. Ask once the first record is kept.
    pub fn instant(&self, at: Nanos) -> Option<Nanos> {
        let window = self.options.window.as_ref();
        if window.is_some_and(|window| at >= window.end) {
            return None;
        }
        let at = window.map_or(at, |window| at.max(window.start));
        Some(Nanos(at.since(self.zero(at)).0))
    }

    fn matches(&mut self, sources: &Sources, record: &Record) -> bool {
        let options = &self.options;
        options.window.as_ref().is_none_or(|window| record.at >= window.start)
            && options.kinds.as_ref().is_none_or(|kinds| kinds.contains(&record.kind))
            && options.offsets.as_ref().is_none_or(|offsets| {
                record.kind == Kind::Flush || offsets.contains(&record.offset)
            })
            && self.is_wanted(sources, record)
    }

    fn is_wanted(&mut self, sources: &Sources, record: &Record) -> bool {
        let Some(names) = &self.options.sources else { return true };
        let index = record.source.0 as usize;
        if index >= self.wanted.len() {
            self.wanted.resize(index + 1, None);
        }
        *self.wanted[index].get_or_insert_with(|| names.contains(sources.name(record.source)))
    }

    fn rebased(&mut self, record: Record) -> Record {
        self.first_kept.get_or_insert(record.at);
        Record { at: Nanos(record.at.since(self.zero(record.at)).0), ..record }
    }

    /// What becomes the instant zero; `at` if that would be the first record kept, and none is.
    fn zero(&self, at: Nanos) -> Nanos {
        match self.options.origin {
            Origin::Trace => Nanos::ZERO,
            Origin::Window => self.options.window.as_ref().map_or(Nanos::ZERO, |w| w.start),
            Origin::FirstRecord => self.first_kept.unwrap_or(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{records, sources_of};
    use super::*;

    fn cut(options: CutOptions, trace: &[Record]) -> Vec<Record> {
        let sources = sources_of(trace);
        let mut cut = Cut::new(options);
        let mut kept = Vec::new();
        for record in trace {
            match cut.apply(&sources, record) {
                Verdict::Keep(record) => kept.push(record),
                Verdict::Drop => {}
                Verdict::End => break,
            }
        }
        kept
    }

    fn window(from: u64, until: u64) -> CutOptions {
        CutOptions { window: Some(Nanos(from)..Nanos(until)), ..CutOptions::default() }
    }

    proptest! {
        #[test]
        fn windows_that_touch_cut_a_trace_into_its_records(
            trace in records(100), border in 0u64..2_000
        ) {
            let mut parts = cut(window(0, border), &trace);
            parts.extend(cut(window(border, u64::MAX), &trace));
            prop_assert_eq!(parts, trace);
        }

        #[test]
        fn counts_cut_a_trace_into_its_records(trace in records(100), border in 0u64..120) {
            let mut parts =
                cut(CutOptions { count: Some(border), ..CutOptions::default() }, &trace);
            parts.extend(cut(CutOptions { skip: border, ..CutOptions::default() }, &trace));
            prop_assert_eq!(parts, trace);
        }

        #[test]
        fn the_kept_are_those_that_a_filter_keeps(trace in records(100), place in 0u64..1 << 20) {
            let options = CutOptions {
                sources: Some(BTreeSet::from(["s1".to_owned(), "s2".to_owned()])),
                kinds: Some(BTreeSet::from([Kind::Read, Kind::Flush])),
                offsets: Some(place..1 << 20),
                ..CutOptions::default()
            };
            let kept: Vec<Record> = trace
                .iter()
                .filter(|record| [1, 2].contains(&record.source.0))
                .filter(|record| {
                    record.kind == Kind::Flush
                        || record.kind == Kind::Read && record.offset >= place
                })
                .copied()
                .collect();
            prop_assert_eq!(cut(options, &trace), kept);
        }
    }

    fn read_at(at: u64) -> Record {
        Record {
            at: Nanos(at),
            source: crate::SourceId(0),
            kind: Kind::Read,
            offset: 0,
            length: 512,
            response: None,
        }
    }

    #[test]
    fn times_count_from_the_chosen_origin() {
        let trace = [read_at(5), read_at(12), read_at(15)];
        let times = |origin| -> Vec<u64> {
            cut(CutOptions { origin, ..window(10, 20) }, &trace).iter().map(|r| r.at.0).collect()
        };
        assert_eq!(times(Origin::Trace), [12, 15]);
        assert_eq!(times(Origin::Window), [2, 5]);
        assert_eq!(times(Origin::FirstRecord), [0, 3]);
    }

    #[test]
    fn what_holds_when_a_cut_starts_holds_from_its_start_on() {
        let instants = |origin| {
            let mut cut = Cut::new(CutOptions { origin, ..window(10, 20) });
            cut.apply(&sources_of(&[read_at(0)]), &read_at(12));
            [0, 9, 11, 15, 20].map(|at| cut.instant(Nanos(at)).map(|at| at.0))
        };
        assert_eq!(instants(Origin::Trace), [Some(10), Some(10), Some(11), Some(15), None]);
        assert_eq!(instants(Origin::Window), [Some(0), Some(0), Some(1), Some(5), None]);
        assert_eq!(instants(Origin::FirstRecord), [Some(0), Some(0), Some(0), Some(3), None]);
    }

    #[test]
    fn nothing_is_read_past_the_window_or_the_count() {
        let sources = sources_of(&[read_at(0)]);
        let mut by_time = Cut::new(window(0, 10));
        assert_eq!(by_time.apply(&sources, &read_at(10)), Verdict::End);
        let mut by_count = Cut::new(CutOptions { count: Some(1), ..CutOptions::default() });
        assert_eq!(by_count.apply(&sources, &read_at(1)), Verdict::Keep(read_at(1)));
        assert_eq!(by_count.apply(&sources, &read_at(2)), Verdict::End);
    }
}
