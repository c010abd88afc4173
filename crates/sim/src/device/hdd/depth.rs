//! Throughput and latency of a device against the number of requests under way.
//!
//! A closed loop: each of N clients sends its next request, to a place drawn at random, the moment
//! the one before is done. By Little's law N = throughput x mean latency, so either curve says how
//! much a queue policy makes of a deeper queue.

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use crate::device::{Device, Op, Step};

/// A closed loop of equal clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedLoop {
    /// Requests under way.
    pub clients: u32,
    /// Bytes of each, at most the device's.
    pub request_bytes: u64,
    /// How many of a hundred are reads.
    pub read_percent: u64,
    /// Offsets are multiples of this.
    pub align_bytes: u64,
    /// Requests to complete, at least one.
    pub requests: u64,
    /// The seed of places and kinds.
    pub seed: u64,
}

/// What came of a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throughput {
    /// Requests completed.
    pub requests: u64,
    /// Time from the first request to the last completion.
    pub elapsed: Span,
    /// The mean from request to completion.
    pub latency: Span,
}

impl Throughput {
    /// Requests per second.
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }
}

impl ClosedLoop {
    /// Runs the loop on a device at rest, from time zero.
    pub fn run(&self, device: &mut impl Device) -> Throughput {
        let mut prng = Prng::new(self.seed);
        let places = (device.size_bytes() - self.request_bytes) / self.align_bytes + 1;
        let mut request = |tag| Op {
            tag,
            kind: if prng.below(100) < self.read_percent { Kind::Read } else { Kind::Write },
            offset: prng.below(places) * self.align_bytes,
            length: self.request_bytes,
        };
        let mut now = Nanos::ZERO;
        let mut sent = vec![now; self.clients as usize];
        for tag in 0..self.clients {
            device.submit(now, request(tag));
        }
        let (mut done, mut waited_ns) = (0, 0u128);
        while done < self.requests {
            match device.poll(now) {
                Step::Done { tag, .. } => {
                    done += 1;
                    let sent = &mut sent[tag as usize];
                    waited_ns += u128::from(now.since(*sent).0);
                    *sent = now;
                    device.submit(now, request(tag));
                }
                Step::WaitUntil(next) => now = next,
                Step::Idle => unreachable!("every client has a request under way"),
            }
        }
        let latency = waited_ns / u128::from(done);
        let latency = Span(u64::try_from(latency).expect("below the time that passed"));
        Throughput { requests: done, elapsed: now.since(Nanos::ZERO), latency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::hdd::{Hdd, Parameters, Policy};

    fn run(policy: Policy, clients: u32) -> Throughput {
        let mut drive = Hdd::new(&Parameters::built_in("cheetah-9lp").unwrap(), policy);
        ClosedLoop {
            clients,
            request_bytes: 4096,
            read_percent: 50,
            align_bytes: 4096,
            requests: 2_000,
            seed: 5,
        }
        .run(&mut drive)
    }

    #[test]
    fn littles_law_holds() {
        for clients in [1, 7, 40] {
            let throughput = run(Policy::Sstf, clients);
            let under_way = throughput.per_second() * throughput.latency.as_secs_f64();
            let share = under_way / f64::from(clients);
            assert!((0.97..=1.0).contains(&share), "{clients}: {under_way}");
        }
    }

    #[test]
    fn a_better_policy_makes_more_of_a_deep_queue() {
        let policies = [Policy::Fcfs, Policy::Sstf, Policy::Sptf];
        let [oldest, nearest, soonest] = policies.map(|policy| run(policy, 40).per_second());
        assert!(oldest * 1.3 < nearest && nearest * 1.1 < soonest, "{oldest} {nearest} {soonest}");
    }

    #[test]
    fn a_loop_runs_the_same_way_twice() {
        assert_eq!(run(Policy::Sptf, 20), run(Policy::Sptf, 20));
    }
}
