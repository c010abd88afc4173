//! The engine: one input in, then outputs until there is nothing more to do.
//!
//! ```text
//!            Arrive           cut, one unit at a time          poll
//! driver ------------> request ------------> scheduler of ------------> Submit(unit)
//!                         ^                   the server                    |
//!                         |                                                 v
//!        Finish <---------+------------------ Done(unit) <------------- backend
//! ```

use std::collections::VecDeque;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::ticket::{Cost, Ticket};
use evenkeel_core::time::Nanos;

use crate::account::Account;
use crate::lane::Lane;
use crate::policy::{Domain, Mode};
use crate::report::DomainReport;
use crate::requests::{RequestTable, Status};
use crate::units::{Stage, UnitEntry, UnitTable};
use crate::{Input, Output, Request, Unit};

/// The brain of one scheduling domain. See the [module](self).
///
/// Feed one input with [`handle`](Self::handle), then call [`poll`](Self::poll) until it answers
/// [`Output::WaitUntil`] or [`Output::Idle`]. Time never goes back between calls. Each call is
/// O(log tenants) amortised, except a policy change, which is O(everything).
pub struct Engine {
    mode: Mode,
    accounts: Vec<Account>,
    lanes: Vec<Lane>,
    /// Lanes with [`Lane::is_ready`] set, oldest first.
    ready: VecDeque<ServerId>,
    requests: RequestTable,
    units: UnitTable,
    finished: VecDeque<(u32, bool)>,
}

impl Engine {
    /// An engine that has seen nothing yet.
    pub fn new(now: Nanos, domain: &Domain) -> Self {
        let mut engine = Self {
            mode: domain.mode,
            accounts: Vec::new(),
            lanes: Vec::new(),
            ready: VecDeque::new(),
            requests: RequestTable::default(),
            units: UnitTable::default(),
            finished: VecDeque::new(),
        };
        engine.apply(now, domain);
        engine
    }

    /// Takes one input.
    ///
    /// # Panics
    /// On what only a fault of the driver can cause: a slot that is in use, a tenant or server
    /// that the policy does not have, a unit that is not with the backend.
    pub fn handle(&mut self, now: Nanos, input: Input<'_>) {
        match input {
            Input::Arrive(request) => self.arrive(now, request),
            Input::Done { unit, ok } => self.done(now, unit, ok),
            Input::Abandon { slot } => self.abandon(now, slot),
            Input::Policy(domain) => self.apply(now, domain),
        }
    }

    /// Says what to do next.
    pub fn poll(&mut self, now: Nanos) -> Output {
        if let Some((slot, ok)) = self.finished.pop_front() {
            return Output::Finish { slot, ok };
        }
        self.wake_lanes(now);
        while let Some(&server) = self.ready.front() {
            let lane = &mut self.lanes[server.index()];
            let wake_at = match lane.scheduler.poll(now) {
                Next::Dispatch(ticket) => return Output::Submit(self.dispatch(now, ticket)),
                Next::WaitUntil(at) => Some(at),
                Next::Idle => None,
            };
            lane.wake_at = wake_at;
            lane.is_ready = false;
            self.ready.pop_front();
        }
        let earliest = self.lanes.iter().filter_map(|lane| lane.wake_at).min();
        earliest.map_or(Output::Idle, Output::WaitUntil)
    }

    /// The accounts at this instant.
    pub fn report(&mut self, now: Nanos) -> DomainReport {
        DomainReport {
            at: now,
            tenants: self.accounts.iter().map(|account| account.report(now)).collect(),
            servers: self.lanes.iter().map(|lane| lane.report(now)).collect(),
            ..DomainReport::default()
        }
    }

    fn arrive(&mut self, now: Nanos, request: Request) {
        assert!(request.server.index() < self.lanes.len(), "no server {:?}", request.server);
        self.accounts[request.tenant.index()].arrived(&request);
        self.requests.insert(now, request);
        self.enqueue_next(now, request.slot);
    }

    /// Cuts the next unit of a request, if there is one to cut, and queues it.
    fn enqueue_next(&mut self, now: Nanos, slot: u32) {
        let entry = self.requests.entry_mut(slot);
        let Request { tenant, server, kind, .. } = entry.request;
        let lane = &mut self.lanes[server.index()];
        let Some((offset, size_bytes)) = entry.cut(lane.scheduling.unit_bytes) else { return };
        let cost = lane.scheduling.cost.cost(kind, size_bytes);
        let cost_elsewhere = Cost::default();
        let ticket = self.units.insert(UnitEntry {
            ticket: Ticket { tenant, kind, slot: 0, size_bytes, cost, cost_elsewhere },
            request: slot,
            server,
            offset,
            queued_at: now,
            dispatched_at: now,
            generation: 0,
            stage: Stage::Queued,
        });
        entry.queued_unit = Some(ticket.slot);
        self.accounts[tenant.index()].backlog.enter(now);
        lane.scheduler.enqueue(now, ticket);
        self.make_ready(server);
    }

