//! A data-path thread: one runtime, the domains that it owns, and nothing shared but counters.
//!
//! Workers talk to each other by [messages](message) only, and count payload on the same
//! [memory](crate::memory). Each accepts connections; a connection
//! whose export belongs to another worker is handed over after its handshake.

pub(crate) mod exchange;
pub(crate) mod message;
mod open;
mod pools;
mod scrub;
mod stores;
mod sweep;
mod upkeep;
mod volume;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::time::{Nanos, Span};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::clock::{Clock, duration};
use crate::device::ceph::CephVolume;
use crate::device::remote::Health;
use crate::device::store::StoreHost;
use crate::domain::Domain;
use crate::drive::DriveKind;
use crate::gate::{BackendReport, FailureReport, Shared};
use crate::listen;
use crate::plan::Plan;
use crate::record::Recorder;
use crate::word::{ClaimError, Word};
use message::{ClientReport, Message, WorkerReport};

/// The buffer into which every connection of a worker reads. A connection's leftovers and one full
/// read fit side by side.
const SCRATCH_BYTES: usize = 2 * READ_BYTES_MAX;

/// The most that is read at once; larger batches would leave the processor's cache.
pub(crate) const READ_BYTES_MAX: usize = 128 << 10;

/// What is read at once when a large payload is to follow, which is then read to its own place.
pub(crate) const READ_BYTES_MIN: usize = 4 << 10;

/// How often a stopping worker looks whether everything is answered.
const STOP_POLL: Duration = Duration::from_millis(5);

/// What the tasks of one thread share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) clock: Clock,
    pub(crate) drive_kind: DriveKind,
    pub(crate) scratch: RefCell<Box<[u8]>>,
    pub(crate) stopping: Cell<bool>,
    pub(crate) shared: Arc<Shared>,
    /// What is in force here; other threads may be a moment ahead or behind.
    plan: RefCell<Arc<Plan>>,
    domains: RefCell<BTreeMap<String, Rc<Domain>>>,
    recorder: RefCell<Option<Arc<Recorder>>>,
    /// By backend.
    health: RefCell<BTreeMap<String, Rc<Health>>>,
    /// By backend; a store that was opened once stays open.
    stores: RefCell<BTreeMap<String, Rc<StoreHost>>>,
    /// By backend; likewise.
    pools: RefCell<BTreeMap<String, Rc<CephVolume>>>,
    /// What the operator says, by volume.
    words: RefCell<BTreeMap<String, Rc<Word>>>,
}

impl Worker {
    fn new(index: usize, shared: Arc<Shared>) -> Rc<Self> {
        Rc::new(Self {
            index,
            clock: shared.clock,
            drive_kind: shared.drive_kind,
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            stopping: Cell::new(false),
            plan: RefCell::new(shared.plan()),
            recorder: RefCell::new(shared.recorder()),
            shared,
            domains: RefCell::default(),
            health: RefCell::default(),
            stores: RefCell::default(),
            pools: RefCell::default(),
            words: RefCell::default(),
        })
    }

