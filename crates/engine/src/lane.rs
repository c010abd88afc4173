//! One server of the domain: its scheduler, and what is with its backend.

use evenkeel_core::sched::Scheduler;
use evenkeel_core::ticket::{Cost, Ticket};
use evenkeel_core::time::{Nanos, Span};

use crate::discipline::open_gate;
use crate::policy::Scheduling;
use crate::report::ServerReport;
use crate::stopwatch::Stopwatch;
use crate::units::UnitEntry;

/// The way to one server.
pub(crate) struct Lane {
    /// Its name in the policy.
    pub(crate) name: String,
    /// How the policy says that its requests are queued.
    pub(crate) scheduling: Scheduling,
    /// The scheduler in force.
    pub(crate) scheduler: Box<dyn Scheduler>,
    /// Counts the schedulers that were in force here; units remember which one dispatched them.
    pub(crate) generation: u32,
    /// An input came since the scheduler last had nothing to dispatch.
    pub(crate) is_ready: bool,
    /// When the scheduler wants to be polled although no input comes.
    pub(crate) wake_at: Option<Nanos>,
    in_service: Stopwatch,
    delivered_cost: Cost,
}

impl Lane {
    /// A server that has done nothing yet.
    pub(crate) fn new(name: String, scheduling: Scheduling) -> Self {
        Self {
            name,
            scheduling,
            scheduler: open_gate(),
            generation: 0,
            is_ready: false,
            wake_at: None,
            in_service: Stopwatch::default(),
            delivered_cost: Cost::default(),
        }
    }

    /// A ticket went to the backend.
    pub(crate) fn dispatched(&mut self, now: Nanos) {
        self.in_service.enter(now);
    }

    /// The backend answered. The scheduler hears of it only if it was the one that dispatched.
    pub(crate) fn served(&mut self, now: Nanos, unit: &UnitEntry) {
        self.in_service.leave(now);
        self.delivered_cost.0 += unit.ticket.cost.0;
        if unit.generation == self.generation {
            self.scheduler.complete(now, unit.ticket);
        }
    }

    /// Takes a queued ticket back.
    pub(crate) fn withdraw(&mut self, now: Nanos, ticket: Ticket) {
        let was_queued = self.scheduler.withdraw(now, ticket);
        assert!(was_queued, "a queued unit is in its server's scheduler");
    }

    /// The account for people.
    pub(crate) fn report(&self, now: Nanos) -> ServerReport {
        ServerReport {
            name: self.name.clone(),
            in_service: u64::from(self.in_service.present()),
            queued: self.scheduler.queued() as u64,
            depth: 0,
            delivered_cost: Span(self.delivered_cost.0),
            busy: self.in_service.total(now),
        }
    }
}
