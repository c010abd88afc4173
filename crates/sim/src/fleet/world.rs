//! The run itself: events in the order of their instants.

use evenkeel_core::control::member::{Member, Rules};
use evenkeel_core::control::pace;
use evenkeel_core::control::shared::{Discipline, Enforcement, SharedQueue};
use evenkeel_core::control::summary::{HostId, Summary};
use evenkeel_core::control::{Decision, Division};
use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::{Next, Scheduler};
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::CostModel;

use super::{Fleet, Record, Second};
use crate::control::exchange::Exchange;
use crate::device::{Device, Op, Step};
use crate::events::Events;

const SECOND: Span = Span::from_secs(1);

/// Bytes of the device that clients use.
const REGION_BYTES: u64 = 16 << 30;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The device asked to be polled.
    Device,
    /// A gate's queue did.
    Gate(usize),
    /// A client asks.
    Ask(usize),
    /// A period ends.
    Close,
    /// Words are in, and gates decide.
    Decide,
}

struct Request {
    client: usize,
    arrival: Nanos,
    /// When the device got it; none while it waits.
    sent: Option<Nanos>,
    ticket: Ticket,
}

struct Gate {
    queue: SharedQueue,
    member: Member,
    /// Its own word on the period that has ended.
    own: Option<Summary>,
    /// When its queue asked to be polled.
    wake: Option<Nanos>,
}

pub(super) struct World<'a, D> {
    fleet: &'a Fleet,
    device: D,
    gates: Vec<Gate>,
    exchange: Exchange,
    events: Events<Event>,
    /// When the device asked to be polled.
    wake: Option<Nanos>,
    requests: Vec<Option<Request>>,
    free: Vec<u32>,
    prng: Prng,
    period: u64,
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
            wake: None,
            requests: Vec::new(),
            free: Vec::new(),
            prng: Prng::new(fleet.seed),
            period: 0,
            cost: CostModel::default(),
            record: Record { below_floor: vec![0; tenants.len()], tenants, ..Record::default() },
        }
    }

    pub(super) fn run(mut self) -> Record {
        let end = Nanos::ZERO + self.fleet.length;
        for (index, client) in self.fleet.clients.iter().enumerate() {
            (0..client.first()).for_each(|_| self.events.push(client.from, Event::Ask(index)));
        }
        self.events.push(Nanos::ZERO + self.period_length(), Event::Close);
        while let Some((now, event)) = self.events.pop() {
            if now >= end {
                break;
            }
            match event {
                Event::Device if self.wake == Some(now) => self.advance_device(now),
                Event::Gate(gate) if self.gates[gate].wake == Some(now) => self.fill(now, gate),
                // Something else was asked for since.
                Event::Device | Event::Gate(_) => {}
                Event::Ask(client) => self.ask(now, client),
                Event::Close => self.close(now),
                Event::Decide => self.decide(now),
            }
        }
        self.record
    }

    fn period_length(&self) -> Span {
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
        let slot = self.free.pop().unwrap_or_else(|| {
            self.requests.push(None);
            u32::try_from(self.requests.len() - 1).expect("fewer requests than slots")
        });
        let ticket = Ticket {
            tenant: TenantId(client.tenant),
            kind: client.kind,
            slot,
            size_bytes: client.size_bytes,
            cost: self.cost.cost(client.kind, client.size_bytes),
            cost_elsewhere: evenkeel_core::ticket::Cost(0),
        };
        self.requests[slot as usize] =
            Some(Request { client: index, arrival: now, sent: None, ticket });
        let gate = client.gate as usize;
        self.gates[gate].queue.enqueue(now, ticket);
        self.fill(now, gate);
    }

    /// Sends what the gate's slots allow.
    fn fill(&mut self, now: Nanos, gate: usize) {
        loop {
            match self.gates[gate].queue.poll(now) {
                Next::Dispatch(ticket) => {
                    let Ticket { slot: tag, kind, size_bytes: length, .. } = ticket;
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
        self.gates[gate].queue.complete(now, ticket);
        if client.pause(&mut self.prng).is_none() {
            self.ask(now, index);
        }
        self.fill(now, gate);
    }

    /// A period ends: every gate tells the others what it did.
    fn close(&mut self, now: Nanos) {
        self.period += 1;
        let window = pace::window(self.period_length(), self.gates.len() - 1);
        for gate in &mut self.gates {
            let summary = gate.queue.summarise(now, self.period);
            for to in (0..self.fleet.gates).map(HostId).filter(|to| *to != summary.host) {
                let pause = pace::offset(summary.host, to, window);
                self.exchange.send(now + pause, to, &summary);
            }
            gate.own = Some(summary);
        }
        let length = self.period_length();
        self.events.push(now + Span(length.0 / 4) + window, Event::Decide);
        self.events.push(now + length, Event::Close);
    }

    fn decide(&mut self, now: Nanos) {
        while let Some((to, summary)) = self.exchange.receive(now) {
            // A refusal is counted by the receiver; here nobody has to hear of it.
            _ = self.gates[to.0 as usize].member.hear(self.period, summary);
        }
        let mut slots_milli = Vec::new();
        for index in 0..self.gates.len() {
            let gate = &mut self.gates[index];
            let own = gate.own.take().expect("a period has ended at every gate");
            let outcome = gate.member.decide(own);
            gate.queue.decide(now, &inside(self.fleet, &outcome.decision));
            slots_milli.push(slots(&outcome.decision));
            if index == 0 {
                self.record.depths.push(outcome.decision.slots_all);
                note_floors(&mut self.record.below_floor, &outcome.decision);
            }
            self.fill(now, index);
        }
        self.record.slots_milli.push(slots_milli);
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
        let members: Vec<HostId> = (0..fleet.gates).map(HostId).collect();
        Self { queue, member: Member::new(host, &members, rules), own: None, wake: None }
    }
}
