//! The running gate: start, reload, look, stop.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;

use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Address, Backend, Policy, Source, Spread, Tiered};
use evenkeel_engine::spread::Shape;
use evenkeel_store::Volume;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, oneshot, watch};

pub use crate::drive::DriveKind;
pub use crate::memory::TenantMemory;
pub use crate::report::{
    BackendReport, ExportReport, FailureReport, GateReport, MemoryReport, OsdReport, OsdStanding,
    PoolReport, Resized, StoreDamage, StoreReport, source_name,
};
pub use crate::resize::ResizeError;
pub use crate::store::DriveModels;
pub use crate::word::ClaimError;

use crate::admission::{Door, OncePerSecond};
use crate::clock::Clock;
use crate::exchange::{Change, Exchange, ExchangeReport};
use crate::listen::{self, Ears};
use crate::memory::Pool;
use crate::plan::{Plan, PlannedDomain};
use crate::record::{Flight, Recorder, RecordingReport};
use crate::report;
use crate::state::State;
use crate::store::{ScrubError, ScrubOrder, VolumeError, VolumeOrder};
use crate::worker;
use crate::worker::message::{Message, WorkerReport};

/// How a gate is started; not part of the policy since it cannot change while running.
#[derive(Clone, Debug)]
pub struct Options {
    /// Data-path threads; each owns the scheduling domains it was given. At least 1.
    pub cores: usize,
    /// What serves files.
    pub drive: DriveKind,
    /// The drives that stores can emulate.
    pub drive_models: DriveModels,
    /// What records every request from the first on, if anything does. The gate finishes it.
    pub recorder: Option<Arc<Recorder>>,
    /// What keeps the last minutes of its requests, for this gate alone. The gate finishes it.
    pub flight: Option<Arc<Flight>>,
    /// The folder that keeps what the gate has to know of its own past, made when it is needed;
    /// without one, a crash of this gate leaves its volumes to a fence or the operator's word.
    pub state: Option<PathBuf>,
}

/// Why a policy could not be put in force.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct GateError {
    /// The part of the policy, such as `listener "nbd"`.
    pub what: String,
    /// The reason and the remedy.
    pub why: String,
}

/// A running gate. Dropping it stops it at once.
#[derive(Debug)]
pub struct Gate {
    handle: GateHandle,
    threads: Vec<JoinHandle<()>>,
}

/// A handle for the control plane; cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct GateHandle {
    shared: Arc<Shared>,
}

/// What all threads of a gate share: the plan in force, the workers' mailboxes, a few counters.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) drive_kind: DriveKind,
    pub(crate) drive_models: DriveModels,
    pub(crate) state: State,
    /// Whether backends are opened by themselves, to be served.
    pub(crate) serves: bool,
    plan: RwLock<Arc<Plan>>,
    recorder: RwLock<Option<Arc<Recorder>>>,
    flight: Option<Arc<Flight>>,
    workers: Vec<UnboundedSender<Message>>,
    /// What payload all workers hold.
    pub(crate) memory: Pool,
    pub(crate) door: Arc<Door>,
    protocol_errors: AtomicU64,
    refused_opens: AtomicU64,
    /// Those in the log.
    pub(crate) refusals_log: OncePerSecond,
    /// Listeners by address, each with what ends it when dropped. Held during a reload, and while a
    /// recording starts or stops.
    listening: Mutex<BTreeMap<Address, watch::Sender<()>>>,
    /// The exchange with other gates, if there is one. Changed while `listening` is held.
    exchange: std::sync::Mutex<Option<Exchange>>,
}

