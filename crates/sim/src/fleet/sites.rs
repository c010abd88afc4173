//! Sites drawn by a seed: gates before a device whose capacity is known, a load in parts of it,
//! goals, words that are lost, networks that part and clocks that are off.
//!
//! Unlike [`draw`](super::draw), where every tenant asks for more than it can have, tenants here
//! ask for what they ask for, at random times, 0.7 to 1.3 of what the device can do in all; at one
//! site of three the last of them always asks besides.

use std::ops::Range;

use evenkeel_core::control::member::Method;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::Share;
use evenkeel_core::time::{Nanos, Span};

use super::{Asks, Client, ClockFault, Fleet, Hosts};
use crate::control::exchange::{Cut, Way};
use crate::device::simple::Constant;
use crate::device::spec::ConstantSpec;

/// How long a run takes.
pub const LENGTH: Span = Span::from_secs(45);

/// When what happens in mid-run begins, in seconds.
pub const TROUBLE_AT: u64 = 16;

/// What happens to a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Nothing but lost words.
    None,
    /// The network parts.
    Cut,
    /// Clocks are off from the start, up to those of a quarter of the gates.
    Off,
    /// A clock is set.
    Step,
}

/// A site. See the [module](self).
#[derive(Clone, Debug)]
pub struct Site {
    /// Its gates and clients.
    pub fleet: Fleet,
    /// Requests that the device serves at once, and in a second.
    pub device: (u32, u64),
    /// What happens.
    pub trouble: Trouble,
    /// In which seconds; those before and after are without it.
    pub during: Range<u64>,
}

impl Site {
    /// The site of a seed, with so many gates at most, which decide by this method.
    pub fn draw(seed: u64, gates_max: u32, method: Method) -> Self {
        let mut prng = Prng::new(seed);
        let gates = one_of(&mut prng, &[2, 5, 10, 30, 60, 100, 200]).min(gates_max);
        let device = one_of(&mut prng, &[(1, 450), (8, 2_000), (64, 20_000)]);
        let kinds = [Trouble::None, Trouble::Cut, Trouble::Off, Trouble::Step];
        Self::of((seed, &mut prng), (gates, device), method, &kinds)
    }

    /// The site of a seed where so many gates hear the sums of others' words, before a device that
    /// does 20 requests a second for each, and one at once for every second. No clock is off.
    pub fn draw_with_sums(seed: u64, gates: u32) -> Self {
        let mut prng = Prng::new(seed);
        let device = (gates.div_ceil(2), 20 * u64::from(gates));
        let kinds = [Trouble::None, Trouble::Cut];
        let mut site = Self::of((seed, &mut prng), (gates, device), Method::Shares, &kinds);
        site.fleet.hears_sums = true;
        site
    }

    fn of(
        (seed, prng): (u64, &mut Prng),
        (gates, device): (u32, (u32, u64)),
        method: Method,
        kinds: &[Trouble],
    ) -> Self {
        let tenants: Vec<Share> = (0..2 + prng.below(5)).map(|_| share(prng, device)).collect();
        let load = one_of(prng, &[0.7, 0.85, 1.0, 1.15, 1.3]);
        let clients = clients(prng, gates, tenants.len(), load * device.1 as f64);
        let lost_milli = one_of(prng, &[0, 0, 50, 200, 500]);
        let way = Way { delay: Span::from_millis(prng.below(40)), lost_milli, twice_milli: 20 };
        let mut fleet = Fleet {
            gates,
            tenants,
            clients,
            method,
            hosts: Hosts::default(),
            length: LENGTH,
            hears_sums: false,
            way,
            cuts: Vec::new(),
            clocks: Vec::new(),
            seed,
        };
        let trouble = one_of(prng, kinds);
        let during = befall(prng, &mut fleet, trouble);
        Self { fleet, device, trouble, during }
    }

    /// Its device.
    pub fn device(&self) -> Constant {
        let (servers, _) = self.device;
        Constant::new(ConstantSpec {
            size_bytes: 64 << 30,
            fixed: self.fixed(),
            rate_bytes: 0,
            servers,
        })
    }

    /// Whether the device does fewer than 20 requests a second for each gate: a period of a gate
    /// has too few to count.
    pub fn is_slow(&self) -> bool {
        self.device.1 < 20 * u64::from(self.fleet.gates)
    }

