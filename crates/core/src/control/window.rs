//! Request windows, RW(D): each host may have its share of D requests at the device, always.
//!
//! `W = floor(D phi / sum phi)`, and at least one. Nothing is measured and nothing exchanged. It is
//! not work-conserving: a host that has more to do than its window waits while others' windows
//! stand empty. Backlogged hosts get throughput `W / L` each, so that shares hold as far as all see
//! the same latency.
//!
//! Source: Jin, Chase and Kaur, "Interposed proportional sharing for a storage service utility",
//! SIGMETRICS 2004, section 4.

use super::order::Order;
use super::{Controller, Decision, View};
use crate::time::Span;

/// A fixed window. See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestWindow {
    depth: u32,
    slots: u32,
}

impl RequestWindow {
    /// The window of weight `weight` of `weights` in all, with `depth` requests for all together.
    pub fn new(depth: u32, weight: u32, weights: u32) -> Self {
        assert!(0 < weight && weight <= weights, "a weight of {weight} in {weights}");
        let slots = u64::from(depth) * u64::from(weight) / u64::from(weights);
        let slots = u32::try_from(slots).expect("at most the depth").max(1);
        Self { depth, slots }
    }

    /// Its requests at the device, at most.
    pub fn slots(&self) -> u32 {
        self.slots
    }
}

impl Controller for RequestWindow {
    /// Any would do.
    fn period(&self) -> Span {
        Span::from_secs(1)
    }

    fn step(&mut self, _view: &View<'_>) -> Decision {
        let Self { depth, slots } = *self;
        Decision {
            slots,
            order: Order::Arrival,
            slots_all: depth,
            unmet: Vec::new(),
            division: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_the_floors_of_their_parts() {
        let slots = |weight| RequestWindow::new(320, weight, 10_000).slots;
        assert_eq!([3000, 2000, 999, 1].map(slots), [96, 64, 31, 1]);
    }
}
