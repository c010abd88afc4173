//! Earliest deadline first, for a device that cannot always meet them all.
//!
//! Source: Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
//! Environment", JACM 20(1), 1973, for the order; [`plan`] for what to give up.
//!
//! A request's deadline is its arrival plus its tenant's goal for the response time. While all can
//! be met, the order of deadlines meets them. When they cannot, that order is the worst: everybody
//! waits behind those who are late already, and is late in turn. So the requests are split:
//!
//! ```text
//!           +--> on time   earliest deadline first ---+
//! arrival --+        | cannot be met, or given up     +--> device
//!           |        v                                |
//!           +--> late      by weight (SFQ) -----------+    when nobody is on time, and for one
//!        without a goal                                    part in 1024 of the service besides
//! ```
//!
//! - **Given up** are the fewest that must be: a plan over all that wait, made anew after every so
//!   many arrivals while there is more to do than time for it. It gives up long requests rather
//!   than many short ones. What it gave up may be met after all if less arrives than did before.
//! - **Late ones last**, yet not never: one part in 1024 of the service goes to them, by weight. So
//!   a late request waits at most for 1024 times the service of those late before it, and no tenant
//!   starves.
//!
//! Service times are costs over the device's speed, which is measured while it is busy.
//!
//! **Cost.** O(log tenants + log queued), amortised; a plan is O(queued x log queued), once for a
//! quarter as many arrivals. Nothing allocates once as much was queued as ever will be.

pub mod plan;
mod speed;

use super::depth::{Depth, DepthPolicy};
use super::heap::IndexedHeap;
use super::queues::Queues;
use super::sfq::{Sfq, SfqOptions};
use super::{Next, Scheduler, Share};
use crate::id::TenantId;
use crate::ticket::{Cost, Ticket};
use crate::time::{Nanos, Span};
use plan::{Job, Planner};
use speed::Speed;

/// Service for requests on time that earns late ones a unit of theirs.
const LATE_PART: u64 = 1024;

/// Arrivals between two plans, at least.
const PLAN_ARRIVALS_MIN: usize = 16;

/// The earliest-deadline-first scheduler. See the [module](self).
#[derive(Clone, Debug)]
pub struct Edf {
    /// Goal for the response time, by tenant; zero for none.
    goals: Vec<Span>,
    on_time: Queues<Timed>,
    /// Tenants with requests on time, by the deadline of the first.
    deadlines: IndexedHeap<(Nanos, u64)>,
    /// Cost of all that is on time.
    on_time_cost: u64,
    late: Late,
    planner: Planner,
    /// Given up by the last plan, and yet to be met should less arrive than did until then.
    given_up: Vec<Timed>,
    /// What a plan looks at; empty between plans.
    planned: Vec<Timed>,
    /// Arrivals since the last plan.
    unplanned: usize,
    arrivals: u64,
    depth: Depth,
    speed: Speed,
}

/// A queued ticket that may be met.
#[derive(Clone, Copy, Debug)]
struct Timed {
    ticket: Ticket,
    deadline: Nanos,
    arrival: u64,
}

/// Those who are late, or have no goal.
#[derive(Clone, Debug)]
struct Late {
    queue: Sfq,
    /// Taken from the queue, to go next.
    head: Option<Ticket>,
    /// Cost that it has earned.
    credit: u64,
}

impl Late {
    fn head(&mut self, now: Nanos) -> Option<Ticket> {
        if self.head.is_none()
            && let Next::Dispatch(ticket) = self.queue.poll(now)
        {
            // The queue gives an order only; what is with the device is counted above it.
            self.queue.complete(now, ticket);
            self.head = Some(ticket);
        }
        self.head
    }

    /// Late requests earn while others go first.
    fn earn(&mut self, cost: Cost) {
        self.credit = self.credit.saturating_add(cost.0);
    }

    fn may_go(&self, ticket: &Ticket) -> bool {
        self.credit / LATE_PART >= ticket.cost.0
    }

    fn take(&mut self) -> Option<Ticket> {
        self.credit = 0;
        self.head.take()
    }
}

