//! Depths of a backend's queue on devices of which nobody knows anything: the automatic one beside
//! fixed ones, on the same load.
//!
//! ```text
//! clients, closed loop --> Sfq of the gate, at some depth --> a device drawn by its seed
//! ```
//!
//! A [`Setting`] is a device and its clients, drawn from a seed; [`Setting::run`] plays it at one
//! depth, for [`SECONDS`], and counts in the second half of that. What requests cost is known,
//! taken for the default, or learned ([`Knowledge`]).

mod clients;
pub(crate) mod device;

use evenkeel_core::id::TenantId;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::sfq::{Sfq, SfqOptions};
use evenkeel_core::sched::{Next, Scheduler};
use evenkeel_core::ticket::{Cost, Kind};
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::cost::learned::{Crowd, Learned};

use crate::device::{Device, Step};
use clients::Clients;
use device::Drawn;

/// How long a run lasts.
pub const SECONDS: u64 = 10;
/// What an automatic depth may take to settle; what comes after it is counted.
pub const SETTLING: Span = Span::from_secs(SECONDS / 2);

/// A device and its clients.
#[derive(Clone, Debug)]
pub struct Setting {
    device: Drawn,
    clients: Clients,
    seed: u64,
}

/// Where the gate has its costs from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// They are what the device takes.
    True,
    /// They are the default.
    Default,
    /// They are learned; the default comes first.
    Learned,
}

#[derive(Clone, Debug)]
enum Costs {
    True(Box<Drawn>),
    Default(CostModel),
    Learned(Box<Learned>),
}

impl Costs {
    fn cost(&self, tenant: TenantId, kind: Kind, size_bytes: u64) -> Cost {
        match self {
            Self::True(device) => device.cost(kind, size_bytes),
            Self::Default(model) => model.cost(kind, size_bytes),
            Self::Learned(learned) => learned.cost(tenant, kind, size_bytes),
        }
    }

    fn learned(&mut self) -> Option<&mut Learned> {
        if let Self::Learned(learned) = self { Some(learned) } else { None }
    }
}

/// What came of a run, after the settling.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Requests done.
    pub requests: u64,
    /// What they cost.
    pub work: Cost,
    /// By tenant, for how long its requests held the device.
    pub tenants: Vec<Span>,
    /// By tenant, for how long none of its requests waited in the gate's queue.
    pub empty: Vec<Span>,
    /// Their time with the device, in all.
    pub request_time: Span,
    /// The depths that an automatic one had found, each with the instant.
    pub found: Vec<(Nanos, u32)>,
}

impl Setting {
    /// The setting of this seed.
    pub fn draw(seed: u64) -> Self {
        let mut prng = Prng::new(seed);
        let device = Drawn::draw(&mut prng);
        let clients = Clients::draw(&mut prng);
        Self { device, clients, seed }
    }

    /// What it is, for people.
    pub fn describe(&self) -> String {
        format!("{}; {}", self.device.describe(), self.clients.describe())
    }

    /// By how much the tenants' parts of the device are off from their shares: the ratio of the
    /// best served of those that always had requests waiting to the worst. None where there are
    /// not two.
    pub fn unfairness(&self, outcome: &Outcome) -> Option<f64> {
        let counted = Span(Span::from_secs(SECONDS).0 - SETTLING.0);
        let all = outcome.tenants.iter().zip(&outcome.empty).zip(self.clients.shares());
        let parts: Vec<f64> = all
            .filter(|((_, empty), _)| empty.0 * 20 < counted.0)
            .map(|((held, _), share)| held.0.max(1) as f64 / f64::from(share))
            .collect();
        let most = parts.iter().copied().fold(f64::MIN, f64::max);
        (parts.len() > 1).then(|| most / parts.iter().copied().fold(f64::MAX, f64::min))
    }

    /// Plays it at this depth.
    pub fn run(&self, depth: DepthPolicy, knowledge: Knowledge) -> Outcome {
        let mut run = Run {
            queue: Sfq::new(SfqOptions { depth, hold: Span::ZERO }),
            device: self.device.clone(),
            clients: self.clients.clone(),
            costs: Costs::new(knowledge, &self.device),
            present: 0,
            crowd: Crowd::default(),
            outcome: Outcome::default(),
            empty_before: None,
        };
        run.outcome.tenants.resize(self.clients.shares().len(), Span::ZERO);
        run.device.begin(self.seed);
        run.clients.begin(Nanos::ZERO, &mut run.queue, &run.costs);
        let (mut now, end) = (Nanos::ZERO, Nanos::ZERO + Span::from_secs(SECONDS));
        while now < end {
            run.dispatch(now);
            match run.device.poll(now) {
                Step::Done { tag, .. } => run.done(now, tag, &self.device),
                Step::WaitUntil(at) => now = at,
                Step::Idle => unreachable!("clients always ask"),
            }
        }
        run.end(now)
    }
}

