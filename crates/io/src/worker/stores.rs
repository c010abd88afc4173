//! The stores of a worker: opened when the policy gets them, closed when the gate stops.
//!
//! A store belongs to one backend, so that one scheduler orders all that is asked of its drives. It
//! is opened whether or not a client asks for it: recovery should be over when one does.

use std::rc::Rc;

use evenkeel_engine::policy::{Backend, Source};
use tokio::task::spawn_local;

use super::Worker;
use crate::device::store::StoreHost;
use crate::gate::BackendReport;
use crate::plan::{Plan, PlannedDomain};

impl Worker {
    /// Opens the stores of a domain that are not open.
    pub(super) fn open_stores(&self, plan: &Plan, domain: &PlannedDomain) {
        for backend in plan.policy.backends.iter().filter(|it| domain.has(&it.name)) {
            self.store(backend);
        }
    }

    /// The store of this backend, if it is one.
    pub(super) fn store(&self, backend: &Backend) -> Option<Rc<StoreHost>> {
        let Source::Store(source) = &backend.source else { return None };
        let mut stores = self.stores.borrow_mut();
        let host = stores.entry(backend.name.clone()).or_insert_with(|| {
            let host = StoreHost::new(&backend.name, source.clone(), self.drive_kind);
            spawn_local(Rc::clone(&host).keep());
            host
        });
        Some(Rc::clone(host))
    }

    /// How the stores are doing.
    pub(super) fn report_stores(&self) -> Vec<BackendReport> {
        let report = |(name, host): (&String, &Rc<StoreHost>)| BackendReport {
            name: name.clone(),
            up: host.stopped_by().is_none(),
            trouble: host.trouble(),
            ..BackendReport::default()
        };
        self.stores.borrow().iter().map(report).collect()
    }

    /// Closes the stores, so that the next start has nothing to recover.
    pub(super) async fn close_stores(&self) {
        let stores: Vec<_> = self.stores.borrow().values().cloned().collect();
        for host in stores {
            host.close().await;
        }
    }
}
