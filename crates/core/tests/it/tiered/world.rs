//! Clients that keep so many requests outstanding, in front of devices that serve as many at a time
//! as the dispatcher lets them, all in virtual time.

use std::collections::BTreeMap;

use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::tiered::{DeviceOptions, TieredLane, TieredOptions, lanes};
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::share::{BottleneckAware, Discipline};
use evenkeel_core::ticket::{Cost, Ticket};
use evenkeel_core::time::{Nanos, Span};

use crate::support::ticket;

/// As people would use it.
pub(crate) fn usual() -> Discipline {
    Discipline::BottleneckAware(BottleneckAware::default())
}

/// How long a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Constant,
    Exponential,
}

/// A client in a closed loop.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) share: Share,
    /// Requests that it keeps outstanding.
    pub(crate) outstanding: u32,
    /// Time between an answer and the next request.
    pub(crate) think: Span,
    /// Part of its requests that go to each device but the first, which gets the rest.
    pub(crate) hits: Vec<f64>,
    /// Device time of its requests, in that of an ordinary one.
    pub(crate) cost: u64,
}

impl Client {
    pub(crate) fn new(hit_ratio: f64) -> Self {
        let share = Share::default();
        Self { share, outstanding: 64, think: Span::ZERO, hits: vec![hit_ratio], cost: 1 }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Issue { client: usize },
    Done { device: usize, ticket: Ticket },
    Wake,
}

/// The whole of it.
pub(crate) struct World {
    pub(crate) lanes: Vec<TieredLane>,
    pub(crate) clients: Vec<Client>,
    capacities: Vec<u64>,
    service: Service,
    prng: Prng,
    now: Nanos,
    events: BTreeMap<(Nanos, u64), Event>,
    sequence: u64,
    slots: u32,
    woken: Nanos,
    /// Completions by client and device.
    served: Vec<Vec<u64>>,
}

impl World {
    /// Devices of so many requests per second, depth 1 each.
    pub(crate) fn new(capacities: &[u64], discipline: Discipline, clients: Vec<Client>) -> Self {
        let devices = capacities.iter().map(|rate| DeviceOptions {
            depth: DepthPolicy::Requests(1),
            capacity_cost_per_second: rate * Cost::ONE.0,
        });
        let options = TieredOptions { discipline, ..TieredOptions::usual(devices.collect()) };
        Self::with_options(&options, capacities, clients)
    }

    pub(crate) fn with_options(
        options: &TieredOptions,
        capacities: &[u64],
        clients: Vec<Client>,
    ) -> Self {
        let mut world = Self {
            lanes: lanes(options),
            served: vec![vec![0; capacities.len()]; clients.len()],
            clients,
            capacities: capacities.to_vec(),
            service: Service::Exponential,
            prng: Prng::new(1),
            now: Nanos::ZERO,
            events: BTreeMap::new(),
            sequence: 0,
            slots: 0,
            woken: Nanos::ZERO,
        };
        for client in 0..world.clients.len() {
            let tenant = TenantId(u32::try_from(client).unwrap());
            let share = world.clients[client].share;
            world.lanes[0].configure(Nanos::ZERO, tenant, share);
            for _ in 0..world.clients[client].outstanding {
                world.after(Span::ZERO, Event::Issue { client });
            }
        }
        world
    }

    pub(crate) fn service(mut self, service: Service) -> Self {
        self.service = service;
        self
    }

    /// Devices serve at these rates, whatever the options say.
    pub(crate) fn really(mut self, capacities: &[u64]) -> Self {
        self.capacities = capacities.to_vec();
        self
    }

    /// A client begins to keep that many requests outstanding.
    pub(crate) fn join(&mut self, client: usize, outstanding: u32) {
        for _ in 0..outstanding {
            self.after(Span::ZERO, Event::Issue { client });
        }
    }

    /// Runs for this long; what was served meanwhile, in requests per second by client and device.
    pub(crate) fn run(&mut self, length: Span) -> Vec<Vec<f64>> {
        let before = self.served.clone();
        let end = self.now + length;
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.happen(event);
            self.pump();
        }
        self.now = end;
        let rate = |(now, before): (&u64, &u64)| (now - before) as f64 / length.as_secs_f64();
        let rates = |(now, before): (&Vec<u64>, &Vec<u64>)| {
            now.iter().zip(before).map(rate).collect::<Vec<_>>()
        };
        self.served.iter().zip(&before).map(rates).collect()
    }

    /// Part of each device that these rates are.
    pub(crate) fn utilisation(&self, rates: &[Vec<f64>]) -> Vec<f64> {
        let of = |device: usize| rates.iter().map(|of| of[device]).sum::<f64>();
        (0..self.capacities.len()).map(|d| of(d) / self.capacities[d] as f64).collect()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake => {}
            Event::Issue { client } => self.issue(client),
            Event::Done { device, ticket } => {
                let client = ticket.tenant.index();
                self.lanes[device].complete(self.now, ticket);
                self.served[client][device] += 1;
                self.after(self.clients[client].think, Event::Issue { client });
            }
        }
    }

    fn issue(&mut self, client: usize) {
        let draw = self.prng.unit_f64();
        let mut below = 0.0;
        let hit = self.clients[client].hits.iter().position(|part| {
            below += part;
            draw < below
        });
        self.slots += 1;
        let device = hit.map_or(0, |hit| hit + 1);
        let cost = Cost::ONE.0 * self.clients[client].cost;
        self.lanes[device].enqueue(self.now, ticket(client, self.slots, cost));
    }

    /// Lets every device take what it may.
    fn pump(&mut self) {
        for device in 0..self.lanes.len() {
            loop {
                match self.lanes[device].poll(self.now) {
                    Next::Dispatch(ticket) => {
                        let cost = ticket.cost.0 / Cost::ONE.0;
                        let mean = Span(cost * 1_000_000_000 / self.capacities[device]);
                        let time = match self.service {
                            Service::Constant => mean,
                            Service::Exponential => self.prng.exponential(mean),
                        };
                        self.after(time, Event::Done { device, ticket });
                    }
                    Next::WaitUntil(at) => {
                        assert!(at > self.now, "a wait ends in the future");
                        if at != self.woken {
                            self.woken = at;
                            self.after(at.since(self.now), Event::Wake);
                        }
                        break;
                    }
                    Next::Idle => break,
                }
            }
        }
    }

    fn after(&mut self, span: Span, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + span, self.sequence), event);
    }
}
