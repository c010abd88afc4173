//! A spread volume at work: its notes and moves, as the engine asks for them, and the beats that
//! keep it this gate's.
//!
//! ```text
//! Output::Move --> Clerk --- notes and copies, errand by errand ---> Input::Moved
//!                  Pulse --- look, beat, pause; one for each server -> Input::Held, Input::Fenced
//!                     ^
//!                   Leave: let go, when the gate stops
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_engine::notes::{STEP_BYTES_MAX, Step, StepKind};
use evenkeel_engine::policy::HostFigures;
use evenkeel_engine::spread::{BEAT, Fenced, HOLD, Lease, Volume};
use evenkeel_engine::{Input, Refused, Target};
use evenkeel_wire::nbd::proto::{Errno, TransmissionFlags};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::Domain;
use super::errand::Task;
use crate::buffer::Buf;
use crate::device::Device;
use crate::op::{LossesHeard, Op};

/// Between two looks whether all that was asked for is over.
const LOOK: Duration = Duration::from_millis(2);

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
    pub(crate) lease: Lease,
    /// On whose account.
    pub(crate) tenant: TenantId,
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
        loop {
            let step = self.domain.steps.next().await;
            let clerk = self.clone();
            spawn_local(async move {
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
    /// Beats until the server is fenced, or the gate stops.
    pub(crate) async fn run(mut self) {
        let domain = Rc::clone(&self.clerk.domain);
        let _beating = Beating::of(&domain);
        loop {
            let began = domain.worker.clock.now();
            match self.beat().await {
                Ok(None) => {
                    domain.tell(Input::Held { server: self.server, until: began + HOLD });
                }
                Ok(Some(fenced)) => return self.fence(&fenced),
                // Requests to the server tell the same, with what stands in the way.
                Err(errno) => tracing::debug!(server = ?self.server, ?errno, "no beat"),
            }
            let news = domain.leave.news.notified();
            if !domain.leave.is_wanted.get() && !domain.leave.is_over.get() {
                let _ = tokio::time::timeout(Duration::from_nanos(BEAT.0), news).await;
            }
            if domain.leave.is_over.get() {
                return;
            }
            if domain.leave.is_wanted.get() {
                return self.let_go().await;
            }
        }
    }

    /// Tells the next gate that it need not watch. What was asked for before is over by then, other
    /// pulses' last words included.
    async fn let_go(&self) {
        while !self.clerk.domain.state.borrow().ops.is_empty() {
            tokio::time::sleep(LOOK).await;
        }
        let (offset, bytes) = self.lease.release();
        let task = Task::Write { offset, data: Arc::new(Buf::copy_of(&bytes)) };
        if let Err(errno) = self.clerk.run_errand(self.server, self.tenant, task).await {
            // The next gate watches for a while, as if this one had been killed.
            let server = self.clerk.domain.server_name(self.server);
            tracing::warn!(server, ?errno, "a volume is not let go of");
        }
    }

    async fn beat(&mut self) -> Result<Option<Fenced>, Errno> {
        let look = Task::Read { offset: 0, length: Lease::front_bytes() };
        let front = self.clerk.run_errand(self.server, self.tenant, look).await?;
        let front = front.expect("a read brings its data");
        if let Err(fenced) = self.lease.look(&front) {
            return Ok(Some(fenced));
        }
        let (offset, bytes) = self.lease.beat();
        let task = Task::Write { offset, data: Arc::new(Buf::copy_of(&bytes)) };
        self.clerk.run_errand(self.server, self.tenant, task).await?;
        self.lease.beaten();
        Ok(None)
    }

    fn fence(&self, fenced: &Fenced) {
        let domain = &self.clerk.domain;
        let server = domain.server_name(self.server);
        let server = match fenced {
            Fenced::Claimed(by) => {
                tracing::error!(
                    server,
                    by,
                    "another gate has claimed the volume: nothing is served"
                );
                // Where that gate has not been yet, it must not look as if this one were alive.
                domain.leave.end();
                None
            }
            Fenced::Stale => {
                tracing::error!(server, "it came back with older content: nothing of it is served");
                Some(self.server)
            }
        };
        domain.tell(Input::Fenced { server });
    }
}

impl Domain {
    /// Serves the spread volume that the servers turned out to hold.
    pub(crate) fn serve_spread(self: &Rc<Self>, volume: Box<Volume>, device: Rc<Device>) {
        self.tell(Input::Spread(volume));
        self.volume().expect("its domain has a volume").open(device);
    }

    /// Holds back whatever is asked of the volume until it is served anew; returns once nothing is
    /// noted on its servers any more, beats included.
    pub(crate) async fn pause_spread(self: &Rc<Self>) {
        self.tell(Input::Pause);
        self.leave.end();
        while self.leave.pulses.get() > 0 || !self.state.borrow().engine.is_at_rest() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Serves the volume that was opened anew; its pulses are the caller's to start.
    pub(crate) fn resume_spread(self: &Rc<Self>, volume: Box<Volume>) {
        self.leave.is_over.set(false);
        self.tell(Input::Spread(volume));
    }

    /// Another gate has the volume.
    pub(crate) fn lose_spread(self: &Rc<Self>) {
        self.tell(Input::Fenced { server: None });
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

    /// A request of the volume is not served. Why is told where the gate's words go, once for as
    /// long as the reason stays the same.
    pub(super) fn refuse(&self, op: &mut Op, why: Refused) {
        op.fail(if matches!(why, Refused::NoRoom(_)) { Errno::NoSpace } else { Errno::Io });
        if self.refused.replace(Some(why)) == Some(why) || op.device.target != Target::Volume {
            return;
        }
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
                "server {:?} came back with older content; attach what was used last",
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
