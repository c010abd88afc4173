//! The books of a run: how the requests of the measured time fared, and what was delivered when.
//!
//! ```text
//! 0        measured.start                                   measured.end         last answer
//! |-- warm-up --|-- interval 0 --|-- interval 1 --|-- ... --|-- drain 0 --|- drain 1 -|
//!
//! by arrival:   requests that are due in here, until the last of them is answered
//! by answer:    what is delivered in here, interval by interval, drain included
//! ```
//!
//! Latencies, counts and errors go by arrival: a request counts if it was due in the measured time,
//! however late its answer comes. To count by answer would leave out those that waited longest, in
//! an overload or after a burst at the end. Rates and shares go by answer, since they say what the
//! storage delivered in that time.
//!
//! Requests are booked in one row for each pair of a group and a tenant. When an interval closes,
//! rows are added up by group and by tenant. The entries of a drain grow with it, by a part of what
//! it has taken, so that a drain of years has some hundreds.

use std::ops::Range;

use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::tally::{Ending, Tally};
use super::waiting::Waiting;
use super::{IntervalSummary, Latency, Traffic};

/// An entry of a drain is as long as this part of the drain before it, or an interval if that is
/// longer.
const DRAIN_GROWTH_DIVISOR: u64 = 16;

/// What one group got as one tenant.
#[derive(Clone, Debug)]
struct Row {
    /// None for what the gate does by itself.
    group: Option<u32>,
    tenant: TenantId,
    /// By answer, since the interval began.
    open: Tally,
    /// By arrival.
    arrived: Tally,
    /// The last answer to a request that arrived in the measured time.
    last_answer: Nanos,
}

/// The accounts of one group or tenant over all intervals so far.
#[derive(Clone, Debug, Default)]
struct Account {
    open: Tally,
    /// Requests and bytes answered in the measured time.
    answered: (u64, u64),
    arrived: Tally,
    last_answer: Nanos,
    series: Vec<IntervalSummary>,
    drain_series: Vec<IntervalSummary>,
    waiting: Waiting,
}

/// What part of a run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measured,
    Drain,
}

/// The books of a run.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    measured: Range<Nanos>,
    interval: Span,
    rows: Vec<Row>,
    groups: Vec<Account>,
    tenants: Vec<Account>,
    phase: Phase,
    /// When the next interval begins or ends.
    edge: Nanos,
    interval_start: Nanos,
}

/// Names a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowId(u32);

impl Book {
    /// Empty books.
    pub(crate) fn new(
        measured: Range<Nanos>,
        interval: Span,
        (groups, tenants): (usize, usize),
    ) -> Self {
        Self {
            interval,
            rows: Vec::new(),
            groups: vec![Account::default(); groups],
            tenants: vec![Account::default(); tenants],
            phase: Phase::WarmUp,
            edge: measured.start,
            interval_start: Nanos::ZERO,
            measured,
        }
    }

    /// The row of a group and a tenant; of no group, what the gate does by itself.
    pub(crate) fn row(&mut self, group: Option<u32>, tenant: TenantId) -> RowId {
        let known = self.rows.iter().position(|row| (row.group, row.tenant) == (group, tenant));
        let index = known.unwrap_or_else(|| {
            let (open, arrived) = (Tally::default(), Tally::default());
            self.rows.push(Row { group, tenant, open, arrived, last_answer: Nanos::ZERO });
            self.rows.len() - 1
        });
        RowId(u32::try_from(index).expect("fewer rows than clients"))
    }

    /// Whether it is the measured time now.
    pub(crate) fn is_measuring(&self) -> bool {
        self.phase == Phase::Measured
    }

    /// Whether a request that is due then counts.
    pub(crate) fn measures(&self, due: Nanos) -> bool {
        self.measured.contains(&due)
    }

    /// Width of one entry of the time series.
    pub(crate) fn interval(&self) -> Span {
        self.interval
    }

    /// When [`Self::turn`] is due.
    pub(crate) fn edge(&self) -> Nanos {
        self.edge
    }

    /// How long the open interval will have been so at its edge.
    pub(crate) fn open_for(&self, edge: Nanos) -> Span {
        edge.since(self.interval_start)
    }

