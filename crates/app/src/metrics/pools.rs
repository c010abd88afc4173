//! Volumes in pools of Ceph, family by family.

use evenkeel_io::gate::{BackendReport, OsdReport, OsdStanding, PoolReport};

use super::table::{self as metric, Metric};
use super::text::Document;

/// A metric, and where its value is in an account.
type Reading<A> = (&'static Metric, fn(&A) -> u64);

/// Writes what is known of the backends that are volumes in Ceph, and of the OSDs of their pools.
pub(super) fn render(document: &mut Document, backends: &[BackendReport]) {
    let pools: Vec<(&str, &PoolReport)> = backends
        .iter()
        .filter_map(|backend| Some((backend.name.as_str(), backend.pool.as_ref()?)))
        .collect();
    let numbers: [Reading<PoolReport>; 3] = [
        (&metric::POOL_OBJECTS, |pool| pool.placed),
        (&metric::POOL_GROUPS, |pool| pool.groups as u64),
        (&metric::POOL_UNSERVED, |pool| pool.unserved as u64),
    ];
    for (metric, number) in numbers {
        let mut family = document.family(metric);
        for (name, pool) in &pools {
            family.count(&[name], number(pool));
        }
    }
    let mut ceiling = document.family(&metric::POOL_CEILING);
    for (name, pool) in &pools {
        ceiling.sample(&[name], pool.ceiling);
    }
    let mut fullest = document.family(&metric::POOL_FULLEST);
    for (name, pool) in &pools {
        if let Some(part) = pool.fullest {
            fullest.sample(&[name], part);
        }
    }
    let mut age = document.family(&metric::POOL_AGE);
    for (name, pool) in &pools {
        age.sample(&[name], pool.age.as_secs_f64());
    }
    let numbers: [Reading<OsdReport>; 3] = [
        (&metric::OSD_CAPACITY, |osd| osd.capacity_bytes),
        (&metric::OSD_USED, |osd| osd.used_bytes),
        (&metric::OSD_UP, |osd| u64::from(osd.standing != OsdStanding::Down)),
    ];
    for (metric, number) in numbers {
        let mut family = document.family(metric);
        for (name, pool) in &pools {
            for osd in &pool.osds {
                family.count(&[name, &osd.osd.to_string()], number(osd));
            }
        }
    }
}
