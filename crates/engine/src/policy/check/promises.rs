//! Floors and latency goals: none that the discipline, the limits or the devices cannot keep.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;

use super::{Findings, Place};
use crate::cost::CostModel;
use crate::policy::admission::{
    Admission, Capacity, Device, FLOOR_REQUEST_BYTES, Measurements, Outcome, Pool, PoolId,
};
use crate::policy::{Backend, Control, Discipline, Method, Policy, Reach, Sharing, Tenant};

pub(super) const FLOOR: &str = "share.floor";
const GOAL: &str = "share.latency_goal";

pub(super) fn check(policy: &Policy, found: &mut Findings) {
    for (index, tenant) in policy.tenants.iter().enumerate() {
        check_limit(index, tenant, found);
    }
    let reach = policy.reach();
    for (index, backend) in policy.backends.iter().enumerate() {
        let comers = Comers::new(policy, &reach, index);
        check_capacity(policy, index, &comers, found);
        // A tier has the discipline of its volume, which is checked there.
        let is_tier = policy.volume_of(&backend.name).is_some_and(|one| one.volume().is_some());
        if !is_tier && backend.spread().is_none() {
            check_discipline(policy, index, &comers, found);
        }
        if !backend.is_volume() {
            check_goals(policy, index, &reach, found);
        }
    }
    check_groups(policy, found);
    check_admission(policy, &policy.admission(&[], &Measurements::new()), found);
}

/// Who of those that can come to a backend is promised what: the first of each, by position.
struct Comers {
    with_floor: Option<usize>,
    with_goal: Option<usize>,
}

impl Comers {
    fn new(policy: &Policy, reach: &Reach, backend: usize) -> Self {
        let first = |is_promised: fn(&Tenant) -> bool| {
            let mut comers = reach.tenants(backend).iter().copied();
            comers.find(|&tenant| is_promised(&policy.tenants[tenant]))
        };
        Self { with_floor: first(Tenant::has_floor), with_goal: first(Tenant::has_goal) }
    }
}

pub(super) fn at_tenant(index: usize, field: &'static str) -> Place {
    Place::Tenant { index, field }
}

pub(super) fn at_backend(index: usize, field: &'static str) -> Place {
    Place::Backend { index, field }
}

/// A limit is kept before a floor is.
fn check_limit(index: usize, tenant: &Tenant, found: &mut Findings) {
    let (floor, limit) = (tenant.share.floor, tenant.share.limit);
    let kinds = [
        ("requests", floor.rate_iops, limit.rate_iops, "share.limit.rate_iops"),
        ("bytes", floor.rate_bytes, limit.rate_bytes, "share.limit.rate_bytes"),
    ];
    for (what, floor, limit, field) in kinds {
        if limit > 0 && floor > limit {
            found.error_at_both(
                at_tenant(index, FLOOR),
                at_tenant(index, field),
                format!("a floor of {floor} {what} per second above the limit of {limit}"),
                "lower the floor, or raise the limit",
            );
        }
    }
}

fn check_capacity(policy: &Policy, index: usize, comers: &Comers, found: &mut Findings) {
    let backend = &policy.backends[index];
    let volume = policy.volume_of(&backend.name);
    let is_ordered_by_volume = volume.is_some_and(|one| one.scheduling.discipline.spans_tiers());
    let place = at_backend(index, "scheduling.capacity_iops");
    let is_plain = backend.scheduling.cost == CostModel::PerRequest;
    match backend.scheduling.capacity_iops {
        Some(0) => {
            found.error(place, "a capacity of 0 promises nothing", "set what the device can do");
        }
        Some(_) if !is_plain && !backend.is_volume() => found.warning(
            place,
            "a capacity in requests has no effect where they cost device time",
            "remove it, or write `cost = \"request\"`",
        ),
        // Of tiers that are ordered together the volume asks for it, floors or none.
        None if is_plain && !is_ordered_by_volume && backend.spread().is_none() => {
            if let Some(tenant) = comers.with_floor {
                found.error_at_both(
                    at_backend(index, "scheduling.cost"),
                    at_tenant(tenant, FLOOR),
                    format!(
                        "a floor binds {:?}, where every request costs the same and nothing says \
                         how many there may be",
                        backend.name
                    ),
                    "add `capacity = \"... iops\"`: what the device serves in a second",
                );
            }
        }
        _ => {}
    }
}

