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
//!           +--> on time   earliest deadline first ----+
//! arrival --+        | cannot be met, or given up      +--> device
//!           |        v                                 |
//!           +--> late      half of their shares first -+    all of what those on time leave
//!        without a goal    oldest first, by weight
//! ```
//!
//! - **Given up** are the fewest that must be: a plan over all that wait, made anew after every so
//!   many arrivals while there is more to do than time for it. It gives up long requests rather
//!   than many short ones. What it gave up may be met after all if less arrives than did before.
//! - **Late ones** have half of their tenants' shares at least, each tenant's oldest first, and
//!   beyond that what those on time leave (`sched::late`). So nobody starves, and of the requests
//!   on time no more are given up for the late than half of the device can serve. Where all tenants
//!   ask for more than they can have for long, more are late than would have to be: whoever serves
//!   as few late ones as can be lets some wait for ever.
//! - **Without a goal** a request counts as late at once: its tenant has a share, and no promise of
//!   time.
//!
//! Service times are costs over the device's speed, which is measured while it is busy.
//!
//! **Cost.** O(log tenants + log queued), amortised; a plan is O(queued x log queued), once for a
//! quarter as many arrivals. Nothing allocates once as much was queued as ever will be.

pub mod plan;
mod speed;

use std::collections::VecDeque;

use super::depth::{Depth, DepthPolicy};
use super::heap::IndexedHeap;
use super::late::Late;
use super::queues::Queues;
use super::{Next, Scheduler, Share};
use crate::id::TenantId;
use crate::ticket::{Cost, Ticket};
use crate::time::{Nanos, Span};
use plan::{Job, Planner};
use speed::Speed;

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
    /// Those who are late, or have no goal.
    late: Late<Ticket>,
    planner: Planner,
    /// Given up by the last plan, and yet to be met should less arrive than did until then; by
    /// deadline.
    given_up: VecDeque<Timed>,
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

impl Edf {
    /// A scheduler that knows no tenant yet.
    pub fn new(depth: DepthPolicy) -> Self {
        let depth = Depth::new(depth);
        Self {
            goals: Vec::new(),
            on_time: Queues::default(),
            deadlines: IndexedHeap::default(),
            on_time_cost: 0,
            late: Late::default(),
            planner: Planner::default(),
            given_up: VecDeque::new(),
            planned: Vec::new(),
            unplanned: 0,
            arrivals: 0,
            speed: Speed::new(depth.in_force().min(64)),
            depth,
        }
    }

    /// Requests waiting that are late, or have no goal.
    pub fn late(&self) -> usize {
        self.late.len()
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

    /// What was given up and cannot be met any more is late.
    fn expire(&mut self, now: Nanos) {
        while let Some(timed) = self.given_up.front().copied() {
            if self.can_be_met(now, &timed) {
                return;
            }
            self.given_up.pop_front();
            self.become_late(&timed);
        }
    }

    fn can_be_met(&self, now: Nanos, timed: &Timed) -> bool {
        now + self.speed.time(timed.ticket.cost) <= timed.deadline
    }

    fn become_late(&mut self, timed: &Timed) {
        let Timed { ticket, arrival, deadline } = timed;
        self.late.push(ticket.tenant, (*arrival, *deadline), ticket.cost, *ticket);
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
            return self.plan_again(now);
        };
        let worth = PLAN_ARRIVALS_MIN.max((self.on_time.len() + self.given_up.len()) / 4);
        let is_crowded = now + self.late.stretch(self.speed.time(Cost(self.on_time_cost))) > first;
        if self.unplanned >= worth && (is_crowded || !self.given_up.is_empty()) {
            self.plan(now);
        }
    }

    /// Nothing is on time: what was given up may be met after all. Beside what the late are owed a
    /// plan may find room for none; then the first of them goes, since it can be met now.
    fn plan_again(&mut self, now: Nanos) {
        if self.unplanned > 0 && !self.given_up.is_empty() {
            self.plan(now);
        }
        if self.deadlines.peek().is_none()
            && let Some(timed) = self.given_up.pop_front()
        {
            self.push(timed);
        }
    }

