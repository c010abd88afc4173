//! The engine: one input in, then outputs until there is nothing more to do.
//!
//! ```text
//!            Arrive           cut, one unit at a time          poll
//! driver ------------> request ------------> scheduler of ------------> Submit(unit)
//!                         ^                   the server                    |
//!                         |                                                 v
//!        Finish <---------+------------------ Done(unit) <------------- backend
//! ```

mod explaining;
mod late;
mod slots;

use std::collections::VecDeque;
use std::ops::Range;

use evenkeel_core::control::Decision;
use evenkeel_core::control::summary::Summary;
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::dsfq::{Coordinator, Form};
use evenkeel_core::ticket::{Cost, Kind, Ticket};
use evenkeel_core::time::{Nanos, Span};

use crate::account::Account;
use crate::attribution::{PairTable, TICK, Wait};
use crate::explain::recent::History;
use crate::lane::{self, Lane};
use crate::late::{KeptOff, Late};
use crate::notes::{Step, StepKind};
use crate::placement::{Direct, Piece};
use crate::policy::{Domain, Sharing};
use crate::report::{AllocationReport, DomainReport, TenantReport};
use crate::requests::{Cut, RequestTable, Status};
use crate::service::{Held, Service};
use crate::shares::Shares;
use crate::units::{Stage, UnitEntry, UnitTable};
use crate::{Input, Output, Refused, Request, Target, Unit};
use crate::{spread, tiers};

/// The brain of one scheduling domain.
///
/// Feed one input with [`handle`](Self::handle), then call [`poll`](Self::poll) until it answers
/// [`Output::WaitUntil`] or [`Output::Idle`]. Time never goes back between calls. An input and what
/// follows from it cost O(log tenants + servers) and allocate nothing once as much was in flight as
/// ever will be; a policy change costs O(tenants * servers + queued), and an abandoned request
/// O(queued by its tenant).
pub struct Engine {
    accounts: Vec<Account>,
    lanes: Vec<Lane>,
    /// Lanes that are worth polling, oldest first.
    ready: VecDeque<ServerId>,
    requests: RequestTable,
    units: UnitTable,
    finished: VecDeque<(u32, bool)>,
    /// What is to be told of requests before they finish.
    told: VecDeque<Output>,
    /// Present where shares count over several servers.
    coordinator: Option<Coordinator>,
    /// The policy in force.
    domain: Domain,
    /// The volume that the servers make up, once it is open.
    pub(crate) volume: Option<Box<Service>>,
    shares: Shares,
    pairs: PairTable,
    history: History,
    next_tick: Nanos,
    late: Late,
}

impl Engine {
    /// An engine that has seen nothing yet.
    pub fn new(now: Nanos, domain: &Domain) -> Self {
        let mut engine = Self {
            accounts: Vec::new(),
            lanes: Vec::new(),
            ready: VecDeque::new(),
            requests: RequestTable::default(),
            units: UnitTable::default(),
            finished: VecDeque::new(),
            told: VecDeque::new(),
            coordinator: None,
            domain: Domain::default(),
            volume: None,
            shares: Shares::new(now),
            pairs: PairTable::default(),
            history: History::new(now),
            next_tick: now + TICK,
            late: Late::default(),
        };
        engine.apply(now, domain);
        engine
    }

    /// The largest unit that requests to a server are cut into now, in bytes.
    pub fn unit_bytes(&self, server: ServerId) -> u64 {
        self.lanes[server.index()].unit_bytes()
    }