impl Edf {
    /// A scheduler that knows no tenant yet.
    pub fn new(depth: DepthPolicy) -> Self {
        let unbounded = SfqOptions { depth: DepthPolicy::Requests(u32::MAX), hold: Span::ZERO };
        let depth = Depth::new(depth);
        Self {
            goals: Vec::new(),
            on_time: Queues::default(),
            deadlines: IndexedHeap::default(),
            on_time_cost: 0,
            late: Late { queue: Sfq::new(unbounded), head: None, credit: 0 },
            planner: Planner::default(),
            given_up: Vec::new(),
            planned: Vec::new(),
            unplanned: 0,
            arrivals: 0,
            speed: Speed::new(depth.in_force().min(64)),
            depth,
        }
    }

    /// Requests waiting that are late, or have no goal.
    pub fn late(&self) -> usize {
        self.late.queue.queued() + usize::from(self.late.head.is_some())
    }

    fn push(&mut self, timed: Timed) {
        let index = timed.ticket.tenant.index();
        self.on_time_cost += timed.ticket.cost.0;
        self.on_time.push(index, timed);
        if self.on_time.len_of(index) == 1 {
            self.place_head(timed.ticket.tenant.0);
        }
    }

    fn pop(&mut self, tenant: u32) -> Option<Timed> {
        let timed = self.on_time.pop(tenant as usize)?;
        self.on_time_cost -= timed.ticket.cost.0;
        self.place_head(tenant);
        Some(timed)
    }

    fn place_head(&mut self, tenant: u32) {
        match self.on_time.front(tenant as usize) {
            Some(head) => self.deadlines.set(tenant, (head.deadline, head.arrival)),
            None => self.deadlines.remove(tenant),
        }
    }

    /// Plans anew if there is more to do than time until the first deadline, and enough has come
    /// since the last plan to be worth it.
    fn plan_if_crowded(&mut self, now: Nanos) {
        let Some(((first, _), _)) = self.deadlines.peek() else {
            if !self.given_up.is_empty() {
                self.plan(now);
            }
            return;
        };
        let worth = PLAN_ARRIVALS_MIN.max((self.on_time.len() + self.given_up.len()) / 4);
        let is_crowded = now + self.speed.time(Cost(self.on_time_cost)) > first;
        if self.unplanned >= worth && (is_crowded || !self.given_up.is_empty()) {
            self.plan(now);
        }
    }

    fn plan(&mut self, now: Nanos) {
        self.unplanned = 0;
        self.planned.append(&mut self.given_up);
        while let Some((_, tenant)) = self.deadlines.peek() {
            self.planned.extend(std::iter::from_fn(|| self.on_time.pop(tenant as usize)));
            self.deadlines.remove(tenant);
        }
        self.on_time_cost = 0;
        let mut waiting = std::mem::take(&mut self.planned);
        waiting.sort_unstable_by_key(|timed| (timed.deadline, timed.arrival));
        let speed = self.speed;
        let jobs = waiting
            .iter()
            .map(|timed| Job { service: speed.time(timed.ticket.cost), deadline: timed.deadline });
        let mut planner = std::mem::take(&mut self.planner);
        for (timed, given_up) in waiting.iter().zip(planner.give_up(now, jobs)) {
            if !*given_up {
                self.push(*timed);
            } else if now + speed.time(timed.ticket.cost) <= timed.deadline {
                self.given_up.push(*timed);
            } else {
                self.late.queue.enqueue(now, timed.ticket);
            }
        }
        waiting.clear();
        (self.planned, self.planner) = (waiting, planner);
    }

    /// The first request that can still be met; those before it are late.
    fn first_on_time(&mut self, now: Nanos) -> Option<Ticket> {
        while let Some((_, tenant)) = self.deadlines.peek() {
            let head = self.on_time.front(tenant as usize).expect("a tenant in the heap has one");
            if now + self.speed.time(head.ticket.cost) <= head.deadline {
                return Some(head.ticket);
            }
            let timed = self.pop(tenant).expect("it was at the front");
            self.late.queue.enqueue(now, timed.ticket);
        }
        None
    }

    /// Gives a ticket the time at which it is due, and queues it by that.
    fn take_in(&mut self, now: Nanos, ticket: Ticket) {
        let goal = *self.goals.get(ticket.tenant.index()).expect("configured before it sends");
        if goal == Span::ZERO {
            return self.late.queue.enqueue(now, ticket);
        }
        self.arrivals += 1;
        self.unplanned += 1;
        self.push(Timed { ticket, deadline: now + goal, arrival: self.arrivals });
    }

