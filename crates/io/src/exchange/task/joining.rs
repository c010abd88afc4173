//! Gates that come together before a device, and part again.

use evenkeel_core::control::array_cost::ArrayCost;
use evenkeel_core::control::member::Method;
use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::summary::HostId;
use evenkeel_core::time::Nanos;
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::cost::measured::Measured;
use evenkeel_engine::policy::Joint;
use tokio::sync::mpsc::UnboundedSender;

use super::super::Place;
use super::super::seat::Seat;
use super::{Exchange, ask, name_of};
use crate::worker::exchange::Asked;
use crate::worker::message::Message;

impl Exchange {
    /// Another gate is before a device too: the two divide it, and count alike.
    pub(super) fn come_together(
        &mut self,
        device: DeviceId,
        (host, is_collector): (HostId, bool),
        method: Method,
        cost: Option<ArrayCost>,
    ) {
        let now = self.clock.now();
        let seat = self.seats.get_mut(&device).expect("its word was taken");
        let begins = seat.together.hear(now, method);
        let is_better =
            cost.is_some_and(|cost| seat.together.agree(now, (host, is_collector), cost));
        let seat = &self.seats[&device];
        if begins {
            let (backend, gate) = (&seat.place.backend, name_of(&self.peers, host));
            tracing::info!(backend, gate, "is before it too: the two divide it by share");
            self.join(seat);
        }
        if is_better {
            agree(&self.workers, seat);
        }
    }

    /// Parts from the devices at which nobody else is heard any more, and forgets what policies of
    /// others no longer say.
    pub(super) fn leave(&mut self, now: Nanos) {
        for seat in self.seats.values_mut() {
            if seat.together.settle(now) {
                agree(&self.workers, seat);
            }
            if seat.together.is_left(now) {
                let Place { domain, server, worker, backend, .. } = &seat.place;
                tracing::info!(backend, "no other gate is heard before it: this one is alone");
                ask(&self.workers[*worker], domain, Asked::Part { server: *server });
            }
        }
    }

    /// Asks the worker to divide a device with others from now on.
    pub(super) fn join(&self, seat: &Seat) {
        let Place { domain, server, backend, worker, .. } = &seat.place;
        let (server, backend, reply) = (*server, backend.clone(), self.told.clone());
        ask(&self.workers[*worker], domain, Asked::Join { server, backend, reply });
    }

    /// A worker has begun to divide a device with others.
    pub(super) fn begin(&mut self, backend: &str, joint: &Joint, measured: Option<&Measured>) {
        let members = self.members();
        let mut seats = self.seats.values_mut();
        let Some(seat) = seats.find(|seat| seat.place.backend == backend) else { return };
        seat.begun(joint.depth, &members);
        if seat.together.begun(self.clock.now(), measured.map(Measured::for_other_gates)) {
            agree(&self.workers, seat);
        }
        self.record(&members);
    }
}

/// Lets the worker count as all gates before a device do.
pub(super) fn agree(workers: &[UnboundedSender<Message>], seat: &Seat) {
    let cost = seat.together.cost().map(|cost| CostModel::of_other_gates(&cost));
    let Place { domain, server, worker, .. } = &seat.place;
    ask(&workers[*worker], domain, Asked::AgreeOnCost { server: *server, cost });
}
