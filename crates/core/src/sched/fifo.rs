//! Arrival order: what storage does when nobody schedules it, and so the baseline.
//!
//! With a depth, at most that many tickets are with the device; without one, whatever arrives goes.

use std::collections::VecDeque;

use super::{Next, Scheduler, Share};
use crate::id::TenantId;
use crate::ticket::Ticket;
use crate::time::Nanos;

/// First in, first out, whoever asks.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    queue: VecDeque<Ticket>,
    depth: Option<u32>,
    in_service: u32,
}

impl Fifo {
    /// At most `depth` tickets with the device, and one at least; `None` for no bound.
    pub fn new(depth: Option<u32>) -> Self {
        Self { depth: depth.map(|depth| depth.max(1)), ..Self::default() }
    }

    /// Changes the depth; what is with the device stays there.
    pub fn set_depth(&mut self, depth: Option<u32>) {
        self.depth = depth.map(|depth| depth.max(1));
    }
}

impl Scheduler for Fifo {
    fn enqueue(&mut self, _now: Nanos, ticket: Ticket) {
        self.queue.push_back(ticket);
    }

    fn complete(&mut self, _now: Nanos, _ticket: Ticket) {
        assert!(self.in_service > 0, "a ticket completes once, after its dispatch");
        self.in_service -= 1;
    }

    fn poll(&mut self, _now: Nanos) -> Next {
        if self.is_full() {
            return Next::Idle;
        }
        let Some(ticket) = self.queue.pop_front() else { return Next::Idle };
        self.in_service += 1;
        Next::Dispatch(ticket)
    }

    fn configure(&mut self, _now: Nanos, _tenant: TenantId, _share: Share) {}

    /// O(everything queued): arrival order keeps no queue per tenant.
    fn withdraw(&mut self, _now: Nanos, ticket: Ticket) -> bool {
        let found = self.queue.iter().position(|queued| queued.slot == ticket.slot);
        found.is_some_and(|index| self.queue.remove(index).is_some())
    }

    fn drain(&mut self) -> Vec<Ticket> {
        self.queue.drain(..).collect()
    }

    fn queued(&self) -> usize {
        self.queue.len()
    }

    fn is_full(&self) -> bool {
        self.depth.is_some_and(|depth| self.in_service >= depth)
    }

    fn depth_now(&self) -> u64 {
        self.depth.map_or(0, u64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::ticket;

    #[test]
    fn arrival_order_up_to_the_depth() {
        let mut fifo = Fifo::new(Some(2));
        let tickets = [ticket(0, 1), ticket(1, 2), ticket(0, 3)];
        for ticket in tickets {
            fifo.enqueue(Nanos(0), ticket);
        }
        assert_eq!(fifo.poll(Nanos(0)), Next::Dispatch(tickets[0]));
        assert_eq!(fifo.poll(Nanos(0)), Next::Dispatch(tickets[1]));
        assert_eq!(fifo.poll(Nanos(0)), Next::Idle);
        fifo.complete(Nanos(5), tickets[1]);
        assert_eq!(fifo.poll(Nanos(5)), Next::Dispatch(tickets[2]));
    }

    #[test]
    fn what_is_withdrawn_never_goes() {
        let mut fifo = Fifo::new(None);
        let tickets = [ticket(0, 1), ticket(0, 2), ticket(0, 3)];
        for ticket in tickets {
            fifo.enqueue(Nanos(0), ticket);
        }
        assert!(fifo.withdraw(Nanos(0), tickets[1]));
        assert!(!fifo.withdraw(Nanos(0), tickets[1]));
        assert_eq!(fifo.poll(Nanos(0)), Next::Dispatch(tickets[0]));
        assert_eq!(fifo.drain(), [tickets[2]]);
        assert_eq!(fifo.queued(), 0);
    }
}
