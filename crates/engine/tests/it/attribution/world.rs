//! Clients in open and in closed loops before one device, in virtual time, around a real engine.
//!
//! Each stream of requests draws from a sequence of its own: without one of them, or before a
//! healthy device, all others send what they would have sent. That makes the same seed without the
//! accused the truth that blame is held against.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::Line;
use evenkeel_engine::policy::Domain;
use evenkeel_engine::report::{Culprit, DomainReport};
use evenkeel_engine::{Engine, Input, Output, Request, Target, Unit};

/// When a stream sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rhythm {
    /// One request, and the next so long after its answer, on average.
    Closed(Span),
    /// A request after such a time, on average, whatever comes back.
    Open(Span),
}

/// Requests of one tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) tenant: u32,
    pub(super) kind: Kind,
    pub(super) length: u64,
    pub(super) rhythm: Rhythm,
    /// When it begins.
    pub(super) begins: Nanos,
    /// Where its sequence begins.
    pub(super) seed: u64,
}

/// What is wrong with a device for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    None,
    /// It does nothing.
    Stall,
    /// Everything takes so many times as long.
    Slow(u32),
}

/// A device that serves so many at once, in the order in which they come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) line: Line,
    pub(super) at_once: usize,
    /// What a request takes is off by this part at most, evenly.
    pub(super) spread: f64,
    pub(super) fault: Fault,
    pub(super) faulty: (Nanos, Nanos),
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    stream: usize,
    at: Nanos,
    factor: f64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Served(Unit),
    Send(usize),
}

/// What became of a tenant's requests in a window, per request, in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Lot {
    pub(super) requests: u64,
    /// From the first byte to the answer.
    pub(super) latency: f64,
    /// What an idle, healthy device takes.
    pub(super) idle: f64,
    /// What the engine says that it waited, and for whom.
    pub(super) blamed: BTreeMap<Culprit, f64>,
}

pub(super) struct World {
    engine: Engine,
    now: Nanos,
    machine: Machine,
    streams: Vec<(Stream, Prng)>,
    sent: BTreeMap<u32, Sent>,
    free: Vec<u32>,
    queue: VecDeque<Unit>,
    busy: usize,
    events: BTreeMap<(Nanos, u64), Event>,
    sequence: u64,
    wake_at: Option<Nanos>,
    /// Of whom the lots are kept.
    observed: u32,
    lot: Lot,
}

impl World {
    pub(super) fn new(
        domain: &Domain,
        machine: Machine,
        streams: &[Stream],
        observed: u32,
    ) -> Self {
        let own = |stream: &Stream| (*stream, Prng::new(stream.seed));
        let mut world = Self {
            engine: Engine::new(Nanos::ZERO, domain),
            now: Nanos::ZERO,
            machine,
            streams: streams.iter().map(own).collect(),
            sent: BTreeMap::new(),
            free: (0..4096).rev().collect(),
            queue: VecDeque::new(),
            busy: 0,
            events: BTreeMap::new(),
            sequence: 0,
            wake_at: None,
            observed,
            lot: Lot::default(),
        };
        for (index, stream) in streams.iter().enumerate() {
            world.pause(index, stream.begins);
        }
        world
    }

    /// What became of the observed tenant's requests from one instant to another.
    pub(super) fn lot(&mut self, from: Span, until: Span) -> Lot {
        self.advance(from);
        let before = self.engine.report(self.now);
        self.lot = Lot::default();
        self.advance(until);
        let after = self.engine.report(self.now);
        super::assert_conserved(&after);
        let mut lot = std::mem::take(&mut self.lot);
        let requests = lot.requests.max(1) as f64;
        (lot.latency, lot.idle) = (lot.latency / requests, lot.idle / requests);
        let waited = |report: &DomainReport, culprit: Culprit| -> f64 {
            let is_it = |pair: &&evenkeel_engine::report::Interference| {
                pair.victim == TenantId(self.observed) && pair.culprit == culprit
            };
            report.interference.iter().find(is_it).map_or(0.0, |pair| pair.waited.as_secs_f64())
        };
        for pair in after.interference.iter().filter(|pair| pair.victim.0 == self.observed) {
            let gained = waited(&after, pair.culprit) - waited(&before, pair.culprit);
            lot.blamed.insert(pair.culprit, gained / requests);
        }
        lot
    }

