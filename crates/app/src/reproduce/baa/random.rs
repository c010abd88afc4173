//! What is promised of every allocation, on random problems; and what a solve takes.
//!
//! Problems have 2 to 12 clients of random weight, on two devices of 10 to 10,000 IOPS and of a
//! third to a thousand times as much; a quarter of the clients need one device only. The promises
//! are held to their definitions, pair by pair: this file knows no sets, levels or certificates.

use std::time::Instant;

use evenkeel_core::prng::Prng;
use evenkeel_core::share::{self, Client, Demand, Discipline, Objective, Problem};

use super::super::claim::{Claim, Verdict};
use super::fluid::PUBLISHED;
use crate::evidence::machine::Bears;
use crate::human;

/// How far, relatively, rounding may carry an allocation beyond a promise.
const TOLERANCE: f64 = 1e-9;

/// Tenants of the solve that is timed, and what it may take.
const TENANTS: usize = 1_000;
const SOLVE_NS_MAX: u128 = 50_000;
/// Solves of which the fastest is taken: the others measure the machine.
const SOLVES: usize = 400;

/// As it is used by the gate: with a choice of sides at the balance point.
fn usual() -> Discipline {
    Discipline::BottleneckAware(share::BottleneckAware::default())
}

/// Problems in which a promise was broken, and by how much at worst.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    broken: u32,
    worst: f64,
}

impl Tally {
    /// Notes by how much a problem breaks the promise; not at all if that is zero or less.
    fn note(&mut self, breach: f64) {
        self.broken += u32::from(breach > TOLERANCE);
        self.worst = self.worst.max(breach);
    }

    fn claim(self, (id, what, must): (&str, String, &str), count: u32) -> Claim {
        let Self { broken, worst } = self;
        Claim {
            id: id.to_owned(),
            what,
            paper: String::new(),
            measured: format!("{broken} of {count} broken, worst by {worst:.0e}"),
            value: f64::from(broken),
            tolerance: must.to_owned(),
            attainable: None,
            verdict: Verdict::of(broken == 0),
            why: None,
        }
    }
}

/// The claims about `count` random problems.
pub(super) fn claims(count: u32, seed: u64) -> Vec<Claim> {
    let mut prng = Prng::new(seed);
    let [mut capacity, mut incentive, mut envy, mut total, mut program] = [Tally::default(); 5];
    for _ in 0..count {
        let problem = problem(&mut prng);
        let drf = rates(&problem, Discipline::Drf);
        let published = rates(&problem, PUBLISHED);
        let chosen = rates(&problem, usual());
        let worst = |of: &dyn Fn(&[f64]) -> f64| of(&published).max(of(&chosen));
        capacity.note(worst(&|rates| overuse(&problem, rates)));
        incentive.note(worst(&|rates| shortage(&problem, rates)));
        envy.note(worst(&|rates| gain(&problem, rates)));
        let sum = |rates: &[f64]| rates.iter().sum::<f64>();
        total.note(worst(&|rates| 1.0 - sum(rates) / sum(&drf)));
        let optimum = Discipline::BottleneckAwareByProgram(Objective::Throughput);
        program.note(distance(&published, &rates(&problem, optimum)));
    }
    let over = human::count(f64::from(count));
    let claim = |tally: Tally, id: &str, what: &str| {
        tally.claim((id, format!("{over} random problems: {what}"), "none broken"), count)
    };
    vec![
        claim(capacity, "random-capacity", "no device beyond its capacity"),
        claim(incentive, "random-incentive", "nobody below the fair share"),
        claim(envy, "random-envy", "nobody envies anybody"),
        claim(total, "random-total", "no less in all than by DRF"),
        claim(program, "random-program", "closed form equal to the linear program"),
    ]
}

fn rates(problem: &Problem, discipline: Discipline) -> Vec<f64> {
    share::solve(problem, discipline, &[]).rates_iops
}

fn problem(prng: &mut Prng) -> Problem {
    let slow = 10f64.powf(1.0 + 3.0 * prng.unit_f64());
    let fast = slow * 10f64.powf(-0.5 + 3.5 * prng.unit_f64());
    let clients = (0..2 + prng.below(11)).map(|_| client(prng)).collect();
    Problem::new(&[slow, fast], clients).expect("the figures are in range")
}

