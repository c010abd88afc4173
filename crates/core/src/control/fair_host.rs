//! A host before a shared device whose tenants have its slots by weight.
//!
//! ```text
//!   arrived --> start-time fair queuing --next, while a slot is free--> device --> counted
//!                         ^                              ^
//!                   weights by tenant          thousandths of slots        once each period
//! ```
//!
//! What is over a tenant's limit waits before that, for the part of the limit that the host has.
//! Weights and slots are those of the last decision ([`super::shares`]). A tenant that the decision
//! did not know, since it had been silent, has its own weight at the level of the others'.

use super::host::Sent;
use super::name::TenantNumber;
use super::order::Waiting;
use super::slots::{Free, Slots};
use super::summary::{HostId, Summary};
use super::tenants::Tenants;
use super::{Decision, Division, Due, WHOLE_PPM};
use crate::id::TenantId;
use crate::sched::depth::DepthPolicy;
use crate::sched::limit::Limited;
use crate::sched::sfq::{Sfq, SfqOptions};
use crate::sched::{Limit, Next, Scheduler, Share};
use crate::ticket::Ticket;
use crate::time::{Nanos, Span};

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct FairHost {
    id: HostId,
    tenants: Tenants,
    queue: Limited<Sfq>,
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
            queue: Limited::new(Sfq::new(options)),
            slots: Slots::new(slots_milli),
            division: Division::default(),
        }
    }

    /// Adds the next tenant, or changes one that is known.
    pub(super) fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        self.tenants.configure(tenant, share);
        let due = self.division.due(self.tenants.number(tenant), share.weight_milli);
        self.give(now, tenant, share.limit, due);
    }

    /// Says what all hosts call a tenant.
    pub(super) fn set_number(&mut self, tenant: TenantId, number: TenantNumber) {
        self.tenants.set_number(tenant, number);
    }

    /// Gives a tenant what it is due, and its part of its limit.
    fn give(&mut self, now: Nanos, tenant: TenantId, limit: Limit, due: Due) {
        let limit = part_of(limit, due.limit_ppm);
        let share = Share { weight_milli: due.weight, limit, ..Share::default() };
        self.queue.configure(now, tenant, share);
        self.queue.inner_mut().set_lead(tenant, due.lead);
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
        self.tenants.completed(now, sent, (ticket.cost, ticket.size_bytes));
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
        let mut summary = self.tenants.summarise(now, self.id, number, period);
        let held: Vec<TenantNumber> = self
            .tenants
            .all()
            .filter(|(id, ..)| self.queue.held(*id) > 0)
            .map(|(_, number, _)| number)
            .collect();
        for flow in &mut summary.flows {
            flow.is_limited = held.contains(&flow.tenant);
        }
        Summary { depth: self.division.depth_next, ..summary }
    }

    /// Request-time that a tenant's own limit has held its requests for.
    pub(super) fn throttled(&self, now: Nanos, tenant: TenantId) -> Span {
        self.queue.throttled(now, tenant)
    }

    /// Puts a decision in force. O(tenants and what they have waiting).
    pub(super) fn decide(&mut self, now: Nanos, decision: &Decision) {
        let Some(division) = &decision.division else { return };
        self.division.clone_from(division);
        self.slots.set(now, division.slots_milli);
        let all: Vec<(TenantId, TenantNumber, Share)> = self.tenants.all().collect();
        for (tenant, number, share) in all {
            self.give(now, tenant, share.limit, division.due(number, share.weight_milli));
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

/// A part of a limit, in millionths.
fn part_of(limit: Limit, ppm: u32) -> Limit {
    let part = |whole: u64| match whole {
        0 => 0,
        whole => {
            let part = u128::from(whole) * u128::from(ppm) / u128::from(WHOLE_PPM);
            u64::try_from(part).unwrap_or(u64::MAX).max(1)
        }
    };
    Limit {
        rate_iops: part(limit.rate_iops),
        rate_bytes: part(limit.rate_bytes),
        burst_requests: part(limit.burst_requests),
        burst_bytes: part(limit.burst_bytes),
    }
}
