//! A spread volume at work: its notes and moves, as the engine asks for them, and the beats that
//! keep it this gate's.
//!
//! ```text
//! Output::Move --> Clerk --- notes and copies, errand by errand ---> Input::Moved
//!                  Pulse --- look, beat, pause; one for each server -> Input::Held
//!                     ^
//!                   Leave: let go, when the gate stops
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_engine::lease::{Fenced, Lease};
use evenkeel_engine::notes::{STEP_BYTES_MAX, Step, StepKind};
use evenkeel_engine::policy::HostFigures;
use evenkeel_engine::spread::Volume;
use evenkeel_engine::{Input, Refused, Target};
use evenkeel_wire::nbd::proto::{Errno, TransmissionFlags};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::Domain;
use super::errand::Task;
use crate::buffer::Buf;
use crate::clock::duration;
use crate::device::{Device, Medium};
use crate::lease::VolumeLease;
use crate::op::{LossesHeard, Op};

/// Between two looks whether all that was asked for is over.
const LOOK: Duration = Duration::from_millis(2);

/// How long clients of a lost volume have to read their answers before their connections are cut.
const DISMISS_TIME: Duration = Duration::from_secs(2);

/// Carries out what the engine wants noted and copied.
#[derive(Clone)]
pub(crate) struct Clerk {
    pub(crate) domain: Rc<Domain>,
    /// The open volume.
    pub(crate) device: Rc<Device>,
    /// Losses of acknowledged writes that flushes of notes have met.
    pub(crate) heard: Rc<LossesHeard>,
    /// What was read last to be copied: one object moves at a time.
    pub(crate) data: Rc<RefCell<Option<Arc<Buf>>>>,
}

/// Keeps the volume this gate's, as far as one of its servers is concerned.
pub(crate) struct Pulse {
    pub(crate) clerk: Clerk,
    pub(crate) server: ServerId,
    /// Its place in the order of the policy.
    pub(crate) index: usize,
    pub(crate) lease: Rc<VolumeLease>,
    /// On whose account, where the server is none that others reach.
    pub(crate) tenant: TenantId,
}

/// Why there was no beat.
enum NoBeat {
    Failed(Errno),
    Fenced(Fenced),
}

impl From<Errno> for NoBeat {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// When the pulses of a domain are to let go of its volume.
#[derive(Debug, Default)]
pub(super) struct Leave {
    is_wanted: Cell<bool>,
    /// Pulses end without a word: the volume is opened anew, or another gate's.
    is_over: Cell<bool>,
    /// Pulses that have not ended.
    pulses: Cell<usize>,
    /// Told of every change.
    news: Notify,
}

impl Leave {
    /// Ends all pulses, without letting go.
    fn end(&self) {
        self.is_over.set(true);
        self.news.notify_waiters();
    }
}

/// A pulse that has not ended.
struct Beating(Rc<Domain>);

impl Beating {
    fn of(domain: &Rc<Domain>) -> Self {
        domain.leave.pulses.set(domain.leave.pulses.get() + 1);
        Self(Rc::clone(domain))
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        let leave = &self.0.leave;
        leave.pulses.set(leave.pulses.get() - 1);
        leave.news.notify_waiters();
    }
}

impl Clerk {
    /// Makes the steps that the engine asks for, for as long as the gate runs.
    pub(crate) async fn run(self) {
        // They end with this, should another gate take the volume.
        let mut under_way = JoinSet::new();
        loop {
            let step = tokio::select! {
                step = self.domain.steps.next() => step,
                Some(_) = under_way.join_next() => continue,
            };
            let clerk = self.clone();
            under_way.spawn_local(async move {
                let result = clerk.make(&step).await;
                if let Err(errno) = result {
                    tracing::warn!(?step, ?errno, "a note or a copy of a volume failed");
                }
                clerk.domain.moved(&step, result.is_ok());
            });
        }
    }

