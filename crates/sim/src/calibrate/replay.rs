//! The points again, on a model: a closed load in virtual time.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::point::{Load, Point};
use crate::device::{Device, Op, Step};

/// Requests that are measured, and a tenth of it before them that are not.
const REQUESTS: u64 = 4_000;

/// Measures what a device does under the load of `asked`, whose results are ignored.
pub(super) fn measure(device: &mut dyn Device, asked: &Point) -> Point {
    let mut now = Nanos::ZERO;
    let mut started = vec![Nanos::ZERO; asked.depth as usize];
    let mut latencies = Vec::new();
    let ramp = REQUESTS / 10 + 2 * u64::from(asked.depth);
    let (mut count, mut ended, mut measured_from) = (0, 0, Nanos::ZERO);
    let mut send = |device: &mut dyn Device, now, tag| {
        let kind = match asked.load {
            Load::Read => Kind::Read,
            Load::Mixed if count % 2 == 0 => Kind::Read,
            Load::Write | Load::Mixed => Kind::Write,
        };
        // Any stride that visits far places does: what is measured has no place.
        let places = (device.size_bytes() / asked.size_bytes).max(1);
        let offset = (count * 7919 % places) * asked.size_bytes;
        count += 1;
        device.submit(now, Op { tag, kind, offset, length: asked.size_bytes });
    };
    for tag in 0..asked.depth {
        send(device, now, tag);
    }
    while ended < ramp + REQUESTS {
        match device.poll(now) {
            Step::Done { tag, .. } => {
                ended += 1;
                if ended == ramp {
                    measured_from = now;
                } else if ended > ramp {
                    latencies.push(now.since(started[tag as usize]));
                }
                started[tag as usize] = now;
                send(device, now, tag);
            }
            Step::WaitUntil(at) => now = at,
            Step::Idle => unreachable!("a device keeps no request for ever"),
        }
    }
    latencies.sort_unstable();
    let sum: u64 = latencies.iter().map(|latency| latency.0).sum();
    let seconds = now.since(measured_from).as_secs_f64().max(1e-9);
    Point {
        iops: REQUESTS as f64 / seconds,
        mean: Span(sum / REQUESTS),
        p99: latencies[latencies.len() * 99 / 100],
        ..*asked
    }
}
