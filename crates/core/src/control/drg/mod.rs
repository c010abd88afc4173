//! DRG: slots for each flow by what it needs to meet its target, from a prediction one window
//! ahead.
//!
//! Source: Liu, Xu and Yang, "A Decentralized Resource Allocation Approach for Response-time
//! Guarantees in Storage System", 2011, sections 4.1 to 4.3. The device is held at a latency
//! threshold by a law like that of FAST TCP (4.2). With the arrival rate of the last window the
//! queue of the next is a line (4.3), its mean follows (4.4), and by Little's law the time that
//! requests wait (4.5, 4.6). Response time is that plus the threshold (4.7). Slots are then
//! divided so that as few flows as possible miss their targets.
//!
//! # From a target to a need
//!
//! Let B be what the target r leaves for waiting beside the threshold l, q the queue and D its
//! summed age at the end of the last window, w the window, x the arrival and m the service rate:
//!
//! ```text
//!   mean queue   q + (x - m) w/2               (4.3 with its sign turned, 4.4)
//!   wait         (mean queue + D/w) / x <= B   (4.6 with D over w as a queue length)
//!   so           m >= x + 2/w (q + D/w - x B)
//!   slots        n = m l                       by Little's law
//! ```
//!
//! # What had to be mended to run it at all
//!
//! - (4.3) grows with service and shrinks with arrivals: the sign is turned.
//! - (4.6) adds seconds over seconds to seconds: `d0/w` is read as a mean queue length.
//! - The threshold l is never defined: four fifths of the strictest target, which gives the paper's
//!   own 200 ms at 250 ms.
//! - The division by "Lagrange multipliers" over a count of violations, a step function, is not
//!   defined. Serving flows in the order of growing need maximises how many are served; what is
//!   over goes to all in proportion to their needs.
//!
//! [`literal`] mends no more than that. [`repaired`] mends what else is wrong; see there.

pub mod literal;
pub mod repaired;

pub use literal::DrgLiteral;
pub use repaired::{Borrowing, Drg};

use super::View;
use super::summary::{FlowId, FlowSummary};
use crate::time::Span;

/// The window, in which everything is measured and predicted.
const WINDOW: Span = Span::from_secs(1);

/// The part of the strictest target that the device may take.
const THRESHOLD_PART: f64 = 0.8;

/// r of (4.2): how far a step goes.
const GAIN: f64 = 0.8;

/// Bounds of the slots of all hosts together, and what to begin with.
const SLOTS_MIN: f64 = 32.0;
const SLOTS_MAX: f64 = 640.0;
const SLOTS_FIRST: f64 = 320.0;

/// What every flow has at least, in slots, while there are enough.
const FLOOR: f64 = 8.0;

/// Slots that a flow needs, and what they are to do.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Need {
    id: FlowId,
    slots: f64,
}

/// The strictest latency that the device may have, in seconds, of flows with a target.
fn threshold_s(view: &View<'_>) -> Option<f64> {
    let bounds = view.flows().filter_map(|(_, flow)| flow.target);
    let strictest = bounds.map(|target| target.device_latency_max_s()).reduce(f64::min)?;
    Some(THRESHOLD_PART * strictest)
}

/// The slots with which a flow may wait `budget_s` on average, see the [module](self).
fn need(id: FlowId, flow: &FlowSummary, budget_s: f64, threshold_s: f64) -> Need {
    let window_s = WINDOW.as_secs_f64();
    let arrivals = f64::from(flow.arrivals.max(1)) / window_s;
    let aged = f64::from(flow.queued) + flow.queued_age.as_secs_f64() / window_s;
    let service = arrivals + 2.0 / window_s * (aged - arrivals * budget_s);
    Need { id, slots: (service * threshold_s).max(1.0) }
}

/// Divides `slots` so that as many needs as possible are met: by growing need above a floor, and
/// what is over in proportion to the needs.
fn divide(slots: f64, needs: &[Need]) -> Vec<f64> {
    let total: f64 = needs.iter().map(|need| need.slots).sum();
    if total <= slots {
        return needs.iter().map(|need| need.slots * slots / total).collect();
    }
    let floor = FLOOR.min(slots / (4.0 * needs.len() as f64));
    let mut granted = vec![floor; needs.len()];
    let mut left = slots - floor * needs.len() as f64;
    let mut by_need: Vec<usize> = (0..needs.len()).collect();
    by_need.sort_by(|&left, &right| {
        let (left, right) = (&needs[left], &needs[right]);
        left.slots.total_cmp(&right.slots).then(left.id.cmp(&right.id))
    });
    for index in by_need {
        let more = (needs[index].slots - floor).clamp(0.0, left);
        granted[index] += more;
        left -= more;
    }
    granted
}

#[cfg(test)]
mod tests {
    use super::super::summary::HostId;
    use super::*;

    fn needs(slots: &[f64]) -> Vec<Need> {
        let need = |(host, slots): (u32, &f64)| {
            let id = FlowId { host: HostId(host), ..FlowId::default() };
            Need { id, slots: *slots }
        };
        (0..).zip(slots).map(need).collect()
    }

    #[test]
    fn what_is_over_is_divided_by_need() {
        assert_eq!(divide(300.0, &needs(&[50.0, 100.0])), [100.0, 200.0]);
    }

    #[test]
    fn when_needs_exceed_the_slots_the_small_ones_are_met() {
        let granted = divide(320.0, &needs(&[200.0, 50.0, 400.0, 60.0]));
        assert_eq!(granted, [200.0, 50.0, 10.0, 60.0]);
    }

    #[test]
    fn a_queue_and_its_age_ask_for_slots_and_a_loose_target_gives_them_up() {
        let slots = |queued, age_ms, budget_s| {
            let flow = FlowSummary {
                arrivals: 400,
                queued,
                queued_age: Span::from_millis(age_ms),
                ..FlowSummary::default()
            };
            need(FlowId::default(), &flow, budget_s, 0.2).slots
        };
        assert!((slots(0, 0, 0.0) - 80.0).abs() < 1e-9);
        // 40 queued of 0.1 s each: 2 (40 + 4) requests per second more.
        assert!((slots(40, 4_000, 0.0) - 97.6).abs() < 1e-9);
        assert!((slots(40, 4_000, 0.05) - 89.6).abs() < 1e-9);
        assert!((slots(0, 0, 0.6) - 1.0).abs() < 1e-9);
    }
}
