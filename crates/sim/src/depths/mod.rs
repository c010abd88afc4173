//! Depths of a backend's queue on devices of which nobody knows anything: the automatic one beside
//! fixed ones, on the same load.
//!
//! ```text
//! clients, closed loop --> Sfq of the gate, at some depth --> a device drawn by its seed
//! ```
//!
//! A [`Setting`] is a device and its clients, drawn from a seed; [`Setting::run`] plays it at one
//! depth, for [`SECONDS`], and counts in the second half of that.

mod clients;
mod device;

use evenkeel_core::prng::Prng;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::sfq::{Sfq, SfqOptions};
use evenkeel_core::sched::{Next, Scheduler};
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::{Nanos, Span};

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

/// What came of a run, after the settling.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Requests done.
    pub requests: u64,
    /// What they cost.
    pub work: Cost,
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

    /// Plays it at this depth.
    pub fn run(&self, depth: DepthPolicy) -> Outcome {
        let mut queue = Sfq::new(SfqOptions { depth, hold: Span::ZERO });
        let (mut device, mut clients) = (self.device.clone(), self.clients.clone());
        device.begin(self.seed);
        let (mut now, end) = (Nanos::ZERO, Nanos::ZERO + Span::from_secs(SECONDS));
        clients.begin(now, &mut queue, &device);
        let mut outcome = Outcome::default();
        while now < end {
            while let Next::Dispatch(ticket) = queue.poll(now) {
                device.submit(now, clients.sent(now, &ticket));
            }
            match device.poll(now) {
                Step::Done { tag, .. } => {
                    let (ticket, time) = clients.done(now, tag);
                    queue.complete(now, ticket);
                    if now >= Nanos::ZERO + SETTLING {
                        outcome.requests += 1;
                        outcome.work.0 += ticket.cost.0;
                        outcome.request_time += time;
                    }
                    outcome.note(now, queue.depth_found());
                    clients.ask_again(now, tag, &mut queue, &device);
                }
                Step::WaitUntil(at) => now = at,
                Step::Idle => unreachable!("clients always ask"),
            }
        }
        outcome
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
