//! The run itself: events in the order of their instants.

use std::collections::BTreeSet;
use std::rc::Rc;

use evenkeel_core::control::member::{Member, Method, Rules};
use evenkeel_core::control::order::OVERDUE;
use evenkeel_core::control::pace;
use evenkeel_core::control::shared::{Discipline, Enforcement, SharedQueue};
use evenkeel_core::control::summary::{HostId, Summary};
use evenkeel_core::control::sums::{SHARDS, Summing};
use evenkeel_core::control::{Decision, Division};
use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::CostModel;

use super::clock::{Clock, LOOK_EVERY, Moment, Word};
use super::summing::Letter;
use super::{Fleet, Record, Second};
use crate::checkers::{Dispatch, Patience};
use crate::control::exchange::Exchange;
use crate::device::{Device, Op, Step};
use crate::events::Events;

const SECOND: Span = Span::from_secs(1);

/// Bytes of the device that clients use.
const REGION_BYTES: u64 = 16 << 30;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The device asked to be polled.
    Device,
    /// A gate's queue did.
    Gate(usize),
    /// A client asks.
    Ask(usize),
    /// A gate looks whether a period has ended, or words are in and it decides.
    Look(usize),
    /// A collector tells what it has added up.
    Sum(usize),
}

struct Request {
    client: usize,
    arrival: Nanos,
    /// When the device got it; none while it waits.
    sent: Option<Nanos>,
    ticket: Ticket,
}

pub(super) struct Gate {
    queue: SharedQueue,
    /// By ticket slot, of which each gate counts its own: the number of the request.
    tags: Vec<u32>,
    free: Vec<u32>,
    pub(super) member: Member,
    pub(super) clock: Clock,
    /// The period under way.
    pub(super) number: u64,
    /// Its own word on the period that has ended.
    own: Option<Summary>,
    /// Its slots in thousandths.
    slots_milli: u64,
    /// When its queue asked to be polled.
    wake: Option<Nanos>,
    /// Whether it leaves somebody to starve; not where weights are what is due at one gate.
    patience: Option<Patience>,
    /// Where gates hear sums of each other's words.
    pub(super) summing: Option<Summing>,
}

pub(super) struct World<'a, D> {
    pub(super) fleet: &'a Fleet,
    device: D,
    pub(super) gates: Vec<Gate>,
    pub(super) exchange: Exchange<Letter>,
    pub(super) events: Events<Event>,
    /// Gates that collect, by shard.
    pub(super) collecting: Vec<BTreeSet<usize>>,
    /// When the device asked to be polled.
    wake: Option<Nanos>,
    requests: Vec<Option<Request>>,
    free: Vec<u32>,
    prng: Prng,
    cost: CostModel,
    record: Record,
}

impl<'a, D: Device> World<'a, D> {
    pub(super) fn new(fleet: &'a Fleet, device: D) -> Self {
        let seconds = usize::try_from(fleet.length.0 / SECOND.0).expect("a finite run");
        let tenants = vec![vec![Second::default(); seconds]; fleet.tenants.len()];
        Self {
            fleet,
            device,
            gates: (0..fleet.gates).map(|gate| Gate::new(fleet, gate)).collect(),
            exchange: Exchange::new(fleet.way, fleet.seed).with_cuts(fleet.cuts.clone()),
            events: Events::default(),
            collecting: vec![BTreeSet::new(); SHARDS as usize],
            wake: None,
            requests: Vec::new(),
            free: Vec::new(),
            prng: Prng::new(fleet.seed),
            cost: CostModel::default(),
            record: Record {
                unanswered: vec![Span::ZERO; tenants.len()],
                below_floor: vec![0; tenants.len()],
                tenants,
                ..Record::default()
            },
        }
    }

