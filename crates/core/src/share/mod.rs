//! Who gets how much of several devices at once: allocators that turn demands and capacities into
//! rates.
//!
//! A fair queue in front of one device needs no allocator. With two tiers it is blind: it hands out
//! requests, and a request of one client is a disk seek, of another a flash read. The allocators
//! here look at all devices together, and their rates serve as weights of a scheduler that keeps
//! one virtual time per client over all devices.
//!
//! ```text
//! capacities 100 and 500 IOPS (slow, fast); hit ratios 0.9 and 0.5
//!
//!                     client 0   client 1   slow   fast
//! fair queuing           166.7      166.7   100 %   47 %    counts requests
//! DRF                    357.1      128.6   100 %   77 %    equal dominant shares
//! bottleneck-aware       500.0      100.0   100 %  100 %    as much as nobody minds
//! fair shares            277.8      100.0                   half of each device to each
//! ```
//!
//! What "nobody minds" means is the same for all of them, and is checked after every solve
//! ([`verify`]): nobody gets less than its fair share, and nobody envies another's bundle. An
//! allocation that fails the check is thrown away for that of DRF, which cannot fail, and says so.
//!
//! The chapter in order:
//!
//! - [`problem`], the question;
//! - `fill`, progressive filling, and [`fair_queuing`] and [`drf`] upon it;
//! - `rows`, the linear program of the rest; [`baa`], two tiers in closed form, with `sides` for
//!   the balance point; [`tiers`], any number of devices over the [`simplex`] method;
//! - `settle`, floors and caps; `top_up`, idle devices;
//! - [`verify`] and [`explain`].
//!
//! Floats are used throughout: rates are weights, not instants. Only operations whose rounding
//! IEEE 754 fixes are applied, in a fixed order, so results are the same in every build.

pub mod baa;
pub mod drf;
pub mod explain;
pub mod fair_queuing;
mod fill;
pub mod problem;
mod rows;
mod settle;
mod sides;
pub mod simplex;
pub mod tiers;
mod top_up;
pub mod verify;

use fill::Filled;
use rows::{Levels, Rows};
use settle::Settled;

pub use problem::{Client, DEVICES_MAX, Demand, DeviceId, Problem, ProblemError};
pub use rows::Row;
pub use sides::SideOptions;
pub use tiers::Objective;
pub use verify::{Promises, Violation};

/// How to allocate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Discipline {
    /// Equal requests per weight: [`fair_queuing`].
    FairQueuing,
    /// Equal dominant shares: [`drf`].
    Drf,
    /// Bottleneck-aware: in closed form for two devices ([`baa`]), by linear programming for any
    /// other number ([`tiers`]).
    BottleneckAware(BottleneckAware),
    /// Bottleneck-aware by linear programming throughout. For two devices and cost 1 per request
    /// the result is that of the closed form; with costs in device time this one keeps to its
    /// objective, the closed form to the utilisations.
    BottleneckAwareByProgram(Objective),
}

/// Options of [`Discipline::BottleneckAware`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BottleneckAware {
    /// What decides where there is a choice: between sides at the balance point, and altogether
    /// with three devices and more.
    pub objective: Objective,
    /// How clients near the balance point are treated.
    pub sides: SideOptions,
}

/// Rates, and how they came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// What each client gets, in requests per second; always finite. Zero for who asks for nothing,
    /// and where the floors of others take all of a device.
    pub rates_iops: Vec<f64>,
    /// The set of each client, by the device that it is named after. To be handed to the next
    /// solve.
    pub sets: Vec<DeviceId>,
    /// Fair shares that members of each set get (rho), where the discipline has such levels and
    /// the set has a member that neither floor nor cap holds.
    pub levels: Vec<Option<f64>>,
    /// What limits the levels.
    pub binding: Vec<Row>,
    /// What was wrong with the allocation asked for, if this is DRF in its place. To be counted.
    pub fallback: Option<Violation>,
}

