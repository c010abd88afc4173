//! Figures that are a while old when they come.
//!
//! A monitor's figures are those that the servers sent it some seconds ago. What this client wrote
//! in between is in some reports and not in others. So a report that is lower than what was known
//! before does not count in full while the difference may be what is still on its way:
//!
//! ```text
//! writes      ..  1  1  3  2 | 1  2  2          each column is a slice of time
//!                            |<- lag ->|        at most 5 on its way
//! known 60    report 57 -> 60                   report 52 -> 57            report 61 -> 61
//! ```
//!
//! A single writer thus knows exactly, however old the reports are. What others write is seen with
//! the lag; what they delete too.

use std::collections::VecDeque;

use super::loads::{Loads, Metrics};
use crate::id::ServerId;
use crate::time::{Nanos, Span};

/// Slices of time that a lag is cut into.
const SLICES: u64 = 8;

/// What this client wrote lately, by server.
#[derive(Clone, Debug)]
pub struct Lag {
    lag: Span,
    /// The oldest first, none older than the lag and one slice.
    slices: VecDeque<Slice>,
}

#[derive(Clone, Debug)]
struct Slice {
    began: Nanos,
    /// By server.
    bytes: Vec<u64>,
}

impl Lag {
    /// Reports are at most so old when they come.
    pub fn new(lag: Span) -> Self {
        Self { lag, slices: VecDeque::new() }
    }

    /// This client has taken space on a server.
    pub fn wrote(&mut self, now: Nanos, loads: &mut Loads, server: ServerId, bytes: u64) {
        loads.wrote(server, bytes);
        self.forget_before(now);
        let is_over = |slice: &Slice| now.since(slice.began) >= Span(self.lag.0 / SLICES);
        if self.slices.back().is_none_or(is_over) {
            self.slices.push_back(Slice { began: now, bytes: Vec::new() });
        }
        let slice = self.slices.back_mut().expect("just made if there was none");
        if slice.bytes.len() <= server.index() {
            slice.bytes.resize(server.index() + 1, 0);
        }
        slice.bytes[server.index()] = slice.bytes[server.index()].saturating_add(bytes);
    }

    /// A report has come.
    pub fn report(&mut self, now: Nanos, loads: &mut Loads, server: ServerId, metrics: Metrics) {
        self.forget_before(now);
        let known = loads.known_bytes(server);
        loads.report(server, metrics);
        let of_slice = |slice: &Slice| slice.bytes.get(server.index()).copied().unwrap_or(0);
        let on_its_way: u64 = self.slices.iter().map(of_slice).sum();
        loads.wrote(server, known.saturating_sub(metrics.used_bytes).min(on_its_way));
    }

    fn forget_before(&mut self, now: Nanos) {
        let whole = Span(self.lag.0 + self.lag.0 / SLICES);
        while self.slices.front().is_some_and(|slice| now.since(slice.began) > whole) {
            self.slices.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: ServerId = ServerId(3);

    fn at(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    fn report(used_bytes: u64) -> Metrics {
        Metrics { capacity_bytes: 1000, used_bytes, ..Metrics::default() }
    }

    #[test]
    fn what_a_report_cannot_know_yet_is_added_to_it_until_it_can() {
        let mut loads = Loads::new(4);
        let mut lag = Lag::new(Span::from_secs(4));
        lag.report(at(0), &mut loads, SERVER, report(0));
        lag.wrote(at(1000), &mut loads, SERVER, 100);
        lag.wrote(at(4000), &mut loads, SERVER, 50);
        // Of a server that had heard of neither write, of one, and of both.
        for (millis, reported) in [(4100, 0), (4200, 150), (6000, 100), (9000, 150)] {
            lag.report(at(millis), &mut loads, SERVER, report(reported));
            assert!((loads.used_part(SERVER, 0) - 0.15).abs() < 1e-9, "{millis} ms");
        }
    }

    #[test]
    fn what_others_write_counts_and_what_is_gone_does_not_for_long() {
        let mut loads = Loads::new(4);
        let mut lag = Lag::new(Span::from_secs(4));
        lag.wrote(at(0), &mut loads, SERVER, 100);
        for (millis, reported, known) in [(1000, 300, 0.3), (2000, 50, 0.15), (9000, 50, 0.05)] {
            lag.report(at(millis), &mut loads, SERVER, report(reported));
            assert!((loads.used_part(SERVER, 0) - known).abs() < 1e-9, "{millis} ms");
        }
    }

    #[test]
    fn no_more_is_remembered_than_a_few_slices() {
        let mut loads = Loads::new(4);
        let mut lag = Lag::new(Span::from_secs(4));
        (0..100_000).for_each(|millis| lag.wrote(at(millis), &mut loads, SERVER, 1));
        assert!(lag.slices.len() <= 10, "{}", lag.slices.len());
    }
}
