//! What a volume notes and copies, as the engine asks for it: errand by errand.
//!
//! ```text
//! Output::Move --> Steps --> Clerk --- notes and copies ---> Input::Moved
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_engine::Input;
use evenkeel_engine::notes::{STEP_BYTES_MAX, Step, StepKind};
use evenkeel_wire::nbd::proto::{Errno, TransmissionFlags};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::Domain;
use super::errand::Task;
use crate::buffer::Buf;
use crate::device::Device;
use crate::op::LossesHeard;

/// What the engine asked for, until somebody takes it on.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// At most two for each server.
    next: RefCell<VecDeque<Step>>,
    asked: Notify,
}

impl Steps {
    /// Hands a step to whoever makes them.
    pub(super) fn ask(&self, step: Step) {
        self.next.borrow_mut().push_back(step);
        self.asked.notify_one();
    }

    /// What was asked for is of no concern any more.
    pub(super) fn clear(&self) {
        self.next.borrow_mut().clear();
    }

    pub(super) async fn next(&self) -> Step {
        loop {
            let step = self.next.borrow_mut().pop_front();
            if let Some(step) = step {
                return step;
            }
            self.asked.notified().await;
        }
    }
}

/// Carries out what the engine wants noted and copied.
#[derive(Clone)]
pub(crate) struct Clerk {
    pub(crate) domain: Rc<Domain>,
    /// The open volume.
    pub(crate) device: Rc<Device>,
    /// Losses of acknowledged writes that flushes of notes have met.
    pub(crate) heard: Rc<LossesHeard>,
    /// What was read last to be copied: one extent or object moves at a time.
    pub(crate) data: Rc<RefCell<Option<Arc<Buf>>>>,
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

    pub(super) async fn run_errand(
        &self,
        server: ServerId,
        tenant: TenantId,
        task: Task,
    ) -> Result<Option<Buf>, Errno> {
        let part = self.device.tier(server);
        self.domain.run_errand(part, (tenant, &self.heard), task).await
    }
}

impl Domain {
    /// What the engine wants noted.
    pub(super) fn note(&self, server: ServerId) -> Buf {
        Buf::copy_of(self.state.borrow().engine.note_bytes(server))
    }

    /// Tells the engine how its step ended.
    pub(super) fn moved(self: &Rc<Self>, step: &Step, ok: bool) {
        let now = self.worker.clock.now();
        let Step { server, kind, .. } = *step;
        self.state.borrow_mut().engine.handle(now, Input::Moved { server, kind, ok });
        self.pump();
    }
}
