//! The linear-program solver against the plainest method: of all corners, the best.

use evenkeel_core::share::simplex::{Outcome, Program};
use proptest::prelude::*;

const TOLERANCE: f64 = 1e-7;

/// Two variables; small round coefficients, so that degenerate corners, parallel rows and
/// contradictions abound. A last row keeps everything bounded.
fn program() -> impl Strategy<Value = Program> {
    let number = || (-4..=4i32).prop_map(f64::from);
    let nudge = prop_oneof![4 => Just(0.0), 1 => -1e-15..1e-15f64];
    let row = (number(), number(), number(), nudge);
    (number(), number(), prop::collection::vec(row, 0..8)).prop_map(|(x, y, rows)| {
        let mut program = Program { objective: vec![x, y], ..Program::default() };
        for (a, b, right, nudge) in rows {
            program.require(vec![a * (1.0 + nudge), b], right);
        }
        program.require(vec![1.0, 1.0], 100.0);
        program
    })
}

fn value(program: &Program, point: &[f64]) -> f64 {
    program.objective.iter().zip(point).map(|(gain, x)| gain * x).sum()
}

fn is_feasible(program: &Program, point: &[f64], tolerance: f64) -> bool {
    let left = |row: &Vec<f64>| row.iter().zip(point).map(|(a, x)| a * x).sum::<f64>();
    let holds = |(row, right): (&Vec<f64>, &f64)| left(row) <= right + tolerance;
    point.iter().all(|&x| x >= -tolerance) && program.rows.iter().zip(&program.bounds).all(holds)
}

/// The best of all feasible points in which two rows, axes included, meet.
fn best_corner(program: &Program) -> Option<f64> {
    let axes = [(vec![-1.0, 0.0], 0.0), (vec![0.0, -1.0], 0.0)];
    let rows = program.rows.iter().cloned().zip(program.bounds.iter().copied());
    let lines: Vec<(Vec<f64>, f64)> = rows.chain(axes).collect();
    let pairs = lines.iter().flat_map(|one| lines.iter().map(move |other| (one, other)));
    let corners = pairs.filter_map(|((a, right_a), (b, right_b))| {
        let determinant = a[0] * b[1] - a[1] * b[0];
        let x = (right_a * b[1] - a[1] * right_b) / determinant;
        let y = (a[0] * right_b - right_a * b[0]) / determinant;
        let point = [x, y];
        let is_corner = determinant.abs() > 1e-9 && is_feasible(program, &point, 1e-9);
        is_corner.then(|| value(program, &point))
    });
    corners.max_by(f64::total_cmp)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn the_solution_is_the_best_corner_or_there_is_none(program in program()) {
        match (program.solve(), best_corner(&program)) {
            (Outcome::Optimal(point), Some(best)) => {
                prop_assert!(is_feasible(&program, &point, TOLERANCE), "{point:?}");
                let got = value(&program, &point);
                prop_assert!((got - best).abs() <= TOLERANCE * 100.0, "{got} is not {best}");
            }
            (Outcome::Infeasible(weights), None) => {
                let sum = |values: Vec<f64>| {
                    weights.iter().zip(values).map(|(w, v)| w * v).sum::<f64>()
                };
                let scale = weights.iter().fold(0.0, |most: f64, w| most.max(w.abs()));
                for variable in 0..2 {
                    let left = sum(program.rows.iter().map(|row| row[variable]).collect());
                    prop_assert!(left >= -1e-9 * scale, "{weights:?}");
                }
                prop_assert!(weights.iter().all(|&weight| weight >= 0.0), "{weights:?}");
                prop_assert!(sum(program.bounds.clone()) < 0.0, "{weights:?} prove nothing");
            }
            (outcome, best) => prop_assert!(false, "{outcome:?}, but the best corner is {best:?}"),
        }
    }
}