    async fn make(&self, step: &Step) -> Result<(), Errno> {
        let offset = step.offset;
        let task = match step.kind {
            StepKind::Note => Task::Write { offset, data: Arc::new(self.domain.note(step.server)) },
            StepKind::Flush => Task::Flush,
            StepKind::Discard if self.can(step.server, TransmissionFlags::SEND_TRIM) => {
                Task::Trim { offset, length: step.length }
            }
            StepKind::Discard => return Ok(()),
            StepKind::Wipe if self.can(step.server, TransmissionFlags::SEND_WRITE_ZEROES) => {
                Task::Zero { offset, length: step.length }
            }
            StepKind::Wipe => return self.overwrite(step).await,
            StepKind::Read => {
                let task = Task::Read { offset, length: step.length };
                let data = self.run_errand(step.server, step.tenant, task).await?;
                *self.data.borrow_mut() = data.map(Arc::new);
                return Ok(());
            }
            StepKind::Write => {
                let data = self.data.borrow_mut().take();
                Task::Write { offset, data: data.expect("what is written was read before") }
            }
        };
        self.run_errand(step.server, step.tenant, task).await.map(drop)
    }

    /// Writes zeroes where a server cannot be told to.
    async fn overwrite(&self, step: &Step) -> Result<(), Errno> {
        let part_bytes = STEP_BYTES_MAX.min(step.length);
        let mut zeroes = Buf::take(usize::try_from(part_bytes).expect("bounded above"));
        zeroes.fill(0);
        let data = Arc::new(zeroes);
        let end = step.offset + step.length;
        for offset in (step.offset..end).step_by(data.len()) {
            let task = Task::Write { offset, data: Arc::clone(&data) };
            self.run_errand(step.server, step.tenant, task).await?;
        }
        Ok(())
    }

    fn can(&self, server: ServerId, what: TransmissionFlags) -> bool {
        self.device.tier(server).features().is_some_and(|one| one.flags.contains(what))
    }

    async fn run_errand(
        &self,
        server: ServerId,
        tenant: TenantId,
        task: Task,
    ) -> Result<Option<Buf>, Errno> {
        let part = self.device.tier(server);
        self.domain.run_errand(part, (tenant, &self.heard), task).await
    }
}

impl Pulse {
    /// Beats until the volume is another gate's, or this one stops.
    pub(crate) async fn run(self) {
        let domain = Rc::clone(&self.clerk.domain);
        let _beating = Beating::of(&domain);
        let pause = duration(self.lease.times().beat());
        loop {
            match self.beat().await {
                Ok(()) => domain.tell(Input::Held { until: self.lease.held_until() }),
                Err(NoBeat::Fenced(why)) => self.lease.guard(self.index).judged(&why),
                // Requests to the server tell the same, with what stands in the way.
                Err(NoBeat::Failed(errno)) => {
                    tracing::debug!(server = ?self.server, ?errno, "no beat");
                }
            }
            if self.lease.is_out() {
                return;
            }
            let news = domain.leave.news.notified();
            if !domain.leave.is_wanted.get() && !domain.leave.is_over.get() {
                tokio::select! {
                    () = news => {}
                    () = self.lease.news.notified() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
            if domain.leave.is_over.get() {
                return;
            }
            if domain.leave.is_wanted.get() {
                return self.let_go().await;
            }
        }
    }

    /// Tells the next gate that it need not watch. What was asked for before is over by then.
    async fn let_go(&self) {
        while !self.clerk.domain.state.borrow().ops.is_empty() {
            tokio::time::sleep(LOOK).await;
        }
        let released = async {
            let lease = self.look().await?;
            let (offset, bytes) = lease.borrow().release();
            Ok(self.write(offset, &bytes).await?)
        };
        if let Err(why) = released.await {
            // The next gate watches for a while, as if this one had been killed.
            let server = self.clerk.domain.server_name(self.server);
            let why = match why {
                NoBeat::Failed(errno) => format!("{errno:?}"),
                NoBeat::Fenced(why) => why.to_string(),
            };
            tracing::warn!(server, why, "a volume is not let go of");
        }
    }

    async fn beat(&self) -> Result<(), NoBeat> {
        let lease = self.look().await?;
        let (offset, bytes) = lease.borrow_mut().beat();
        let sent_at = self.clerk.domain.worker.clock.now();
        self.write(offset, &bytes).await?;
        lease.borrow_mut().beaten();
        self.lease.beaten(self.index, sent_at);
        Ok(())
    }

    /// Looks whether the server is what this gate has left.
    async fn look(&self) -> Result<Rc<RefCell<Lease>>, NoBeat> {
        let lease = self.lease.guard(self.index).lease().ok_or(Errno::Io)?;
        let sent_at = self.clerk.domain.worker.clock.now();
        let front = if let Medium::Remote(remote) = &self.clerk.device.tier(self.server).medium {
            remote.look(Lease::front_bytes()).await?
        } else {
            let look = Task::Read { offset: 0, length: Lease::front_bytes() };
            let front = self.clerk.run_errand(self.server, self.tenant, look).await?;
            front.expect("a read brings its data")
        };
        let now = self.clerk.domain.worker.clock.now();
        let (server, latency) = (self.server, now.since(sent_at));
        self.clerk.domain.tell(Input::Looked { server, latency });
        lease.borrow().look(&front).map_err(NoBeat::Fenced)?;
        self.lease.looked(self.index, sent_at);
        Ok(lease)
    }

    /// Writes this gate's name; past all queues where others may want the volume.
    async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        if let Medium::Remote(remote) = &self.clerk.device.tier(self.server).medium {
            return remote.claim(offset, bytes).await;
        }
        let task = Task::Write { offset, data: Arc::new(Buf::copy_of(bytes)) };
        self.clerk.run_errand(self.server, self.tenant, task).await.map(drop)
    }
}

impl Domain {
    /// Serves the spread volume that the servers turned out to hold.
    pub(crate) fn serve_spread(self: &Rc<Self>, volume: Box<Volume>, device: Rc<Device>) {
        self.tell(Input::Spread(volume));
        self.volume().expect("its domain has a volume").open(device);
    }

