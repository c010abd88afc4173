//! Bottleneck-aware allocation over two tiers in closed form (Wang and Varman, FAST 2014).
//!
//! Two tiers, slow and fast; everybody needs some of both, in proportions of their own. DRF gives
//! everybody the same dominant share, so the device that more clients lean on fills first and the
//! other one idles. BAA lets the clients of the idle device run ahead, as far as nobody minds.
//!
//! The clients fall into two sets by their bottleneck, and each set has one level: how many fair
//! shares its members get. That leaves a program of two unknowns, x and y, and four rows (see
//! `rows`), which can be drawn:
//!
//! ```text
//!  y (fast set)                              P    part of the weights that the set has
//!  |    ray x = mu y      / ray y = q x      H, M what the slow (fast) set needs of the
//!  |        \  |\        /                        other device at level 1
//!  |  fast   \ | \      /                    mu   most slow device per fast of a fast client
//!  |- full - -\|- * - -/- - - -              q    most fast device per slow of a slow client
//!  |          .\   \  /
//!  |         .  \   \/        * = both full:  x = (P_fast room_slow - M room_fast) / det
//!  |   cone     \   /\                        y = (P_slow room_fast - H room_slow) / det
//!  |             \ /  \ slow full             det = P_slow P_fast - H M
//!  +--------------------------- x (slow set)
//! ```
//!
//! Outside the cone between the two rays somebody would be envied. Three cases are left:
//!
//! ```text
//! A  * lies in the cone            both devices are full
//! B  * lies beyond x = mu y        the slow device is full where it meets that ray:
//!                                  the fast client with most misses may not pass the slow ones
//! C  * lies beyond y = q x         the mirror image
//! ```
//!
//! Example: capacities 100 and 500 IOPS, hit ratios 0.9 and 0.5. Case A: levels 1 and 1.8, that is
//! 100 and 500 IOPS, and both devices full; DRF gives 129 and 357 and leaves 23 % of the fast one.
//!
//! # Why it holds
//!
//! - **Sharing incentive.** Where the slow device is full, the fast clients hold at most as much of
//!   it per weight as the slow ones (the cone), so the slow ones hold their part at least: x >= 1.
//!   Likewise y >= 1 where the fast one is full. In case B, y = x / mu > x >= 1, since mu < 1.
//! - **No envy.** All of a set hold the same of what limits them; across sets the cone is the
//!   claim.
//! - **At least DRF on each device.** DRF is the ray x = y, inside the cone. In case B the slow
//!   device is full along the whole line from DRF to the solution, and the use of the fast one
//!   grows along it, because det > 0. So the solution is best for each device, whatever increasing
//!   function of the two utilisations one maximises; with requests of equal cost on both devices
//!   that includes throughput, the sum of what each device delivers.
//!
//! When floors and caps hold some clients at fixed rates, the same is solved for the others and
//! what room they have. Then the fair shares no longer follow, and `guaranteed` says which levels
//! were promised; neither level may fall below.

use super::problem::{DeviceId, Problem};
use super::rows::{Levels, Pure, Rows, quotient};

/// Below this part of its terms, det is rounding: all clients stand at the balance point.
const DETERMINANT_MIN: f64 = 1e-12;

/// One set of the two.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Side {
    /// Part of its bottleneck that the set uses at level 1: its part of the weights.
    pub(super) part: f64,
    /// Part of the other device that it uses at level 1 (H and M above).
    pub(super) spill: f64,
    /// Greatest spill of a member, per weight (q and mu above).
    pub(super) steepest: f64,
    /// Requests per second at level 1.
    pub(super) rate_iops: f64,
    /// Members that need no other device.
    pub(super) pure: Pure,
}

/// The two sets and what room they have, slow first.
#[derive(Clone, Copy, Debug)]
pub(super) struct TwoTiers {
    pub(super) sides: [Side; 2],
    pub(super) room: [f64; 2],
}

impl Side {
    /// Adds a client to the side of device `own`, 0 or 1.
    pub(super) fn add(&mut self, problem: &Problem, client: usize, own: DeviceId) {
        let (part, fractions) = (problem.part(client), problem.fractions(client));
        let inverse = 1.0 / fractions[own.index()];
        let relative = fractions[1 - own.index()] * inverse;
        let is_pure = relative == 0.0;
        self.join(&Self {
            part,
            spill: part * relative,
            steepest: relative,
            rate_iops: part * inverse,
            pure: if is_pure { Pure { part, rate_iops: part * inverse } } else { Pure::default() },
        });
    }

    /// Adds all members of another side of the same device.
    pub(super) fn join(&mut self, other: &Self) {
        self.part += other.part;
        self.spill += other.spill;
        self.steepest = self.steepest.max(other.steepest);
        self.rate_iops += other.rate_iops;
        self.pure.part += other.pure.part;
        self.pure.rate_iops += other.pure.rate_iops;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.part == 0.0
    }
}

impl TwoTiers {
    /// Part of each device that is used at these levels.
    pub(super) fn used(&self, levels: [f64; 2]) -> [f64; 2] {
        let [slow, fast] = self.sides;
        let [x, y] = levels;
        [slow.part * x + fast.spill * y, slow.spill * x + fast.part * y]
    }

