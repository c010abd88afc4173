//! A host before a shared device, as a scheduler: the slots and the order are what was decided
//! last.
//!
//! ```text
//!   enqueue --> [host: queue, monitor] --slots--> dispatch .. complete
//!                 ^            |
//!           decide(slots,     summarise, once each period
//!            order)
//! ```
//!
//! The engine polls it like any scheduler; whoever leads the exchange holds a clone of the same
//! [`SharedQueue`]. Under [`Enforcement::No`] it measures and delays nothing: others who share the
//! device have to know of this host's use whether it obeys or not.

use std::cell::RefCell;
use std::rc::Rc;

use super::Decision;
use super::fair_host::FairHost;
use super::host::{Host, Sent};
use super::name::TenantNumber;
use super::summary::{FlowSummary, HostId, Summary};
use crate::id::TenantId;
use crate::sched::{Limit, Next, Scheduler, Share};
use crate::ticket::Ticket;
use crate::time::{Nanos, Span};

/// Whether decisions are put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Requests are measured, and pass.
    No,
    /// Requests wait for slots.
    Yes,
}

/// See the [module](self). Clones are the same queue.
#[derive(Clone, Debug)]
pub struct SharedQueue(Rc<RefCell<Machine>>);

/// How the tenants of a host share its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// By arrival or deadline, as the decisions say ([`super::order`]).
    Order,
    /// By weight, within limits that count over all hosts ([`super::shares`]).
    Weight,
}

#[derive(Debug)]
enum Queue {
    Order(Box<Host>),
    Weight(Box<FairHost>),
}

#[derive(Debug)]
struct Machine {
    queue: Queue,
    enforcement: Enforcement,
    /// What is waiting or at the device, by slot, where requests go by order.
    tickets: Vec<Option<Entry>>,
    /// End of the period before.
    closed: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ticket: Ticket,
    sent: Option<Sent>,
}

impl SharedQueue {
    /// For this host, with so many slots until the first decision. Knows no tenant yet.
    pub fn new(
        now: Nanos,
        host: HostId,
        discipline: Discipline,
        slots: u32,
        enforcement: Enforcement,
    ) -> Self {
        let slots = if enforcement == Enforcement::Yes { slots } else { u32::MAX };
        let queue = match discipline {
            Discipline::Order => Queue::Order(Box::new(Host::new(host, slots))),
            Discipline::Weight => Queue::Weight(Box::new(FairHost::new(host, slots))),
        };
        let machine = Machine { queue, enforcement, tickets: Vec::new(), closed: now };
        Self(Rc::new(RefCell::new(machine)))
    }

    /// Says what all hosts call a tenant.
    pub fn set_number(&self, tenant: TenantId, number: TenantNumber) {
        match &mut self.0.borrow_mut().queue {
            Queue::Order(host) => host.set_number(tenant, number),
            Queue::Weight(host) => host.set_number(tenant, number),
        }
    }

    /// Ends the period of this number; its times are in whole microseconds, as the others get them.
    pub fn summarise(&self, now: Nanos, number: u64) -> Summary {
        let machine = &mut *self.0.borrow_mut();
        // As it was, rather than as it was meant to be: timers are late.
        let length = now.since(machine.closed).0.max(1);
        machine.closed = now;
        let mut summary = match &mut machine.queue {
            Queue::Order(host) => host.summarise(now, number, Span(length)),
            Queue::Weight(host) => host.summarise(now, number, Span(length)),
        };
        summary.flows = summary.flows.into_iter().map(FlowSummary::in_microseconds).collect();
        summary
    }

    /// Puts a decision in force, if decisions are.
    pub fn decide(&self, now: Nanos, decision: &Decision) {
        let machine = &mut *self.0.borrow_mut();
        if machine.enforcement == Enforcement::No {
            return;
        }
        match &mut machine.queue {
            Queue::Order(host) => host.decide(decision),
            Queue::Weight(host) => host.decide(now, decision),
        }
    }
}

impl Machine {
    fn place(&mut self, ticket: Ticket) {
        let slot = ticket.slot as usize;
        self.tickets.resize(self.tickets.len().max(slot + 1), None);
        self.tickets[slot] = Some(Entry { ticket, sent: None });
    }

    fn take(&mut self, slot: u32) -> Entry {
        self.tickets[slot as usize].take().expect("a ticket comes out once")
    }
}

