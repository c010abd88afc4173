//! Request schedulers: one policy per file, all behind one contract.
//!
//! | file | policy | source |
//! |---|---|---|
//! | [`fifo`] | arrival order, optional depth | baseline |
//! | [`sfq`] | start-time fair queuing, SFQ(D) and SFQ(D)+ | Goyal 1997; Jin 2004; vPFS+ 2019 |
//! | [`depth`] | the depth that SFQ(D) fills, fixed or steered | SFQ(D2), IBIS 2016 |
//! | [`hold`] | bounded-lead hold for closed-loop tenants whose queue runs dry | this project |
//! | [`limit`] | token-bucket limits per tenant above any policy | |
//! | [`edf`] | deadlines, half shares for the late | Liu and Layland 1973; Moore 1968 |
//! | [`mclock`] | floors, limits and shares by tags, over many servers | mClock, OSDI 2010 |
//! | [`dsfq`] | total-service shares over many servers | Wang & Merchant, FAST 2007 |
//! | [`tiered`] | shares over the devices of tiered storage together | BAA, FAST 2014 |
//!
//! Further files serve them: `tag` is virtual time in integers and `key` its order, [`bucket`] a
//! token bucket, `heap` the indexed heap that finds the next tenant, `queues` the queues of all
//! tenants in one slab, `late` what keeps half of its share for whoever waited too long.
//!
//! # The contract
//!
//! Feed one input, then call [`Scheduler::poll`] until it no longer dispatches.
//!
//! - Time never goes back between calls.
//! - A spurious poll changes nothing.
//! - A ticket goes in once and comes out once, by `poll`, `withdraw` or `drain`.
//! - `WaitUntil(t)` has `t > now`; an input may make the scheduler ready earlier.
//! - `complete` or `leave` is called once for each dispatched ticket.
//! - Every call is O(log tenants) unless its documentation says otherwise.

pub mod bucket;
pub mod depth;
pub mod dsfq;
pub mod edf;
pub mod fifo;
mod heap;
pub mod hold;
mod key;
pub(crate) mod late;
pub mod limit;
pub mod mclock;
mod queues;
pub mod sfq;
mod tag;
#[cfg(test)]
pub(crate) mod testing;
pub mod tiered;

use crate::control::target::{Bounds, Target};
use crate::id::TenantId;
use crate::ticket::Ticket;
use crate::time::{Nanos, Span};

/// What a scheduler wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Send this ticket to the device, then poll again.
    Dispatch(Ticket),
    /// Nothing may go now; poll again at this instant at the latest.
    WaitUntil(Nanos),
    /// Nothing may go before the next input.
    Idle,
}

/// What a policy says of one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Relative weight, in thousandths; 1 to 10^9, zero is taken for 1. A share of "4" is
    /// 4000.
    pub weight_milli: u32,
    /// Upper bounds, enforced by [`limit`] or [`mclock`].
    pub limit: Limit,
    /// Lower bounds, kept by [`mclock`]; other policies have none.
    pub floor: Floor,
    /// Goal for the response time, pursued by [`edf`] for every request and across hosts
    /// ([`crate::control`]) as a [`Target`]; zero for none.
    pub latency_goal: Span,
    /// What of the response times of a window the goal bounds.
    pub goal_bounds: Bounds,
    /// The window, above zero.
    pub goal_window: Span,
}

/// The window of a goal that names none.
pub const GOAL_WINDOW: Span = Span::from_secs(1);

impl Share {
    /// The goal as a promise over windows, if there is one.
    pub fn target(&self) -> Option<Target> {
        let Self { latency_goal: latency_max, goal_bounds: bounds, goal_window: window, .. } =
            *self;
        (latency_max > Span::ZERO).then_some(Target { bounds, latency_max, window })
    }
}

/// Lower bounds of one tenant: what it gets first whenever it asks for it. Zero means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// Requests per second.
    pub rate_iops: u64,
    /// Bytes per second.
    pub rate_bytes: u64,
}

/// Upper bounds of one tenant. Zero means no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Requests per second.
    pub rate_iops: u64,
    /// Bytes per second.
    pub rate_bytes: u64,
    /// Requests that may pass at once after idleness; at least one whenever `rate_iops` is set.
    pub burst_requests: u64,
    /// Bytes that may pass at once after idleness; a request larger than this still passes, from a
    /// full bucket, and leaves a debt.
    pub burst_bytes: u64,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            weight_milli: 1000,
            limit: Limit::default(),
            floor: Floor::default(),
            latency_goal: Span::ZERO,
            goal_bounds: Bounds::Mean,
            goal_window: GOAL_WINDOW,
        }
    }
}

