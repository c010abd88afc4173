//! DRG with its equations repaired.
//!
//! - (4.1) puts 0.002 on the past, which smooths nothing: 0.45 here, what 0.998 for each request
//!   makes in a second.
//! - (4.2) means over flows, idle and busy ones alike: weighted by completions here.
//! - (4.2) goes on from the slots *used*, so that a quiet window closes the next: here from the
//!   threshold, upwards only if slots were short, and bounded by the learned `L(N) = a + bN`.
//! - (4.7) has no margin, and a mean at its bound is above it every other window: 0.85 of the
//!   target here.
//! - Slots divided once and for all help nobody while they are idle: with borrowing they are caps,
//!   and each may use what the others are not expected to.
//! - Nothing is said of targets out of reach, and the strictest throttles all for nothing: those
//!   below the idle latency do not count here, and are named.
//!
//! The loop must stay several times slower than the threshold: what it sees was caused by decisions
//! up to a latency ago. At a period of 0.2 s with a threshold of 0.2 s it diverges.

use super::super::latency::Estimator;
use super::super::order::Order;
use super::super::summary::{FlowId, FlowSummary};
use super::super::watch::Watch;
use super::super::{Controller, Decision, View, whole_slots};
use super::{GAIN, Need, SLOTS_FIRST, SLOTS_MAX, SLOTS_MIN, THRESHOLD_PART, WINDOW, divide, need};
use crate::time::Span;
use std::collections::BTreeMap;

/// Weight of the past in a flow's latency.
const PAST: f64 = 0.45;

/// Part of a target that the predicted mean may reach.
const SAFETY: f64 = 0.85;

/// Part of the slots that has to be used for them to count as short.
const SHORT: f64 = 0.85;

/// Whether a flow may use slots that others are not expected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Borrowing {
    /// Slots are divided once and for all of the window.
    No,
    /// Slots are caps: each may use what the others are not expected to.
    Yes,
}

/// DRG, repaired. See the [module](self).
#[derive(Clone, Debug)]
pub struct Drg {
    borrowing: Borrowing,
    latency_s: BTreeMap<FlowId, f64>,
    estimator: Estimator,
    watch: Watch,
    slots_all: f64,
}

impl Drg {
    /// A controller that has seen nothing yet.
    pub fn new(borrowing: Borrowing) -> Self {
        Self {
            borrowing,
            latency_s: BTreeMap::new(),
            estimator: Estimator::default(),
            watch: Watch::default(),
            slots_all: SLOTS_FIRST,
        }
    }

    /// Smooths the latency of each flow; the mean over all, by completions.
    fn smooth(&mut self, view: &View<'_>) -> Option<f64> {
        let (mut sum_s, mut completions) = (0.0, 0.0);
        for (id, flow) in view.flows() {
            let Some(latency_s) = flow.device_latency_s() else { continue };
            let smoothed = self.latency_s.entry(id).or_insert(latency_s);
            *smoothed = (1.0 - PAST) * latency_s + PAST * *smoothed;
            sum_s += *smoothed * f64::from(flow.completions);
            completions += f64::from(flow.completions);
        }
        (completions > 0.0).then(|| sum_s / completions)
    }

    /// The strictest latency of the targets that the device can meet at all.
    fn threshold_s(&self, view: &View<'_>) -> Option<f64> {
        let idle_s = self.estimator.line().map_or(0.0, |line| line.idle_s);
        let bounds = view.flows().filter_map(|(_, flow)| flow.target);
        let bounds = bounds.map(|target| THRESHOLD_PART * target.device_latency_max_s());
        bounds.filter(|bound_s| *bound_s > idle_s).reduce(f64::min)
    }

    /// (4.2): slots of all hosts together, such that the device stays at the threshold.
    fn adapt(&mut self, view: &View<'_>, latency_s: f64, threshold_s: f64) {
        let window_s = WINDOW.as_secs_f64();
        let sum = |of: fn(&FlowSummary) -> f64| view.flows().map(|(_, flow)| of(flow)).sum::<f64>();
        let used_s = sum(|flow| flow.slot_time.as_secs_f64());
        self.estimator.note(window_s, used_s, sum(|flow| f64::from(flow.completions)));
        let most = self.estimator.line().map_or(SLOTS_MAX, |line| line.outstanding(threshold_s));
        let most = most.clamp(SLOTS_MIN, SLOTS_MAX);
        let is_short =
            sum(|flow| f64::from(flow.queued)) > 0.0 || used_s / window_s > SHORT * self.slots_all;
        if is_short || latency_s > threshold_s {
            let ratio = threshold_s / latency_s;
            self.slots_all *= (1.0 - GAIN) + GAIN * ratio;
        }
        self.slots_all = self.slots_all.clamp(SLOTS_MIN, most);
    }

    /// What each may use beyond its part, if the others use no more than expected.
    fn borrow(&self, view: &View<'_>, granted: &mut [f64]) {
        let expected: Vec<f64> = view
            .flows()
            .zip(granted.iter())
            .map(|((id, flow), granted)| {
                let latency_s = self.latency_s.get(&id).copied().unwrap_or(0.0);
                let used = flow.slot_time.as_secs_f64() / WINDOW.as_secs_f64();
                let arriving = f64::from(flow.arrivals) / WINDOW.as_secs_f64() * latency_s;
                granted.min(used.max(arriving) + f64::from(flow.queued))
            })
            .collect();
        let all: f64 = expected.iter().sum();
        for (granted, own) in granted.iter_mut().zip(expected) {
            *granted = granted.max(self.slots_all - (all - own));
        }
    }
}

impl Controller for Drg {
    fn period(&self) -> Span {
        WINDOW
    }

    fn step(&mut self, view: &View<'_>) -> Decision {
        let unmet = self.watch.note(view);
        let latency_s = self.smooth(view);
        let threshold_s = self.threshold_s(view).or(latency_s);
        let (Some(latency_s), Some(threshold_s)) = (latency_s, threshold_s) else {
            let slots = whole_slots(self.slots_all);
            return Decision {
                slots,
                order: Order::Arrival,
                slots_all: slots,
                unmet,
                division: None,
            };
        };
        self.adapt(view, latency_s, threshold_s);
        let needs: Vec<Need> = view
            .flows()
            .map(|(id, flow)| {
                let bound_s = flow.target.map_or(1e6, |target| target.device_latency_max_s());
                need(id, flow, (SAFETY * bound_s - threshold_s).max(0.0), threshold_s)
            })
            .collect();
        let mut granted = divide(self.slots_all, &needs);
        let asked: f64 = needs.iter().map(|need| need.slots).sum();
        if self.borrowing == Borrowing::Yes && asked <= self.slots_all {
            self.borrow(view, &mut granted);
        }
        let own = needs.iter().zip(&granted).filter(|(need, _)| need.id.host == view.own);
        let slots = whole_slots(own.map(|(_, granted)| granted).sum());
        let slots_all = whole_slots(self.slots_all);
        Decision { slots, order: Order::Arrival, slots_all, unmet, division: None }
    }
}