    /// Takes one input.
    ///
    /// # Panics
    /// On what only a fault of the driver can cause: a slot that is in use, a tenant or server
    /// that the policy does not have, a unit that is not with the backend, a policy that has lost
    /// tenants or servers, or one that [`check`](crate::policy::Policy::check) refuses.
    pub fn handle(&mut self, now: Nanos, input: Input<'_>) {
        match input {
            Input::Arrive(request) => self.arrive(now, request),
            Input::Done { unit, ok } => self.done(now, unit, ok),
            Input::Abandon { slot } => self.abandon(now, slot),
            Input::Policy(domain) => self.apply(now, domain),
            Input::Volume(volume) => self.mount_tiers(now, *volume),
            Input::Spread(volume) => self.mount_spread(now, *volume),
            Input::Pause => self.pause(),
            Input::Resize { size_bytes } => {
                if let Some(volume) = self.spread_mut() {
                    volume.resize(now, size_bytes);
                }
            }
            Input::Unmount => {
                assert!(self.units.live().next().is_none(), "what was asked of it has ended");
                self.volume = None;
            }
            Input::Held { until } => {
                self.service().held(until);
                self.release(now);
            }
            Input::Fenced { server } => {
                self.service().fenced(server);
                self.release(now);
                self.end_late_waits(now);
            }
            Input::Late { server, disk, range, until } => {
                self.answer_is_late(now, (server, disk), &range, until);
            }
            Input::Looked { server, latency } => self.service().looked(server, latency),
            Input::Cleared { server } => self.service().cleared(now, server),
            Input::HostTold { server, host } => {
                if let Some(volume) = self.spread_mut() {
                    volume.host_told(server, host);
                }
            }
            Input::Full { server } => {
                if let Some(volume) = self.spread_mut() {
                    volume.is_out_of_room(now, server);
                }
            }
            Input::Moved { server, kind, ok } => self.moved(now, (server, kind), ok),
            Input::Decide { server, decision } => self.decide(now, server, decision),
            Input::Room { server, room } => {
                self.lanes[server.index()].set_room(room);
                self.make_ready(server);
            }
            Input::ServedByOthers(costs) => {
                if let Some(coordinator) = &mut self.coordinator {
                    let waits =
                        |tenant: TenantId| self.accounts[tenant.index()].backlog.present() > 0;
                    coordinator.served_by_others(costs, waits);
                }
            }
        }
        if now >= self.next_tick {
            self.tick(now);
        }
    }

    /// Whether a spread volume that pauses notes nothing any more.
    pub fn is_at_rest(&self) -> bool {
        let volume = self.volume.as_ref().and_then(|volume| volume.spread());
        volume.is_some_and(spread::Serving::is_at_rest)
    }

    /// What has come of another size for the spread volume, once it is known: the size, in bytes,
    /// or why it has not changed.
    pub fn take_resized(&mut self) -> Option<Result<u64, spread::ResizeRefusal>> {
        self.spread_mut()?.take_resized()
    }

    fn spread_mut(&mut self) -> Option<&mut spread::Serving> {
        self.volume.as_mut()?.spread_mut()
    }

    /// Says what to do next.
    pub fn poll(&mut self, now: Nanos) -> Output {
        if let Some(output) = self.take_told() {
            return output;
        }
        if self.late_deadline(now).is_some_and(|end| end <= now) {
            self.end_late_waits(now);
        }
        if self.next_look().is_some_and(|at| at <= now) {
            self.tick(now);
        }
        if let Some(step) = self.poll_moves(now) {
            return Output::Move(step);
        }
        // Requests that have waited for the volume may be over.
        if let Some(output) = self.take_told() {
            return output;
        }
        self.wake_lanes(now);
        while let Some(&server) = self.ready.front() {
            if let Some(ticket) = self.lanes[server.index()].poll(now) {
                return Output::Submit(self.dispatch(now, ticket));
            }
            self.ready.pop_front();
        }
        let hold = self.volume.as_ref().and_then(|volume| volume.deadline());
        let (late, look) = (self.late_deadline(now), self.next_look());
        let wakes = self.lanes.iter().filter_map(Lane::wake_at);
        let earliest = wakes.chain(hold).chain(late).chain(look).min();
        earliest.map_or(Output::Idle, Output::WaitUntil)
    }

    /// What has become of requests, if that is not told yet.
    fn take_told(&mut self) -> Option<Output> {
        let told = self.told.pop_front();
        told.or_else(|| self.finished.pop_front().map(|(slot, ok)| Output::Finish { slot, ok }))
    }

    /// What the step of the kind [`StepKind::Note`](crate::notes::StepKind::Note) at this server
    /// writes; good until the step is finished.
    pub fn note_bytes(&self, server: ServerId) -> &[u8] {
        self.volume.as_ref().map_or(&[], |volume| volume.note_bytes(server))
    }

    /// The number of the last move of a volume that is durable; 0 if there is none.
    pub fn noted(&self) -> u64 {
        self.volume.as_deref().map_or(0, Service::noted)
    }

