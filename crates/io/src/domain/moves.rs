//! Moves of a volume's extents, as the engine asks for them: one step after the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::id::ServerId;
use evenkeel_engine::Input;
use evenkeel_engine::notes::{Step, StepKind};
use evenkeel_engine::tiers::Volume;
use evenkeel_wire::nbd::proto::Errno;
use tokio::sync::Notify;

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

/// Carries out moves: one step after the other.
pub(crate) struct Mover {
    pub(crate) domain: Rc<Domain>,
    /// The open volume.
    pub(crate) device: Rc<Device>,
    /// Losses of acknowledged writes that the mover's flushes have met.
    pub(crate) heard: Rc<LossesHeard>,
    /// What was read last; at most [`STEP_BYTES_MAX`](evenkeel_engine::notes::STEP_BYTES_MAX).
    pub(crate) data: Option<Arc<Buf>>,
}

impl Mover {
    /// Makes the moves that the engine asks for, for as long as the gate runs.
    pub(crate) async fn run(mut self) {
        let domain = Rc::clone(&self.domain);
        loop {
            let step = domain.steps.next().await;
            let result = self.make(&step).await;
            if let Err(errno) = result {
                tracing::warn!(?step, ?errno, "a step of a move failed");
            }
            domain.moved(&step, result.is_ok());
        }
    }

    async fn make(&mut self, step: &Step) -> Result<(), Errno> {
        let offset = step.offset;
        let task = match step.kind {
            StepKind::Read => {
                self.data = None;
                Task::Read { offset, length: step.length }
            }
            StepKind::Write => {
                let data = self.data.clone().expect("what is written was read before");
                Task::Write { offset, data }
            }
            StepKind::Note => Task::Write { offset, data: Arc::new(self.domain.note(step.server)) },
            StepKind::Wipe | StepKind::Discard => unreachable!("extents are copied whole"),
            StepKind::Flush => Task::Flush,
        };
        let tier = self.device.tier(step.server);
        let data = self.domain.run_errand(tier, (step.tenant, &self.heard), task).await?;
        if let Some(data) = data {
            self.data = Some(Arc::new(data));
        }
        Ok(())
    }
}

impl Domain {
    /// Serves the volume that the tiers turned out to be.
    pub(crate) fn serve_volume(self: &Rc<Self>, volume: Box<Volume>, device: Rc<Device>) {
        let now = self.worker.clock.now();
        self.state.borrow_mut().engine.handle(now, Input::Volume(volume));
        self.volume().expect("its domain has a volume").open(device);
        self.pump();
    }

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
