//! Arrival order: what storage does when nobody schedules it, and so the baseline.
//!
//! With a depth, at most that many tickets are with the device; without one, whatever arrives goes.
//! What has waited for a second goes by weight, each tenant's oldest first (`sched::late`): a
//! flood that nobody can serve keeps nobody else from the device.

use std::collections::VecDeque;

use super::late::Late;
use super::{Next, Scheduler, Share};
use crate::id::TenantId;
use crate::ticket::Ticket;
use crate::time::{Nanos, Span};

/// How long a ticket waits in the order of arrival.
const PATIENCE: Span = Span::from_secs(1);

/// First in, first out, whoever asks.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    queue: VecDeque<Queued>,
    late: Late<Ticket>,
    depth: Option<u32>,
    in_service: u32,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    ticket: Ticket,
    at: Nanos,
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

    /// Takes out what goes next.
    fn pop(&mut self, now: Nanos) -> Option<Ticket> {
        let is_late = |queued: &mut Queued| queued.at + PATIENCE <= now;
        while let Some(Queued { ticket, at }) = self.queue.pop_front_if(is_late) {
            self.late.push(ticket.tenant, (at.0, Nanos::ZERO), ticket.cost, ticket);
        }
        let in_time = || self.queue.pop_front().map(|queued| queued.ticket);
        let ticket = self.late.pop().or_else(in_time)?;
        self.late.spend(ticket.cost);
        self.late.end_wait(ticket.tenant);
        Some(ticket)
    }
}

impl Scheduler for Fifo {
    fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        self.late.begin_wait(ticket.tenant);
        self.queue.push_back(Queued { ticket, at: now });
    }

    fn complete(&mut self, _now: Nanos, _ticket: Ticket) {
        assert!(self.in_service > 0, "a ticket completes once, after its dispatch");
        self.in_service -= 1;
    }

    fn poll(&mut self, now: Nanos) -> Next {
        if self.is_full() {
            return Next::Idle;
        }
        let Some(ticket) = self.pop(now) else { return Next::Idle };
        self.in_service += 1;
        Next::Dispatch(ticket)
    }

    fn configure(&mut self, _now: Nanos, tenant: TenantId, share: Share) {
        self.late.configure(tenant, share.weight_milli);
    }

    /// O(everything queued): arrival order keeps no queue per tenant.
    fn withdraw(&mut self, _now: Nanos, ticket: Ticket) -> bool {
        let is_it = |queued: &Ticket| queued.slot == ticket.slot;
        let found = self.queue.iter().position(|queued| is_it(&queued.ticket));
        let was_queued = match found {
            Some(index) => self.queue.remove(index).is_some(),
            None => self.late.remove(ticket.tenant, is_it).is_some(),
        };
        if was_queued {
            self.late.end_wait(ticket.tenant);
        }
        was_queued
    }

    fn drain(&mut self) -> Vec<Ticket> {
        let mut drained: Vec<Ticket> = std::iter::from_fn(|| self.late.pop()).collect();
        drained.extend(self.queue.drain(..).map(|queued| queued.ticket));
        for ticket in &drained {
            self.late.end_wait(ticket.tenant);
        }
        drained
    }

    fn queued(&self) -> usize {
        self.queue.len() + self.late.len()
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

    fn fifo(depth: Option<u32>) -> Fifo {
        let mut fifo = Fifo::new(depth);
        (0..2).for_each(|tenant| fifo.configure(Nanos(0), TenantId(tenant), Share::default()));
        fifo
    }

    #[test]
    fn a_flood_that_has_waited_for_a_second_leaves_others_their_share() {
        let mut fifo = fifo(Some(1));
        (0..100).for_each(|slot| fifo.enqueue(Nanos(0), ticket(0, slot)));
        (100..110).for_each(|slot| fifo.enqueue(Nanos(1), ticket(1, slot)));
        let mut serve = |now, count: u32| -> Vec<u32> {
            let mut served = Vec::new();
            for _ in 0..count {
                let Next::Dispatch(ticket) = fifo.poll(now) else { panic!("something waits") };
                fifo.complete(now, ticket);
                served.push(ticket.slot);
            }
            served
        };
        assert_eq!(serve(Nanos(1), 3), [0, 1, 2]);
        let second = Nanos(1) + PATIENCE;
        assert_eq!(serve(second, 8), [3, 100, 4, 101, 5, 102, 6, 103]);
    }

    #[test]
    fn arrival_order_up_to_the_depth() {
        let mut fifo = fifo(Some(2));
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
        let mut fifo = fifo(None);
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
