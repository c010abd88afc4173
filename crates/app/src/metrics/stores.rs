//! Stores and their caches, family by family.

use evenkeel_io::gate::BackendReport;

use super::table::{self as metric, Metric};
use super::text::Document;
use crate::status::{Cache, Hits, Store};

const DAY_SECONDS: f64 = 86_400.0;

/// A metric, and where its value is in an account.
type Reading<A> = (&'static Metric, fn(&A) -> u64);

/// Writes what is known of the backends that are stores.
pub(super) fn render(document: &mut Document, backends: &[BackendReport]) {
    let stores: Vec<(&str, Store)> = backends
        .iter()
        .filter_map(|backend| Some((backend.name.as_str(), Store::from(backend.store.as_ref()?))))
        .collect();
    let numbers: [Reading<Store>; 6] = [
        (&metric::STORE_LIVE, |store| store.live_bytes),
        (&metric::STORE_PROVISIONED, |store| store.provisioned_bytes),
        (&metric::STORE_UNTIL_CLEANING, |store| store.until_cleaning_bytes),
        (&metric::STORE_DEBT, |store| store.cleaner_debt_bytes),
        (&metric::STORE_THIN, |store| store.thin_segments),
        (&metric::STORE_CLIENT, |store| store.client_bytes),
    ];
    for (metric, number) in numbers {
        let mut family = document.family(metric);
        for (name, store) in &stores {
            family.count(&[name], number(store));
        }
    }
    let mut drives = document.family(&metric::STORE_DRIVES);
    for (name, store) in &stores {
        drives.count(&[name, "read"], store.drive_read_bytes);
        drives.count(&[name, "written"], store.drive_written_bytes);
    }
    let mut damage = document.family(&metric::STORE_DAMAGE);
    for (name, store) in &stores {
        damage.count(&[name, "header_restored"], store.damage.restored_headers);
        damage.count(&[name, "copy_bad"], store.damage.bad_copies);
        damage.count(&[name, "read_failed"], store.damage.failed_reads);
    }
    spindles(document, &stores);
    scrubs(document, &stores);
    let caches = stores.iter().filter_map(|(name, store)| Some((*name, store.cache.as_ref()?)));
    self::caches(document, &caches.collect::<Vec<_>>());
}

fn spindles(document: &mut Document, stores: &[(&str, Store)]) {
    let spindles =
        || stores.iter().flat_map(|(name, store)| store.spindles.iter().map(move |it| (name, it)));
    let mut stops = document.family(&metric::STORE_STOPS);
    for (name, spindle) in spindles() {
        stops.count(&[name, &spindle.drive], spindle.stops);
    }
    let mut stood = document.family(&metric::STORE_STOOD);
    for (name, spindle) in spindles() {
        stood.sample(&[name, &spindle.drive], spindle.stood_seconds);
    }
}

fn scrubs(document: &mut Document, stores: &[(&str, Store)]) {
    let scrubs = || stores.iter().filter_map(|(name, store)| Some((name, store.scrub.as_ref()?)));
    let mut done = document.family(&metric::STORE_SCRUB_DONE);
    for (name, scrub) in scrubs() {
        done.count(&[name], scrub.done_bytes);
    }
    let mut flaws = document.family(&metric::STORE_SCRUB_FLAWS);
    for (name, scrub) in scrubs() {
        flaws.count(&[name, "bad"], scrub.bad_headers + scrub.bad_blocks);
        flaws.count(&[name, "lost"], scrub.lost_blocks);
    }
}

fn caches(document: &mut Document, caches: &[(&str, &Cache)]) {
    let mut reads = document.family(&metric::CACHE_READS);
    for (name, cache) in caches {
        for (side, hits) in [("tail", cache.tail), ("body", cache.body)] {
            let Hits { memory, ssd, missed } = hits;
            for (found, count) in [("memory", memory), ("ssd", ssd), ("missed", missed)] {
                reads.count(&[name, side, found], count);
            }
        }
    }
    let mut left_out = document.family(&metric::CACHE_LEFT_OUT);
    for (name, cache) in caches {
        left_out.count(&[name, "unworthy"], cache.unworthy_blocks);
        left_out.count(&[name, "budget"], cache.over_budget_blocks);
        left_out.count(&[name, "busy"], cache.busy_blocks);
        left_out.count(&[name, "failed"], cache.failed_blocks);
    }
    let numbers: [Reading<Cache>; 4] = [
        (&metric::CACHE_KEPT, |cache| cache.kept_blocks),
        (&metric::CACHE_SSD, |cache| cache.ssd_bytes),
        (&metric::CACHE_WRITTEN, |cache| cache.ssd_written_bytes),
        (&metric::CACHE_WRITTEN_IN_LIFE, |cache| cache.ssd_written_in_life_bytes),
    ];
    for (metric, number) in numbers {
        let mut family = document.family(metric);
        for (name, cache) in caches {
            family.count(&[name], number(cache));
        }
    }
    let mut endurance = document.family(&metric::CACHE_ENDURANCE);
    for (name, cache) in caches.iter().filter(|(_, cache)| cache.ssd_endurance_bytes > 0) {
        endurance.count(&[name], cache.ssd_endurance_bytes);
    }
    let mut lifetime = document.family(&metric::CACHE_LIFETIME);
    for (name, cache) in caches {
        if let Some(days) = cache.ssd_lifetime_days {
            lifetime.sample(&[name], days as f64 * DAY_SECONDS);
        }
    }
}
