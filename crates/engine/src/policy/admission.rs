//! Whether the floors fit: what is promised at a device, in its time, against what it has.
//!
//! Where the policy leaves costs to the gate, what was measured last is the cost model
//! ([`Measured`]). Before anything was, nobody can tell.
//!
//! A floor binds every device that its tenant can come to ([`Policy::reach`]), for nobody knows
//! where the tenant will ask for it. What it takes there follows from the cost model:
//!
//! ```text
//! floor "500 iops", requests of 16 KiB that take 100 us + 16 KiB / (500 MiB/s) = 131 us
//! 500/s * 131 us = 6.6 % of the device
//! ```
//!
//! The policy alone does not tell how large requests are, whether they read or write, and on which
//! tier of a volume they fall. Whoever knows ([`Load`], as from a recorded trace) says so; what
//! nobody knows makes a range, from the least that the floor can take to the most:
//!
//! | not known | least | most |
//! |---|---|---|
//! | the size | 4 KiB for a floor in requests, units for one in bytes, else the ratio | the same |
//! | the direction | the cheaper one | the dearer one |
//! | the tier, or the server of a group with total shares | nothing falls on it | all does |
//! | what the cache of a store answers, where it has a queue of its own | all of it | nothing |
//!
//! A device **holds** if the most of all its tenants fits, **fails** if not even the least does,
//! and else it **depends**. For a [`Pool`] of devices over which a floor counts once, the least on
//! each says nothing, since what does not fall on one falls on another. Whatever parts the requests
//! fall into, the busiest device of the pool is busy for at least
//!
//! ```text
//! sum over tenants of the least over devices j of y_j * (time that the floor takes, all on j)
//! ```
//!
//! for any y >= 0 with a sum of 1 (the dual of the best placement). With `y_j` in inverse
//! proportion to what all floors would take on j this is exact if the devices rank the tenants
//! alike.

use std::collections::BTreeMap;

use super::{Backend, Group, Policy, Reach, Sharing, Tenant};
use crate::cost::measured::Measured;
use crate::cost::{CostModel, Line};

/// What was measured of backends, by name.
pub type Measurements = BTreeMap<String, Measured>;

/// The request size for which a floor in requests is reckoned if none is known: the smallest that
/// is common.
pub const FLOOR_REQUEST_BYTES: u64 = 4 << 10;

/// Floors may exceed a device by this part: rounding, not policy.
const TOLERANCE: f64 = 1e-9;

/// What is known of a tenant's requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Their mean size.
    pub size_bytes: Option<u64>,
    /// The part of them that reads, 0 to 1.
    pub reads: Option<f64>,
    /// The part of them that falls on each tier of the volume that they go to, each 0 to 1.
    pub tiers: Option<Vec<f64>>,
}

/// Parts of a device: 1 is all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// The least that it can be.
    pub least: f64,
    /// The most that it can be.
    pub most: f64,
}

/// What one tenant's floor takes of one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reservation {
    /// The tenant's position in the policy.
    pub tenant: usize,
    /// What it takes.
    pub part: Range,
}

/// The verdict for one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The backend's position in the policy.
    pub backend: usize,
    /// The devices with which it serves floors together.
    pub pool: Option<PoolId>,
    /// What it has.
    pub capacity: Capacity,
    /// What is promised of it, most first; only tenants with a floor.
    pub reservations: Vec<Reservation>,
}

/// Devices over which a floor counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolId {
    /// The tiers of the volume at this position among the backends.
    Volume(usize),
    /// The servers of the group at this position, whose shares are total.
    Group(usize),
}

/// The verdict for a pool as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool {
    /// Which one.
    pub id: PoolId,
    /// How busy the floors make its busiest device at least, wherever the requests fall.
    pub least: f64,
}

/// What a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// A second of service per second.
    DeviceTime,
    /// So many requests per second, which cost alike.
    Requests(u64),
    /// Requests cost alike, and nobody says how many there may be.
    Unknown,
    /// What requests take is for the gate to find, and nothing was measured yet.
    Unmeasured,
}

/// Whether floors fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Whatever the requests are like.
    Holds,
    /// It depends on what the requests are like.
    Depends,
    /// Nobody can tell: the capacity is not known, or nothing was measured yet.
    Unknown,
    /// In no case.
    Fails,
}

