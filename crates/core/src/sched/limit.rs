//! Upper bounds per tenant, above any policy.
//!
//! Each limited tenant has a bucket of requests, a bucket of bytes, or both ([`super::Limit`]).
//! What is over the limit waits here, in the tenant's own order, and enters the policy below when
//! its tokens are there; what is within it, or has no limit, goes straight through.
//!
//! ```text
//! enqueue --> limited? --no--------------------------> inner policy --> poll
//!                 \-yes--> [tenant's queue] --tokens-----^
//! ```
//!
//! The bound holds for what enters the inner policy: over any window of length t, at most
//! `rate * t + burst` (and one request larger than the burst). Tokens taken are not given back when
//! a ticket is withdrawn from the inner policy.

use super::bucket::Buckets;
use super::heap::IndexedHeap;
use super::queues::Queues;
use super::{Limit, Next, Scheduler, Share, Turn};
use crate::id::TenantId;
use crate::ticket::Ticket;
use crate::time::{Nanos, Span};

/// Limits above the policy `S`. See the [module](self).
#[derive(Clone, Debug)]
pub struct Limited<S> {
    inner: S,
    /// Nothing for a tenant that never had a limit.
    meters: Vec<Option<Box<Meter>>>,
    waiting: Queues<Ticket>,
    /// Tenants with tickets waiting, by when the first of them may pass.
    ready: IndexedHeap<(Nanos, u32)>,
}

/// One limited tenant.
#[derive(Clone, Debug)]
struct Meter {
    buckets: Buckets,
    /// Request-time held here until `changed`.
    throttled: Span,
    changed: Nanos,
}

impl<S: Scheduler> Limited<S> {
    /// Limits above `inner`, which knows no tenant yet.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            meters: Vec::new(),
            waiting: Queues::default(),
            ready: IndexedHeap::default(),
        }
    }

    /// The policy below.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The policy below, to change its options.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Tickets that the tenant's own limit holds.
    pub fn held(&self, tenant: TenantId) -> usize {
        self.waiting.len_of(tenant.index()) as usize
    }

    /// Lets everything into the inner policy that has its tokens.
    fn release(&mut self, now: Nanos) {
        while let Some(((ready_at, _), tenant)) = self.ready.peek()
            && ready_at <= now
        {
            let index = tenant as usize;
            self.account(now, index);
            let ticket = self.waiting.pop(index).expect("a tenant that waits has a ticket");
            self.meter(index).buckets.take(now, &ticket);
            self.inner.enqueue_held(now, ticket);
            self.place_head(now, index);
        }
    }

    /// Puts the tenant where the ticket at the head of its queue belongs.
    fn place_head(&mut self, now: Nanos, index: usize) {
        let tenant = u32::try_from(index).expect("tenants are u32");
        match self.waiting.front(index).copied() {
            Some(head) => {
                let ready_at = self.meter(index).buckets.ready_at(now, &head);
                self.ready.set(tenant, (ready_at, tenant));
            }
            None => self.ready.remove(tenant),
        }
    }

    /// Brings the tenant's throttled time up to now; to be called before its queue changes.
    fn account(&mut self, now: Nanos, index: usize) {
        let waiting = u64::from(self.waiting.len_of(index));
        let meter = self.meter(index);
        meter.throttled += Span(now.since(meter.changed).0.saturating_mul(waiting));
        meter.changed = now;
    }

    fn meter(&mut self, index: usize) -> &mut Meter {
        self.meters[index].as_mut().expect("only a tenant with a meter waits")
    }
}

impl<S: Scheduler> Scheduler for Limited<S> {
    fn enqueue(&mut self, now: Nanos, ticket: Ticket) {
        let index = ticket.tenant.index();
        let meter = self.meters.get_mut(index).expect("a tenant is configured before it sends");
        let Some(meter) = meter else { return self.inner.enqueue(now, ticket) };
        if self.waiting.len_of(index) == 0 && meter.buckets.ready_at(now, &ticket) <= now {
            meter.buckets.take(now, &ticket);
            return self.inner.enqueue(now, ticket);
        }
        self.account(now, index);
        self.waiting.push(index, ticket);
        if self.waiting.len_of(index) == 1 {
            self.place_head(now, index);
        }
    }