    /// Ends the period of this number at a server that other gates share: what they are to be told.
    /// None if it is not shared. O(tenants).
    pub fn close_period(&mut self, now: Nanos, server: ServerId, number: u64) -> Option<Summary> {
        Some(self.lanes.get(server.index())?.shared()?.summarise(now, number))
    }

    /// The cost of all that was ever served of each tenant, for gates with which shares count
    /// together. O(tenants).
    pub fn served(&self) -> Vec<(TenantId, Cost)> {
        let served = (0..).map(TenantId).zip(&self.accounts);
        served.map(|(tenant, account)| (tenant, account.delivered_cost)).collect()
    }

    /// The accounts at this instant. O(tenants * servers).
    pub fn report(&mut self, now: Nanos) -> DomainReport {
        self.tick(now);
        let tenants = (0..).map(TenantId).zip(&self.accounts);
        let (interference, interference_other) = self.pairs.report();
        let servers: Vec<_> = self.lanes.iter().map(|lane| lane.report(now)).collect();
        let tenants = tenants.map(|(tenant, account)| self.report_of(now, tenant, account));
        let mut tenants: Vec<_> = tenants.collect();
        self.explain(now, &servers, &mut tenants);
        DomainReport {
            at: now,
            tenants,
            servers,
            volume: self.volume.as_ref().and_then(|one| Some(one.tiered()?.report())),
            spread: self.volume.as_ref().and_then(|one| Some(one.spread()?.report(now))),
            allocation: self.allocation(),
            interference,
            interference_other,
        }
    }

    /// Who gets how much of the tiers, if one dispatcher orders the requests for all of them.
    fn allocation(&self) -> Option<AllocationReport> {
        let (_, servers) = self.domain.ordered_together()?;
        self.lanes.iter().find_map(|lane| lane.allocation(&servers))
    }

    fn report_of(&self, now: Nanos, tenant: TenantId, account: &Account) -> TenantReport {
        let mut report = account.report(now);
        report.window = self.shares.last(tenant);
        for lane in &self.lanes {
            let held = lane.held(tenant);
            report.throttled += lane.throttled(now, tenant);
            report.waited_for_slots += lane.waited_for_slots(now, tenant);
            report.shadow_held += held.time;
            report.shadow_held_units += held.units;
        }
        report
    }

    fn arrive(&mut self, now: Nanos, request: Request) {
        let mut payer = request.tenant;
        match (request.target, &mut self.volume) {
            (Target::Server(server), volume) => {
                assert!(server.index() < self.lanes.len(), "no server {server:?}");
                if let Some(volume) = volume {
                    payer = volume.step_arrived(&request, server).unwrap_or(payer);
                }
            }
            (Target::Volume, volume) => assert!(volume.is_some(), "no volume for {request:?}"),
        }
        self.accounts[request.tenant.index()].arrived(now, &request);
        self.shares.touch(request.tenant);
        self.requests.insert(now, request);
        self.requests.entry_mut(request.slot).payer = payer;
        self.enqueue_next(now, request.slot);
        self.finish_if_over(now, request.slot);
    }

    /// Cuts the next unit of a request, if there is one to cut, and queues it.
    fn enqueue_next(&mut self, now: Nanos, slot: u32) {
        loop {
            let entry = self.requests.entry_mut(slot);
            let at = entry.cut_bytes;
            let unit_bytes = |server: ServerId| self.lanes[server.index()].unit_bytes();
            let disk = entry.request.disk;
            let first_late = |server: ServerId, range: &Range<u64>| {
                self.late.first_in(now, self.volume.as_deref(), (server, disk), range)
            };
            let cut = match entry.request.target {
                Target::Server(server) => {
                    let places = &Direct(server);
                    entry.cut(now, &KeptOff { places, first_late }, unit_bytes)
                }
                Target::Volume => {
                    let places = self.volume.as_deref().expect("there was one on arrival");
                    entry.cut(now, &KeptOff { places, first_late }, unit_bytes)
                }
            };
            let request = entry.request;
            let goes_on = !matches!(cut, Cut::Late | Cut::Nothing);
            if goes_on && std::mem::take(&mut entry.waits_for_late) {
                // It lies elsewhere by now.
                self.late.withdraw(slot);
            }
            match cut {
                Cut::Nothing => return,
                Cut::Unit(piece) => {
                    if let (Target::Volume, Some(volume)) = (request.target, &mut self.volume) {
                        volume.queued(now, &request, at);
                    }
                    return self.enqueue(now, slot, at, piece);
                }
                Cut::Hole { at, length } => {
                    if request.kind == Kind::Read && length > 0 {
                        self.told.push_back(Output::Zeroes { slot, at, length });
                    }
                }
                Cut::Wait => return self.hold(now, slot),
                Cut::Late => {
                    let entry = self.requests.entry_mut(slot);
                    if !std::mem::replace(&mut entry.waits_for_late, true) {
                        self.late.wait(slot);
                    }
                    return;
                }
                Cut::Refused(why) => return self.refuse(now, slot, why),
            }
        }
    }