    /// Holds back whatever is asked of the volume until it is served anew; returns once nothing is
    /// noted on its servers any more, beats included. False if another gate has it.
    pub(crate) async fn pause_spread(self: &Rc<Self>, lease: &VolumeLease) -> bool {
        self.tell(Input::Pause);
        while !lease.is_out() && !self.state.borrow().engine.is_at_rest() {
            tokio::time::sleep(LOOK).await;
        }
        self.leave.end();
        while self.leave.pulses.get() > 0 {
            tokio::time::sleep(LOOK).await;
        }
        !lease.is_out()
    }

    /// Serves the volume that was opened anew; its pulses are the caller's to start.
    pub(crate) fn resume_spread(self: &Rc<Self>, volume: Box<Volume>) {
        self.leave.is_over.set(false);
        self.tell(Input::Spread(volume));
    }

    /// The volume is ours until then.
    pub(crate) fn held(self: &Rc<Self>, lease: &VolumeLease) {
        self.tell(Input::Held { until: lease.held_until() });
    }

    /// Another gate has the volume, or has had it: everything stops at once, and clients go.
    pub(crate) fn leave_office(self: &Rc<Self>, lease: &VolumeLease, by: &str) {
        if lease.is_out() {
            return;
        }
        tracing::error!(
            volume = self.name,
            by,
            "another gate has claimed the volume: nothing is sent or served any more"
        );
        lease.leave_office();
        self.leave.end();
        self.tell(Input::Fenced { server: None });
        self.dismiss();
        let volume = self.volume().expect("its domain has a volume");
        volume.lose(by);
    }

    /// Waits until nothing of the volume is under way any more and its clients have gone, and
    /// forgets it.
    pub(crate) async fn forget_spread(self: &Rc<Self>) {
        let began = tokio::time::Instant::now();
        let is_busy = || {
            let is_late = began.elapsed() >= DISMISS_TIME;
            let left = self.dismiss_some(|_| true, is_late);
            left > 0 || self.leave.pulses.get() > 0 || !self.state.borrow().ops.is_empty()
        };
        while is_busy() {
            tokio::time::sleep(LOOK).await;
        }
        self.leave.is_over.set(false);
        self.refused.borrow_mut().clear();
        self.tell(Input::Unmount);
        self.steps.clear();
    }

