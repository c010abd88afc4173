//! Who goes next inside a host: the oldest, or by deadline with the hopeless last.
//!
//! By deadline: a request may wait for a slot for as long as its tenant's target leaves after the
//! device's own latency. Those within their time go first, the earliest deadline at the head; a
//! request beyond it is late whatever is done, and goes when nothing else waits. Without that split
//! the order of deadlines makes everybody late under overload, one waiting behind the other.
//! Tenants without a target wait among the late, by age.
//!
//! ```text
//!   r = 250 ms, device 150 ms, patience 1/2: in time for 50 ms, then late
//!   in time   a: [.. 40 ms] [.. 10 ms]     b: [.. 35 ms]      earliest deadline first
//!   late      a: [.. 90 ms]                c (no target): [..]    oldest first, and one of 256
//! ```
//!
//! Only a part of the time left is granted ([`Order::Deadline`]'s patience): the device's latency
//! varies, and a request sent at the last moment is late about every second time.
//!
//! Source: Liu and Layland, JACM 20(1), 1973, for the order; Moore, Management Science 15(1), 1968,
//! for giving up the late ones. [`crate::sched::edf`] is the same idea for one server whose service
//! times are known one by one; here the device is shared, and answers after L(N).

use std::collections::VecDeque;

use super::target::Target;
use crate::id::TenantId;
use crate::time::{Nanos, Span};

/// Which of the requests that wait goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The oldest.
    Arrival,
    /// The earliest deadline of those in time, the late ones last.
    Deadline {
        /// The mean latency that the device is expected to have.
        device: Span,
        /// Part of the time left after that which a request may wait, in thousandths.
        patience_milli: u16,
    },
}

/// Dispatches of requests in time after which a late one goes first.
const LATE_TURN: u32 = 256;

/// A request that waits for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The owner's handle.
    pub tag: u32,
    /// Whose.
    pub tenant: TenantId,
    /// Since when.
    pub arrival: Nanos,
}

/// The requests of a host that wait for a slot. Every call is O(tenants), amortised.
#[derive(Clone, Debug, Default)]
pub struct LocalQueue {
    tenants: Vec<TenantQueue>,
    /// Dispatches of requests in time since a late one went.
    since_late: u32,
}

#[derive(Clone, Debug, Default)]
struct TenantQueue {
    target: Option<Target>,
    in_time: VecDeque<Waiting>,
    late: VecDeque<Waiting>,
}

impl LocalQueue {
    /// Adds a tenant, or changes its target.
    pub fn configure(&mut self, tenant: TenantId, target: Option<Target>) {
        let tenants = self.tenants.len().max(tenant.index() + 1);
        self.tenants.resize(tenants, TenantQueue::default());
        self.tenants[tenant.index()].target = target;
    }

    /// A request waits. Its tenant must have been configured.
    pub fn push(&mut self, waiting: Waiting) {
        self.tenants[waiting.tenant.index()].in_time.push_back(waiting);
    }

    /// Takes out one that will not be sent, if it waits here. O(waiting of its tenant).
    pub fn withdraw(&mut self, tenant: TenantId, tag: u32) -> Option<Waiting> {
        let TenantQueue { in_time, late, .. } = &mut self.tenants[tenant.index()];
        [late, in_time].into_iter().find_map(|queue| {
            let position = queue.iter().position(|waiting| waiting.tag == tag)?;
            queue.remove(position)
        })
    }

    /// Takes out the one that goes next.
    pub fn pop(&mut self, now: Nanos, order: Order) -> Option<Waiting> {
        match order {
            Order::Arrival => self.pop_oldest(),
            Order::Deadline { device, patience_milli } => {
                for tenant in &mut self.tenants {
                    tenant.give_up(now, device, patience_milli);
                }
                self.pop_by_deadline()
            }
        }
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.tenants.iter().map(|tenant| tenant.in_time.len() + tenant.late.len()).sum()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.tenants.iter().all(|tenant| tenant.in_time.is_empty() && tenant.late.is_empty())
    }

    fn pop_oldest(&mut self) -> Option<Waiting> {
        let head = |tenant: &TenantQueue| {
            let heads = [tenant.late.front(), tenant.in_time.front()];
            heads.into_iter().flatten().map(|waiting| waiting.arrival).min()
        };
        let arrivals = self.tenants.iter().enumerate();
        let heads = arrivals.filter_map(|(index, tenant)| Some((head(tenant)?, index)));
        let (arrival, index) = heads.min()?;
        let tenant = &mut self.tenants[index];
        let is_late = tenant.late.front().is_some_and(|waiting| waiting.arrival == arrival);
        if is_late { tenant.late.pop_front() } else { tenant.in_time.pop_front() }
    }

