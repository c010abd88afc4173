//! A small dense linear-program solver: the simplex method with Bland's rule.
//!
//! ```text
//! maximise  c.x    subject to  A x <= b,  x >= 0
//! ```
//!
//! The program is kept as a **dictionary** (Chvatal, *Linear Programming*, 1983): every basic
//! variable is written in terms of the others, and setting those to zero gives a corner.
//!
//! ```text
//! maximise 3x + 2y          slack s =  4 -  x - y         corner (0,0)
//!   x +  y <= 4             slack t =  6 - 3x - y
//!   3x + y <= 6             gain  z =  0 + 3x + 2y        x may rise until t is 0
//!
//!   pivot x for t           s = 2 + t/3 - 2y/3            corner (2,0), z = 6
//!                           x = 2 - t/3 -  y/3
//!                           z = 6 -  t  +  y              y may rise until s is 0
//!
//!   pivot y for s           z = 9 - t/2 - 3s/2            corner (1,3): nothing helps any more
//! ```
//!
//! Pivots that go nowhere, because several rows meet in one corner, may come around in a circle.
//! **Bland's rule** takes, among the variables that help and among the rows that stop them, those
//! of least number, and so never does (Bland, 1977). But it divides by whatever coefficient it
//! meets, and at a corner of nearly equal rows that is rounding. So the row is chosen by the size
//! of its coefficient, and by Bland's rule only after a number of pivots without progress. Rounding
//! voids the proof all the same: pivots are bounded, and reaching the bound is an outcome.
//!
//! If the origin is not feasible, phase one adds a variable that loosens every row and minimises
//! it. If it cannot reach zero there is no solution, and the dictionary holds the reason: weights
//! of rows whose sum says `0 <= something negative` (Farkas' lemma). They are handed out, so that
//! nobody has to take the word of a tolerance.

/// Coefficients smaller than this part of the greatest beside them are rounding: to pivot on one is
/// to divide by noise. Two nearly equal rows are enough to make one.
const NEGLIGIBLE: f64 = 1e-13;
/// A program whose rows must be loosened by more than this, scaled, has no solution.
const INFEASIBLE: f64 = 1e-10;
/// Rooms, in rows scaled to 1, that differ by less are the same.
const TIED: f64 = 1e-13;
/// Pivots without progress after which one suspects a circle.
const STALLS_MAX: u32 = 20;
/// Far more pivots than programs of this size take.
const PIVOTS_MAX: usize = 1000;

/// A linear program: maximise `objective . x` over `x >= 0` under the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Gain per unit of each variable.
    pub objective: Vec<f64>,
    /// Left sides, one coefficient per variable each.
    pub rows: Vec<Vec<f64>>,
    /// Right sides: row `i` reads `rows[i] . x <= bounds[i]`.
    pub bounds: Vec<f64>,
}

/// What a program came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A best point.
    Optimal(Vec<f64>),
    /// No point meets all rows. The weights, none negative, prove it: the rows summed with them
    /// have no negative coefficient on the left, and a negative number on the right.
    Infeasible(Vec<f64>),
    /// Nothing stops the objective.
    Unbounded,
    /// The bound of pivots was reached.
    GaveUp,
}

impl Program {
    /// Adds the row `left . x <= right`.
    pub fn require(&mut self, left: Vec<f64>, right: f64) {
        assert_eq!(left.len(), self.objective.len(), "one coefficient per variable");
        self.rows.push(left);
        self.bounds.push(right);
    }

    /// Solves the program. The same program gives the same outcome, bit by bit.
    pub fn solve(&self) -> Outcome {
        let mut dictionary = Dictionary::new(self);
        if let Some(outcome) = dictionary.make_feasible(self) {
            return outcome;
        }
        match dictionary.climb() {
            Climb::Top => Outcome::Optimal(dictionary.point(self.objective.len())),
            Climb::Endless => Outcome::Unbounded,
            Climb::GaveUp => Outcome::GaveUp,
        }
    }
}

enum Climb {
    Top,
    Endless,
    GaveUp,
}

/// Variables are numbered: those of the program first, then one slack per row, then the loosening
/// variable of phase one.
struct Dictionary {
    /// Basic variable of each row.
    basic: Vec<usize>,
    /// Variable of each column; all are zero at the present corner.
    nonbasic: Vec<usize>,
    /// Row by row: `basic = value - sum of coefficient * nonbasic`.
    coefficients: Vec<Vec<f64>>,
    values: Vec<f64>,
    /// Gain per unit of each column's variable.
    gains: Vec<f64>,
    /// What each row was divided by.
    scales: Vec<f64>,
}

impl Dictionary {
    fn new(program: &Program) -> Self {
        let variables = program.objective.len();
        let scale = |row: &Vec<f64>| match greatest(row.iter().copied()) {
            0.0 => 1.0,
            most => most,
        };
        let scales: Vec<f64> = program.rows.iter().map(scale).collect();
        let divide = |(row, scale): (&Vec<f64>, &f64)| row.iter().map(|c| c / scale).collect();
        let gain_scale = greatest(program.objective.iter().copied()).max(f64::MIN_POSITIVE);
        Self {
            basic: (variables..variables + program.rows.len()).collect(),
            nonbasic: (0..variables).collect(),
            coefficients: program.rows.iter().zip(&scales).map(divide).collect(),
            values: program.bounds.iter().zip(&scales).map(|(b, scale)| b / scale).collect(),
            gains: program.objective.iter().map(|gain| gain / gain_scale).collect(),
            scales,
        }
    }

