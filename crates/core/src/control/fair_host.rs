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

use super::fair_queue::FairQueue;
use super::name::TenantNumber;
use super::summary::{HostId, Summary};
use super::{Decision, Division, Due, WHOLE_PPM};
use crate::id::TenantId;
use crate::sched::limit::Limited;
use crate::sched::{Limit, Next, Scheduler, Share};
use crate::ticket::Ticket;
use crate::time::{Nanos, Span};

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct FairHost {
    id: HostId,
    queue: Limited<FairQueue>,
    division: Division,
}

impl FairHost {
    /// A host without tenants, with these slots until the first decision.
    pub(super) fn new(id: HostId, slots: u32) -> Self {
        let queue = Limited::new(FairQueue::new(u64::from(slots) * 1000));
        Self { id, queue, division: Division::default() }
    }

    /// Adds the next tenant, or changes one that is known.
    pub(super) fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        let tenants = &mut self.queue.inner_mut().tenants;
        tenants.configure(tenant, share);
        let due = self.division.due(tenants.number(tenant), share.weight_milli);
        self.give(now, tenant, share.limit, due);
    }

    /// Says what all hosts call a tenant.
    pub(super) fn set_number(&mut self, tenant: TenantId, number: TenantNumber) {
        self.queue.inner_mut().tenants.set_number(tenant, number);
    }

    /// Gives a tenant what it is due, and its part of its limit.
    fn give(&mut self, now: Nanos, tenant: TenantId, limit: Limit, due: Due) {
        let limit = part_of(limit, due.limit_ppm);
        let share = Share { weight_milli: due.weight, limit, ..Share::default() };
        self.queue.configure(now, tenant, share);
        self.queue.inner_mut().set_lead(tenant, due.lead);
    }

    /// A request arrived.
    pub(super) fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        self.queue.enqueue(now, ticket);
    }

    /// What to do next.
    pub(super) fn poll(&mut self, now: Nanos) -> Next {
        self.queue.poll(now)
    }

    /// The device finished a request.
    pub(super) fn complete(&mut self, now: Nanos, ticket: Ticket) {
        self.queue.complete(now, ticket);
    }

    /// A request no longer counts, though the device has not served it.
    pub(super) fn leave(&mut self, now: Nanos, ticket: Ticket) {
        self.queue.leave(now, ticket);
    }

    /// A request that waits will not be sent; false if it does not wait here. O(waiting of its
    /// tenant).
    pub(super) fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        self.queue.withdraw(now, ticket)
    }

    /// Takes back all that waits, each tenant's in its own order.
    pub(super) fn drain(&mut self) -> Vec<Ticket> {
        self.queue.drain()
    }

    /// Ends a period of which `period` is the length. Tells of the tenants of which there is
    /// anything to tell, and the depth that this host would have all have together.
    pub(super) fn summarise(&mut self, now: Nanos, number: u64, period: Span) -> Summary {
        let mut summary = self.queue.inner_mut().tenants.summarise(now, self.id, number, period);
        for (tenant, held) in self.held() {
            let place = summary.flows.binary_search_by_key(&tenant, |flow| flow.tenant);
            if let Ok(place) = place {
                let flow = &mut summary.flows[place];
                flow.is_limited = true;
                flow.queued = flow.queued.saturating_add(held);
            }
        }
        Summary { depth: self.division.depth_next, ..summary }
    }

    /// The tenants at their limits, and how many requests of each wait for that.
    fn held(&self) -> Vec<(TenantNumber, u32)> {
        let tenants = self.queue.inner().tenants.all();
        let held = tenants.map(|(id, number, _)| (number, self.queue.held(id)));
        let held = held.map(|(number, held)| (number, u32::try_from(held).unwrap_or(u32::MAX)));
        held.filter(|(_, held)| *held > 0).collect()
    }

    /// Request-time that a tenant's own limit has held its requests for.
    pub(super) fn throttled(&self, now: Nanos, tenant: TenantId) -> Span {
        self.queue.throttled(now, tenant)
    }

    /// Puts a decision in force. O(tenants and what they have waiting).
    pub(super) fn decide(&mut self, now: Nanos, decision: &Decision) {
        let Some(division) = &decision.division else { return };
        self.division.clone_from(division);
        self.queue.inner_mut().slots.set(now, division.slots_milli);
        let all: Vec<(TenantId, TenantNumber, Share)> = self.queue.inner().tenants.all().collect();
        for (tenant, number, share) in all {
            self.give(now, tenant, share.limit, division.due(number, share.weight_milli));
        }
    }

    /// The slots in force, rounded up.
    pub(super) fn slots(&self) -> u32 {
        u32::try_from(self.queue.inner().slots.milli().div_ceil(1000)).unwrap_or(u32::MAX)
    }

    /// Requests that wait for a slot, or for a limit.
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