/// The verdict on all promises of rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// One for each backend that is no volume, in the policy's order.
    pub devices: Vec<Device>,
    /// One for each volume, then one for each group whose shares are total, in the policy's
    /// order.
    pub pools: Vec<Pool>,
}

impl Range {
    fn plus(self, other: Self) -> Self {
        Self { least: self.least + other.least, most: self.most + other.most }
    }

    fn outcome(self) -> Outcome {
        match self {
            Self { most, .. } if most <= 1.0 + TOLERANCE => Outcome::Holds,
            Self { least, .. } if least <= 1.0 + TOLERANCE => Outcome::Depends,
            _ => Outcome::Fails,
        }
    }
}

impl Device {
    /// What all floors take together.
    pub fn reserved(&self) -> Range {
        self.reservations.iter().fold(Range::default(), |sum, one| sum.plus(one.part))
    }

    /// Whether the floors fit.
    pub fn outcome(&self) -> Outcome {
        let is_unknown = matches!(self.capacity, Capacity::Unknown | Capacity::Unmeasured);
        if is_unknown && !self.reservations.is_empty() {
            return Outcome::Unknown;
        }
        self.reserved().outcome()
    }
}

impl Pool {
    /// Whether there is any way for the floors to fit its devices.
    pub fn outcome(&self) -> Outcome {
        if self.least <= 1.0 + TOLERANCE { Outcome::Holds } else { Outcome::Fails }
    }
}

impl Admission {
    /// The devices of a pool, in the policy's order.
    pub fn members(&self, pool: PoolId) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(move |device| device.pool == Some(pool))
    }

    /// The worst of all devices and pools.
    pub fn outcome(&self) -> Outcome {
        let devices = self.devices.iter().map(Device::outcome);
        let pools = self.pools.iter().map(Pool::outcome);
        devices.chain(pools).max().unwrap_or(Outcome::Holds)
    }
}

impl Policy {
    /// Holds the floors against the devices. `loads` says what is known of the requests of each
    /// tenant, by position; nothing is known of those beyond its end. `measured` says what the
    /// devices take where the policy leaves that to the gate. O(backends * tenants), and what
    /// [`Policy::reach`] takes.
    pub fn admission(&self, loads: &[Load], measured: &Measurements) -> Admission {
        let reach = self.reach();
        let is_device = |(_, backend): &(usize, &Backend)| !backend.is_volume();
        let devices = self.backends.iter().enumerate().filter(is_device);
        let devices = devices.map(|(index, backend)| {
            let model = known_model(backend, measured.get(&backend.name));
            self.device(index, model, &reach, loads)
        });
        let mut admission = Admission { devices: devices.collect(), pools: Vec::new() };
        let volumes = self.backends.iter().enumerate().filter(|(_, one)| one.is_volume());
        let volumes = volumes.map(|(index, _)| PoolId::Volume(index));
        let groups = self.groups.iter().enumerate().filter(|(_, one)| counts_once(one));
        let groups = groups.map(|(index, _)| PoolId::Group(index));
        let least = |id| best(&admission.members(id).collect::<Vec<_>>());
        admission.pools = volumes.chain(groups).map(|id| Pool { id, least: least(id) }).collect();
        admission
    }

    fn device(
        &self,
        index: usize,
        model: Option<CostModel>,
        reach: &Reach,
        loads: &[Load],
    ) -> Device {
        let backend = &self.backends[index];
        let place = self.place_of(&backend.name);
        let reserve = |&tenant: &usize| {
            let load = loads.get(tenant).cloned().unwrap_or_default();
            let model = model.as_ref();
            let part = model.map_or_else(Range::default, |model| {
                reserved(&self.tenants[tenant], backend, model, place, &load)
            });
            Reservation { tenant, part }
        };
        let promised = reach.tenants(index).iter().filter(|&&t| self.tenants[t].has_floor());
        let mut reservations: Vec<Reservation> = promised.map(reserve).collect();
        reservations.sort_by(|a, b| b.part.most.total_cmp(&a.part.most));
        let capacity = if model.is_some() { Capacity::of(backend) } else { Capacity::Unmeasured };
        let pool = place.map(|(pool, _)| pool);
        Device { backend: index, pool, capacity, reservations }
    }

