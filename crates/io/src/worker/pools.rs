//! The volumes in pools of Ceph of a worker: opened when the policy gets them, let go of when the
//! gate stops.

use std::rc::Rc;

use evenkeel_engine::policy::{Backend, Source};
use tokio::task::spawn_local;

use super::Worker;
use crate::device::ceph::CephVolume;
use crate::gate::BackendReport;
use crate::plan::{Plan, PlannedDomain};

impl Worker {
    /// Opens the volumes of a domain that are not open, and tells the others of their policy.
    pub(super) fn open_pools(&self, plan: &Plan, domain: &PlannedDomain) {
        for backend in plan.policy.backends.iter().filter(|it| domain.has(&it.name)) {
            if let (Some(volume), Source::Ceph(source)) = (self.pool(backend), &backend.source) {
                volume.set_ceiling(source.ceiling_milli);
            }
        }
    }

    /// The volume of this backend, if it is one.
    pub(super) fn pool(&self, backend: &Backend) -> Option<Rc<CephVolume>> {
        let Source::Ceph(source) = &backend.source else { return None };
        let mut pools = self.pools.borrow_mut();
        if let Some(known) = pools.get(&backend.name) {
            if known.is_of(source) {
                return Some(Rc::clone(known));
            }
            // The policy did without this name for a while, and it is another volume now.
            let before = Rc::clone(known);
            spawn_local(async move { before.close().await });
        }
        let volume = CephVolume::new(&backend.name, source.clone(), self.clock);
        spawn_local(Rc::clone(&volume).keep());
        pools.insert(backend.name.clone(), Rc::clone(&volume));
        Some(volume)
    }

    /// How the volumes are doing.
    pub(super) fn report_pools(&self) -> Vec<BackendReport> {
        let report = |(name, volume): (&String, &Rc<CephVolume>)| BackendReport {
            name: name.clone(),
            up: volume.stopped_by().is_none(),
            trouble: volume.trouble(),
            pool: volume.report(),
            ..BackendReport::default()
        };
        self.pools.borrow().iter().map(report).collect()
    }

    /// Lets go of the volumes, so that the next gate need not wait for them.
    pub(super) async fn close_pools(&self) {
        let pools: Vec<_> = self.pools.borrow().values().cloned().collect();
        for volume in pools {
            volume.close().await;
        }
    }
}