    pub(super) fn run(mut self) -> Record {
        let end = Nanos::ZERO + self.fleet.length;
        for (index, client) in self.fleet.clients.iter().enumerate() {
            (0..client.first()).for_each(|_| self.events.push(client.from, Event::Ask(index)));
        }
        (0..self.gates.len()).for_each(|gate| self.events.push(Nanos::ZERO, Event::Look(gate)));
        while let Some((now, event)) = self.events.pop() {
            if now >= end {
                break;
            }
            self.deliver(now);
            match event {
                Event::Device if self.wake == Some(now) => self.advance_device(now),
                Event::Gate(gate) if self.gates[gate].wake == Some(now) => self.fill(now, gate),
                // Something else was asked for since.
                Event::Device | Event::Gate(_) => {}
                Event::Ask(client) => self.ask(now, client),
                Event::Look(gate) => self.look(now, gate),
                Event::Sum(gate) => self.tell_sum(now, gate),
            }
        }
        for Request { client, arrival, .. } in self.requests.iter().flatten() {
            let tenant = self.fleet.clients[*client].tenant as usize;
            let longest = &mut self.record.unanswered[tenant];
            *longest = (*longest).max(end.since(*arrival));
        }
        self.record
    }

    pub(super) fn period_length(&self) -> Span {
        self.gates[0].member.period()
    }

    fn ask(&mut self, now: Nanos, index: usize) {
        let client = &self.fleet.clients[index];
        if now >= client.until {
            return;
        }
        if let Some(pause) = client.pause(&mut self.prng) {
            self.events.push(now + pause, Event::Ask(index));
        }
        let tag = self.free.pop().unwrap_or_else(|| {
            self.requests.push(None);
            u32::try_from(self.requests.len() - 1).expect("fewer requests than tags")
        });
        let gate = client.gate as usize;
        let slot = self.gates[gate].slot(tag);
        let ticket = Ticket {
            tenant: TenantId(client.tenant),
            kind: client.kind,
            slot,
            size_bytes: client.size_bytes,
            cost: self.cost.cost(client.kind, client.size_bytes),
            cost_elsewhere: evenkeel_core::ticket::Cost(0),
        };
        let second = usize::try_from(now.0 / SECOND.0).expect("a finite run");
        self.record.tenants[client.tenant as usize][second].asked_ns += ticket.cost.0;
        self.requests[tag as usize] =
            Some(Request { client: index, arrival: now, sent: None, ticket });
        self.gates[gate].queue.enqueue(now, ticket);
        if let Some(patience) = &mut self.gates[gate].patience {
            patience.arrived(now, ticket.tenant, slot);
        }
        self.fill(now, gate);
    }

    /// Sends what the gate's slots allow.
    fn fill(&mut self, now: Nanos, gate: usize) {
        loop {
            match self.gates[gate].queue.poll(now) {
                Next::Dispatch(ticket) => {
                    self.check(now, gate, &ticket);
                    let Ticket { slot, kind, size_bytes: length, .. } = ticket;
                    let tag = self.gates[gate].tags[slot as usize];
                    let request = self.requests[tag as usize].as_mut();
                    request.expect("it waits").sent = Some(now);
                    let offset = self.prng.below(REGION_BYTES / length) * length;
                    self.device.submit(now, Op { tag, kind, offset, length });
                    self.wake_device(now);
                }
                Next::WaitUntil(at) => {
                    self.gates[gate].wake = Some(at);
                    return self.events.push(at, Event::Gate(gate));
                }
                Next::Idle => return self.gates[gate].wake = None,
            }
        }
    }

    /// Holds a dispatch against what every tenant of the gate is promised.
    fn check(&mut self, now: Nanos, gate: usize, ticket: &Ticket) {
        let Gate { patience: Some(patience), tags, .. } = &mut self.gates[gate] else { return };
        let Ticket { tenant, slot, cost, .. } = *ticket;
        let tag = tags[slot as usize];
        let since = self.requests[tag as usize].as_ref().expect("it waited").arrival;
        let dispatch = Dispatch { tenant, slot, since, cost, is_last: true, is_turn: false };
        if let Err(violation) = patience.dispatched(now, &dispatch) {
            panic!("gate {gate}: {violation}");
        }
    }

