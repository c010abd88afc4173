//! Joins the completion of sectors to the requests that asked for them.
//!
//! Open requests lie in a tree by device, kind and first sector that has not completed. A
//! completion goes through them from its first byte on, each piece of it to the first request that
//! waits for it; a request whose last sector completes is answered.

use std::collections::{BTreeSet, VecDeque};

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::{Action, Arrival, Event};
use crate::format::sink::Sink;
use crate::format::trouble::Trouble;
use crate::{Record, SourceId};

/// The most records that wait for a completion, their own or an earlier one's.
pub(super) const PENDING_MAX: usize = 1 << 16;

/// An open request: where it is still open, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    source: SourceId,
    kind: Kind,
    offset: u64,
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Open(Record, Open),
    Answered(Record),
    Withdrawn,
}

/// Events in, records out.
#[derive(Debug)]
pub(super) struct Pairing {
    arrival: Arrival,
    /// In order of arrival.
    slots: VecDeque<Slot>,
    /// The number of the first slot.
    first: u64,
    open: BTreeSet<Open>,
}

impl Pairing {
    pub(super) fn new(arrival: Arrival) -> Self {
        Self { arrival, slots: VecDeque::new(), first: 0, open: BTreeSet::new() }
    }

    /// Takes the next event, and gives what can leave to the sink.
    pub(super) fn take(&mut self, event: &Event, sink: &mut Sink<'_>) -> Result<(), Trouble> {
        match (event.action, self.arrival) {
            (Action::Queue, Arrival::Queued) | (Action::Issue, Arrival::Issued) => {
                self.arrive(event);
            }
            (Action::Requeue, Arrival::Issued) => self.withdraw(event),
            (Action::Complete, _) => self.complete(event),
            _ => return Ok(()),
        }
        self.release(sink, PENDING_MAX)
    }

    /// Everything leaves.
    pub(super) fn drain(&mut self, sink: &mut Sink<'_>) -> Result<(), Trouble> {
        self.release(sink, 0)
    }

    fn arrive(&mut self, event: &Event) {
        let Event { at, source, kind, offset, length, .. } = *event;
        let open = Open { source, kind, offset, number: self.first + self.slots.len() as u64 };
        let record = Record { at, source, kind, offset, length, response: None };
        self.slots.push_back(Slot::Open(record, open));
        self.open.insert(open);
    }

    /// The next open request of this device and kind that is open in `from..end`.
    fn next_open(&self, event: &Event, from: u64, end: u64) -> Option<Open> {
        let Event { source, kind, .. } = *event;
        let edge = |offset| Open { source, kind, offset, number: 0 };
        self.open.range(edge(from)..edge(end)).next().copied()
    }

    fn complete(&mut self, event: &Event) {
        let end = event.offset.saturating_add(event.length.max(1));
        let mut from = event.offset;
        while let Some(open) = self.next_open(event, from, end) {
            self.open.remove(&open);
            let slot = &mut self.slots[slot_index(open.number, self.first)];
            let Slot::Open(record, _) = *slot else {
                unreachable!("only open slots are in the tree")
            };
            let record_end = record.offset.saturating_add(record.length);
            if record_end <= end {
                *slot = Slot::Answered(answered(record, event.at));
            } else {
                let open = Open { offset: end, ..open };
                *slot = Slot::Open(record, open);
                self.open.insert(open);
            }
            if event.kind == Kind::Flush {
                break;
            }
            from = record_end.min(end);
        }
    }

    /// The request was put back: it will be issued again.
    fn withdraw(&mut self, event: &Event) {
        let end = event.offset.saturating_add(event.length.max(1));
        if let Some(open) = self.next_open(event, event.offset, end) {
            self.open.remove(&open);
            self.slots[slot_index(open.number, self.first)] = Slot::Withdrawn;
        }
    }

    /// Gives what is answered at the front, and more while more than `pending` wait.
    fn release(&mut self, sink: &mut Sink<'_>, pending: usize) -> Result<(), Trouble> {
        let mut result = Ok(());
        while let Some(&slot) = self.slots.front() {
            let record = match slot {
                Slot::Open(..) if self.slots.len() <= pending => break,
                Slot::Open(record, open) => {
                    self.open.remove(&open);
                    Some(record)
                }
                Slot::Answered(record) => Some(record),
                Slot::Withdrawn => None,
            };
            self.slots.pop_front();
            self.first += 1;
            if let Some(record) = record {
                // One defect an event is enough to show; those behind it are as late.
                let pushed = sink.push(record);
                result = result.and(pushed);
            }
        }
        result
    }
}