    /// Puts a plan in force here.
    fn apply(self: &Rc<Self>, plan: &Arc<Plan>) {
        self.plan.replace(Arc::clone(plan));
        for planned in plan.domains.iter().filter(|domain| domain.worker == self.index) {
            let known = self.domains.borrow().get(&planned.name).cloned();
            if let Some(domain) = known {
                domain.forget_removed(plan);
                domain.apply(&planned.domain);
                domain.identify(plan);
            } else {
                let domain = Domain::new(Rc::clone(self), &planned.name, planned.domain.clone());
                domain.record_to(self.recorder.borrow().as_deref());
                if let Some(flight) = self.shared.flight() {
                    domain.fly_with(flight.recorder());
                }
                if domain.volume().is_some() && self.shared.serves {
                    self.keep_volume(&domain, &planned.name);
                }
                self.domains.borrow_mut().insert(planned.name.clone(), domain);
            }
            if self.shared.serves {
                self.open_stores(plan, planned);
                self.open_pools(plan, planned);
            }
        }
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.borrow())
    }

    /// Records all that the domains serve from now on, or no longer.
    fn record_to(&self, recorder: Option<Arc<Recorder>>) {
        let domains = self.domains.borrow();
        domains.values().for_each(|domain| domain.record_to(recorder.as_deref()));
        self.recorder.replace(recorder);
    }

    /// Gives all recorders what has gathered, and lets them go: they wait for that to end.
    fn record_no_more(&self) {
        self.domains.borrow().values().for_each(|domain| domain.record_no_more());
        self.recorder.replace(None);
    }

    /// The operator's word on a volume, which asks for it and settles it.
    fn word(&self, volume: &str) -> Rc<Word> {
        Rc::clone(self.words.borrow_mut().entry(volume.to_owned()).or_default())
    }

    /// Takes the operator's word on what a volume waits for; returns that.
    fn claim(&self, volume: &str) -> Result<String, ClaimError> {
        let word = self.words.borrow().get(volume).cloned();
        let question = word.and_then(|word| word.give());
        let question = question.ok_or_else(|| ClaimError::NotAsked(volume.to_owned()))?;
        tracing::warn!(volume, question, "the operator gives the word");
        Ok(question)
    }

    fn report(&self) -> WorkerReport {
        let plan = self.plan();
        let domains = self.domains.borrow();
        let mut report = WorkerReport::default();
        for (name, domain) in domains.iter() {
            let of_domain = domain.report();
            // A policy that has just changed may not know them any more.
            report.failed.extend(domain.failed_lately().into_iter().filter_map(|failed| {
                Some(FailureReport {
                    tenant: of_domain.tenants.get(failed.tenant.index())?.name.clone(),
                    backend: of_domain.servers.get(failed.server.index())?.name.clone(),
                    requests: failed.requests,
                    why: failed.why,
                    is_full: failed.is_full,
                })
            }));
            report.domains.push((name.clone(), of_domain));
            for client in domain.clients.borrow().iter() {
                report.clients.push(ClientReport {
                    export: client.export.name.clone(),
                    backend: client.export.backend.clone(),
                    tenant: plan.tenant_name(client.tenant.get()).to_owned(),
                    size_bytes: client.export.size_bytes().unwrap_or(client.promise.size_bytes),
                    read_only: client.is_read_only(),
                });
            }
        }
        let volumes =
            domains.iter().filter_map(|(name, domain)| Some((name, domain, domain.volume()?)));
        report.backends.extend(volumes.map(|(name, domain, volume)| {
            let trouble = volume.trouble();
            BackendReport {
                name: name.clone(),
                up: trouble.is_none(),
                trouble: trouble.or_else(|| domain.told_size()),
                ..BackendReport::default()
            }
        }));
        report.backends.extend(self.report_stores());
        report.backends.extend(self.report_pools());
        for (name, health) in self.health.borrow().iter() {
            report.backends.push(BackendReport {
                name: name.clone(),
                source: String::new(),
                up: health.links_up.get() > 0,
                trouble: domains.values().find_map(|domain| domain.trouble(name)),
                reconnects: health.reconnects.get(),
                replayed: health.replayed.get(),
                not_replayed: health.not_replayed.get(),
                timed_out: health.timed_out.get(),
                resizes: health.resized.get(),
                resized: domains.values().flat_map(|domain| domain.resized(name)).collect(),
                store: None,
                pool: None,
            });
        }
        report
    }

    /// Answers what is under way and reads no more, lets every client and every spread volume go,
    /// then closes the stores.
    ///
    /// A client that reconnects asks again for what was not read. An error would reach whoever
    /// waits for the answer.
    async fn stop(&self, grace: Span) {
        self.stopping.set(true);
        let until = tokio::time::Instant::now() + duration(grace);
        let is_left = |domain: &Rc<Domain>| domain.is_busy() || domain.has_clients();
        let goes_on = || self.domains.borrow().values().any(is_left);
        loop {
            // Also those whose handshake has just ended.
            self.domains.borrow().values().for_each(|domain| domain.dismiss());
            if !goes_on() || tokio::time::Instant::now() >= until {
                break;
            }
            tokio::time::sleep(STOP_POLL).await;
        }
        let domains: Vec<_> = self.domains.borrow().values().cloned().collect();
        for domain in domains.iter().filter(|it| !it.is_busy() && !it.has_clients()) {
            // A server that is away must not keep the gate from ending.
            let _ = tokio::time::timeout_at(until, domain.let_go()).await;
        }
        self.close_stores().await;
        // A cluster that does not answer must not keep the gate from ending.
        let _ = tokio::time::timeout_at(until, self.close_pools()).await;
    }
}

/// The life of a worker, on its own thread's runtime.
pub(crate) async fn live(
    index: usize,
    shared: Arc<Shared>,
    mut messages: UnboundedReceiver<Message>,
) {
    let worker = Worker::new(index, Arc::clone(&shared));
    worker.apply(&shared.plan());
    spawn_local(sweep::sweep(Rc::clone(&worker)));
    spawn_local(sweep::sweep_recording(Rc::clone(&worker)));
    while let Some(message) = messages.recv().await {
        match message {
            Message::Listen(ears) => {
                spawn_local(listen::listen(Arc::clone(&shared), ears));
            }
            Message::Open { plan, target, reply } => {
                let worker = Rc::clone(&worker);
                answer(reply, async move { worker.describe(&plan, &target).await });
            }
            Message::Arrive(arrival) => {
                spawn_local(Rc::clone(&worker).receive(*arrival));
            }
            Message::Apply { plan, reply } => {
                worker.apply(&plan);
                let _ = reply.send(());
            }
            Message::Record { recorder, reply } => {
                worker.record_to(recorder);
                let _ = reply.send(());
            }
            Message::Exchange { domain, asked } => worker.exchange(&domain, asked),
            Message::Report { reply } => {
                let _ = reply.send(worker.report());
            }
            Message::ListVolumes { store, reply } => {
                let _ = reply.send(worker.list_volumes(&store));
            }
            Message::ChangeVolume { store, order, reply } => {
                let worker = Rc::clone(&worker);
                answer(reply, async move { worker.change_volume(&store, order).await });
            }
            Message::Scrub { store, order, reply } => {
                let _ = reply.send(worker.scrub(&store, order));
            }
            Message::Care { volume, care, reply } => {
                let worker = Rc::clone(&worker);
                answer(reply, async move { worker.care(volume, care).await });
            }
            Message::Claim { volume, reply } => {
                let _ = reply.send(worker.claim(&volume));
            }
            Message::Resize { volume, size_bytes, reply } => {
                let worker = Rc::clone(&worker);
                answer(reply, async move { worker.resize(&volume, size_bytes).await });
            }
            Message::Stop { grace } => {
                worker.stop(grace).await;
                worker.record_no_more();
                return;
            }
        }
    }
}

/// Answers when the work is done. Whoever asked may have gone meanwhile, and waits for no answer.
fn answer<T: 'static>(reply: oneshot::Sender<T>, work: impl Future<Output = T> + 'static) {
    spawn_local(async move {
        let _ = reply.send(work.await);
    });
}

/// How long ago `earlier` was.
fn age(worker: &Worker, earlier: Nanos) -> Span {
    worker.clock.now().since(earlier)
}
