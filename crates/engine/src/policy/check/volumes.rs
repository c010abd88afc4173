//! Volumes over other backends: members that are there and that nobody else writes to, tiers that
//! can be compared, servers that can be filled.

use super::exports::{is_file_name, is_volume_number};
use super::{Findings, Place, known, preferences};
use crate::cost::CostModel;
use crate::policy::disciplines::tier_discipline;
use crate::policy::{Backend, Member, Policy, Source, Spread, TIERS_MAX, Tiered};
use crate::spread::Shape;
use crate::spread::layout::{OBJECT_BYTES, SERVERS_MAX};
use evenkeel_core::bytes::Bytes;
use evenkeel_core::place::CANDIDATES_MAX;

/// The bounds of [`Tiered::extent_bytes`].
const EXTENT_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=16 << 20;

pub(super) fn check(policy: &Policy, found: &mut Findings) {
    for (index, backend) in policy.backends.iter().enumerate() {
        match &backend.source {
            Source::Tiered(volume) => {
                check_tiered(index, volume, found);
                check_disciplines(policy, index, volume, found);
            }
            Source::Spread(volume) => {
                check_spread(index, volume, found);
                preferences::check(policy, index, volume, found);
            }
            _ => {}
        }
        if backend.is_volume() {
            check_group(policy, index, found);
        }
        for position in 0..backend.members().len() {
            check_member(policy, index, position, found);
        }
        let has_devices = backend.volume().is_some() || backend.cache_scheduling().is_some();
        if backend.scheduling.discipline.spans_tiers() && !has_devices {
            found.error(
                Place::Backend { index, field: "scheduling.discipline" },
                "a discipline over several devices on a backend that has one",
                "use sfq, mclock or edf here; fair, drf and baa belong on a backend with tiers, or \
                 on a store with a `cache.drive`",
            );
        }
    }
    check_exports(policy, found);
}

fn check_tiered(index: usize, volume: &Tiered, found: &mut Findings) {
    let place = |field| Place::Backend { index, field };
    match volume.tiers.len() {
        0 => found.error(place("source.tiers"), "a volume of no tiers", "name its backends"),
        1 => found.error(
            place("source.tiers"),
            "a volume of one tier",
            "add another tier, or put the exports on that backend itself",
        ),
        more if more > TIERS_MAX => found.error(
            place("source.tiers"),
            format!("a volume of {more} tiers"),
            format!("use at most {TIERS_MAX}"),
        ),
        _ => {}
    }
    let extent_bytes = volume.extent_bytes;
    if !extent_bytes.is_power_of_two() || !EXTENT_BYTES.contains(&extent_bytes) {
        found.error(
            place("source.extent_bytes"),
            format!("extents of {}", Bytes(extent_bytes)),
            "use a power of two from 64 KiB to 16 MiB",
        );
    }
}

fn check_spread(index: usize, volume: &Spread, found: &mut Findings) {
    let place = |field| Place::Backend { index, field };
    let count = volume.servers.len();
    if !(2..=SERVERS_MAX).contains(&count) {
        found.error(
            place("source.servers"),
            format!("a volume spread over {count} servers"),
            format!("name 2 to {SERVERS_MAX} backends"),
        );
    }
    check_leaving(index, volume, found);
    let Shape { object_bytes, size_bytes, candidates } = volume.shape;
    if !object_bytes.is_power_of_two() || !OBJECT_BYTES.contains(&object_bytes) {
        found.error(
            place("source.object_bytes"),
            format!("objects of {}", Bytes(object_bytes)),
            "use a power of two from 64 KiB to 64 MiB",
        );
    }
    if size_bytes == Some(0) {
        found.error(place("source.size_bytes"), "a volume of no bytes", "set its size");
    }
    if !(2..=CANDIDATES_MAX).contains(&candidates) {
        found.error(
            place("source.candidates"),
            format!("{candidates} candidates for each object"),
            "use 2, or 3",
        );
    }
    match volume.ceiling_milli {
        1..=950 => {}
        951..=1000 => found.warning(
            place("source.ceiling"),
            "a ceiling above 95 % leaves no time to add a server",
            "use 93 % or less",
        ),
        _ => found.error(
            place("source.ceiling"),
            "a ceiling that is no part of a server",
            "use 0.1 % to 100 %",
        ),
    }
}