    fn complete(&mut self, now: Nanos, ticket: Ticket) {
        self.inner.complete(now, ticket);
    }

    fn leave(&mut self, now: Nanos, ticket: Ticket) {
        self.inner.leave(now, ticket);
    }

    fn poll(&mut self, now: Nanos) -> Next {
        self.release(now);
        let next = self.inner.poll(now);
        let Some(((ready_at, _), _)) = self.ready.peek() else { return next };
        match next {
            Next::Dispatch(_) => next,
            Next::WaitUntil(until) => Next::WaitUntil(until.min(ready_at)),
            Next::Idle => Next::WaitUntil(ready_at),
        }
    }

    /// A changed limit holds at once, for waiting tickets too.
    fn configure(&mut self, now: Nanos, tenant: TenantId, share: Share) {
        self.inner.configure(now, tenant, share);
        let index = tenant.index();
        let tenants = self.meters.len().max(index + 1);
        self.meters.resize(tenants, None);
        self.waiting.reserve_tenants(tenants);
        self.ready.reserve_ids(tenants);
        match &mut self.meters[index] {
            Some(meter) => {
                meter.buckets.change(now, share.limit);
                self.place_head(now, index);
            }
            none => *none = Meter::new(now, share.limit),
        }
    }

    fn withdraw(&mut self, now: Nanos, ticket: Ticket) -> bool {
        let index = ticket.tenant.index();
        if self.waiting.len_of(index) > 0 {
            self.account(now, index);
            let same_slot = |queued: &Ticket| queued.slot == ticket.slot;
            if self.waiting.remove(index, same_slot, |_, _| ()).is_some() {
                self.place_head(now, index);
                return true;
            }
        }
        self.inner.withdraw(now, ticket)
    }

    /// Time that the tickets drained have waited since their queue last changed is not counted as
    /// throttled.
    fn drain(&mut self) -> Vec<Ticket> {
        let mut drained = self.inner.drain();
        for tenant in self.ready.ids() {
            drained.extend(std::iter::from_fn(|| self.waiting.pop(tenant as usize)));
        }
        self.ready.clear();
        drained
    }

    fn queued(&self) -> usize {
        self.waiting.len() + self.inner.queued()
    }

    fn throttled(&self, now: Nanos, tenant: TenantId) -> Span {
        let index = tenant.index();
        let meter = self.meters.get(index).and_then(Option::as_ref);
        let here = meter.map_or(Span::ZERO, |meter| {
            let waiting = u64::from(self.waiting.len_of(index));
            meter.throttled + Span(now.since(meter.changed).0.saturating_mul(waiting))
        });
        here + self.inner.throttled(now, tenant)
    }

    fn depth_now(&self) -> u64 {
        self.inner.depth_now()
    }

    fn is_full(&self) -> bool {
        self.inner.is_full()
    }

    fn depth_found(&self) -> Option<u32> {
        self.inner.depth_found()
    }

    fn depth_forgone(&self) -> Option<f64> {
        self.inner.depth_forgone()
    }

    fn set_turn(&mut self, turn: Option<Turn>) {
        self.inner.set_turn(turn);
    }
}

