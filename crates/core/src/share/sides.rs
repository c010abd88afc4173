//! Which set a client near the balance point belongs to.
//!
//! A client that leans on both devices alike is in either set with equal right, but the published
//! rule puts it in the slow one, and one part in a million of hit ratio can then move everybody:
//!
//! ```text
//! capacities 100 and 900 IOPS, hit ratios .5, .99, .99, .99 and one at the balance point, 0.9
//!   a hair below: it is a slow client     the slow device stands at 55 %
//!   a hair above: it is a fast client     100 %
//! ```
//!
//! So clients within a narrow band around the balance point are put where the whole is served best.
//! They are sorted by how fast they lean, and cut in two at every place in turn: a cut keeps every
//! slow client slower than every fast one, which is all that the cone of [`baa`](super::baa) needs
//! to be there. The fair shares do not follow from such a cut, so cuts that would break them are
//! dropped. The plain rule is one of the cuts and never is.
//!
//! **Hysteresis**: with the sets of the last solve at hand, those in the band stay where they were
//! unless another cut is better by more than a given part. Estimates of hit ratios tremble; sets
//! should not.
//!
//! O(n + k log k) with k clients in the band.

use super::baa::{Side, TwoTiers};
use super::problem::{DeviceId, Problem};
use super::tiers::Objective;

/// How clients near the balance point are treated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SideOptions {
    /// Clients whose fractions of the two devices differ by less than this part choose their side;
    /// 0 for the plain rule.
    pub band: f64,
    /// They leave the side of the last solve only for an objective that is better by this part.
    pub hysteresis: f64,
}

impl Default for SideOptions {
    fn default() -> Self {
        Self { band: 0.02, hysteresis: 0.01 }
    }
}

/// Rounding that a level may lie below 1 and still count as a fair share.
const ROUNDING: f64 = 1e-12;
/// A cut must be better than the plain rule by this part to replace it at the first solve.
const BETTER: f64 = 1e-9;

/// The set of every client of a problem of two devices. `previous` holds the sets of the last
/// solve in the same order, or nothing.
pub(super) fn choose(
    problem: &Problem,
    options: SideOptions,
    objective: Objective,
    previous: &[DeviceId],
) -> Vec<DeviceId> {
    let mut sets = problem.bottlenecks().to_vec();
    let near = near(problem, options.band);
    if near.is_empty() {
        return sets;
    }
    let cuts = Cuts::new(problem, near);
    let (cut, best) = cuts.best(objective);
    if !previous.is_empty() {
        let kept = value(&cuts.as_before(problem, previous), objective);
        if kept.is_some_and(|kept| kept * (1.0 + options.hysteresis) >= best) {
            for near in &cuts.near {
                sets[near.client] = previous[near.client];
            }
            return sets;
        }
    }
    for (index, near) in cuts.near.iter().enumerate() {
        sets[near.client] = DeviceId(u8::from(index >= cut));
    }
    sets
}

/// A client in the band.
#[derive(Clone, Copy, Debug)]
struct Near {
    client: usize,
    /// Its fraction of the fast device over that of the slow one, about 1.
    lean: f64,
}

/// The clients in the band, the slowest first.
fn near(problem: &Problem, band: f64) -> Vec<Near> {
    let widest = 1.0 + band;
    let mut near: Vec<Near> = (0..problem.clients().len())
        .filter_map(|client| {
            let [slow, fast, ..] = *problem.fractions(client);
            let is_near = fast < slow * widest && slow < fast * widest;
            is_near.then(|| Near { client, lean: fast / slow })
        })
        .collect();
    near.sort_by(|a, b| a.lean.total_cmp(&b.lean).then(a.client.cmp(&b.client)));
    near
}

/// All ways to cut the band in two, summed up so that each can be judged at once.
struct Cuts {
    near: Vec<Near>,
    /// The clients outside of the band, on the sides where they belong.
    far: [Side; 2],
    /// Slow side of the first so many of the band.
    slow: Vec<Side>,
    /// Fast side of all but the first so many.
    fast: Vec<Side>,
}

impl Cuts {
    fn new(problem: &Problem, near: Vec<Near>) -> Self {
        let mut is_near = vec![false; problem.clients().len()];
        for near in &near {
            is_near[near.client] = true;
        }
        let mut far = [Side::default(); 2];
        for (client, &set) in problem.bottlenecks().iter().enumerate() {
            if !is_near[client] {
                far[set.index()].add(problem, client, set);
            }
        }
        let mut slow = vec![Side::default()];
        let mut fast = vec![Side::default()];
        let grow = |sides: &mut Vec<Side>, client, set| {
            let mut side = sides[sides.len() - 1];
            side.add(problem, client, set);
            sides.push(side);
        };
        for (first, last) in near.iter().zip(near.iter().rev()) {
            grow(&mut slow, first.client, DeviceId(0));
            grow(&mut fast, last.client, DeviceId(1));
        }
        fast.reverse();
        Self { near, far, slow, fast }
    }

    /// The best cut and its value. The plain rule is a cut too, and stands unless beaten.
    fn best(&self, objective: Objective) -> (usize, f64) {
        let plain = self.near.partition_point(|near| near.lean <= 1.0);
        let mut best = (plain, value(&self.at(plain), objective).unwrap_or(0.0));
        for cut in 0..=self.near.len() {
            if let Some(value) = value(&self.at(cut), objective)
                && value > best.1 * (1.0 + BETTER)
            {
                best = (cut, value);
            }
        }
        best
    }

    /// The first so many of the band on the slow side, the rest on the fast one.
    fn at(&self, cut: usize) -> TwoTiers {
        let mut sides = self.far;
        sides[0].join(&self.slow[cut]);
        sides[1].join(&self.fast[cut]);
        TwoTiers { sides, room: [1.0; 2] }
    }

    /// Those of the band where they were at the last solve.
    fn as_before(&self, problem: &Problem, previous: &[DeviceId]) -> TwoTiers {
        let mut sides = self.far;
        for near in &self.near {
            let set = previous[near.client];
            sides[set.index()].add(problem, near.client, set);
        }
        TwoTiers { sides, room: [1.0; 2] }
    }
}

/// What the sides would achieve with everybody backlogged, or none if they leave no cone or break
/// a fair share.
fn value(tiers: &TwoTiers, objective: Objective) -> Option<f64> {
    let [slow, fast] = tiers.sides;
    if slow.steepest * fast.steepest > 1.0 {
        return None;
    }
    let levels = tiers.levels();
    let is_fair = |side: usize| tiers.sides[side].is_empty() || levels[side] >= 1.0 - ROUNDING;
    if !(is_fair(0) && is_fair(1)) {
        return None;
    }
    let used = tiers.used(levels);
    let mut value = 0.0;
    for device in 0..2 {
        // What stays idle goes to those who need nothing else, if there are such.
        let (side, idle) = (tiers.sides[device], (1.0 - used[device]).max(0.0));
        let topped_up = if side.pure.part > 0.0 { idle } else { 0.0 };
        value += match objective {
            Objective::Utilisation => used[device] + topped_up,
            Objective::Throughput if topped_up > 0.0 => {
                side.rate_iops * levels[device] + topped_up / side.pure.part * side.pure.rate_iops
            }
            Objective::Throughput => side.rate_iops * levels[device],
        };
    }
    Some(value)
}
