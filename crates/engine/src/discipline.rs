//! From the policy's words to a scheduler.

use std::collections::VecDeque;

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::Nanos;

/// The scheduler that delays nothing: arrival order, no depth.
pub(crate) fn open_gate() -> Box<dyn Scheduler> {
    Box::new(OpenGate::default())
}

#[derive(Debug, Default)]
struct OpenGate {
    queue: VecDeque<Ticket>,
}

impl Scheduler for OpenGate {
    fn enqueue(&mut self, _now: Nanos, ticket: Ticket) {
        self.queue.push_back(ticket);
    }

    fn complete(&mut self, _now: Nanos, _ticket: Ticket) {}

    fn poll(&mut self, _now: Nanos) -> Next {
        self.queue.pop_front().map_or(Next::Idle, Next::Dispatch)
    }

    fn configure(&mut self, _now: Nanos, _tenant: TenantId, _share: Share) {}

    fn withdraw(&mut self, _now: Nanos, ticket: Ticket) -> bool {
        let before = self.queue.len();
        self.queue.retain(|queued| queued.slot != ticket.slot);
        self.queue.len() < before
    }

    fn drain(&mut self) -> Vec<Ticket> {
        self.queue.drain(..).collect()
    }

    fn queued(&self) -> usize {
        self.queue.len()
    }
}
