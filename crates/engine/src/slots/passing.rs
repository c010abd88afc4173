//! Flows that pass each other, as those of one device do.
//!
//! ```text
//! latency    X 180 ms   Y  18 ms     X is slow: on a device of its own that is slower,
//!                                    or since the device that both share serves Y first?
//!            X   9 ms   Y 160 ms     later: the device is shared, and X is no slower
//! ```
//!
//! Whoever was slow lately is held to its part, which takes from it what it should have of a shared
//! device. So that is forgotten once the flow beside which it was slow is slow beside it. That flow
//! must take twice as long as it did, and twice as long for the number of its own requests: one
//! that asks for more of a device that serves one after another waits for itself, and one whose
//! device serves all at once does not become quicker by asking for less.

use evenkeel_core::id::TenantId;
use evenkeel_core::time::Nanos;

use super::Slots;
use super::flow::Flow;
use super::pace::{Pace, Quickest};

/// A flow takes longer than it did if it takes so many times as long.
const LONGER: u64 = 2;

/// The flow beside which another was slow, as it was then.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassedBy {
    index: usize,
    tenant: TenantId,
    disk: u64,
    pace: Pace,
}

impl PassedBy {
    pub(super) fn new(index: usize, flow: &Flow) -> Self {
        Self { index, tenant: flow.tenant, disk: flow.disk, pace: flow.pace }
    }
}

impl Slots {
    /// Forgets that a flow was slow beside one that is slow beside it now.
    pub(super) fn forgive_passed(&mut self, now: Nanos, index: usize) {
        let flow = &self.flows[index];
        let Some(before) = flow.passed_by.filter(|_| now < flow.slow_until) else { return };
        let own = Quickest::NONE.and(index, &flow.pace_at(now));
        let other = &self.flows[before.index];
        let is_same = (other.tenant, other.disk) == (before.tenant, before.disk);
        let pace = other.pace_at(now);
        let takes_longer = pace.is_slower_than(&before.pace, LONGER);
        if is_same && takes_longer && pace.is_slow_beside(own, self.queue) {
            let flow = &mut self.flows[index];
            (flow.slow_until, flow.passed_by) = (Nanos::ZERO, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::sched::Share;
    use evenkeel_core::ticket::{Cost, Kind, Ticket};
    use evenkeel_core::time::Span;

    use super::super::Device;
    use super::*;
    use crate::policy::Depth;

    /// Two tenants at a disk each, who have one request in service at a time.
    struct World {
        slots: Slots,
        now: Nanos,
    }

    impl World {
        fn new() -> Self {
            let mut slots = Slots::new(Nanos::ZERO, Depth::Requests(8));
            (0..2).for_each(|tenant| slots.configure(TenantId(tenant), &Share::default()));
            Self { slots, now: Nanos::ZERO }
        }

        /// Each has so many requests in service, that take so many milliseconds each.
        fn serve(&mut self, counts: [u32; 2], millis: [u64; 2]) {
            for _ in 0..64 {
                for (tenant, count) in (0..).zip(counts) {
                    let latency = Span::from_millis(millis[tenant as usize]);
                    let tickets = (0..count).map(|slot| ticket(tenant, 100 * tenant + slot));
                    for ticket in tickets.clone() {
                        let is_parked = self.slots.parks(self.now, ticket, tenant.into());
                        assert!(!is_parked || self.slots.withdraw(&ticket));
                        if !is_parked {
                            self.slots.dispatched(&ticket);
                        }
                    }
                    self.now += Span::from_millis(1);
                    for ticket in tickets {
                        self.slots.served(self.now, &ticket, latency);
                    }
                }
                self.slots.divide(self.now, 8, Device::default());
            }
        }

        fn held(&self) -> [bool; 2] {
            [0, 1].map(|tenant| self.slots.holds(TenantId(tenant)))
        }
    }

    fn ticket(tenant: u32, slot: u32) -> Ticket {
        let (tenant, kind) = (TenantId(tenant), Kind::Read);
        Ticket { tenant, kind, slot, size_bytes: 4096, cost: Cost(1), cost_elsewhere: Cost(0) }
    }

    #[test]
    fn of_two_that_pass_each_other_one_at_most_is_held() {
        let mut world = World::new();
        world.serve([1, 1], [180, 18]);
        assert_eq!(world.held(), [true, false]);
        world.serve([1, 1], [18, 18]);
        assert_eq!(world.held(), [true, false], "it was slow lately");
        world.serve([1, 1], [9, 160]);
        assert_eq!(world.held(), [false, true]);
    }

    #[test]
    fn who_is_slow_by_itself_forgives_nobody() {
        let mut world = World::new();
        world.serve([1, 1], [500, 2]);
        assert_eq!(world.held(), [true, false]);
        // The neighbour is as it was, and the slow one quicker than that for now.
        world.serve([1, 1], [0, 2]);
        assert!(world.held()[0]);
    }
}
