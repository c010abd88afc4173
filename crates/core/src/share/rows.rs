//! The linear program behind bottleneck-aware allocation, as a small table.
//!
//! Clients with the same bottleneck form a **set**, and a set has one unknown: its **level**, the
//! number of fair shares that each member gets (rho in the paper). A thousand clients thus make a
//! program of as many unknowns as devices. With `u` for fractions and `part` for weights:
//!
//! ```text
//! rate of i in set k          level_k * part_i / u_ik
//! it holds, of device k       level_k * part_i               the same for all of the set
//! it holds, of device r       level_k * part_i * u_ir/u_ik
//!
//! capacity   for each device r   sum over k of load[r][k] * level_k <= room[r]
//! envy       for sets k, l       level_k >= envy[k][l] * level_l
//! ```
//!
//! where `load[r][k]` sums `part_i * u_ir/u_ik` over the set, and `envy[k][l]` is the greatest
//! `u_jk/u_jl` of set l: a member of k holds, per weight, at least as much of its own bottleneck k
//! as any j of another set does. So j's bundle would not serve it better. Inside a set all hold the
//! same of the device that limits them. All coefficients lie between 0 and 1 (a little above for
//! clients put on the other side of the balance point on purpose).
//!
//! Equal levels satisfy every envy row, so with room enough the program is never infeasible.

use super::problem::{DEVICES_MAX, DeviceId, Problem};

/// A level of each set, by the device that the set is named after.
pub(super) type Levels = [f64; DEVICES_MAX];

/// How closely a row must be met to count as binding.
const BINDING_TOLERANCE: f64 = 1e-9;
/// Rounding that a point may be off and still count as feasible.
const ROUNDING: f64 = 1e-12;

/// What limits an allocation at its solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// The device is full.
    Capacity(DeviceId),
    /// Members of the set `holder` must hold no less of their bottleneck than a member of the set
    /// `rival` does: more for `rival` would be envied.
    Envy {
        /// The set that must not be passed on its own bottleneck.
        holder: DeviceId,
        /// The set that is held back.
        rival: DeviceId,
    },
    /// The set gets no more than its guaranteed level, 1 where no floor is in the way.
    SharingIncentive(DeviceId),
}

/// The program over the clients that are still free. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) devices: usize,
    /// By device, then set.
    pub(super) load: [[f64; DEVICES_MAX]; DEVICES_MAX],
    /// By holder, then rival.
    pub(super) envy: [[f64; DEVICES_MAX]; DEVICES_MAX],
    /// Requests per second of a set at level 1.
    pub(super) rate_iops: [f64; DEVICES_MAX],
    /// What is left of each device.
    pub(super) room: [f64; DEVICES_MAX],
    /// Part and rate at level 1 of members that need no other device.
    pub(super) pure: [Pure; DEVICES_MAX],
}

/// Members of a set that need no other device, together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pure {
    pub(super) part: f64,
    pub(super) rate_iops: f64,
}

impl Rows {
    /// A program without clients.
    pub(super) fn new(devices: usize) -> Self {
        Self {
            devices,
            load: [[0.0; DEVICES_MAX]; DEVICES_MAX],
            envy: [[0.0; DEVICES_MAX]; DEVICES_MAX],
            rate_iops: [0.0; DEVICES_MAX],
            room: [1.0; DEVICES_MAX],
            pure: [Pure::default(); DEVICES_MAX],
        }
    }

    /// Adds a free client to a set. It must need the device that the set is named after.
    pub(super) fn add(&mut self, problem: &Problem, client: usize, set: DeviceId) {
        let fractions = problem.fractions(client);
        let (k, part) = (set.index(), problem.part(client));
        let inverse = 1.0 / fractions[k];
        let mut needs_others = false;
        for (r, fraction) in fractions.iter().enumerate().take(self.devices) {
            let relative = if r == k { 1.0 } else { fraction * inverse };
            self.load[r][k] += part * relative;
            self.envy[r][k] = self.envy[r][k].max(relative);
            needs_others |= r != k && relative > 0.0;
        }
        self.rate_iops[k] += part * inverse;
        if !needs_others {
            self.pure[k].part += part;
            self.pure[k].rate_iops += part * inverse;
        }
    }

    /// Takes what a client of fixed rate uses out of the room.
    pub(super) fn take(&mut self, problem: &Problem, client: usize, rate_iops: f64) {
        for (room, fraction) in self.room.iter_mut().zip(problem.fractions(client)) {
            *room -= fraction * rate_iops;
        }
    }

    /// Whether the set has a free member.
    pub(super) fn is_present(&self, set: usize) -> bool {
        self.rate_iops[set] > 0.0
    }

    /// What is used of a device at these levels.
    pub(super) fn used(&self, device: usize, levels: &Levels) -> f64 {
        (0..self.devices).map(|set| self.load[device][set] * levels[set]).sum()
    }

    /// The greatest level that all sets can have alike.
    pub(super) fn equal_level(&self) -> f64 {
        let level = |device: usize| {
            let load: f64 = self.load[device][..self.devices].iter().sum();
            quotient(self.room[device].max(0.0), load)
        };
        (0..self.devices).map(level).fold(f64::INFINITY, f64::min)
    }

    /// These levels for the sets that have members; zero for the others.
    pub(super) fn of_present(&self, levels: Levels) -> Levels {
        std::array::from_fn(|set| if self.is_present(set) { levels[set] } else { 0.0 })
    }

    /// Whether the levels fit into the room, up to rounding.
    pub(super) fn fits(&self, levels: &Levels) -> bool {
        (0..self.devices).all(|device| self.used(device, levels) <= self.room[device] + ROUNDING)
    }

    /// The rows that these levels meet exactly, given the level that every set was guaranteed.
    pub(super) fn binding(&self, levels: &Levels, guaranteed: f64) -> Vec<Row> {
        let id = |index: usize| DeviceId(u8::try_from(index).expect("there are few devices"));
        let sets = || (0..self.devices).filter(|&set| self.is_present(set));
        let full = (0..self.devices)
            .filter(|&device| self.used(device, levels) >= self.room[device] - BINDING_TOLERANCE);
        let mut rows: Vec<Row> = full.map(|device| Row::Capacity(id(device))).collect();
        for holder in sets() {
            for rival in sets().filter(|&rival| rival != holder) {
                let claim = self.envy[holder][rival] * levels[rival];
                if levels[holder] <= claim * (1.0 + BINDING_TOLERANCE) {
                    rows.push(Row::Envy { holder: id(holder), rival: id(rival) });
                }
            }
        }
        let least = sets().filter(|&set| levels[set] <= guaranteed * (1.0 + BINDING_TOLERANCE));
        rows.extend(least.map(|set| Row::SharingIncentive(id(set))));
        rows
    }
}

/// A quotient of amounts that are not negative; infinite where nothing divides.
pub(super) fn quotient(amount: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { amount / divisor } else { f64::INFINITY }
}
