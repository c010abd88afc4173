//! Merge: several traces, each in the order of time, become one in the order of time.
//!
//! The driver reads the parts; the merge says which one it needs a record of. It holds one record
//! of each part, and asks for the next of a part only once the last was taken.
//!
//! ```text
//! a: 1s, 4s            poll -> Need(a)   offer 1s      poll -> Record(1s of a)
//! b: 2s, 3s, + 1s      poll -> Need(b)   offer 3s      poll -> Need(a)   offer 4s
//!                                                      poll -> Record(3s of b)
//! ```
//!
//! Records of the same instant come in the order of the parts, so that the result is the same
//! whatever the driver's timing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use evenkeel_core::time::{Nanos, Span};

use crate::{Record, SourceId, Sources};

/// One trace to merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Its name, without `/` if sources are to be told apart by it.
    pub name: String,
    /// How much later its records are to arrive.
    pub delay: Span,
}

/// What a source of a part is called in the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `part/source`: sources of two parts are never the same.
    Apart,
    /// `source`: a name means the same source in every part, as in the pieces of one trace.
    Shared,
}

/// What the merge asks for or gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Offer the next record of this part, or close it, before polling again.
    Need(usize),
    /// The next record of the whole.
    Record(Record),
    /// Every part was closed and everything given.
    End,
}

/// Why parts cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// Two parts have the same name, or one holds a `/`.
    Name(String),
    /// A record of this part arrives before the one offered last.
    OutOfOrder {
        /// The name of the part.
        part: String,
        /// The instant of the one offered last, in the part's own time.
        last: Nanos,
        /// The instant of the one refused, in the part's own time.
        at: Nanos,
    },
    /// The parts have more sources than a trace may name.
    TooManySources,
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "part `{name}` needs a name of its own without a slash, or its sources could \
                 not be told from those of another part"
            ),
            Self::OutOfOrder { part, last, at } => write!(
                f,
                "part `{part}` steps back in time from {last} ns to {at} ns; sort it first, by \
                 `evenkeel trace sort IN OUT`",
                last = last.0,
                at = at.0,
            ),
            Self::TooManySources => {
                write!(f, "the parts have more than {} sources; merge fewer", Sources::COUNT_MAX)
            }
        }
    }
}

impl std::error::Error for MergeError {}

/// Merges by time. See the [module](self).
#[derive(Clone, Debug)]
pub struct Merge {
    naming: Naming,
    lanes: Vec<Lane>,
    /// The parts that have a record waiting, the earliest first.
    order: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// The parts that a record is needed of; the last is asked for first.
    needed: Vec<usize>,
    sources: Sources,
}

#[derive(Clone, Debug)]
struct Lane {
    part: Part,
    /// By the part's source id: the id in the whole.
    renamed: Vec<Option<SourceId>>,
    last: Nanos,
    waiting: Option<Record>,
}

impl Merge {
    /// A merge of `parts`, which are addressed by their index.
    ///
    /// # Errors
    /// [`MergeError::Name`] if sources are named apart and the parts' names do not allow that.
    pub fn new(parts: Vec<Part>, naming: Naming) -> Result<Self, MergeError> {
        for (index, part) in parts.iter().enumerate() {
            let is_taken = parts[..index].iter().any(|other| other.name == part.name);
            if naming == Naming::Apart && (is_taken || part.name.contains('/')) {
                return Err(MergeError::Name(part.name.clone()));
            }
        }
        let needed = (0..parts.len()).rev().collect();
        let lanes = parts
            .into_iter()
            .map(|part| Lane { part, renamed: Vec::new(), last: Nanos::ZERO, waiting: None })
            .collect();
        Ok(Self { naming, lanes, order: BinaryHeap::new(), needed, sources: Sources::default() })
    }

    /// What the driver is to do next. O(log parts).
    pub fn poll(&mut self) -> Next {
        if let Some(&part) = self.needed.last() {
            return Next::Need(part);
        }
        let Some(Reverse((_, part))) = self.order.pop() else { return Next::End };
        let record = self.lanes[part].waiting.take().expect("a part in the order has a record");
        self.needed.push(part);
        Next::Record(record)
    }

    /// Gives the next record of the part that [`Next::Need`] named; `sources` are the part's.
    ///
    /// # Errors
    /// See [`MergeError`]. The record was not taken, and the part is still needed.
    pub fn offer(
        &mut self,
        part: usize,
        sources: &Sources,
        record: &Record,
    ) -> Result<(), MergeError> {
        assert_eq!(self.needed.last(), Some(&part), "only the part that is needed is offered");
        let lane = &self.lanes[part];
        if record.at < lane.last {
            let name = lane.part.name.clone();
            return Err(MergeError::OutOfOrder { part: name, last: lane.last, at: record.at });
        }
        let source = self.renamed(part, sources, record.source)?;
        let lane = &mut self.lanes[part];
        lane.last = record.at;
        let at = record.at + lane.part.delay;
        lane.waiting = Some(Record { at, source, ..*record });
        self.order.push(Reverse((at, part)));
        self.needed.pop();
        Ok(())
    }

