//! Small problems that show one property each: what goes wrong, and what is done about it.

use evenkeel_core::share::simplex::{Outcome, Program};
use evenkeel_core::share::{
    self, Client, Demand, DeviceId, Discipline, Problem, SideOptions, explain,
};

use super::support::{PUBLISHED, assert_close, rates, tiers, total, usual};

const SLOW: DeviceId = DeviceId(0);
const FAST: DeviceId = DeviceId(1);

#[test]
fn drf_gives_the_example_of_its_paper() {
    let demands =
        [[1.0, 4.0], [3.0, 1.0]].map(|d| Client::backlogged(1.0, Demand::per_request(&d)));
    let problem = Problem::new(&[9.0, 18.0], demands.to_vec()).unwrap();
    assert_close(&rates(&problem, Discipline::Drf), &[3.0, 2.0], 1e-12);
}

/// A hair on either side of the balance point of these capacities.
fn around_balance([slow, fast]: [f64; 2]) -> [f64; 2] {
    [-1e-6, 1e-6].map(|hair| fast / (slow + fast) + hair)
}

#[test]
fn a_hair_at_the_balance_point_moves_everybody_by_the_published_rule() {
    let [below, above] = around_balance([100.0, 500.0]);
    let given = |h| rates(&tiers([100.0, 500.0], &[0.9, 0.5, h]), PUBLISHED);
    assert_close(&given(below), &[1000.0 / 3.0, 200.0 / 3.0, 200.0], 1e-4);
    assert_close(&given(above), &[5000.0 / 23.0, 1800.0 / 23.0, 5400.0 / 23.0], 1e-4);

    let [below, above] = around_balance([100.0, 900.0]);
    let slow_utilisation = |h| {
        let problem = tiers([100.0, 900.0], &[0.5, 0.99, 0.99, 0.99, h]);
        problem.utilisation(&rates(&problem, PUBLISHED))[0]
    };
    assert_close(&[slow_utilisation(below)], &[0.55], 0.01);
    assert_close(&[slow_utilisation(above)], &[1.0], 1e-9);
}

#[test]
fn the_choice_of_sides_takes_the_better_one_and_the_jump_away() {
    for (capacities, others) in
        [([100.0, 500.0], &[0.9, 0.5][..]), ([100.0, 900.0], &[0.5, 0.99, 0.99, 0.99])]
    {
        let with = |h| tiers(capacities, &[others, &[h]].concat());
        let [below, above] = around_balance(capacities).map(with);
        let chosen = [&below, &above].map(|problem| rates(problem, usual()));
        assert_close(&chosen[0], &chosen[1], 1e-3);
        let published = [&below, &above].map(|problem| total(&rates(problem, PUBLISHED)));
        let best = published[0].max(published[1]);
        assert_close(&[total(&chosen[0]), total(&chosen[1])], &[best; 2], 1e-3);
    }
}

#[test]
fn sides_of_the_last_solve_stay_unless_another_cut_is_clearly_better() {
    // The slow side is worse for the last client by 12 %.
    let [below, above] = around_balance([100.0, 500.0]);
    let problem = tiers([100.0, 500.0], &[0.9, 0.5, above]);
    let sets =
        |discipline, previous: &[DeviceId]| share::solve(&problem, discipline, previous).sets;
    assert_eq!(sets(usual(), &[]), [FAST, SLOW, SLOW]);
    assert_eq!(sets(usual(), &[FAST, SLOW, FAST]), [FAST, SLOW, SLOW]);
    let patient = Discipline::BottleneckAware(share::BottleneckAware {
        sides: SideOptions { hysteresis: 0.2, ..SideOptions::default() },
        ..share::BottleneckAware::default()
    });
    assert_eq!(sets(patient, &[FAST, SLOW, FAST]), [FAST, SLOW, FAST]);
    // Outside of the band nobody has a choice, whatever was before.
    let far = tiers([100.0, 500.0], &[0.9, 0.5, below - 0.1]);
    assert_eq!(share::solve(&far, patient, &[SLOW, FAST, FAST]).sets, [FAST, SLOW, SLOW]);
}

