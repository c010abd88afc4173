//! From estimates to weights, once per epoch.
//!
//! Every tenant that is there becomes a client of a [`share`](crate::share) problem:
//!
//! ```text
//! demand on a device   part of its requests that go there x mean cost there
//! capacity             what a device serves per second, in the same unit of cost
//! offered              what it sent, if its queue ran dry ([`super::offer`])
//! floor, limit         the greater floor, the lesser limit of requests and bytes / mean size
//! ```
//!
//! The rates of the solution become weights, relative to the greatest. Three kinds of tenants get
//! a weight that is not their rate:
//!
//! - **Who asks for little** is allotted no more than that, so that others have the rest; yet its
//!   weight is what it is entitled to. A burst is then served at once, not at the pace of the calm
//!   before it.
//! - **Who came after the solve** starts with the least that others have per share, until the next
//!   one, which is due soon.
//! - **Whom the floors of others leave nothing** gets a thousandth of its fair share: nobody is to
//!   wait for ever.
//!
//! Floors were admitted for the hit ratios of their day. If those have changed so that the floors
//! no longer fit a device, all are scaled by what does, and it is counted.

use super::ledger::{Terms, WEIGHT_TOP};
use crate::id::TenantId;
use crate::sched::Share;
use crate::share::explain::{Explanation, explain};
use crate::share::problem::reserved_fractions;
use crate::share::{
    self, Allocation, Client, DEVICES_MAX, Demand, DeviceId, Discipline, Problem, ProblemError,
    Promises,
};

/// How far below its cap a rate counts as held by it: rounding.
const AT_CAP: f64 = 1.0 - 1e-9;

/// Part of its fair share that nobody's weight is below.
const LEAST_PART: f64 = 1e-3;

/// Floors that are scaled end this far below what fits, for rounding.
const FLOORS_FIT: f64 = 1.0 - 1e-9;

/// What the solver knows of one tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) tenant: TenantId,
    pub(super) share: Share,
    /// Part of its requests that go to each device.
    pub(super) parts: [f64; DEVICES_MAX],
    /// Cost of a request to each device; at least 1.
    pub(super) mean_costs: [u64; DEVICES_MAX],
    pub(super) mean_size_bytes: u64,
    /// Requests per second at most; none without end.
    pub(super) offered_iops: Option<u64>,
}

impl Asked {
    fn client(&self) -> Client {
        let mut demand = [0.0; DEVICES_MAX];
        for (device, demand) in demand.iter_mut().enumerate() {
            *demand = self.parts[device] * self.mean_costs[device] as f64;
        }
        let of_bytes = |rate_bytes: u64| rate_bytes as f64 / self.mean_size_bytes as f64;
        let bound = |rate: f64| if rate > 0.0 { rate } else { f64::INFINITY };
        let Share { floor, limit, weight_milli, .. } = self.share;
        let limit_iops = bound(limit.rate_iops as f64).min(bound(of_bytes(limit.rate_bytes)));
        let floor_iops = (floor.rate_iops as f64).max(of_bytes(floor.rate_bytes));
        Client {
            weight: f64::from(weight_milli.max(1)),
            demand: Demand::per_request(&demand),
            offered_iops: self.offered_iops.map_or(f64::INFINITY, |iops| iops as f64),
            floor_iops: floor_iops.min(limit_iops),
            limit_iops,
        }
    }
}

/// How often the solver did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Solves.
    pub solves: u64,
    /// Of these, solutions that did not keep their promises, so that those of DRF took their place.
    pub fallbacks: u64,
    /// Solves in which the floors did not fit a device and were scaled.
    pub floors_scaled: u64,
    /// Changes of a tenant's mix of devices that were noticed before its window had passed.
    pub changes: u64,
}

/// The last solve, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Who the clients of the explanation are.
    pub tenants: Vec<TenantId>,
    /// Who gets what, and why; weights are in thousandths, capacities in cost per second.
    pub explanation: Explanation,
    /// The part of their floors that tenants kept; 1 as long as they fit.
    pub floors_kept: f64,
}

/// The solver and what it last found.
#[derive(Clone, Debug)]
pub(super) struct Solver {
    capacities: Vec<f64>,
    discipline: Discipline,
    /// Sets of the last solve by tenant, for those near a balance point.
    sets: Vec<Option<DeviceId>>,
    last: Option<Solved>,
    pub(super) counters: Counters,
}

/// A solve.
#[derive(Clone, Debug)]
struct Solved {
    problem: Problem,
    allocation: Allocation,
    tenants: Vec<TenantId>,
    floors_kept: f64,
    /// Weight per share of who came after: a weight, and the share that has it.
    newcomers: (u32, u32),
}

/// What follows from a solve.
pub(super) struct Outcome {
    /// By tenant in the order asked.
    pub(super) terms: Vec<Terms>,
    /// The rate of a tenant of the greatest weight, in requests per second.
    pub(super) rate_max_iops: f64,
}

impl Solver {
    pub(super) fn new(capacities: Vec<f64>, discipline: Discipline) -> Self {
        let counters = Counters::default();
        Self { capacities, discipline, sets: Vec::new(), last: None, counters }
    }

