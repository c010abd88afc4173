//! What is promised of every allocation, on random problems with weights and with clients that
//! need one device only.

use evenkeel_core::share::{self, Discipline, Objective};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use super::support::{PUBLISHED, apart, backlogged, breaches, rates, total, usual};

const TOLERANCE: f64 = 1e-9;

/// A hundred thousand problems for each claim.
fn many() -> Config {
    let persistence = FileFailurePersistence::WithSource("regressions");
    Config { cases: 100_000, failure_persistence: Some(Box::new(persistence)), ..Config::default() }
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
}