    fn wake_device(&mut self, at: Nanos) {
        if self.wake != Some(at) {
            self.wake = Some(at);
            self.events.push(at, Event::Device);
        }
    }

    fn advance_device(&mut self, now: Nanos) {
        loop {
            match self.device.poll(now) {
                Step::Done { tag, .. } => self.finish(now, tag),
                Step::WaitUntil(at) => return self.wake_device(at),
                Step::Idle => return self.wake = None,
            }
        }
    }

    fn finish(&mut self, now: Nanos, tag: u32) {
        let request = self.requests[tag as usize].take().expect("the device has it");
        self.free.push(tag);
        let Request { client: index, arrival, sent, ticket } = request;
        let client = &self.fleet.clients[index];
        let second = usize::try_from(now.0 / SECOND.0).expect("a finite run");
        let book = &mut self.record.tenants[client.tenant as usize][second];
        let response = now.since(arrival);
        book.completions += 1;
        book.cost_ns += ticket.cost.0;
        book.response += response;
        book.device += sent.map_or(Span::ZERO, |at| Span(now.since(at).0));
        book.longest = book.longest.max(response);
        let gate = client.gate as usize;
        self.gates[gate].free.push(ticket.slot);
        self.gates[gate].queue.complete(now, ticket);
        if client.pause(&mut self.prng).is_none() {
            self.ask(now, index);
        }
        self.fill(now, gate);
    }

    /// Words that have come in by now are heard.
    fn deliver(&mut self, now: Nanos) {
        while let Some((to, letter)) = self.exchange.receive(now) {
            self.receive(now, to.0 as usize, &letter);
        }
    }

    /// The time within which words of a period go out.
    pub(super) fn window(&self) -> Span {
        let (length, gates) = (self.period_length(), self.gates.len());
        if self.fleet.hears_sums {
            pace::window_with_sums(length, gates)
        } else {
            pace::window(length, gates - 1)
        }
    }

    /// How much of a period has passed when gates decide upon the one before.
    fn decide_after(&self) -> Span {
        let (length, window) = (self.period_length(), self.window());
        if self.fleet.hears_sums {
            pace::decide_by_sums_after(length, window)
        } else {
            pace::decide_after(length, window)
        }
    }

    /// A gate does what its clock asks for.
    fn look(&mut self, now: Nanos, index: usize) {
        let length = self.period_length();
        let decide_after = self.decide_after();
        let gate = &mut self.gates[index];
        let Moment { number, passed, is_moved } = gate.clock.look(now);
        if is_moved {
            // What is left of a period is none.
            gate.number = number;
        }
        if number != gate.number && now > Nanos::ZERO {
            gate.number = number;
            self.close(now, index);
        } else if passed >= decide_after && gate.own.is_some() {
            self.decide(now, index);
        }
        let gate = &mut self.gates[index];
        gate.number = number;
        let to_end = Span(length.0 - passed.0);
        let to_decide = Span(decide_after.0.saturating_sub(passed.0));
        let next = if gate.own.is_some() { to_decide.min(to_end) } else { to_end };
        let next = if gate.clock.is_tried { next.min(LOOK_EVERY) } else { next };
        self.events.push(now + next, Event::Look(index));
    }

    /// A period ends at a gate, which tells the others what it did.
    fn close(&mut self, now: Nanos, index: usize) {
        let window = self.window();
        let gate = &mut self.gates[index];
        let incarnation = gate.clock.incarnation;
        let summary = Summary { incarnation, ..gate.queue.summarise(now, gate.number) };
        gate.own = Some(summary.clone());
        if gate.summing.is_some() {
            return self.tell_collectors(now, index, summary);
        }
        let mut proof = gate.clock.proof(now);
        let from = summary.host;
        for part in summary.into_parts() {
            let word = Word { summary: Rc::new(part), proof: std::mem::take(&mut proof) };
            for to in (0..self.fleet.gates).map(HostId).filter(|to| *to != from) {
                let pause = pace::offset(from, to, window);
                self.exchange.send(now + pause, from, to, &Letter::Word(word.clone()));
            }
        }
    }

