//! Backends and groups: queues that can work, promises that the device can keep.

use evenkeel_core::bytes::Bytes;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;

use super::listeners::check_address;
use super::{Findings, Place, ceph, check_names, known, stores};
use crate::cost::{CostModel, Line};
use crate::policy::{
    Address, Backend, Depth, Discipline, Group, Policy, Scheduling, Sharing, Source, Upstream,
};

/// The bounds of [`Scheduling::unit_bytes`].
const UNIT_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=32 << 20;
/// The smallest request that clients commonly send; what a latency goal must leave room for.
const SMALLEST_COMMON_BYTES: u64 = 4 << 10;
/// A device slower than this is rather a rate whose unit was forgotten.
const SLOWEST_LIKELY_RATE_BYTES: u64 = 64 << 10;
/// A hold bridges the moment between an answer and the client's next request.
const LONGEST_LIKELY_HOLD: Span = Span::from_millis(200);

pub(super) fn check(policy: &Policy, found: &mut Findings) {
    let place = |index, field| Place::Backend { index, field };
    if policy.backends.is_empty() {
        found.error(
            Place::Policy { field: "backends" },
            "no backend: there is nothing behind the gate",
            "declare at least one backend",
        );
    }
    let names = policy.backends.iter().map(|backend| backend.name.as_str());
    check_names("backend", names, false, |index| place(index, "name"), found);
    for (index, backend) in policy.backends.iter().enumerate() {
        check_source(policy, index, found);
        check_scheduling(&backend.scheduling, index, found);
    }
    let names = policy.groups.iter().map(|group| group.name.as_str());
    let group_name = |index| Place::Group { index, field: "name" };
    check_names("group", names, false, group_name, found);
    for (index, group) in policy.groups.iter().enumerate() {
        check_group(policy, index, found);
        check_sharing(policy, index, group, found);
    }
}

fn check_source(policy: &Policy, index: usize, found: &mut Findings) {
    let place = |field| Place::Backend { index, field };
    let backend = &policy.backends[index];
    match &backend.source {
        Source::Upstream(upstream) => check_upstream(upstream, index, found),
        Source::File { path, .. } | Source::Directory { path, .. } => {
            if path.as_os_str().is_empty() {
                found.error(place("source.path"), "an empty path", "name the file or folder");
            }
        }
        Source::Store(store) => stores::check(policy, index, store, found),
        Source::Ceph(volume) => ceph::check(index, volume, found),
        Source::Memory | Source::Tiered(_) | Source::Spread(_) => {}
    }
    let is_same = |other: &&Backend| same_place(&other.source, &backend.source);
    if let Some(other) = policy.backends[..index].iter().find(is_same) {
        found.warning(
            place("source"),
            format!("backend {:?} stands before the same storage", other.name),
            "use one backend with several exports: two queues before one device cannot hold shares",
        );
    }
    let is_offered = matches!(&backend.source, Source::Upstream(upstream) if upstream.passthrough);
    let is_member = policy.volume_of(&backend.name).is_some();
    let is_used = policy.exports.iter().any(|export| export.backend == backend.name);
    if !is_offered && !is_member && !is_used {
        found.warning(
            place("name"),
            format!("no export uses backend {:?}", backend.name),
            "declare an export on it, or remove it",
        );
    }
}

fn same_place(one: &Source, other: &Source) -> bool {
    match (one, other) {
        (Source::Upstream(one), Source::Upstream(other)) => one.address == other.address,
        (Source::File { path: one, .. }, Source::File { path: other, .. })
        | (Source::Directory { path: one, .. }, Source::Directory { path: other, .. }) => {
            one == other
        }
        (Source::Ceph(one), Source::Ceph(other)) => {
            (&one.conf, &one.pool, &one.volume) == (&other.conf, &other.pool, &other.volume)
        }
        _ => false,
    }
}

fn check_upstream(upstream: &Upstream, index: usize, found: &mut Findings) {
    let place = |field| Place::Backend { index, field };
    check_address(&upstream.address, place("source.address"), found);
    if !(1..=16).contains(&upstream.connections) {
        found.error(
            place("source.connections"),
            format!("{} connections per export", upstream.connections),
            "use 1 to 16",
        );
    }
    if let (Address::Unix(_), Some(tls)) = (&upstream.address, &upstream.tls)
        && tls.server_name.is_none()
    {
        found.error(
            place("source.tls.server_name"),
            "TLS over a unix socket, where no host name says whose certificate is due",
            "set the server name to verify",
        );
    }
}

fn check_scheduling(scheduling: &Scheduling, index: usize, found: &mut Findings) {
    let place = |field| Place::Backend { index, field };
    let unit_bytes = scheduling.unit_bytes;
    if !unit_bytes.is_power_of_two() || !UNIT_BYTES.contains(&unit_bytes) {
        found.error(
            place("scheduling.unit_bytes"),
            format!("units of {}", Bytes(unit_bytes)),
            "use a power of two from 4 KiB to 32 MiB",
        );
    }
    if scheduling.hold > LONGEST_LIKELY_HOLD {
        found.warning(
            place("scheduling.hold"),
            format!("a hold of {} lets the device stand still for so long", scheduling.hold),
            "a hold bridges the moment between two requests of a client: some milliseconds",
        );
    }
    if scheduling.hold > Span::ZERO && scheduling.discipline != Discipline::Sfq {
        found.warning(
            place("scheduling.hold"),
            format!("a hold has no effect under the {} discipline", scheduling.discipline.name()),
            "use the sfq discipline, or drop the hold",
        );
    }
    check_cost(&scheduling.cost, index, found);
    check_depth(scheduling, index, found);
}