impl Scheduler for SharedQueue {
    fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        let machine = &mut *self.0.borrow_mut();
        match &mut machine.queue {
            Queue::Order(host) => host.arrived(now, ticket.tenant, ticket.slot, ticket.cost),
            Queue::Weight(host) => return host.enqueue(now, ticket),
        }
        machine.place(ticket);
    }

    fn complete(&mut self, now: Nanos, ticket: Ticket) {
        let machine = &mut *self.0.borrow_mut();
        if let Queue::Weight(host) = &mut machine.queue {
            return host.complete(now, ticket);
        }
        let sent = machine.take(ticket.slot).sent.expect("it was dispatched");
        if let Queue::Order(host) = &mut machine.queue {
            host.finished(now, &sent, (ticket.cost, ticket.size_bytes));
        }
    }

    fn leave(&mut self, now: Nanos, ticket: Ticket) {
        if let Queue::Weight(host) = &mut self.0.borrow_mut().queue {
            return host.leave(now, ticket);
        }
        self.complete(now, ticket);
    }

    fn poll(&mut self, now: Nanos) -> Next {
        let Machine { queue, tickets, .. } = &mut *self.0.borrow_mut();
        let host = match queue {
            Queue::Order(host) => host,
            Queue::Weight(host) => return host.poll(now),
        };
        let Some(sent) = host.next(now) else { return Next::Idle };
        let entry = tickets[sent.waiting.tag as usize].as_mut();
        let entry = entry.expect("what waits has its ticket");
        entry.sent = Some(sent);
        Next::Dispatch(entry.ticket)
    }

    fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        let machine = &mut *self.0.borrow_mut();
        // Unenforced nothing is held, whatever the limit.
        let limit = match machine.enforcement {
            Enforcement::Yes => share.limit,
            Enforcement::No => Limit::default(),
        };
        match &mut machine.queue {
            Queue::Order(host) => host.configure(tenant, share),
            Queue::Weight(host) => host.configure(now, tenant, Share { limit, ..share }),
        }
    }

    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        let machine = &mut *self.0.borrow_mut();
        let was_waiting = match &mut machine.queue {
            Queue::Order(host) => host.withdraw(ticket.tenant, ticket.slot),
            Queue::Weight(host) => return host.withdraw(now, ticket),
        };
        if was_waiting {
            machine.take(ticket.slot);
        }
        was_waiting
    }

    fn drain(&mut self) -> Vec<Ticket> {
        let machine = &mut *self.0.borrow_mut();
        let waiting = match &mut machine.queue {
            Queue::Order(host) => host.drain(),
            Queue::Weight(host) => return host.drain(),
        };
        waiting.into_iter().map(|waiting| machine.take(waiting.tag).ticket).collect()
    }

    fn queued(&self) -> usize {
        match &self.0.borrow().queue {
            Queue::Order(host) => host.queued(),
            Queue::Weight(host) => host.queued(),
        }
    }

    fn throttled(&self, now: Nanos, tenant: TenantId) -> Span {
        match &self.0.borrow().queue {
            Queue::Order(_) => Span::ZERO,
            Queue::Weight(host) => host.throttled(now, tenant),
        }
    }

    fn depth_now(&self) -> u64 {
        let machine = self.0.borrow();
        match (machine.enforcement, &machine.queue) {
            (Enforcement::Yes, Queue::Order(host)) => u64::from(host.slots()),
            (Enforcement::Yes, Queue::Weight(host)) => u64::from(host.slots()),
            (Enforcement::No, _) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::Order;
    use super::*;
    use crate::sched::testing::ticket;

    fn queue(slots: u32, enforcement: Enforcement) -> SharedQueue {
        let mut queue =
            SharedQueue::new(Nanos(0), HostId(3), Discipline::Order, slots, enforcement);
        let share = Share { latency_goal: Span::from_millis(20), ..Share::default() };
        queue.configure(Nanos(0), TenantId(0), Share::default());
        queue.configure(Nanos(0), TenantId(1), share);
        queue
    }

    fn dispatched(queue: &mut SharedQueue, now: Nanos) -> Vec<u32> {
        let next = || match queue.poll(now) {
            Next::Dispatch(ticket) => Some(ticket.slot),
            Next::WaitUntil(_) | Next::Idle => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn slots_bound_what_is_dispatched_and_a_decision_moves_them() {
        let mut queue = queue(2, Enforcement::Yes);
        (0..6).for_each(|slot| queue.enqueue(Nanos(u64::from(slot)), ticket(0, slot)));
        assert_eq!(dispatched(&mut queue, Nanos(10)), [0, 1]);
        let decision = Decision {
            slots: 4,
            order: Order::Deadline { device: Span(1), patience_milli: 500 },
            slots_all: 8,
            unmet: Vec::new(),
            division: None,
        };
        queue.decide(Nanos(20), &decision);
        queue.enqueue(Nanos(20), ticket(1, 6));
        assert_eq!(dispatched(&mut queue, Nanos(20)), [6, 2], "who was promised something first");
        queue.complete(Nanos(30), ticket(0, 0));
        assert!(
            queue.withdraw(Nanos(30), ticket(0, 3)) && !queue.withdraw(Nanos(30), ticket(0, 3))
        );
        assert_eq!(queue.drain().iter().map(|ticket| ticket.slot).collect::<Vec<_>>(), [4, 5]);
        assert_eq!((queue.queued(), queue.depth_now()), (0, 4));
    }

    #[test]
    fn a_summary_tells_what_happened_in_whole_microseconds() {
        let mut queue = queue(1, Enforcement::Yes);
        (0..3).for_each(|slot| queue.enqueue(Nanos(0), ticket(1, slot)));
        assert_eq!(dispatched(&mut queue, Nanos(500)), [0]);
        queue.complete(Nanos(25_000_700), ticket(1, 0));
        let summary = queue.summarise(Nanos(30_000_000), 9);
        let flow = summary.flows[0];
        assert_eq!((summary.host, summary.period, flow.tenant), (HostId(3), 9, TenantNumber(2)));
        assert_eq!((flow.completions, flow.late, flow.queued), (1, 1, 2));
        assert_eq!(flow.device_time, Span::from_millis(25));
        assert_eq!(flow.expected_per_s, 100, "three in 30 ms");
    }

    #[test]
    fn unenforced_it_measures_and_delays_nothing() {
        let mut queue = queue(1, Enforcement::No);
        (0..40).for_each(|slot| queue.enqueue(Nanos(0), ticket(0, slot)));
        assert_eq!(dispatched(&mut queue, Nanos(0)).len(), 40);
        let fewer = Decision {
            slots: 1,
            order: Order::Arrival,
            slots_all: 1,
            unmet: Vec::new(),
            division: None,
        };
        queue.decide(Nanos(20), &fewer);
        queue.enqueue(Nanos(1), ticket(0, 40));
        assert_eq!(dispatched(&mut queue, Nanos(1)), [40]);
        assert_eq!(queue.summarise(Nanos(1000), 1).flows[0].outstanding, 41);
    }
}