    /// Phase one. Gives an outcome if there is no second phase to follow.
    fn make_feasible(&mut self, program: &Program) -> Option<Outcome> {
        let worst =
            (0..self.values.len()).min_by(|&a, &b| self.values[a].total_cmp(&self.values[b]));
        let worst = worst.filter(|&row| self.values[row] < 0.0)?;
        let loosening = program.objective.len() + program.rows.len();
        let gains = std::mem::replace(&mut self.gains, vec![0.0; program.objective.len()]);
        self.gains.push(-1.0);
        self.nonbasic.push(loosening);
        self.coefficients.iter_mut().for_each(|row| row.push(-1.0));
        // The row that is missed most gives way first; then all values are positive.
        self.pivot(worst, program.objective.len());
        // The loosening is never negative, so the climb cannot be endless.
        if matches!(self.climb(), Climb::GaveUp) {
            return Some(Outcome::GaveUp);
        }
        if let Some(row) = self.basic.iter().position(|&variable| variable == loosening) {
            if self.values[row] > INFEASIBLE {
                return Some(Outcome::Infeasible(self.proof(program)));
            }
            let largest = |&a: &usize, &b: &usize| {
                let magnitude = |column: usize| self.coefficients[row][column].abs();
                magnitude(a).total_cmp(&magnitude(b))
            };
            let column = (0..self.nonbasic.len()).max_by(largest)?;
            self.values[row] = 0.0;
            self.pivot(row, column);
        }
        self.drop_column(loosening);
        self.restore_gains(&gains);
        None
    }

    /// The gains of slack variables at the end of phase one are the weights of the proof.
    fn proof(&self, program: &Program) -> Vec<f64> {
        let variables = program.objective.len();
        let weight = |row: usize| {
            let column = self.nonbasic.iter().position(|&v| v == variables + row);
            column.map_or(0.0, |column| (-self.gains[column]).max(0.0) / self.scales[row])
        };
        (0..program.rows.len()).map(weight).collect()
    }

    fn drop_column(&mut self, variable: usize) {
        let column = self.nonbasic.iter().position(|&v| v == variable);
        let column = column.expect("the loosening variable left the basis above");
        self.nonbasic.remove(column);
        self.gains.remove(column);
        self.coefficients.iter_mut().for_each(|row| {
            row.remove(column);
        });
    }

    /// Writes the objective in terms of the present columns.
    fn restore_gains(&mut self, gains: &[f64]) {
        let own = |&variable: &usize| gains.get(variable).copied().unwrap_or(0.0);
        self.gains = self.nonbasic.iter().map(own).collect();
        for (row, variable) in self.basic.iter().enumerate() {
            let gain = own(variable);
            for (column, coefficient) in self.gains.iter_mut().zip(&self.coefficients[row]) {
                *column -= gain * coefficient;
            }
        }
    }

    /// Pivots until nothing helps.
    fn climb(&mut self) -> Climb {
        let mut stalls = 0;
        for _ in 0..PIVOTS_MAX {
            let least = NEGLIGIBLE * greatest(self.gains.iter().copied()).max(1.0);
            let helps = (0..self.gains.len()).filter(|&column| self.gains[column] > least);
            let Some(column) = helps.min_by_key(|&column| self.nonbasic[column]) else {
                return Climb::Top;
            };
            let Some(row) = self.first_to_stop(column, stalls > STALLS_MAX) else {
                return Climb::Endless;
            };
            stalls = if self.room(row, column) > TIED { 0 } else { stalls + 1 };
            self.pivot(row, column);
        }
        Climb::GaveUp
    }

    /// The row whose basic variable reaches zero first when the column's variable rises. Of
    /// several, the one with the greatest coefficient, or Bland's choice if one `is_circling`.
    fn first_to_stop(&self, column: usize, is_circling: bool) -> Option<usize> {
        let coefficient = |row: usize| self.coefficients[row][column];
        let rows = 0..self.basic.len();
        let least = NEGLIGIBLE * greatest(rows.clone().map(coefficient)).max(1.0);
        let stops = rows.filter(|&row| coefficient(row) > least);
        let first = stops.clone().map(|row| self.room(row, column)).min_by(f64::total_cmp)?;
        let tied = stops.filter(|&row| self.room(row, column) <= first + TIED);
        if is_circling {
            return tied.min_by_key(|&row| self.basic[row]);
        }
        let by_size = |&a: &usize, &b: &usize| coefficient(a).total_cmp(&coefficient(b));
        tied.max_by(by_size)
    }

    /// How far the column's variable may rise before the row's is zero.
    fn room(&self, row: usize, column: usize) -> f64 {
        self.values[row].max(0.0) / self.coefficients[row][column]
    }