    /// The best levels.
    pub(super) fn levels(&self) -> [f64; 2] {
        let [slow, fast] = self.sides;
        let alone = |own: usize| {
            let side = self.sides[own];
            quotient(self.room[own], side.part).min(quotient(self.room[1 - own], side.spill))
        };
        match (slow.is_empty(), fast.is_empty()) {
            (true, true) => [0.0, 0.0],
            (false, true) => [alone(0), 0.0],
            (true, false) => [0.0, alone(1)],
            (false, false) => self.corner(),
        }
    }

    /// The three cases; both sets have members.
    fn corner(&self) -> [f64; 2] {
        let ([slow, fast], [room_slow, room_fast]) = (self.sides, self.room);
        let (mu, q) = (fast.steepest, slow.steepest);
        let determinant = slow.part * fast.part - slow.spill * fast.spill;
        if determinant <= DETERMINANT_MIN * slow.part * fast.part {
            let level =
                (room_slow / (slow.part + fast.spill)).min(room_fast / (slow.spill + fast.part));
            return [level, level];
        }
        let x = (fast.part * room_slow - fast.spill * room_fast) / determinant;
        let y = (slow.part * room_fast - slow.spill * room_slow) / determinant;
        if x < mu * y {
            let y = room_slow / (slow.part * mu + fast.spill);
            [mu * y, y]
        } else if y < q * x {
            let x = room_fast / (slow.spill + fast.part * q);
            [x, q * x]
        } else {
            [x, y]
        }
    }

    /// Lifts whichever level lies below its guarantee, and lowers the other as far as it must.
    fn lifted(&self, levels: [f64; 2], guaranteed: [f64; 2]) -> [f64; 2] {
        let Some(low) = (0..2).find(|&side| levels[side] < guaranteed[side]) else {
            return levels;
        };
        let high = 1 - low;
        let mut lifted = guaranteed;
        if self.sides[high].is_empty() {
            return lifted;
        }
        let rest = |device: usize, own: f64| self.room[device] - own * guaranteed[low];
        let highest = quotient(rest(low, self.sides[low].part), self.sides[high].spill)
            .min(quotient(rest(high, self.sides[low].spill), self.sides[high].part))
            .min(quotient(guaranteed[low], self.sides[high].steepest));
        lifted[high] = lifted[high].max(highest);
        lifted
    }
}

/// The best levels that are nowhere below `guaranteed`, which must satisfy the rows itself.
pub(super) fn levels(rows: &Rows, guaranteed: &Levels) -> Levels {
    let side = |own: usize| Side {
        part: rows.load[own][own],
        spill: rows.load[1 - own][own],
        steepest: rows.envy[1 - own][own],
        rate_iops: rows.rate_iops[own],
        pure: rows.pure[own],
    };
    let tiers = TwoTiers {
        sides: [side(0), side(1)],
        room: [rows.room[0].max(0.0), rows.room[1].max(0.0)],
    };
    let best = tiers.lifted(tiers.levels(), [guaranteed[0], guaranteed[1]]);
    let mut levels = Levels::default();
    levels[..2].copy_from_slice(&best);
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sides whose members are all alike.
    fn tiers(parts: [f64; 2], steepest: [f64; 2]) -> TwoTiers {
        let side = |own: usize| Side {
            part: parts[own],
            spill: parts[own] * steepest[own],
            steepest: steepest[own],
            rate_iops: 1.0,
            pure: Pure::default(),
        };
        TwoTiers { sides: [side(0), side(1)], room: [1.0; 2] }
    }

    #[track_caller]
    fn close(got: [f64; 2], expected: [f64; 2]) {
        let near = (0..2).all(|side| (got[side] - expected[side]).abs() < 1e-12);
        assert!(near, "{got:?} is not {expected:?}");
    }

    #[test]
    fn the_three_cases_are_told_apart() {
        // A: 0.75 x + 0.05 y = 1 and 0.15 x + 0.25 y = 1.
        let both_full = tiers([0.75, 0.25], [0.2, 0.2]);
        close(both_full.levels(), [10.0 / 9.0, 10.0 / 3.0]);
        close(both_full.used(both_full.levels()), [1.0, 1.0]);
        // B: 0.9 x + 0.08 y = 1 would leave x below 0.8 y.
        let slow_full = tiers([0.9, 0.1], [0.0, 0.8]);
        close(slow_full.levels(), [1.0, 1.25]);
        // C is its mirror image.
        let fast_full = tiers([0.1, 0.9], [0.8, 0.0]);
        close(fast_full.levels(), [1.25, 1.0]);
    }

    #[test]
    fn a_set_without_members_has_no_level() {
        close(tiers([1.0, 0.0], [0.5, 0.0]).levels(), [1.0, 0.0]);
        close(tiers([0.0, 1.0], [0.0, 0.5]).levels(), [0.0, 1.0]);
        close(tiers([0.0, 0.0], [0.0, 0.0]).levels(), [0.0, 0.0]);
    }

    #[test]
    fn at_the_balance_point_all_levels_are_one() {
        close(tiers([0.3, 0.7], [1.0, 1.0]).levels(), [1.0, 1.0]);
    }

    #[test]
    fn a_guaranteed_level_is_lifted_at_the_cost_of_the_other() {
        let tiers = tiers([0.75, 0.25], [0.2, 0.2]);
        // 0.75 * 1.2 + 0.05 y = 1 stops the fast set earlier now.
        close(tiers.lifted(tiers.levels(), [1.2, 1.0]), [1.2, 2.0]);
        close(tiers.lifted(tiers.levels(), [1.0, 3.0]), tiers.levels());
    }
}
