//! Request windows as a fluid: how often a load asks for more than fixed windows can serve.
//!
//! Every workload has a fixed number of slots. The array's latency is a line in the slots in use,
//! so that by Little's law a workload is served at its slots over the latency at most; what it asks
//! for beyond that queues. Rates stand for requests, nothing is drawn, no controller takes part.
//!
//! ```text
//!   demand -> queue -> min(what is asked, slots / L) -> array, L = a + b * (slots in use)
//! ```
//!
//! Source: J. D. C. Little, "A proof for the queuing formula L = lambda W", Operations Research
//! 9(3), 1961.

use super::load::STEP;

/// Steps of a window of one second.
const WINDOW_STEPS: usize = 20;

/// The mean latency of a device by the requests at it, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyLine {
    /// With nothing else at the device.
    pub idle_s: f64,
    /// For each request at it.
    pub slot_s: f64,
}

impl LatencyLine {
    /// The latency with so many requests at the device.
    pub fn at_s(self, slots: f64) -> f64 {
        self.idle_s + self.slot_s * slots
    }

    /// Requests per second with so many at the device.
    pub fn throughput(self, slots: f64) -> f64 {
        slots / self.at_s(slots)
    }

    /// The latency at which each flow is served what it asks for, or what its slots allow.
    fn latency_s(self, asked_per_s: &[f64; 4], slots: &[f64; 4]) -> f64 {
        let mut is_capped = [false; 4];
        loop {
            let (mut fixed_s, mut free) = (self.idle_s, 1.0);
            for flow in 0..4 {
                if is_capped[flow] {
                    fixed_s += self.slot_s * slots[flow];
                } else {
                    free -= self.slot_s * asked_per_s[flow];
                }
            }
            let latency_s = if free > 0.0 { fixed_s / free } else { f64::INFINITY };
            // The flow whose slots are full at the least latency.
            let limit_s = |flow: &usize| slots[*flow] / asked_per_s[*flow];
            let next = (0..4)
                .filter(|flow| !is_capped[*flow])
                .min_by(|left, right| limit_s(left).total_cmp(&limit_s(right)));
            match next {
                Some(flow) if limit_s(&flow) < latency_s => is_capped[flow] = true,
                _ => return latency_s,
            }
        }
    }
}

/// Seconds from `from_s` on whose mean response time exceeds the target, in percent by workload.
/// `demand` is requests per second by workload and [`STEP`].
pub fn broken_percent(
    line: LatencyLine,
    demand: &[Vec<f64>],
    slots: &[f64; 4],
    targets_s: &[f64; 4],
    from_s: usize,
) -> [f64; 4] {
    let step_s = STEP.as_secs_f64();
    let windows = demand[0].len() / WINDOW_STEPS;
    let mut queued = [0.0; 4];
    let mut broken = [0_u32; 4];
    for window in 0..windows {
        let (mut served, mut response) = ([0.0; 4], [0.0; 4]);
        let range = window * WINDOW_STEPS..(window + 1) * WINDOW_STEPS;
        let offered =
            range.map(|step| -> [f64; 4] { std::array::from_fn(|flow| demand[flow][step]) });
        for offered in offered {
            let asked: [f64; 4] = std::array::from_fn(|flow| offered[flow] + queued[flow] / step_s);
            let latency_s = line.latency_s(&asked, slots);
            for flow in 0..4 {
                let rate = asked[flow].min(slots[flow] / latency_s);
                let left = (asked[flow] - rate).max(0.0) * step_s;
                let waits_s = f64::midpoint(queued[flow], left) / rate;
                served[flow] += rate;
                response[flow] += rate * (latency_s + waits_s);
                queued[flow] = left;
            }
        }
        for flow in (0..4).filter(|_| window >= from_s) {
            broken[flow] += u32::from(response[flow] > targets_s[flow] * served[flow]);
        }
    }
    broken.map(|count| 100.0 * f64::from(count) / windows.saturating_sub(from_s).max(1) as f64)
}

/// Seconds from `from_s` on in which all workloads together ask for more than this, in percent.
pub fn over_percent(demand: &[Vec<f64>], most_per_s: f64, from_s: usize) -> f64 {
    let windows = demand[0].len() / WINDOW_STEPS;
    let mean = |window: usize| {
        let steps = window * WINDOW_STEPS..(window + 1) * WINDOW_STEPS;
        let all = demand.iter().flat_map(|rates| &rates[steps.clone()]).sum::<f64>();
        all / WINDOW_STEPS as f64
    };
    let over = (from_s..windows).filter(|window| mean(*window) > most_per_s).count();
    100.0 * over as f64 / windows.saturating_sub(from_s).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: LatencyLine = LatencyLine { idle_s: 0.02, slot_s: 0.0005 };

    fn constant(per_s: [f64; 4]) -> Vec<Vec<f64>> {
        per_s.iter().map(|rate| vec![*rate; 400]).collect()
    }

    #[test]
    fn what_the_windows_can_serve_meets_its_target_and_what_they_cannot_breaks_it() {
        // 400 slots: 220 ms, and 1,818 requests per second if all are full.
        let slots = [100.0; 4];
        let broken = |demand| broken_percent(LINE, &constant(demand), &slots, &[0.25; 4], 0);
        assert!(broken([300.0; 4]).iter().all(|percent| *percent < 1e-9));
        let [first, rest @ ..] = broken([3000.0, 100.0, 100.0, 100.0]);
        assert!(first > 80.0, "{first}");
        assert!(rest.iter().all(|percent| *percent < 1e-9), "{rest:?}");
    }

    #[test]
    fn the_latency_is_that_of_the_slots_in_use() {
        // Nobody reaches the slots: L = 0.02 / (1 - 0.0005 * 400).
        let latency_s = LINE.latency_s(&[100.0; 4], &[100.0; 4]);
        assert!((latency_s - 0.025).abs() < 1e-12, "{latency_s}");
        let full_s = LINE.latency_s(&[9e9; 4], &[100.0; 4]);
        assert!((full_s - LINE.at_s(400.0)).abs() < 1e-12, "{full_s}");
    }

    #[test]
    fn seconds_above_a_rate_are_counted_after_the_warm_up() {
        let mut demand = constant([100.0; 4]);
        demand[2][40..60].fill(400.0);
        demand[0][0..20].fill(900.0);
        assert!((over_percent(&demand, 500.0, 0) - 10.0).abs() < 1e-9);
        assert!((over_percent(&demand, 500.0, 10) - 0.0).abs() < 1e-9);
    }
}
