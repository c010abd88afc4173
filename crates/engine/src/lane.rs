//! One server of the domain: its schedulers, what is with its backend, and its book of waits.
//!
//! A lane has one scheduler in force. In observe and shadow mode that is the one that delays
//! nothing; in shadow mode the policy's own scheduler runs beside it ([`Shadow`]).
//!
//! # Changes while running
//!
//! Weights, floors and limits are configured in place. Another mode, discipline, depth or hold puts
//! a new scheduler in force: what the old one queued is enqueued into the new one, in order. Units
//! that are with the backend belong to the old generation, and the new scheduler never hears of
//! them; the lane sends nothing on top of them where they fill its depth ([`earlier`]).
//!
//! Servers that are ordered together get new schedulers together: all are drained first, and what
//! was queued is enqueued server by server when all have been replaced.

mod earlier;
mod slots;

use evenkeel_core::control::name::TenantNumber;
use evenkeel_core::control::shared::SharedQueue;
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::tiered::TieredLane;
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::ticket::{Cost, Kind, Ticket};
use evenkeel_core::time::{Nanos, Span};

use crate::anteroom::{Anteroom, Room};
use crate::attribution::{Ledger, PairTable, Wait};
use crate::cost::CostModel;
use crate::cost::learned::{Crowd, Learned, Load};
use crate::cost::measured::Measured;
use crate::discipline::{Maker, Order, open_gate, orders, shared_scheduler};
use crate::policy::{Depth, Domain, Mode, Scheduling};
use crate::report::{AllocationReport, ServerReport};
use crate::shadow::{Held, Shadow};
use crate::slots::Slots;
use crate::stopwatch::Stopwatch;
use crate::units::UnitEntry;
use earlier::Earlier;

/// The way to one server.
pub(crate) struct Lane {
    name: String,
    mode: Mode,
    /// What its schedulers were made for.
    order: Option<Order>,
    scheduling: Scheduling,
    scheduler: Box<dyn Scheduler>,
    /// What requests take of the device, wherever the gate fills it. It outlives schedulers.
    learned: Option<Box<Learned>>,
    /// Whether that is what they cost; else it is only reported.
    is_cost_learned: bool,
    /// Whether requests are weighed by that, whatever they cost, and how often weights got another
    /// unit.
    weighs_as: (bool, u32),
    /// How much was with the backend lately.
    crowd: Crowd,
    /// Whose the slots of the depth are, where there is one. It outlives schedulers.
    slots: Option<Slots>,
    /// Where writes wait for room, if this is a server where they may be kept back.
    anteroom: Option<Anteroom>,
    /// What is known of the room, which outlives schedulers.
    room: Option<Room>,
    /// What orders the requests of several servers, this one among them.
    dispatcher: Option<TieredLane>,
    /// The scheduler, where other gates share the server: what is told to them, and they decide.
    shared: Option<SharedQueue>,
    /// Counts the schedulers that were in force; units remember which one dispatched them.
    generation: u32,
    /// What those before it have sent, and the backend still has.
    earlier: Earlier,
    shadow: Option<Shadow>,
    /// An input came since the scheduler last had nothing to dispatch.
    is_ready: bool,
    /// When a scheduler wants to be polled although no input comes.
    wake_at: Option<Nanos>,
    in_service: Stopwatch,
    in_service_bytes: u64,
    delivered_cost: Cost,
    /// Units that the backend has answered, and time of the device that was given out.
    served_units: u64,
    service_time: Span,
    ledger: Ledger,
    /// What schedulers and shadows that are no longer in force had counted, by tenant.
    past: Vec<Past>,
}

/// Why a ticket leaves the depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The backend has done what it asks.
    Served,
    /// It has failed, or is out for too long: nothing is learned from it.
    Unserved,
}

#[derive(Clone, Copy, Debug, Default)]
struct Past {
    throttled: Span,
    held: Held,
}

