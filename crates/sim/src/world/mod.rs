//! The world: clients, links, the gate with its real engines, devices, and the loop that lets time
//! pass among them.
//!
//! ```text
//! clients --link--> gate: core -> Engine --link--> devices
//!    ^                                                |
//!    +----------------- answers <---------------------+
//! ```
//!
//! Whatever takes time is an [`Event`]; whatever takes none happens within [`World::settle`], in a
//! fixed order: devices answer, then engines decide, then clients hear and send again. So a client
//! that is answered sends its next request after the gate has used the place that became free, as
//! in the real gate, where the answer has to reach the client first.
//!
//! One file for each part: `build` makes it from a scenario, `clients` and `replays` make the load,
//! `gate` drives the engines, `policy` changes what they enforce, `storage` drives the devices,
//! `stall` notices a backlog that never ends, `finish` writes the summary, `tables` holds what is
//! under way, `volume` opens and moves tiered volumes.

mod build;
mod clients;
mod finish;
mod gate;
mod policy;
mod recording;
mod replays;
#[cfg(test)]
mod sabotage;
mod stall;
mod storage;
mod tables;
mod volume;

use std::collections::VecDeque;
use std::ops::Range;

use evenkeel_core::histogram::Histogram;
use evenkeel_core::time::Nanos;

use crate::checkers::{Conservation, Rule, Verdict, Violation, broken};
use crate::events::{Event, Events};
use crate::result::{Book, LogHash, Progress, Summary};
use crate::scenario::ScenarioFault;

use clients::{Client, Group};
use gate::Gate;
use policy::Change;
pub use recording::Recording;
use replays::{Places, Replayer};
use stall::Stall;
use storage::Server;
use tables::{Call, Flight, Request, Slab, Target};

pub(crate) use build::{Purpose, build, seed_of, stores};

/// Events between two reports of progress.
const PROGRESS_EVENTS: u32 = 1 << 16;

/// Everything there is. See the [module](self).
pub(crate) struct World<'s> {
    now: Nanos,
    events: Events,
    hash: LogHash,
    measured: Range<Nanos>,
    gate: Gate,
    servers: Vec<Server>,
    targets: Vec<Target>,
    /// As a recording has them: `tenant/export`.
    target_names: Vec<String>,
    groups: Vec<Group>,
    clients: Vec<Client>,
    replays: Vec<Replayer<'s>>,
    /// Of the replays.
    places: Vec<Places>,
    /// Policies to come, in the order of their instants.
    changes: Vec<Change>,
    requests: Slab<Request>,
    flights: Slab<Flight>,
    calls: Slab<Call>,
    /// Requests sent so far.
    sequence: u64,
    /// Servers whose devices are to be polled at this instant.
    stirred: VecDeque<u32>,
    /// Requests whose clients hear of them at this instant.
    replies: VecDeque<u32>,
    conservation: Conservation,
    book: Book,
    tenants: Vec<TenantTimes>,
    requests_in_all: u64,
    stall: Stall,
    /// What the gate would have recorded, if anybody asks for it.
    recording: Option<Recording>,
}

/// Why a run gave no summary.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Its backlog never ends, or no time passes any more.
    Endless(ScenarioFault),
    /// A checker found a fault of this program.
    Violation(Box<Violation>),
}

impl From<Box<Violation>> for Stop {
    fn from(violation: Box<Violation>) -> Self {
        Self::Violation(violation)
    }
}

/// What the world keeps of a tenant beside its row in the books.
#[derive(Clone, Debug, Default)]
struct TenantTimes {
    queue_time: Histogram,
    device_time: Histogram,
    delivered_cost: u64,
}