    fn decide(&mut self, now: Nanos, index: usize) {
        let gate = &mut self.gates[index];
        let own = gate.own.take().expect("a period has ended");
        let outcome = gate.member.decide(own);
        gate.queue.decide(now, &inside(self.fleet, &outcome.decision));
        gate.slots_milli = slots(&outcome.decision);
        if index == 0 {
            self.record.depths.push(outcome.decision.slots_all);
            note_floors(&mut self.record.below_floor, &outcome.decision);
        }
        if index + 1 == self.gates.len() {
            let slots_milli = self.gates.iter().map(|gate| gate.slots_milli).collect();
            self.record.slots_milli.push(slots_milli);
        }
        self.fill(now, index);
    }
}

/// What a host does with a decision: where it is fair inside, its slots are its tenants' by share.
fn inside(fleet: &Fleet, decision: &Decision) -> Decision {
    let mut decision = decision.clone();
    if fleet.hosts.is_fair_inside && decision.division.is_none() {
        decision.division = Some(Division {
            slots_milli: u64::from(decision.slots) * 1000,
            weight_per_milli: 1,
            ..Division::default()
        });
    }
    decision
}

/// Counts tenants that are said to be below their floor; a queue that is given no numbers counts
/// them from one.
fn note_floors(below_floor: &mut [u64], decision: &Decision) {
    let below = decision.division.iter().flat_map(|division| &division.below_floor);
    for tenant in below {
        below_floor[tenant.0 as usize - 1] += 1;
    }
}

/// In thousandths.
fn slots(decision: &Decision) -> u64 {
    let whole = u64::from(decision.slots) * 1000;
    decision.division.as_ref().map_or(whole, |division| division.slots_milli)
}

impl Gate {
    fn new(fleet: &Fleet, gate: u32) -> Self {
        let rules = Rules {
            method: fleet.method,
            period: Span::from_millis(200),
            depth: fleet.hosts.depth,
            threshold: fleet.hosts.threshold,
        };
        let discipline =
            if fleet.hosts.is_fair_inside { Discipline::Weight } else { fleet.method.discipline() };
        let host = HostId(gate);
        let mut queue =
            SharedQueue::new(Nanos::ZERO, host, discipline, fleet.hosts.depth, Enforcement::Yes);
        for (id, share) in (0..).zip(&fleet.tenants) {
            queue.configure(Nanos::ZERO, TenantId(id), *share);
        }
        // What each is promised at a gate: `slack` owes nothing before it.
        let goals = if fleet.method == Method::Slack { OVERDUE } else { 1 };
        let promised = fleet.tenants.iter().map(|share| {
            let latency_goal = Span(share.latency_goal.0.saturating_mul(goals));
            Share { latency_goal, ..*share }
        });
        let patience =
            (discipline == Discipline::Order).then(|| Patience::new(Nanos::ZERO, promised));
        let member = if fleet.hears_sums {
            Member::with_sums(host, rules)
        } else {
            let members: Vec<HostId> = (0..fleet.gates).map(HostId).collect();
            Member::new(host, &members, rules)
        };
        let summing = fleet.hears_sums.then(|| Summing::new(host));
        let mut clock = Clock::new(host, member.period(), &fleet.clocks);
        let number = clock.look(Nanos::ZERO).number;
        let (tags, free) = (Vec::new(), Vec::new());
        let (own, slots_milli, wake) = (None, 0, None);
        Self { queue, tags, free, member, clock, number, own, slots_milli, wake, patience, summing }
    }

    pub(super) fn collects(&self) -> bool {
        self.summing.as_ref().is_some_and(Summing::collects)
    }

    /// A slot of its own for a request.
    fn slot(&mut self, tag: u32) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.tags[slot as usize] = tag;
            return slot;
        }
        self.tags.push(tag);
        u32::try_from(self.tags.len() - 1).expect("fewer requests than slots")
    }
}
