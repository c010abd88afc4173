//! The books of one group: what was delivered when, and how long it took.
//!
//! ```text
//! start            measured.start                                  measured.end
//!   |----- ramp -----|-- interval 0 --|-- interval 1 --|-- ... --|      drain
//!
//! rates:        what was answered in the measured time
//! latencies:    of requests that were due in it, whenever they were answered
//! ```
//!
//! Counting latencies by answer would leave out those that waited longest in an overload.

use std::ops::Range;

use evenkeel_core::histogram::Histogram;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::report::{DirectionReport, GroupReport, IntervalReport, Verification};

/// The books of one group.
#[derive(Debug)]
pub(super) struct Recorder {
    measured: Range<Nanos>,
    interval: Span,
    report: GroupReport,
    /// The entry of the time series that is still open.
    open: IntervalReport,
    open_latency: Histogram,
    /// Latency from being due and from being sent are told apart.
    open_loop: bool,
    requests_in_all: u64,
    bytes_in_all: u64,
    common_bytes: Option<u64>,
    /// Clients that still run, and when the last of them ended.
    clients: u32,
    ended_at: Option<Nanos>,
}

/// How one request went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) kind: Kind,
    pub(super) due: Nanos,
    pub(super) sent: Nanos,
}

/// What one client had delivered between its first and its last answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steady {
    ends: Option<(Nanos, Nanos)>,
    bytes: u64,
}

impl Steady {
    /// A request of `bytes` was answered.
    pub(super) fn answered(&mut self, now: Nanos, bytes: u64) {
        match &mut self.ends {
            // What the first answer completed was done before it.
            None => self.ends = Some((now, now)),
            Some((_, last)) => {
                *last = now;
                self.bytes += bytes;
            }
        }
    }

    fn bytes_per_second(self) -> f64 {
        let (first, last) = self.ends.unwrap_or_default();
        let seconds = last.since(first).as_secs_f64();
        if seconds > 0.0 { self.bytes as f64 / seconds } else { 0.0 }
    }
}

impl Recorder {
    pub(super) fn new(
        name: &str,
        measured: Range<Nanos>,
        interval: Span,
        (clients, open_loop): (u32, bool),
    ) -> Self {
        Self {
            measured,
            interval,
            report: GroupReport { name: name.to_owned(), ..GroupReport::default() },
            open: IntervalReport { length: interval, ..IntervalReport::default() },
            open_latency: Histogram::default(),
            open_loop,
            requests_in_all: 0,
            bytes_in_all: 0,
            common_bytes: None,
            clients,
            ended_at: None,
        }
    }

    /// Bytes of one request arrived at one target or came from there.
    pub(super) fn delivered(&mut self, now: Nanos, kind: Kind, bytes: u64) {
        self.bytes_in_all += bytes;
        if !self.measured.contains(&now) {
            return;
        }
        self.roll(now);
        self.direction(kind).bytes += bytes;
        match kind {
            Kind::Read => self.open.read_bytes += bytes,
            Kind::Write => self.open.write_bytes += bytes,
            Kind::Flush | Kind::Trim | Kind::Cache | Kind::WriteZeroes => {}
        }
    }

    /// A request ended well.
    pub(super) fn ended(&mut self, now: Nanos, ending: &Ending) {
        self.requests_in_all += 1;
        let latency = now.since(ending.due);
        if self.measured.contains(&ending.due) {
            let open_loop = self.open_loop;
            let direction = self.direction(ending.kind);
            direction.latency.record(latency);
            if open_loop {
                direction.service.record(now.since(ending.sent));
                self.report.lateness.record(ending.sent.since(ending.due));
            }
        }
        if !self.measured.contains(&now) {
            return;
        }
        self.roll(now);
        self.direction(ending.kind).requests += 1;
        self.open.requests += 1;
        match ending.kind {
            Kind::Read => self.open.reads += 1,
            Kind::Write => self.open.writes += 1,
            Kind::Flush | Kind::Trim | Kind::Cache | Kind::WriteZeroes => {}
        }
        self.open_latency.record(latency);
    }

    /// A request ended with an error.
    pub(super) fn failed(&mut self, what: impl FnOnce() -> String) {
        self.requests_in_all += 1;
        self.report.errors += 1;
        self.report.first_error.get_or_insert_with(what);
    }

    /// What verification of one client found.
    pub(super) fn verified(&mut self, found: &Verification) {
        let sum = self.report.verification.get_or_insert_default();
        sum.blocks_checked += found.blocks_checked;
        sum.blocks_wrong += found.blocks_wrong;
        if sum.first_wrong.is_none() {
            sum.first_wrong.clone_from(&found.first_wrong);
        }
    }

    /// Whether what ends now is measured.
    pub(super) fn is_measuring(&self, now: Nanos) -> bool {
        self.measured.contains(&now)
    }

    /// One client has ended. True if it was the group's last.
    pub(super) fn client_ended(&mut self, now: Nanos, unanswered: u64, steady: Steady) -> bool {
        self.report.unanswered += unanswered;
        self.report.steady_bytes_per_second += steady.bytes_per_second();
        self.clients -= 1;
        if self.clients == 0 {
            self.ended_at = Some(now);
        }
        self.clients == 0
    }

    /// From now on not every group runs: what was delivered so far is what counts in common.
    pub(super) fn freeze_common(&mut self) {
        let bytes = self.report.read.bytes + self.report.write.bytes;
        self.common_bytes.get_or_insert(bytes);
    }