impl Shared {
    /// The plan in force.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What records now.
    pub(crate) fn recorder(&self) -> Option<Arc<Recorder>> {
        self.recorder.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What keeps the last minutes, if anything does.
    pub(crate) fn flight(&self) -> Option<&Arc<Flight>> {
        self.flight.as_ref()
    }

    /// Tells all that record of a policy that is about to be put in force.
    fn note_policy(&self, policy: &Policy) {
        let flight = self.flight.as_ref().map(|flight| Arc::clone(flight.recorder()));
        for recorder in self.recorder().into_iter().chain(flight) {
            recorder.policy(policy, || self.clock.now());
        }
    }

    /// Puts another recorder, or none, in place; returns the one before.
    fn replace_recorder(&self, recorder: Option<Arc<Recorder>>) -> Option<Arc<Recorder>> {
        let mut known = self.recorder.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *known, recorder)
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Sends a message to a worker; one that has ended does not get it.
    pub(crate) fn send(&self, worker: usize, message: Message) {
        let _ = self.workers[worker].send(message);
    }

    /// A client was refused an export that is not for it.
    pub(crate) fn count_refused_open(&self) {
        self.refused_opens.fetch_add(1, Ordering::Relaxed);
    }

    /// How often clients were refused exports that are not for them.
    pub(crate) fn refused_opens(&self) -> u64 {
        self.refused_opens.load(Ordering::Relaxed)
    }

    /// Divides the memory as a plan says.
    fn bound_memory(&self, plan: &Plan) {
        self.memory.set_bounds(plan.policy.memory, &plan.memory_weights());
    }

    /// Carries out what a change of the policy does to the exchange.
    fn change_exchange(&self, change: Change, plan: &Plan) -> Result<(), GateError> {
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        *exchange = Exchange::change(exchange.take(), change, plan, &self.state, &self.workers)?;
        Ok(())
    }

    /// How the exchange stands, if there is one.
    async fn report_exchange(&self) -> Option<ExchangeReport> {
        let report = {
            let exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
            exchange.as_ref()?.report()
        };
        report.await.ok()
    }

    pub(crate) fn count_protocol_error(&self) {
        self.protocol_errors.fetch_add(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// Binds the listeners, opens the backends and starts the data-path threads. Returns once
    /// clients can connect. An upstream that cannot be reached yet is not an error: its exports
    /// answer when it comes.
    ///
    /// # Errors
    /// If a listener cannot be bound, a certificate cannot be read, or a thread cannot be made.
    pub fn start(policy: Policy, options: &Options) -> Result<Self, GateError> {
        Self::begin(policy, options, true)
    }

    /// A gate that opens nothing by itself.
    pub(crate) fn start_idle(policy: Policy, options: &Options) -> Result<Self, GateError> {
        Self::begin(policy, options, false)
    }

    fn begin(policy: Policy, options: &Options, serves: bool) -> Result<Self, GateError> {
        let workers = options.cores.max(1);
        let plan = Plan::new(policy, None, workers)?;
        let change = Change::between(None, &plan)?;
        let mut ears = Vec::new();
        for listener in &plan.listeners {
            ears.push((listener.address.clone(), listen::bind(&listener.name, &listener.address)?));
        }
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..workers).map(|_| unbounded_channel()).unzip();
        let clock = Clock::start();
        let shared = Arc::new(Shared {
            clock,
            drive_kind: options.drive,
            drive_models: options.drive_models,
            state: State::new(options.state.clone()),
            serves,
            plan: RwLock::new(Arc::new(plan)),
            recorder: RwLock::new(options.recorder.clone()),
            flight: options.flight.clone(),
            workers: senders,
            memory: Pool::new(clock),
            door: Arc::default(),
            protocol_errors: AtomicU64::new(0),
            refused_opens: AtomicU64::new(0),
            refusals_log: OncePerSecond::default(),
            listening: Mutex::default(),
            exchange: std::sync::Mutex::default(),
        });
        shared.bound_memory(&shared.plan());
        let mut gate =
            Self { handle: GateHandle { shared: Arc::clone(&shared) }, threads: Vec::new() };
        shared.note_policy(&shared.plan().policy);
        for (index, receiver) in receivers.into_iter().enumerate() {
            gate.threads.push(start_worker(index, &shared, receiver)?);
        }
        shared.change_exchange(change, &shared.plan())?;
        let mut listening = shared.listening.try_lock().expect("nobody else has it yet");
        for (index, (address, socket)) in ears.into_iter().enumerate() {
            shared.hear(&mut listening, index, address, socket);
        }
        drop(listening);
        Ok(gate)
    }

    /// The control handle.
    pub fn handle(&self) -> GateHandle {
        self.handle.clone()
    }

    /// Sends a message to the first worker.
    pub(crate) fn send_first(&self, message: Message) {
        self.handle.shared.send(0, message);
    }

    /// Stops taking connections, answers what is in flight for at most `grace`, then closes.
    pub fn stop(mut self, grace: Span) {
        self.end(grace);
    }

    fn end(&mut self, grace: Span) {
        let shared = &self.handle.shared;
        if let Ok(mut listening) = shared.listening.try_lock() {
            listening.clear();
        }
        shared.exchange.lock().unwrap_or_else(PoisonError::into_inner).take();
        for worker in 0..shared.workers() {
            shared.send(worker, Message::Stop { grace });
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Some(recorder) = shared.replace_recorder(None) {
            recorder.finish();
        }
        if let Some(flight) = shared.flight() {
            flight.recorder().finish();
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.end(Span::ZERO);
    }
}

/// Threads per worker for calls that may block: questions about a file's allocation.
const BLOCKING_THREADS: usize = 4;

/// A data path that met a fault of its own must not go on with half of its threads: clients would
/// hang. The process ends, and whoever watches it starts it again.
struct StopOnPanic;

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

fn start_worker(
    index: usize,
    shared: &Arc<Shared>,
    receiver: UnboundedReceiver<Message>,
) -> Result<JoinHandle<()>, GateError> {
    let failed = |error: std::io::Error| GateError {
        what: format!("data-path thread {index}"),
        why: error.to_string(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(failed)?;
    let shared = Arc::clone(shared);
    std::thread::Builder::new()
        .name(format!("gate-{index}"))
        .spawn(move || {
            let _guard = StopOnPanic;
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&runtime, worker::live(index, shared, receiver));
        })
        .map_err(failed)
}

impl Shared {
    fn hear(
        &self,
        listening: &mut BTreeMap<Address, watch::Sender<()>>,
        index: usize,
        address: Address,
        socket: listen::BoundSocket,
    ) {
        let (end, closing) = watch::channel(());
        let ears = Ears { address: address.clone(), socket, closing };
        self.send(index % self.workers(), Message::Listen(ears));
        listening.insert(address, end);
    }
}

impl GateHandle {
    /// Puts a new policy in force. No connection is dropped and no request lost: tenants, shares,
    /// limits, modes, exports, backends and listeners may come and change; what may not change
    /// while in use is refused as a whole, and the old policy stays.
    ///
    /// # Errors
    /// If a listener cannot be bound, a certificate cannot be read, or the change needs a restart.
    pub async fn reload(&self, policy: Policy) -> Result<(), GateError> {
        let shared = &self.shared;
        let mut listening = shared.listening.lock().await;
        let before = shared.plan();
        keeps_sources(&before.policy, &policy)?;
        let plan = Arc::new(Plan::new(policy, Some(&before), shared.workers())?);
        let change = Change::between(Some(&before), &plan)?;
        let mut fresh = Vec::new();
        for listener in &plan.listeners {
            if !listening.contains_key(&listener.address) {
                let socket = listen::bind(&listener.name, &listener.address)?;
                fresh.push((listener.address.clone(), socket));
            }
        }
        // Before any worker hears of it: no request under it may be recorded in front of it.
        shared.note_policy(&plan.policy);
        shared.bound_memory(&plan);
        let mut applied = Vec::new();
        for worker in 0..shared.workers() {
            let (reply, done) = oneshot::channel();
            shared.send(worker, Message::Apply { plan: Arc::clone(&plan), reply });
            applied.push(done);
        }
        for done in applied {
            let _ = done.await;
        }
        // Only now may connections be told apart by it: every engine knows its tenants.
        *shared.plan.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&plan);
        for (index, (address, socket)) in fresh.into_iter().enumerate() {
            shared.hear(&mut listening, index, address, socket);
        }
        shared.change_exchange(change, &plan)?;
        listening.retain(|address, _| plan.listeners.iter().any(|l| l.address == *address));
        Ok(())
    }

    /// Records every request that arrives from now on. False if a recording is under way: then
    /// nothing changes.
    pub async fn start_recording(&self, recorder: Arc<Recorder>) -> bool {
        let shared = &self.shared;
        let _changing = shared.listening.lock().await;
        if shared.recorder().is_some() {
            return false;
        }
        recorder.policy(&shared.plan().policy, || shared.clock.now());
        shared.replace_recorder(Some(Arc::clone(&recorder)));
        self.tell_recorder(Some(recorder)).await;
        true
    }

    /// Ends the recording under way and returns it, to be finished; that may take as long as the
    /// disk does. Requests that have not ended are not in it.
    pub async fn stop_recording(&self) -> Option<Arc<Recorder>> {
        let _changing = self.shared.listening.lock().await;
        let recorder = self.shared.replace_recorder(None)?;
        self.tell_recorder(None).await;
        Some(recorder)
    }

    /// How the recording under way stands, if there is one.
    pub fn recording(&self) -> Option<RecordingReport> {
        self.shared.recorder().map(|recorder| recorder.report())
    }

    /// The requests of the last minutes and the policies that they were served under, as a whole
    /// file in the native format of traces; none if the gate keeps none. It takes some milliseconds
    /// of the calling thread.
    ///
    /// The last second may be missing, and up to ten seconds behind a request that has not ended.
    pub fn recent(&self) -> Option<Vec<u8>> {
        let shared = &self.shared;
        Some(shared.flight()?.trace(shared.clock.now()))
    }

    async fn tell_recorder(&self, recorder: Option<Arc<Recorder>>) {
        let mut told = Vec::new();
        for worker in 0..self.shared.workers() {
            let (reply, done) = oneshot::channel();
            let recorder = recorder.clone();
            self.shared.send(worker, Message::Record { recorder, reply });
            told.push(done);
        }
        for done in told {
            let _ = done.await;
        }
    }

    /// The volumes and snapshots of a store, named by its backend.
    ///
    /// # Errors
    /// [`VolumeError`] if there is no such store, or it is not open.
    pub async fn volumes(&self, store: &str) -> Result<Vec<Volume>, VolumeError> {
        let (reply, listed) = oneshot::channel();
        let message = Message::ListVolumes { store: store.to_owned(), reply };
        self.ask_store(store, message, listed).await
    }

    /// Changes the volumes of a store while clients use it, and gives the one that it was about. A
    /// volume that a client or the policy needs is not taken away.
    ///
    /// # Errors
    /// [`VolumeError`]; nothing has changed, unless the store stopped.
    pub async fn change_volume(
        &self,
        store: &str,
        order: VolumeOrder,
    ) -> Result<Volume, VolumeError> {
        let (reply, changed) = oneshot::channel();
        let message = Message::ChangeVolume { store: store.to_owned(), order, reply };
        self.ask_store(store, message, changed).await
    }

    /// Starts or ends the scrub of a store while clients use it. [`GateHandle::report`] tells how
    /// it gets on.
    ///
    /// # Errors
    /// [`ScrubError`]; nothing has changed.
    pub async fn scrub(&self, store: &str, order: ScrubOrder) -> Result<(), ScrubError> {
        let (reply, done) = oneshot::channel();
        let message = Message::Scrub { store: store.to_owned(), order, reply };
        self.ask_store(store, message, done).await
    }

    /// Gives the operator's word on what a volume waits for, such as whether the gate is gone that
    /// had it before; returns that question.
    ///
    /// # Errors
    /// [`ClaimError`]; nothing has changed.
    pub async fn claim(&self, volume: &str) -> Result<String, ClaimError> {
        let plan = self.shared.plan();
        let owns = |domain: &&PlannedDomain| match plan.backend(volume) {
            Some(backend) if backend.is_volume() => domain.name == volume,
            Some(Backend { source: Source::Ceph(_), .. }) => domain.has(volume),
            _ => false,
        };
        let domain = plan.domains.iter().find(owns);
        let domain = domain.ok_or_else(|| ClaimError::UnknownVolume(volume.to_owned()))?;
        let (reply, claimed) = oneshot::channel();
        self.shared.send(domain.worker, Message::Claim { volume: volume.to_owned(), reply });
        claimed.await.unwrap_or(Err(ClaimError::Stopping))
    }

    /// Gives a volume another size while clients use it; returns it, as the volume has it. Clients
    /// that come from then on see it.
    ///
    /// # Errors
    /// [`ResizeError`]; its size has not changed.
    pub async fn resize(&self, volume: &str, size_bytes: u64) -> Result<u64, ResizeError> {
        let plan = self.shared.plan();
        let is_resizable = plan
            .backend(volume)
            .is_some_and(|backend| matches!(backend.source, Source::Ceph(_) | Source::Spread(_)));
        let is_its = |domain: &&PlannedDomain| domain.name == volume || domain.has(volume);
        let domain = plan.domains.iter().filter(|_| is_resizable).find(is_its);
        let domain = domain.ok_or_else(|| ResizeError::NotResizable(volume.to_owned()))?;
        let (reply, resized) = oneshot::channel();
        let message = Message::Resize { volume: volume.to_owned(), size_bytes, reply };
        self.shared.send(domain.worker, message);
        resized.await.unwrap_or(Err(ResizeError::Stopping))
    }

    async fn ask_store<T, E: From<VolumeError>>(
        &self,
        store: &str,
        message: Message,
        answer: oneshot::Receiver<Result<T, E>>,
    ) -> Result<T, E> {
        let plan = self.shared.plan();
        let is_store = |backend: &&Backend| matches!(backend.source, Source::Store(_));
        let known = plan.backend(store).filter(is_store);
        let domain = known.and_then(|_| plan.domains.iter().find(|domain| domain.has(store)));
        let domain = domain.ok_or_else(|| VolumeError::UnknownStore(store.to_owned()))?;
        self.shared.send(domain.worker, message);
        let stopping = || Err(VolumeError::NotOpen("the gate is stopping".to_owned()).into());
        answer.await.unwrap_or_else(|_| stopping())
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.shared.plan().policy.clone()
    }

    /// Looks at the policy in force.
    pub fn with_policy<T>(&self, look: impl FnOnce(&Policy) -> T) -> T {
        look(&self.shared.plan().policy)
    }

    /// The accounts at this instant.
    pub async fn report(&self) -> GateReport {
        let shared = &self.shared;
        let mut replies = Vec::new();
        for worker in 0..shared.workers() {
            let (reply, report) = oneshot::channel();
            shared.send(worker, Message::Report { reply });
            replies.push(report);
        }
        let mut reports: Vec<WorkerReport> = Vec::new();
        for reply in replies {
            // A worker that has ended has nothing more to say.
            reports.extend(reply.await);
        }
        let plan = shared.plan();
        let names = plan.tenant_names();
        let refused = shared.door.refused_lately().into_iter();
        let refused = refused.filter_map(|tenant| names.get(tenant.index()));
        GateReport {
            uptime: Span(shared.clock.now().0),
            connections: shared.door.connections(),
            connections_refused: shared.door.refused(),
            refused_tenants: refused.map(ToString::to_string).collect(),
            protocol_errors: shared.protocol_errors.load(Ordering::Relaxed),
            refused_opens: shared.refused_opens(),
            recording: self.recording(),
            memory: MemoryReport {
                held_bytes: shared.memory.total_bytes(),
                bound_bytes: plan.policy.memory.total_bytes,
                cut_connections: shared.memory.cut(),
                tenants: shared.memory.report(&names),
            },
            exchange: shared.report_exchange().await,
            ..report::merge(&plan, reports)
        }
    }
}

/// Refuses to put something else behind a name that clients may be using.
fn keeps_sources(before: &Policy, after: &Policy) -> Result<(), GateError> {
    for backend in &after.backends {
        let known = before.backends.iter().find(|known| known.name == backend.name);
        if known.is_some_and(|known| !same_source(&known.source, &backend.source)) {
            return Err(GateError {
                what: format!("backend {:?}", backend.name),
                why:
                    "what stands behind it cannot change while the gate runs; add it under another \
                      name, or restart"
                        .to_owned(),
            });
        }
    }
    Ok(())
}

/// Whether two sources are the same storage. Whether an upstream's exports pass through may change,
/// and where its host tells of itself; what moves the extents of a tiered volume; what a spread one
/// prefers; the ceiling of one that is spread or in Ceph; how a volume is taken over, but for the
/// times of its lease.
pub(crate) fn same_source(before: &Source, after: &Source) -> bool {
    // A volume keeps to the lease that it was opened with.
    let times = |source: &Source| source.takeover().map(|takeover| takeover.times);
    if times(before) != times(after) {
        return false;
    }
    match (before, after) {
        (Source::Upstream(before), Source::Upstream(after)) => {
            let mut before = before.clone();
            before.passthrough = after.passthrough;
            before.allow.clone_from(&after.allow);
            before.metrics.clone_from(&after.metrics);
            before == *after
        }
        (Source::Tiered(before), Source::Tiered(after)) => {
            let Tiered { moves, takeover, .. } = after.clone();
            Tiered { moves, takeover, ..before.clone() } == *after
        }
        (Source::Spread(before), Source::Spread(after)) => {
            let Spread { prefer, near, ceiling_milli, takeover, .. } = after.clone();
            let shape = Shape { size_bytes: after.shape.size_bytes, ..before.shape };
            Spread { prefer, near, ceiling_milli, takeover, shape, ..before.clone() } == *after
        }
        (Source::Ceph(before), Source::Ceph(after)) => before.is_volume_of(after),
        (Source::Store(before), Source::Store(after)) => {
            let mut before = before.clone();
            before.cache.device = after.cache.device;
            before == *after
        }
        (before, after) => before == after,
    }
}
