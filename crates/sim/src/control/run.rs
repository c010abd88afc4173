//! The run itself: arrivals, completions and periods in the order of their instants.

use std::collections::BTreeSet;

use evenkeel_core::control::host::{Host, Sent};
use evenkeel_core::control::peers::{Patience, Peers};
use evenkeel_core::control::summary::{FlowId, HostId, Summary};
use evenkeel_core::control::target::Target;
use evenkeel_core::control::{Controller, View};
use evenkeel_core::id::TenantId;
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::{Nanos, Span};

use super::exchange::{Exchange, Way};
use super::load::Arrival;
use super::record::{Record, Records, Second};
use crate::device::{Device, Op, Step};

const SECOND: Span = Span::from_secs(1);

/// Where a workload lives, and what it was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenancy {
    /// Its host; hosts are numbered from zero without gaps.
    pub host: HostId,
    /// Its weight, in thousandths.
    pub weight_milli: u32,
    /// What it was promised; none if it takes what is left.
    pub target: Option<Target>,
}

impl Tenancy {
    fn share(&self) -> Share {
        let share = Share { weight_milli: self.weight_milli, ..Share::default() };
        let Some(Target { bounds, latency_max, window }) = self.target else { return share };
        Share { latency_goal: latency_max, goal_bounds: bounds, goal_window: window, ..share }
    }
}

/// Hosts with controllers before a device.
#[derive(Clone, Debug)]
pub struct Experiment<'a> {
    /// By workload.
    pub tenancies: &'a [Tenancy],
    /// The requests, in order.
    pub arrivals: &'a [Arrival],
    /// How long requests arrive.
    pub length: Span,
    /// From when on they count.
    pub warm_up: Span,
    /// What happens to summaries.
    pub way: Way,
    /// Seed of the way.
    pub seed: u64,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    load: usize,
    sent: Option<Sent>,
}

struct World<'a, D> {
    experiment: &'a Experiment<'a>,
    device: D,
    hosts: Vec<Host>,
    peers: Vec<Peers>,
    /// By workload.
    flows: Vec<(HostId, TenantId)>,
    /// By arrival, which is a request's tag.
    requests: Vec<Request>,
    /// By host.
    controllers: Vec<Box<dyn Controller>>,
    exchange: Exchange,
    period: u64,
    /// When the device wants to be polled.
    wake: Option<Nanos>,
    records: Records,
    /// By workload: requests at the device, waiting, and the instant of the last change.
    levels: Vec<(u64, u64, Nanos)>,
    named: BTreeSet<FlowId>,
}

impl Experiment<'_> {
    /// Runs it until every request is answered, or for as long again. `controller` makes one for
    /// each host; without any, every request goes to the device at once.
    pub fn run(
        &self,
        device: impl Device,
        controller: Option<&dyn Fn(HostId) -> Box<dyn Controller>>,
    ) -> Records {
        let mut world = World::new(self, device, controller);
        world.run();
        world.finish()
    }
}

impl<'a, D: Device> World<'a, D> {
    fn new(
        experiment: &'a Experiment<'a>,
        device: D,
        controller: Option<&dyn Fn(HostId) -> Box<dyn Controller>>,
    ) -> Self {
        let tenancies = experiment.tenancies;
        let count = tenancies.iter().map(|tenancy| tenancy.host.0 + 1).max().unwrap_or(0);
        let ids = || (0..count).map(HostId);
        // Until the first decision nobody is held back.
        let mut hosts: Vec<Host> = ids().map(|id| Host::new(id, u32::MAX)).collect();
        let mut tenants = vec![0; hosts.len()];
        let flows = tenancies.iter().map(|tenancy| {
            let host = &mut hosts[tenancy.host.0 as usize];
            let tenant = TenantId(tenants[tenancy.host.0 as usize]);
            tenants[tenancy.host.0 as usize] += 1;
            host.configure(tenant, tenancy.share());
            (tenancy.host, tenant)
        });
        let flows: Vec<(HostId, TenantId)> = flows.collect();
        let seconds = usize::try_from(experiment.length.0 / SECOND.0).expect("a finite run");
        let record = Record { seconds: vec![Second::default(); seconds], ..Record::default() };
        Self {
            experiment,
            device,
            hosts,
            peers: ids().map(|id| Peers::new(id, ids(), Patience::default())).collect(),
            requests: Vec::with_capacity(experiment.arrivals.len()),
            controllers: controller.map_or_else(Vec::new, |make| ids().map(make).collect()),
            exchange: Exchange::new(experiment.way, experiment.seed),
            period: 0,
            wake: None,
            records: Records {
                loads: vec![record; tenancies.len()],
                named: Vec::new(),
                slots: Vec::new(),
            },
            levels: vec![(0, 0, Nanos::ZERO); flows.len()],
            flows,
            named: BTreeSet::new(),
        }
    }