/// Puts a policy in force at all servers of a domain. Adds lanes for new ones.
/// `disk_of` says which disk of its server a queued ticket is for.
pub(crate) fn configure(
    lanes: &mut Vec<Lane>,
    now: Nanos,
    domain: &Domain,
    disk_of: impl Fn(&Ticket) -> u64,
) {
    for (name, scheduling) in &domain.servers[lanes.len()..] {
        lanes.push(Lane::new(name.clone(), scheduling.clone()));
    }
    let orders = orders(domain);
    let is_new = |(lane, order): (&Lane, &Order)| lane.is_new_order(domain.mode, order);
    let new: Vec<bool> = lanes.iter().zip(&orders).map(is_new).collect();
    let mut maker = Maker::default();
    let mut queued = Vec::new();
    // For all lanes before any is drained: draining one changes what limits hold at the others that
    // are ordered with it.
    for (lane, _) in lanes.iter_mut().zip(&new).filter(|(_, new)| **new) {
        lane.keep_throttled(now);
    }
    for (lane, _) in lanes.iter_mut().zip(&new).filter(|(_, new)| **new) {
        queued.push(lane.retire(now));
    }
    for (index, (lane, order)) in lanes.iter_mut().zip(orders).enumerate() {
        let (_, scheduling) = &domain.servers[index];
        assert!(scheduling.unit_bytes > 0, "units have a size");
        lane.learn_costs(now, domain, scheduling, &order);
        lane.scheduling = scheduling.clone();
        if new[index] {
            lane.replace_schedulers(now, domain, order, &mut maker);
        }
        lane.configure_tenants(now, domain.tenants.iter().map(|(_, share)| *share));
        if let Some(shared) = &lane.shared {
            for (tenant, (name, _)) in (0..).map(TenantId).zip(&domain.tenants) {
                shared.set_number(tenant, TenantNumber::named(name));
            }
        }
    }
    let replaced = lanes.iter_mut().zip(new).filter(|(_, new)| *new);
    for ((lane, _), queued) in replaced.zip(queued) {
        lane.take_over(now, queued, &disk_of);
    }
}

impl Lane {
    /// A server that has done nothing yet, knows no tenant and delays nothing.
    fn new(name: String, scheduling: Scheduling) -> Self {
        Self {
            name,
            mode: Mode::Observe,
            order: None,
            scheduling,
            scheduler: open_gate(),
            learned: None,
            is_cost_learned: false,
            weighs_as: (false, 0),
            crowd: Crowd::default(),
            slots: None,
            anteroom: None,
            room: None,
            dispatcher: None,
            shared: None,
            generation: 0,
            earlier: Earlier::default(),
            shadow: None,
            is_ready: false,
            wake_at: None,
            in_service: Stopwatch::default(),
            in_service_bytes: 0,
            delivered_cost: Cost::default(),
            served_units: 0,
            service_time: Span::ZERO,
            ledger: Ledger::default(),
            past: Vec::new(),
        }
    }

    /// How the policy says that requests are queued and cut here.
    pub(crate) fn scheduling(&self) -> &Scheduling {
        &self.scheduling
    }

    /// The largest unit that requests are cut into here, in bytes.
    pub(crate) fn unit_bytes(&self) -> u64 {
        let most = self.scheduling.unit_bytes;
        let is_found = self.mode == Mode::Enforce && self.scheduling.is_unit_found;
        let found = self.learned_in_force().filter(|_| is_found);
        found.map_or(most, |learned| learned.unit_bytes().min(most))
    }

    /// What a request of this tenant costs here.
    pub(crate) fn cost(&self, tenant: TenantId, kind: Kind, size_bytes: u64) -> Cost {
        match self.learned_in_force() {
            Some(learned) => learned.cost(tenant, kind, size_bytes),
            None => self.scheduling.cost.cost(kind, size_bytes),
        }
    }

    /// What a request takes of the device beside others, as far as it is known: whatever the policy
    /// says that it costs.
    fn weight(&mut self, ticket: &Ticket) -> Cost {
        let learned = self.learned.as_deref();
        let known = learned.filter(|one| self.is_cost_learned || one.is_known());
        let weighs_as = (known.is_some(), learned.map_or(0, Learned::jumps));
        if std::mem::replace(&mut self.weighs_as, weighs_as) != weighs_as {
            self.ledger.reweigh();
        }
        known.map_or(ticket.cost, |one| one.weight(ticket.tenant, ticket.kind, ticket.size_bytes))
    }

    /// What was learned, if that is what requests cost; else it is only reported.
    fn learned_in_force(&self) -> Option<&Learned> {
        self.learned.as_deref().filter(|_| self.is_cost_learned)
    }