    fn dispatch(&mut self, now: Nanos, ticket: Ticket) -> Unit {
        let unit = self.units.entry_mut(ticket.slot);
        debug_assert!(unit.stage == Stage::Queued, "unit {} dispatched twice", ticket.slot);
        let lane = &mut self.lanes[unit.server.index()];
        unit.stage = Stage::InService;
        unit.dispatched_at = now;
        unit.generation = lane.generation;
        lane.dispatched(now);
        let account = &mut self.accounts[ticket.tenant.index()];
        account.backlog.leave(now);
        account.dispatched(now, unit);
        let (slot, server, offset) = (unit.request, unit.server, unit.offset);
        let entry = self.requests.entry_mut(slot);
        entry.queued_unit = None;
        entry.in_service += 1;
        self.enqueue_next(now, slot);
        Unit {
            unit: ticket.slot,
            slot,
            server,
            kind: ticket.kind,
            offset,
            length: ticket.size_bytes,
        }
    }

    fn done(&mut self, now: Nanos, handle: u32, ok: bool) {
        let unit = self.units.remove(handle);
        assert!(unit.stage == Stage::InService, "unit {handle} is not with the backend");
        self.accounts[unit.ticket.tenant.index()].served(now, &unit);
        self.lanes[unit.server.index()].served(now, &unit);
        self.make_ready(unit.server);
        self.requests.entry_mut(unit.request).in_service -= 1;
        if ok {
            self.enqueue_next(now, unit.request);
        } else {
            self.stop(now, unit.request, Status::Failed);
        }
        self.finish_if_over(now, unit.request);
    }

    fn abandon(&mut self, now: Nanos, slot: u32) {
        // The request may have finished in this very moment, with its `Finish` not yet polled.
        if self.requests.is_live(slot) {
            self.stop(now, slot, Status::Abandoned);
            self.finish_if_over(now, slot);
        }
    }

    /// Cuts no more units of a request and takes back the one that is queued.
    fn stop(&mut self, now: Nanos, slot: u32, status: Status) {
        let entry = self.requests.entry_mut(slot);
        if entry.status != Status::Abandoned {
            entry.status = status;
        }
        if let Some(handle) = entry.queued_unit.take() {
            let unit = self.units.remove(handle);
            self.lanes[unit.server.index()].withdraw(now, unit.ticket);
            self.accounts[unit.ticket.tenant.index()].backlog.leave(now);
            self.make_ready(unit.server);
        }
    }

    fn finish_if_over(&mut self, now: Nanos, slot: u32) {
        if self.requests.entry_mut(slot).is_over() {
            let entry = self.requests.remove(slot);
            self.accounts[entry.request.tenant.index()].finished(now, &entry);
            self.finished.push_back((slot, entry.status == Status::Cut));
        }
    }

    fn make_ready(&mut self, server: ServerId) {
        let lane = &mut self.lanes[server.index()];
        if !lane.is_ready {
            lane.is_ready = true;
            self.ready.push_back(server);
        }
    }

    /// Makes the lanes ready whose schedulers asked to be polled by now.
    fn wake_lanes(&mut self, now: Nanos) {
        for (server, lane) in (0..).map(ServerId).zip(&mut self.lanes) {
            if lane.wake_at.is_some_and(|at| at <= now) {
                lane.wake_at = None;
                if !lane.is_ready {
                    lane.is_ready = true;
                    self.ready.push_back(server);
                }
            }
        }
    }

    /// Puts a policy in force.
    fn apply(&mut self, now: Nanos, domain: &Domain) {
        self.mode = domain.mode;
        for (index, (name, share)) in domain.tenants.iter().enumerate() {
            if index < self.accounts.len() {
                self.accounts[index].share = *share;
            } else {
                self.accounts.push(Account::new(name.clone(), *share));
            }
        }
        for (index, (name, scheduling)) in domain.servers.iter().enumerate() {
            if index == self.lanes.len() {
                self.lanes.push(Lane::new(name.clone(), scheduling.clone()));
            }
            let lane = &mut self.lanes[index];
            lane.scheduling = scheduling.clone();
            let shares = (0..).map(TenantId).zip(self.accounts.iter().map(|account| account.share));
            configure_all(now, lane.scheduler.as_mut(), shares);
        }
    }
}

fn configure_all(
    now: Nanos,
    scheduler: &mut dyn Scheduler,
    shares: impl Iterator<Item = (TenantId, Share)>,
) {
    for (tenant, share) in shares {
        scheduler.configure(now, tenant, share);
    }
}