    fn pop_by_deadline(&mut self) -> Option<Waiting> {
        let deadline = |tenant: &TenantQueue| {
            let arrival = tenant.in_time.front()?.arrival;
            Some(tenant.target?.deadline(arrival))
        };
        let first = by_key(&self.tenants, deadline);
        let late = by_key(&self.tenants, |tenant| Some(tenant.late.front()?.arrival));
        match (first, late) {
            (first, Some(late)) if first.is_none() || self.since_late >= LATE_TURN => {
                self.since_late = 0;
                self.tenants[late].late.pop_front()
            }
            (Some(first), _) => {
                self.since_late = if late.is_some() { self.since_late + 1 } else { 0 };
                self.tenants[first].in_time.pop_front()
            }
            (None, _) => None,
        }
    }
}

/// The tenant with the least key, the first of equals.
fn by_key(tenants: &[TenantQueue], key: impl Fn(&TenantQueue) -> Option<Nanos>) -> Option<usize> {
    let keys = tenants.iter().enumerate();
    keys.filter_map(|(index, tenant)| Some((key(tenant)?, index))).min().map(|(_, index)| index)
}

impl TenantQueue {
    /// Moves those that waited too long to the late ones.
    fn give_up(&mut self, now: Nanos, device: Span, patience_milli: u16) {
        let patience = self.target.map_or(Span::ZERO, |target| {
            let left_ns = target.latency_max.0.saturating_sub(device.0);
            let granted = u128::from(left_ns) * u128::from(patience_milli) / 1000;
            Span(u64::try_from(granted).unwrap_or(u64::MAX))
        });
        let has_target = self.target.is_some();
        while let Some(waiting) = self.in_time.front() {
            if has_target && now.since(waiting.arrival) <= patience {
                return;
            }
            self.late.extend(self.in_time.pop_front());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_DEADLINE: Order =
        Order::Deadline { device: Span::from_millis(150), patience_milli: 500 };

    fn queue(bounds_ms: &[Option<u64>]) -> LocalQueue {
        let mut queue = LocalQueue::default();
        for (tenant, bound_ms) in (0..).zip(bounds_ms) {
            let target = bound_ms.map(|ms| Target::mean(Span::from_millis(ms), Span::from_secs(1)));
            queue.configure(TenantId(tenant), target);
        }
        queue
    }

    fn at_ms(ms: u64) -> Nanos {
        Nanos::ZERO + Span::from_millis(ms)
    }

    fn push(queue: &mut LocalQueue, tag: u32, tenant: u32, arrival_ms: u64) {
        queue.push(Waiting { tag, tenant: TenantId(tenant), arrival: at_ms(arrival_ms) });
    }

    fn drain(queue: &mut LocalQueue, now_ms: u64, order: Order) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop(at_ms(now_ms), order).map(|waiting| waiting.tag)).collect()
    }

    #[test]
    fn the_earliest_deadline_goes_first_and_the_late_last() {
        let mut queue = queue(&[Some(250), Some(800), None]);
        push(&mut queue, 0, 2, 0);
        push(&mut queue, 1, 0, 1);
        push(&mut queue, 2, 1, 0);
        push(&mut queue, 3, 1, 50);
        push(&mut queue, 4, 0, 60);
        // At 100 ms the first of tenant 0 waited for more than half of 250 - 150 ms.
        assert_eq!(drain(&mut queue, 100, BY_DEADLINE), [4, 2, 3, 0, 1]);
        assert!(queue.is_empty());
    }

    #[test]
    fn by_arrival_nobody_is_passed_over_even_after_being_given_up() {
        let mut queue = queue(&[Some(250), Some(800)]);
        push(&mut queue, 0, 0, 0);
        push(&mut queue, 1, 1, 10);
        push(&mut queue, 2, 0, 95);
        push(&mut queue, 3, 0, 99);
        assert_eq!(queue.pop(at_ms(100), BY_DEADLINE).map(|waiting| waiting.tag), Some(2));
        assert_eq!(drain(&mut queue, 100, Order::Arrival), [0, 1, 3]);
    }

    #[test]
    fn late_requests_are_not_starved() {
        let mut queue = queue(&[Some(250), None]);
        push(&mut queue, 7, 1, 0);
        let position = (0..2 * LATE_TURN).position(|tag| {
            push(&mut queue, 1000 + tag, 0, 0);
            queue.pop(at_ms(1), BY_DEADLINE).map(|waiting| waiting.tag) == Some(7)
        });
        assert_eq!(position, Some(LATE_TURN as usize));
    }
}
