//! What is promised of every allocation, on random problems with weights and with clients that
//! need one device only.

use evenkeel_core::prng::Prng;
use evenkeel_core::share::simplex::{Outcome, Program};
use evenkeel_core::share::{self, Client, Demand, DeviceId, Discipline, Objective, Problem};
use proptest::prelude::*;

use super::support::{PUBLISHED, apart, backlogged, breaches, rates, total, usual};

const TOLERANCE: f64 = 1e-9;

/// A hundred thousand problems for each claim.
fn many() -> ProptestConfig {
    ProptestConfig::with_cases(100_000)
}

proptest! {
    #![proptest_config(many())]

    #[test]
    fn capacity_fair_shares_and_freedom_from_envy_hold(problem in backlogged()) {
        for discipline in [PUBLISHED, usual(), Discipline::Drf] {
            let rates = rates(&problem, discipline);
            let (overuse, short, envy) = breaches(&problem, &rates);
            prop_assert!(overuse <= TOLERANCE, "{discipline:?}: overuse {overuse} by {rates:?}");
            prop_assert!(short <= TOLERANCE, "{discipline:?}: short by {short}: {rates:?}");
            prop_assert!(envy <= TOLERANCE, "{discipline:?}: envy {envy} of {rates:?}");
        }
    }

    #[test]
    fn no_device_and_no_total_is_below_that_of_drf(problem in backlogged()) {
        let drf = rates(&problem, Discipline::Drf);
        let published = rates(&problem, PUBLISHED);
        for (got, least) in problem.utilisation(&published).iter().zip(problem.utilisation(&drf)) {
            prop_assert!(*got >= least - TOLERANCE, "{published:?} against {drf:?}");
        }
        for total_got in [total(&published), total(&rates(&problem, usual()))] {
            prop_assert!(total_got >= total(&drf) * (1.0 - TOLERANCE), "{total_got} {drf:?}");
        }
    }

    #[test]
    fn the_closed_form_is_the_optimum_of_the_program(problem in backlogged()) {
        let closed = share::solve(&problem, PUBLISHED, &[]);
        for objective in [Objective::Throughput, Objective::Utilisation] {
            let discipline = Discipline::BottleneckAwareByProgram(objective);
            let program = share::solve(&problem, discipline, &[]);
            prop_assert_eq!(program.fallback, None);
            for (a, b) in closed.rates_iops.iter().zip(&program.rates_iops) {
                prop_assert!(apart(*a, *b) <= TOLERANCE, "{closed:?} is not {program:?}");
            }
        }
    }

    #[test]
    fn the_closed_form_is_the_optimum_of_the_program_as_published(problem in backlogged()) {
        let outcome = as_published(&problem).solve();
        let Outcome::Optimal(levels) = outcome else { panic!("{outcome:?}") };
        let best: f64 = (0..problem.clients().len())
            .map(|i| levels[problem.bottleneck(i).index()] * problem.fair_share_iops(i))
            .sum();
        // Clients of one device are topped up beyond the program.
        let allocation = share::solve(&problem, PUBLISHED, &[]);
        let closed: f64 = (0..problem.clients().len())
            .map(|i| {
                let level = allocation.levels[problem.bottleneck(i).index()];
                level.unwrap() * problem.fair_share_iops(i)
            })
            .sum();
        prop_assert!(apart(closed, best) <= TOLERANCE, "{closed} is not {best}");
    }

    #[test]
    fn extreme_figures_are_no_exception(
        capacities in (-6.0..9.0f64, -6.0..9.0f64),
        clients in prop::collection::vec((-6.0..6.0f64, -15.0..0.0f64, any::<bool>()), 0..12),
    ) {
        let client = |(weight, miss, is_slow): &(f64, f64, bool)| {
            let miss = 10f64.powf(*miss);
            let hit_ratio = if *is_slow { miss } else { 1.0 - miss };
            Client::backlogged(10f64.powf(*weight), Demand::hit_ratio(hit_ratio))
        };
        let capacities = [10f64.powf(capacities.0), 10f64.powf(capacities.1)];
        let problem = Problem::new(&capacities, clients.iter().map(client).collect()).unwrap();
        for discipline in [PUBLISHED, usual(), Discipline::Drf] {
            let (overuse, short, envy) = breaches(&problem, &rates(&problem, discipline));
            prop_assert!(overuse.max(short).max(envy) <= TOLERANCE, "{overuse} {short} {envy}");
        }
    }

    #[test]
    fn whatever_the_sets_of_the_last_solve_the_promises_hold(
        problem in backlogged(),
        previous in prop::collection::vec((0..2u8).prop_map(DeviceId), 12),
    ) {
        let previous = &previous[..problem.clients().len()];
        let allocation = share::solve(&problem, usual(), previous);
        prop_assert_eq!(allocation.fallback, None);
        let (overuse, short, envy) = breaches(&problem, &allocation.rates_iops);
        prop_assert!(overuse.max(short).max(envy) <= TOLERANCE, "{overuse} {short} {envy}");
        // To stay where one was may cost what the options allow, and no more.
        let best = total(&rates(&problem, usual()));
        prop_assert!(total(&allocation.rates_iops) * 1.01 >= best * (1.0 - TOLERANCE));
    }
}

/// The program of the paper word by word: two levels, capacities, and the two envy rows of every
/// slow client with every fast one.
fn as_published(problem: &Problem) -> Program {
    let [slow, fast] = [0, 1].map(DeviceId);
    let members =
        |set| (0..problem.clients().len()).filter(move |&client| problem.bottleneck(client) == set);
    // What a client uses of a device at level 1.
    let uses = |client: usize, device| {
        problem.fair_share_iops(client) * problem.clients()[client].demand.on(device)
    };
    let sum = |set, device| members(set).map(|client| uses(client, device)).sum::<f64>();
    let rate = |set| members(set).map(|client| problem.fair_share_iops(client)).sum::<f64>();
    let mut program = Program { objective: vec![rate(slow), rate(fast)], ..Program::default() };
    for device in [slow, fast] {
        program.require(vec![sum(slow, device), sum(fast, device)], problem.capacity(device));
    }
    for (i, j) in members(slow).flat_map(|i| members(fast).map(move |j| (i, j))) {
        let per_weight =
            |client: usize, device| uses(client, device) / problem.clients()[client].weight;
        program.require(vec![-per_weight(i, slow), per_weight(j, slow)], 0.0);
        program.require(vec![per_weight(i, fast), -per_weight(j, fast)], 0.0);
    }
    program
}

#[test]
fn every_build_gives_the_same_bits() {
    let mut prng = Prng::new(4);
    let mut digest = 0u64;
    for _ in 0..1_000 {
        let client = |_| {
            let weight = 0.5 + prng.unit_f64();
            let mut client = Client::backlogged(weight, Demand::hit_ratio(prng.unit_f64()));
            client.limit_iops = 3_000.0 * prng.unit_f64();
            client.floor_iops = 0.01 * client.limit_iops;
            client
        };
        let clients: Vec<Client> = (0..8).map(client).collect();
        let problem = Problem::new(&[1_000.0, 5_000.0], clients).unwrap();
        let program = Discipline::BottleneckAwareByProgram(Objective::Throughput);
        for discipline in [Discipline::FairQueuing, Discipline::Drf, usual(), program] {
            for rate in share::solve(&problem, discipline, &[]).rates_iops {
                digest = digest.wrapping_mul(0x0100_0000_01B3) ^ rate.to_bits();
            }
        }
    }
    assert_eq!(digest, RECORDED_DIGEST);
}

const RECORDED_DIGEST: u64 = 12_790_948_463_590_126_041;
