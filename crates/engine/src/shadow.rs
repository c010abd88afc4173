//! The shadow: what enforcing the policy would hold, while nothing is held.
//!
//! # The model
//!
//! In shadow mode every unit goes to the backend at once, and a second scheduler, with the real
//! policy, sees the same arrivals. It needs a device to tell it when it may go on, and there is
//! only the real one, whose order is not its own. So **each real completion is a service
//! opportunity**: the shadow completes the unit that it dispatched longest ago, whichever that is,
//! and then dispatches what fits. The real device sets the pace, the shadow sets the order.
//!
//! ```text
//! real     a b c d e in the device                  d done            a done
//! shadow   [a b] in service, c d e queued     a completes, c goes     b completes, e goes
//!                                             d is withdrawn: held
//! ```
//!
//! A unit which really completes while the shadow still queues it is withdrawn and counts as held
//! for at least that long; its opportunity counts all the same. The shadow never has more
//! outstanding than the backend, and is empty when the backend is idle.
//!
//! # Its limits
//!
//! - Clients that wait for answers would send less if they were held; here they do not.
//! - A smaller depth would change how long the device takes; here it does not.
//! - A withdrawn unit's hold is a lower bound.
//!
//! So what a tenant over its share is shown to lose is a lower bound, and the tenants that would be
//! held, and their order, are right.

use std::collections::VecDeque;

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::{Nanos, Span};

/// What was held of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Units that would have waited.
    pub(crate) units: u64,
    /// For how long, in all.
    pub(crate) time: Span,
}

impl Held {
    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { units: self.units + other.units, time: self.time + other.time }
    }
}

/// One server's shadow scheduler and its imagined device.
pub(crate) struct Shadow {
    scheduler: Box<dyn Scheduler>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// By the handle of a real unit: its entry, while the shadow queues it.
    queued_by_unit: Vec<Option<u32>>,
    /// Dispatched by the shadow, oldest first.
    in_service: VecDeque<Ticket>,
    held: Vec<Held>,
}

/// A ticket of the shadow's own. A real unit may be gone, and its handle used again, while the
/// shadow still has its ticket in service, so the shadow numbers its tickets itself.
#[derive(Clone, Copy, Debug)]
struct Entry {
    ticket: Ticket,
    unit: u32,
    queued_at: Nanos,
}

impl Shadow {
    /// A shadow that has seen nothing yet, around a scheduler that knows no tenant yet.
    pub(crate) fn new(scheduler: Box<dyn Scheduler>) -> Self {
        Self {
            scheduler,
            entries: Vec::new(),
            free: Vec::new(),
            queued_by_unit: Vec::new(),
            in_service: VecDeque::new(),
            held: Vec::new(),
        }
    }

