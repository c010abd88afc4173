//! PARDA: each host sizes its window by the latency that it sees itself; nothing is exchanged.
//!
//! ```text
//!   w(t+1) = (1-g) w(t) + g ( L/L(t) w(t) + beta ),   w_min <= w <= w_max
//! ```
//!
//! L is the latency that the device is to be held at, `L(t)` the host's smoothed latency, beta its
//! share. Source: Gulati, Ahmad and Waldspurger, "PARDA: proportional allocation of resources for
//! distributed storage access", FAST 2009, section 3, equations 1 and 2; the law is that of FAST
//! TCP (Jin, Wei and Low, INFOCOM 2004).
//!
//! # Fixed point
//!
//! `w = beta / (1 - L/L(t))`: where all see one latency the windows stand as the betas, and
//! `L(t) - L = sum beta / X` above the threshold at a throughput of X. So the betas should be small
//! beside `X L`, or the threshold is passed by much.
//!
//! # What the paper leaves open
//!
//! The smoothing `L(t) = (1-a) l(t) + a L(t-1)` with a = 0.002, read literally, smooths nothing;
//! with 0.002 as the weight of each new request it does. In periods of a second with some 400
//! requests that is a weight of 0.998^400 = 0.45 on the past, which is used here.

use super::order::Order;
use super::{Controller, Decision, View, whole_slots};
use crate::time::Span;

/// How a window moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PardaOptions {
    /// Time between steps; several times the threshold, or the window chases its own wake.
    pub period: Span,
    /// The latency that the device is to be held at.
    pub threshold: Span,
    /// g: how far a step goes, above 0 and at most 1.
    pub gain: f64,
    /// Weight of the past in the smoothed latency, from 0 to below 1.
    pub past: f64,
    /// Slots that a host of weight 1 gains in a step: its beta.
    pub beta: f64,
    /// Bounds of the window.
    pub slots_min: f64,
    /// See `slots_min`.
    pub slots_max: f64,
    /// The window to begin with.
    pub slots_first: f64,
}

impl Default for PardaOptions {
    fn default() -> Self {
        Self {
            period: Span::from_secs(1),
            threshold: Span::from_millis(200),
            gain: 0.8,
            past: 0.45,
            beta: 8.0,
            slots_min: 4.0,
            slots_max: 256.0,
            slots_first: 64.0,
        }
    }
}

/// PARDA's controller of one host. See the [module](self).
#[derive(Clone, Debug)]
pub struct Parda {
    options: PardaOptions,
    window: f64,
    latency_s: Option<f64>,
}

impl Parda {
    /// A host that has not measured yet.
    pub fn new(options: PardaOptions) -> Self {
        Self { options, window: options.slots_first, latency_s: None }
    }

    fn adapt(&mut self, latency_s: f64, weight: f64) {
        let PardaOptions { gain, past, .. } = self.options;
        let smoothed = match self.latency_s {
            None => latency_s,
            Some(before) => (1.0 - past) * latency_s + past * before,
        };
        self.latency_s = Some(smoothed);
        let ratio = self.options.threshold.as_secs_f64() / smoothed;
        let aim = ratio * self.window + self.options.beta * weight;
        let window = (1.0 - gain) * self.window + gain * aim;
        self.window = window.clamp(self.options.slots_min, self.options.slots_max);
    }
}

impl Controller for Parda {
    fn period(&self) -> Span {
        self.options.period
    }

    fn step(&mut self, view: &View<'_>) -> Decision {
        let own = view.flows().filter(|(id, _)| id.host == view.own);
        let (mut weight, mut completions, mut device_s) = (0.0, 0.0, 0.0);
        for (_, flow) in own {
            weight += f64::from(flow.weight_milli) / 1000.0;
            completions += f64::from(flow.completions);
            device_s += flow.device_time.as_secs_f64();
        }
        if completions > 0.0 && device_s > 0.0 {
            self.adapt(device_s / completions, weight);
        }
        let slots = whole_slots(self.window);
        Decision { slots, order: Order::Arrival, slots_all: 0, unmet: Vec::new(), division: None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::latency::Line;
    use super::*;

    #[test]
    fn windows_settle_at_the_fixed_point_in_the_ratio_of_the_weights() {
        let line = Line { idle_s: 0.02, per_request_s: 0.0006 };
        let mut hosts = [1.0, 2.0].map(|weight| (Parda::new(PardaOptions::default()), weight));
        let mut latency_s = 0.0;
        for _ in 0..300 {
            latency_s = line.latency_s(hosts.iter().map(|(host, _)| host.window).sum());
            for (host, weight) in &mut hosts {
                host.adapt(latency_s, *weight);
            }
        }
        let [first, second] = hosts.map(|(host, _)| host.window);
        assert!((second / first - 2.0).abs() < 0.01, "{first} {second}");
        let overshoot_s = 24.0 * latency_s / (first + second);
        assert!((latency_s - 0.2 - overshoot_s).abs() < 0.001, "{latency_s} {overshoot_s}");
    }
}
