//! The gate: one engine for each scheduling domain, served by one core.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::{Engine, Input, Output, Request as EngineRequest, Target, Unit, policy};

use super::World;
use super::tables::{Call, Home, Origin, Place};
use super::volume::Tiers;
use crate::checkers::{Dispatch, Rule, Verdict, broken};
use crate::events::{Bound, Event};
use crate::link::Way;
use crate::result::Mark;

/// The whole gate.
pub(super) struct Gate {
    pub(super) domains: Vec<Domain>,
    /// Time that the core takes for each request.
    pub(super) request_time: Span,
    /// Starts so far. Whatever belongs to an earlier one is gone.
    pub(super) epoch: u32,
    /// Faults that keep it down.
    pub(super) downs: u32,
    /// Domains whose engines are to be polled at this instant, last first.
    stirred: Vec<u32>,
}

/// One scheduling domain.
pub(super) struct Domain {
    pub(super) engine: Engine,
    pub(super) policy: policy::Domain,
    /// Indexes of its servers, by [`evenkeel_core::id::ServerId`].
    pub(super) servers: Vec<u32>,
    /// The volume whose tiers the servers are, if they are.
    pub(super) tiers: Option<Tiers>,
    /// When its engine asked to be polled.
    wake_at: Option<Nanos>,
    is_stirred: bool,
    /// When the core is done with what it has taken in.
    busy_until: Nanos,
}

impl Gate {
    /// A gate that has seen nothing.
    pub(super) fn new(domains: Vec<Domain>, request_time: Span) -> Self {
        Self { domains, request_time, epoch: 0, downs: 0, stirred: Vec::new() }
    }

    /// Whether it is there.
    pub(super) fn is_up(&self) -> bool {
        self.downs == 0
    }

    /// An engine's wake-up is due, if it still wants it.
    pub(super) fn wake(&mut self, domain: u32, now: Nanos) {
        let one = &mut self.domains[domain as usize];
        if one.wake_at.take_if(|at| *at <= now).is_some() {
            self.stir(domain);
        }
    }

    /// An engine has had an input.
    pub(super) fn stir(&mut self, domain: u32) {
        let one = &mut self.domains[domain as usize];
        if !one.is_stirred {
            one.is_stirred = true;
            self.stirred.push(domain);
        }
    }

    /// The next engine to poll.
    pub(super) fn take_stirred(&mut self) -> Option<u32> {
        let domain = self.stirred.pop()?;
        self.domains[domain as usize].is_stirred = false;
        Some(domain)
    }
}

impl Domain {
    /// A domain that has seen nothing.
    pub(super) fn new(policy: policy::Domain, servers: Vec<u32>) -> Self {
        Self {
            engine: Engine::new(Nanos::ZERO, &policy),
            policy,
            servers,
            tiers: None,
            wake_at: None,
            is_stirred: false,
            busy_until: Nanos::ZERO,
        }
    }

    fn restart(&mut self, now: Nanos) -> Verdict {
        self.engine = Engine::new(now, &self.policy);
        self.busy_until = now;
        let Some(tiers) = &mut self.tiers else { return Ok(()) };
        let opened = tiers.open();
        let volume = opened.map_err(|refusal| {
            broken(now, Rule::BytesAreConserved, format!("a volume was lost: {refusal}"))
        })?;
        self.engine.handle(now, Input::Volume(volume));
        self.engine.handle(now, Input::Held { until: Nanos(u64::MAX) });
        Ok(())
    }
}