/// Who leaves is a server as yet, and others stay.
fn check_leaving(index: usize, volume: &Spread, found: &mut Findings) {
    let place = Place::Backend { index, field: "source.leaving" };
    let is_server = |name: &String| volume.servers.iter().any(|server| server.backend == *name);
    if let Some(name) = volume.leaving.iter().find(|name| !is_server(name)) {
        found.error(
            place,
            format!("{name:?} is to leave, and is no server of the volume"),
            "name servers of `choices`; what has left and holds nothing is taken out of both",
        );
    }
    let leaves = |server: &&Member| volume.leaving.contains(&server.backend);
    let staying = volume.servers.len() - volume.servers.iter().filter(leaves).count();
    if staying < 2 && volume.servers.len() >= 2 {
        found.error(
            place,
            format!("{staying} servers would stay"),
            "a volume needs two: let others join first",
        );
    }
}

/// What is in a group would share with others.
fn check_group(policy: &Policy, index: usize, found: &mut Findings) {
    let name = &policy.backends[index].name;
    if let Some(group) = policy.groups.iter().find(|group| group.backends.contains(name)) {
        found.error(
            Place::Backend { index, field: "name" },
            format!("volume {name:?} is in group {:?}", group.name),
            "take it out of the group: the members of a volume share with nobody else",
        );
    }
}

/// What a member of a volume is called.
fn noun(policy: &Policy, volume: usize) -> &'static str {
    if policy.backends[volume].spread().is_some() { "server" } else { "tier" }
}

fn check_member(policy: &Policy, volume: usize, position: usize, found: &mut Findings) {
    let place = Place::Member { backend: volume, index: position };
    let member = &policy.backends[volume].members()[position];
    let name = &member.backend;
    let Some(index) = policy.position_of(name) else {
        let others = policy.backends.iter().filter(|backend| !backend.is_volume());
        let message = format!("there is no backend {name:?}");
        found.error(place, message, known(others.map(|backend| backend.name.as_str())));
        return;
    };
    let backend = &policy.backends[index];
    if backend.is_volume() {
        let message = format!("{} {name:?} is a volume itself", noun(policy, volume));
        found.error(place, message, "name the backends that it is made of");
        return;
    }
    check_sole_use(policy, volume, position, index, found);
    check_device(backend, member, noun(policy, volume), place, found);
}

/// Whoever else used the member would write over the volume, or take device time that nobody
/// counts.
fn check_sole_use(
    policy: &Policy,
    volume: usize,
    position: usize,
    index: usize,
    found: &mut Findings,
) {
    let place = Place::Member { backend: volume, index: position };
    let (noun, at_member) = (noun(policy, volume), |field| Place::Backend { index, field });
    let name = &policy.backends[index].name;
    let volumes = policy.backends[..=volume].iter().enumerate();
    let mut uses = volumes.flat_map(|(other, backend)| {
        let members = backend.members().iter().enumerate();
        let same = members.filter(|(_, member)| member.backend == *name);
        same.map(move |(at, _)| (other, at))
    });
    if let Some((other, at)) = uses.next().filter(|&first| first != (volume, position)) {
        found.error_at_both(
            place,
            Place::Member { backend: other, index: at },
            format!("backend {name:?} is a member of a volume already"),
            "use each backend once; a part of a drive can be a backend of its own",
        );
    }
    if let Some(group) = policy.groups.iter().position(|group| group.backends.contains(name)) {
        found.error_at_both(
            place,
            Place::Group { index: group, field: "backends" },
            format!("{noun} {name:?} is in group {:?}", policy.groups[group].name),
            "take it out of the group: the members of a volume share with nobody else",
        );
    }
    let source = &policy.backends[index].source;
    if matches!(source, Source::Upstream(upstream) if upstream.late.is_some()) {
        found.error_at_both(
            place,
            at_member("source.late"),
            format!("{noun} {name:?} says how late its server may be, and so does its volume"),
            "say `late` on the volume, for all of its servers",
        );
    }
    if matches!(source, Source::Upstream(upstream) if upstream.passthrough) {
        found.error_at_both(
            place,
            at_member("source.passthrough"),
            format!("{noun} {name:?} passes its server's exports through, past the volume"),
            "turn passthrough off there",
        );
    }
}