/// Whether the discipline keeps what is promised to those who come.
fn check_discipline(policy: &Policy, index: usize, comers: &Comers, found: &mut Findings) {
    let backend = &policy.backends[index];
    let (name, discipline) = (&backend.name, backend.scheduling.discipline);
    let tenant = |index: usize| &policy.tenants[index].name;
    if let (Some(floor), Some(goal)) = (comers.with_floor, comers.with_goal)
        && !keeps_both(backend)
    {
        found.error_at_both(
            at_tenant(goal, GOAL),
            at_tenant(floor, FLOOR),
            format!(
                "at {name:?} {:?} is promised a response time and {:?} a rate: no discipline \
                 keeps both",
                tenant(goal),
                tenant(floor)
            ),
            "put them on backends of their own, give one of them a share instead, or use \
             `control = \"shares\"` with an [exchange], which keeps both",
        );
        return;
    }
    let keeps_floors =
        discipline == Discipline::Mclock || discipline.spans_tiers() || keeps_both(backend);
    let keeps_goals = matches!(discipline, Discipline::Edf | Discipline::Shared);
    let place = at_backend(index, "scheduling.discipline");
    let word = discipline.name();
    if let Some(floor) = comers.with_floor.filter(|_| !keeps_floors) {
        let better = if backend.volume().is_some() { "baa" } else { "mclock" };
        found.error_at_both(
            place,
            at_tenant(floor, FLOOR),
            format!("{name:?} queues by {word}, which keeps no floor; {:?} has one", tenant(floor)),
            format!("use {better} here, or leave the discipline out"),
        );
    }
    if let Some(goal) = comers.with_goal.filter(|_| !keeps_goals) {
        found.error_at_both(
            place,
            at_tenant(goal, GOAL),
            format!(
                "{name:?} queues by {word}, which knows no response times; {:?} has a goal",
                tenant(goal)
            ),
            "use edf here, or leave the discipline out",
        );
    }
}

/// Whether gates that share the backend keep floors and goals there together.
fn keeps_both(backend: &Backend) -> bool {
    let scheduling = &backend.scheduling;
    scheduling.discipline == Discipline::Shared && scheduling.control == Control::By(Method::Shares)
}

/// A device that does nothing else still takes its idle time, if anybody says what that is.
fn check_goals(policy: &Policy, index: usize, reach: &Reach, found: &mut Findings) {
    let backend = &policy.backends[index];
    if backend.scheduling.is_cost_learned {
        return;
    }
    let cost = &backend.scheduling.cost;
    let idle = |kind| match (cost, Capacity::of(backend)) {
        (CostModel::Linear { .. }, _) => Span(cost.cost(kind, FLOOR_REQUEST_BYTES).0),
        (CostModel::PerRequest, Capacity::Requests(iops)) => Span(1_000_000_000 / iops),
        (CostModel::PerRequest, _) => Span(1),
    };
    let (read, write) = (idle(Kind::Read), idle(Kind::Write));
    let name = &backend.name;
    let is_tier = policy.volume_of(name).is_some();
    for &tenant in reach.tenants(index) {
        let goal = policy.tenants[tenant].share.latency_goal;
        if goal == Span::ZERO || goal >= read.max(write) {
            continue;
        }
        let place = at_tenant(tenant, GOAL);
        let also = at_backend(index, "scheduling.cost");
        let takes = |idle: Span| format!("{name:?} takes {idle} for 4 KiB by its cost model");
        if goal < read.min(write) && !is_tier {
            found.error_at_both(
                place,
                also,
                format!("a goal of {goal}, but an idle {}", takes(read.min(write))),
                "raise the goal well above that, or correct the cost model",
            );
        } else {
            let what = if is_tier { "what falls on it" } else { "one of reads and writes" };
            found.warning_at_both(
                place,
                also,
                format!("{what} misses the goal of {goal}: an idle {}", takes(read.max(write))),
                "raise the goal, or mind that it holds for the others alone",
            );
        }
    }
}

