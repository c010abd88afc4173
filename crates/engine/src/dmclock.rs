//! mClock at one of several servers whose floors and limits count together: dmClock.
//!
//! Source: Gulati, Merchant and Varman, "mClock: Handling Throughput Variability for Hypervisor IO
//! Scheduling", OSDI 2010, section 3.3.
//!
//! Each server has an mClock of its own. With a tenant's next request it is told what the others
//! have given the tenant meanwhile, by floor and in all, and leaves out as much:
//!
//! ```text
//! completions at A, B ---> tracker ---- with the next request to C ---> mClock of C
//!                          (one per group)       rho, delta             R += rho, P and L += delta
//! ```
//!
//! That a request was served by floor is known at its dispatch and counts at its completion.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::mclock::tracker::Tracker;
use evenkeel_core::sched::mclock::{Mclock, Phase};
use evenkeel_core::sched::{Next, Scheduler, Share};
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::{Nanos, Span};

use crate::policy::Depth;

/// What the servers of a group know in common.
#[derive(Clone, Debug)]
pub(crate) struct SharedTracker(Rc<RefCell<Tracker>>);

impl SharedTracker {
    /// For a group of so many servers.
    pub(crate) fn new(servers: usize) -> Self {
        Self(Rc::new(RefCell::new(Tracker::new(servers))))
    }
}

/// The mClock of one server of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupMclock {
    mclock: Mclock,
    server: ServerId,
    tracker: SharedTracker,
    /// Why each ticket in service was dispatched, by its slot.
    phases: Vec<Phase>,
}

impl GroupMclock {
    /// For `server`, which knows no tenant yet.
    pub(crate) fn new(depth: Depth, server: ServerId, tracker: &SharedTracker) -> Self {
        let mclock = Mclock::new(depth);
        Self { mclock, server, tracker: tracker.clone(), phases: Vec::new() }
    }
}

impl Scheduler for GroupMclock {
    fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        let elsewhere = self.tracker.0.borrow_mut().elsewhere(self.server, ticket.tenant);
        self.mclock.enqueue_after(now, ticket, elsewhere);
    }

    fn complete(&mut self, now: Nanos, ticket: Ticket) {
        let phase = self.phases[ticket.slot as usize];
        self.tracker.0.borrow_mut().served(self.server, &ticket, phase);
        self.mclock.complete(now, ticket);
    }

    fn leave(&mut self, now: Nanos, ticket: Ticket) {
        let phase = self.phases[ticket.slot as usize];
        self.tracker.0.borrow_mut().served(self.server, &ticket, phase);
        self.mclock.leave(now, ticket);
    }

    fn poll(&mut self, now: Nanos) -> Next {
        let next = self.mclock.poll(now);
        if let Next::Dispatch(ticket) = next {
            let slot = ticket.slot as usize;
            self.phases.resize(self.phases.len().max(slot + 1), Phase::Weight);
            self.phases[slot] = self.mclock.last_phase();
        }
        next
    }

    fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        self.tracker.0.borrow_mut().configure(tenant);
        self.mclock.configure(now, tenant, share);
    }

    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        self.mclock.withdraw(now, ticket)
    }

    fn drain(&mut self) -> Vec<Ticket> {
        self.mclock.drain()
    }

    fn queued(&self) -> usize {
        self.mclock.queued()
    }

    fn throttled(&self, now: Nanos, tenant: TenantId) -> Span {
        self.mclock.throttled(now, tenant)
    }

    fn depth_now(&self) -> u64 {
        self.mclock.depth_now()
    }

    fn is_full(&self) -> bool {
        self.mclock.is_full()
    }

    fn depth_found(&self) -> Option<u32> {
        self.mclock.depth_found()
    }

    fn depth_forgone(&self) -> Option<f64> {
        self.mclock.depth_forgone()
    }
}
