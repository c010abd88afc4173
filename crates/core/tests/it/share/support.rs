//! Problems, and the plain definitions that answers are held against.

use evenkeel_core::share::{
    BottleneckAware, Client, Demand, Discipline, Objective, Problem, SideOptions,
};
use proptest::prelude::*;

/// The published rule, without a choice at the balance point.
pub(crate) const PUBLISHED: Discipline = Discipline::BottleneckAware(BottleneckAware {
    objective: Objective::Throughput,
    sides: SideOptions { band: 0.0, hysteresis: 0.0 },
});

/// As people would use it.
pub(crate) fn usual() -> Discipline {
    Discipline::BottleneckAware(BottleneckAware::default())
}

/// Clients of equal weight with these hit ratios over a slow and a fast device.
pub(crate) fn tiers(capacities: [f64; 2], hit_ratios: &[f64]) -> Problem {
    let client = |&h: &f64| Client::backlogged(1.0, Demand::hit_ratio(h));
    Problem::new(&capacities, hit_ratios.iter().map(client).collect()).unwrap()
}

pub(crate) fn rates(problem: &Problem, discipline: Discipline) -> Vec<f64> {
    let allocation = evenkeel_core::share::solve(problem, discipline, &[]);
    assert_eq!(allocation.fallback, None);
    allocation.rates_iops
}

pub(crate) fn total(rates: &[f64]) -> f64 {
    rates.iter().sum()
}

/// Relative difference.
pub(crate) fn apart(a: f64, b: f64) -> f64 {
    let greatest = a.abs().max(b.abs());
    if greatest > 0.0 { (a - b).abs() / greatest } else { 0.0 }
}

#[track_caller]
pub(crate) fn assert_close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    let near = |(&a, &b): (&f64, &f64)| apart(a, b) <= tolerance;
    assert!(got.iter().zip(expected).all(near), "{got:?} is not {expected:?}");
}

/// Worst breach of each promise, by the definitions: parts by which a device is overused, by which
/// a client is below its fair share, and by which one would gain from another's bundle.
pub(crate) fn breaches(problem: &Problem, rates: &[f64]) -> (f64, f64, f64) {
    let overuse = problem.utilisation(rates).iter().map(|u| u - 1.0).fold(-1.0, f64::max);
    let short = (0..rates.len()).map(|i| 1.0 - rates[i] / problem.fair_share_iops(i));
    let pairs = (0..rates.len()).flat_map(|i| (0..rates.len()).map(move |k| (i, k)));
    let gain = pairs.filter(|(i, k)| i != k).map(|(i, k)| gain(problem, rates, i, k) - 1.0);
    (overuse, short.fold(-1.0, f64::max), gain.fold(-1.0, f64::max))
}

/// What `client` could serve with the bundle of `rival`, scaled by weight, over what it serves.
pub(crate) fn gain(problem: &Problem, rates: &[f64], client: usize, rival: usize) -> f64 {
    let (own, other) = (&problem.clients()[client], &problem.clients()[rival]);
    let served = problem.devices().filter(|&device| own.demand.on(device) > 0.0).map(|device| {
        let bundle = rates[rival] * other.demand.on(device) * own.weight / other.weight;
        bundle / own.demand.on(device)
    });
    served.fold(f64::INFINITY, f64::min) / rates[client]
}

/// Capacities of two tiers: 10 to 10,000 IOPS, and a third to a thousand times as much.
pub(crate) fn capacities() -> impl Strategy<Value = [f64; 2]> {
    (1.0..4.0f64, -0.5..3.0f64).prop_map(|(slow, more)| {
        let slow = 10f64.powf(slow);
        [slow, slow * 10f64.powf(more)]
    })
}

/// Hit ratios of a group, in one of three moods: anywhere, round figures with pure clients, or
/// crowded around the balance point.
pub(crate) fn hit_ratios(capacities: [f64; 2]) -> impl Strategy<Value = Vec<f64>> {
    let balance = capacities[1] / (capacities[0] + capacities[1]);
    let round = prop::sample::select(vec![0.0, 0.1, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0]);
    let spread = balance.min(1.0 - balance);
    let near = (-1.0..1.0f64, -4.0..0.0f64).prop_map(move |(sign, decades)| {
        (balance + sign * spread * 10f64.powf(decades)).clamp(0.0, 1.0)
    });
    prop_oneof![
        prop::collection::vec(0.0..1.0f64, 2..12),
        prop::collection::vec(round, 2..12),
        prop::collection::vec(near, 2..12),
    ]
}

/// Two tiers with backlogged clients; weights alike in half of the cases.
pub(crate) fn backlogged() -> impl Strategy<Value = Problem> {
    let whole = capacities().prop_flat_map(|capacities| (Just(capacities), hit_ratios(capacities)));
    let weights =
        prop_oneof![Just(vec![1.0; 12]), prop::collection::vec((1..9u32).prop_map(f64::from), 12),];
    (whole, weights).prop_map(|((capacities, hit_ratios), weights)| {
        let client = |(&h, &w): (&f64, &f64)| Client::backlogged(w, Demand::hit_ratio(h));
        let clients = hit_ratios.iter().zip(&weights).map(client).collect();
        Problem::new(&capacities, clients).unwrap()
    })
}