fn check_cost(cost: &CostModel, index: usize, found: &mut Findings) {
    let CostModel::Linear { read, write, .. } = cost else { return };
    check_line(*read, Place::Backend { index, field: "scheduling.cost.read" }, found);
    check_line(*write, Place::Backend { index, field: "scheduling.cost.write" }, found);
}

fn check_line(line: Line, place: Place, found: &mut Findings) {
    if line.rate_bytes == 0 {
        found.error(
            place,
            "a rate of 0: every request would take for ever",
            "set the device's rate",
        );
    } else if line.rate_bytes < SLOWEST_LIKELY_RATE_BYTES {
        found.warning(
            place,
            format!("a rate of {}/s", Bytes(line.rate_bytes)),
            "was a unit such as MiB/s forgotten?",
        );
    }
}

fn check_depth(scheduling: &Scheduling, index: usize, found: &mut Findings) {
    let place = Place::Backend { index, field: "scheduling.depth" };
    let counts_units = matches!(scheduling.depth, Depth::Requests(_) | Depth::Automatic);
    if scheduling.discipline == Discipline::Fifo && !counts_units {
        found.error(
            place,
            "the fifo discipline counts its depth in requests only",
            "use a depth in requests, or the sfq discipline",
        );
    }
    match scheduling.depth {
        Depth::Requests(0) => {
            found.error(place, "a depth of 0 lets nothing through", "use at least 1");
        }
        Depth::Bytes(bytes) if bytes < scheduling.unit_bytes => found.error(
            place,
            format!(
                "a depth of {} holds no unit of {}",
                Bytes(bytes),
                Bytes(scheduling.unit_bytes)
            ),
            "raise the depth to several units, or make the units smaller",
        ),
        Depth::Requests(_) | Depth::Bytes(_) | Depth::Automatic => {}
        Depth::Adaptive { min, max, read_goal, write_goal } => {
            if min == 0 || min > max {
                found.error(
                    place,
                    format!("an adaptive depth between {min} and {max}"),
                    "use bounds with 1 <= min <= max",
                );
            }
            let goals = [(Kind::Read, read_goal), (Kind::Write, write_goal)];
            for (kind, goal) in goals {
                check_goal(&scheduling.cost, kind, goal, place, found);
            }
        }
    }
}

/// A device that does nothing else still takes its idle time.
fn check_goal(cost: &CostModel, kind: Kind, goal: Span, place: Place, found: &mut Findings) {
    let name = kind.name();
    let idle = match cost {
        CostModel::PerRequest => Span(1),
        CostModel::Linear { .. } => Span(cost.cost(kind, SMALLEST_COMMON_BYTES).0),
    };
    if goal < idle {
        found.error(
            place,
            format!("a {name} latency goal of {goal}, but an idle device takes {idle} for 4 KiB"),
            "raise the goal well above that, or correct the cost model",
        );
    }
}

fn check_group(policy: &Policy, index: usize, found: &mut Findings) {
    let place = Place::Group { index, field: "backends" };
    let group = &policy.groups[index];
    if group.backends.is_empty() {
        found.error(place, "a group of no backends", "name its backends, or remove it");
    }
    for (position, name) in group.backends.iter().enumerate() {
        let Some(backend) = policy.backends.iter().find(|backend| backend.name == *name) else {
            let names = known(policy.backends.iter().map(|backend| backend.name.as_str()));
            found.error(place, format!("there is no backend {name:?}"), names);
            continue;
        };
        if group.backends[..position].contains(name) {
            found.error(place, format!("backend {name:?} is named twice"), "name it once");
        }
        if let Some(other) = policy.groups[..index].iter().find(|g| g.backends.contains(name)) {
            found.error(
                place,
                format!("backend {name:?} is in group {:?} already", other.name),
                "keep each backend in one group",
            );
        }
        if group.sharing != Sharing::Local && backend.scheduling.discipline == Discipline::Fifo {
            found.error(
                place,
                format!("backend {name:?} queues by fifo, which gives no shares to add up"),
                "use the sfq discipline there",
            );
        }
    }
    let is_loner = |name: &str| !policy.groups.iter().any(|g| g.backends.iter().any(|b| b == name));
    if policy.backends.iter().any(|backend| backend.name == group.name && is_loner(&group.name)) {
        found.error(
            Place::Group { index, field: "name" },
            format!("a backend outside all groups is also named {:?}", group.name),
            "rename one: both would be scheduling domains of that name",
        );
    }
}

fn check_sharing(policy: &Policy, index: usize, group: &Group, found: &mut Findings) {
    let place = Place::Group { index, field: "sharing" };
    if let Sharing::Hybrid { min_share_milli } = group.sharing
        && !(1..=1000).contains(&min_share_milli)
    {
        found.error(
            place,
            format!("a least share of {min_share_milli} thousandths of the local share"),
            "use 1 to 1000 thousandths",
        );
    }
    if group.sharing == Sharing::Local {
        return;
    }
    if group.backends.len() == 1 && !group.is_exchanged {
        found.warning(place, "total shares over one backend", "local sharing does the same");
    }
    let members = policy.backends.iter().filter(|backend| group.backends.contains(&backend.name));
    let is_plain = |backend: &Backend| backend.scheduling.cost == CostModel::PerRequest;
    let plain = members.clone().filter(|backend| is_plain(backend)).count();
    if plain > 0 && plain < members.count() {
        found.error(
            place,
            "some of its backends cost requests alike and others by device time",
            "use one kind of cost model in a group: their costs are added up",
        );
    }
}
