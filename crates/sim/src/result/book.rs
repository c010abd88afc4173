//! The books of a run: what was delivered to whom in the measured time, and how long it took.
//!
//! ```text
//! 0        measured.start                                   measured.end
//! |-- warm-up --|-- interval 0 --|-- interval 1 --|-- ... --|-- drain --
//!   not counted                 counted                       not counted
//! ```
//!
//! Requests are booked in one row for each pair of a group and a tenant, so that the run itself
//! records each latency once. When an interval closes, rows are added up by group and by tenant.

use std::ops::Range;

use evenkeel_core::histogram::Histogram;
use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::{IntervalSummary, Latency, Traffic};

/// What one group got as one tenant, since the interval began.
#[derive(Clone, Debug)]
struct Row {
    /// None for what the gate does by itself.
    group: Option<u32>,
    tenant: TenantId,
    tally: Tally,
}

/// Counts and latencies.
#[derive(Clone, Debug, Default)]
struct Tally {
    reads: u64,
    writes: u64,
    /// Requests that neither read nor wrote.
    others: u64,
    errors: u64,
    read_bytes: u64,
    write_bytes: u64,
    /// Of requests answered well: reads, writes, others.
    latency: [Histogram; 3],
}

/// The accounts of one group or tenant over all intervals so far.
#[derive(Clone, Debug, Default)]
struct Account {
    open: Tally,
    all: Tally,
    series: Vec<IntervalSummary>,
}

/// The books of a run.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    measured: Range<Nanos>,
    interval: Span,
    rows: Vec<Row>,
    groups: Vec<Account>,
    tenants: Vec<Account>,
    /// When the next interval begins or ends.
    edge: Nanos,
    is_open: bool,
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
            edge: measured.start,
            is_open: false,
            interval_start: measured.start,
            measured,
        }
    }

    /// The row of a group and a tenant; of no group, what the gate does by itself.
    pub(crate) fn row(&mut self, group: Option<u32>, tenant: TenantId) -> RowId {
        let known = self.rows.iter().position(|row| (row.group, row.tenant) == (group, tenant));
        let index = known.unwrap_or_else(|| {
            self.rows.push(Row { group, tenant, tally: Tally::default() });
            self.rows.len() - 1
        });
        RowId(u32::try_from(index).expect("fewer rows than clients"))
    }

    /// Whether what happens now is measured.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
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
            if self.is_open {
                self.close_interval(self.edge);
            }
            self.is_open = self.edge < self.measured.end;
            self.interval_start = self.edge;
            self.edge = if self.is_open {
                (self.edge + self.interval).min(self.measured.end)
            } else {
                Nanos(u64::MAX)
            };
        }
    }

    /// Bytes of one request arrived at one target or came from there.
    pub(crate) fn delivered(&mut self, row: RowId, kind: Kind, bytes: u64) {
        if self.is_open {
            let tally = &mut self.rows[row.0 as usize].tally;
            match kind {
                Kind::Read => tally.read_bytes += bytes,
                _ => tally.write_bytes += bytes,
            }
        }
    }

    /// A request ended well.
    pub(crate) fn ended(&mut self, row: RowId, kind: Kind, latency: Span) {
        if self.is_open {
            let tally = &mut self.rows[row.0 as usize].tally;
            let (count, class) = match kind {
                Kind::Read => (&mut tally.reads, 0),
                Kind::Write => (&mut tally.writes, 1),
                _ => (&mut tally.others, 2),
            };
            *count += 1;
            tally.latency[class].record(latency);
        }
    }

    /// A request ended with an error.
    pub(crate) fn failed(&mut self, row: RowId) {
        if self.is_open {
            self.rows[row.0 as usize].tally.errors += 1;
        }
    }

    /// The accounts of groups and of tenants, in order.
    pub(crate) fn close(self) -> (Vec<Traffic>, Vec<Traffic>) {
        let measured = self.measured.end.since(self.measured.start);
        let traffic = |accounts: Vec<Account>| {
            accounts.into_iter().map(|account| account.traffic(measured)).collect()
        };
        (traffic(self.groups), traffic(self.tenants))
    }

    fn close_interval(&mut self, end: Nanos) {
        for row in self.rows.iter_mut().filter(|row| !row.tally.is_empty()) {
            if let Some(group) = row.group {
                self.groups[group as usize].open.add(&row.tally);
            }
            self.tenants[row.tenant.index()].open.add(&row.tally);
            row.tally = Tally::default();
        }
        let start = self.interval_start.since(self.measured.start);
        let length = end.since(self.interval_start);
        for account in self.groups.iter_mut().chain(&mut self.tenants) {
            account.close_interval(start, length);
        }
    }
}