    fn run(&mut self) {
        let end = Nanos::ZERO + self.experiment.length + self.experiment.length;
        let step = self.controllers.first().map(Controller::period);
        let mut next_step = step.map(|period| Nanos::ZERO + period);
        loop {
            let arrival = self.experiment.arrivals.get(self.requests.len());
            let instants = [arrival.map(|arrival| arrival.at), self.wake, next_step];
            let is_done = instants[0].is_none() && self.wake.is_none() && self.is_empty();
            let Some(now) = instants.into_iter().flatten().min().filter(|_| !is_done) else {
                return;
            };
            if now > end {
                return;
            }
            if self.wake == Some(now) {
                self.advance_device(now);
            } else if let Some(arrival) = arrival.filter(|arrival| arrival.at == now) {
                self.arrive(arrival);
            } else {
                next_step = step.map(|period| now + period);
                self.step(now, step.expect("a step was due"));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.hosts.iter().all(|host| host.queued() == 0 && host.outstanding() == 0)
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let tag = u32::try_from(self.requests.len()).expect("fewer requests than tags");
        let now = arrival.at;
        self.requests.push(Request { load: arrival.load, sent: None });
        let (host, tenant) = self.flows[arrival.load];
        self.integrate(arrival.load, now);
        self.levels[arrival.load].1 += 1;
        if let Some(second) = self.second(arrival.load, now) {
            second.arrivals += 1;
        }
        if now >= Nanos::ZERO + self.experiment.warm_up {
            // Late until it comes back in time.
            self.records.loads[arrival.load].counted += 1;
            self.records.loads[arrival.load].late += 1;
        }
        self.hosts[host.0 as usize].arrived(now, tenant, tag, Cost::ONE);
        self.fill(host, now);
        self.advance_device(now);
    }

    /// Sends what the host's slots allow.
    fn fill(&mut self, host: HostId, now: Nanos) {
        while let Some(sent) = self.hosts[host.0 as usize].next(now) {
            let tag = sent.waiting.tag;
            let request = &mut self.requests[tag as usize];
            request.sent = Some(sent);
            let load = request.load;
            self.integrate(load, now);
            let level = &mut self.levels[load];
            (level.0, level.1) = (level.0 + 1, level.1 - 1);
            let Arrival { kind, offset, length, .. } = self.experiment.arrivals[tag as usize];
            self.device.submit(now, Op { tag, kind, offset, length });
            self.wake = Some(now);
        }
    }

    fn advance_device(&mut self, now: Nanos) {
        loop {
            match self.device.poll(now) {
                Step::Done { tag, .. } => self.finish_request(now, tag),
                Step::WaitUntil(at) => {
                    self.wake = Some(at);
                    return;
                }
                Step::Idle => {
                    self.wake = None;
                    return;
                }
            }
        }
    }

    fn finish_request(&mut self, now: Nanos, tag: u32) {
        let Request { load, sent } = self.requests[tag as usize];
        let sent = sent.expect("the device has it");
        let arrival = sent.waiting.arrival;
        let response = now.since(arrival);
        // Without a target nothing is late.
        let forever = Target::mean(Span(u64::MAX), SECOND);
        let target = self.experiment.tenancies[load].target.unwrap_or(forever);
        self.integrate(load, now);
        self.levels[load].0 -= 1;
        if let Some(second) = self.second(load, now) {
            second.tally.note(&target, response);
            second.device_ns += u128::from(now.since(sent.dispatch).0);
        }
        if arrival >= Nanos::ZERO + self.experiment.warm_up && response <= target.latency_max {
            self.records.loads[load].late -= 1;
        }
        let (host, _) = self.flows[load];
        self.hosts[host.0 as usize].finished(now, &sent, (Cost::ONE, 0));
        self.fill(host, now);
    }

    /// Ends a period: every host sums up and tells, then every host decides.
    fn step(&mut self, now: Nanos, period: Span) {
        self.period += 1;
        let number = self.period;
        let own: Vec<Summary> =
            self.hosts.iter_mut().map(|host| host.summarise(now, number, period)).collect();
        for summary in &own {
            for to in (0..).zip(&self.hosts).map(|(id, _)| HostId(id)) {
                if to != summary.host {
                    self.exchange.send(now, summary.host, to, summary);
                }
            }
        }
        while let Some((to, summary)) = self.exchange.receive(now) {
            // A refusal is counted by the receiver; here nobody has to hear of it.
            _ = self.peers[to.0 as usize].receive(number, summary);
        }
        for (index, own) in own.into_iter().enumerate() {
            let id = own.host;
            let known = self.peers[index].known(own);
            let decision = self.controllers[index].step(&View {
                own: id,
                now,
                known: &known,
                lost: &[],
                missing: 0,
            });
            self.hosts[index].decide(&decision);
            if index == 0 {
                self.records.slots.push(decision.slots);
            }
            for flow in decision.unmet {
                if self.named.insert(flow) {
                    self.records.named.push((flow, now));
                }
            }
            self.fill(id, now);
        }
    }

    fn second(&mut self, load: usize, now: Nanos) -> Option<&mut Second> {
        let index = usize::try_from(now.0 / SECOND.0).expect("a finite run");
        self.records.loads[load].seconds.get_mut(index)
    }

    /// Books the slots used and the queue of a workload up to now, second by second.
    fn integrate(&mut self, load: usize, now: Nanos) {
        let (outstanding, queued, mut since) = self.levels[load];
        while since < now {
            let end = Nanos((since.0 / SECOND.0 + 1) * SECOND.0).min(now);
            let slot_ns = u128::from(end.since(since).0) * u128::from(outstanding);
            if let Some(second) = self.second(load, since) {
                second.slot_ns += slot_ns;
                second.queued = queued;
            }
            since = end;
        }
        self.levels[load].2 = now;
    }

    fn finish(mut self) -> Records {
        let end = Nanos::ZERO + self.experiment.length;
        (0..self.flows.len()).for_each(|load| self.integrate(load, end));
        self.records
    }
}