/// A member must name one device, and say how much of it there is where nothing else does.
fn check_device(
    backend: &Backend,
    member: &Member,
    noun: &str,
    place: Place,
    found: &mut Findings,
) {
    let name = &backend.name;
    match &backend.source {
        Source::Directory { .. } => {
            let device = member.device.as_str();
            if !is_file_name(device) {
                found.error(
                    place,
                    format!("{noun} {name:?} is a folder, and {device:?} is no file in it"),
                    "name the file that holds it as its device",
                );
            }
        }
        Source::Store(_) if !member.device.is_empty() && !is_volume_number(&member.device) => {
            found.error(
                place,
                format!(
                    "{noun} {name:?} is a store, and {:?} no number of a volume",
                    member.device
                ),
                "name the volume by its number as its device, or leave it out for the first",
            );
        }
        Source::File { .. } | Source::Memory if !member.device.is_empty() => found.error(
            place,
            format!("{noun} {name:?} has one device only, and names {:?}", member.device),
            "leave the device out",
        ),
        Source::Memory if member.size_bytes.is_none() => {
            found.error(place, format!("{noun} {name:?} is memory without a size"), "set its size");
        }
        Source::Ceph(_) => found.error(
            place,
            format!("{noun} {name:?} is a volume in a pool of Ceph"),
            "put an export on it: Ceph spreads it already",
        ),
        Source::Upstream(_)
        | Source::File { .. }
        | Source::Store(_)
        | Source::Memory
        | Source::Tiered(_)
        | Source::Spread(_) => {}
    }
    if member.size_bytes == Some(0) {
        found.error(
            place,
            format!("a {noun} of no bytes"),
            "set its size, or leave it out for all there is",
        );
    }
}

fn check_disciplines(policy: &Policy, index: usize, volume: &Tiered, found: &mut Findings) {
    let place = Place::Backend { index, field: "scheduling.discipline" };
    let discipline = policy.backends[index].scheduling.discipline;
    let of_tiers = tier_discipline(discipline);
    let tiers = volume.tiers.iter().filter_map(|tier| policy.position_of(&tier.backend));
    let tiers: Vec<usize> = tiers.collect();
    for &tier in &tiers {
        if policy.backends[tier].scheduling.discipline != of_tiers {
            found.error_at_both(
                Place::Backend { index: tier, field: "scheduling.discipline" },
                place,
                "the discipline of a tier is not its volume's",
                "leave it out: the volume says it for all its tiers",
            );
        }
    }
    if !discipline.spans_tiers() {
        return;
    }
    let is_plain = |tier: &&usize| policy.backends[**tier].scheduling.cost == CostModel::PerRequest;
    let plain: Vec<usize> = tiers.iter().filter(is_plain).copied().collect();
    for &tier in &plain {
        if policy.backends[tier].scheduling.capacity_iops.is_none() {
            found.error_at_both(
                Place::Backend { index: tier, field: "scheduling.cost" },
                place,
                format!(
                    "{:?} serves requests that cost the same, and nothing says how many there may \
                     be",
                    policy.backends[tier].name
                ),
                "add `capacity = \"... iops\"`: tiers are shared by what each can do",
            );
        }
    }
    if !plain.is_empty() && plain.len() < tiers.len() {
        found.error(
            Place::Backend { index, field: "source.tiers" },
            "some of its tiers cost requests alike and others by device time",
            "use one kind of cost model in a volume: one clock orders the requests of all tiers",
        );
    }
}

fn check_exports(policy: &Policy, found: &mut Findings) {
    for (index, export) in policy.exports.iter().enumerate() {
        if let Some(volume) = policy.volume_of(&export.backend) {
            found.error(
                Place::Export { index, field: "backend" },
                format!("backend {:?} is a member of {:?}", export.backend, volume.name),
                "put the export on the volume: what else is on a member would be written over",
            );
        }
    }
}