impl Account {
    fn close_interval(&mut self, start: Span, length: Span) {
        let open = std::mem::take(&mut self.open);
        self.series.push(open.summary(start, length));
        if !open.is_empty() {
            self.all.add(&open);
        }
    }

    fn traffic(self, measured: Span) -> Traffic {
        let Tally { reads, writes, others, errors, read_bytes, write_bytes, .. } = self.all;
        let (requests, bytes) = (reads + writes + others, read_bytes + write_bytes);
        let seconds = measured.as_secs_f64();
        let latency = Latency::of(self.all.whole_latency());
        let [read_latency, write_latency, _] = self.all.latency.map(Latency::of);
        Traffic {
            requests,
            reads,
            writes,
            bytes,
            errors,
            iops: requests as f64 / seconds,
            mib_per_second: bytes as f64 / seconds / f64::from(1 << 20),
            latency,
            read_latency,
            write_latency,
            series: self.series,
        }
    }
}

impl Tally {
    fn is_empty(&self) -> bool {
        self.reads + self.writes + self.others + self.errors == 0
            && self.read_bytes + self.write_bytes == 0
    }

    fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.errors += other.errors;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        for (mine, theirs) in self.latency.iter_mut().zip(&other.latency) {
            mine.merge(theirs);
        }
    }

    fn whole_latency(&self) -> Histogram {
        let mut whole = Histogram::default();
        self.latency.iter().for_each(|one| whole.merge(one));
        whole
    }

    fn summary(&self, start: Span, length: Span) -> IntervalSummary {
        let latency = self.whole_latency();
        let quantile = |q| latency.quantile(q).unwrap_or(Span::ZERO);
        IntervalSummary {
            start,
            length,
            requests: self.reads + self.writes + self.others,
            reads: self.reads,
            writes: self.writes,
            read_bytes: self.read_bytes,
            write_bytes: self.write_bytes,
            errors: self.errors,
            latency_mean: latency.mean(),
            latency_p50: quantile(0.50),
            latency_p99: quantile(0.99),
            latency_max: latency.max(),
        }
    }
}

impl Latency {
    /// The figures of a distribution.
    pub(crate) fn of(histogram: Histogram) -> Self {
        let quantile = |q| histogram.quantile(q).unwrap_or(Span::ZERO);
        Self {
            mean: histogram.mean(),
            p50: quantile(0.50),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: histogram.max(),
            histogram,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    fn read(book: &mut Book, row: RowId, ms: u64) {
        book.turn(at(ms));
        book.delivered(row, Kind::Read, 4096);
        book.ended(row, Kind::Read, Span(300));
    }

    #[test]
    fn warm_up_and_drain_are_not_measured_and_every_interval_has_its_entry() {
        let mut book = Book::new(at(1_000)..at(3_500), Span::from_secs(1), (1, 1));
        let row = book.row(Some(0), TenantId(0));
        for ms in [999, 1_000, 1_200, 3_499, 3_500] {
            read(&mut book, row, ms);
        }
        let (groups, tenants) = book.close();
        assert_eq!((groups[0].requests, groups[0].bytes), (3, 3 * 4096));
        assert!((tenants[0].iops - 1.2).abs() < 1e-9);
        let series: Vec<_> = groups[0]
            .series
            .iter()
            .map(|entry| (entry.start.0 / 1_000_000, entry.length.0 / 1_000_000, entry.requests))
            .collect();
        assert_eq!(series, [(0, 1000, 2), (1000, 1000, 0), (2000, 500, 1)]);
    }

    #[test]
    fn groups_and_tenants_add_up_the_same_rows() {
        let mut book = Book::new(at(0)..at(10), Span::from_millis(10), (2, 2));
        let rows =
            [(0, 0), (1, 0), (1, 1)].map(|(group, tenant)| book.row(Some(group), TenantId(tenant)));
        for (row, count) in rows.into_iter().zip([1, 2, 4]) {
            (0..count).for_each(|_| read(&mut book, row, 5));
        }
        assert_eq!(book.row(Some(1), TenantId(0)), rows[1]);
        book.failed(rows[0]);
        book.turn(at(10));
        let (groups, tenants) = book.close();
        assert_eq!([groups[0].requests, groups[1].requests], [1, 6]);
        assert_eq!([tenants[0].requests, tenants[1].requests], [3, 4]);
        assert_eq!([tenants[0].errors, tenants[1].errors], [1, 0]);
        assert_eq!(tenants[0].latency.histogram.count(), 3);
    }
}