/// A moment in which one tenant has the device to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whose it is.
    pub tenant: TenantId,
    /// When it is over at the latest.
    pub until: Nanos,
}

/// A request queue policy. See the [module](self) for the contract.
pub trait Scheduler {
    /// Takes in a ticket. Its tenant must have been configured.
    fn enqueue(&mut self, now: Nanos, ticket: Ticket);

    /// Takes in a ticket that has waited elsewhere for its tenant's own sake: for its limit, or for
    /// its part of the slots. It is no sign of a tenant that sends now and then.
    fn enqueue_held(&mut self, now: Nanos, ticket: Ticket) {
        self.enqueue(now, ticket);
    }

    /// Notes that the device finished a ticket that `poll` had dispatched.
    fn complete(&mut self, now: Nanos, ticket: Ticket);

    /// Notes, instead of [`complete`](Self::complete), that a dispatched ticket gives its place
    /// back though the device has not served it: it has failed, or is out for too long. What is
    /// learned of the device is not learned from it.
    fn leave(&mut self, now: Nanos, ticket: Ticket) {
        self.complete(now, ticket);
    }

    /// Says what to do next.
    fn poll(&mut self, now: Nanos) -> Next;

    /// Adds a tenant or changes its share. Weights, floors and limits hold for what is queued too;
    /// deadlines that queued tickets have stay. O(tenants) when it adds one, O(queued tickets of
    /// the tenant) when its weight changes.
    fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share);

    /// Takes back a queued ticket, as when its client has vanished; false if it is not queued here
    /// (dispatched already). O(tickets queued by that tenant).
    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool;

    /// Takes back everything queued, in an order that keeps each tenant's own order. O(tickets).
    fn drain(&mut self) -> Vec<Ticket>;

    /// Tickets waiting here, dispatched ones excluded.
    fn queued(&self) -> usize;

    /// Request-time that the tenant's own limit has held its tickets for, up to now; zero for
    /// policies without limits.
    fn throttled(&self, _now: Nanos, _tenant: TenantId) -> Span {
        Span::ZERO
    }

    /// The depth in force, in requests or bytes as configured; zero for none.
    fn depth_now(&self) -> u64 {
        0
    }

    /// Whether as much is with the device as the depth allows; always false without one.
    fn is_full(&self) -> bool {
        false
    }

    /// The depth that an automatic one has found; none before, and for others.
    fn depth_found(&self) -> Option<u32> {
        None
    }

    /// The part of the throughput, 0 to 1, that an automatic depth forgoes so that tenants with
    /// little wait less; none where it forgoes nothing, and for others.
    fn depth_forgone(&self) -> Option<f64> {
        None
    }

    /// The device is to be this tenant's alone: nothing goes until the others' tickets are back,
    /// and then its own go first for as long as it has some. None, or the end of the turn, brings
    /// back the usual order, in which whoever waited catches up. Only start-time fair queuing gives
    /// turns; for others it is nothing.
    fn set_turn(&mut self, _turn: Option<Turn>) {}
}

impl<S: Scheduler + ?Sized> Scheduler for Box<S> {
    fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        (**self).enqueue(now, ticket);
    }

    fn enqueue_held(&mut self, now: Nanos, ticket: Ticket) {
        (**self).enqueue_held(now, ticket);
    }

    fn complete(&mut self, now: Nanos, ticket: Ticket) {
        (**self).complete(now, ticket);
    }

    fn leave(&mut self, now: Nanos, ticket: Ticket) {
        (**self).leave(now, ticket);
    }

    fn poll(&mut self, now: Nanos) -> Next {
        (**self).poll(now)
    }

    fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        (**self).configure(now, tenant, share);
    }

    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        (**self).withdraw(now, ticket)
    }

    fn drain(&mut self) -> Vec<Ticket> {
        (**self).drain()
    }

    fn queued(&self) -> usize {
        (**self).queued()
    }

    fn throttled(&self, now: Nanos, tenant: TenantId) -> Span {
        (**self).throttled(now, tenant)
    }

    fn depth_now(&self) -> u64 {
        (**self).depth_now()
    }

    fn is_full(&self) -> bool {
        (**self).is_full()
    }

    fn depth_found(&self) -> Option<u32> {
        (**self).depth_found()
    }

    fn depth_forgone(&self) -> Option<f64> {
        (**self).depth_forgone()
    }

    fn set_turn(&mut self, turn: Option<Turn>) {
        (**self).set_turn(turn);
    }
}
