//! Floors and caps around an allocation that knows neither.
//!
//! The levels of [`rows`](super::rows) take everybody for backlogged and nobody for promised
//! anything. Floors and caps (the rate offered, or a limit) come in by holding clients fixed:
//!
//! ```text
//! repeat  repeat  solve for the free clients and the room they have
//!                 hold at its floor whoever fell below it
//!         until nobody did
//!         hold at its cap whoever rose above it, for good; release those at floors
//! until nobody did
//! ```
//!
//! Every round but the last holds someone more, many at once as a rule; so it ends. It is bounded
//! all the same.
//!
//! What is promised survives the rounds:
//!
//! - A client held at its cap uses less than it just did. So the levels just reached still fit, and
//!   are the **guarantee** of the next round: no level ever falls because somebody else was
//!   satisfied. Nobody can then envy a client at its cap.
//! - Floors do take from others. The guarantee falls back to the greatest equal level that fits, at
//!   most 1: the shares that [`drf`](super::drf) would promise beside the same floors.
//!
//! One thing is not: a client held at its floor is no longer in the envy rows, and others may pass
//! it. Verification notices, and DRF serves instead. On random problems with floors of all sizes
//! that take 95 % of a device, that happens about once in a thousand.

use super::problem::{Client, DEVICES_MAX, DeviceId, Problem};
use super::rows::{Levels, Rows};

/// Rounds after which one gives up; even a thousand random clients need few.
const ROUNDS_MAX: usize = 64;

/// Whether a client takes part in the solving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Free,
    AtFloor,
    AtCap,
}

/// An allocation that respects floors and caps.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub(super) rates_iops: Vec<f64>,
    /// Levels of the sets that have free clients; zero for others.
    pub(super) levels: Levels,
    /// The program that was solved last.
    pub(super) rows: Rows,
    /// The level that every set was guaranteed at least.
    pub(super) guaranteed: f64,
}

/// Solves with `solve`, which gets a program and levels to stay above. None if it gave up, or the
/// rounds did not end.
pub(super) fn settle(
    problem: &Problem,
    sets: &[DeviceId],
    solve: impl Fn(&Rows, &Levels) -> Option<Levels>,
) -> Option<Settled> {
    let mut rounds = Rounds::new(problem, sets);
    let mut before = None;
    for _ in 0..ROUNDS_MAX {
        let rows = rounds.rows();
        let equal = rows.equal_level().min(1.0);
        let guaranteed = match before {
            Some(levels) if rows.fits(&levels) => rows.of_present(levels),
            _ => rows.of_present([equal; DEVICES_MAX]),
        };
        let levels = solve(&rows, &guaranteed)?;
        rounds.set_rates(&levels);
        if rounds.hold_at_floors() {
            continue;
        }
        if !rounds.hold_at_caps() {
            let rates_iops = rounds.rates_iops;
            return Some(Settled { rates_iops, levels, rows, guaranteed: equal });
        }
        before = Some(levels);
    }
    None
}

struct Rounds<'a> {
    problem: &'a Problem,
    sets: &'a [DeviceId],
    holds: Vec<Hold>,
    rates_iops: Vec<f64>,
    has_floors: bool,
    has_caps: bool,
}

impl<'a> Rounds<'a> {
    fn new(problem: &'a Problem, sets: &'a [DeviceId]) -> Self {
        let clients = problem.clients();
        Self {
            problem,
            sets,
            holds: vec![Hold::Free; clients.len()],
            rates_iops: vec![0.0; clients.len()],
            has_floors: clients.iter().any(|terms| terms.reserved_iops() > 0.0),
            has_caps: clients.iter().any(|terms| terms.cap_iops().is_finite()),
        }
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new(self.problem.device_count());
        for (client, &hold) in self.holds.iter().enumerate() {
            if hold == Hold::Free {
                rows.add(self.problem, client, self.sets[client]);
            } else {
                rows.take(self.problem, client, self.rates_iops[client]);
            }
        }
        rows
    }

    fn set_rates(&mut self, levels: &Levels) {
        for client in 0..self.holds.len() {
            if self.holds[client] == Hold::Free {
                self.rates_iops[client] = self.at_level(client, levels);
            }
        }
    }

    fn at_level(&self, client: usize, levels: &Levels) -> f64 {
        let set = self.sets[client].index();
        levels[set] * self.problem.part(client) / self.problem.fractions(client)[set]
    }

    /// Holds whoever is below its floor. Whether there was one.
    fn hold_at_floors(&mut self) -> bool {
        self.has_floors
            && self.hold(Hold::AtFloor, |terms, rate| {
                let floor_iops = terms.reserved_iops();
                (rate < floor_iops).then_some(floor_iops)
            })
    }

    /// Holds whoever is above its cap, and frees those at floors if there was one.
    fn hold_at_caps(&mut self) -> bool {
        let any = self.has_caps
            && self.hold(Hold::AtCap, |terms, rate| {
                let cap_iops = terms.cap_iops();
                (rate > cap_iops).then_some(cap_iops)
            });
        for hold in self.holds.iter_mut().filter(|hold| any && **hold == Hold::AtFloor) {
            *hold = Hold::Free;
        }
        any
    }

    /// Fixes the rates of those free clients for which `at` names one. Whether there was one.
    fn hold(&mut self, hold: Hold, at: impl Fn(&Client, f64) -> Option<f64>) -> bool {
        let mut any = false;
        for (client, terms) in self.problem.clients().iter().enumerate() {
            if self.holds[client] == Hold::Free
                && let Some(rate_iops) = at(terms, self.rates_iops[client])
            {
                self.rates_iops[client] = rate_iops;
                self.holds[client] = hold;
                any = true;
            }
        }
        any
    }
}
