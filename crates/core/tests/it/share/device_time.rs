//! Any number of devices, any costs: demands in device time.

use evenkeel_core::share::{self, Client, Demand, Discipline, Objective, Problem};
use proptest::prelude::*;

use super::support::{PUBLISHED, apart, assert_close, breaches, rates, total};

const TOLERANCE: f64 = 1e-9;
const BY_THROUGHPUT: Discipline = Discipline::BottleneckAwareByProgram(Objective::Throughput);
const BY_UTILISATION: Discipline = Discipline::BottleneckAwareByProgram(Objective::Utilisation);

/// Clients with device-seconds per request anywhere within three decades, and sometimes none.
fn device_time(devices: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Problem> {
    let seconds = prop_oneof![
        8 => (-3.0..0.0f64).prop_map(|decades| 10f64.powf(decades)),
        1 => Just(0.0),
    ];
    devices.prop_flat_map(move |count| {
        let demand = prop::collection::vec(seconds.clone(), count)
            .prop_filter("needs a device", |demand| demand.iter().any(|&d| d > 0.0));
        let client = (demand, 1..9u32).prop_map(|(demand, weight)| {
            Client::backlogged(f64::from(weight), Demand::per_request(&demand))
        });
        prop::collection::vec(client, 2..10)
            .prop_map(move |clients| Problem::new(&vec![1.0; count], clients).unwrap())
    })
}

/// What equal levels for all would give: DRF that stops at the first full device.
fn equal_levels(problem: &Problem) -> Vec<f64> {
    let fair: Vec<f64> = (0..problem.clients().len()).map(|i| problem.fair_share_iops(i)).collect();
    let busy = problem.utilisation(&fair).into_iter().fold(0.0, f64::max);
    fair.iter().map(|rate| rate / busy).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30_000))]

    #[test]
    fn all_promises_hold_for_any_number_of_devices_and_any_costs(problem in device_time(1..=8)) {
        for discipline in [PUBLISHED, BY_THROUGHPUT, BY_UTILISATION, Discipline::Drf] {
            let (overuse, short, envy) = breaches(&problem, &rates(&problem, discipline));
            prop_assert!(overuse <= TOLERANCE, "{discipline:?}: overuse {overuse}");
            prop_assert!(short <= TOLERANCE, "{discipline:?}: short by {short}");
            prop_assert!(envy <= TOLERANCE, "{discipline:?}: envy {envy}");
        }
    }

    #[test]
    fn each_objective_is_at_least_what_equal_levels_give(problem in device_time(1..=8)) {
        let equal = equal_levels(&problem);
        let sum = |rates: &[f64]| total(&problem.utilisation(rates));
        let by_throughput = rates(&problem, BY_THROUGHPUT);
        prop_assert!(total(&by_throughput) >= total(&equal) * (1.0 - TOLERANCE));
        prop_assert!(sum(&rates(&problem, BY_UTILISATION)) >= sum(&equal) * (1.0 - TOLERANCE));
    }

    #[test]
    fn over_two_devices_the_closed_form_is_best_by_utilisation(problem in device_time(2..=2)) {
        let (closed, program) = (rates(&problem, PUBLISHED), rates(&problem, BY_UTILISATION));
        for (a, b) in closed.iter().zip(&program) {
            prop_assert!(apart(*a, *b) <= TOLERANCE, "{closed:?} is not {program:?}");
        }
    }

    #[test]
    fn verification_agrees_with_the_definitions(
        problem in device_time(1..=4),
        factors in prop::collection::vec(0.8..1.3f64, 10),
    ) {
        // Somewhere around a fair allocation, so that either verdict is common.
        let fair = rates(&problem, Discipline::Drf);
        let rates: Vec<f64> = fair.iter().zip(&factors).map(|(rate, f)| rate * f).collect();
        let (overuse, short, envy) = breaches(&problem, &rates);
        let promises = share::Promises { entitled_level: 1.0, no_envy: true };
        let verdict = share::verify::verify(&problem, &rates, promises);
        let expected = overuse.max(short).max(envy) <= TOLERANCE;
        prop_assert_eq!(verdict.is_ok(), expected, "{:?}: {} {} {}", verdict, overuse, short, envy);
        let no_promises = share::Promises { entitled_level: 0.0, no_envy: true };
        if let Err(share::Violation::Envy { client, rival, ratio }) =
            share::verify::verify(&problem, &rates, no_promises)
        {
            let gain = super::support::gain(&problem, &rates, client, rival);
            prop_assert!(apart(gain, ratio) < TOLERANCE, "{client} {rival}: {gain} {ratio}");
        }
    }
}

#[test]
fn throughput_at_the_cost_of_a_fair_share_is_not_to_be_had() {
    // The fast set is cheap by the request; without a row for it, client 0 would fall to 24.39.
    let demands = [[0.02, 0.001], [0.0001, 0.0002]];
    let client = |d: &[f64; 2]| Client::backlogged(1.0, Demand::per_request(d));
    let problem = Problem::new(&[1.0, 1.0], demands.iter().map(client).collect()).unwrap();
    let fair: Vec<f64> = (0..2).map(|client| problem.fair_share_iops(client)).collect();
    assert_close(&fair, &[25.0, 2500.0], 1e-12);
    assert_close(&rates(&problem, BY_THROUGHPUT), &[25.0, 4875.0], 1e-9);
    // By utilisation both devices are full: client 0 takes 0.02 a + 0.0001 b = 1 of the first.
    let both_full = rates(&problem, BY_UTILISATION);
    assert_close(&problem.utilisation(&both_full), &[1.0, 1.0], 1e-9);
    assert_close(&rates(&problem, PUBLISHED), &both_full, 1e-9);
}

#[test]
fn the_same_device_in_other_units_gets_the_same_allocation() {
    // 4 ms and 0.1 ms per request are 250 and 10,000 IOPS.
    let hit_ratios = [0.3, 0.9, 0.99, 1.0];
    let by_count = hit_ratios.map(|h| Client::backlogged(1.0, Demand::hit_ratio(h)));
    let by_time = hit_ratios
        .map(|h| Client::backlogged(1.0, Demand::per_request(&[(1.0 - h) * 0.004, h * 0.0001])));
    let by_count = Problem::new(&[250.0, 10_000.0], by_count.to_vec()).unwrap();
    let by_time = Problem::new(&[1.0, 1.0], by_time.to_vec()).unwrap();
    assert_close(&rates(&by_count, PUBLISHED), &rates(&by_time, PUBLISHED), 1e-9);
}
