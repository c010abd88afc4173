//! Puts records in the order of their arrival and counts time from the first.
//!
//! Some traces are written when requests complete, some by several writers, so that neighbours
//! stand in the wrong order. A window holds the latest records, sorted; the earliest leaves when
//! the window is full:
//!
//! ```text
//! file order   5  7  6  9  8 ..       window of 2
//! leaves             5  6  7 ..       at = 0, 1, 2: counted from the first that leaves
//! ```
//!
//! A record that is earlier than one which has already left is refused, with the remedy. Whoever is
//! going to sort asks for records as they stand: nothing is held back, refused or counted from the
//! first.

use std::collections::VecDeque;

use evenkeel_core::time::{Nanos, Span};

use super::{Options, Order};
use crate::Record;

/// The window between a format's records and the trace's.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Sorted by instant, with the format's own epoch; equal instants in file order.
    window: VecDeque<Record>,
    window_records: usize,
    origin: Origin,
    left: Nanos,
    order: Order,
}

/// The instant that becomes zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// That of the first record that leaves.
    Unknown,
    Known(Nanos),
    /// Instants count from the start of the trace already.
    Start,
}

impl Timeline {
    /// As the options say.
    pub(crate) fn of(options: &Options) -> Self {
        let mut timeline = Self::new(options.window_records);
        if options.order == Order::AsGiven {
            timeline.order = Order::AsGiven;
            timeline.origin = Origin::Known(Nanos::ZERO);
        }
        timeline
    }

    /// With a window of so many records.
    pub(crate) fn new(window_records: usize) -> Self {
        Self {
            window: VecDeque::new(),
            window_records,
            origin: Origin::Unknown,
            left: Nanos::ZERO,
            order: Order::Arrival,
        }
    }

    /// Instants count from the start of the trace, and stay what they are.
    pub(crate) fn count_from_zero(&mut self) {
        self.origin = Origin::Start;
    }

    /// The instant of the first record that left.
    pub(crate) fn origin_ns(&self) -> Option<u64> {
        match self.origin {
            Origin::Known(origin) => Some(origin.0),
            Origin::Unknown | Origin::Start => None,
        }
    }

    /// Takes a record whose `at` counts from the format's own epoch.
    #[inline]
    pub(crate) fn push(&mut self, record: Record, records: &mut Vec<Record>) -> Result<(), String> {
        if self.order == Order::AsGiven {
            records.push(record);
            return Ok(());
        }
        if record.at < self.left {
            return Err(self.late(&record));
        }
        match self.window.back() {
            Some(last) if record.at < last.at => {
                let place = self.window.partition_point(|other| other.at <= record.at);
                self.window.insert(place, record);
            }
            _ => self.window.push_back(record),
        }
        if self.window.len() > self.window_records {
            self.release(records);
        }
        Ok(())
    }

    /// Nothing more comes: everything leaves.
    pub(crate) fn drain(&mut self, records: &mut Vec<Record>) {
        while !self.window.is_empty() {
            self.release(records);
        }
    }

    fn release(&mut self, records: &mut Vec<Record>) {
        let Some(mut record) = self.window.pop_front() else { return };
        let origin = match self.origin {
            Origin::Known(origin) => origin,
            Origin::Start => Nanos::ZERO,
            Origin::Unknown => record.at,
        };
        if self.origin == Origin::Unknown {
            self.origin = Origin::Known(origin);
        }
        self.left = record.at;
        record.at = Nanos(record.at.since(origin).0);
        records.push(record);
    }

    #[cold]
    fn late(&self, record: &Record) -> String {
        let Span(late_ns) = self.left.since(record.at);
        format!(
            "this request arrived {} before one that stands more than {} records earlier; \
             sort the trace first, by `evenkeel trace sort IN OUT`",
            Span(late_ns),
            self.window_records
        )
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ticket::Kind;
    use proptest::prelude::*;

    use super::*;
    use crate::SourceId;

    fn record(at_ns: u64, offset: u64) -> Record {
        let (source, kind) = (SourceId(0), Kind::Read);
        Record { at: Nanos(at_ns), source, kind, offset, length: 512, response: None }
    }

    fn run(window_records: usize, instants: &[u64]) -> (Vec<Record>, usize) {
        let mut timeline = Timeline::new(window_records);
        let (mut records, mut refused) = (Vec::new(), 0);
        for (number, &at_ns) in instants.iter().enumerate() {
            refused +=
                usize::from(timeline.push(record(at_ns, number as u64), &mut records).is_err());
        }
        timeline.drain(&mut records);
        (records, refused)
    }

    #[test]
    fn the_first_to_leave_is_the_zero_of_time() {
        let (records, refused) = run(2, &[5, 4, 6, 9]);
        let instants: Vec<_> = records.iter().map(|record| record.at.0).collect();
        assert_eq!((instants, refused), (vec![0, 1, 2, 5], 0));
    }

    #[test]
    fn a_record_behind_the_window_is_refused_with_the_remedy() {
        let mut timeline = Timeline::new(0);
        let mut records = Vec::new();
        timeline.push(record(3_000, 0), &mut records).unwrap();
        let refusal = timeline.push(record(1_000, 0), &mut records).unwrap_err();
        assert!(refusal.contains("2 us before"), "{refusal}");
        assert!(refusal.contains("evenkeel trace sort"), "{refusal}");
    }

    #[test]
    fn records_as_they_stand_are_neither_moved_nor_refused() {
        let options = Options { order: Order::AsGiven, window_records: 0, ..Options::default() };
        let mut timeline = Timeline::of(&options);
        let mut records = Vec::new();
        for at_ns in [3_000, 1_000, 2_000] {
            timeline.push(record(at_ns, 0), &mut records).unwrap();
        }
        timeline.drain(&mut records);
        let instants: Vec<_> = records.iter().map(|record| record.at.0).collect();
        assert_eq!((instants, timeline.origin_ns()), (vec![3_000, 1_000, 2_000], Some(0)));
    }

    #[test]
    fn instants_from_the_start_of_the_trace_stay() {
        let mut timeline = Timeline::new(1);
        timeline.count_from_zero();
        let mut records = Vec::new();
        timeline.push(record(7, 0), &mut records).unwrap();
        timeline.drain(&mut records);
        assert_eq!((records[0].at, timeline.origin_ns()), (Nanos(7), None));
    }

    proptest! {
        #[test]
        fn a_wide_window_sorts_stably(instants in proptest::collection::vec(0_u64..20, 1..60)) {
            let (records, refused) = run(60, &instants);
            let mut sorted: Vec<_> = (0_u64..).zip(&instants).map(|(n, at)| (*at, n)).collect();
            sorted.sort_unstable();
            let first = sorted[0].0;
            let given: Vec<_> = records.iter().map(|r| (r.at.0 + first, r.offset)).collect();
            prop_assert_eq!((given, refused), (sorted, 0));
        }

        #[test]
        fn time_never_steps_back_and_nothing_is_lost(
            window in 0_usize..8,
            instants in proptest::collection::vec(0_u64..30, 0..60),
        ) {
            let (records, refused) = run(window, &instants);
            prop_assert!(records.is_sorted_by_key(|record| record.at));
            prop_assert_eq!(records.len() + refused, instants.len());
        }
    }
}