impl Costs {
    fn new(knowledge: Knowledge, device: &Drawn) -> Self {
        let start = CostModel::default();
        match knowledge {
            Knowledge::True => Self::True(Box::new(device.clone())),
            Knowledge::Default => Self::Default(start),
            Knowledge::Learned => Self::Learned(Box::new(Learned::new(Nanos::ZERO, &start))),
        }
    }
}

/// A setting that is being played.
struct Run {
    queue: Sfq,
    device: Drawn,
    clients: Clients,
    costs: Costs,
    /// What is with the device, and was lately.
    present: u32,
    crowd: Crowd,
    outcome: Outcome,
    /// By client: how long nothing of it had waited when counting began.
    empty_before: Option<Vec<Span>>,
}

impl Run {
    /// What may go to the device goes.
    fn dispatch(&mut self, now: Nanos) {
        while let Next::Dispatch(ticket) = self.queue.poll(now) {
            if let Some(learned) = self.costs.learned() {
                learned.started(now, &ticket);
            }
            self.device.submit(now, self.clients.sent(now, &ticket));
            self.present += 1;
        }
        if let Some(learned) = self.costs.learned() {
            let is_found = self.queue.depth_found().is_some();
            let has_queue = self.queue.queued() > 0;
            let load = self.crowd.behind(now, &self.queue, self.present, has_queue);
            learned.set_load(now, load, is_found);
        }
    }

    /// The device has done one; what it cost truly is that of a device as it was at first.
    fn done(&mut self, now: Nanos, tag: u32, fresh: &Drawn) {
        let (ticket, time) = self.clients.done(now, tag);
        self.queue.complete(now, ticket);
        self.present -= 1;
        if let Some(learned) = self.costs.learned() {
            learned.finished(now, &ticket, self.queue.depth_found().is_some());
            self.queue.set_turn(learned.turn());
        }
        let held = self.device.held(now, tag);
        if now >= Nanos::ZERO + SETTLING {
            self.empty_before.get_or_insert_with(|| self.clients.empty(now));
            self.outcome.requests += 1;
            self.outcome.work.0 += fresh.cost(ticket.kind, ticket.size_bytes).0;
            self.outcome.tenants[ticket.tenant.index()] += held;
            self.outcome.request_time += time;
        }
        self.outcome.note(now, self.queue.depth_found());
        self.clients.ask_again(now, tag, &mut self.queue, &self.costs);
    }

    fn end(mut self, now: Nanos) -> Outcome {
        let before = self.empty_before.unwrap_or_default();
        let empty = self.clients.empty(now).into_iter().zip(before);
        self.outcome.empty = empty.map(|(all, before)| Span(all.0 - before.0)).collect();
        self.outcome
    }
}

impl Outcome {
    fn note(&mut self, now: Nanos, found: Option<u32>) {
        if let Some(depth) = found
            && self.found.last().is_none_or(|(_, last)| *last != depth)
        {
            self.found.push((now, depth));
        }
    }

    /// Mean time of a request with the device, in seconds.
    pub fn latency_seconds(&self) -> f64 {
        self.request_time.as_secs_f64() / self.requests.max(1) as f64
    }

    /// Throughput in device time, as a part of another's.
    pub fn part_of(&self, other: &Self) -> f64 {
        self.work.0 as f64 / other.work.0.max(1) as f64
    }

    /// The least and the greatest depth found after the settling.
    pub fn settled(&self) -> Option<(u32, u32)> {
        let before = self.found.iter().rfind(|(at, _)| *at < Nanos::ZERO + SETTLING);
        let after = self.found.iter().filter(|(at, _)| *at >= Nanos::ZERO + SETTLING);
        let depths = before.into_iter().chain(after).map(|(_, depth)| *depth);
        depths.clone().min().zip(depths.max())
    }
}