    /// The generation of the scheduler in force.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Queues a ticket for this disk of the server.
    pub(crate) fn enqueue(&mut self, now: Nanos, ticket: Ticket, disk: u64) {
        let weight = self.weight(&ticket);
        self.ledger.queued(now, &ticket, weight);
        self.schedule(now, ticket, disk);
    }

    fn schedule(&mut self, now: Nanos, ticket: Ticket, disk: u64) {
        if let Some(shadow) = &mut self.shadow {
            shadow.enqueue(now, ticket);
        }
        if self.slots.as_mut().is_some_and(|slots| slots.parks(now, ticket, disk)) {
            self.ledger.parked(now, ticket.tenant);
        } else {
            self.scheduler.enqueue(now, ticket);
        }
    }

    /// Takes a queued ticket back.
    pub(crate) fn withdraw(&mut self, now: Nanos, ticket: Ticket) {
        if let Some(shadow) = &mut self.shadow {
            shadow.withdraw(now, ticket.slot);
        }
        if self.slots.as_mut().is_some_and(|slots| slots.withdraw(&ticket)) {
            self.ledger.unparked(now, ticket.tenant);
        } else {
            self.unqueue(now, ticket);
            self.release_parked(now);
        }
        self.ledger.withdrawn(now, &ticket);
    }

    /// Takes a ticket out of the scheduler.
    fn unqueue(&mut self, now: Nanos, ticket: Ticket) {
        let anteroom = self.anteroom.as_mut();
        let was_queued = anteroom.is_some_and(|anteroom| anteroom.withdraw(now, ticket))
            || self.scheduler.withdraw(now, ticket);
        assert!(was_queued, "a queued unit is in its server's scheduler");
    }

    /// The next ticket for the backend. None ends the lane's readiness; its wake-up is then set.
    pub(crate) fn poll(&mut self, now: Nanos) -> Option<Ticket> {
        let waits = self.slots.as_mut().and_then(|slots| slots.waits_for_returning(now));
        let waits = waits.or_else(|| self.waits_for_earlier(now));
        let live = match waits.map_or_else(|| self.next(now), Next::WaitUntil) {
            Next::Dispatch(ticket) => {
                if !self.ledger.is_weighed(&ticket) {
                    let weight = self.weight(&ticket);
                    self.ledger.weigh(&ticket, weight);
                }
                self.ledger.dispatched(now, &ticket);
                self.in_service.enter(now);
                self.in_service_bytes += ticket.size_bytes;
                let slots = self.slots.as_mut();
                if slots.is_some_and(|slots| !slots.dispatched(&ticket)) {
                    self.leave_depth(now, ticket, Left::Unserved);
                }
                return Some(ticket);
            }
            Next::WaitUntil(at) => Some(at),
            Next::Idle => None,
        };
        self.watch_depth(now);
        let shadow = self.shadow.as_mut().and_then(|shadow| shadow.run(now));
        self.wake_at = live.into_iter().chain(shadow).min();
        self.is_ready = false;
        None
    }

    /// Until when what earlier schedulers sent fills the depth, at most.
    fn waits_for_earlier(&self, now: Nanos) -> Option<Nanos> {
        let until = self.earlier.wait(now)?;
        let depth = self.scheduler.depth_now();
        let has_depth = self.mode == Mode::Enforce && depth > 0;
        (has_depth && self.in_service_charge() >= depth).then_some(until)
    }

    /// What is with the backend, as the depth counts.
    fn in_service_charge(&self) -> u64 {
        match self.scheduling.depth {
            Depth::Bytes(_) => self.in_service_bytes,
            _ => u64::from(self.in_service.present()),
        }
    }

    /// What the scheduler says, but for writes that are to wait for room.
    fn next(&mut self, now: Nanos) -> Next {
        loop {
            if let Some(anteroom) = &mut self.anteroom {
                while let Some(ticket) = anteroom.release() {
                    self.scheduler.leave(now, ticket);
                    if let Some(learned) = &mut self.learned {
                        learned.left(now, &ticket);
                    }
                }
                if let Some(ticket) = anteroom.poll(now) {
                    return Next::Dispatch(ticket);
                }
            }
            let next = self.scheduler.poll(now);
            let Next::Dispatch(ticket) = next else { return next };
            let anteroom = self.anteroom.as_mut();
            if !anteroom.is_some_and(|anteroom| anteroom.takes_in(now, ticket)) {
                if let Some(learned) = &mut self.learned {
                    learned.started(now, &ticket);
                }
                return next;
            }
            self.scheduler.leave(now, ticket);
        }
    }