    /// The end of what was measured: the plan's, or when the last client ended before.
    pub(super) fn measured_end(&self) -> Nanos {
        self.ended_at.unwrap_or(self.measured.end).clamp(self.measured.start, self.measured.end)
    }

    pub(super) fn requests_in_all(&self) -> u64 {
        self.requests_in_all
    }

    pub(super) fn bytes_in_all(&self) -> u64 {
        self.bytes_in_all
    }

    /// Closes the books.
    pub(super) fn close(mut self) -> GroupReport {
        self.freeze_common();
        let end = self.measured_end();
        // An instant short of the end: an entry that would start there stays away.
        self.roll(end - Span(1));
        let length = end.since(self.measured.start + self.open.start);
        if length > Span::ZERO {
            self.open.length = length.min(self.interval);
            self.close_entry();
        }
        self.report.measured = end.since(self.measured.start);
        self.report.common_bytes = self.common_bytes.unwrap_or(0);
        self.report
    }

    fn direction(&mut self, kind: Kind) -> &mut DirectionReport {
        match kind {
            Kind::Read => &mut self.report.read,
            Kind::Write => &mut self.report.write,
            Kind::Flush => &mut self.report.flush,
            Kind::Trim | Kind::Cache | Kind::WriteZeroes => &mut self.report.other,
        }
    }

    fn roll(&mut self, now: Nanos) {
        while now.since(self.measured.start).0 >= self.open.start.0 + self.interval.0 {
            self.close_entry();
        }
    }

    fn close_entry(&mut self) {
        let latency = std::mem::take(&mut self.open_latency);
        self.open.latency_p50 = latency.quantile(0.50).unwrap_or(Span::ZERO);
        self.open.latency_p99 = latency.quantile(0.99).unwrap_or(Span::ZERO);
        self.open.latency_max = latency.max();
        self.report.series.push(self.open);
        let start = Span(self.open.start.0 + self.interval.0);
        self.open = IntervalReport { start, length: self.interval, ..IntervalReport::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Span = Span::from_secs(1);

    fn at(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    fn recorder() -> Recorder {
        Recorder::new("g", at(1_000)..at(3_500), SECOND, (1, true))
    }

    fn read(recorder: &mut Recorder, ended_ms: u64) {
        let ended = at(ended_ms);
        let ending = Ending { kind: Kind::Read, due: ended - Span(300), sent: ended - Span(100) };
        recorder.delivered(ended, Kind::Read, 4096);
        recorder.ended(ended, &ending);
    }

    #[test]
    fn ramp_and_drain_are_not_measured() {
        let mut recorder = recorder();
        for ended_ms in [999, 1_000, 3_499, 3_500] {
            read(&mut recorder, ended_ms);
        }
        assert_eq!(recorder.requests_in_all(), 4);
        let report = recorder.close();
        assert_eq!((report.read.requests, report.read.bytes), (2, 8192));
        assert_eq!(report.measured, Span::from_millis(2_500));
    }

    #[test]
    fn latencies_are_of_what_was_due_in_the_measured_time_and_rates_of_what_was_answered_in_it() {
        let mut recorder = recorder();
        let ending = |due_ms| Ending { kind: Kind::Read, due: at(due_ms), sent: at(due_ms) };
        recorder.ended(at(1_100), &ending(900));
        recorder.ended(at(3_600), &ending(3_400));
        recorder.ended(at(3_700), &ending(3_600));
        let read = recorder.close().read;
        assert_eq!(read.requests, 1, "the first");
        assert_eq!(read.latency.histogram.count(), 1, "the second");
        assert_eq!(read.latency.histogram.max(), Span::from_millis(200));
    }

    #[test]
    fn latency_counts_from_the_due_instant_and_service_from_sending() {
        let mut recorder = recorder();
        read(&mut recorder, 2_000);
        let report = recorder.close();
        assert_eq!(report.read.latency.min, Span(300));
        assert_eq!(report.read.service.min, Span(100));
    }

    #[test]
    fn the_series_has_an_entry_for_every_interval_even_without_requests() {
        let mut recorder = recorder();
        for ended_ms in [1_100, 1_200, 3_400] {
            read(&mut recorder, ended_ms);
        }
        let series = recorder.close().series;
        let shown: Vec<_> =
            series.iter().map(|entry| (entry.start.0 / 1_000_000, entry.requests)).collect();
        assert_eq!(shown, [(0, 2), (1_000, 0), (2_000, 1)]);
        assert_eq!(series[2].length, Span::from_millis(500));
    }

    #[test]
    fn the_steady_rate_does_not_depend_on_where_the_window_cuts_a_bunch() {
        let mut steady = Steady::default();
        (0..4).for_each(|bunch| steady.answered(at(600 * bunch), 6_000));
        assert!((steady.bytes_per_second() - 10_000.0).abs() < 1e-6);
        assert!(Steady::default().bytes_per_second().abs() < 1e-6);
    }

    #[test]
    fn an_early_end_shortens_the_measured_time_and_freezes_what_is_common() {
        let mut recorder = recorder();
        read(&mut recorder, 1_500);
        recorder.freeze_common();
        read(&mut recorder, 1_900);
        assert!(recorder.client_ended(at(2_000), 0, Steady::default()));
        let report = recorder.close();
        assert_eq!((report.common_bytes, report.read.bytes), (4096, 8192));
        assert_eq!(report.measured, SECOND);
        assert_eq!(report.series.len(), 1);
    }
}