fn slot_index(number: u64, first: u64) -> usize {
    usize::try_from(number - first).expect("a slot's number is within the queue")
}

fn answered(record: Record, at: Nanos) -> Record {
    Record { response: Some(at.since(record.at)), ..record }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;

    use super::*;
    use crate::Sources;
    use crate::format::timeline::Timeline;

    fn event(action: Action, at_ns: u64, offset: u64, length: u64) -> Event {
        let (source, kind) = (SourceId(0), Kind::Read);
        Event { action, at: Nanos(at_ns), source, kind, offset, length }
    }

    /// Offsets with their responses, in the order in which they leave.
    fn run(arrival: Arrival, events: &[Event]) -> Vec<(u64, Option<u64>)> {
        let (mut sources, mut timeline) = (Sources::default(), Timeline::new(0));
        let mut records = Vec::new();
        let mut sink = Sink::new(&mut sources, &mut timeline, &mut records);
        let mut pairing = Pairing::new(arrival);
        for event in events {
            pairing.take(event, &mut sink).unwrap();
        }
        pairing.drain(&mut sink).unwrap();
        records.iter().map(|r| (r.offset, r.response.map(|Span(ns)| ns))).collect()
    }

    #[test]
    fn merged_requests_complete_together() {
        let events = [
            event(Action::Queue, 10, 0, 8),
            event(Action::Queue, 12, 8, 8),
            event(Action::Issue, 15, 0, 16),
            event(Action::Complete, 100, 0, 16),
        ];
        assert_eq!(run(Arrival::Queued, &events), [(0, Some(90)), (8, Some(88))]);
        assert_eq!(run(Arrival::Issued, &events), [(0, Some(85))]);
    }

    #[test]
    fn a_split_request_is_answered_by_its_last_part() {
        let events = [
            event(Action::Queue, 0, 0, 16),
            event(Action::Complete, 5, 0, 8),
            event(Action::Complete, 9, 8, 8),
        ];
        assert_eq!(run(Arrival::Queued, &events), [(0, Some(9))]);
    }

    #[test]
    fn equal_requests_complete_in_the_order_of_arrival() {
        let events = [
            event(Action::Queue, 0, 0, 8),
            event(Action::Queue, 1, 0, 8),
            event(Action::Complete, 5, 0, 8),
            event(Action::Complete, 9, 0, 8),
        ];
        assert_eq!(run(Arrival::Queued, &events), [(0, Some(5)), (0, Some(8))]);
    }

    #[test]
    fn records_leave_in_the_order_of_arrival_with_or_without_an_answer() {
        let events = [
            event(Action::Queue, 0, 0, 8),
            event(Action::Queue, 1, 64, 8),
            event(Action::Complete, 5, 64, 8),
            event(Action::Complete, 7, 128, 8),
        ];
        assert_eq!(run(Arrival::Queued, &events), [(0, None), (64, Some(4))]);
    }

    #[test]
    fn a_request_that_is_put_back_arrives_when_it_is_issued_again() {
        let events = [
            event(Action::Issue, 0, 0, 8),
            event(Action::Requeue, 1, 0, 8),
            event(Action::Issue, 4, 0, 8),
            event(Action::Complete, 6, 0, 8),
        ];
        assert_eq!(run(Arrival::Issued, &events), [(0, Some(2))]);
    }

    #[test]
    fn what_never_completes_leaves_when_too_many_wait() {
        let count = PENDING_MAX as u64 + 3;
        let (mut sources, mut timeline) = (Sources::default(), Timeline::new(0));
        let mut records = Vec::new();
        let mut sink = Sink::new(&mut sources, &mut timeline, &mut records);
        let mut pairing = Pairing::new(Arrival::Queued);
        for number in 0..count {
            pairing.take(&event(Action::Queue, number, number * 8, 8), &mut sink).unwrap();
        }
        assert_eq!(pairing.open.len(), PENDING_MAX);
        assert_eq!(records.len(), 3);
    }
}
