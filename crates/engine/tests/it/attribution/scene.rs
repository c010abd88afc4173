//! Scenes: who sends what to which device, and what is at fault, drawn by seed.

use std::fmt::Write as _;

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{Depth, Domain, Mode};
use evenkeel_engine::report::Culprit;

use super::world::{Fault, Lot, Machine, Rhythm, Stream, World};
use crate::simulated::domain;

/// Tenants: who is asked, those in nobody's way, and whoever takes most.
pub(super) const VICTIM: u32 = 0;
pub(super) const HOG: u32 = 4;
const TENANTS: [u32; 5] = [1; 5];

/// What is watched begins then.
const WARM_UP: Span = Span::from_secs(6);

/// One scene.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) mode: Mode,
    pub(super) is_calibrated: bool,
    pub(super) machine: Machine,
    pub(super) streams: Vec<Stream>,
    /// Somebody is new in what is watched.
    pub(super) begins: Option<Begins>,
    written: CostModel,
    window: (Span, Span),
}

/// Who is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// Whoever takes most.
    Hog,
    /// Everybody: the gate has just been started.
    All,
}

impl Scene {
    /// The scene of a seed. Every combination of mode and cost comes up in six in a row.
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = Prng::new(seed);
        let mode = [Mode::Observe, Mode::Shadow, Mode::Enforce][(seed % 3) as usize];
        let is_calibrated = seed / 3 % 2 == 1;
        let fault = match seed / 6 % 4 {
            0 => Fault::Slow(3 + random_u32(&mut random, 8)),
            1 => Fault::Stall,
            _ => Fault::None,
        };
        let length = match fault {
            Fault::Stall => Span::from_millis(200 + random.below(1800)),
            _ => Span::from_millis(2000 + random.below(3000)),
        };
        let begin = Nanos(WARM_UP.0);
        let at_once = 1 << random.below(7);
        let line = Line {
            // So that a device that serves more at once does not serve many more in a second.
            fixed: Span((100_000 << random.below(4)) * (1 + at_once / 2)),
            rate_bytes: (20_000_000 << random.below(5)) / at_once,
        };
        let spread = pick(&mut random, [0.0, 0.3, 0.9]);
        let at_once = usize::try_from(at_once).unwrap();
        let machine = Machine { line, at_once, spread, fault, faulty: (begin, begin + length) };
        let window = match fault {
            Fault::None => (WARM_UP, Span(WARM_UP.0 + 6_000_000_000)),
            _ => (WARM_UP, Span(WARM_UP.0 + length.0 + 300_000_000)),
        };
        let streams = streams(&mut random, &machine);
        let written = written(&mut random, &machine);
        Self { mode, is_calibrated, machine, streams, begins: None, written, window }
    }

    /// The same, but that somebody begins in the window.
    pub(super) fn beginning(mut self, who: Begins) -> Self {
        self.begins = Some(who);
        match who {
            Begins::All => self.window = (Span::ZERO, Span(self.window.1.0 - WARM_UP.0)),
            Begins::Hog => {
                let hogs = self.streams.iter_mut().filter(|stream| stream.tenant == HOG);
                hogs.for_each(|stream| stream.begins = Nanos(WARM_UP.0));
            }
        }
        self
    }

    fn domain(&self) -> Domain {
        let mut domain = domain(self.mode, &TENANTS, 1, 16);
        let scheduling = &mut domain.servers[0].1;
        scheduling.depth = Depth::Automatic;
        scheduling.cost = if self.is_calibrated { self.written } else { CostModel::default() };
        scheduling.is_cost_learned = !self.is_calibrated;
        domain
    }

    /// What becomes of the victim's requests.
    pub(super) fn play(&self) -> Lot {
        let (from, until) = self.window;
        World::new(&self.domain(), self.machine, &self.streams, VICTIM).lot(from, until)
    }

    /// The same world without one of those that may be accused.
    pub(super) fn without(&self, accused: Culprit) -> Self {
        let mut scene = self.clone();
        match accused {
            Culprit::Device => scene.machine.fault = Fault::None,
            Culprit::Tenant(one) => scene.streams.retain(|stream| stream.tenant != one.0),
        }
        scene
    }

    /// Tenants beside the victim.
    pub(super) fn others(&self) -> Vec<u32> {
        let mut others: Vec<u32> = self.streams.iter().map(|stream| stream.tenant).collect();
        others.retain(|one| *one != VICTIM);
        others.dedup();
        others
    }

    pub(super) fn describe(&self) -> String {
        let Machine { line, at_once, spread, fault, .. } = self.machine;
        let cost = if self.is_calibrated { "calibrated" } else { "automatic" };
        let mut text = format!(
            "{:?}, {cost}, {at_once} at once, {} and {} MB/s +-{spread}, {fault:?}:",
            self.mode,
            line.fixed,
            line.rate_bytes / 1_000_000
        );
        if let Some(who) = self.begins {
            write!(text, " {who:?} begins,").unwrap();
        }
        for tenant in std::iter::once(VICTIM).chain(self.others()) {
            let own: Vec<&Stream> =
                self.streams.iter().filter(|one| one.tenant == tenant).collect();
            let Stream { length, rhythm, .. } = own[0];
            let (word, pause) = match rhythm {
                Rhythm::Closed(pause) => ("closed", pause),
                Rhythm::Open(pause) => ("open", pause),
            };
            let (count, kilobytes) = (own.len(), length >> 10);
            write!(text, " {tenant}: {count} {word} {kilobytes}K {pause};").unwrap();
        }
        text
    }
}