    /// Says that the part which [`Next::Need`] named has no more records.
    pub fn close(&mut self, part: usize) {
        assert_eq!(self.needed.pop(), Some(part), "only the part that is needed is closed");
    }

    /// The sources of the whole, as far as they appeared.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    fn renamed(
        &mut self,
        part: usize,
        sources: &Sources,
        source: SourceId,
    ) -> Result<SourceId, MergeError> {
        let lane = &mut self.lanes[part];
        let index = source.0 as usize;
        if let Some(&Some(id)) = lane.renamed.get(index) {
            return Ok(id);
        }
        let name = sources.name(source);
        let id = match self.naming {
            Naming::Apart => self.sources.intern(&format!("{}/{name}", lane.part.name)),
            Naming::Shared => self.sources.intern(name),
        };
        let id = id.ok_or(MergeError::TooManySources)?;
        lane.renamed.resize(lane.renamed.len().max(index + 1), None);
        lane.renamed[index] = Some(id);
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{records, sources_of};
    use super::*;

    fn merged(parts: &[&[Record]], delays: &[u64], naming: Naming) -> (Vec<Record>, Sources) {
        let names = parts.iter().enumerate().map(|(index, _)| format!("p{index}"));
        let described = names.zip(delays).map(|(name, &delay)| Part { name, delay: Span(delay) });
        let mut merge = Merge::new(described.collect(), naming).unwrap();
        let mut rest: Vec<_> = parts.iter().map(|part| part.iter()).collect();
        let mut whole = Vec::new();
        loop {
            match merge.poll() {
                Next::Need(part) => match rest[part].next() {
                    Some(record) => merge.offer(part, &sources_of(parts[part]), record).unwrap(),
                    None => merge.close(part),
                },
                Next::Record(record) => whole.push(record),
                Next::End => return (whole, merge.sources().clone()),
            }
        }
    }

    /// Records with the name of their source, for comparing across namings.
    fn named(records: &[Record], sources: &Sources) -> Vec<(String, Record)> {
        let anonymous = |record: &Record| Record { source: SourceId(0), ..*record };
        records
            .iter()
            .map(|record| (sources.name(record.source).to_owned(), anonymous(record)))
            .collect()
    }

    proptest! {
        #[test]
        fn the_cuts_of_a_trace_merge_to_the_whole(trace in records(120), border in 0usize..120) {
            let (head, tail) = trace.split_at(border.min(trace.len()));
            let (whole, sources) = merged(&[head, tail], &[0, 0], Naming::Shared);
            prop_assert_eq!(named(&whole, &sources), named(&trace, &sources_of(&trace)));
        }

        #[test]
        fn a_merge_is_a_stable_sort_by_time(
            a in records(60), b in records(60), c in records(60), delay in 0u64..500
        ) {
            let (whole, sources) = merged(&[&a, &b, &c], &[0, delay, 0], Naming::Apart);
            let mut expected = Vec::new();
            for (part, (records, delay)) in [(&a, 0), (&b, delay), (&c, 0)].iter().enumerate() {
                for (name, mut record) in named(records, &sources_of(records)) {
                    record.at += Span(*delay);
                    expected.push((format!("p{part}/{name}"), record));
                }
            }
            expected.sort_by_key(|(_, record)| record.at);
            prop_assert_eq!(named(&whole, &sources), expected);
        }
    }

    #[test]
    fn names_that_could_make_two_sources_one_are_refused() {
        let parts = |names: [&str; 2]| {
            names.map(|name| Part { name: name.to_owned(), delay: Span::ZERO }).to_vec()
        };
        for names in [["a", "a"], ["a", "b/c"]] {
            assert!(Merge::new(parts(names), Naming::Apart).is_err(), "{names:?}");
            assert!(Merge::new(parts(names), Naming::Shared).is_ok(), "{names:?}");
        }
    }

    #[test]
    fn a_part_out_of_order_is_named() {
        let part = Part { name: "monday".to_owned(), delay: Span::ZERO };
        let mut merge = Merge::new(vec![part], Naming::Apart).unwrap();
        let mut record = Record {
            at: Nanos(7),
            source: SourceId(0),
            kind: evenkeel_core::ticket::Kind::Read,
            offset: 0,
            length: 1,
            response: None,
        };
        merge.offer(0, &Sources::default(), &record).unwrap();
        assert_eq!((merge.poll(), merge.poll()), (Next::Record(record), Next::Need(0)));
        record.at = Nanos(6);
        let error = merge.offer(0, &Sources::default(), &record).unwrap_err();
        let text = "part `monday` steps back in time from 7 ns to 6 ns; sort it first, by \
                    `evenkeel trace sort IN OUT`";
        assert_eq!(error.to_string(), text);
    }
}
