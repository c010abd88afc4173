//! What a domain tells the recordings, if there are any. See [`crate::record`].

use std::rc::Rc;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::{Domain, State};
use crate::client::Client;
use crate::op::Op;
use crate::record::{Both, Lane, Lanes, Recorder, Started};

impl Domain {
    /// Records what arrives from now on, as somebody asked, or no longer. What has gathered is
    /// handed over.
    pub(crate) fn record_to(&self, recorder: Option<&Recorder>) {
        let now = self.worker.clock.now();
        self.state.borrow_mut().lanes.asked = recorder.and_then(|recorder| recorder.lane(now));
    }

    /// Gives what arrives from now on to the flight recorder. What has gathered is handed over.
    pub(crate) fn fly_with(&self, recorder: &Recorder) {
        self.state.borrow_mut().lanes.flight = recorder.lane(self.worker.clock.now());
    }

    /// Records nothing any more. What has gathered is handed over.
    pub(crate) fn record_no_more(&self) {
        self.state.borrow_mut().lanes = Lanes::default();
    }

    /// Whether its requests are recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        let lanes = &self.state.borrow().lanes;
        lanes.asked.is_some() || lanes.flight.is_some()
    }

    /// Hands over what has gathered: a quiet domain must not hold up the others' requests.
    pub(crate) fn flush_recording(&self) {
        let is_worn = self.state.borrow().lanes.flight.as_ref().is_some_and(Lane::is_worn);
        if is_worn && let Some(flight) = self.worker.shared.flight() {
            // What is under way is not recorded then.
            self.fly_with(flight.recorder());
        }
        let is_due = Both { asked: true, flight: true };
        self.state.borrow_mut().flush_recording(self.worker.clock.now(), is_due);
    }

    /// Notes the arrival of a client's request.
    pub(super) fn recorded(
        &self,
        lanes: &mut Lanes,
        client: &Rc<Client>,
        now: Nanos,
    ) -> Both<Option<Started>> {
        let (tenant, mut known) = (client.tenant.get(), client.recorded_as.get());
        let name = || {
            let plan = self.worker.plan();
            format!("{}/{}", plan.tenant_name(tenant), client.export.name)
        };
        let started = lanes.arrived(now, tenant, &mut known, name);
        client.recorded_as.set(known);
        started
    }
}

impl State {
    /// Records a request that has ended; `ok` if it was answered well.
    pub(super) fn record(&mut self, now: Nanos, op: &Op, ok: bool) {
        let length = if op.kind == Kind::Flush { 0 } else { op.request.length };
        let range = (op.request.offset, length);
        let is_due = self.lanes.ended(now, op.recorded, op.kind, range, ok);
        if is_due != Both::default() {
            self.flush_recording(now, is_due);
        }
    }

    fn flush_recording(&mut self, now: Nanos, is_due: Both<bool>) {
        self.lanes.flush(now, is_due, self.ops.iter().map(|(_, op)| op.recorded));
    }
}
