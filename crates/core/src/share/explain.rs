//! Why everybody gets what it gets, for people.
//!
//! ```text
//! 600.0 IOPS, 1.24 times DRF's 485.7
//! device   capacity   in use   by DRF   level
//!      0      100.0  100.0 %  100.0 %   1.000
//!      1      500.0  100.0 %   77.1 %   1.800
//! alpha 0.556 (1 is DRF)
//! limited by: device 0 full; device 1 full; set 0 must not envy set 1 on device 0; ..
//! client   set   fair share      given     by DRF   held by
//!      0     1        277.8      500.0      357.1   level
//!      1     0        100.0      100.0      128.6   level
//! ```

use std::fmt;

use super::problem::{DeviceId, Problem};
use super::rows::Row;
use super::{Allocation, Violation, drf};

/// How closely a rate must meet a level, floor or cap to be explained by it.
const TOLERANCE: f64 = 1e-9;

/// An allocation beside the fair shares and DRF. Displays as a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// By device.
    pub devices: Vec<DeviceAccount>,
    /// By client.
    pub clients: Vec<ClientAccount>,
    /// Level of the slow set over that of the fast one, if there are two devices and both sets
    /// have levels: 1 is DRF, less is in favour of the fast set.
    pub alpha: Option<f64>,
    /// What limits the levels.
    pub binding: Vec<Row>,
    /// Why DRF had to take over, if it had.
    pub fallback: Option<Violation>,
}

/// One device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceAccount {
    /// Its capacity, in the caller's unit.
    pub capacity: f64,
    /// Part of it that is used.
    pub utilisation: f64,
    /// Part of it that DRF would use.
    pub drf_utilisation: f64,
    /// Fair shares that its set gets.
    pub level: Option<f64>,
}

/// One client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientAccount {
    /// The device that it counts as bound by.
    pub set: DeviceId,
    /// What it would get of equal slices, in requests per second.
    pub fair_share_iops: f64,
    /// What it gets.
    pub given_iops: f64,
    /// What DRF would give.
    pub drf_iops: f64,
    /// What decided.
    pub held_by: HeldBy,
}

/// What decided about a client's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// The level of its set, or its share of what was full first.
    Level,
    /// Its floor, which is more than its share.
    Floor,
    /// Its limit, or that it asks for no more.
    Cap,
    /// What was idle of the only device that it needs.
    TopUp,
}

/// Explains an allocation of this problem.
pub fn explain(problem: &Problem, allocation: &Allocation) -> Explanation {
    let drf = drf::fill(problem).rates_iops;
    let used = problem.utilisation(&allocation.rates_iops);
    let used_by_drf = problem.utilisation(&drf);
    let device = |device: DeviceId| DeviceAccount {
        capacity: problem.capacity(device),
        utilisation: used[device.index()],
        drf_utilisation: used_by_drf[device.index()],
        level: allocation.levels[device.index()],
    };
    let client = |client: usize| ClientAccount {
        set: allocation.sets[client],
        fair_share_iops: problem.fair_share_iops(client),
        given_iops: allocation.rates_iops[client],
        drf_iops: drf[client],
        held_by: held_by(problem, allocation, client),
    };
    Explanation {
        devices: problem.devices().map(device).collect(),
        clients: (0..problem.clients().len()).map(client).collect(),
        alpha: alpha(allocation),
        binding: allocation.binding.clone(),
        fallback: allocation.fallback,
    }
}

fn alpha(allocation: &Allocation) -> Option<f64> {
    match allocation.levels[..] {
        [Some(slow), Some(fast)] => Some(slow / fast),
        _ => None,
    }
}

fn held_by(problem: &Problem, allocation: &Allocation, client: usize) -> HeldBy {
    let (terms, rate) = (&problem.clients()[client], allocation.rates_iops[client]);
    let floor_iops = terms.reserved_iops();
    let set = allocation.sets[client].index();
    let at_level = allocation.levels[set]
        .map(|level| level * problem.part(client) / problem.fractions(client)[set]);
    if rate >= terms.cap_iops() * (1.0 - TOLERANCE) {
        HeldBy::Cap
    } else if at_level.is_some_and(|share| (rate - share).abs() <= TOLERANCE * rate) {
        HeldBy::Level
    } else if floor_iops > 0.0 && rate <= floor_iops * (1.0 + TOLERANCE) {
        HeldBy::Floor
    } else if at_level.is_some() {
        HeldBy::TopUp
    } else {
        HeldBy::Level
    }
}

impl Explanation {
    /// Requests per second of all clients, and what DRF would serve.
    pub fn totals_iops(&self) -> (f64, f64) {
        let given = self.clients.iter().map(|client| client.given_iops).sum();
        (given, self.clients.iter().map(|client| client.drf_iops).sum())
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (given, drf) = self.totals_iops();
        let times = if drf > 0.0 { given / drf } else { 1.0 };
        writeln!(f, "{given:.1} IOPS, {times:.2} times DRF's {drf:.1}")?;
        writeln!(f, "device   capacity   in use   by DRF   level")?;
        for (index, device) in self.devices.iter().enumerate() {
            let DeviceAccount { capacity, utilisation, drf_utilisation, level } = device;
            let (used, by_drf) = (utilisation * 100.0, drf_utilisation * 100.0);
            let level = level.map_or_else(|| "-".to_owned(), |level| format!("{level:.3}"));
            writeln!(f, "{index:>6} {capacity:>10.1} {used:>6.1} % {by_drf:>6.1} % {level:>7}")?;
        }
        if let Some(alpha) = self.alpha {
            writeln!(f, "alpha {alpha:.3} (1 is DRF)")?;
        }
        let limits: Vec<String> = self.binding.iter().map(ToString::to_string).collect();
        writeln!(
            f,
            "limited by: {}",
            if limits.is_empty() { "demand".to_owned() } else { limits.join("; ") }
        )?;
        if let Some(violation) = self.fallback {
            writeln!(f, "DRF took over: {violation}")?;
        }
        writeln!(f, "client   set   fair share      given     by DRF   held by")?;
        for (index, client) in self.clients.iter().enumerate() {
            let ClientAccount { set, fair_share_iops: fair, given_iops, drf_iops, held_by } =
                client;
            writeln!(
                f,
                "{index:>6} {:>5} {fair:>12.1} {given_iops:>10.1} {drf_iops:>10.1}   {held_by}",
                set.0
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Level => "level",
            Self::Floor => "floor",
            Self::Cap => "cap",
            Self::TopUp => "top-up",
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(device) => write!(f, "device {} full", device.0),
            Self::Envy { holder, rival } => {
                let (holder, rival) = (holder.0, rival.0);
                write!(f, "set {holder} must not envy set {rival} on device {holder}")
            }
            Self::SharingIncentive(set) => write!(f, "set {} at its fair share", set.0),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate { client } => write!(f, "client {client} had no proper rate"),
            Self::Capacity { device, utilisation } => {
                write!(f, "device {} was used to {:.6} %", device.0, utilisation * 100.0)
            }
            Self::SharingIncentive { client, ratio } => {
                write!(f, "client {client} got {ratio:.6} of what it is entitled to")
            }
            Self::Envy { client, rival, ratio } => {
                write!(
                    f,
                    "client {client} would get {ratio:.6} times as much from {rival}'s bundle"
                )
            }
            Self::Unsolved => f.write_str("the solver did not come to an end"),
        }
    }
}