    /// What holds of the room at the backend from now on.
    pub(crate) fn set_room(&mut self, room: Room) {
        self.room = Some(room);
        if let Some(anteroom) = &mut self.anteroom {
            anteroom.set_room(room);
        }
    }

    /// The backend answered, well or not.
    pub(crate) fn served(&mut self, now: Nanos, unit: &UnitEntry, ok: bool) {
        let ticket = &unit.ticket;
        let latency = now.since(unit.dispatched_at);
        if self.slots.as_ref().is_some_and(|slots| slots.is_hanging(ticket)) {
            self.ledger.served_late(now, ticket, latency);
        } else {
            self.ledger.served(now, ticket, latency);
        }
        self.in_service.leave(now);
        self.in_service_bytes -= ticket.size_bytes;
        if unit.generation != self.generation {
            self.earlier.back(now);
        }
        self.delivered_cost.0 += ticket.cost.0;
        self.served_units += 1;
        if let Some(shadow) = &mut self.shadow {
            shadow.serve(now, ticket.slot);
        }
        let slots = self.slots.as_mut();
        let is_in_depth = slots.is_none_or(|slots| slots.served(now, ticket, latency));
        if is_in_depth && unit.generation == self.generation {
            self.leave_depth(now, *ticket, if ok { Left::Served } else { Left::Unserved });
        }
        self.release_parked(now);
    }

    /// A ticket gives its place in the depth back.
    fn leave_depth(&mut self, now: Nanos, ticket: Ticket, how: Left) {
        let anteroom = self.anteroom.as_mut();
        if anteroom.is_some_and(|anteroom| anteroom.answered(now, ticket)) {
            return;
        }
        match how {
            Left::Served => self.scheduler.complete(now, ticket),
            Left::Unserved => self.scheduler.leave(now, ticket),
        }
        let Some(learned) = &mut self.learned else { return };
        match how {
            Left::Served => learned.finished(now, &ticket, self.scheduler.depth_found().is_some()),
            Left::Unserved => learned.left(now, &ticket),
        }
        if self.is_cost_learned {
            self.scheduler.set_turn(learned.turn());
        }
    }

    /// Who has the server to itself for a moment.
    pub(crate) fn turn(&self) -> Option<TenantId> {
        let learned = self.learned.as_ref().filter(|_| self.is_cost_learned)?;
        learned.turn().map(|turn| turn.tenant)
    }

    /// Whether the device is full matters to what is learned.
    fn watch_depth(&mut self, now: Nanos) {
        let Some(mut learned) = self.learned.take() else { return };
        let load = self.load(now);
        learned.set_load(now, load, self.scheduler.depth_found().is_some());
        self.learned = Some(learned);
    }

    fn load(&mut self, now: Nanos) -> Load {
        let (has_queue, present) = (self.waiting() > 0, self.in_service.present());
        match self.mode {
            Mode::Enforce => self.crowd.behind(now, &*self.scheduler, present, has_queue),
            Mode::Observe | Mode::Shadow => self.crowd.unordered(now, present),
        }
    }

    /// Requests that wait at the gate.
    fn waiting(&self) -> usize {
        let elsewhere = self.anteroom.as_ref().map_or(0, Anteroom::queued)
            + self.slots.as_ref().map_or(0, Slots::parked);
        self.scheduler.queued() + elsewhere
    }

    /// Begins to learn what requests take, or ends it. It is what they cost if the policy leaves
    /// that to the gate, and they do not count together with those of other servers, each of which
    /// would have a unit of its own. Elsewhere it is learned for people, whatever figures are
    /// written. What clients keep with the device in observe mode is another depth than that in
    /// force, so that it begins anew with either.
    fn learn_costs(&mut self, now: Nanos, domain: &Domain, new: &Scheduling, order: &Order) {
        let is_alone = matches!(order, Order::Alone { .. }) && !domain.counts_together();
        let is_cost_learned = new.is_cost_learned && is_alone;
        let is_measured = !order.is_shared() && !new.answers_at_once;
        let was_cost_learned = std::mem::replace(&mut self.is_cost_learned, is_cost_learned);
        let begins_otherwise = was_cost_learned != is_cost_learned
            || (self.mode == Mode::Enforce) != (domain.mode == Mode::Enforce)
            || is_cost_learned && self.scheduling.cost != new.cost;
        if was_cost_learned && !is_cost_learned {
            // A turn that was under way is nobody's to end.
            self.scheduler.set_turn(None);
        }
        if !is_cost_learned && !is_measured {
            self.learned = None;
        } else if self.learned.is_none() || begins_otherwise {
            let start = if is_cost_learned { new.cost } else { CostModel::default() };
            self.learned = Some(Box::new(Learned::new(now, &start)));
        }
    }