impl Meter {
    /// A meter of full buckets; none for no limit.
    fn new(now: Nanos, limit: Limit) -> Option<Box<Self>> {
        let buckets = Buckets::new(now, limit)?;
        Some(Box::new(Self { buckets, throttled: Span::ZERO, changed: now }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fifo::Fifo;
    use crate::sched::testing::ticket;

    const SECOND: u64 = 1_000_000_000;

    fn share(rate_iops: u64, burst_requests: u64) -> Share {
        let limit = Limit { rate_iops, burst_requests, ..Limit::default() };
        Share { limit, ..Share::default() }
    }

    fn limited(share: Share) -> Limited<Fifo> {
        let mut limited = Limited::new(Fifo::new(None));
        limited.configure(Nanos(0), TenantId(0), share);
        limited.configure(Nanos(0), TenantId(1), Share::default());
        limited
    }

    /// Polls at `now` until nothing goes; tells how many went and what it waits for.
    fn pump(limited: &mut Limited<Fifo>, now: Nanos) -> (usize, Next) {
        let mut dispatched = 0;
        loop {
            match limited.poll(now) {
                Next::Dispatch(_) => dispatched += 1,
                next => return (dispatched, next),
            }
        }
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut limited = limited(share(10, 3));
        (0..5).for_each(|slot| limited.enqueue(Nanos(0), ticket(0, slot)));
        assert_eq!(limited.held(TenantId(0)), 2);
        assert_eq!(pump(&mut limited, Nanos(0)), (3, Next::WaitUntil(Nanos(SECOND / 10))));
        assert_eq!(pump(&mut limited, Nanos(SECOND / 10)), (1, Next::WaitUntil(Nanos(SECOND / 5))));
        assert_eq!(pump(&mut limited, Nanos(SECOND / 5)), (1, Next::Idle));
        assert_eq!(limited.throttled(Nanos(SECOND), TenantId(0)), Span(SECOND / 10 + SECOND / 5));
    }

    #[test]
    fn others_pass_a_tenant_at_its_limit() {
        let mut limited = limited(share(1, 1));
        (0..2).for_each(|slot| limited.enqueue(Nanos(0), ticket(0, slot)));
        limited.enqueue(Nanos(0), ticket(1, 9));
        assert_eq!(pump(&mut limited, Nanos(0)), (2, Next::WaitUntil(Nanos(SECOND))));
        assert_eq!((limited.queued(), limited.throttled(Nanos(0), TenantId(1))), (1, Span::ZERO));
    }

    #[test]
    fn a_changed_limit_holds_at_once_for_what_waits() {
        let mut limited = limited(share(1, 1));
        (0..3).for_each(|slot| limited.enqueue(Nanos(0), ticket(0, slot)));
        assert_eq!(pump(&mut limited, Nanos(0)), (1, Next::WaitUntil(Nanos(SECOND))));
        limited.configure(Nanos(0), TenantId(0), share(100, 1));
        assert_eq!(pump(&mut limited, Nanos(0)), (0, Next::WaitUntil(Nanos(SECOND / 100))));
        limited.configure(Nanos(5), TenantId(0), Share::default());
        assert_eq!(pump(&mut limited, Nanos(5)), (2, Next::Idle));
    }

    #[test]
    fn both_bounds_hold_and_the_later_one_counts() {
        let limit =
            Limit { rate_iops: 10, burst_requests: 10, rate_bytes: 4096, burst_bytes: 4096 };
        let mut limited = limited(Share { limit, ..Share::default() });
        (0..2).for_each(|slot| limited.enqueue(Nanos(0), ticket(0, slot)));
        assert_eq!(pump(&mut limited, Nanos(0)), (1, Next::WaitUntil(Nanos(SECOND))));
    }

    #[test]
    fn held_tickets_are_withdrawn_and_drained_like_others() {
        let mut limited = limited(share(1, 1));
        (0..4).for_each(|slot| limited.enqueue(Nanos(0), ticket(0, slot)));
        assert!(limited.withdraw(Nanos(3), ticket(0, 1)), "held here");
        assert!(limited.withdraw(Nanos(3), ticket(0, 0)), "queued below");
        assert!(!limited.withdraw(Nanos(3), ticket(0, 1)));
        assert_eq!(limited.throttled(Nanos(4), TenantId(0)), Span(11));
        assert_eq!(limited.drain(), [ticket(0, 2), ticket(0, 3)]);
        assert_eq!(pump(&mut limited, Nanos(5 * SECOND)), (0, Next::Idle));
    }
}
