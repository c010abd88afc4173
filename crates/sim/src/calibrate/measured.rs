//! A device known by measurement alone: parallel servers behind a gate.
//!
//! ```text
//!            k servers, in order of arrival
//!           +---------------------------------------+
//! submit -->| gate: fixed + bytes / rate, one after | --> done
//!   queue   | the other | rest of the service time  |
//!           +---------------------------------------+
//! ```
//!
//! A lone request takes its service time, `fixed + bytes / rate` on average. Under load the gate
//! passes one request after the other, which bounds the throughput whatever the depth; the servers
//! bound how many requests are at work. Reads and writes have gates of their own or share one.
//!
//! The part of the service time behind the gate varies: it is the sum of a constant and an
//! exponential whose weight gives the measured 99th percentile (at most 4.6 times the mean), or,
//! for longer tails, a constant with one request in fifty slow.

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use serde::{Deserialize, Serialize};

use super::model::SizeLine;
use crate::device::servers::Servers;
use crate::device::{Device, Op, Step};

/// The 99th percentile of the exponential distribution over its mean: `ln 100`.
const EXPONENTIAL_P99: f64 = 4.605_170_185_988_092;

/// Requests in a hundred that are slow where the tail is long.
const SLOW_PERCENT: u64 = 2;

/// One direction of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// The mean latency of a lone request.
    pub service: SizeLine,
    /// The time for which a request keeps others of its direction from starting.
    pub gate: SizeLine,
    /// By how much the 99th percentile of a lone request exceeds its mean.
    pub p99_excess_ns: u64,
}

/// The model in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredSpec {
    /// How many bytes it holds.
    pub size_bytes: u64,
    /// Requests at work at once; at least 1.
    pub servers: u32,
    /// Whether reads and writes pass the same gate.
    pub is_gate_shared: bool,
    /// Time of a flush.
    pub flush_ns: u64,
    /// Reads.
    pub read: Direction,
    /// Writes, trims and writes of zeroes.
    pub write: Direction,
}

impl MeasuredSpec {
    /// Each request takes so many times as long.
    pub(crate) fn slow_down(&mut self, times: f64) {
        for direction in [&mut self.read, &mut self.write] {
            direction.service.slow_down(times);
            direction.gate.slow_down(times);
        }
    }
}

/// A backend as it was measured, as a device.
#[derive(Clone, Debug)]
pub struct Measured {
    spec: MeasuredSpec,
    servers: Servers,
    gates_free_at: [Nanos; 2],
    prng: Prng,
}

impl Measured {
    /// An idle device; the seed determines which requests are slow.
    pub fn new(spec: MeasuredSpec, seed: u64) -> Self {
        assert!(spec.servers > 0, "reading a model refuses a device without servers");
        Self {
            servers: Servers::new(spec.servers),
            gates_free_at: [Nanos::ZERO; 2],
            prng: Prng::new(seed),
            spec,
        }
    }

    fn start(&mut self, now: Nanos, op: &Op) {
        let (direction, gate, bytes) = match op.kind {
            Kind::Read => (self.spec.read, 0, op.length),
            Kind::Cache => (self.spec.read, 0, 0),
            Kind::Write => (self.spec.write, 1, op.length),
            // They carry no bytes, and nobody measured what their range costs.
            Kind::Trim | Kind::WriteZeroes => (self.spec.write, 1, 0),
            Kind::Flush => {
                return self.servers.begin(op.tag, now + Span(self.spec.flush_ns));
            }
        };
        let gate = if self.spec.is_gate_shared { 0 } else { gate };
        let held = direction.gate.at(bytes);
        let passed = self.gates_free_at[gate].max(now) + held;
        self.gates_free_at[gate] = passed;
        let rest = Span(direction.service.at(bytes).0.saturating_sub(held.0));
        let rest = varied(rest, direction.p99_excess_ns, &mut self.prng);
        self.servers.begin(op.tag, passed + rest);
    }
}

/// A duration of this mean whose 99th percentile lies by `p99_excess_ns` above it.
fn varied(mean: Span, p99_excess_ns: u64, prng: &mut Prng) -> Span {
    if mean.0 == 0 || p99_excess_ns == 0 {
        return mean;
    }
    let excess = p99_excess_ns as f64 / mean.0 as f64;
    // Constant 1 - c and exponential c: the 99th percentile is 1 + c (ln 100 - 1).
    let weight = excess / (EXPONENTIAL_P99 - 1.0);
    if weight <= 1.0 {
        let random = scaled(mean, weight);
        return Span(mean.0 - random.0) + prng.exponential(random);
    }
    // Two in a hundred are exponential with a mean such that half of them lie above the percentile.
    // Further out than 30 times the mean the constant part would be too small to matter.
    let slow_mean = (1.0 + excess).min(30.0) / std::f64::consts::LN_2;
    let slow = SLOW_PERCENT as f64 / 100.0;
    if prng.below(100) < SLOW_PERCENT {
        prng.exponential(scaled(mean, slow_mean))
    } else {
        scaled(mean, (1.0 - slow * slow_mean) / (1.0 - slow))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; saturates")]
fn scaled(span: Span, factor: f64) -> Span {
    Span((span.0 as f64 * factor).round() as u64)
}

impl Device for Measured {
    fn submit(&mut self, now: Nanos, op: Op) {
        if let Some(op) = self.servers.submit(op) {
            self.start(now, &op);
        }
    }

    fn poll(&mut self, now: Nanos) -> Step {
        let (step, next) = self.servers.poll(now);
        if let Some((at, op)) = next {
            self.start(at, &op);
        }
        step
    }

    fn size_bytes(&self) -> u64 {
        self.spec.size_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varied_duration_keeps_its_mean_and_meets_its_percentile() {
        for (mean, excess) in [(1_000_000, 500_000), (1_000_000, 3_000_000), (50_000, 900_000)] {
            let mut prng = Prng::new(1);
            let mut draws: Vec<u64> =
                (0..800_000).map(|_| varied(Span(mean), excess, &mut prng).0).collect();
            draws.sort_unstable();
            let average = draws.iter().sum::<u64>() as f64 / 800_000.0;
            assert!((average / mean as f64 - 1.0).abs() < 0.02, "{average} of {mean}");
            let p99 = draws[792_000] as f64;
            assert!((p99 / (mean + excess) as f64 - 1.0).abs() < 0.08, "{p99} of {mean}+{excess}");
        }
        assert_eq!(varied(Span(7), 0, &mut Prng::new(1)), Span(7));
    }
}