    /// Whether what happens here may let requests to other servers go.
    pub(crate) fn is_together(&self) -> bool {
        matches!(self.order, Some(Order::Tier { .. }))
    }

    /// The scheduler, where other gates share the server.
    pub(crate) fn shared(&self) -> Option<&SharedQueue> {
        self.shared.as_ref()
    }

    /// Marks the lane as worth polling; true if it was not yet.
    pub(crate) fn make_ready(&mut self) -> bool {
        !std::mem::replace(&mut self.is_ready, true)
    }

    /// When the lane wants to be polled although no input comes.
    pub(crate) fn wake_at(&self) -> Option<Nanos> {
        self.wake_at
    }

    /// Takes the wake-up that is due, if it is.
    pub(crate) fn take_due_wake(&mut self, now: Nanos) -> bool {
        self.wake_at.take_if(|at| *at <= now).is_some()
    }

    /// Divides what was waited here since the last time.
    pub(crate) fn attribute(
        &mut self,
        now: Nanos,
        mut told: impl FnMut(TenantId, Wait, Span),
        pairs: &mut PairTable,
    ) {
        let service_time = &mut self.service_time;
        let told = |tenant: TenantId, wait: Wait, given: Span| {
            *service_time += given;
            told(tenant, wait, given);
        };
        let (scheduler, past) = (&self.scheduler, &self.past);
        let throttled =
            |tenant: TenantId| past[tenant.index()].throttled + scheduler.throttled(now, tenant);
        self.ledger.tick(now, throttled, told, pairs);
    }

    /// Request-time that the tenant's own limit held here.
    pub(crate) fn throttled(&self, now: Nanos, tenant: TenantId) -> Span {
        self.past[tenant.index()].throttled + self.scheduler.throttled(now, tenant)
    }

    /// Request-time that the tenant waited here for exports of its own that are slow or hang.
    pub(crate) fn waited_for_slots(&self, now: Nanos, tenant: TenantId) -> Span {
        self.ledger.waited_for_slots(now, tenant)
    }

    /// What the shadow would have held of a tenant.
    pub(crate) fn held(&self, tenant: TenantId) -> Held {
        let before = self.past[tenant.index()].held;
        self.shadow.as_ref().map_or(before, |shadow| before.and(shadow.held(tenant)))
    }

    /// Time during which something was with the backend.
    pub(crate) fn busy(&self, now: Nanos) -> Span {
        self.in_service.total(now)
    }

    /// The account for people.
    pub(crate) fn report(&self, now: Nanos) -> ServerReport {
        ServerReport {
            name: self.name.clone(),
            in_service: u64::from(self.in_service.present()),
            queued: self.waiting() as u64,
            depth: self.scheduler.depth_now(),
            depth_found: self.scheduler.depth_found(),
            throughput_forgone: self.scheduler.depth_forgone(),
            unit_bytes: self.unit_bytes(),
            measured: self.measured(),
            is_cost_learned: self.is_cost_learned,
            is_shared: self.shared.is_some(),
            delivered_cost: Span(self.delivered_cost.0),
            served_units: self.served_units,
            service_time: self.service_time,
            busy: self.busy(now),
            hanging: self.slots.as_ref().map_or_else(Vec::new, |slots| slots.hanging(now)),
            slow: self.slots.as_ref().map_or_else(Vec::new, |slots| slots.slow(now)),
        }
    }

    /// What requests take of the device, where the depth is the gate's.
    fn measured(&self) -> Option<Measured> {
        let learned = self.learned.as_ref().filter(|_| self.mode == Mode::Enforce);
        let measured = learned?.measured()?;
        let depth = u32::try_from(self.scheduler.depth_now().max(1)).unwrap_or(u32::MAX);
        Some(Measured { at_once: measured.at_once.min(depth), ..measured })
    }

