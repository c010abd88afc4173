//! Bottleneck-aware allocation over any number of devices, by linear programming.
//!
//! With three devices and more there is no closed form, and two comforts of two devices are gone.
//! The fair shares no longer follow from the envy rows: a set in the middle may be squeezed while
//! others gain. So they are rows of their own here, `level_k >= 1`. And the optimum may depend on
//! what is maximised, which is why one has to say.
//!
//! ```text
//! capacities 100, 1000, 5000 IOPS; clients need (0,.1,.9), (0,.3,.7), (.1,.9,0)
//!
//!                          rates               third client
//!   without those rows     4412   1471   131   its fair share is 333
//!   with them              3500   1167   333
//!   DRF                    2262   1358   407
//! ```
//!
//! The rows are never contradictory: with all levels at 1 everything fits, since no client takes
//! more than its part of any device. The program is solved in `level - guaranteed level`, where
//! that point is the origin and no right side is negative.
//!
//! Unlike with two devices, single devices may be used less than by DRF, and a DRF that goes on
//! after the first full device may even serve more in all. With two devices and cost 1 per request,
//! or by utilisation, the result is that of [`baa`](super::baa).

use super::rows::{Levels, Rows};
use super::simplex::{Outcome, Program};

/// What to have most of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// Requests per second of all clients together.
    #[default]
    Throughput,
    /// The sum of the utilisations of all devices.
    Utilisation,
}

impl Objective {
    /// What one level of a set is worth.
    fn gain(self, rows: &Rows, set: usize) -> f64 {
        match self {
            Self::Throughput => rows.rate_iops[set],
            Self::Utilisation => (0..rows.devices).map(|device| rows.load[device][set]).sum(),
        }
    }
}

/// The best levels that are nowhere below `guaranteed`, which must satisfy the rows itself. None
/// if the solver gave up.
pub(super) fn levels(rows: &Rows, guaranteed: &Levels, objective: Objective) -> Option<Levels> {
    let sets: Vec<usize> = (0..rows.devices).filter(|&set| rows.is_present(set)).collect();
    let program = program(rows, &sets, guaranteed, objective);
    let Outcome::Optimal(above) = program.solve() else {
        return None;
    };
    let mut levels = *guaranteed;
    for (&set, above) in sets.iter().zip(above) {
        levels[set] += above;
    }
    Some(levels)
}

fn program(rows: &Rows, sets: &[usize], guaranteed: &Levels, objective: Objective) -> Program {
    let gains = sets.iter().map(|&set| objective.gain(rows, set)).collect();
    let mut program = Program { objective: gains, ..Program::default() };
    for device in 0..rows.devices {
        let left = sets.iter().map(|&set| rows.load[device][set]).collect();
        let right = rows.room[device] - rows.used(device, guaranteed);
        // Nothing but rounding makes it negative.
        program.require(left, right.max(0.0));
    }
    for &holder in sets {
        for &rival in sets.iter().filter(|&&rival| rival != holder) {
            let envy = rows.envy[holder][rival];
            let coefficient = |&set: &usize| match set {
                _ if set == holder => -1.0,
                _ if set == rival => envy,
                _ => 0.0,
            };
            let right = guaranteed[holder] - envy * guaranteed[rival];
            program.require(sets.iter().map(coefficient).collect(), right.max(0.0));
        }
    }
    program
}
