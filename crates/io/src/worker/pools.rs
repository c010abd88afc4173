//! The volumes in pools of Ceph of a worker: opened when the policy gets them, let go of when the
//! gate stops.

use std::rc::Rc;
use std::time::Duration;

use evenkeel_engine::policy::{Backend, Source};
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::{STOP_POLL, Worker};
use crate::client::Client;
use crate::device::Medium;
use crate::device::ceph::CephVolume;
use crate::gate::BackendReport;
use crate::plan::{Plan, PlannedDomain};
use crate::resize::ResizeError;

/// How long clients have to read their answers before their connections are cut.
const DISMISS_TIME: Duration = Duration::from_secs(2);

impl Worker {
    /// Opens the volumes of a domain that are not open, and tells the others of their policy.
    pub(super) fn open_pools(self: &Rc<Self>, plan: &Plan, domain: &PlannedDomain) {
        for backend in plan.policy.backends.iter().filter(|it| domain.has(&it.name)) {
            if let (Some(volume), Source::Ceph(source)) = (self.pool(backend), &backend.source) {
                volume.set_terms(source);
            }
        }
    }

    /// The volume of this backend, if it is one.
    pub(super) fn pool(self: &Rc<Self>, backend: &Backend) -> Option<Rc<CephVolume>> {
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
        let word = self.word(&backend.name);
        word.settle();
        let folder = self.shared.state.own_folder();
        let volume = CephVolume::new(&backend.name, source.clone(), folder, self.clock, word);
        let (worker, known) = (Rc::clone(self), Rc::clone(&volume));
        let dismiss = async move || worker.dismiss_clients_of(&known).await;
        spawn_local(Rc::clone(&volume).keep(dismiss));
        pools.insert(backend.name.clone(), Rc::clone(&volume));
        Some(volume)
    }

    /// Gives a volume another size; returns it.
    pub(super) async fn resize(&self, name: &str, size_bytes: u64) -> Result<u64, ResizeError> {
        let domain = self.domains.borrow().get(name).cloned();
        if let Some(domain) = domain.filter(|domain| domain.is_spread()) {
            return domain.resize_spread(size_bytes).await;
        }
        let volume = self.pools.borrow().get(name).cloned();
        let volume = volume.ok_or_else(|| ResizeError::NotOpen(name.to_owned()))?;
        volume.resize(size_bytes).await
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

    /// Lets the clients of a volume go that another gate has taken, and waits until they have gone:
    /// nothing that they asked for may wait in a queue until the volume is opened again.
    async fn dismiss_clients_of(&self, volume: &Rc<CephVolume>) {
        let is_theirs = |client: &Client| {
            let device = &client.export.device;
            matches!(&device.medium, Medium::Ceph(own) if Rc::ptr_eq(own, volume))
        };
        let until = Instant::now() + DISMISS_TIME;
        loop {
            let is_late = Instant::now() >= until;
            let domains: Vec<_> = self.domains.borrow().values().cloned().collect();
            let left = domains.iter().map(|it| it.dismiss_some(is_theirs, is_late));
            if left.sum::<usize>() == 0 {
                return;
            }
            tokio::time::sleep(STOP_POLL).await;
        }
    }

    /// Lets go of the volumes, so that the next gate need not wait for them.
    pub(super) async fn close_pools(&self) {
        let pools: Vec<_> = self.pools.borrow().values().cloned().collect();
        for volume in pools {
            volume.close().await;
        }
    }
}