    /// How long a request takes that does not wait.
    pub fn fixed(&self) -> Span {
        Span(u64::from(self.device.0) * 1_000_000_000 / self.device.1)
    }
}

fn one_of<T: Copy>(prng: &mut Prng, all: &[T]) -> T {
    all[usize::try_from(prng.below(all.len() as u64)).expect("an index")]
}

/// A tenant's share, and its goal of four to sixteen times what a request takes, if it has one.
fn share(prng: &mut Prng, (servers, per_s): (u32, u64)) -> Share {
    let fixed_ms = (u64::from(servers) * 1_000 / per_s).max(2);
    let goal = one_of(prng, &[0, 0, 4, 8, 16]);
    Share {
        weight_milli: one_of(prng, &[1_000, 2_000, 3_000, 10_000]),
        latency_goal: Span::from_millis(goal * fixed_ms),
        ..Share::default()
    }
}

/// Who asks for so many requests a second in all.
fn clients(prng: &mut Prng, gates: u32, tenants: usize, per_s: f64) -> Vec<Client> {
    let parts: Vec<f64> = (0..tenants).map(|_| 0.1 + prng.below(1_000) as f64 / 1e3).collect();
    let all: f64 = parts.iter().sum();
    let is_greedy = prng.below(3) == 0;
    let mut clients = Vec::new();
    for (tenant, part) in (0..).zip(&parts) {
        let at = places(prng, gates);
        let each = at.len() as f64;
        if is_greedy && tenant as usize + 1 == tenants {
            let requests = u32::try_from(600 / at.len() + 1).expect("few");
            clients
                .extend(at.iter().map(|gate| Client::reads(*gate, tenant, Asks::Closed(requests))));
        }
        let asks = Asks::Open(per_s * part / all / each);
        clients.extend(at.into_iter().map(|gate| Client::reads(gate, tenant, asks)));
    }
    clients
}

/// One gate, some, or all.
fn places(prng: &mut Prng, gates: u32) -> Vec<u32> {
    let least = prng.below(u64::from(gates));
    let mut at: Vec<u32> = (0..gates).filter(|_| prng.below(u64::from(gates)) <= least).collect();
    if at.is_empty() {
        at.push(u32::try_from(least).expect("a gate"));
    }
    at
}

/// What is to happen, and in which seconds.
fn befall(prng: &mut Prng, fleet: &mut Fleet, trouble: Trouble) -> Range<u64> {
    let at_s = |seconds| Nanos::ZERO + Span::from_secs(seconds);
    let gates = fleet.gates;
    let gate = |prng: &mut Prng| u32::try_from(prng.below(u64::from(gates))).expect("a gate");
    let hour_ns = |prng: &mut Prng| {
        let ns = Span::from_secs(1 + prng.below(3_600)).0.cast_signed();
        if prng.below(2) == 0 { ns } else { -ns }
    };
    match trouble {
        Trouble::None => TROUBLE_AT..TROUBLE_AT,
        Trouble::Cut => {
            let until = TROUBLE_AT + 5 + prng.below(11);
            let one_side = 1 + gate(prng).min(gates - 2);
            let (during, is_both_ways) = (at_s(TROUBLE_AT)..at_s(until), prng.below(2) == 0);
            fleet.cuts.push(Cut { during, side: 0..one_side, is_both_ways });
            TROUBLE_AT..until
        }
        Trouble::Off => {
            let count = 1 + prng.below(u64::from(gates / 4).max(1));
            let mut clocks: Vec<ClockFault> = (0..count)
                .map(|_| ClockFault { gate: gate(prng), at: Nanos::ZERO, ahead_ns: hour_ns(prng) })
                .collect();
            clocks.sort_unstable_by_key(|fault| fault.gate);
            clocks.dedup_by_key(|fault| fault.gate);
            fleet.clocks = clocks;
            TROUBLE_AT..TROUBLE_AT
        }
        Trouble::Step => {
            let (gate, at, ahead_ns) = (gate(prng), at_s(TROUBLE_AT), hour_ns(prng));
            fleet.clocks.push(ClockFault { gate, at, ahead_ns });
            TROUBLE_AT..TROUBLE_AT + 5
        }
    }
}