/// Solves a problem. `previous` are the sets of the last solve, one per client in the same order,
/// or empty; they matter only for clients near the balance point. O(n log n) at most, O(n) without
/// floors and caps.
pub fn solve(problem: &Problem, discipline: Discipline, previous: &[DeviceId]) -> Allocation {
    assert!(
        previous.is_empty() || previous.len() == problem.clients().len(),
        "one previous set per client, or none at all"
    );
    assert!(
        previous.iter().all(|set| set.index() < problem.device_count()),
        "previous sets are of the same devices"
    );
    let result = match discipline {
        Discipline::FairQueuing => {
            let promises = Promises { entitled_level: 0.0, no_envy: false };
            verified(problem, promises, filled(problem, fair_queuing::fill(problem)))
        }
        Discipline::Drf => {
            verified(problem, Promises::fair(problem), filled(problem, drf::fill(problem)))
        }
        Discipline::BottleneckAware(options) if problem.device_count() == 2 => {
            in_closed_form(problem, options, previous)
        }
        Discipline::BottleneckAware(BottleneckAware { objective, .. })
        | Discipline::BottleneckAwareByProgram(objective) => {
            let best = |rows: &Rows, least: &Levels| tiers::levels(rows, least, objective);
            by_levels(problem, problem.bottlenecks().to_vec(), best)
        }
    };
    result.unwrap_or_else(|violation| Allocation {
        fallback: Some(violation),
        ..filled(problem, drf::fill(problem))
    })
}

/// Two tiers, first with the sets that are best by choice. Floors were not in sight when those were
/// chosen; if fair shares beside them suffer, the plain sets serve.
fn in_closed_form(
    problem: &Problem,
    BottleneckAware { objective, sides }: BottleneckAware,
    previous: &[DeviceId],
) -> Result<Allocation, Violation> {
    let best = |rows: &Rows, least: &Levels| Some(baa::levels(rows, least));
    let chosen = sides::choose(problem, sides, objective, previous);
    let is_plain = chosen == problem.bottlenecks();
    let allocation = by_levels(problem, chosen, best);
    if is_plain {
        return allocation;
    }
    allocation.or_else(|_| by_levels(problem, problem.bottlenecks().to_vec(), best))
}

/// An allocation by levels of sets, with floors, caps and top-up.
fn by_levels(
    problem: &Problem,
    sets: Vec<DeviceId>,
    best: impl Fn(&Rows, &Levels) -> Option<Levels>,
) -> Result<Allocation, Violation> {
    let settled = settle::settle(problem, &sets, best).ok_or(Violation::Unsolved)?;
    let Settled { mut rates_iops, levels, rows, guaranteed } = settled;
    top_up::top_up(problem, &mut rates_iops);
    let level = |set: DeviceId| rows.is_present(set.index()).then_some(levels[set.index()]);
    let allocation = Allocation {
        rates_iops,
        sets,
        levels: problem.devices().map(level).collect(),
        binding: rows.binding(&levels, guaranteed),
        fallback: None,
    };
    verified(problem, Promises::fair(problem), allocation)
}

fn verified(
    problem: &Problem,
    promises: Promises,
    allocation: Allocation,
) -> Result<Allocation, Violation> {
    verify::verify(problem, &allocation.rates_iops, promises)?;
    Ok(allocation)
}

/// An allocation by progressive filling. It has no levels.
fn filled(problem: &Problem, filled: Filled) -> Allocation {
    let utilisation = problem.utilisation(&filled.rates_iops);
    let is_full = |&(_, utilisation): &(DeviceId, f64)| utilisation >= 1.0 - verify::TOLERANCE;
    let full = problem.devices().zip(utilisation).filter(is_full);
    Allocation {
        rates_iops: filled.rates_iops,
        sets: problem.bottlenecks().to_vec(),
        levels: vec![None; problem.device_count()],
        binding: full.map(|(device, _)| Row::Capacity(device)).collect(),
        fallback: None,
    }
}
