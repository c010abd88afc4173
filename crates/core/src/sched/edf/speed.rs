//! How much device time a device gets through per unit of time.
//!
//! Costs say what a request takes from a device; a device that serves many at once gets through
//! several seconds of cost per second. Only periods in which the depth was full tell how many:
//! a device with room left is as fast as what is asked of it.

use crate::ticket::Cost;
use crate::time::{Nanos, Span};

/// One unit of cost per unit of time.
const ONE: u64 = 1024;
/// Completions that a sample is made of.
const SAMPLE: u64 = 16;
/// Most that is believed.
const MAX: u64 = 4096 * ONE;

/// An estimate of a device's speed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// Cost per time, in 1/1024.
    scaled: u64,
    /// Since when the depth was full, and what completed in that time.
    since: Option<Nanos>,
    completed: u64,
    cost_ns: u64,
}

impl Speed {
    /// A first guess: `parallel` requests at once, each at speed one.
    pub(super) fn new(parallel: u64) -> Self {
        let scaled = parallel.saturating_mul(ONE).clamp(ONE, MAX);
        Self { scaled, since: None, completed: 0, cost_ns: 0 }
    }

    /// How long a cost takes.
    pub(super) fn time(self, cost: Cost) -> Span {
        let time_ns = u128::from(cost.0) * u128::from(ONE) / u128::from(self.scaled);
        Span(u64::try_from(time_ns).unwrap_or(u64::MAX))
    }

    /// Something waits because the depth is full.
    pub(super) fn note_full(&mut self, now: Nanos) {
        self.since.get_or_insert(now);
    }

    /// There is room in the depth and nothing to fill it.
    pub(super) fn note_room(&mut self) {
        self.since = None;
    }

    /// The device finished something.
    pub(super) fn note_done(&mut self, now: Nanos, cost: Cost) {
        let Some(since) = self.since else {
            (self.completed, self.cost_ns) = (0, 0);
            return;
        };
        self.completed += 1;
        self.cost_ns = self.cost_ns.saturating_add(cost.0);
        let elapsed_ns = now.since(since).0;
        if self.completed < SAMPLE || elapsed_ns == 0 {
            return;
        }
        let sample = u128::from(self.cost_ns) * u128::from(ONE) / u128::from(elapsed_ns);
        let sample = u64::try_from(sample).unwrap_or(MAX).clamp(1, MAX);
        self.scaled = (self.scaled * 3 + sample) / 4;
        (self.since, self.completed, self.cost_ns) = (Some(now), 0, 0);
    }
}