    fn plan(&mut self, now: Nanos) {
        self.unplanned = 0;
        self.planned.extend(self.given_up.drain(..));
        while let Some((_, tenant)) = self.deadlines.peek() {
            self.planned.extend(std::iter::from_fn(|| self.on_time.pop(tenant as usize)));
            self.deadlines.remove(tenant);
        }
        self.on_time_cost = 0;
        let mut waiting = std::mem::take(&mut self.planned);
        waiting.sort_unstable_by_key(|timed| (timed.deadline, timed.arrival));
        let jobs = waiting.iter().map(|timed| {
            let service = self.late.stretch(self.speed.time(timed.ticket.cost));
            Job { service, deadline: timed.deadline }
        });
        let mut planner = std::mem::take(&mut self.planner);
        for (timed, given_up) in waiting.iter().zip(planner.give_up(now, jobs)) {
            if !*given_up {
                self.push(*timed);
            } else if self.can_be_met(now, timed) {
                self.given_up.push_back(*timed);
            } else {
                self.become_late(timed);
            }
        }
        waiting.clear();
        (self.planned, self.planner) = (waiting, planner);
    }

    /// The first request that can still be met; those before it are late.
    fn first_on_time(&mut self, now: Nanos) -> Option<Ticket> {
        while let Some((_, tenant)) = self.deadlines.peek() {
            let head = self.on_time.front(tenant as usize).expect("a tenant in the heap has one");
            if self.can_be_met(now, head) {
                return Some(head.ticket);
            }
            let timed = self.pop(tenant).expect("it was at the front");
            self.become_late(&timed);
        }
        None
    }

    /// Gives a ticket the time at which it is due, and queues it by that.
    fn take_in(&mut self, now: Nanos, ticket: Ticket) {
        let goal = *self.goals.get(ticket.tenant.index()).expect("configured before it sends");
        self.arrivals += 1;
        self.late.begin_wait(ticket.tenant);
        let timed = Timed { ticket, deadline: now + goal, arrival: self.arrivals };
        if goal == Span::ZERO {
            return self.become_late(&timed);
        }
        self.unplanned += 1;
        self.push(timed);
    }

    /// Takes a queued ticket back, wherever it waits.
    fn take_back(&mut self, ticket: Ticket) -> bool {
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
        self.late.remove(ticket.tenant, |late| late.slot == ticket.slot).is_some()
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
        self.late.advance(now);
        self.expire(now);
        self.plan_if_crowded(now);
        let on_time = self.first_on_time(now);
        let goes_late = on_time.is_none() || self.late.is_due();
        let chosen = if goes_late { self.late.head().copied() } else { on_time };
        let Some(ticket) = chosen else {
            self.speed.note_room();
            return Next::Idle;
        };
        if !self.depth.fits(&ticket) {
            self.depth.note_wait();
            self.speed.note_full(now);
            return Next::Idle;
        }
        if goes_late {
            self.late.pop();
        } else {
            self.pop(ticket.tenant.0);
        }
        self.late.spend(ticket.cost);
        self.late.end_wait(ticket.tenant);
        self.depth.start(now, &ticket);
        Next::Dispatch(ticket)
    }

    /// A new goal holds for what arrives from now on.
    fn configure(&mut self, _now: Nanos, tenant: TenantId, share: Share) {
        self.late.configure(tenant, share.weight_milli);
        let tenants = self.goals.len().max(tenant.index() + 1);
        self.goals.resize(tenants, Span::ZERO);
        self.on_time.reserve_tenants(tenants);
        self.deadlines.reserve_ids(tenants);
        self.goals[tenant.index()] = share.latency_goal;
    }

    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        let was_queued = self.take_back(ticket);
        if was_queued {
            self.late.end_wait(ticket.tenant);
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
        drained.extend(std::iter::from_fn(|| self.late.pop()));
        for ticket in &drained {
            self.late.end_wait(ticket.tenant);
        }
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
