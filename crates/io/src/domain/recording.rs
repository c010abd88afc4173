//! What a domain tells the recording, if there is one. See [`crate::record`].

use std::rc::Rc;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::{Domain, State};
use crate::client::Client;
use crate::op::Op;
use crate::record::{Lane, Recorder, Started};

impl Domain {
    /// Records what arrives from now on, or no longer. What has gathered is handed over.
    pub(crate) fn record_to(&self, recorder: Option<&Recorder>) {
        let now = self.worker.clock.now();
        self.state.borrow_mut().lane = recorder.and_then(|recorder| recorder.lane(now));
    }

    /// Whether its requests are recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.state.borrow().lane.is_some()
    }

    /// Hands over what has gathered: a quiet domain must not hold up the others' requests.
    pub(crate) fn flush_recording(&self) {
        self.state.borrow_mut().flush_recording(self.worker.clock.now());
    }

    /// Notes the arrival of a client's request.
    pub(super) fn recorded(
        &self,
        lane: Option<&mut Lane>,
        client: &Rc<Client>,
        now: Nanos,
    ) -> Option<Started> {
        let lane = lane?;
        let (tenant, mut known) = (client.tenant.get(), client.recorded_as.get());
        let name = || {
            let plan = self.worker.plan();
            format!("{}/{}", plan.tenant_name(tenant), client.export.name)
        };
        let started = lane.arrived(now, tenant, &mut known, name);
        client.recorded_as.set(known);
        Some(started)
    }
}

impl State {
    /// Records a request that has ended; `ok` if it was answered well.
    pub(super) fn record(&mut self, now: Nanos, op: &Op, ok: bool) {
        let (Some(lane), Some(started)) = (&mut self.lane, op.recorded) else { return };
        let length = if op.kind == Kind::Flush { 0 } else { op.request.length };
        if lane.ended(now, started, op.kind, (op.request.offset, length), ok) {
            self.flush_recording(now);
        }
    }

    fn flush_recording(&mut self, now: Nanos) {
        if let Some(lane) = &mut self.lane {
            lane.flush(now, self.ops.iter().filter_map(|(_, op)| op.recorded));
        }
    }
}
