//! Driving a device in tests.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::{Device, Op, Step};

/// A read at offset 0.
pub(crate) fn read(tag: u32, length: u64) -> Op {
    Op { tag, kind: Kind::Read, offset: 0, length }
}

/// Submits requests at their instants (in order) and drives the device until it rests; tells when
/// each was done.
pub(crate) fn run(device: &mut impl Device, arrivals: &[(u64, Op)]) -> Vec<(u64, u32)> {
    let mut arrivals = arrivals.iter().peekable();
    let mut done = Vec::new();
    let mut now = Nanos::ZERO;
    loop {
        while let Some((_, op)) = arrivals.next_if(|(at, _)| *at <= now.0) {
            device.submit(now, *op);
        }
        let next_arrival = arrivals.peek().map(|(at, _)| Nanos(*at));
        now = match (device.poll(now), next_arrival) {
            (Step::Done { tag, .. }, _) => {
                done.push((now.0, tag));
                now
            }
            (Step::WaitUntil(at), Some(arrival)) => at.min(arrival),
            (Step::WaitUntil(at), None) => at,
            (Step::Idle, Some(arrival)) => arrival,
            (Step::Idle, None) => return done,
        };
    }
}