    /// The pool that a backend is in, and which of its devices it is.
    fn place_of(&self, backend: &str) -> Option<(PoolId, usize)> {
        let member_of =
            |volume: &Backend| volume.members().iter().position(|member| member.backend == backend);
        let mut volumes = self.backends.iter().enumerate();
        let volume =
            volumes.find_map(|(index, one)| Some((PoolId::Volume(index), member_of(one)?)));
        let member = |group: &Group| group.backends.iter().position(|name| name == backend);
        let mut groups = self.groups.iter().enumerate().filter(|(_, group)| counts_once(group));
        let group = || groups.find_map(|(at, group)| Some((PoolId::Group(at), member(group)?)));
        volume.or_else(group)
    }
}

/// Whether floors count once over all servers of a group.
fn counts_once(group: &Group) -> bool {
    group.sharing != Sharing::Local
}

impl Capacity {
    /// What the backend has.
    pub(crate) fn of(backend: &Backend) -> Self {
        match (backend.scheduling.cost, backend.scheduling.capacity_iops) {
            (CostModel::Linear { .. }, _) => Self::DeviceTime,
            (CostModel::PerRequest, Some(iops)) if iops > 0 => Self::Requests(iops),
            (CostModel::PerRequest, _) => Self::Unknown,
        }
    }
}

/// What requests cost at a backend, as far as anybody knows.
fn known_model(backend: &Backend, measured: Option<&Measured>) -> Option<CostModel> {
    if backend.scheduling.is_cost_learned {
        return measured.map(Measured::model);
    }
    Some(backend.scheduling.cost)
}

/// What a tenant's floor takes of a device.
fn reserved(
    tenant: &Tenant,
    backend: &Backend,
    model: &CostModel,
    place: Option<(PoolId, usize)>,
    load: &Load,
) -> Range {
    let unit_bytes = backend.scheduling.unit_bytes;
    let floor = tenant.share.floor;
    let (iops, bytes) = (floor.rate_iops as f64, floor.rate_bytes as f64);
    let unknown_size = match (floor.rate_iops, floor.rate_bytes) {
        (_, 0) => FLOOR_REQUEST_BYTES,
        (0, _) => unit_bytes,
        (iops, bytes) => bytes / iops,
    };
    // Larger requests are scheduled, and counted, unit by unit.
    let size_bytes = load.size_bytes.unwrap_or(unknown_size).clamp(1, unit_bytes.max(1)) as f64;
    let requests = iops.max(bytes / size_bytes);
    let moved = bytes.max(iops * size_bytes);
    let time =
        |line: Line| requests * line.fixed.as_secs_f64() + moved / line.rate_bytes.max(1) as f64;
    let all = match (*model, Capacity::of(backend)) {
        (CostModel::Linear { read, write, .. }, _) => mixed(time(read), time(write), load.reads),
        (CostModel::PerRequest, Capacity::Requests(capacity)) => {
            let part = requests / capacity as f64;
            Range { least: part, most: part }
        }
        (CostModel::PerRequest, _) => Range::default(),
    };
    match (place, &load.tiers) {
        // Nobody knows how much of it the cache answers.
        (None, _) if backend.cache_scheduling().is_some() => Range { least: 0.0, ..all },
        (None, _) => all,
        (Some((PoolId::Volume(_), tier)), Some(parts)) => {
            let part = parts.get(tier).copied().unwrap_or(0.0);
            Range { least: all.least * part, most: all.most * part }
        }
        (Some(_), _) => Range { least: 0.0, ..all },
    }
}

fn mixed(read: f64, write: f64, reads: Option<f64>) -> Range {
    match reads {
        Some(part) => {
            let mean = read * part + write * (1.0 - part);
            Range { least: mean, most: mean }
        }
        None => Range { least: read.min(write), most: read.max(write) },
    }
}

/// A bound from below on how busy the busiest tier is; see the [module](self). It is by the dearer
/// direction where the direction is not known, as the devices' own verdicts are.
fn best(devices: &[&Device]) -> f64 {
    let totals: Vec<f64> = devices.iter().map(|device| device.reserved().most).collect();
    if devices.is_empty() || totals.contains(&0.0) {
        return 0.0;
    }
    let scale: f64 = totals.iter().map(|total| 1.0 / total).sum();
    let on = |device: &Device, tenant: usize| {
        let own = device.reservations.iter().find(|one| one.tenant == tenant);
        own.map_or(0.0, |one| one.part.most)
    };
    let least = |tenant: usize| {
        let weighted =
            devices.iter().zip(&totals).map(|(device, total)| on(device, tenant) / total);
        weighted.fold(f64::INFINITY, f64::min) / scale
    };
    devices[0].reservations.iter().map(|one| least(one.tenant)).sum()
}

