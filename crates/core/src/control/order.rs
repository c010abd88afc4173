//! Who goes next inside a host: the oldest, or by deadline; and half of its share for whoever is
//! late.
//!
//! By deadline: a request may wait for a slot for as long as its tenant's target leaves after the
//! device's own latency. Those within their time go first, the earliest deadline at the head; a
//! request beyond it is late whatever is done. Without that split the order of deadlines makes
//! everybody late under overload, one waiting behind the other. Tenants without a target count as
//! late at once.
//!
//! By arrival: a request is late when it has waited for its target, or for a second without one.
//!
//! The late go by weight, each tenant's oldest first, after all that are in time. But where the
//! oldest has waited for [`OVERDUE`] times its target, half of its tenant's share is due whoever is
//! in time (`sched::late`), and without a target always. By arrival whatever is late goes by weight
//! before what is younger.
//!
//! ```text
//!   r = 250 ms, device 150 ms, patience 1/2: in time for 50 ms, then late
//!   in time   a: [.. 40 ms] [.. 10 ms]     b: [.. 35 ms]      earliest deadline first
//!   late      a: [.. 90 ms]                c (no target): [..]    by weight
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
use crate::sched::late::Late;
use crate::ticket::Cost;
use crate::time::{Nanos, Span};

/// Which of the requests that wait goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The oldest; of those that waited too long, by weight.
    Arrival,
    /// The earliest deadline of those in time; of the late ones, by weight.
    Deadline {
        /// The mean latency that the device is expected to have.
        device: Span,
        /// Part of the time left after that which a request may wait, in thousandths.
        patience_milli: u16,
    },
}

/// How long a request without a target waits by arrival before it is late.
const PATIENCE: Span = Span::from_secs(1);

/// By deadline a tenant is owed half its share once a request has waited for so many times its
/// target. The sooner, the more of the device goes to what is late already: with one, 4 points more
/// requests are late under an overload of 1.12, and with three 2 (`reproduce drg`). Who has no
/// target is owed it at once.
pub const OVERDUE: u64 = 16;

/// A request that waits for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The owner's handle.
    pub tag: u32,
    /// Whose.
    pub tenant: TenantId,
    /// Since when.
    pub arrival: Nanos,
    /// What it takes of the device.
    pub cost: Cost,
}

/// The requests of a host that wait for a slot. Every call is O(tenants), amortised.
#[derive(Clone, Debug, Default)]
pub struct LocalQueue {
    tenants: Vec<TenantQueue>,
    late: Late<Waiting>,
}

#[derive(Clone, Debug, Default)]
struct TenantQueue {
    target: Option<Target>,
    in_time: VecDeque<Waiting>,
}

impl LocalQueue {
    /// Adds a tenant, or changes its target or its weight in thousandths.
    pub fn configure(&mut self, tenant: TenantId, target: Option<Target>, weight_milli: u32) {
        let tenants = self.tenants.len().max(tenant.index() + 1);
        self.tenants.resize(tenants, TenantQueue::default());
        self.tenants[tenant.index()].target = target;
        self.late.configure(tenant, weight_milli);
    }

    /// A request waits. Its tenant must have been configured.
    pub fn push(&mut self, waiting: Waiting) {
        self.late.begin_wait(waiting.tenant);
        self.tenants[waiting.tenant.index()].in_time.push_back(waiting);
    }

    /// Takes out one that will not be sent, if it waits here. O(waiting of its tenant).
    pub fn withdraw(&mut self, tenant: TenantId, tag: u32) -> Option<Waiting> {
        let in_time = &mut self.tenants[tenant.index()].in_time;
        let position = in_time.iter().position(|waiting| waiting.tag == tag);
        let withdrawn = match position {
            Some(position) => in_time.remove(position),
            None => self.late.remove(tenant, |waiting| waiting.tag == tag),
        };
        if withdrawn.is_some() {
            self.late.end_wait(tenant);
        }
        withdrawn
    }

    /// Takes out the one that goes next.
    pub fn pop(&mut self, now: Nanos, order: Order) -> Option<Waiting> {
        self.late.advance(now);
        for tenant in &mut self.tenants {
            tenant.give_up(now, order, &mut self.late);
        }
        let first = self.first_in_time(order);
        let is_older = |late: &Waiting| {
            let first = first.and_then(|index| self.tenants[index].in_time.front());
            first.is_none_or(|first| order == Order::Arrival && late.arrival <= first.arrival)
        };
        let goes_late = self.late.is_due() || self.late.any_oldest(is_older);
        let next =
            if goes_late { self.late.pop() } else { self.tenants[first?].in_time.pop_front() };
        if let Some(next) = next {
            self.late.spend(next.cost);
            self.late.end_wait(next.tenant);
        }
        next
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.tenants.iter().map(|tenant| tenant.in_time.len()).sum::<usize>() + self.late.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tenant whose first request is the next of those in time, the first of equals.
    fn first_in_time(&self, order: Order) -> Option<usize> {
        let key = |tenant: &TenantQueue| {
            let arrival = tenant.in_time.front()?.arrival;
            match order {
                Order::Arrival => Some(arrival),
                Order::Deadline { .. } => Some(tenant.target?.deadline(arrival)),
            }
        };
        let keys = self.tenants.iter().enumerate();
        keys.filter_map(|(index, tenant)| Some((key(tenant)?, index))).min().map(|(_, index)| index)
    }
}

impl TenantQueue {
    /// How long a request may wait; none without a target where deadlines count.
    fn patience(&self, order: Order) -> Option<Span> {
        match (order, self.target) {
            (Order::Arrival, target) => Some(target.map_or(PATIENCE, |it| it.latency_max)),
            (Order::Deadline { .. }, None) => None,
            (Order::Deadline { device, patience_milli }, Some(target)) => {
                let left_ns = target.latency_max.0.saturating_sub(device.0);
                let granted = u128::from(left_ns) * u128::from(patience_milli) / 1000;
                Some(Span(u64::try_from(granted).unwrap_or(u64::MAX)))
            }
        }
    }