/// What requests of a length take of one of the device's places.
fn service(machine: &Machine, length: u64) -> f64 {
    machine.line.fixed.0 as f64 + length as f64 * 1e9 / machine.line.rate_bytes as f64
}

fn streams(random: &mut Prng, machine: &Machine) -> Vec<Stream> {
    let mut all = Vec::new();
    let mut add = |random: &mut Prng, tenant: u32, count: u64, length: u64, rhythm: Rhythm| {
        for _ in 0..count {
            let (kind, seed) = (Kind::Read, random.next_u64());
            all.push(Stream { tenant, kind, length, rhythm, begins: Nanos::ZERO, seed });
        }
    };
    // Its part of the device, in an open loop.
    let open = |length: u64, part: f64| {
        Rhythm::Open(span(service(machine, length) / (part * machine.at_once as f64)))
    };
    let thinking = |random: &mut Prng, length: u64| {
        let times = pick(random, [0.0, 1.0, 4.0]);
        Rhythm::Closed(span(service(machine, length) * times))
    };
    let small = 4096 << random.below(3);
    if random.below(3) == 0 {
        add(random, VICTIM, 1, small, open(small, 0.05));
    } else {
        let rhythm = thinking(random, small);
        let count = 1 + random.below(3);
        add(random, VICTIM, count, small, rhythm);
    }
    for tenant in 1..=1 + random_u32(random, 3) {
        let length = 4096 << random.below(4);
        if random.below(2) == 0 {
            let part = 0.02 + 0.1 * random.unit_f64();
            add(random, tenant, 1, length, open(length, part));
        } else {
            let rhythm = thinking(random, length);
            let count = 1 + random.below(4);
            add(random, tenant, count, length, rhythm);
        }
    }
    if machine.fault == Fault::None {
        let length = 65_536 << random.below(3);
        if random.below(3) == 0 {
            let part = 0.4 + 0.25 * random.unit_f64();
            add(random, HOG, 1, length, open(length, part));
        } else {
            let count = machine.at_once as u64 * (1 + random.below(2)) + 2 + random.below(14);
            add(random, HOG, count, length, Rhythm::Closed(Span::ZERO));
        }
    }
    all
}

/// What a calibration finds of it: within a fifth or so.
fn written(random: &mut Prng, machine: &Machine) -> CostModel {
    let off = 0.8 + 0.4 * random.unit_f64();
    let ns = machine.line.fixed.0 as f64 / machine.at_once as f64 * off;
    let rate_bytes = machine.line.rate_bytes * machine.at_once as u64;
    let line = Line { fixed: span(ns), rate_bytes };
    CostModel::Linear { read: line, write: line, flush: line.fixed }
}

/// One of three.
fn pick(random: &mut Prng, from: [f64; 3]) -> f64 {
    from[usize::try_from(random.below(3)).unwrap()]
}

fn random_u32(random: &mut Prng, below: u64) -> u32 {
    u32::try_from(random.below(below)).unwrap()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
fn span(ns: f64) -> Span {
    Span(ns as u64)
}
