//! Stores: drives that are each given once, in one backend.
//!
//! Volumes of one store are exports of one backend. Two backends on the same drives would open the
//! store twice, and whoever writes to a drive behind its store's back destroys it. The SSD of its
//! cache is one more drive.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evenkeel_core::bytes::Bytes;
use evenkeel_core::time::Span;

use super::{Findings, Place};
use crate::cost::CostModel;
use crate::policy::{CacheDevice, Depth, Policy, STORE_DRIVES_MAX, Source, Store, StoreCache};

/// Bytes of memory that a cache has at least, if there is one: fewer hold next to nothing.
const CACHE_BYTES_MIN: u64 = 1 << 20;

/// The same with an SSD, whose index and buffers lie in memory.
const CACHE_WITH_DRIVE_BYTES_MIN: u64 = 16 << 20;

/// An SSD that is worn out sooner than in so many days is hardly meant.
const LIFE_DAYS_MIN: u64 = 365;

/// Shorter pauses come every few minutes, and disks are made for some 50,000 starts.
const POWER_DOWN_SENSIBLE: Span = Span::from_secs(60);

/// Nothing is asked of any drive for a moment now and then.
const POWER_DOWN_MIN: Span = Span::from_secs(1);

pub(super) fn check(policy: &Policy, index: usize, store: &Store, found: &mut Findings) {
    let place = Place::Backend { index, field: "source.drives" };
    if !(1..=STORE_DRIVES_MAX).contains(&store.drives.len()) {
        found.error(
            place,
            format!("a store of {} drives", store.drives.len()),
            format!("name all its drives, 1 to {STORE_DRIVES_MAX}"),
        );
    }
    let mut known = BTreeSet::new();
    for drive in drives_of(store) {
        if drive.as_os_str().is_empty() {
            found.error(place, "an empty path", "name the file or block device");
        } else if !known.insert(drive) {
            let message = format!("drive {} is named twice", drive.display());
            found.error(place, message, "name every drive once");
        }
    }
    for (other, backend) in policy.backends.iter().enumerate() {
        // Of two stores, the later one is shown.
        let is_reported = matches!(backend.source, Source::Store(_)) && other >= index;
        let shared = drives_of(store).find(|drive| stands_on(&backend.source, drive));
        if let (Some(drive), false) = (shared, is_reported) {
            found.error_at_both(
                place,
                Place::Backend { index: other, field: "source" },
                format!("backend {:?} stands on drive {} too", backend.name, drive.display()),
                "give the store drives of its own; volumes of one store are exports of one \
                 backend, which name them by `source`",
            );
        }
    }
    check_power_down(index, store, found);
    check_cache(index, &store.cache, found);
    check_cache_device(policy, index, &store.cache, found);
}

fn check_power_down(index: usize, store: &Store, found: &mut Findings) {
    let place = Place::Backend { index, field: "source.power_down" };
    let Some(after) = store.power_down else { return };
    if after < POWER_DOWN_MIN {
        let message = "spindles that stop within a second";
        found.error(place, message, "let them turn for some minutes, as in \"20 min\"");
    } else if after < POWER_DOWN_SENSIBLE && store.emulate.is_none() {
        let message = "spindles that stop within a minute, and wear by each start";
        found.warning(place, message, "let them turn for some minutes, as in \"20 min\"");
    }
}

fn check_cache(index: usize, cache: &StoreCache, found: &mut Findings) {
    let place = Place::Backend { index, field: "source.cache" };
    let (memory_bytes, has_drive) = (cache.memory_bytes, cache.drive.is_some());
    if has_drive && memory_bytes < CACHE_WITH_DRIVE_BYTES_MIN {
        found.error(
            place,
            format!("a cache on an SSD with {} of memory", Bytes(memory_bytes)),
            "give it 16 MiB of memory at least, and 2 % of the SSD: what is where lies there",
        );
    } else if memory_bytes > 0 && memory_bytes < CACHE_BYTES_MIN {
        let message = format!("a cache of {}", Bytes(memory_bytes));
        found.error(place, message, "give it 1 MiB at least, or 0 B for no cache");
    }
    let (endurance_bytes, daily_bytes) = (cache.endurance_bytes, cache.daily_writes_bytes);
    if !has_drive && (endurance_bytes > 0 || daily_bytes > 0) {
        found.error(
            place,
            "the wear of a cache that has no SSD",
            "name the SSD as the cache's `drive`, or remove `endurance` and `daily_writes`",
        );
    }
    let days = endurance_bytes.checked_div(daily_bytes);
    if let Some(days) = days.filter(|&days| endurance_bytes > 0 && days < LIFE_DAYS_MIN) {
        found.warning(
            place,
            format!("an SSD that may be worn out in {days} days"),
            "lower `daily_writes`, or check `endurance` against the data sheet (TBW)",
        );
    }
}

/// The cache as a device beside the drives.
fn check_cache_device(policy: &Policy, index: usize, cache: &StoreCache, found: &mut Findings) {
    let place = Place::Backend { index, field: "source.cache" };
    let discipline = Place::Backend { index, field: "scheduling.discipline" };
    let backend = &policy.backends[index];
    let Some(scheduling) = backend.cache_scheduling() else {
        if cache.device != CacheDevice::default() {
            found.warning(
                place,
                "the depth, cost or capacity of a cache that has no queue of its own",
                "add `discipline = \"baa\"` and a `cache.drive`, or remove them",
            );
        }
        return;
    };
    if scheduling.depth == Depth::Requests(0) {
        found.error(place, "a depth of 0 lets nothing through", "use at least 1");
    }
    let is_plain = |cost| cost == CostModel::PerRequest;
    if is_plain(scheduling.cost) != is_plain(backend.scheduling.cost) {
        found.error(
            place,
            "requests cost alike at the drives or at their cache, and device time at the other",
            "write both `cost` and `cache.cost`: one clock orders the requests of both",
        );
    }
    for (part, one) in [("the drives", &backend.scheduling), ("the cache", &scheduling)] {
        if is_plain(one.cost) && one.capacity_iops.is_none() {
            let message = format!("nothing says how many requests {part} can serve in a second");
            found.error(place, message, "add `capacity` and `cache.capacity`, in iops");
        }
    }
    if let Some(group) = policy.groups.iter().find(|one| one.backends.contains(&backend.name)) {
        found.error(
            discipline,
            format!("the cache of a store in group {:?} has a queue of its own", group.name),
            "use sfq here, or take the store out of the group",
        );
    }
}

/// The drives that a store must have to itself.
fn drives_of(store: &Store) -> impl Iterator<Item = &PathBuf> {
    store.drives.iter().chain(&store.cache.drive)
}

fn stands_on(source: &Source, drive: &Path) -> bool {
    match source {
        Source::Store(store) => drives_of(store).any(|own| own == drive),
        Source::File { path, .. } => path == drive,
        _ => false,
    }
}
