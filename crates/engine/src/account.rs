//! What one tenant offered, got and waited, since the gate started.

use evenkeel_core::histogram::Histogram;
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::{Nanos, Span};

use crate::attribution::Wait;
use crate::explain::recent::Totals;
use crate::report::{KindReport, TenantReport};
use crate::requests::{RequestEntry, Status};
use crate::stopwatch::Stopwatch;
use crate::units::UnitEntry;

/// The accounts of one tenant over all servers of the domain.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Its name in the policy.
    pub(crate) name: String,
    /// Its share in force.
    pub(crate) share: Share,
    /// Requests that have arrived and are not over.
    pub(crate) in_flight: Stopwatch,
    /// Units waiting at the gate.
    pub(crate) backlog: Stopwatch,
    /// Units with backends.
    pub(crate) in_service: Stopwatch,
    /// Service delivered.
    pub(crate) delivered_cost: Cost,
    /// Part of it that was delivered while nothing waited at the gate.
    pub(crate) delivered_unbacklogged: Cost,
    /// Device time that it was given.
    service_time: Span,
    /// Request-time beyond what idle servers would have taken.
    waited: Wait,
    by_kind: [KindReport; 6],
    queue_time: Histogram,
    device_time: Histogram,
    total_time: Histogram,
    late_requests: u64,
}

impl Account {
    /// A tenant that has done nothing yet.
    pub(crate) fn new(name: String, share: Share) -> Self {
        Self { name, share, ..Self::default() }
    }

    /// A request arrived.
    pub(crate) fn arrived(&mut self, now: Nanos, request: &crate::Request) {
        let kind = &mut self.by_kind[request.kind.index()];
        kind.offered_requests += 1;
        kind.offered_bytes = kind.offered_bytes.saturating_add(request.length);
        self.in_flight.enter(now);
    }

    /// A unit went to the backend.
    pub(crate) fn dispatched(&mut self, now: Nanos, unit: &UnitEntry) {
        self.queue_time.record(now.since(unit.queued_at));
        self.backlog.leave(now);
        self.in_service.enter(now);
    }

    /// The backend answered for a unit. Service counts even where the answer was an error: the
    /// device spent its time.
    pub(crate) fn served(&mut self, now: Nanos, unit: &UnitEntry) {
        self.device_time.record(now.since(unit.dispatched_at));
        self.in_service.leave(now);
        self.delivered_cost.0 += unit.ticket.cost.0;
        if self.backlog.present() == 0 {
            self.delivered_unbacklogged.0 += unit.ticket.cost.0;
        }
    }

    /// At a server it has waited since the last tick, and was given so much of the device's time.
    pub(crate) fn told(&mut self, wait: Wait, given: Span) {
        self.service_time += given;
        self.waited.in_all += wait.in_all;
        self.waited.in_stalls += wait.in_stalls;
    }

    /// A request is over.
    pub(crate) fn finished(&mut self, now: Nanos, entry: &RequestEntry) {
        let kind = &mut self.by_kind[entry.request.kind.index()];
        match entry.status {
            Status::Abandoned => kind.abandoned_requests += 1,
            Status::Failed => kind.failed_requests += 1,
            Status::Free | Status::Cutting | Status::Cut => {
                kind.delivered_requests += 1;
                kind.delivered_bytes = kind.delivered_bytes.saturating_add(entry.request.length);
            }
        }
        if entry.status != Status::Abandoned {
            let total = now.since(entry.arrived);
            self.total_time.record(total);
            let goal = self.share.latency_goal;
            self.late_requests += u64::from(goal > Span::ZERO && total > goal);
        }
        self.in_flight.leave(now);
    }

    /// All that became of it; what lanes keep is left at zero.
    pub(crate) fn totals(&self, now: Nanos) -> Totals {
        let delivered = |of: fn(&KindReport) -> u64| self.by_kind.iter().map(of).sum();
        Totals {
            requests: delivered(|kind| kind.delivered_requests),
            bytes: delivered(|kind| kind.delivered_bytes),
            answered: self.total_time.count(),
            answer_time: self.total_time.sum(),
            late_requests: self.late_requests,
            active: self.in_flight.total(now),
            in_flight: self.in_flight.total_of_each(now),
            backlogged: self.backlog.total(now),
            queued: self.backlog.total_of_each(now),
            in_service: self.in_service.total_of_each(now),
            waited: self.waited.in_all,
            stalled: self.waited.in_stalls,
            ..Totals::default()
        }
    }

    /// The account for people; what other parts of the engine keep is left at zero.
    pub(crate) fn report(&self, now: Nanos) -> TenantReport {
        TenantReport {
            name: self.name.clone(),
            weight_milli: self.share.weight_milli,
            by_kind: self.by_kind,
            queue_time: self.queue_time.clone(),
            device_time: self.device_time.clone(),
            total_time: self.total_time.clone(),
            waited: self.waited.in_all,
            backlogged: self.backlog.total(now),
            in_flight: u64::from(self.in_flight.present()),
            delivered_cost: Span(self.delivered_cost.0),
            service_time: self.service_time,
            ..TenantReport::default()
        }
    }
}
