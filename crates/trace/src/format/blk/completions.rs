//! The events of records, in the order of time: what an encoder writes.
//!
//! A record's completion lies ahead of the arrivals that follow; it waits here until one of them
//! is later.

use std::collections::BTreeMap;

use evenkeel_core::time::Nanos;

use crate::Record;

/// The most completions that wait; one more, and the first is written early.
const WAITING_MAX: usize = 1 << 16;

/// Completions that lie ahead.
#[derive(Debug, Default)]
pub(super) struct Completions {
    /// By instant, and by arrival among equals.
    waiting: BTreeMap<(Nanos, u64), Record>,
    arrived: u64,
}

impl Completions {
    /// Takes a record whose arrival was written.
    pub(super) fn push(&mut self, record: Record) {
        if let Some(response) = record.response {
            self.waiting.insert((record.at + response, self.arrived), record);
            self.arrived += 1;
        }
    }

    /// The next completion that is due before a request arrives at `at`.
    pub(super) fn pop_until(&mut self, at: Nanos) -> Option<(Nanos, Record)> {
        let entry = self.waiting.first_entry()?;
        let is_due = entry.key().0 <= at;
        if is_due || self.waiting.len() > WAITING_MAX { self.pop() } else { None }
    }

    /// The next completion.
    pub(super) fn pop(&mut self) -> Option<(Nanos, Record)> {
        self.waiting.pop_first().map(|((at, _), record)| (at, record))
    }
}
