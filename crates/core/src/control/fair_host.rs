//! A host before a shared device whose tenants have its slots by weight.
//!
//! ```text
//!   arrived --> start-time fair queuing --next, while a slot is free--> device --finished--> counted
//!                         ^                              ^
//!                   weights by tenant             thousandths of slots        once each period
//! ```
//!
//! Weights and slots are those of the last decision ([`super::shares`]). A tenant that the decision
//! did not know, since it had been silent, has its own weight at the level of the others'.

use super::host::Sent;
use super::name::TenantNumber;
use super::order::Waiting;
use super::slots::{Free, Slots};
use super::summary::{HostId, Summary};
use super::target::Target;
use super::tenants::Tenants;
use super::{Decision, Division, Due};
use crate::id::TenantId;
use crate::sched::depth::DepthPolicy;
use crate::sched::sfq::{Sfq, SfqOptions};
use crate::sched::{Next, Scheduler, Share};
use crate::ticket::Ticket;
use crate::time::{Nanos, Span};

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct FairHost {
    id: HostId,
    tenants: Tenants,
    queue: Sfq,
    slots: Slots,
    division: Division,
}

impl FairHost {
    /// A host without tenants, with these slots until the first decision.
    pub(super) fn new(id: HostId, slots: u32) -> Self {
        let slots_milli = u64::from(slots) * 1000;
        let options = SfqOptions { depth: DepthPolicy::Requests(u32::MAX), hold: Span::ZERO };
        Self {
            id,
            tenants: Tenants::default(),
            queue: Sfq::new(options),
            slots: Slots::new(slots_milli),
            division: Division::default(),
        }
    }

    /// Adds the next tenant, or changes one that is known.
    pub(super) fn configure(
        &mut self,
        now: Nanos,
        tenant: TenantId,
        weight_milli: u32,
        target: Option<Target>,
    ) {
        self.tenants.configure(tenant, weight_milli, target);
        let due = self.division.due(self.tenants.number(tenant), weight_milli);
        self.weigh(now, tenant, due);
    }

    /// Says what all hosts call a tenant.
    pub(super) fn set_number(&mut self, tenant: TenantId, number: TenantNumber) {
        self.tenants.set_number(tenant, number);
    }

    fn weigh(&mut self, now: Nanos, tenant: TenantId, due: Due) {
        let share = Share { weight_milli: due.weight, ..Share::default() };
        self.queue.configure(now, tenant, share);
        self.queue.set_lead(tenant, due.lead);
    }

    /// A request arrived.
    pub(super) fn arrived(&mut self, now: Nanos, ticket: Ticket) {
        self.tenants.monitor(ticket.tenant).arrived(now);
        self.queue.enqueue(now, ticket);
    }

    /// What to do next. `arrival` says when a request arrived.
    pub(super) fn next(
        &mut self,
        now: Nanos,
        arrival: impl Fn(&Ticket) -> Nanos,
    ) -> (Next, Option<Sent>) {
        if self.queue.queued() == 0 {
            return (Next::Idle, None);
        }
        match self.slots.free(now) {
            Free::Now => {}
            Free::At(at) => return (Next::WaitUntil(at), None),
            Free::Never => return (Next::Idle, None),
        }
        let next = self.queue.poll(now);
        let Next::Dispatch(ticket) = next else { return (next, None) };
        self.slots.take(now);
        let arrival = arrival(&ticket);
        self.tenants.monitor(ticket.tenant).dispatched(now, arrival);
        let waiting = Waiting { tag: ticket.slot, tenant: ticket.tenant, arrival };
        (next, Some(Sent { waiting, dispatch: now }))
    }

    /// The device finished a request.
    pub(super) fn finished(&mut self, now: Nanos, sent: &Sent, ticket: Ticket) {
        self.slots.give_back(now);
        self.queue.complete(now, ticket);
        self.tenants.completed(now, sent, ticket.cost);
    }

    /// A request that waits will not be sent; false if it does not wait here. O(waiting of its
    /// tenant).
    pub(super) fn withdraw(&mut self, now: Nanos, ticket: Ticket, arrival: Nanos) -> bool {
        let was_waiting = self.queue.withdraw(now, ticket);
        if was_waiting {
            self.tenants.monitor(ticket.tenant).withdrawn(arrival);
        }
        was_waiting
    }

    /// Takes back all that waits, each tenant's in its own order.
    pub(super) fn drain(&mut self, arrival: impl Fn(&Ticket) -> Nanos) -> Vec<Ticket> {
        let waiting = self.queue.drain();
        for ticket in &waiting {
            self.tenants.monitor(ticket.tenant).withdrawn(arrival(ticket));
        }
        waiting
    }

    /// Ends a period of which `period` is the length. Tells of the tenants of which there is
    /// anything to tell, and the depth that this host would have all have together.
    pub(super) fn summarise(&mut self, now: Nanos, number: u64, period: Span) -> Summary {
        let summary = self.tenants.summarise(now, self.id, number, period);
        Summary { depth: self.division.depth_next, ..summary }
    }

    /// Puts a decision in force. O(tenants and what they have waiting).
    pub(super) fn decide(&mut self, now: Nanos, decision: &Decision) {
        let Some(division) = &decision.division else { return };
        self.division.clone_from(division);
        self.slots.set(now, division.slots_milli);
        let of = |(tenant, number, share_milli)| (tenant, division.due(number, share_milli));
        let all: Vec<(TenantId, Due)> = self.tenants.weights_milli().map(of).collect();
        for (tenant, due) in all {
            self.weigh(now, tenant, due);
        }
    }

    /// The slots in force, rounded up.
    pub(super) fn slots(&self) -> u32 {
        u32::try_from(self.slots.milli().div_ceil(1000)).unwrap_or(u32::MAX)
    }

    /// Requests that wait for a slot.
    pub(super) fn queued(&self) -> usize {
        self.queue.queued()
    }
}
