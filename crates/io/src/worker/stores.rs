//! The stores of a worker: opened when the policy gets them, closed when the gate stops.
//!
//! A store belongs to one backend, so that one scheduler orders all that is asked of its drives. It
//! is opened whether or not a client asks for it: recovery should be over when one does.

use std::path::Path;
use std::rc::Rc;

use evenkeel_engine::policy::{Backend, Source};
use evenkeel_store::{Volume, VolumeId};
use tokio::task::spawn_local;

use super::Worker;
use crate::device::store::{Means, StoreHost};
use crate::gate::BackendReport;
use crate::plan::{Plan, PlannedDomain};
use crate::store::{VolumeError, VolumeOrder};

impl Worker {
    /// Opens the stores of a domain that are not open.
    pub(super) fn open_stores(self: &Rc<Self>, plan: &Plan, domain: &PlannedDomain) {
        for backend in plan.policy.backends.iter().filter(|it| domain.has(&it.name)) {
            self.store(backend);
        }
    }

    /// The store of this backend, if it is one.
    pub(super) fn store(self: &Rc<Self>, backend: &Backend) -> Option<Rc<StoreHost>> {
        let Source::Store(source) = &backend.source else { return None };
        let mut stores = self.stores.borrow_mut();
        let host = stores.entry(backend.name.clone()).or_insert_with(|| {
            let means = Means { kind: self.drive_kind, models: self.shared.drive_models };
            let folder = self.shared.state.own_folder().map(Path::to_owned);
            let host = StoreHost::new(&backend.name, source.clone(), means, self.clock, folder);
            spawn_local(Rc::clone(&host).keep());
            spawn_local(Rc::clone(self).keep_up(backend.name.clone(), Rc::clone(&host)));
            spawn_local(Rc::clone(self).tell_room(backend.name.clone(), Rc::clone(&host)));
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
            store: host.report(),
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

    /// The volumes and snapshots of a store.
    pub(super) fn list_volumes(&self, store: &str) -> Result<Vec<Volume>, VolumeError> {
        self.host(store)?.volumes()
    }

    /// Changes the volumes of a store, unless somebody would lose what it uses.
    pub(super) async fn change_volume(
        &self,
        store: &str,
        order: VolumeOrder,
    ) -> Result<Volume, VolumeError> {
        let host = self.host(store)?;
        let volumes = host.volumes()?;
        let size_of = |id| volumes.iter().find(|it| it.id == id).map(|it| it.size_bytes);
        if let Some(volume) = order.takes_from(size_of)
            && let Some(by) = self.user(store, &host, volume, order.is_deletion())
        {
            return Err(VolumeError::InUse { volume, by });
        }
        let changed = host.change_volume(order).await;
        match &changed {
            Ok(volume) => tracing::info!(store, ?order, volume = volume.id.0, "volumes changed"),
            Err(why) => tracing::info!(store, ?order, %why, "volumes not changed"),
        }
        changed
    }

    pub(super) fn host(&self, store: &str) -> Result<Rc<StoreHost>, VolumeError> {
        let host = self.stores.borrow().get(store).cloned();
        host.ok_or_else(|| VolumeError::UnknownStore(store.to_owned()))
    }

    /// Who would miss a volume or find it changed, with what to do about that.
    fn user(
        &self,
        store: &str,
        host: &Rc<StoreHost>,
        volume: VolumeId,
        is_deletion: bool,
    ) -> Option<String> {
        let plan = self.plan();
        if let Some(tiered) = plan.volume_over(store, volume.0) {
            return Some(format!(
                "it is a tier of {tiered:?}; stop the gate, and take it out there"
            ));
        }
        if is_deletion && let Some(export) = plan.export_of(store, volume.0) {
            return Some(format!(
                "export {export:?} stands on it; remove the export first, from the policy file as \
                 well"
            ));
        }
        let domains = self.domains.borrow();
        let clients = domains.values().flat_map(|domain| domain.clients.borrow().clone());
        let count = clients.filter(|client| client.export.device.is_on(host, volume)).count();
        (count > 0).then(|| format!("{count} connections use it; end them first"))
    }
}
