//! Gates before one array, each with clients of its own, that decide by what they tell each other.
//!
//! ```text
//!   clients --> gate 0: queue --slots--+
//!   clients --> gate 1: queue --slots--+--> device        every period: words -> way -> decisions
//!   clients --> gate 2: queue --slots--+
//! ```
//!
//! Queues, members and controllers are those of the gates ([`evenkeel_core::control`]); the device
//! is any. A [`Fleet`] says who asks for what, and [`Fleet::run`] what came of it, by tenant and
//! second.

mod client;
mod clock;
pub mod draw;
pub mod parda;
pub mod sites;
mod summing;
mod world;

use evenkeel_core::control::member::Method;
use evenkeel_core::sched::Share;
use evenkeel_core::time::Span;

use crate::control::exchange::{Cut, Way};
use crate::device::Device;
pub use client::{Asks, Client};
pub use clock::ClockFault;

/// Gates and their clients. See the [module](self).
#[derive(Clone, Debug)]
pub struct Fleet {
    /// How many gates there are.
    pub gates: u32,
    /// The tenants, all of them known at all gates.
    pub tenants: Vec<Share>,
    /// Who asks.
    pub clients: Vec<Client>,
    /// Who decides the slots.
    pub method: Method,
    /// How its hosts do.
    pub hosts: Hosts,
    /// How long it runs, in whole seconds.
    pub length: Span,
    /// Gates hear sums of others' words, as very many do, and not each word.
    pub hears_sums: bool,
    /// What happens to words.
    pub way: Way,
    /// When some do not hear others.
    pub cuts: Vec<Cut>,
    /// Whose wall clocks are off from when on; for each gate in the order of time.
    pub clocks: Vec<ClockFault>,
    /// Seed of the clients and of the way.
    pub seed: u64,
}

/// What the hosts of a fleet have in common beside their method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// The latency that PARDA holds the device at.
    pub threshold: Span,
    /// Slots of all hosts together under request windows, and of each until its first decision
    /// under the others.
    pub depth: u32,
    /// Inside a host tenants have its slots by their shares, under a method too that leaves that to
    /// the host: PARDA's have start-time fair queuing.
    pub is_fair_inside: bool,
}

impl Default for Hosts {
    fn default() -> Self {
        Self { threshold: Span::from_millis(30), depth: 4, is_fair_inside: false }
    }
}

/// What a tenant got in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Requests that were answered.
    pub completions: u64,
    /// What they cost, in nanoseconds.
    pub cost_ns: u64,
    /// What requests that came in it cost.
    pub asked_ns: u64,
    /// The sum of their response times.
    pub response: Span,
    /// The longest.
    pub longest: Span,
    /// The sum of their times at the device.
    pub device: Span,
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// By tenant and second.
    pub tenants: Vec<Vec<Second>>,
    /// The slots of all that the first gate decided upon, by period.
    pub depths: Vec<u32>,
    /// By tenant: in how many periods the first gate said that it is below its floor.
    pub below_floor: Vec<u64>,
    /// The slots of each gate in thousandths, by period.
    pub slots_milli: Vec<Vec<u64>>,
    /// By tenant, how long the oldest request that is not answered at the end has been there.
    pub unanswered: Vec<Span>,
}

impl Fleet {
    /// Runs it before this device.
    pub fn run(&self, device: impl Device) -> Record {
        world::World::new(self, device).run()
    }
}

impl Record {
    /// A tenant's seconds from `from` to `until`, added up.
    pub fn sum(&self, tenant: usize, from: u64, until: u64) -> Second {
        let index = |second: u64| usize::try_from(second).expect("a finite run");
        let seconds = &self.tenants[tenant][index(from)..index(until)];
        seconds.iter().fold(Second::default(), |sum, second| Second {
            completions: sum.completions + second.completions,
            cost_ns: sum.cost_ns + second.cost_ns,
            asked_ns: sum.asked_ns + second.asked_ns,
            response: sum.response + second.response,
            longest: sum.longest.max(second.longest),
            device: sum.device + second.device,
        })
    }

    /// The longest that any of a tenant's requests took that ended from `from` on, or has taken by
    /// the end of the run.
    pub fn longest(&self, tenant: usize, from: u64) -> Span {
        let ended = self.sum(tenant, from, self.tenants[tenant].len() as u64).longest;
        ended.max(self.unanswered[tenant])
    }

    /// The part of all cost that a tenant got from `from` to `until`.
    pub fn part(&self, tenant: usize, from: u64, until: u64) -> f64 {
        let cost = |tenant| self.sum(tenant, from, until).cost_ns as f64;
        cost(tenant) / (0..self.tenants.len()).map(cost).sum::<f64>()
    }
}

impl Second {
    /// The mean response time, in seconds; zero if nothing was answered.
    pub fn mean_s(&self) -> f64 {
        self.response.as_secs_f64() / self.completions.max(1) as f64
    }
}
