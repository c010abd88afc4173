//! Floors, limits and offered rates: what is promised then, on random problems.

use evenkeel_core::prng::Prng;
use evenkeel_core::share::{
    self, Client, Demand, DeviceId, Discipline, Objective, Problem, ProblemError,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::support::{PUBLISHED, apart, assert_close, backlogged, gain, rates, tiers, usual};

const TOLERANCE: f64 = 1e-9;
const DISCIPLINES: usize = 4;

fn disciplines() -> [Discipline; DISCIPLINES] {
    let program = Discipline::BottleneckAwareByProgram(Objective::Utilisation);
    [PUBLISHED, usual(), program, Discipline::Drf]
}

/// Terms of one client relative to its fair share; the floor is a part of what may be promised.
#[derive(Clone, Copy, Debug)]
struct Terms {
    offered: Option<f64>,
    limit: Option<f64>,
    floor: f64,
}

fn terms(floors: bool) -> impl Strategy<Value = Terms> {
    let decade = || prop::option::of((-1.0..1.0f64).prop_map(|decades| 10f64.powf(decades)));
    let floor = prop_oneof![Just(0.0), Just(0.0), 0.01..1.0f64];
    (decade(), decade(), floor).prop_map(move |(offered, limit, floor)| Terms {
        offered,
        limit,
        floor: if floors { floor } else { 0.0 },
    })
}

/// Two tiers, clients with terms. Floors take 95 % of some device at most.
fn bounded(floors: bool) -> impl Strategy<Value = Problem> {
    (backlogged(), prop::collection::vec(terms(floors), 12)).prop_map(|(problem, terms)| {
        let fair: Vec<f64> = (0..12.min(problem.clients().len()))
            .map(|client| problem.fair_share_iops(client))
            .collect();
        let wanted: Vec<f64> = fair.iter().zip(&terms).map(|(fair, t)| fair * t.floor).collect();
        let most = problem.utilisation(&wanted).into_iter().fold(0.0, f64::max);
        let scale = if most > 0.0 { 0.95 / most } else { 0.0 };
        let client = |index: usize| {
            let (own, fair) = (terms[index], fair[index]);
            let floor_iops = wanted[index] * scale;
            Client {
                offered_iops: own.offered.map_or(f64::INFINITY, |part| part * fair),
                limit_iops: own.limit.map_or(f64::INFINITY, |part| floor_iops.max(part * fair)),
                floor_iops,
                ..problem.clients()[index]
            }
        };
        let capacities: Vec<f64> = problem.devices().map(|d| problem.capacity(d)).collect();
        Problem::new(&capacities, (0..fair.len()).map(client).collect()).unwrap()
    })
}

/// Whoever has not all it may have needs a device that is full.
fn is_work_conserving(problem: &Problem, rates: &[f64]) -> bool {
    let utilisation = problem.utilisation(rates);
    let is_full = |device: &DeviceId| utilisation[device.index()] >= 1.0 - TOLERANCE;
    problem.clients().iter().zip(rates).all(|(client, rate)| {
        *rate >= client.cap_iops() * (1.0 - TOLERANCE)
            || problem.devices().filter(is_full).any(|device| client.demand.on(device) > 0.0)
    })
}

fn respects_capacity_and_caps(problem: &Problem, rates: &[f64]) -> bool {
    let caps = problem.clients().iter().zip(rates).all(|(c, rate)| *rate <= c.cap_iops());
    caps && problem.utilisation(rates).iter().all(|used| *used <= 1.0 + TOLERANCE)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn with_caps_everybody_gets_the_fair_share_or_all_it_asks_for(problem in bounded(false)) {
        for discipline in disciplines() {
            let allocation = share::solve(&problem, discipline, &[]);
            prop_assert_eq!(allocation.fallback, None, "{:?}", discipline);
            let rates = allocation.rates_iops;
            prop_assert!(respects_capacity_and_caps(&problem, &rates), "{discipline:?} {rates:?}");
            prop_assert!(is_work_conserving(&problem, &rates), "{discipline:?} {rates:?}");
            for (client, terms) in problem.clients().iter().enumerate() {
                let entitled = problem.fair_share_iops(client).min(terms.cap_iops());
                prop_assert!(rates[client] >= entitled * (1.0 - TOLERANCE), "{client} {rates:?}");
            }
        }
    }

    #[test]
    fn nobody_who_wants_more_envies_anybody_whatever_the_caps(problem in bounded(false)) {
        for discipline in disciplines() {
            let rates = rates(&problem, discipline);
            for (client, terms) in problem.clients().iter().enumerate() {
                if rates[client] < terms.cap_iops() * (1.0 - TOLERANCE) {
                    let rivals = (0..rates.len()).filter(|&rival| rival != client);
                    let most = rivals.map(|rival| gain(&problem, &rates, client, rival));
                    prop_assert!(most.fold(0.0, f64::max) <= 1.0 + TOLERANCE, "{client} {rates:?}");
                }
            }
        }
    }

    #[test]
    fn admitted_floors_are_met_and_nothing_is_left_idle(problem in bounded(true)) {
        for discipline in disciplines() {
            let allocation = share::solve(&problem, discipline, &[]);
            let rates = allocation.rates_iops;
            prop_assert!(respects_capacity_and_caps(&problem, &rates), "{discipline:?} {rates:?}");
            prop_assert!(is_work_conserving(&problem, &rates), "{discipline:?} {rates:?}");
            for (rate, terms) in rates.iter().zip(problem.clients()) {
                prop_assert!(*rate >= terms.reserved_iops() * (1.0 - TOLERANCE), "{rates:?}");
            }
        }
    }

    #[test]
    fn a_floor_below_what_a_client_gets_anyway_changes_nothing(problem in backlogged()) {
        let discipline = usual();
        let without = rates(&problem, discipline);
        let floor = |(client, rate): (&Client, &f64)| Client { floor_iops: rate * 0.9, ..*client };
        let clients = problem.clients().iter().zip(&without).map(floor).collect();
        let capacities: Vec<f64> = problem.devices().map(|d| problem.capacity(d)).collect();
        let promised = Problem::new(&capacities, clients).unwrap();
        for (a, b) in without.iter().zip(rates(&promised, discipline)) {
            prop_assert!(apart(*a, b) <= TOLERANCE, "{without:?}");
        }
    }
}

#[test]
fn floors_rarely_call_for_drf() {
    let mut runner = TestRunner::deterministic();
    let (mut solved, mut fallbacks) = (0, 0);
    for _ in 0..5_000 {
        let problem = bounded(true).new_tree(&mut runner).unwrap().current();
        for discipline in disciplines() {
            solved += 1;
            fallbacks += u32::from(share::solve(&problem, discipline, &[]).fallback.is_some());
        }
    }
    println!("{fallbacks} of {solved} solves fell back to DRF");
    assert!(fallbacks * 300 < solved, "{fallbacks} of {solved}");
}

#[test]
fn a_thousand_clients_settle_within_the_rounds() {
    let mut prng = Prng::new(11);
    for _ in 0..20 {
        let client = |_| {
            let weight = 1.0 + 8.0 * prng.unit_f64();
            let mut client = Client::backlogged(weight, Demand::hit_ratio(prng.unit_f64()));
            client.limit_iops = 20.0 * prng.unit_f64();
            client.floor_iops = client.limit_iops * 0.01;
            client
        };
        let problem = Problem::new(&[1_000.0, 9_000.0], (0..1_000).map(client).collect()).unwrap();
        for discipline in disciplines() {
            assert_eq!(share::solve(&problem, discipline, &[]).fallback, None, "{discipline:?}");
        }
    }
}

#[test]
fn a_floor_is_taken_from_the_shares_of_the_others() {
    let mut clients = tiers([100.0, 500.0], &[0.0, 0.0, 0.0]).clients().to_vec();
    clients[0].floor_iops = 60.0;
    let problem = Problem::new(&[100.0, 500.0], clients.clone()).unwrap();
    let given = rates(&problem, PUBLISHED);
    assert_close(&given, &[60.0, 20.0, 20.0], 1e-12);
    // It may take a whole device.
    clients[0].floor_iops = 100.0;
    for discipline in disciplines() {
        let given = rates(&Problem::new(&[100.0, 500.0], clients.clone()).unwrap(), discipline);
        assert_close(&given, &[100.0, 0.0, 0.0], 1e-12);
    }
    // Not asked for, it is not kept from anyone.
    clients[0].offered_iops = 10.0;
    let given = rates(&Problem::new(&[100.0, 500.0], clients).unwrap(), PUBLISHED);
    assert_close(&given, &[10.0, 45.0, 45.0], 1e-12);
}

#[test]
fn the_last_client_not_at_its_cap_takes_all_that_is_left() {
    // With the fast client at its cap, its set has no level that could hold back the slow one.
    let mut clients = tiers([10.0, 10.0], &[0.6, 0.5]).clients().to_vec();
    clients[0].limit_iops = 4.0;
    let given = rates(&Problem::new(&[10.0, 10.0], clients).unwrap(), PUBLISHED);
    assert_close(&given, &[4.0, 15.2], 1e-12);
}

#[test]
fn a_choice_of_sides_that_floors_make_unfair_is_undone() {
    let mut clients = tiers([10.0, 10.0], &[0.5, 0.07, 0.500_03, 0.81]).clients().to_vec();
    clients[3].floor_iops = 11.7;
    let problem = Problem::new(&[10.0, 10.0], clients).unwrap();
    let allocation = share::solve(&problem, usual(), &[]);
    assert_eq!(allocation.fallback, None);
    assert_eq!(allocation.sets, [0, 0, 1, 1].map(DeviceId));
}

#[test]
fn a_client_at_its_floor_rises_again_when_others_want_little() {
    let mut clients = tiers([100.0, 500.0], &[0.0, 0.0, 0.0]).clients().to_vec();
    clients[0].floor_iops = 40.0;
    clients[1].limit_iops = 20.0;
    clients[2].offered_iops = 20.0;
    let given = rates(&Problem::new(&[100.0, 500.0], clients).unwrap(), PUBLISHED);
    assert_close(&given, &[60.0, 20.0, 20.0], 1e-12);
}

#[test]
fn floors_that_do_not_fit_one_device_are_refused_for_that_device() {
    let mut clients = tiers([100.0, 5000.0], &[0.5, 0.99]).clients().to_vec();
    clients[0].floor_iops = 150.0;
    clients[1].floor_iops = 3000.0;
    let refusal = Problem::new(&[100.0, 5000.0], clients.clone()).unwrap_err();
    let ProblemError::Floors { device, reserved } = refusal else { panic!("{refusal}") };
    assert!(device == DeviceId(0) && apart(reserved, 1.05) < 1e-9, "{reserved}");
    clients[0].floor_iops = 140.0;
    assert!(Problem::new(&[100.0, 5000.0], clients).is_ok());
}