    /// What the dispatcher over this server and others last gave everybody.
    pub(crate) fn allocation(&self, servers: &[ServerId]) -> Option<AllocationReport> {
        let dispatcher = self.dispatcher.as_ref()?;
        let (last, counters) = (dispatcher.status()?, dispatcher.counters());
        Some(AllocationReport { servers: servers.to_vec(), last, counters })
    }

    fn is_new_order(&self, mode: Mode, order: &Order) -> bool {
        let was_shared = self.order.as_ref().is_some_and(Order::is_shared);
        let matters = mode != Mode::Observe || was_shared || order.is_shared();
        self.mode != mode || matters && self.order.as_ref() != Some(order)
    }

    fn configure_tenants(&mut self, now: Nanos, shares: impl Iterator<Item = Share>) {
        for (tenant, share) in (0..).map(TenantId).zip(shares) {
            self.scheduler.configure(now, tenant, share);
            if let Some(slots) = &mut self.slots {
                slots.configure(tenant, &share);
            }
            if let Some(anteroom) = &mut self.anteroom {
                anteroom.configure(now, tenant, share);
            }
            if let Some(shadow) = &mut self.shadow {
                shadow.configure(now, tenant, share);
            }
            if tenant.index() == self.past.len() {
                self.past.push(Past::default());
            }
        }
    }

    /// Takes over what the scheduler in force counted of limits, as it ends.
    fn keep_throttled(&mut self, now: Nanos) {
        for (tenant, past) in (0..).map(TenantId).zip(&mut self.past) {
            past.throttled += self.scheduler.throttled(now, tenant);
        }
    }

    /// Ends the schedulers in force, and returns what they queued.
    fn retire(&mut self, now: Nanos) -> Vec<Ticket> {
        if let Some(shadow) = self.shadow.take() {
            for (past, held) in self.past.iter_mut().zip(shadow.end(now)) {
                past.held = past.held.and(held);
            }
        }
        let mut queued = self.anteroom.as_mut().map_or_else(Vec::new, Anteroom::drain);
        queued.extend(self.scheduler.drain());
        let parked = self.slots.as_mut().map_or_else(Vec::new, Slots::drain);
        for ticket in &parked {
            self.ledger.unparked(now, ticket.tenant);
        }
        queued.extend(parked);
        queued
    }

    /// Puts new schedulers in force, which know no tenant yet.
    fn replace_schedulers(&mut self, now: Nanos, domain: &Domain, order: Order, maker: &mut Maker) {
        let mode = domain.mode;
        let mut policys_own = || maker.scheduler(&order, &self.scheduling);
        self.shared = None;
        (self.scheduler, self.shadow) = match (mode, &order) {
            (_, Order::Shared { host, discipline, slots }) => {
                let (queue, scheduler) = shared_scheduler(now, mode, *host, *discipline, *slots);
                self.shared = Some(queue);
                (scheduler, None)
            }
            (Mode::Observe, _) => (open_gate(), None),
            (Mode::Shadow, _) => (open_gate(), Some(Shadow::new(policys_own()))),
            (Mode::Enforce, _) => (policys_own(), None),
        };
        self.anteroom = (mode == Mode::Enforce).then(|| self.anteroom_for(&order)).flatten();
        self.slots = self.slots_for(now, domain, &order);
        self.dispatcher = maker.dispatcher(&order);
        self.generation += 1;
        self.earlier = Earlier::begin(now, self.in_service.present());
        if let Some(learned) = &mut self.learned {
            learned.restart(now);
        }
        self.mode = mode;
        self.order = Some(order);
    }

    /// Where writes can wait for room: their places are given back early, which a scheduler must
    /// not take for an answer of the device.
    fn anteroom_for(&self, order: &Order) -> Option<Anteroom> {
        let Order::Alone { depth, hold, .. } = *order else { return None };
        if hold > Span::ZERO || matches!(depth, Depth::Adaptive { .. }) {
            return None;
        }
        let mut anteroom = Anteroom::new(depth, self.scheduling.unit_bytes);
        self.room.into_iter().for_each(|room| anteroom.set_room(room));
        Some(anteroom)
    }

    /// Queues what the schedulers before had queued.
    fn take_over(&mut self, now: Nanos, queued: Vec<Ticket>, disk_of: impl Fn(&Ticket) -> u64) {
        for ticket in queued {
            self.schedule(now, ticket, disk_of(&ticket));
        }
    }
}
