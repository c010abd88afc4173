//! What one request of a tenant takes of each device, estimated from the requests that arrived.
//!
//! Source: Wang and Varman, FAST 2014, for counting over a window; the size of the window is this
//! project's.
//!
//! A hit ratio of 0.99 is settled by its misses: of a hundred requests one is a miss, and an
//! estimate from a hundred requests may be wrong by as much as it says. So the window is sized by
//! the **rarest** destination: it holds the last 200 to 400 requests to the device that the tenant
//! uses least, but not more than some 50,000 to 100,000 requests in all.
//!
//! ```text
//! hit ratio   window, requests     relative error of the rarer part
//!    0.5           400 to 800           3 to 5 %
//!    0.99       20,000 to 40,000        5 to 7 %
//!    0.999      50,000 to 100,000      10 to 14 %
//! ```
//!
//! No request is remembered. When the window is full all counts are halved, so that older requests
//! count for less and less. The ratios count at arrival: what is dispatched is the scheduler's own
//! doing and says nothing about what is asked for.
//!
//! An estimate begins with half a request on every device (the prior of Krichevsky and Trofimov),
//! so that the first request does not decide. A device that none of the last 10,000 requests met is
//! not needed at all. That lets the allocator give a tenant what is idle of the only device it
//! uses, and keeps the window of a tenant that uses two of three devices short.
//!
//! Mean costs and sizes, which everything follows at once, have windows of their own, of the last
//! 200 to 400 values.

use crate::share::DEVICES_MAX;
use crate::ticket::{Cost, Ticket};

/// Requests to the rarest device that the window keeps at least, once there were as many.
const EVENTS: u32 = 800;
/// Requests that the window keeps at least before it is cut for its length.
const WINDOW: u32 = 200_000;
/// Values that a mean keeps at least, once there were as many.
const VALUES: u32 = 200;
/// Requests after which a device that none of them met is not needed.
const UNMET: u32 = 10_000;
/// Requests to the rarest device from which on an estimate is good enough to tell a change by.
const EVENTS_TRUSTED: u32 = 30;

/// A mean over the last 200 to 400 values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    sum: u64,
    count: u32,
}

impl Mean {
    /// Takes in a value.
    pub(super) fn add(&mut self, value: u64) {
        self.sum = self.sum.saturating_add(value);
        self.count += 1;
        if self.count >= 2 * VALUES {
            self.sum /= 2;
            self.count /= 2;
        }
    }

    /// The mean, rounded down; none before the first value.
    pub(super) fn value(self) -> Option<u64> {
        self.sum.checked_div(u64::from(self.count))
    }
}

/// The estimate of one tenant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimate {
    /// Requests in the window, by device.
    counts: [u32; DEVICES_MAX],
    total: u32,
    /// Requests ever.
    seen: u64,
    /// How many these were when each device was last met.
    met_at: [u64; DEVICES_MAX],
    costs: [Mean; DEVICES_MAX],
    size_bytes: Mean,
}

impl Estimate {
    /// Takes in a request that arrived for one of `devices` devices.
    pub(super) fn note(&mut self, device: usize, devices: usize, ticket: &Ticket) {
        self.counts[device] += 1;
        self.total += 1;
        self.seen += 1;
        self.met_at[device] = self.seen;
        self.costs[device].add(ticket.cost.0);
        self.size_bytes.add(ticket.size_bytes);
        let is_full = self.counts[device] >= 2 * EVENTS && self.rarest(devices) >= 2 * EVENTS;
        if is_full || self.total >= 2 * WINDOW {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
    }

    /// Part of the requests that go to each device.
    pub(super) fn parts(&self, devices: usize) -> [f64; DEVICES_MAX] {
        let of = f64::from(self.total) + devices as f64 / 2.0;
        let mut parts = [0.0; DEVICES_MAX];
        for device in (0..devices).filter(|&device| self.needs(device)) {
            parts[device] = (f64::from(self.counts[device]) + 0.5) / of;
        }
        parts
    }

    /// Mean cost of the tenant's requests to a device; none before the first.
    pub(super) fn mean_cost(&self, device: usize) -> Option<Cost> {
        self.costs[device].value().map(|cost| Cost(cost.max(1)))
    }

    /// Mean size of the tenant's requests, at least 1.
    pub(super) fn mean_size_bytes(&self) -> u64 {
        self.size_bytes.value().unwrap_or(0).max(1)
    }

    /// Whether the parts are known well enough to notice that they no longer hold.
    pub(super) fn is_trusted(&self, devices: usize) -> bool {
        self.total >= UNMET || self.rarest(devices) >= EVENTS_TRUSTED
    }

    /// Forgets all requests but these, by device; mean costs and sizes stay.
    pub(super) fn cut_to(&mut self, counts: [u32; DEVICES_MAX]) {
        self.counts = counts;
        self.total = counts.iter().sum();
    }

    /// Requests in the window to the device that got fewest of those that are needed.
    fn rarest(&self, devices: usize) -> u32 {
        let needed = (0..devices).filter(|&device| self.needs(device));
        needed.map(|device| self.counts[device]).min().unwrap_or(0)
    }

    /// Whether the device was met lately, or too little was seen to tell.
    fn needs(&self, device: usize) -> bool {
        self.seen - self.met_at[device] < u64::from(UNMET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;
    use crate::sched::testing::ticket;

    /// An estimate after so many requests with this hit ratio, in thousandths, over two devices.
    fn after(requests: u32, hit_milli: u64) -> Estimate {
        let mut prng = Prng::new(7);
        let mut estimate = Estimate::default();
        for slot in 0..requests {
            let device = usize::from(prng.below(1000) < hit_milli);
            estimate.note(device, 2, &ticket(0, slot));
        }
        estimate
    }

    #[test]
    fn before_the_first_request_all_devices_are_alike() {
        assert_eq!(Estimate::default().parts(4)[..5], [0.25, 0.25, 0.25, 0.25, 0.0]);
    }

    #[test]
    fn the_window_is_sized_by_the_rarest_device() {
        assert!((1600..3200).contains(&after(50_000, 500).total));
        assert!((8000..16_000).contains(&after(50_000, 900).total));
        assert!((WINDOW..2 * WINDOW).contains(&after(450_000, 999).total));
        assert!((after(50_000, 900).parts(2)[0] - 0.1).abs() < 0.01);
    }

    #[test]
    fn a_device_that_ten_thousand_requests_did_not_meet_is_not_needed() {
        assert!(after(9_999, 1000).parts(2)[0] > 0.0);
        assert!(after(10_000, 1000).parts(2)[0] <= 0.0);
        assert!(after(70_000, 1000).parts(2)[0] <= 0.0);
        let mut prng = Prng::new(1);
        let mut estimate = Estimate::default();
        for slot in 0..20_000 {
            let device = usize::from(prng.below(2) < 1);
            estimate.note(device, 3, &ticket(0, slot));
        }
        assert!(estimate.parts(3)[2] <= 0.0);
        assert!(estimate.total < 4000, "the device that is not needed keeps no window long");
    }

    #[test]
    fn a_mean_follows_within_a_few_hundred_values() {
        let mut mean = Mean::default();
        assert_eq!(mean.value(), None);
        (0..1000).for_each(|_| mean.add(1_000));
        assert_eq!(mean.value(), Some(1_000));
        (0..2000).for_each(|_| mean.add(4_000));
        assert!(mean.value() > Some(3_900));
    }
}
