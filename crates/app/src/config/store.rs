//! Stores in the policy file, with what they keep in their cache.
//!
//! ```toml
//! [[backend]]
//! name = "log"
//! store = ["/dev/sdb", "/dev/sdc"]
//! direct = true
//! degraded = false
//! emulate = "sata-10k-2013"
//! power_down = "20 min"
//! cache.memory = "2 GiB"
//! cache.drive = "/dev/nvme0n1"
//! cache.endurance = "600 TB"
//! cache.daily_writes = "300 GB"
//! cache.depth = 32                 # where `discipline` spans devices; so do `cache.cost` ..
//! ```

use evenkeel_engine::policy::{Backend, CacheDevice, Store, StoreCache};
use toml::Spanned;

use super::print::{self, Text, path, quoted, size};
use super::raw::{RawBackend, RawCache};
use super::resolve::{cost_model, or};
use crate::units::print_duration;

/// The store that the backend is, if it is one.
pub(super) fn store(raw: &mut RawBackend) -> Option<Store> {
    let drives = raw.store.take()?.into_inner();
    let cache = raw.cache.take().map_or_else(RawCache::default, Spanned::into_inner);
    Some(Store {
        drives: drives.into_iter().map(Spanned::into_inner).collect(),
        direct: or(raw.direct.take(), true),
        degraded: or(raw.degraded.take(), false),
        emulate: raw.emulate.take().map(Spanned::into_inner),
        power_down: raw.power_down.take().map(Spanned::into_inner),
        cache: self::cache(cache),
    })
}

fn cache(raw: RawCache) -> StoreCache {
    let default = StoreCache::default();
    StoreCache {
        memory_bytes: or(raw.memory, default.memory_bytes),
        drive: raw.drive.map(Spanned::into_inner),
        endurance_bytes: or(raw.endurance, default.endurance_bytes),
        daily_writes_bytes: or(raw.daily_writes, default.daily_writes_bytes),
        device: CacheDevice {
            depth: or(raw.depth, default.device.depth),
            cost: raw.cost.map_or(default.device.cost, |cost| cost_model(cost.into_inner())),
            capacity_iops: raw.capacity.map(Spanned::into_inner),
        },
    }
}

/// The keys as they would be written.
pub(super) fn print(store: &Store, backend: &Backend, text: &mut Text) {
    let drives: Vec<_> = store.drives.iter().map(|drive| path(drive)).collect();
    text.key("store", format!("[{}]", drives.join(", ")));
    text.key("direct", store.direct.to_string());
    text.key("degraded", store.degraded.to_string());
    if let Some(model) = &store.emulate {
        text.key("emulate", quoted(model));
    }
    if let Some(after) = store.power_down {
        text.key("power_down", quoted(&print_duration(after)));
    }
    print_cache(&store.cache, text);
    let device = store.cache.device;
    if backend.cache_scheduling().is_some() || device != CacheDevice::default() {
        text.key("cache.depth", print::depth(device.depth));
        print::costs("cache.", device.cost, device.capacity_iops, text);
    }
}

fn print_cache(cache: &StoreCache, text: &mut Text) {
    text.key("cache.memory", size(cache.memory_bytes));
    if let Some(drive) = &cache.drive {
        text.key("cache.drive", path(drive));
    }
    let wear = [
        ("cache.endurance", cache.endurance_bytes),
        ("cache.daily_writes", cache.daily_writes_bytes),
    ];
    for (key, bytes) in wear.into_iter().filter(|&(_, bytes)| bytes > 0) {
        text.key(key, size(bytes));
    }
}