    fn advance(&mut self, until: Span) {
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
                    Event::Served(unit) => self.served(unit),
                    Event::Send(stream) => self.send(stream),
                }
            }
            self.drain();
        }
        self.now = end;
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    /// The stream sends its next request after a time that it draws.
    fn pause(&mut self, index: usize, from: Nanos) {
        let (stream, random) = &mut self.streams[index];
        let (Rhythm::Closed(mean) | Rhythm::Open(mean)) = stream.rhythm;
        let pause = if mean == Span::ZERO { mean } else { random.exponential(mean) };
        self.at(from + pause, Event::Send(index));
    }

    fn send(&mut self, index: usize) {
        let (stream, random) = &mut self.streams[index];
        let Stream { tenant, kind, length, rhythm, .. } = *stream;
        let offset = random.below(1 << 20) * 4096;
        let factor = 1.0 + self.machine.spread * (2.0 * random.unit_f64() - 1.0);
        if matches!(rhythm, Rhythm::Open(_)) {
            self.pause(index, self.now);
        }
        // A client in an open loop that has too much under way leaves the request out.
        let Some(slot) = self.free.pop() else { return };
        self.sent.insert(slot, Sent { stream: index, at: self.now, factor });
        let (tenant, target) = (TenantId(tenant), Target::Server(ServerId(0)));
        let (keeps_room, disk) = (false, 0);
        let request = Request { slot, tenant, target, disk, kind, offset, length, keeps_room };
        self.engine.handle(self.now, Input::Arrive(request));
    }

    fn served(&mut self, unit: Unit) {
        self.busy -= 1;
        self.engine.handle(self.now, Input::Done { unit: unit.unit, ok: true });
        self.start();
    }

    fn start(&mut self) {
        while self.busy < self.machine.at_once {
            let Some(unit) = self.queue.pop_front() else { return };
            self.busy += 1;
            let healthy = self.healthy(self.sent[&unit.slot].factor, unit.length);
            let (from, until) = self.machine.faulty;
            let end = match self.machine.fault {
                Fault::Slow(times) if self.now >= from && self.now < until => {
                    self.now + Span(healthy.0 * u64::from(times))
                }
                Fault::Stall if self.now < until && self.now + healthy > from => {
                    self.now + healthy + until.since(self.now.max(from))
                }
                Fault::None | Fault::Stall | Fault::Slow(_) => self.now + healthy,
            };
            self.at(end, Event::Served(unit));
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
    fn healthy(&self, factor: f64, length: u64) -> Span {
        let Line { fixed, rate_bytes } = self.machine.line;
        let ns = fixed.0 as f64 + length as f64 * 1e9 / rate_bytes as f64;
        Span((ns * factor) as u64)
    }

    fn drain(&mut self) {
        loop {
            match self.engine.poll(self.now) {
                Output::Submit(unit) => {
                    self.queue.push_back(unit);
                    self.start();
                }
                Output::Finish { slot, ok } => {
                    assert!(ok);
                    self.finished(slot);
                }
                Output::WaitUntil(at) => {
                    self.wake_at = Some(at);
                    return;
                }
                Output::Idle => {
                    self.wake_at = None;
                    return;
                }
                output => panic!("no volume, yet {output:?}"),
            }
        }
    }

    fn finished(&mut self, slot: u32) {
        let Sent { stream, at, factor } = self.sent.remove(&slot).unwrap();
        self.free.push(slot);
        let Stream { tenant, length, rhythm, .. } = self.streams[stream].0;
        if tenant == self.observed {
            self.lot.requests += 1;
            self.lot.latency += self.now.since(at).as_secs_f64();
            self.lot.idle += self.healthy(factor, length).as_secs_f64();
        }
        if matches!(rhythm, Rhythm::Closed(_)) {
            self.pause(stream, self.now);
        }
    }
}