    /// Opens and closes intervals up to now.
    pub(crate) fn turn(&mut self, now: Nanos) {
        while now >= self.edge && self.edge < Nanos(u64::MAX) {
            self.close_interval(self.edge);
            self.interval_start = self.edge;
            self.phase = if self.edge < self.measured.end { Phase::Measured } else { Phase::Drain };
            self.edge = match self.phase {
                Phase::WarmUp | Phase::Measured => {
                    (self.edge + self.interval).min(self.measured.end)
                }
                Phase::Drain => {
                    let drained = self.edge.since(self.measured.end);
                    self.edge + Span(drained.0 / DRAIN_GROWTH_DIVISOR).max(self.interval)
                }
            };
        }
    }

    /// Bytes of one request arrived at one target or came from there.
    pub(crate) fn delivered(&mut self, row: RowId, kind: Kind, bytes: u64) {
        if self.phase != Phase::WarmUp {
            self.rows[row.0 as usize].open.deliver(kind, bytes);
        }
    }

    /// A request came to its end.
    pub(crate) fn ended(&mut self, now: Nanos, row: RowId, ending: &Ending) {
        let is_measured = self.measures(ending.due);
        let row = &mut self.rows[row.0 as usize];
        if self.phase != Phase::WarmUp {
            row.open.end(now, ending);
        }
        if is_measured {
            row.arrived.end(now, ending);
            row.last_answer = now;
            if ending.ok {
                row.arrived.deliver(ending.kind, ending.bytes);
            }
        }
    }

    /// A request of the tenant waits at the gate.
    pub(crate) fn waits(&mut self, now: Nanos, tenant: TenantId) {
        self.tenants[tenant.index()].waiting.begin(now);
    }

    /// A request of the tenant waits there no more.
    pub(crate) fn waits_no_more(&mut self, now: Nanos, tenant: TenantId) {
        self.tenants[tenant.index()].waiting.end(now);
    }

    /// The accounts of groups and of tenants, in order, of a run that ends now.
    pub(crate) fn close(mut self, now: Nanos) -> (Vec<Traffic>, Vec<Traffic>) {
        self.turn(now);
        if now > self.interval_start || self.rows.iter().any(|row| !row.open.is_empty()) {
            self.close_interval(now.max(self.interval_start + Span(1)));
        }
        for row in &self.rows {
            let group = row.group.map(|group| &mut self.groups[group as usize]);
            for account in group.into_iter().chain([&mut self.tenants[row.tenant.index()]]) {
                account.arrived.add(&row.arrived);
                account.last_answer = account.last_answer.max(row.last_answer);
            }
        }
        let measured = &self.measured;
        let traffic = |accounts: Vec<Account>| {
            accounts.into_iter().map(|account| account.traffic(measured)).collect()
        };
        (traffic(self.groups), traffic(self.tenants))
    }

    fn close_interval(&mut self, end: Nanos) {
        if self.phase == Phase::WarmUp {
            for account in &mut self.tenants {
                account.waiting.close_interval(end);
            }
            return;
        }
        for row in self.rows.iter_mut().filter(|row| !row.open.is_empty()) {
            if let Some(group) = row.group {
                self.groups[group as usize].open.add(&row.open);
            }
            self.tenants[row.tenant.index()].open.add(&row.open);
            row.open = Tally::default();
        }
        let start = self.interval_start.since(self.measured.start);
        let length = end.since(self.interval_start);
        let is_measured = self.phase == Phase::Measured;
        for account in self.groups.iter_mut().chain(&mut self.tenants) {
            account.close_interval(end, (start, length), is_measured);
        }
    }
}

impl Account {
    fn close_interval(&mut self, end: Nanos, (start, length): (Span, Span), is_measured: bool) {
        let open = std::mem::take(&mut self.open);
        let waiting = self.waiting.close_interval(end);
        let entry = IntervalSummary { waiting, ..open.summary(start, length) };
        if is_measured {
            self.answered.0 += open.requests();
            self.answered.1 += open.bytes();
            self.series.push(entry);
        } else {
            self.drain_series.push(entry);
        }
    }

