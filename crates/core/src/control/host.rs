//! The host's side: what waits, what is at the device, and how much may be.
//!
//! ```text
//!   arrived --> queue --next, while a slot is free--> device --finished--> counted
//!                          ^
//!               decide: slots and order, once each period
//! ```
//!
//! It holds no payload and performs nothing: the driver sends what [`Host::next`] gives it.

use super::Decision;
use super::name::TenantNumber;
use super::order::{LocalQueue, Order, Waiting};
use super::summary::{HostId, Summary};
use super::tenants::Tenants;
use crate::id::TenantId;
use crate::sched::Share;
use crate::ticket::Cost;
use crate::time::{Nanos, Span};

/// One host before a shared device.
#[derive(Clone, Debug)]
pub struct Host {
    id: HostId,
    tenants: Tenants,
    queue: LocalQueue,
    slots: u32,
    order: Order,
    outstanding: u32,
}

/// A request that was sent to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// What waited.
    pub waiting: Waiting,
    /// When it was sent.
    pub dispatch: Nanos,
}

impl Host {
    /// A host without tenants, with these slots until the first decision.
    pub fn new(id: HostId, slots: u32) -> Self {
        let (tenants, queue) = (Tenants::default(), LocalQueue::default());
        Self { id, tenants, queue, slots, order: Order::Arrival, outstanding: 0 }
    }

    /// Adds the next tenant, or changes one that is known.
    pub fn configure(&mut self, tenant: TenantId, share: Share) {
        self.tenants.configure(tenant, share);
        self.queue.configure(tenant, share.target(), share.weight_milli);
    }

    /// Says what all hosts call a tenant.
    pub fn set_number(&mut self, tenant: TenantId, number: TenantNumber) {
        self.tenants.set_number(tenant, number);
    }

    /// A request of this cost arrived.
    pub fn arrived(&mut self, now: Nanos, tenant: TenantId, tag: u32, cost: Cost) {
        self.tenants.monitor(tenant).arrived(now);
        self.queue.push(Waiting { tag, tenant, arrival: now, cost });
    }

    /// The request to send to the device now, if a slot is free; to be asked again until none.
    pub fn next(&mut self, now: Nanos) -> Option<Sent> {
        if self.outstanding >= self.slots {
            return None;
        }
        let waiting = self.queue.pop(now, self.order)?;
        self.outstanding += 1;
        self.tenants.monitor(waiting.tenant).dispatched(now, waiting.arrival);
        Some(Sent { waiting, dispatch: now })
    }

    /// The device finished a request of this cost and size.
    pub fn finished(&mut self, now: Nanos, sent: &Sent, what: (Cost, u64)) {
        self.outstanding -= 1;
        self.tenants.completed(now, sent, what);
    }

    /// A request that waits will not be sent; false if it does not wait here. O(waiting of its
    /// tenant).
    pub fn withdraw(&mut self, tenant: TenantId, tag: u32) -> bool {
        let waiting = self.queue.withdraw(tenant, tag);
        if let Some(waiting) = waiting {
            self.tenants.monitor(tenant).withdrawn(waiting.arrival);
        }
        waiting.is_some()
    }

    /// Takes back all that waits, each tenant's in its own order.
    pub fn drain(&mut self) -> Vec<Waiting> {
        let all = std::iter::from_fn(|| self.queue.pop(Nanos::ZERO, Order::Arrival));
        let all: Vec<Waiting> = all.collect();
        for waiting in &all {
            self.tenants.monitor(waiting.tenant).withdrawn(waiting.arrival);
        }
        all
    }

    /// Ends a period of which `period` is the length. Tells of the tenants of which there is
    /// anything to tell.
    pub fn summarise(&mut self, now: Nanos, number: u64, period: Span) -> Summary {
        self.tenants.summarise(now, self.id, number, period)
    }

    /// The slots in force.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Puts a decision in force.
    pub fn decide(&mut self, decision: &Decision) {
        self.slots = decision.slots;
        self.order = decision.order;
    }

    /// Requests at the device.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Requests that wait for a slot.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: (Cost, u64) = (Cost::ONE, 4096);

    #[test]
    fn no_more_than_the_slots_are_at_the_device_and_shrinking_calls_nothing_back() {
        let mut host = Host::new(HostId(1), 2);
        let tenant = TenantId(0);
        host.configure(tenant, Share::default());
        (0..5).for_each(|tag| host.arrived(Nanos(u64::from(tag)), tenant, tag, ONE.0));
        let sent: Vec<Sent> = std::iter::from_fn(|| host.next(Nanos(10))).collect();
        assert_eq!(sent.iter().map(|sent| sent.waiting.tag).collect::<Vec<_>>(), [0, 1]);
        let fewer = Decision {
            slots: 1,
            order: Order::Arrival,
            slots_all: 4,
            unmet: Vec::new(),
            division: None,
        };
        host.decide(&fewer);
        host.finished(Nanos(20), &sent[0], ONE);
        assert_eq!((host.next(Nanos(20)), host.outstanding()), (None, 1));
        host.finished(Nanos(30), &sent[1], ONE);
        assert_eq!(host.next(Nanos(30)).map(|sent| sent.waiting.tag), Some(2));
        let summary = host.summarise(Nanos(40), 7, Span(40));
        let flow = summary.flows[0];
        assert_eq!((flow.arrivals, flow.completions), (5, 2));
        assert_eq!((flow.queued, flow.outstanding), (2, 1));
        assert_eq!(host.queued(), 2);
    }

    #[test]
    fn what_is_taken_back_is_not_counted_as_waiting() {
        let mut host = Host::new(HostId(1), 0);
        (0..2).for_each(|tenant| host.configure(TenantId(tenant), Share::default()));
        (0..4).for_each(|tag| host.arrived(Nanos(10), TenantId(tag % 2), tag, ONE.0));
        assert!(host.withdraw(TenantId(1), 3) && !host.withdraw(TenantId(1), 3));
        let summary = host.summarise(Nanos(20), 1, Span(20));
        let queued: Vec<u32> = summary.flows.iter().map(|flow| flow.queued).collect();
        assert_eq!(queued, [2, 1]);
        let tags: Vec<u32> = host.drain().iter().map(|waiting| waiting.tag).collect();
        assert_eq!(tags, [0, 2, 1]);
        assert_eq!(host.summarise(Nanos(30), 2, Span(10)).flows[0].queued, 0);
    }

    #[test]
    fn who_never_asks_is_not_told_of() {
        let mut host = Host::new(HostId(1), 8);
        (0..2).for_each(|tenant| host.configure(TenantId(tenant), Share::default()));
        host.arrived(Nanos(0), TenantId(1), 0, ONE.0);
        let told = |summary: Summary| -> Vec<u32> {
            summary.flows.iter().map(|flow| flow.tenant.0).collect()
        };
        assert_eq!(told(host.summarise(Nanos(10), 1, Span(10))), [2]);
        let sent = host.next(Nanos(10)).unwrap();
        host.finished(Nanos(20), &sent, ONE);
        let second = Span::from_secs(1);
        let last = (2..100).map(|number| told(host.summarise(Nanos(30), number, second))).last();
        assert_eq!(last, Some(vec![]), "it is forgotten in the end");
    }
}
