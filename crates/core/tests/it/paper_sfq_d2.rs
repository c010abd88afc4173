//! Claims on the adaptive depth: SFQ(D2) in IBIS, HPDC 2016.
//!
//! The device serves its requests by processor sharing: latency grows with what is in service.

use std::collections::BTreeMap;

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::Scheduler;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::sched::sfq::{Sfq, SfqOptions};
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::{Nanos, Span};

use crate::support::{dispatch_all, share, ticket};

const GOAL: Span = Span::from_millis(20);

/// A device that finishes one request per millisecond, in order; so latency in milliseconds equals
/// the number in service.
struct Device {
    sfq: Sfq,
    clock: Nanos,
    in_service: BTreeMap<u64, (Nanos, Ticket)>,
    arrivals: u64,
    latencies: Vec<Span>,
    served: [u64; 2],
}

impl Device {
    fn new(depth: DepthPolicy) -> Self {
        let mut sfq = Sfq::new(SfqOptions { depth, hold: Span::ZERO });
        sfq.configure(Nanos(0), TenantId(0), share(4));
        sfq.configure(Nanos(0), TenantId(1), share(1));
        let (clock, in_service) = (Nanos(0), BTreeMap::new());
        Self { sfq, clock, in_service, arrivals: 0, latencies: Vec::new(), served: [0; 2] }
    }

    fn run(&mut self, seconds: u64) {
        self.latencies.clear();
        for _ in 0..seconds * 1000 {
            for ticket in dispatch_all(&mut self.sfq, self.clock) {
                self.in_service.insert(self.arrivals, (self.clock, ticket));
                self.arrivals += 1;
            }
            self.clock += Span::from_millis(1);
            let Some((_, (since, done))) = self.in_service.pop_first() else { continue };
            self.latencies.push(self.clock.since(since));
            self.served[done.tenant.index()] += 1;
            self.sfq.complete(self.clock, done);
            self.sfq.enqueue(self.clock, done);
        }
    }

    fn latency_mean(&self) -> Span {
        let sum: u64 = self.latencies.iter().map(|latency| latency.0).sum();
        Span(sum / self.latencies.len() as u64)
    }
}

fn adaptive() -> DepthPolicy {
    DepthPolicy::Adaptive { min: 1, max: 128, read_goal: GOAL, write_goal: GOAL }
}

fn backlogged(mut device: Device) -> Device {
    for slot in 0..200 {
        device.sfq.enqueue(Nanos(0), ticket(slot % 2, u32::try_from(slot).unwrap(), 1_000_000));
    }
    device
}

#[test]
fn the_depth_brings_latency_to_its_goal() {
    let mut device = backlogged(Device::new(adaptive()));
    device.run(10);
    device.run(10);
    let latency = device.latency_mean();
    assert!((GOAL.0 * 9 / 10..=GOAL.0 * 11 / 10).contains(&latency.0), "{latency}");
    assert!((18..=22).contains(&device.sfq.depth_now()), "{}", device.sfq.depth_now());
}

#[test]
fn shares_hold_better_than_at_a_depth_that_swallows_the_backlog() {
    let ratio = |policy| {
        let mut device = backlogged(Device::new(policy));
        device.run(10);
        device.served = [0; 2];
        device.run(20);
        device.served[0] as f64 / device.served[1] as f64
    };
    let [steered, fixed] = [ratio(adaptive()), ratio(DepthPolicy::Requests(160))];
    assert!((steered / 4.0 - 1.0).abs() < 0.02, "{steered}");
    assert!(fixed < 2.0, "100 of 160 in service is all that the heavy tenant has: {fixed}");
}

#[test]
fn an_idle_device_does_not_open_the_depth() {
    let mut device = backlogged(Device::new(adaptive()));
    device.run(10);
    let settled = device.sfq.depth_now();
    // All clients but one leave: latency is far below the goal, but nobody waits for the depth.
    device.sfq.drain();
    (0..device.in_service.len()).for_each(|_| {
        let (_, (_, done)) = device.in_service.pop_first().expect("counted");
        device.sfq.complete(device.clock, done);
    });
    device.sfq.enqueue(device.clock, ticket(0, 0, 1_000_000));
    device.run(10);
    assert!(device.latency_mean() <= Span::from_millis(1));
    assert!(device.sfq.depth_now() <= settled, "{} after {settled}", device.sfq.depth_now());
}