impl World<'_> {
    /// Lets the scenario run to its end, and then until every request has its answer.
    /// The recording is empty if none was asked for.
    pub(crate) fn run(
        mut self,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<(Summary, Recording), Stop> {
        self.begin()?;
        let mut until_progress = PROGRESS_EVENTS;
        while !self.is_over() {
            let Some((at, event)) = self.events.pop() else { break };
            if self.stall.is_reached(at) {
                return Err(Stop::Endless(self.endless()));
            }
            if at >= self.book.edge() {
                self.turn(at)?;
            }
            self.advance(at)?;
            self.happen(event)?;
            self.settle()?;
            until_progress -= 1;
            if until_progress == 0 {
                until_progress = PROGRESS_EVENTS;
                observe(&self.progress());
            }
        }
        let recording = self.recording.take().unwrap_or_default().sorted();
        let summary = self.close()?;
        let (requests, events) = (summary.requests_in_all, summary.events);
        observe(&Progress { elapsed: summary.ended, done: 1.0, requests, events });
        Ok((summary, recording))
    }

    /// What the gate answers is to be recorded.
    pub(crate) fn record(&mut self) {
        let mut recording = Recording::default();
        for name in &self.target_names {
            recording.add_target(name);
        }
        self.recording = Some(recording);
    }

    /// Whether the measured time is over and nobody waits for an answer. What the gate does on its
    /// own account, such as moving extents, may go on for ever.
    fn is_over(&self) -> bool {
        self.now >= self.measured.end && self.flights.is_empty()
    }

    fn progress(&self) -> Progress {
        let elapsed = self.now.since(Nanos::ZERO);
        Progress {
            elapsed,
            done: (elapsed.0 as f64 / self.measured.end.0 as f64).min(1.0),
            requests: self.requests_in_all,
            events: self.hash.events(),
        }
    }

    /// Time passes.
    fn advance(&mut self, at: Nanos) -> Verdict {
        if at < self.now {
            let what = format!("an event of {} ns came after {} ns", at.0, self.now.0);
            return Err(broken(self.now, Rule::TimeIsMonotone, what));
        }
        self.now = at;
        Ok(())
    }

    /// An interval of the books begins or ends: time to look whether all is in order.
    fn turn(&mut self, at: Nanos) -> Verdict {
        while at >= self.book.edge() && self.book.edge() < Nanos(u64::MAX) {
            let edge = self.book.edge();
            if self.book.is_measuring() {
                let length = self.book.open_for(edge);
                for server in &mut self.servers {
                    server.tally.close_interval(edge, &self.measured, length);
                }
            }
            self.book.turn(edge);
        }
        self.check_sums()?;
        self.servers.iter().try_for_each(|server| server.check_lag(at))
    }

    fn check_sums(&mut self) -> Verdict {
        let under_way = self.requests.entries().iter().filter(|one| one.custody.is_under_way());
        self.conservation.check(self.now, under_way.map(|one| (one.tenant, one.length)))
    }

    fn happen(&mut self, event: Event) -> Verdict {
        match event {
            Event::Device(server) => {
                self.wake_server(server);
                Ok(())
            }
            Event::Engine(domain) => {
                self.gate.wake(domain, self.now);
                Ok(())
            }
            Event::Client(client) => self.wake_client(client),
            Event::Thought(client) => self.thought(client),
            Event::Replay(replay) => self.wake_replay(replay),
            Event::Reach(bound) => self.reach(bound),
            Event::Admit(bound) => self.admit(bound),
            Event::Submit(call) => {
                self.submit(call);
                Ok(())
            }
            Event::Answer(call) => self.answer(call),
            Event::Reply(slot) => self.reply(slot),
            Event::GateDown => {
                self.gate_down();
                Ok(())
            }
            Event::GateUp => self.gate_up(),
            Event::Policy(change) => {
                self.change_policy(change);
                Ok(())
            }
        }
    }

    /// Whatever takes no time happens now, until nothing more does.
    fn settle(&mut self) -> Result<(), Stop> {
        loop {
            if self.stall.stands_still(self.flights.entries().len()) {
                return Err(Stop::Endless(self.standstill()));
            }
            if let Some(server) = self.stirred.pop_front() {
                self.poll_server(server)?;
            } else if let Some(domain) = self.gate.take_stirred() {
                self.pump(domain)?;
            } else if let Some(slot) = self.replies.pop_front() {
                self.reply(slot)?;
            } else {
                return Ok(());
            }
        }
    }
}