    /// Solves for the tenants that are there, in the order of their ids.
    pub(super) fn solve(&mut self, asked: &[Asked]) -> Outcome {
        let clients = asked.iter().map(Asked::client).collect();
        let (problem, floors_kept) = self.problem(clients);
        let previous = self.previous(&problem, asked);
        let allocation = share::solve(&problem, self.discipline, &previous);
        self.counters.solves += 1;
        self.counters.fallbacks += u64::from(allocation.fallback.is_some());
        self.counters.floors_scaled += u64::from(floors_kept < 1.0);
        for (asked, &set) in asked.iter().zip(&allocation.sets) {
            let index = asked.tenant.index();
            self.sets.resize(self.sets.len().max(index + 1), None);
            self.sets[index] = Some(set);
        }
        let rates_iops = self.entitled(&problem, &allocation);
        let rate_max_iops = rates_iops.iter().copied().fold(0.0, f64::max);
        let weights = rates_iops.iter().map(|rate| weight(rate / rate_max_iops));
        let terms: Vec<Terms> = weights
            .zip(asked)
            .map(|(weight, asked)| Terms { weight, mean_costs: asked.mean_costs })
            .collect();
        let newcomers = least_per_share(&terms, asked);
        let tenants = asked.iter().map(|asked| asked.tenant).collect();
        self.last = Some(Solved { problem, allocation, tenants, floors_kept, newcomers });
        Outcome { terms, rate_max_iops }
    }

    /// The weight of a tenant that no solve has seen yet.
    pub(super) fn newcomer(&self, share: &Share) -> u32 {
        let (weight, of) = self.last.as_ref().map_or((1, 1), |last| last.newcomers);
        let scaled = u128::from(weight) * u128::from(share.weight_milli) / u128::from(of.max(1));
        u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
    }

    /// The last solve, if there was one.
    pub(super) fn status(&self) -> Option<Status> {
        let Solved { problem, allocation, tenants, floors_kept, .. } = self.last.as_ref()?;
        let explanation = explain(problem, allocation);
        Some(Status { tenants: tenants.clone(), explanation, floors_kept: *floors_kept })
    }

    /// The problem, with floors that fit, and the part of them that is left.
    fn problem(&self, mut clients: Vec<Client>) -> (Problem, f64) {
        let reserved = reserved_fractions(&self.capacities, &clients);
        let most = reserved.into_iter().fold(0.0, f64::max);
        let kept = if most > 1.0 { FLOORS_FIT / most } else { 1.0 };
        for client in &mut clients {
            client.floor_iops *= kept;
        }
        match Problem::new(&self.capacities, clients) {
            Ok(problem) => (problem, kept),
            Err(error) => unreachable_problem(error),
        }
    }

    /// The sets that clients had; for who had none, the one it would be in by itself.
    fn previous(&self, problem: &Problem, asked: &[Asked]) -> Vec<DeviceId> {
        if self.last.is_none() {
            return Vec::new();
        }
        let known = |asked: &Asked| self.sets.get(asked.tenant.index()).copied().flatten();
        let set = |(client, asked)| known(asked).unwrap_or_else(|| problem.bottleneck(client));
        asked.iter().enumerate().map(set).collect()
    }

    /// Rates, but for those who ask for little what they are entitled to.
    fn entitled(&self, problem: &Problem, allocation: &Allocation) -> Vec<f64> {
        let level = match self.discipline {
            Discipline::FairQueuing => None,
            _ => Some(Promises::fair(problem).entitled_level),
        };
        let per_weight = equal_rate(problem, allocation);
        let entitled = |(client, &rate): (usize, &f64)| {
            let terms = &problem.clients()[client];
            let is_modest = rate >= terms.offered_iops * AT_CAP;
            let share = match level {
                _ if !is_modest => 0.0,
                Some(level) => level * problem.fair_share_iops(client),
                None => per_weight * terms.weight,
            };
            rate.max(share).max(problem.fair_share_iops(client) * LEAST_PART)
        };
        allocation.rates_iops.iter().enumerate().map(entitled).collect()
    }
}

/// The greatest rate per weight of those who would take more.
fn equal_rate(problem: &Problem, allocation: &Allocation) -> f64 {
    let of = |(client, rate): (&Client, &f64)| {
        if *rate >= client.offered_iops * AT_CAP { 0.0 } else { rate / client.weight }
    };
    problem.clients().iter().zip(&allocation.rates_iops).map(of).fold(0.0, f64::max)
}

/// The least weight per share: a weight and its share.
fn least_per_share(terms: &[Terms], asked: &[Asked]) -> (u32, u32) {
    let pairs = terms.iter().zip(asked).map(|(t, a)| (t.weight, a.share.weight_milli.max(1)));
    let least = pairs.min_by(|(weight, of), (other_weight, other_of)| {
        let [left, right] = [(weight, other_of), (other_weight, of)];
        let product = |(a, b): (&u32, &u32)| u64::from(*a) * u64::from(*b);
        product(left).cmp(&product(right))
    });
    least.unwrap_or((1, 1))
}

/// A part of the greatest rate as a weight.
fn weight(part: f64) -> u32 {
    let scaled = part * f64::from(WEIGHT_TOP);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let rounded = scaled.round() as u32;
    rounded.clamp(1, WEIGHT_TOP)
}

fn unreachable_problem(error: ProblemError) -> ! {
    unreachable!("capacities are checked at the start, all else is made here: {error}")
}