    fn traffic(self, measured: &Range<Nanos>) -> Traffic {
        let arrived = self.arrived;
        let (answered, delivered_bytes) = self.answered;
        let seconds = measured.end.since(measured.start).as_secs_f64();
        let (requests, bytes) = (arrived.requests(), arrived.bytes());
        let latency = Latency::of(arrived.whole_latency());
        let [read_latency, write_latency, _] = arrived.latency.map(Latency::of);
        Traffic {
            requests,
            reads: arrived.reads,
            writes: arrived.writes,
            bytes,
            errors: arrived.errors,
            delivered_bytes,
            iops: answered as f64 / seconds,
            mib_per_second: delivered_bytes as f64 / seconds / f64::from(1 << 20),
            latency,
            read_latency,
            write_latency,
            drain: self.last_answer.since(measured.end),
            series: self.series,
            drain_series: self.drain_series,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// A read that was due then, and answered then.
    fn read(book: &mut Book, row: RowId, (due_ms, ms): (u64, u64)) {
        book.turn(at(ms));
        book.delivered(row, Kind::Read, 4096);
        let ending = Ending { kind: Kind::Read, bytes: 4096, due: at(due_ms), ok: true };
        book.ended(at(ms), row, &ending);
    }

    fn entries(series: &[IntervalSummary]) -> Vec<(u64, u64, u64)> {
        let entry = |one: &IntervalSummary| {
            (one.start.0 / 1_000_000, one.length.0 / 1_000_000, one.requests)
        };
        series.iter().map(entry).collect()
    }

    #[test]
    fn rates_go_by_answer_and_every_interval_has_its_entry() {
        let mut book = Book::new(at(1_000)..at(3_500), Span::from_secs(1), (1, 1));
        let row = book.row(Some(0), TenantId(0));
        for ms in [999, 1_000, 1_200, 3_499, 3_500] {
            read(&mut book, row, (ms, ms));
        }
        let (groups, tenants) = book.close(at(3_500));
        assert_eq!((groups[0].requests, groups[0].bytes), (3, 3 * 4096));
        assert_eq!(groups[0].delivered_bytes, 3 * 4096);
        assert!((tenants[0].iops - 1.2).abs() < 1e-9);
        assert_eq!(entries(&groups[0].series), [(0, 1000, 2), (1000, 1000, 0), (2000, 500, 1)]);
    }

    #[test]
    fn a_request_counts_if_it_arrived_in_the_measured_time_whenever_it_is_answered() {
        let mut book = Book::new(at(1_000)..at(2_000), Span::from_secs(1), (1, 1));
        let row = book.row(Some(0), TenantId(0));
        for times in [(900, 1_100), (1_500, 1_600), (1_999, 4_500), (2_000, 4_600)] {
            read(&mut book, row, times);
        }
        let (groups, _) = book.close(at(4_600));
        let traffic = &groups[0];
        assert_eq!((traffic.requests, traffic.bytes), (2, 2 * 4096));
        assert_eq!(traffic.latency.max, Span::from_millis(2_501));
        assert_eq!(traffic.drain, Span::from_millis(2_500));
        assert_eq!(traffic.delivered_bytes, 2 * 4096, "those of 1.1 s and 1.6 s");
        assert_eq!(entries(&traffic.series), [(0, 1000, 2)]);
        assert_eq!(
            entries(&traffic.drain_series),
            [(1000, 1000, 0), (2000, 1000, 0), (3000, 600, 2)]
        );
    }

    #[test]
    fn a_drain_of_years_has_some_hundred_entries() {
        let mut book = Book::new(at(0)..at(1_000), Span::from_millis(1), (1, 1));
        let row = book.row(Some(0), TenantId(0));
        read(&mut book, row, (999, 100_000_000_000));
        let (groups, _) = book.close(at(100_000_000_000));
        let drain = &groups[0].drain_series;
        assert!(drain.len() < 500, "{}", drain.len());
        let gapless = drain.windows(2).all(|pair| pair[0].start + pair[0].length == pair[1].start);
        assert!(gapless && drain.last().unwrap().requests == 1);
    }

    #[test]
    fn groups_and_tenants_add_up_the_same_rows() {
        let mut book = Book::new(at(0)..at(10), Span::from_millis(10), (2, 2));
        let rows =
            [(0, 0), (1, 0), (1, 1)].map(|(group, tenant)| book.row(Some(group), TenantId(tenant)));
        for (row, count) in rows.into_iter().zip([1, 2, 4]) {
            (0..count).for_each(|_| read(&mut book, row, (4, 5)));
        }
        assert_eq!(book.row(Some(1), TenantId(0)), rows[1]);
        let failed = Ending { kind: Kind::Read, bytes: 4096, due: at(1), ok: false };
        book.ended(at(6), rows[0], &failed);
        let (groups, tenants) = book.close(at(10));
        assert_eq!([groups[0].requests, groups[1].requests], [1, 6]);
        assert_eq!([tenants[0].requests, tenants[1].requests], [3, 4]);
        assert_eq!([tenants[0].errors, tenants[1].errors], [1, 0]);
        assert_eq!(tenants[0].latency.histogram.count(), 3);
    }
}
