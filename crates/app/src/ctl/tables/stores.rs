//! Stores in the status of a gate: how full each is, what its cache saves, what a scrub found.

use crate::status::{Backend, Cache, Scrub, Spindle, Store};
use crate::{human, terminal};

/// A table of the stores that are open, one of their caches, one of their scrubs, and one of
/// spindles that may stop; nothing if there are none.
pub(super) fn table(backends: &[Backend]) -> String {
    let stores: Vec<(&str, &Store)> = backends
        .iter()
        .filter_map(|backend| Some((backend.name.as_str(), backend.store.as_ref()?)))
        .collect();
    let caches: Vec<(&str, &Cache)> =
        stores.iter().filter_map(|(name, store)| Some((*name, store.cache.as_ref()?))).collect();
    let mut text = String::new();
    if !stores.is_empty() {
        let header = ["<STORE", "LIVE", "PROVISIONED", "BEFORE CLEANING", "AMPLIFIED", "TAIL PURE"];
        let rows: Vec<_> = stores.iter().map(|(name, store)| store_row(name, store)).collect();
        text += &format!("\n{}", terminal::table(&header, &rows));
    }
    if !caches.is_empty() {
        let header = [
            "<CACHE",
            "MEMORY",
            "SSD",
            "TAIL HITS",
            "BODY HITS",
            "BY SSD",
            "WRITTEN",
            "OF",
            "LIFE",
        ];
        let rows: Vec<_> = caches.iter().map(|(name, cache)| cache_row(name, cache)).collect();
        text += &format!("\n{}", terminal::table(&header, &rows));
    }
    let scrubs: Vec<(&str, &Scrub)> =
        stores.iter().filter_map(|(name, store)| Some((*name, store.scrub.as_ref()?))).collect();
    if !scrubs.is_empty() {
        let header = ["<SCRUB", "<", "READ", "OF", "BAD HEADERS", "BAD BLOCKS", "LOST BLOCKS"];
        let rows: Vec<_> = scrubs.iter().map(|(name, scrub)| scrub_row(name, scrub)).collect();
        text += &format!("\n{}", terminal::table(&header, &rows));
    }
    let spindles: Vec<(&str, &Spindle)> = stores
        .iter()
        .flat_map(|(name, store)| store.spindles.iter().map(|spindle| (*name, spindle)))
        .collect();
    if !spindles.is_empty() {
        let header = ["<SPINDLE", "<DRIVE", "<", "STOPS", "STOOD STILL"];
        let rows: Vec<_> = spindles.iter().map(|(name, it)| spindle_row(name, it)).collect();
        text += &format!("\n{}", terminal::table(&header, &rows));
    }
    text
}

fn spindle_row(name: &str, spindle: &Spindle) -> Vec<String> {
    vec![
        name.to_owned(),
        spindle.drive.clone(),
        spindle.state.clone(),
        spindle.stops.to_string(),
        human::duration(crate::ctl::seconds(spindle.stood_seconds.floor())),
    ]
}

fn store_row(name: &str, store: &Store) -> Vec<String> {
    vec![
        name.to_owned(),
        size(store.live_bytes),
        size(store.provisioned_bytes),
        size(store.until_cleaning_bytes),
        store.write_amplification.map_or_else(none, |ratio| format!("{ratio:.2}")),
        store.tail_purity.map_or_else(none, human::percent),
    ]
}

fn scrub_row(name: &str, scrub: &Scrub) -> Vec<String> {
    vec![
        name.to_owned(),
        scrub.state.clone(),
        size(scrub.done_bytes),
        size(scrub.total_bytes),
        scrub.bad_headers.to_string(),
        scrub.bad_blocks.to_string(),
        scrub.lost_blocks.to_string(),
    ]
}

fn cache_row(name: &str, cache: &Cache) -> Vec<String> {
    let reads = [cache.tail, cache.body].map(|hits| hits.memory + hits.ssd + hits.missed);
    let all: u64 = reads.iter().sum();
    let by_ssd = cache.tail.ssd + cache.body.ssd;
    vec![
        name.to_owned(),
        size(cache.memory_bytes),
        size(cache.ssd_bytes),
        cache.tail.ratio().map_or_else(none, human::percent),
        cache.body.ratio().map_or_else(none, human::percent),
        if all == 0 { none() } else { human::percent(by_ssd as f64 / all as f64) },
        size(cache.ssd_written_in_life_bytes),
        if cache.ssd_endurance_bytes == 0 { none() } else { size(cache.ssd_endurance_bytes) },
        cache.ssd_lifetime_days.map_or_else(none, |days| format!("{days} d")),
    ]
}

fn size(bytes: u64) -> String {
    human::size(bytes as f64)
}

fn none() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Hits;

    #[test]
    fn a_store_without_a_cache_has_no_row_for_one_and_a_gate_without_stores_no_tables() {
        let disk = Backend { name: "disk".to_owned(), ..Backend::default() };
        assert_eq!(table(std::slice::from_ref(&disk)), "");
        let plain = Backend { store: Some(Store::default()), ..disk };
        assert!(!table(std::slice::from_ref(&plain)).contains("CACHE"));
        let cache = Cache {
            memory_bytes: 64 << 20,
            tail: Hits { memory: 3, ssd: 0, missed: 1 },
            body: Hits { memory: 0, ssd: 2, missed: 0 },
            ssd_lifetime_days: Some(900),
            ..Cache::default()
        };
        let store = Store { cache: Some(cache), ..Store::default() };
        let text = table(&[Backend { store: Some(store), ..plain }]);
        assert_eq!(
            text.lines().last().unwrap_or_default(),
            "disk   64 MiB  0 B        75%       100%     33%      0 B   -  900 d",
            "{text}"
        );
    }
}
