//! Clients that keep so many requests outstanding, over servers of so many requests per second that
//! serve one at a time, in virtual time around a real engine.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::policy::{Depth, Discipline, Domain, Mode, Scheduling, Sharing, TierPlan};
use evenkeel_engine::report::DomainReport;
use evenkeel_engine::{Engine, Input, Output, Request, Target};

/// A client of one tenant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) share: Share,
    /// Requests that it keeps outstanding.
    pub(crate) outstanding: u32,
    /// Part of its requests that go to the last server; the others go to the first.
    pub(crate) hit_ratio: f64,
    /// Time between an answer and the next request.
    pub(crate) think: Span,
}

impl Client {
    pub(crate) fn new(hit_ratio: f64) -> Self {
        Self { share: Share::default(), outstanding: 64, hit_ratio, think: Span::ZERO }
    }
}

/// A domain of servers with these rates, each with depth 1 and costs alike.
pub(crate) fn domain(discipline: Discipline, rates_iops: &[u64], clients: &[Client]) -> Domain {
    let spans = discipline.spans_tiers();
    let scheduling = |rate: &u64| Scheduling {
        discipline: if spans { Discipline::Sfq } else { discipline },
        depth: Depth::Requests(1),
        cost: CostModel::PerRequest,
        capacity_iops: Some(*rate),
        ..Scheduling::default()
    };
    let servers = || (0..).map(ServerId).take(rates_iops.len());
    let plan = TierPlan {
        discipline,
        servers: servers().collect(),
        extent_bytes: 1 << 20,
        moves: evenkeel_engine::policy::Moves::Off,
        mover: TenantId(0),
        patience: Span::from_secs(30),
        late: Span::from_secs(30),
    };
    Domain {
        mode: Mode::Enforce,
        sharing: Sharing::Local,
        tenants: (0..).zip(clients).map(|(i, c): (u32, _)| (format!("t{i}"), c.share)).collect(),
        servers: rates_iops
            .iter()
            .zip(servers())
            .map(|(r, s)| (format!("s{}", s.0), scheduling(r)))
            .collect(),
        tiers: spans.then_some(plan),
        ..Domain::default()
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Send { client: usize },
    Done { server: usize },
}

/// The whole of it.
pub(crate) struct Loop {
    engine: Engine,
    clients: Vec<Client>,
    rates_iops: Vec<u64>,
    now: Nanos,
    events: BTreeMap<(Nanos, u64), Event>,
    sequence: u64,
    wake_at: Option<Nanos>,
    prng: Prng,
    /// Units with each server.
    devices: Vec<VecDeque<u32>>,
    /// Who sent the request of a slot, and when; free slots.
    slots: Vec<(usize, Nanos)>,
    free: Vec<u32>,
    /// No more requests are sent.
    is_ending: bool,
    /// By client and server, of units served.
    pub(crate) served: Vec<Vec<u64>>,
    /// Longest time from request to answer, by client.
    pub(crate) slowest: Vec<Span>,
    in_flight: usize,
}

impl Loop {
    pub(crate) fn new(domain: &Domain, rates_iops: &[u64], clients: &[Client]) -> Self {
        let mut made = Self {
            engine: Engine::new(Nanos::ZERO, domain),
            clients: clients.to_vec(),
            rates_iops: rates_iops.to_vec(),
            now: Nanos::ZERO,
            events: BTreeMap::new(),
            sequence: 0,
            wake_at: None,
            prng: Prng::new(1),
            devices: vec![VecDeque::new(); rates_iops.len()],
            slots: Vec::new(),
            free: Vec::new(),
            is_ending: false,
            served: vec![vec![0; rates_iops.len()]; clients.len()],
            slowest: vec![Span::ZERO; clients.len()],
            in_flight: 0,
        };
        for (client, terms) in clients.iter().enumerate() {
            (0..terms.outstanding).for_each(|_| made.after(Span::ZERO, Event::Send { client }));
        }
        made
    }

    /// Puts another policy in force.
    pub(crate) fn reload(&mut self, domain: &Domain) {
        self.engine.handle(self.now, Input::Policy(domain));
        self.drain();
    }

    /// Runs for this long; units served per second, by client and server.
    pub(crate) fn run(&mut self, length: Span) -> Vec<Vec<f64>> {
        let before = self.served.clone();
        let end = self.now + length;
        while let Some(at) = self.next().filter(|at| *at <= end) {
            self.now = at;
            if let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 == at) {
                let event = entry.remove();
                self.happen(event);
            }
            self.drain();
        }
        self.now = end;
        let rate = |now: u64, before: u64| (now - before) as f64 / length.as_secs_f64();
        let rates = self.served.iter().zip(&before).map(|(now, before)| {
            now.iter().zip(before).map(|(now, before)| rate(*now, *before)).collect()
        });
        rates.collect()
    }

    /// Sends no more, and waits until every request was answered, at most this long.
    pub(crate) fn end(mut self, patience: Span) -> DomainReport {
        self.is_ending = true;
        self.run(patience);
        assert_eq!(self.in_flight, 0, "requests were lost");
        self.engine.report(self.now)
    }

    pub(crate) fn report(&mut self) -> DomainReport {
        self.engine.report(self.now)
    }

    /// Units with a server.
    pub(crate) fn with(&self, server: usize) -> usize {
        self.devices[server].len()
    }

    fn next(&self) -> Option<Nanos> {
        let event_at = self.events.keys().next().map(|(at, _)| *at);
        event_at.into_iter().chain(self.wake_at).min()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Send { .. } if self.is_ending => {}
            Event::Send { client } => self.send(client),
            Event::Done { server } => {
                let unit = self.devices[server].pop_front().unwrap();
                self.engine.handle(self.now, Input::Done { unit, ok: true });
                self.start(server);
            }
        }
    }

    fn send(&mut self, client: usize) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((client, self.now));
            u32::try_from(self.slots.len() - 1).unwrap()
        });
        self.slots[slot as usize] = (client, self.now);
        self.in_flight += 1;
        let is_hit = self.prng.unit_f64() < self.clients[client].hit_ratio;
        let server = if is_hit { self.rates_iops.len() - 1 } else { 0 };
        let server = ServerId(u32::try_from(server).unwrap());
        let tenant = TenantId(u32::try_from(client).unwrap());
        let target = Target::Server(server);
        let (kind, keeps_room) = (Kind::Read, false);
        let request =
            Request { slot, tenant, target, disk: 0, kind, offset: 0, length: 4096, keeps_room };
        self.engine.handle(self.now, Input::Arrive(request));
    }

    fn drain(&mut self) {
        self.wake_at = loop {
            match self.engine.poll(self.now) {
                Output::Submit(unit) => {
                    let server = unit.server.index();
                    self.served[self.slots[unit.slot as usize].0][server] += 1;
                    self.devices[server].push_back(unit.unit);
                    if self.devices[server].len() == 1 {
                        self.start(server);
                    }
                }
                Output::Finish { slot, ok } => self.finish(slot, ok),
                Output::WaitUntil(at) => break Some(at),
                Output::Idle => break None,
                output @ (Output::Move(_) | Output::Zeroes { .. } | Output::Refuse { .. }) => {
                    panic!("no volume, yet {output:?}")
                }
            }
        };
    }

    fn finish(&mut self, slot: u32, ok: bool) {
        assert!(ok, "nothing fails here");
        let (client, sent_at) = self.slots[slot as usize];
        self.slowest[client] = self.slowest[client].max(self.now.since(sent_at));
        self.free.push(slot);
        self.in_flight -= 1;
        self.after(self.clients[client].think, Event::Send { client });
    }

    /// The server begins with the oldest of its units, if it has any.
    fn start(&mut self, server: usize) {
        if !self.devices[server].is_empty() {
            let time = Span(1_000_000_000 / self.rates_iops[server]);
            self.after(time, Event::Done { server });
        }
    }

    fn after(&mut self, span: Span, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + span, self.sequence), event);
    }
}