/// Deadlines come before shares, wherever those are counted.
fn check_groups(policy: &Policy, found: &mut Findings) {
    for (index, group) in policy.groups.iter().enumerate() {
        let by_deadline = |backend: &&Backend| {
            backend.scheduling.discipline == Discipline::Edf
                && group.backends.contains(&backend.name)
        };
        let member = policy.backends.iter().find(by_deadline);
        if let Some(backend) = member.filter(|_| group.sharing != Sharing::Local) {
            found.warning(
                Place::Group { index, field: "sharing" },
                format!("backend {:?} queues by edf, where goals come before shares", backend.name),
                "mind that only tenants without a latency goal share there",
            );
        }
    }
}

/// The verdict on the floors: see [`crate::policy::admission`].
fn check_admission(policy: &Policy, admission: &Admission, found: &mut Findings) {
    for device in admission.devices.iter().filter(|device| device.pool.is_none()) {
        let [least, most] = [device.reserved().least, device.reserved().most].map(percent);
        let name = &policy.backends[device.backend].name;
        let Some(greatest) = device.reservations.first() else { continue };
        let (place, also) = (at_tenant(greatest.tenant, FLOOR), at_backend(device.backend, ""));
        let whose = floors_of(policy, device);
        let capacity = match device.capacity {
            Capacity::Requests(iops) => format!(" ({iops} requests per second)"),
            Capacity::DeviceTime | Capacity::Unknown | Capacity::Unmeasured => String::new(),
        };
        match device.outcome() {
            Outcome::Fails => found.error_at_both(
                place,
                also,
                format!("{whose} {least} of {name:?}{capacity}"),
                "lower the floors, or move a tenant to another backend",
            ),
            Outcome::Depends => found.warning_at_both(
                place,
                also,
                format!("{whose} {least} of {name:?} in one direction, but {most} in the other"),
                "lower the floors to what the slower direction can do, or see with `evenkeel plan` \
                 what recorded requests need",
            ),
            Outcome::Holds | Outcome::Unknown => {}
        }
    }
    for pool in &admission.pools {
        check_pool(policy, admission, pool, found);
    }
}

fn check_pool(policy: &Policy, admission: &Admission, pool: &Pool, found: &mut Findings) {
    let (name, place) = match pool.id {
        PoolId::Volume(index) => (&policy.backends[index].name, at_backend(index, "")),
        PoolId::Group(index) => (&policy.groups[index].name, Place::Group { index, field: "" }),
    };
    let mut members = admission.members(pool.id);
    if pool.outcome() == Outcome::Fails {
        let greatest = members.find_map(|device| device.reservations.first());
        let Some(greatest) = greatest else { return };
        found.error_at_both(
            at_tenant(greatest.tenant, FLOOR),
            place,
            format!(
                "the floors take at least {} of the busiest device of {name:?}, wherever their \
                 requests fall",
                percent(pool.least)
            ),
            "lower the floors, or move a tenant to another backend",
        );
        return;
    }
    // The servers of a group are alike as a rule, and nobody expects all requests on one of them.
    let is_volume = matches!(pool.id, PoolId::Volume(_));
    let tier = members.find(|tier| is_volume && tier.outcome() == Outcome::Depends);
    let Some(tier) = tier else { return };
    found.warning_at_both(
        at_tenant(tier.reservations[0].tenant, FLOOR),
        at_backend(tier.backend, ""),
        format!(
            "the floors of {name:?} hold while at most {} of their requests fall on its tier {:?}",
            percent((100.0 / tier.reserved().most).floor() / 100.0),
            policy.backends[tier.backend].name
        ),
        "lower the floors to what that tier can do alone, or see with `evenkeel plan` what part of \
         the recorded requests falls on it",
    );
}

pub(super) fn floors_of(policy: &Policy, device: &Device) -> String {
    match &device.reservations[..] {
        [only] => format!("the floor of {:?} takes", policy.tenants[only.tenant].name),
        [first, ..] => format!(
            "the floors of {:?} and {} more take",
            policy.tenants[first.tenant].name,
            device.reservations.len() - 1
        ),
        [] => "no floor takes".to_owned(),
    }
}

pub(super) fn percent(part: f64) -> String {
    if part < 10.0 { format!("{:.1} %", part * 100.0) } else { format!("{part:.0} times all") }
}
