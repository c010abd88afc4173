//! DRG as its equations are printed, with no more mended than what [`super`] lists.
//!
//! It is kept as the yardstick: the smoothing (4.1) with 0.002 on the past smooths nothing, the
//! mean (4.2) counts idle flows as much as busy ones, and the recursion on slots *used* takes a
//! quiet window for the limit of the next. It has no way back from an idle window but the bound
//! below.

use std::collections::BTreeMap;

use super::super::order::Order;
use super::super::summary::FlowId;
use super::super::{Controller, Decision, View, whole_slots};
use super::{GAIN, SLOTS_MIN, WINDOW, divide, need, threshold_s};
use crate::time::Span;

/// alpha of (4.1): the weight of the past.
const PAST: f64 = 0.002;

/// DRG as printed. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct DrgLiteral {
    /// l' of (4.1) by flow, in seconds.
    latency_s: BTreeMap<FlowId, f64>,
}

impl Controller for DrgLiteral {
    fn period(&self) -> Span {
        WINDOW
    }

    fn step(&mut self, view: &View<'_>) -> Decision {
        for (id, flow) in view.flows() {
            if let Some(latency_s) = flow.device_latency_s() {
                let smoothed = self.latency_s.entry(id).or_insert(latency_s);
                *smoothed = (1.0 - PAST) * latency_s + PAST * *smoothed;
            }
        }
        let used: f64 = view.flows().map(|(_, flow)| flow.slot_time.as_secs_f64()).sum::<f64>()
            / WINDOW.as_secs_f64();
        let latencies_s: f64 = self.latency_s.values().sum();
        let Some(threshold_s) = threshold_s(view).filter(|_| latencies_s > 0.0) else {
            let slots = u32::MAX;
            return Decision {
                slots,
                order: Order::Arrival,
                slots_all: 0,
                unmet: Vec::new(),
                division: None,
            };
        };
        let ratio = threshold_s * self.latency_s.len() as f64 / latencies_s;
        let slots_all = ((1.0 - GAIN) * used + GAIN * ratio * used).max(SLOTS_MIN);
        let needs: Vec<_> = view
            .flows()
            .map(|(id, flow)| {
                let bound_s =
                    flow.target.map_or(f64::INFINITY, |target| target.device_latency_max_s());
                need(id, flow, (bound_s - threshold_s).clamp(0.0, 1e6), threshold_s)
            })
            .collect();
        let granted = divide(slots_all, &needs);
        let own = needs.iter().zip(&granted).filter(|(need, _)| need.id.host == view.own);
        let slots = whole_slots(own.map(|(_, granted)| granted).sum());
        let slots_all = whole_slots(slots_all);
        Decision { slots, order: Order::Arrival, slots_all, unmet: Vec::new(), division: None }
    }
}