    /// Queues a unit of a request.
    fn enqueue(&mut self, now: Nanos, slot: u32, at: u64, piece: Piece) {
        let Piece { server, offset, length: size_bytes } = piece;
        let entry = self.requests.entry_mut(slot);
        let (tenant, kind, disk) = (entry.payer, entry.request.kind, entry.request.disk);
        let lane = &mut self.lanes[server.index()];
        let cost = lane.cost(tenant, kind, size_bytes);
        let cost_elsewhere = Cost::default();
        let mut ticket = Ticket { tenant, kind, slot: 0, size_bytes, cost, cost_elsewhere };
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.stamp(server, &mut ticket);
        }
        let ticket = self.units.insert(UnitEntry {
            ticket,
            request: slot,
            server,
            offset,
            at,
            queued_at: now,
            dispatched_at: now,
            generation: 0,
            stage: Stage::Queued,
        });
        entry.queued_unit = Some(ticket.slot);
        self.accounts[tenant.index()].backlog.enter(now);
        lane.enqueue(now, ticket, disk);
        if lane.is_division_stale(now) {
            lane.divide(now, &self.units);
        }
        self.make_ready(server);
    }

    fn mount_tiers(&mut self, now: Nanos, volume: tiers::Volume) {
        let plan = self.domain.tiers.as_ref().expect("the policy has a tiered volume");
        let tiers = plan.servers.iter().map(|server| self.lanes[server.index()].scheduling());
        let serving = tiers::Serving::new(volume, plan, self.accounts.len(), tiers);
        self.mount(now, Service::Tiered(serving));
    }

    fn mount_spread(&mut self, now: Nanos, volume: spread::Volume) {
        let plan = self.domain.spread.as_ref().expect("the policy has a spread volume");
        let serving = match self.volume.take().map(|service| *service) {
            None => spread::Serving::new(volume, plan, self.accounts.len()),
            Some(Service::Spread(before)) => before.opened_anew(volume),
            Some(Service::Tiered(_)) => panic!("the policy has a spread volume"),
        };
        self.mount(now, Service::Spread(serving));
    }

    fn mount(&mut self, now: Nanos, service: Service) {
        assert!(self.volume.is_none(), "a volume has no other's place");
        self.volume = Some(Box::new(service));
        self.pass_on_late(now);
    }

    fn service(&mut self) -> &mut Service {
        self.volume.as_mut().expect("volumes are held by a lease, and nothing else is")
    }

    fn pause(&mut self) {
        let volume = self.service().spread_mut();
        volume.expect("only spread volumes are opened anew").pause();
    }

    /// A piece of a request may not go to its place yet: it waits for the end of a move, at whose
    /// cost the move goes on meanwhile, or until its object is placed or freed.
    fn hold(&mut self, now: Nanos, slot: u32) {
        let entry = self.requests.entry_mut(slot);
        let (tenant, request, at) = (entry.payer, entry.request, entry.cut_bytes);
        let volume = self.volume.as_mut().expect("it has kept the piece back");
        match volume.hold(now, &request, at, tenant) {
            Held::Waits => {}
            Held::Pays(step) => self.charge(now, step, tenant),
            Held::Refused(why) => self.refuse(now, slot, why),
        }
    }

    /// A piece of a request is not served: the request fails.
    fn refuse(&mut self, now: Nanos, slot: u32, why: Refused) {
        self.told.push_back(Output::Refuse { slot, why });
        self.stop(now, slot, Status::Failed);
    }

    /// From now on a request is paid by this tenant; what of it is queued stands in line again.
    fn charge(&mut self, now: Nanos, slot: u32, tenant: TenantId) {
        let entry = self.requests.entry_mut(slot);
        entry.payer = tenant;
        if let Some(handle) = entry.queued_unit.take() {
            let UnitEntry { server, offset, at, ticket, .. } = self.take_back(now, handle);
            let piece = Piece { server, offset, length: ticket.size_bytes };
            self.enqueue(now, slot, at, piece);
        }
    }

    /// The next step of a move, if it is time for one.
    fn poll_moves(&mut self, now: Nanos) -> Option<Step> {
        loop {
            let volume = self.volume.as_deref_mut().filter(|volume| volume.is_due(now))?;
            let step = volume.poll(now, &self.units);
            // Requests that go on may have something noted of a spread volume. Those of a tiered
            // one wait for its mover, which is asked again with the next event.
            let may_note = volume.spread().is_some();
            if !self.release(now) || step.is_some() || !may_note {
                return step;
            }
        }
    }

    fn moved(&mut self, now: Nanos, step: (ServerId, StepKind), ok: bool) {
        let volume = self.volume.as_deref_mut().expect("steps are of a volume");
        volume.moved(now, step, ok, &self.units);
        self.release(now);
    }

    /// Requests that waited for a move go on; false if there are none.
    fn release(&mut self, now: Nanos) -> bool {
        let mut has_any = false;
        while let Some(slot) = self.volume.as_mut().and_then(|volume| volume.take_released()) {
            self.enqueue_next(now, slot);
            self.finish_if_over(now, slot);
            has_any = true;
        }
        has_any
    }

    fn dispatch(&mut self, now: Nanos, ticket: Ticket) -> Unit {
        let unit = self.units.entry_mut(ticket.slot);
        assert!(unit.stage == Stage::Queued, "unit {} dispatched twice", ticket.slot);
        unit.stage = Stage::InService;
        unit.dispatched_at = now;
        unit.generation = self.lanes[unit.server.index()].generation();
        if let Some(volume) = &mut self.volume {
            volume.dispatched(unit);
        }
        let account = &mut self.accounts[ticket.tenant.index()];
        account.dispatched(now, unit);
        let UnitEntry { request: slot, server, offset, at, .. } = *unit;
        let entry = self.requests.entry_mut(slot);
        entry.queued_unit = None;
        entry.in_service += 1;
        self.enqueue_next(now, slot);
        let (kind, length) = (ticket.kind, ticket.size_bytes);
        let cost = ticket.cost;
        Unit { unit: ticket.slot, slot, server, kind, offset, at, length, cost }
    }

    fn done(&mut self, now: Nanos, handle: u32, mut ok: bool) {
        let unit = self.units.remove(handle);
        assert!(unit.stage == Stage::InService, "unit {handle} is not with the backend");
        if let Some(volume) = &mut self.volume {
            volume.answered(now, &unit, ok);
            volume.ended(&unit);
            let target = self.requests.entry_mut(unit.request).request.target;
            if unit.ticket.kind == Kind::Flush && target == Target::Volume {
                ok = volume.flush_ended(unit.ticket.tenant, unit.server, ok);
            }
        }
        self.accounts[unit.ticket.tenant.index()].served(now, &unit);
        self.shares.touch(unit.ticket.tenant);
        let lane = &mut self.lanes[unit.server.index()];
        lane.served(now, &unit, ok);
        if lane.is_division_stale(now) {
            lane.divide(now, &self.units);
        }
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
        // The request may just have finished, with its `Finish` not yet polled.
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
            let unit = self.take_back(now, handle);
            if let Some(volume) = &mut self.volume {
                volume.ended(&unit);
            }
        } else {
            if std::mem::take(&mut entry.waits_for_late) {
                self.late.withdraw(slot);
            }
            if let Some(volume) = &mut self.volume {
                volume.withdraw(slot);
            }
        }
    }

    /// Takes a queued unit out of its queue.
    fn take_back(&mut self, now: Nanos, handle: u32) -> UnitEntry {
        let unit = self.units.remove(handle);
        self.lanes[unit.server.index()].withdraw(now, unit.ticket);
        self.accounts[unit.ticket.tenant.index()].backlog.leave(now);
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.forget(unit.server, &unit.ticket);
        }
        self.make_ready(unit.server);
        unit
    }

    fn finish_if_over(&mut self, now: Nanos, slot: u32) {
        if self.requests.entry_mut(slot).is_over() {
            let entry = self.requests.remove(slot);
            if let Some(volume) = &mut self.volume {
                volume.finished(slot);
            }
            self.accounts[entry.request.tenant.index()].finished(now, &entry);
            self.finished.push_back((slot, entry.status == Status::Cut));
        }
    }

    fn decide(&mut self, now: Nanos, server: ServerId, decision: &Decision) {
        if let Some(shared) = self.lanes[server.index()].shared() {
            shared.decide(now, decision);
            self.make_ready(server);
        }
    }

    /// Notes that a lane is worth polling, and those that are ordered together with it.
    fn make_ready(&mut self, server: ServerId) {
        let is_together = self.lanes[server.index()].is_together();
        for (other, lane) in (0..).map(ServerId).zip(&mut self.lanes) {
            let is_concerned = other == server || is_together && lane.is_together();
            if is_concerned && lane.make_ready() {
                self.ready.push_back(other);
            }
        }
    }

    /// Makes the lanes ready whose schedulers asked to be polled by now.
    fn wake_lanes(&mut self, now: Nanos) {
        for (server, lane) in (0..).map(ServerId).zip(&mut self.lanes) {
            if lane.take_due_wake(now) && lane.make_ready() {
                self.ready.push_back(server);
            }
        }
    }

    /// The work that is done from time to time, with whatever input comes then.
    fn tick(&mut self, now: Nanos) {
        self.next_tick = now + TICK;
        let accounts = &mut self.accounts;
        for lane in &mut self.lanes {
            let told = |tenant: TenantId, wait: Wait, given: Span| {
                accounts[tenant.index()].told(wait, given);
            };
            lane.attribute(now, told, &mut self.pairs);
        }
        if self.shares.is_due(now) {
            self.shares.close(now, &self.accounts);
        }
        self.note_totals(now);
        self.look_at_slots(now);
    }

    /// Puts a policy in force.
    fn apply(&mut self, now: Nanos, domain: &Domain) {
        assert!(domain.tenants.len() >= self.accounts.len(), "tenants keep their rows");
        assert!(domain.servers.len() >= self.lanes.len(), "servers keep their rows");
        let is_wider = domain.servers.len() > self.lanes.len();
        for (index, (name, share)) in domain.tenants.iter().enumerate() {
            match self.accounts.get_mut(index) {
                Some(account) => account.share = *share,
                None => self.accounts.push(Account::new(name.clone(), *share)),
            }
        }
        let Self { lanes, units, requests, .. } = self;
        let disk_of =
            |ticket: &Ticket| requests.entry(units.entry(ticket.slot).request).request.disk;
        lane::configure(lanes, now, domain, disk_of);
        self.coordinate(domain, is_wider);
        self.domain.clone_from(domain);
        if let Some(volume) = &mut self.volume {
            let lanes = &self.lanes;
            let scheduling = |server: ServerId| lanes[server.index()].scheduling();
            volume.configure(domain, self.accounts.len(), scheduling);
        }
        self.ready.clear();
        for (server, lane) in (0..).map(ServerId).zip(&mut self.lanes) {
            let _ = lane.make_ready();
            self.ready.push_back(server);
        }
    }

    fn coordinate(&mut self, domain: &Domain, is_wider: bool) {
        let form = match domain.sharing {
            Sharing::Local => None,
            Sharing::Total => Some(Form::Total),
            Sharing::Hybrid { min_share_milli } => Some(Form::Hybrid { min_share_milli }),
        };
        // In observe mode nobody reads the stamps; they are kept up for the change to another mode.
        let Some(form) = form.filter(|_| domain.counts_together()) else {
            self.coordinator = None;
            return;
        };
        if is_wider || self.coordinator.is_none() {
            self.coordinator = Some(Coordinator::new(domain.servers.len(), form));
        }
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.set_form(form);
            for tenant in 0..domain.tenants.len() {
                coordinator.configure(TenantId(u32::try_from(tenant).expect("tenants are u32")));
            }
        }
    }
}