    /// Takes a queued ticket back, wherever it waits.
    fn take_back(&mut self, now: Nanos, ticket: Ticket) -> bool {
        let index = ticket.tenant.index();
        let same_slot = |queued: &Timed| queued.ticket.slot == ticket.slot;
        if let Some(removed) = self.on_time.remove(index, same_slot, |_, _| ()) {
            self.on_time_cost -= removed.ticket.cost.0;
            self.place_head(ticket.tenant.0);
            return true;
        }
        let given_up = self.given_up.iter().position(same_slot);
        if let Some(position) = given_up {
            self.given_up.remove(position);
            return true;
        }
        let is_head = self.late.head.is_some_and(|head| head.slot == ticket.slot);
        if is_head {
            self.late.head = None;
        }
        is_head || self.late.queue.withdraw(now, ticket)
    }

    fn dispatch(&mut self, now: Nanos, ticket: Ticket) -> Next {
        self.depth.start(now, &ticket);
        Next::Dispatch(ticket)
    }
}

impl Scheduler for Edf {
    fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        self.depth.arrived(now, &ticket);
        self.take_in(now, ticket);
    }

    fn enqueue_held(&mut self, now: Nanos, ticket: Ticket) {
        self.depth.arrived_late(now, &ticket);
        self.take_in(now, ticket);
    }

    fn complete(&mut self, now: Nanos, ticket: Ticket) {
        self.depth.finish(now, &ticket);
        self.speed.note_done(now, ticket.cost);
    }

    fn leave(&mut self, now: Nanos, ticket: Ticket) {
        self.depth.leave(now, &ticket);
        self.speed.note_done(now, ticket.cost);
    }

    fn poll(&mut self, now: Nanos) -> Next {
        self.plan_if_crowded(now);
        let on_time = self.first_on_time(now);
        let late = self.late.head(now);
        let (ticket, goes_late) = match (on_time, late) {
            (None, None) => {
                self.speed.note_room();
                return Next::Idle;
            }
            (None, Some(ticket)) => (ticket, true),
            (Some(_), Some(ticket)) if self.late.may_go(&ticket) => (ticket, true),
            (Some(ticket), _) => (ticket, false),
        };
        if !self.depth.fits(&ticket) {
            self.depth.note_wait();
            self.speed.note_full(now);
            return Next::Idle;
        }
        if goes_late {
            self.late.take();
        } else {
            self.pop(ticket.tenant.0);
            if late.is_some() {
                self.late.earn(ticket.cost);
            }
        }
        self.dispatch(now, ticket)
    }

    /// A new goal holds for what arrives from now on.
    fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        self.late.queue.configure(now, tenant, share);
        let tenants = self.goals.len().max(tenant.index() + 1);
        self.goals.resize(tenants, Span::ZERO);
        self.on_time.reserve_tenants(tenants);
        self.deadlines.reserve_ids(tenants);
        self.goals[tenant.index()] = share.latency_goal;
    }

    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        let was_queued = self.take_back(now, ticket);
        if was_queued {
            self.depth.withdrawn(now, &ticket);
        }
        was_queued
    }

    fn drain(&mut self) -> Vec<Ticket> {
        let mut drained = Vec::with_capacity(self.queued());
        while let Some((_, tenant)) = self.deadlines.peek() {
            drained.extend(std::iter::from_fn(|| self.pop(tenant)).map(|timed| timed.ticket));
        }
        drained.extend(self.given_up.drain(..).map(|timed| timed.ticket));
        drained.extend(self.late.head.take());
        drained.extend(self.late.queue.drain());
        self.depth.drained();
        drained
    }

    fn queued(&self) -> usize {
        self.on_time.len() + self.given_up.len() + self.late()
    }

    fn depth_now(&self) -> u64 {
        self.depth.in_force()
    }

    fn is_full(&self) -> bool {
        self.depth.is_full()
    }

    fn depth_found(&self) -> Option<u32> {
        self.depth.found()
    }

    fn depth_forgone(&self) -> Option<f64> {
        self.depth.forgone()
    }
}