impl World<'_> {
    /// A request arrives at the gate's socket.
    pub(super) fn reach(&mut self, bound: Bound) -> Verdict {
        if bound.epoch != self.gate.epoch {
            return Ok(());
        }
        self.requests[bound.slot].reached_at = self.now;
        if self.gate.request_time == Span::ZERO {
            return self.admit(bound);
        }
        let domain = self.requests[bound.slot].domain;
        let domain = &mut self.gate.domains[domain as usize];
        domain.busy_until = domain.busy_until.max(self.now) + self.gate.request_time;
        self.events.push(domain.busy_until, Event::Admit(bound));
        Ok(())
    }

    /// The gate's core has read a request: the engine hears of it.
    pub(super) fn admit(&mut self, Bound { slot, epoch }: Bound) -> Verdict {
        if epoch != self.gate.epoch {
            return Ok(());
        }
        let request = &mut self.requests[slot];
        request.custody.reach(self.now)?;
        self.hash.note(self.now, Mark::Reach, slot, request.offset ^ request.length);
        let target = match request.home {
            Home::Volume => {
                let tiers = self.gate.domains[request.domain as usize].tiers.as_ref();
                request.answered_writes = tiers.map_or(0, |tiers| tiers.contents.answered());
                Target::Volume
            }
            Home::Server(index) => {
                let server = &mut self.servers[index as usize];
                let engine = &self.gate.domains[request.domain as usize].engine;
                let unit_bytes = engine.unit_bytes(server.id);
                request.is_backlog = is_backlog(request.kind, request.length, unit_bytes);
                if let Some(fairness) = server.fairness.as_mut().filter(|_| request.is_backlog) {
                    fairness.arrived(request.tenant);
                }
                request.waits_since = self.now;
                if let Some(patience) = server.patience.as_mut().filter(|_| request.is_backlog) {
                    patience.arrived(self.now, request.tenant, slot);
                }
                Target::Server(server.id)
            }
        };
        let arrival = EngineRequest {
            slot,
            tenant: request.tenant,
            target,
            kind: request.kind,
            offset: request.offset,
            length: request.length,
            disk: 0,
            keeps_room: false,
        };
        let domain = request.domain;
        if matches!(request.origin, Origin::Flight(_)) {
            request.is_waiting = true;
            self.book.waits(self.now, request.tenant);
        }
        self.gate.domains[domain as usize].engine.handle(self.now, Input::Arrive(arrival));
        self.gate.stir(domain);
        Ok(())
    }

    /// Lets an engine decide until there is nothing left to do.
    pub(super) fn pump(&mut self, domain: u32) -> Verdict {
        loop {
            let now = self.now;
            match self.gate.domains[domain as usize].engine.poll(now) {
                Output::Submit(unit) => self.dispatch(domain, &unit)?,
                // Models hold no bytes: a finish tells all that they need.
                Output::Zeroes { .. } | Output::Refuse { .. } => {}
                Output::Move(step) => self.begin_step(domain, &step)?,
                Output::Finish { slot, ok } => self.finish(slot, ok)?,
                Output::Idle => {
                    self.gate.domains[domain as usize].wake_at = None;
                    return Ok(());
                }
                Output::WaitUntil(at) => {
                    let wake_at = &mut self.gate.domains[domain as usize].wake_at;
                    if at <= now {
                        let what = format!("an engine asked to be woken at {} ns", at.0);
                        return Err(broken(now, Rule::TimeIsMonotone, what));
                    }
                    if wake_at.replace(at) != Some(at) {
                        self.events.push(at, Event::Engine(domain));
                    }
                    return Ok(());
                }
            }
        }
    }

    /// The engine hands a unit to the backend.
    fn dispatch(&mut self, domain: u32, unit: &Unit) -> Verdict {
        let now = self.now;
        let request = &mut self.requests[unit.slot];
        let is_first = !request.custody.has_begun();
        request.custody.submit(now, unit.length)?;
        let index = self.gate.domains[domain as usize].servers[unit.server.index()];
        let server = &mut self.servers[index as usize];
        if !request.has_part(index, unit, server.size_bytes()) {
            let what = format!("{unit:?} is no part of {request:?}");
            return Err(broken(now, Rule::BytesAreConserved, what));
        }
        let cost = server.cost(unit);
        let engine = &self.gate.domains[domain as usize].engine;
        server.enter(now, unit.length, engine.second_depth(unit.server))?;
        if let Some(limits) = &mut server.limits {
            limits.dispatched(now, request.tenant, unit.length)?;
        }
        if let Some(fairness) = &mut server.fairness {
            fairness.hold(|tenant| engine.holds_to_slots(unit.server, tenant));
            let is_last = request.is_backlog && request.custody.is_submitted();
            let is_turn = engine.turn(unit.server) == Some(request.tenant);
            fairness.dispatched(request.tenant, cost, is_last, is_turn);
        }
        let since = std::mem::replace(&mut request.waits_since, now);
        if let Some(patience) = server.patience.as_mut().filter(|_| request.is_backlog) {
            patience.hold(|tenant| engine.holds_to_slots(unit.server, tenant));
            let is_turn = engine.turn(unit.server) == Some(request.tenant);
            let is_last = request.custody.is_submitted();
            let (tenant, slot) = (request.tenant, unit.slot);
            patience.dispatched(now, &Dispatch { tenant, slot, since, cost, is_last, is_turn })?;
        }
        if request.is_waiting && request.custody.is_submitted() {
            request.is_waiting = false;
            self.book.waits_no_more(now, request.tenant);
        }
        if is_first && request.is_measured {
            let waited = now.since(request.reached_at);
            self.tenants[request.tenant.index()].queue_time.record(waited);
        }
        let tiers = &mut self.gate.domains[domain as usize].tiers;
        let write = match tiers {
            Some(tiers) => tiers.unit_begins(now, request, index, unit)?,
            None => 0,
        };
        let call = Call {
            place: Place::OnTheWayThere,
            server: index,
            unit: unit.unit,
            slot: unit.slot,
            epoch: self.gate.epoch,
            tenant: request.tenant,
            kind: unit.kind,
            offset: unit.offset,
            at: unit.at,
            length: unit.length,
            write,
            cost,
            dispatched_at: now,
            ok: true,
        };
        let handle = self.calls.insert(call);
        self.hash.note(now, Mark::Submit, unit.slot, unit.offset ^ unit.length);
        self.send_call(handle);
        Ok(())
    }

    /// The device's answer for a unit reaches the gate.
    pub(super) fn answer(&mut self, handle: u32) -> Verdict {
        let call = self.calls[handle];
        self.calls[handle].place = Place::Nowhere;
        self.calls.release(handle);
        if call.epoch != self.gate.epoch {
            // It answers a gate that is no more.
            return Ok(());
        }
        let now = self.now;
        let mark = if call.ok { Mark::Answer } else { Mark::Failure };
        self.hash.note(now, mark, call.slot, call.length);
        let request = &mut self.requests[call.slot];
        let had_failed = request.custody.has_failed();
        request.custody.answer(now, call.length, call.ok)?;
        if let Some(tiers) = &mut self.gate.domains[request.domain as usize].tiers {
            tiers.unit_ends(request, &call);
        }
        let server = &mut self.servers[call.server as usize];
        if !call.ok && !had_failed && request.is_backlog && !request.custody.is_submitted() {
            // The engine takes back what is left of it.
            if let Some(fairness) = &mut server.fairness {
                fairness.left(call.tenant);
            }
            if let Some(patience) = &mut server.patience {
                patience.left(call.tenant, call.slot, request.waits_since);
            }
        }
        let is_measuring = self.book.is_measuring();
        server.leave(now, &call, is_measuring);
        let times = &mut self.tenants[call.tenant.index()];
        if request.is_measured {
            times.device_time.record(now.since(call.dispatched_at));
        }
        if is_measuring {
            times.delivered_cost += call.cost.0;
        }
        let domain = server.domain;
        let done = Input::Done { unit: call.unit, ok: call.ok };
        self.gate.domains[domain as usize].engine.handle(now, done);
        self.gate.stir(domain);
        Ok(())
    }

    /// The gate is done with a request and answers the client.
    fn finish(&mut self, slot: u32, ok: bool) -> Verdict {
        let now = self.now;
        let request = &mut self.requests[slot];
        let tiers = &self.gate.domains[request.domain as usize].tiers;
        let may_refuse = request.home == Home::Volume && tiers.as_ref().is_some_and(Tiers::is_hurt);
        request.custody.finish(now, ok, may_refuse)?;
        request.ok = ok;
        if std::mem::take(&mut request.is_waiting) {
            self.book.waits_no_more(now, request.tenant);
        }
        self.hash.note(now, Mark::Finish, slot, u64::from(ok));
        let payload = if request.kind == Kind::Read && ok { request.length } else { 0 };
        let origin = request.origin;
        if origin == Origin::Move {
            return self.end_step(slot);
        }
        match self.link_of(origin).filter(|link| !link.is_instant()) {
            None => self.replies.push_back(slot),
            Some(link) => {
                let at = link.carry(now, Way::Back, REPLY_BYTES + payload);
                self.events.push(at, Event::Reply(slot));
            }
        }
        Ok(())
    }

    /// The gate dies with all that it knows.
    pub(super) fn gate_down(&mut self) {
        self.gate.downs += 1;
        self.gate.epoch += 1;
        self.hash.note(self.now, Mark::GateDown, self.gate.epoch, 0);
        for domain in &mut self.gate.domains {
            domain.wake_at = None;
        }
        for server in &mut self.servers {
            server.forget(self.now);
        }
        self.forget_steps();
        let slots = u32::try_from(self.requests.entries().len()).expect("slots are small");
        for slot in 0..slots {
            let request = &mut self.requests[slot];
            if std::mem::take(&mut request.is_waiting) {
                self.book.waits_no_more(self.now, request.tenant);
            }
        }
    }

    /// The gate is back, knowing nothing; clients send again what it has not answered.
    pub(super) fn gate_up(&mut self) -> Verdict {
        self.gate.downs -= 1;
        if !self.gate.is_up() {
            return Ok(());
        }
        self.hash.note(self.now, Mark::GateUp, self.gate.epoch, 0);
        for domain in &mut self.gate.domains {
            domain.restart(self.now)?;
            for &server in &domain.servers {
                self.servers[server as usize].watch(self.now, &domain.policy);
            }
        }
        let unanswered = |(request, _): &(&super::Request, u32)| request.custody.is_unanswered();
        let all = self.requests.entries().iter().zip(0..).filter(unanswered);
        let mut slots: Vec<(u64, u32)> = all.map(|(one, slot)| (one.sequence, slot)).collect();
        slots.sort_unstable();
        for (_, slot) in slots {
            self.requests[slot].custody.send_again();
            self.send(slot)?;
        }
        Ok(())
    }
}

/// Bytes of a reply beside its payload, as NBD frames it.
const REPLY_BYTES: u64 = 16;

/// Whether a request stands in its tenant's queue until its last unit is dispatched. The engine
/// cuts no further unit of a long trim while many are in service, so that one may not.
fn is_backlog(kind: Kind, length: u64, unit_bytes: u64) -> bool {
    matches!(kind, Kind::Read | Kind::Write | Kind::Flush) || length <= unit_bytes
}