    /// Adds a tenant or changes its share.
    pub(crate) fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        self.scheduler.configure(now, tenant, share);
        let tenants = self.held.len().max(tenant.index() + 1);
        self.held.resize(tenants, Held::default());
    }

    /// A real unit arrived.
    pub(crate) fn enqueue(&mut self, now: Nanos, mut ticket: Ticket) {
        let unit = ticket.slot;
        let entry = Entry { ticket, unit, queued_at: now };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 live units")
        });
        ticket.slot = slot;
        self.entries[slot as usize] = Entry { ticket, ..entry };
        if unit as usize >= self.queued_by_unit.len() {
            self.queued_by_unit.resize(unit as usize + 1, None);
        }
        self.queued_by_unit[unit as usize] = Some(slot);
        self.scheduler.enqueue(now, ticket);
    }

    /// A real unit is gone without having been served.
    pub(crate) fn withdraw(&mut self, now: Nanos, unit: u32) {
        let queued = self.queued_by_unit.get_mut(unit as usize).and_then(Option::take);
        if let Some(slot) = queued {
            let entry = self.entries[slot as usize];
            let was_queued = self.scheduler.withdraw(now, entry.ticket);
            assert!(was_queued, "the shadow withdraws only what it queues");
            self.note_held(now, &entry);
            self.free.push(slot);
        }
    }

    /// A real unit was served: an opportunity for the oldest in the shadow's service.
    pub(crate) fn serve(&mut self, now: Nanos, unit: u32) {
        self.withdraw(now, unit);
        if let Some(ticket) = self.in_service.pop_front() {
            self.scheduler.complete(now, ticket);
            self.free.push(ticket.slot);
        }
    }

    /// Lets the shadow dispatch; returns when it wants to look again although nothing happens.
    pub(crate) fn run(&mut self, now: Nanos) -> Option<Nanos> {
        loop {
            match self.scheduler.poll(now) {
                Next::Dispatch(ticket) => {
                    let entry = self.entries[ticket.slot as usize];
                    self.queued_by_unit[entry.unit as usize] = None;
                    self.note_held(now, &entry);
                    self.in_service.push_back(ticket);
                }
                Next::WaitUntil(at) => return Some(at),
                Next::Idle => return None,
            }
        }
    }

    /// What was held of a tenant so far; what is still queued counts when it leaves.
    pub(crate) fn held(&self, tenant: TenantId) -> Held {
        self.held[tenant.index()]
    }

    fn note_held(&mut self, now: Nanos, entry: &Entry) {
        let time = now.since(entry.queued_at);
        if time > Span::ZERO {
            let held = &mut self.held[entry.ticket.tenant.index()];
            held.units += 1;
            held.time += time;
        }
    }

    /// Lets go of everything queued, which counts as held until now, and returns what was held of
    /// each tenant.
    pub(crate) fn end(mut self, now: Nanos) -> Vec<Held> {
        for ticket in self.scheduler.drain() {
            let entry = self.entries[ticket.slot as usize];
            self.note_held(now, &entry);
        }
        self.held
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::id::TenantId;
    use evenkeel_core::sched::fifo::Fifo;
    use evenkeel_core::ticket::{Cost, Kind};

    use super::*;

    fn ticket(unit: u32) -> Ticket {
        Ticket {
            tenant: TenantId(0),
            kind: Kind::Read,
            slot: unit,
            size_bytes: 4096,
            cost: Cost::ONE,
            cost_elsewhere: Cost(0),
        }
    }

    fn shadow(depth: u32) -> Shadow {
        let mut shadow = Shadow::new(Box::new(Fifo::new(Some(depth))));
        shadow.configure(Nanos(0), TenantId(0), Share::default());
        shadow
    }

    #[test]
    fn a_unit_is_held_from_its_arrival_to_the_opportunity_that_lets_it_go() {
        let mut shadow = shadow(1);
        for unit in 0..3 {
            shadow.enqueue(Nanos(0), ticket(unit));
        }
        assert_eq!(shadow.run(Nanos(0)), None);
        // The real device takes another order: the shadow's pace is its own.
        shadow.serve(Nanos(10), 0);
        let _ = shadow.run(Nanos(10));
        assert_eq!(shadow.held(TenantId(0)), Held { units: 1, time: Span(10) });
        shadow.serve(Nanos(20), 2);
        assert_eq!(shadow.held(TenantId(0)), Held { units: 2, time: Span(30) }, "2 was withdrawn");
        shadow.serve(Nanos(30), 1);
        let _ = shadow.run(Nanos(30));
        assert_eq!(shadow.held(TenantId(0)).units, 2);
        assert_eq!(
            shadow.in_service.len() + shadow.scheduler.queued(),
            0,
            "empty when all is done"
        );
    }

    #[test]
    fn a_handle_may_be_used_again_while_the_shadow_still_serves_its_old_unit() {
        let mut shadow = shadow(2);
        for unit in 0..2 {
            shadow.enqueue(Nanos(0), ticket(unit));
        }
        let _ = shadow.run(Nanos(0));
        shadow.serve(Nanos(5), 1);
        // Unit 0 was the oldest and completed; unit 1 is gone, yet in service here.
        shadow.enqueue(Nanos(6), ticket(1));
        let _ = shadow.run(Nanos(6));
        shadow.serve(Nanos(7), 1);
        shadow.serve(Nanos(8), 0);
        assert_eq!(shadow.in_service.len(), 0);
        assert_eq!(shadow.end(Nanos(9)), [Held::default()]);
    }
}