#[cfg(test)]
mod tests {
    use evenkeel_core::sched::{Floor, Share};
    use evenkeel_core::time::Span;

    use super::super::{Member, Moves, Scheduling, Source, Takeover, Tiered};
    use super::*;

    /// Reads of 100 us and writes of 200 us, at 100 MB/s either way.
    fn cost() -> CostModel {
        let line = |micros| Line { fixed: Span::from_micros(micros), rate_bytes: 100_000_000 };
        CostModel::Linear { read: line(100), write: line(200), flush: Span::ZERO }
    }

    fn backend(name: &str, cost: CostModel, capacity_iops: Option<u64>) -> Backend {
        let scheduling = Scheduling { cost, capacity_iops, ..Scheduling::default() };
        Backend { name: name.into(), source: Source::Memory, scheduling }
    }

    fn plain(name: &str, capacity: u64) -> Backend {
        backend(name, CostModel::PerRequest, Some(capacity))
    }

    fn tenant(rate_iops: u64, rate_bytes: u64) -> Tenant {
        let share = Share { floor: Floor { rate_iops, rate_bytes }, ..Share::default() };
        Tenant {
            read_only: false,
            name: format!("{rate_iops}/{rate_bytes}"),
            matches: vec![],
            share,
        }
    }

    /// Without listeners, so that everybody comes everywhere.
    fn policy(backends: Vec<Backend>, tenants: Vec<Tenant>) -> Policy {
        Policy { backends, tenants, ..Policy::default() }
    }

    fn tiered(slow: u64, fast: u64, tenants: Vec<Tenant>) -> Policy {
        let tier =
            |name: &str| Member { backend: name.into(), device: String::new(), size_bytes: None };
        let volume = Tiered {
            tiers: vec![tier("hdd"), tier("ssd")],
            extent_bytes: 1 << 20,
            moves: Moves::Off,
            takeover: Takeover::default(),
        };
        let mut volume_backend = backend("v", CostModel::default(), None);
        volume_backend.source = Source::Tiered(volume);
        policy(vec![plain("hdd", slow), plain("ssd", fast), volume_backend], tenants)
    }

    #[track_caller]
    fn assert_near(found: Range, least: f64, most: f64) {
        let is_near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(is_near(found.least, least) && is_near(found.most, most), "{found:?}");
    }

    fn reserved_by(floor: Tenant, load: Load) -> Range {
        policy(vec![backend("a", cost(), None)], vec![floor])
            .admission(&[load], &Measurements::new())
            .devices[0]
            .reserved()
    }

    #[test]
    fn what_is_not_known_makes_a_range() {
        let nothing = Load::default;
        assert_near(reserved_by(tenant(1000, 0), nothing()), 0.140_96, 0.240_96);
        let size = |size_bytes| Load { size_bytes: Some(size_bytes), ..Load::default() };
        assert_near(reserved_by(tenant(1000, 0), size(50_000)), 0.6, 0.7);
        let reads = |reads| Load { reads: Some(reads), ..size(50_000) };
        assert_near(reserved_by(tenant(1000, 0), reads(1.0)), 0.6, 0.6);
        assert_near(reserved_by(tenant(1000, 0), reads(0.5)), 0.65, 0.65);
    }

    #[test]
    fn bytes_are_reckoned_in_units_and_beside_requests_in_their_ratio() {
        let unit = f64::from(1 << 20);
        let fixed = 50_000_000.0 / unit * 100e-6;
        let nothing = Load::default;
        assert_near(reserved_by(tenant(0, 50_000_000), nothing()), 0.5 + fixed, 0.5 + 2.0 * fixed);
        assert_near(reserved_by(tenant(1000, 50_000_000), nothing()), 0.6, 0.7);
        // Requests of 10 kB: 5000 of them make the bytes, more than the 1000 that are promised.
        let small = Load { size_bytes: Some(10_000), ..Load::default() };
        assert_near(reserved_by(tenant(1000, 50_000_000), small), 1.0, 1.5);
    }