    /// A server is not what it has to be: nothing of it is served.
    pub(crate) fn fence_server(self: &Rc<Self>, server: ServerId, why: &Fenced) {
        let name = self.server_name(server);
        tracing::error!(server = name, "{why}; nothing of it is served");
        self.refused.borrow_mut().clear();
        self.tell(Input::Fenced { server: Some(server) });
    }

    /// A server is served from behind this server's address from now on.
    pub(crate) fn tell_place(&self, server: ServerId, address: ServerId) {
        let [server, address] = [server, address].map(|one| self.server_name(one));
        if server == address {
            tracing::info!(server, "it is behind its own address again");
        } else {
            tracing::warn!(
                server,
                address,
                "it is served from behind the address of another server"
            );
        }
    }

    /// A server is again what it has to be.
    pub(crate) fn clear_server(self: &Rc<Self>, server: ServerId) {
        tracing::info!(server = self.server_name(server), "it is what it has to be again");
        self.refused.borrow_mut().clear();
        self.tell(Input::Cleared { server });
    }

    /// The server that the volume was opened without is back, with older content.
    pub(crate) fn refuse_server(self: &Rc<Self>, server: ServerId) {
        self.tell(Input::Fenced { server: Some(server) });
    }

    /// Lets go of a spread volume that nobody uses any more; at once if there is none.
    pub(crate) async fn let_go(&self) {
        self.leave.is_wanted.set(true);
        self.leave.news.notify_waiters();
        loop {
            let news = self.leave.news.notified();
            if self.leave.pulses.get() == 0 {
                return;
            }
            news.await;
        }
    }

    /// Whether its servers are those of a spread volume.
    pub(crate) fn is_spread(&self) -> bool {
        self.policy.borrow().spread.is_some()
    }

    /// The host of a server has told of itself, or has not for long.
    pub(crate) fn host_told(self: &Rc<Self>, server: ServerId, host: Option<HostFigures>) {
        self.tell(Input::HostTold { server, host });
    }

    fn tell(self: &Rc<Self>, input: Input<'_>) {
        let now = self.worker.clock.now();
        self.state.borrow_mut().engine.handle(now, input);
        self.pump();
    }

    fn server_name(&self, server: ServerId) -> String {
        self.policy.borrow().servers[server.index()].0.clone()
    }

    /// A request of the volume is not served. Why is told where the gate's words go, once until
    /// something changes.
    pub(super) fn refuse(&self, op: &mut Op, why: Refused) {
        op.fail(if matches!(why, Refused::NoRoom(_)) { Errno::NoSpace } else { Errno::Io });
        let mut refused = self.refused.borrow_mut();
        if refused.contains(&why) || op.device.target != Target::Volume {
            return;
        }
        refused.push(why);
        let (offset, length, kind) = (op.request.offset, op.request.length, op.kind.name());
        let why = self.words_for(why);
        tracing::error!(volume = self.name, kind, offset, length, "{why}");
    }

    fn words_for(&self, why: Refused) -> String {
        let name = |server| self.server_name(server);
        match why {
            Refused::InDoubt => "notes of the volume cannot be written".to_owned(),
            Refused::NoRoom(server) => format!(
                "no candidate server has room below the ceiling, the emptiest is {:?}; free some \
                 or raise the ceiling",
                name(server)
            ),
            Refused::Away(server) => {
                format!("no candidate server can be written to, one is {:?}", name(server))
            }
            Refused::Lost(server) => {
                format!("written, and not on server {:?} any more; restore it", name(server))
            }
            Refused::Stale(server) => format!(
                "server {:?} does not hold what was used last; attach that, at its own address",
                name(server)
            ),
            Refused::Absent(server) => format!(
                "server {:?} does not answer since the volume was opened; start it",
                name(server)
            ),
            Refused::Claimed => "another gate has claimed the volume".to_owned(),
        }
    }
}
