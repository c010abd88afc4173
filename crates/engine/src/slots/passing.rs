//! Flows that pass each other, as those of one device do.
//!
//! ```text
//! latency    X 180 ms   Y  18 ms     X is slow: on a device of its own that is slower,
//!                                    or since the device that both share serves Y first?
//!            X   9 ms   Y 160 ms     later: the device is shared, and X is no slower
//! ```
//!
//! A flow that was slow is held to its part for a while, which on a shared device takes from it
//! what its share should bring. So that ends once the flow it was compared with is slow beside it.
//!
//! A flow can also become slower by its own doing. If its device serves one request after another,
//! latency grows with its own requests in service; if all at once, latency stays, and latency per
//! request grows as it sends less. So both must have doubled.

use evenkeel_core::id::TenantId;
use evenkeel_core::time::Nanos;

use super::Slots;
use super::flow::Flow;
use super::pace::{Pace, Quickest};
use super::slot_time::SlotTime;

/// A flow has become slower if it takes so many times as long.
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
    /// The quickest flow, if this one is slow beside it by the latest answers.
    pub(super) fn passed_by(&self, now: Nanos, index: usize) -> Option<PassedBy> {
        let is_slow = self.is_slow_lately(now, &self.flows[index]);
        let quickest = self.quickest.index().filter(|_| is_slow);
        quickest.map(|other| PassedBy::new(other, &self.flows[other]))
    }

    /// No longer holds a flow that was slow beside one that is slow beside it now.
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
            flow.slot_time = SlotTime::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::sched::Share;
    use evenkeel_core::time::Span;

    use super::super::Device;
    use super::super::tests::ticket;
    use super::*;
    use crate::policy::Depth;

    /// Two tenants at a disk each.
    struct World {
        slots: Slots,
        device: Device,
        now: Nanos,
    }

    impl World {
        fn new() -> Self {
            let mut slots = Slots::new(Nanos::ZERO, Depth::Requests(8));
            (0..2).for_each(|tenant| slots.configure(TenantId(tenant), &Share::default()));
            Self { slots, device: Device::default(), now: Nanos::ZERO }
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
                self.slots.divide(self.now, 8, self.device);
            }
        }

        fn held(&self) -> [bool; 2] {
            [0, 1].map(|tenant| self.slots.holds(TenantId(tenant)))
        }
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

    #[test]
    fn on_one_device_nobody_is_held_for_being_slow() {
        let mut world = World::new();
        world.serve([1, 1], [180, 2]);
        assert_eq!(world.held(), [true, false]);
        world.device.is_shared = true;
        world.serve([1, 1], [180, 2]);
        assert_eq!(world.held(), [false, false]);
        world.serve([1, 1], [18, 18]);
        world.device.is_shared = false;
        world.serve([1, 1], [18, 18]);
        assert_eq!(world.held(), [false, false], "what was slow there is forgotten");
        world.serve([1, 1], [180, 2]);
        assert_eq!(world.held(), [true, false]);
    }

    #[test]
    fn whose_turn_it_is_is_held_to_nothing_meanwhile() {
        let mut world = World::new();
        world.serve([1, 1], [180, 2]);
        world.device.turn = Some(TenantId(0));
        world.slots.divide(world.now, 8, world.device);
        assert_eq!(world.held(), [false, false]);
        world.device.turn = None;
        world.slots.divide(world.now, 8, world.device);
        assert_eq!(world.held(), [true, false]);
    }
}