    /// Moves those that waited too long to the late ones.
    fn give_up(&mut self, now: Nanos, order: Order, late: &mut Late<Waiting>) {
        let patience = self.patience(order);
        let bound = self.target.map_or(Span::ZERO, |target| target.latency_max);
        let is_in_time =
            |waiting: &Waiting| patience.is_some_and(|most| now.since(waiting.arrival) <= most);
        while let Some(waiting) = self.in_time.pop_front_if(|waiting| !is_in_time(waiting)) {
            let owed_from = match order {
                Order::Arrival => Nanos::ZERO,
                Order::Deadline { .. } => waiting.arrival + Span(bound.0.saturating_mul(OVERDUE)),
            };
            late.push(waiting.tenant, (waiting.arrival.0, owed_from), waiting.cost, waiting);
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
            queue.configure(TenantId(tenant), target, 1000);
        }
        queue
    }

    fn at_ms(ms: u64) -> Nanos {
        Nanos::ZERO + Span::from_millis(ms)
    }

    fn push(queue: &mut LocalQueue, tag: u32, tenant: u32, arrival_ms: u64) {
        let (tenant, arrival) = (TenantId(tenant), at_ms(arrival_ms));
        queue.push(Waiting { tag, tenant, arrival, cost: Cost::ONE });
    }

    fn drain(queue: &mut LocalQueue, now_ms: u64, order: Order) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop(at_ms(now_ms), order).map(|waiting| waiting.tag)).collect()
    }

    #[test]
    fn the_earliest_deadline_goes_first_but_for_half_the_shares_of_the_late() {
        let mut queue = queue(&[Some(250), Some(800), None]);
        push(&mut queue, 0, 2, 0);
        push(&mut queue, 1, 0, 1);
        push(&mut queue, 2, 1, 0);
        push(&mut queue, 3, 1, 50);
        push(&mut queue, 4, 0, 60);
        // At 100 ms the first of tenant 0 waited for more than half of 250 - 150 ms; it is owed
        // nothing before it has waited for 4 s. Tenant 2, without a target, is at once.
        assert_eq!(drain(&mut queue, 100, BY_DEADLINE), [4, 0, 2, 3, 1]);
        assert!(queue.is_empty());
        push(&mut queue, 0, 0, 0);
        (1..6).for_each(|tag| push(&mut queue, tag, 1, 3_995 + u64::from(tag)));
        assert_eq!(drain(&mut queue, 4_001, BY_DEADLINE), [1, 0, 2, 3, 4, 5]);
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
    fn by_arrival_no_younger_one_of_a_tenant_overtakes_a_late_one() {
        let mut queue = queue(&[Some(40), Some(5)]);
        push(&mut queue, 0, 0, 5);
        push(&mut queue, 1, 0, 10);
        assert_eq!(queue.pop(at_ms(46), Order::Arrival).map(|waiting| waiting.tag), Some(0));
        push(&mut queue, 2, 0, 50);
        push(&mut queue, 3, 1, 51);
        // Tag 1 is late, and it is the turn of tenant 1, whose late one is younger than tag 2.
        assert_eq!(drain(&mut queue, 60, Order::Arrival), [3, 1, 2]);
    }

    #[test]
    fn who_has_no_target_has_half_its_share_whoever_is_in_time() {
        let mut queue = queue(&[Some(1_000), None]);
        (0..64).for_each(|tag| push(&mut queue, tag, tag % 2, 0));
        let mut served = 0;
        for ms in 0..4_000 {
            let waiting = queue.pop(at_ms(ms), BY_DEADLINE).expect("something waits");
            served += waiting.tenant.0;
            push(&mut queue, waiting.tag, waiting.tenant.0, ms);
        }
        assert_eq!(served, 1_000);
    }

    #[test]
    fn by_arrival_a_flood_leaves_a_share_to_whoever_waited_for_a_second() {
        let mut queue = queue(&[None, None]);
        (0..5_000).for_each(|tag| push(&mut queue, tag, 0, 0));
        push(&mut queue, 9_000, 1, 1);
        let mut last = at_ms(0);
        let mut longest = Span::ZERO;
        for ms in 0..4_000 {
            let waiting = queue.pop(at_ms(ms), Order::Arrival).expect("something waits");
            if waiting.tenant == TenantId(1) {
                longest = longest.max(at_ms(ms).since(waiting.arrival));
                last = at_ms(ms);
                push(&mut queue, 9_000, 1, ms);
            }
        }
        assert!(longest <= Span::from_millis(1_010), "{longest}");
        assert!(last > at_ms(2_000), "it is served again and again");
    }
}