#[test]
fn a_client_of_one_device_takes_what_would_stand_idle() {
    let problem = tiers([100.0, 1000.0], &[0.5, 0.5, 0.5, 0.5, 0.95, 1.0]);
    let allocation = share::solve(&problem, PUBLISHED, &[]);
    let levels: Vec<f64> = allocation.levels.iter().flatten().copied().collect();
    // By level alone everyone of the fast set holds 380 of its device: 940 IOPS, 84 % of it.
    assert_close(&levels, &[1.2, 2.28], 1e-9);
    assert_close(&allocation.rates_iops, &[40.0, 40.0, 40.0, 40.0, 400.0, 540.0], 1e-9);
    let explanation = explain::explain(&problem, &allocation);
    assert_eq!(explanation.clients[5].held_by, explain::HeldBy::TopUp);
    assert_eq!(explanation.clients[4].held_by, explain::HeldBy::Level);
    let drf = total(&rates(&problem, Discipline::Drf));
    assert_close(&[total(&allocation.rates_iops), drf], &[1100.0, 1100.0], 1e-9);
}

#[test]
fn padding_ones_requests_pays_under_baa_and_not_under_drf() {
    // A client of hit ratio 0.5 adds reads of the fast device until it looks like 0.775.
    let padding = 0.275 / 0.225;
    let gain = |discipline| {
        let honest = rates(&tiers([100.0, 500.0], &[0.9, 0.5]), discipline)[1];
        let padded = rates(&tiers([100.0, 500.0], &[0.9, 0.775]), discipline)[1];
        padded / (1.0 + padding) / honest
    };
    assert!((1.43..1.45).contains(&gain(PUBLISHED)), "{}", gain(PUBLISHED));
    assert!(gain(Discipline::Drf) < 1.0);
}

/// Three tiers, in which the client of the middle one is easily squeezed.
fn three_tiers() -> Problem {
    let demands = [[0.0, 0.1, 0.9], [0.0, 0.3, 0.7], [0.1, 0.9, 0.0]];
    let client = |d: &[f64; 3]| Client::backlogged(1.0, Demand::per_request(d));
    Problem::new(&[100.0, 1000.0, 5000.0], demands.iter().map(client).collect()).unwrap()
}

#[test]
fn over_three_tiers_the_envy_rows_alone_squeeze_the_middle() {
    // Levels of the slow, middle and fast set, one client each, and the rows that do for two tiers.
    let mut program = Program {
        objective: vec![1000.0 / 3.0, 10_000.0 / 9.0, 50_000.0 / 27.0],
        ..Program::default()
    };
    program.require(vec![1.0 / 3.0, 0.0, 0.0], 1.0);
    program.require(vec![0.3, 1.0 / 3.0, 5.0 / 27.0], 1.0);
    program.require(vec![0.0, 7.0 / 45.0, 1.0 / 3.0], 1.0);
    program.require(vec![0.9, -1.0, 0.0], 0.0);
    program.require(vec![0.0, -1.0, 5.0 / 9.0], 0.0);
    program.require(vec![0.0, 7.0 / 15.0, -1.0], 0.0);
    let Outcome::Optimal(levels) = program.solve() else { panic!("equal levels are feasible") };
    let rates: Vec<f64> = levels.iter().zip(&program.objective).map(|(l, o)| l * o).collect();
    assert_close(&rates, &[130.72, 1470.59, 4411.76], 1e-5);
}

#[test]
fn over_three_tiers_everybody_gets_the_fair_share_all_the_same() {
    let problem = three_tiers();
    let given = rates(&problem, usual());
    assert_close(&given, &[3500.0, 3500.0 / 3.0, 1000.0 / 3.0], 1e-9);
    assert_close(&problem.utilisation(&given), &[1.0 / 3.0, 1.0, 2.38 / 3.0], 1e-9);
    let drf = rates(&problem, Discipline::Drf);
    assert_close(&drf, &[2262.44, 1357.47, 407.24], 1e-5);
    assert_close(&problem.utilisation(&drf), &[0.40724, 1.0, 0.59729], 1e-5);
}

#[test]
fn an_explanation_reads_like_one() {
    let problem = tiers([100.0, 500.0], &[0.9, 0.5]);
    let explanation = explain::explain(&problem, &share::solve(&problem, PUBLISHED, &[]));
    assert_eq!(
        explanation.to_string(),
        "\
600.0 IOPS, 1.24 times DRF's 485.7
device   capacity   in use   by DRF   level
     0      100.0  100.0 %  100.0 %   1.000
     1      500.0  100.0 %   77.1 %   1.800
alpha 0.556 (1 is DRF)
limited by: device 0 full; device 1 full; set 0 must not envy set 1 on device 0; \
set 0 at its fair share
client   set   fair share      given     by DRF   held by
     0     1        277.8      500.0      357.1   level
     1     0        100.0      100.0      128.6   level
"
    );
}
