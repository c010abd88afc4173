//! Tiered volumes: tiers that are there, that nobody else writes to, and that can be compared.

use super::exports::is_volume_number;
use super::{Findings, Place, known};
use crate::cost::CostModel;
use crate::policy::disciplines::tier_discipline;
use crate::policy::{Backend, Policy, Source, TIERS_MAX, Tier, Tiered};

/// The bounds of [`Tiered::extent_bytes`].
const EXTENT_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=16 << 20;

pub(super) fn check(policy: &Policy, found: &mut Findings) {
    for (index, backend) in policy.backends.iter().enumerate() {
        if let Some(volume) = backend.volume() {
            check_volume(policy, index, volume, found);
            for position in 0..volume.tiers.len() {
                check_tier(policy, index, volume, position, found);
            }
            check_disciplines(policy, index, volume, found);
        } else if backend.scheduling.discipline.spans_tiers() {
            found.error(
                Place::Backend { index, field: "scheduling.discipline" },
                "a discipline over the tiers of a volume on a backend that has none",
                "use sfq, mclock or edf here; fair, drf and baa belong on a backend with tiers",
            );
        }
    }
    check_exports(policy, found);
}

fn check_volume(policy: &Policy, index: usize, volume: &Tiered, found: &mut Findings) {
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
            format!("extents of {extent_bytes} bytes"),
            "use a power of two from 64 KiB to 16 MiB",
        );
    }
    let name = &policy.backends[index].name;
    if let Some(group) = policy.groups.iter().find(|group| group.backends.contains(name)) {
        found.error(
            place("name"),
            format!("tiered volume {name:?} is in group {:?}", group.name),
            "take it out of the group: the tiers of a volume share with nobody else",
        );
    }
}

fn check_tier(
    policy: &Policy,
    volume: usize,
    tiers: &Tiered,
    position: usize,
    found: &mut Findings,
) {
    let place = Place::Tier { backend: volume, index: position };
    let tier = &tiers.tiers[position];
    let name = &tier.backend;
    let Some(index) = policy.position_of(name) else {
        let others = policy.backends.iter().filter(|backend| backend.volume().is_none());
        let message = format!("there is no backend {name:?}");
        found.error(place, message, known(others.map(|backend| backend.name.as_str())));
        return;
    };
    let backend = &policy.backends[index];
    if backend.volume().is_some() {
        let message = format!("tier {name:?} is a tiered volume itself");
        found.error(place, message, "name the backends that it is made of");
        return;
    }
    check_sole_use(policy, volume, position, index, found);
    check_device(backend, tier, place, found);
}

/// Whoever else used the tier would write over the volume, or take device time that nobody counts.
fn check_sole_use(
    policy: &Policy,
    volume: usize,
    position: usize,
    index: usize,
    found: &mut Findings,
) {
    let place = Place::Tier { backend: volume, index: position };
    let at_tier = |field| Place::Backend { index, field };
    let name = &policy.backends[index].name;
    let volumes = policy.backends[..=volume].iter().enumerate();
    let mut uses = volumes.flat_map(|(other, backend)| {
        let tiers = backend.volume().map_or(&[][..], |volume| &volume.tiers);
        let same = tiers.iter().enumerate().filter(|(_, tier)| tier.backend == *name);
        same.map(move |(at, _)| (other, at))
    });
    if let Some((other, at)) = uses.next().filter(|&first| first != (volume, position)) {
        found.error_at_both(
            place,
            Place::Tier { backend: other, index: at },
            format!("backend {name:?} is a tier already"),
            "use each backend for one tier; a part of a drive can be a backend of its own",
        );
    }
    if let Some(group) = policy.groups.iter().position(|group| group.backends.contains(name)) {
        found.error_at_both(
            place,
            Place::Group { index: group, field: "backends" },
            format!("tier {name:?} is in group {:?}", policy.groups[group].name),
            "take it out of the group: the tiers of a volume share with nobody else",
        );
    }
    if matches!(&policy.backends[index].source, Source::Upstream(upstream) if upstream.passthrough)
    {
        found.error_at_both(
            place,
            at_tier("source.passthrough"),
            format!("tier {name:?} passes its server's exports through, past the volume"),
            "turn passthrough off there",
        );
    }
}

/// A tier must name one device, and say how much of it there is where nothing else does.
fn check_device(backend: &Backend, tier: &Tier, place: Place, found: &mut Findings) {
    let name = &backend.name;
    match &backend.source {
        Source::Directory { .. } => {
            let device = tier.device.as_str();
            if device.contains(['/', '\0']) || matches!(device, "" | "." | "..") {
                found.error(
                    place,
                    format!("tier {name:?} is a folder, and {device:?} is no file in it"),
                    "name the file that holds the tier as its device",
                );
            }
        }
        Source::Store(_) if !tier.device.is_empty() && !is_volume_number(&tier.device) => {
            found.error(
                place,
                format!("tier {name:?} is a store, and {:?} no number of a volume", tier.device),
                "name the volume by its number as its device, or leave it out for the first",
            );
        }
        Source::File { .. } | Source::Memory if !tier.device.is_empty() => found.error(
            place,
            format!("tier {name:?} has one device only, and names {:?}", tier.device),
            "leave the device out",
        ),
        Source::Memory if tier.size_bytes.is_none() => {
            found.error(place, format!("tier {name:?} is memory without a size"), "set its size");
        }
        Source::Upstream(_)
        | Source::File { .. }
        | Source::Store(_)
        | Source::Memory
        | Source::Tiered(_) => {}
    }
    if tier.size_bytes == Some(0) {
        found.error(place, "a tier of no bytes", "set its size, or leave it out for all there is");
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
        let owner = policy.volumes().find(|(_, volume)| volume.has_tier(&export.backend));
        if let Some((volume, _)) = owner {
            found.error(
                Place::Export { index, field: "backend" },
                format!("backend {:?} is a tier of {:?}", export.backend, volume.name),
                "put the export on the volume: what else is on a tier would be written over",
            );
        }
    }
}
