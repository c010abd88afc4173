//! What one tenant's requests take beside those of others of the same direction and size.
//!
//! A tenant that reads at random from a disk, or whose exports lie on the slow part of a device,
//! has a factor on the backend's line. It counts for as much as it was seen: as if besides some
//! requests had fitted the line.

use evenkeel_core::float::{exponential, natural_log};
use evenkeel_core::time::Span;

use super::FREE;
use super::fit::Slope;

/// So many requests speak for the line.
const DOUBT_REQUESTS: f64 = 30.0;

/// What requests were given, as sums that any line can be held against.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Requests and bytes, by direction.
    requests: [f64; 2],
    bytes: [f64; 2],
    time_ns: f64,
}

impl Sums {
    pub(super) fn add(&mut self, direction: usize, size_bytes: f64, time_ns: f64) {
        self.requests[direction] += 1.0;
        self.bytes[direction] += size_bytes;
        self.time_ns += time_ns;
    }

    /// What they were given.
    pub(super) fn time_ns(&self) -> f64 {
        self.time_ns
    }

    /// What they take by these lines.
    pub(super) fn expected_ns(&self, lines: &[Slope; 2]) -> f64 {
        let of = |one: usize| {
            self.requests[one] * lines[one].fixed_ns + self.bytes[one] * lines[one].byte_ns
        };
        of(0) + of(1)
    }

    pub(super) fn merge(&mut self, other: &Self, unit: f64) {
        for direction in 0..2 {
            self.requests[direction] += other.requests[direction];
            self.bytes[direction] += other.bytes[direction];
        }
        self.time_ns += other.time_ns / unit;
    }

    pub(super) fn fade(&mut self, keep: f64) {
        self.requests.iter_mut().for_each(|one| *one *= keep);
        self.bytes.iter_mut().for_each(|one| *one *= keep);
        self.time_ns *= keep;
    }
}

/// What is known of a tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tenant {
    /// Of this epoch.
    pub(super) epoch: Sums,
    /// Of all before, in the unit of the lines.
    pub(super) all: Sums,
    /// What was learned from while it had a part.
    pub(super) seen: Span,
    log: f64,
    factor: f64,
}

impl Default for Tenant {
    fn default() -> Self {
        Self {
            epoch: Sums::default(),
            all: Sums::default(),
            seen: Span::ZERO,
            log: 0.0,
            factor: 1.0,
        }
    }
}

impl Tenant {
    /// How many times as long as by the line.
    pub(super) fn factor(&self) -> f64 {
        self.factor
    }

    /// Whether little was seen of it yet.
    pub(super) fn is_new(&self) -> bool {
        self.seen < FREE
    }

    /// How far its factor may move where those of others may move so far.
    pub(super) fn step(&self, step: f64) -> f64 {
        if self.is_new() { f64::INFINITY } else { step }
    }

    /// The epoch ends and counts; of what was before this part is kept.
    pub(super) fn merge(&mut self, unit: f64, keep: f64) {
        let epoch = std::mem::take(&mut self.epoch);
        self.all.fade(keep);
        self.all.merge(&epoch, unit);
    }

    /// The factor goes towards what was seen, by this logarithm at most. All tenants together were
    /// given `unit` times what the lines say.
    pub(super) fn weigh(&mut self, lines: &[Slope; 2], unit: f64, step: f64) {
        let requests: f64 = self.all.requests.iter().sum();
        let expected_ns = self.all.expected_ns(lines);
        if requests < 1.0 || expected_ns <= 0.0 {
            return;
        }
        let doubt_ns = expected_ns / requests * DOUBT_REQUESTS;
        let seen = natural_log((self.all.time_ns / unit + doubt_ns) / (expected_ns + doubt_ns));
        self.go_towards(seen, step);
    }

    /// The same where this is known to be how many times as long as by the lines.
    pub(super) fn weigh_known(&mut self, times: f64, step: f64) {
        self.go_towards(natural_log(times), step);
    }

    fn go_towards(&mut self, log: f64, step: f64) {
        self.log += (log - self.log).clamp(-step, step);
        self.factor = exponential(self.log);
    }
}
