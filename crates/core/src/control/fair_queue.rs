//! What tenants have waiting for the slots of a host, in the order of start-time fair queuing, and
//! what is counted of it.
//!
//! A request is counted from when it comes in here. What its tenant's own limit held it for before
//! ([`crate::sched::limit`]) is no part of its response time.

use super::host::Sent;
use super::order::Waiting;
use super::slots::{Free, Slots};
use super::tenants::Tenants;
use crate::id::TenantId;
use crate::sched::depth::DepthPolicy;
use crate::sched::sfq::{Sfq, SfqOptions};
use crate::sched::{Next, Scheduler, Share};
use crate::ticket::{Cost, Ticket};
use crate::time::{Nanos, Span};

/// See the [module](self). Its weights are what tenants are due at this host.
#[derive(Clone, Debug)]
pub(super) struct FairQueue {
    pub(super) tenants: Tenants,
    pub(super) slots: Slots,
    queue: Sfq,
    /// When what is waiting or at the device came and was sent, by its handle.
    times: Vec<Option<Times>>,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    arrival: Nanos,
    dispatch: Nanos,
}

impl FairQueue {
    /// Nothing waits, and there are no tenants.
    pub(super) fn new(slots_milli: u64) -> Self {
        let options = SfqOptions { depth: DepthPolicy::Requests(u32::MAX), hold: Span::ZERO };
        Self {
            tenants: Tenants::default(),
            slots: Slots::new(slots_milli),
            queue: Sfq::new(options),
            times: Vec::new(),
        }
    }

    /// Lets a tenant run ahead of what it is due ([`Sfq::set_lead`]).
    pub(super) fn set_lead(&mut self, tenant: TenantId, lead: Cost) {
        self.queue.set_lead(tenant, lead);
    }

    fn arrived(&mut self, now: Nanos, ticket: &Ticket) {
        self.tenants.monitor(ticket.tenant).arrived(now);
        let slot = ticket.slot as usize;
        self.times.resize(self.times.len().max(slot + 1), None);
        self.times[slot] = Some(Times { arrival: now, dispatch: now });
    }

    fn take(&mut self, ticket: &Ticket) -> Times {
        self.times[ticket.slot as usize].take().expect("a ticket comes out once")
    }
}

impl Scheduler for FairQueue {
    fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        self.arrived(now, &ticket);
        self.queue.enqueue(now, ticket);
    }

    fn enqueue_held(&mut self, now: Nanos, ticket: Ticket) {
        self.arrived(now, &ticket);
        self.queue.enqueue_held(now, ticket);
    }

    fn complete(&mut self, now: Nanos, ticket: Ticket) {
        let Times { arrival, dispatch } = self.take(&ticket);
        let waiting =
            Waiting { tag: ticket.slot, tenant: ticket.tenant, arrival, cost: ticket.cost };
        self.slots.give_back(now);
        self.queue.complete(now, ticket);
        let what = (ticket.cost, ticket.size_bytes);
        self.tenants.completed(now, &Sent { waiting, dispatch }, what);
    }

    fn leave(&mut self, now: Nanos, ticket: Ticket) {
        self.take(&ticket);
        self.slots.give_back(now);
        self.queue.leave(now, ticket);
        self.tenants.monitor(ticket.tenant).left(now);
    }

    fn poll(&mut self, now: Nanos) -> Next {
        if self.queue.queued() == 0 {
            return Next::Idle;
        }
        match self.slots.free(now) {
            Free::Now => {}
            Free::At(at) => return Next::WaitUntil(at),
            Free::Never => return Next::Idle,
        }
        let next = self.queue.poll(now);
        if let Next::Dispatch(ticket) = next {
            self.slots.take(now);
            let times = self.times[ticket.slot as usize].as_mut();
            let times = times.expect("what waits has its times");
            times.dispatch = now;
            self.tenants.monitor(ticket.tenant).dispatched(now, times.arrival);
        }
        next
    }

    fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        self.queue.configure(now, tenant, share);
    }

    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        let was_waiting = self.queue.withdraw(now, ticket);
        if was_waiting {
            let arrival = self.take(&ticket).arrival;
            self.tenants.monitor(ticket.tenant).withdrawn(arrival);
        }
        was_waiting
    }

    fn drain(&mut self) -> Vec<Ticket> {
        let waiting = self.queue.drain();
        for ticket in &waiting {
            let arrival = self.take(ticket).arrival;
            self.tenants.monitor(ticket.tenant).withdrawn(arrival);
        }
        waiting
    }

    fn queued(&self) -> usize {
        self.queue.queued()
    }
}