fn client(prng: &mut Prng) -> Client {
    let hit_ratio = match prng.below(8) {
        0 => 0.0,
        1 => 1.0,
        2 => 1.0 - 10f64.powf(-4.0 * prng.unit_f64()),
        _ => prng.unit_f64(),
    };
    let weight = [1.0, 0.25 + 8.0 * prng.unit_f64()][usize::from(prng.below(2) == 0)];
    Client::backlogged(weight, Demand::hit_ratio(hit_ratio))
}

/// Part by which the busiest device is used beyond itself.
fn overuse(problem: &Problem, rates: &[f64]) -> f64 {
    problem.utilisation(rates).into_iter().fold(0.0, f64::max) - 1.0
}

/// Part by which somebody is below the fair share.
pub(super) fn shortage(problem: &Problem, rates: &[f64]) -> f64 {
    let short = |client: usize| 1.0 - rates[client] / problem.fair_share_iops(client);
    (0..rates.len()).map(short).fold(f64::NEG_INFINITY, f64::max)
}

/// Part by which somebody would be better off with another's bundle, scaled by weight.
pub(super) fn gain(problem: &Problem, rates: &[f64]) -> f64 {
    let clients = problem.clients();
    let gain = |client: usize, rival: usize| {
        let (own, other) = (&clients[client], &clients[rival]);
        let served =
            problem.devices().filter(|&device| own.demand.on(device) > 0.0).map(|device| {
                rates[rival] * other.demand.on(device) * own.weight
                    / other.weight
                    / own.demand.on(device)
            });
        served.fold(f64::INFINITY, f64::min) / rates[client] - 1.0
    };
    let pairs = (0..rates.len()).flat_map(|one| (0..rates.len()).map(move |other| (one, other)));
    let gains = pairs.filter(|(one, other)| one != other).map(|(one, other)| gain(one, other));
    gains.fold(f64::NEG_INFINITY, f64::max)
}

fn distance(one: &[f64], other: &[f64]) -> f64 {
    let apart = |(one, other): (&f64, &f64)| (one - other).abs() / one.max(*other);
    one.iter().zip(other).map(apart).fold(0.0, f64::max)
}

/// The fastest of many solves on one core: nobody sleeps.
pub(super) const BEARS: Bears =
    Bears { cores: 1.0, late_median_ms: 10.0, late_p99_ms: 50.0, uses_disks: false };

/// What solving for many tenants takes. Only a build without debug assertions is held
/// to it.
pub(super) fn solving_time(seed: u64) -> Claim {
    let mut prng = Prng::new(seed);
    let clients = (0..TENANTS).map(|_| client(&mut prng)).collect();
    let problem = Problem::new(&[1_000.0, 20_000.0], clients).expect("the figures are in range");
    let solve = |_| {
        let started = Instant::now();
        std::hint::black_box(share::solve(std::hint::black_box(&problem), usual(), &[]));
        started.elapsed().as_nanos()
    };
    let fastest_ns = (0..SOLVES).map(solve).min().expect("there are solves");
    let is_judged = !cfg!(debug_assertions);
    Claim {
        id: "solving-time".to_owned(),
        what: format!("solving for {} tenants", human::count(TENANTS as f64)),
        paper: String::new(),
        measured: format!("{:.1} us", fastest_ns as f64 / 1e3),
        value: fastest_ns as f64 / 1e9,
        tolerance: format!("<= {} us", SOLVE_NS_MAX / 1000),
        attainable: None,
        verdict: if is_judged { Verdict::of(fastest_ns <= SOLVE_NS_MAX) } else { Verdict::Shown },
        why: (!is_judged).then(|| "only a build without debug assertions is held to it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_promise_is_broken_and_broken_ones_are_seen() {
        for claim in claims(2_000, 7) {
            assert_eq!(claim.verdict, Verdict::Holds, "{claim:?}");
        }
        let mut prng = Prng::new(7);
        let problem = problem(&mut prng);
        let fair = rates(&problem, PUBLISHED);
        let doubled: Vec<f64> = fair.iter().map(|rate| rate * 2.0).collect();
        assert!(overuse(&problem, &doubled) > 0.5);
        let halved: Vec<f64> = fair.iter().map(|rate| rate / 2.5).collect();
        assert!(shortage(&problem, &halved) > 0.0);
        let mut skewed = fair.clone();
        skewed[0] /= 100.0;
        assert!(gain(&problem, &skewed) > 0.0, "{problem:?} {skewed:?}");
    }
}