    #[test]
    fn what_is_left_to_the_gate_is_unknown_until_it_was_measured() {
        let mut policy = policy(vec![backend("a", cost(), None)], vec![tenant(1000, 0)]);
        policy.backends[0].scheduling.is_cost_learned = true;
        let admission = policy.admission(&[], &Measurements::new());
        assert_eq!(admission.outcome(), Outcome::Unknown);
        assert_eq!(admission.devices[0].capacity, Capacity::Unmeasured);
        policy.tenants[0] = tenant(0, 0);
        assert_eq!(policy.admission(&[], &Measurements::new()).outcome(), Outcome::Holds);
    }

    #[test]
    fn floors_add_up_and_the_greatest_comes_first() {
        let tenants = vec![tenant(200, 0), tenant(0, 0), tenant(500, 0)];
        let admission =
            policy(vec![plain("a", 1000)], tenants).admission(&[], &Measurements::new());
        let device = &admission.devices[0];
        assert_eq!(device.capacity, Capacity::Requests(1000));
        let order: Vec<usize> = device.reservations.iter().map(|one| one.tenant).collect();
        assert_eq!(order, [2, 0], "who is promised nothing takes nothing");
        assert_near(device.reserved(), 0.7, 0.7);
        assert_eq!(admission.outcome(), Outcome::Holds);
    }

    #[test]
    fn an_outcome_is_as_good_as_what_is_known() {
        let outcome = |iops, capacity| {
            let backend = backend("a", CostModel::PerRequest, capacity);
            policy(vec![backend], vec![tenant(iops, 0)])
                .admission(&[], &Measurements::new())
                .outcome()
        };
        assert_eq!(outcome(1000, Some(1000)), Outcome::Holds);
        assert_eq!(outcome(1001, Some(1000)), Outcome::Fails);
        assert_eq!(outcome(1, None), Outcome::Unknown);
        assert_eq!(outcome(0, None), Outcome::Holds, "nothing is promised");
        let directions = |iops| {
            policy(vec![backend("a", cost(), None)], vec![tenant(iops, 0)])
                .admission(&[], &Measurements::new())
                .outcome()
        };
        assert_eq!(
            [4000, 5000, 8000].map(directions),
            [Outcome::Holds, Outcome::Depends, Outcome::Fails]
        );
    }

    #[test]
    fn a_floor_counts_once_over_a_group_with_total_shares() {
        use Outcome::{Depends, Fails, Holds};
        let outcomes = |sharing, iops| {
            let backends = vec![plain("a", 300), plain("b", 100)];
            let names = vec!["a".to_string(), "b".to_string()];
            let groups =
                vec![Group { name: "g".into(), backends: names, sharing, is_exchanged: false }];
            let admission = Policy { groups, ..policy(backends, vec![tenant(iops, 0)]) };
            let admission = admission.admission(&[], &Measurements::new());
            let whole = admission.pools.first().map(Pool::outcome);
            (admission.devices[1].outcome(), whole)
        };
        assert_eq!(outcomes(Sharing::Local, 101), (Fails, None), "on each by itself");
        assert_eq!(outcomes(Sharing::Total, 400), (Depends, Some(Holds)));
        assert_eq!(outcomes(Sharing::Total, 401), (Depends, Some(Fails)));
    }

    #[test]
    fn a_volume_holds_what_its_tiers_can_do_together() {
        use Outcome::{Depends, Fails, Holds};
        let of =
            |iops| tiered(100, 900, vec![tenant(iops, 0)]).admission(&[], &Measurements::new());
        let outcomes = |iops| {
            let admission = of(iops);
            let of_tiers = [0, 1].map(|tier| admission.devices[tier].outcome());
            (of_tiers, admission.pools[0].outcome())
        };
        assert_eq!(outcomes(100), ([Holds, Holds], Holds));
        assert_eq!(outcomes(900), ([Depends, Holds], Holds));
        assert_eq!(outcomes(1000), ([Depends, Depends], Holds));
        assert_eq!(outcomes(1001), ([Depends, Depends], Fails));
        let known = Load { tiers: Some(vec![0.25, 0.75]), ..Load::default() };
        let admission =
            tiered(100, 900, vec![tenant(600, 0)]).admission(&[known], &Measurements::new());
        assert_near(admission.devices[0].reserved(), 1.5, 1.5);
        assert_eq!(admission.devices[0].outcome(), Fails);
        assert_near(admission.devices[1].reserved(), 0.5, 0.5);
    }
}