    /// Exchanges the basic variable of a row for the variable of a column.
    fn pivot(&mut self, row: usize, column: usize) {
        let inverse = 1.0 / self.coefficients[row][column];
        let mut pivot = std::mem::take(&mut self.coefficients[row]);
        pivot[column] = 1.0;
        for coefficient in &mut pivot {
            *coefficient *= inverse;
        }
        self.values[row] *= inverse;
        let value = self.values[row];
        let eliminate = |coefficients: &mut [f64]| {
            let factor = coefficients[column];
            coefficients[column] = 0.0;
            for (coefficient, pivot) in coefficients.iter_mut().zip(&pivot) {
                *coefficient -= factor * pivot;
            }
            factor
        };
        for other in (0..self.basic.len()).filter(|&other| other != row) {
            let factor = eliminate(&mut self.coefficients[other]);
            self.values[other] -= factor * value;
        }
        eliminate(&mut self.gains);
        self.coefficients[row] = pivot;
        std::mem::swap(&mut self.basic[row], &mut self.nonbasic[column]);
    }

    fn point(&self, variables: usize) -> Vec<f64> {
        let mut point = vec![0.0; variables];
        for (&variable, value) in self.basic.iter().zip(&self.values) {
            if variable < variables {
                point[variable] = value.max(0.0);
            }
        }
        point
    }
}

/// The greatest magnitude.
fn greatest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |most: f64, value| most.max(value.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(objective: &[f64], rows: &[(&[f64], f64)]) -> Program {
        let mut program = Program { objective: objective.to_vec(), ..Program::default() };
        for (left, right) in rows {
            program.require(left.to_vec(), *right);
        }
        program
    }

    fn optimum(objective: &[f64], rows: &[(&[f64], f64)]) -> Vec<f64> {
        match program(objective, rows).solve() {
            Outcome::Optimal(point) => point,
            other => panic!("{other:?}"),
        }
    }

    fn close(got: &[f64], expected: &[f64]) {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
        assert!(got.iter().zip(expected).all(near), "{got:?} is not {expected:?}");
    }

    #[test]
    fn the_example_above_ends_at_its_corner() {
        close(&optimum(&[3.0, 2.0], &[(&[1.0, 1.0], 4.0), (&[3.0, 1.0], 6.0)]), &[1.0, 3.0]);
    }

    #[test]
    fn an_origin_that_is_not_feasible_is_left_first() {
        // x >= 1, y >= 2, x + y <= 5, least 2x + y.
        let rows: [(&[f64], f64); 3] =
            [(&[-1.0, 0.0], -1.0), (&[0.0, -1.0], -2.0), (&[1.0, 1.0], 5.0)];
        close(&optimum(&[-2.0, -1.0], &rows), &[1.0, 2.0]);
        close(&optimum(&[1.0, 2.0], &rows), &[1.0, 4.0]);
    }

    #[test]
    fn a_single_feasible_point_is_found() {
        // x + y = 1 by two rows, x = y by two more.
        let rows: [(&[f64], f64); 4] =
            [(&[1.0, 1.0], 1.0), (&[-1.0, -1.0], -1.0), (&[1.0, -1.0], 0.0), (&[-1.0, 1.0], 0.0)];
        close(&optimum(&[1.0, 7.0], &rows), &[0.5, 0.5]);
    }

    #[test]
    fn what_cannot_be_met_is_proved_so() {
        let impossible =
            program(&[1.0, 1.0], &[(&[1.0, 2.0], 3.0), (&[-1.0, 0.0], -2.0), (&[0.0, -4.0], -4.0)]);
        let Outcome::Infeasible(weights) = impossible.solve() else { panic!("it has no solution") };
        assert!(weights.iter().all(|&weight| weight >= 0.0), "{weights:?}");
        let sum = |values: Vec<f64>| weights.iter().zip(values).map(|(w, v)| w * v).sum::<f64>();
        for variable in 0..2 {
            let left = sum(impossible.rows.iter().map(|row| row[variable]).collect());
            assert!(left >= -1e-12, "{left}");
        }
        assert!(sum(impossible.bounds.clone()) < -1e-3);
    }

    #[test]
    fn what_nothing_stops_is_called_unbounded() {
        assert_eq!(program(&[1.0, 0.0], &[(&[-1.0, 1.0], 1.0)]).solve(), Outcome::Unbounded);
        assert_eq!(program(&[0.0], &[]).solve(), Outcome::Optimal(vec![0.0]));
    }

    #[test]
    fn the_classic_circle_is_not_entered() {
        // Beale's program, on which the rule of the steepest gain runs in a circle.
        let rows: [(&[f64], f64); 3] = [
            (&[0.25, -60.0, -0.04, 9.0], 0.0),
            (&[0.5, -90.0, -0.02, 3.0], 0.0),
            (&[0.0, 0.0, 1.0, 0.0], 1.0),
        ];
        close(&optimum(&[0.75, -150.0, 0.02, -6.0], &rows), &[0.04, 0.0, 1.0, 0.0]);
    }
}
