//! Closed-loop clients and serial servers in virtual time, around a real engine.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{Depth, Domain, Mode, Scheduling, Sharing};
use evenkeel_engine::report::DomainReport;
use evenkeel_engine::{Engine, Input, Output, Request, Target, Unit};

/// A client that has one request outstanding, and sends the next so long after an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) tenant: u32,
    pub(crate) server: u32,
    pub(crate) kind: Kind,
    pub(crate) length: u64,
    pub(crate) think: Span,
    /// Its requests are never answered; it has an export of its own.
    pub(crate) hangs: bool,
}

/// A device of 50 us and 1 GB/s, one unit at a time.
pub(crate) const DEVICE: CostModel = {
    let line = Line { fixed: Span::from_micros(50), rate_bytes: 1_000_000_000 };
    CostModel::Linear { read: line, write: line, flush: Span::from_micros(50) }
};

/// A domain with tenants of these shares and weights, and servers like [`DEVICE`].
pub(crate) fn domain(mode: Mode, weights: &[u32], servers: u32, depth: u32) -> Domain {
    let share = |weight: &u32| Share { weight_milli: weight * 1000, ..Share::default() };
    let scheduling =
        Scheduling { depth: Depth::Requests(depth), cost: DEVICE, ..Scheduling::default() };
    Domain {
        mode,
        sharing: Sharing::Local,
        tenants: weights.iter().map(|weight| (format!("w{weight}"), share(weight))).collect(),
        servers: (0..servers).map(|server| (format!("s{server}"), scheduling.clone())).collect(),
        tiers: None,
        ..Domain::default()
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A unit has been served.
    Served(Unit),
    /// The client of this slot has thought enough.
    Send(u32),
}

/// The world of one run.
pub(crate) struct Simulation {
    pub(crate) engine: Engine,
    now: Nanos,
    clients: Vec<Client>,
    /// By server: units that wait, and how many are served.
    devices: Vec<(VecDeque<Unit>, usize)>,
    /// What a unit takes there, and how many are served at once.
    device: CostModel,
    at_once: usize,
    /// In the order in which units came, or in any.
    is_in_order: bool,
    /// When they do nothing: from then on, for so long.
    stall: (Nanos, Span),
    /// By time and order.
    events: BTreeMap<(Nanos, u64), Event>,
    sequence: u64,
    random: Prng,
    wake_at: Option<Nanos>,
    /// The most units that were with a device at once.
    pub(crate) in_service_max: usize,
}

impl Simulation {
    /// Every client sends its first request at once.
    pub(crate) fn new(domain: &Domain, clients: &[Client]) -> Self {
        Self::before(DEVICE, (Nanos::ZERO, Span::ZERO), domain, clients)
    }

    /// Likewise, before devices like this that stand still once.
    pub(crate) fn before(
        device: CostModel,
        stall: (Nanos, Span),
        domain: &Domain,
        clients: &[Client],
    ) -> Self {
        let mut simulation = Self {
            engine: Engine::new(Nanos::ZERO, domain),
            now: Nanos::ZERO,
            clients: clients.to_vec(),
            devices: vec![(VecDeque::new(), 0); domain.servers.len()],
            device,
            at_once: 1,
            is_in_order: true,
            stall,
            events: BTreeMap::new(),
            sequence: 0,
            random: Prng::new(7),
            wake_at: None,
            in_service_max: 0,
        };
        for slot in 0..clients.len() {
            simulation.send(u32::try_from(slot).unwrap());
        }
        simulation.drain();
        simulation
    }

    /// Devices serve so many at once from the beginning.
    pub(crate) fn serving_at_once(mut self, units: usize) -> Self {
        self.at_once = units;
        for server in 0..self.devices.len() {
            self.start(u32::try_from(server).unwrap());
        }
        self
    }

    /// Devices serve what they have in random order.
    pub(crate) fn in_any_order(mut self, seed: u64) -> Self {
        (self.is_in_order, self.random) = (false, Prng::new(seed));
        self
    }

    /// More clients send their first requests.
    pub(crate) fn join(&mut self, clients: &[Client]) {
        let slots = self.clients.len()..self.clients.len() + clients.len();
        self.clients.extend(clients);
        for slot in slots {
            self.send(u32::try_from(slot).unwrap());
        }
        self.drain();
    }

    /// Devices are like this from now on, and serve so many at once.
    pub(crate) fn becomes(&mut self, device: CostModel, units: usize) {
        (self.device, self.at_once) = (device, units);
    }

    /// Another policy is in force from now on.
    pub(crate) fn apply(&mut self, domain: &Domain) {
        self.engine.handle(self.now, Input::Policy(domain));
        self.drain();
    }

    /// Lets virtual time pass, and reports.
    pub(crate) fn run(&mut self, until: Span) -> DomainReport {
        self.advance(until);
        self.engine.report(self.now)
    }

    /// Lets virtual time pass.
    pub(crate) fn advance(&mut self, until: Span) {
        let end = Nanos(until.0);
        loop {
            let event_at = self.events.keys().next().map(|(at, _)| *at);
            let Some(at) = event_at.into_iter().chain(self.wake_at).min() else { break };
            if at > end {
                break;
            }
            self.now = at;
            if event_at == Some(at) {
                let (_, event) = self.events.pop_first().unwrap();
                match event {
                    Event::Served(unit) => self.serve(unit),
                    Event::Send(slot) => self.send(slot),
                }
            }
            self.drain();
        }
        self.now = end;
    }

    fn send(&mut self, slot: u32) {
        let Client { tenant, server, kind, length, hangs, .. } = self.clients[slot as usize];
        let offset = self.random.below(1 << 20) * 4096;
        let (tenant, target) = (TenantId(tenant), Target::Server(ServerId(server)));
        let (keeps_room, disk) = (false, u64::from(hangs));
        let request = Request { slot, tenant, target, disk, kind, offset, length, keeps_room };
        self.engine.handle(self.now, Input::Arrive(request));
    }

    fn serve(&mut self, unit: Unit) {
        self.devices[unit.server.index()].1 -= 1;
        self.engine.handle(self.now, Input::Done { unit: unit.unit, ok: true });
        self.start(unit.server.0);
    }

    /// Schedules the end of the units at the head of a device's queue.
    fn start(&mut self, server: u32) {
        while self.devices[server as usize].1 < self.at_once {
            let (queue, busy) = &mut self.devices[server as usize];
            let next = if self.is_in_order || queue.is_empty() {
                0
            } else {
                usize::try_from(self.random.below(queue.len() as u64)).unwrap()
            };
            let Some(unit) = queue.remove(next) else { return };
            *busy += 1;
            let service = Span(self.device.cost(unit.kind, unit.length).0);
            let (from, length) = self.stall;
            let (end, until) = (self.now + service, from + length);
            let stands_still = self.now < until && end > from;
            let rest = if stands_still { until.since(self.now.max(from)) } else { Span::ZERO };
            self.at(end + rest, Event::Served(unit));
        }
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    fn drain(&mut self) {
        loop {
            match self.engine.poll(self.now) {
                Output::Submit(unit) => {
                    if self.clients[unit.slot as usize].hangs {
                        continue;
                    }
                    let (queue, busy) = &mut self.devices[unit.server.index()];
                    queue.push_back(unit);
                    self.in_service_max = self.in_service_max.max(queue.len() + *busy);
                    self.start(unit.server.0);
                }
                Output::Finish { slot, ok } => {
                    assert!(ok);
                    match self.clients[slot as usize].think {
                        Span::ZERO => self.send(slot),
                        think => self.at(self.now + think, Event::Send(slot)),
                    }
                }
                Output::WaitUntil(at) => {
                    self.wake_at = Some(at);
                    return;
                }
                output @ (Output::Move(_) | Output::Zeroes { .. } | Output::Refuse { .. }) => {
                    panic!("no volume, yet {output:?}")
                }
                Output::Idle => {
                    self.wake_at = None;
                    return;
                }
            }
        }
    }
}

/// `count` alike clients.
pub(crate) fn clients(count: usize, tenant: u32, kind: Kind, length: u64) -> Vec<Client> {
    let (think, hangs) = (Span::ZERO, false);
    vec![Client { tenant, server: 0, kind, length, think, hangs }; count]
}

/// What each tenant got, in seconds of device time.
pub(crate) fn delivered(report: &DomainReport) -> Vec<f64> {
    report.tenants.iter().map(|tenant| tenant.delivered_cost.as_secs_f64()).collect()
}
