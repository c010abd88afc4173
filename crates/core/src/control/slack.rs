//! Ours: as deep a queue at the device as the strictest target bears, and what is short is short
//! for the loosest.
//!
//! Ten times a second every host computes the same from the same summaries:
//!
//! 1. **The device.** `L(N) = a + bN`, learned online ([`super::latency`]). From a model, not from
//!    the latency last seen: that one was caused by decisions up to a latency ago, and a controller
//!    that chases it at this pace oscillates.
//! 2. **The depth.** `U` slots for all together, so that `L(U)` is at most 0.85 of the strictest
//!    target. A target that even one slot per host would miss is out of reach: it is left out, and
//!    served like none, so that it throttles nobody in vain. That has to have been seen, and not
//!    only be what the line says of depths at which the device never was.
//! 3. **The use.** What each flow will have at the device: what it has there now or, if more, its
//!    expected arrivals times the latency; and what waits.
//! 4. **Slack.** While all uses together fit into U, nobody is held back: every flow may have its
//!    own use and all that is free besides. Idle slots of one are there for any other at once.
//! 5. **Shortage.** Otherwise all of U will be in use, and what a flow needs is taken at `L(U)`: at
//!    the latency of the moment it would chase its own wake. Flows are served whole, the strictest
//!    target first, of equals the smallest first; one that does not fit is passed over. Those
//!    passed over share what is left in proportion to their needs. So few flows lose, those with
//!    the most room to lose, and the same ones in the next period, until the shortage is over.
//!    Flows without a target are never served whole then: a client that sends its next request
//!    with each answer asks more the more it gets. They share what is left by weight, and with
//!    them, as one, those passed over. What a tenant lacks to half its share of U is kept for those
//!    of its flows that are overdue; where those served whole leave less, the last of them give it
//!    up.
//! 6. **Trim.** Caps are bounds; the flows served whole leave some of theirs unused. While somebody
//!    waits, what is left for those passed over grows by a part of what N lacks to U.
//! 7. **Overshoot.** A flow served whole may send what has piled up at once, so that N can exceed
//!    U. If it does by more than a tenth, caps of flows served whole are what they need, and the
//!    last of them gives up the excess. It stays served whole: were it passed over, it would lose
//!    nearly all, come back with a queue, send that at once, and be passed over again.
//!
//! ```text
//!   uses 60 + 50 + 80 <= U = 320      caps 190, 180, 210: nobody notices
//!   uses 60 + 50 + 150 + 140 > 320    by target: 60, 50, 140 whole; the fourth has 70 of its 150
//! ```
//!
//! Inside a host requests go by deadline, with half of its share for whoever is late
//! ([`super::order`]).
//!
//! Sources: the learned line is BASIL's (FAST 2010); serving whole as many as fit is the rule of
//! Moore (Management Science 15(1), 1968) applied to flows, as DRG does in effect; caps that lend
//! what is idle are those of borrowing in [`super::drg`]. Why it converges and how fast is in
//! `docs/response-times.md`.

use std::collections::BTreeMap;

use super::latency::{Estimator, Line};
use super::name::TenantNumber;
use super::order::{OVERDUE, Order};
use super::summary::{FlowId, FlowSummary, HostId};
use super::watch::Watch;
use super::{Controller, Decision, View, whole_slots};
use crate::time::Span;

/// How it decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlackOptions {
    /// Time between steps.
    pub period: Span,
    /// Part of the strictest target that the device may take, above 0 and at most 1.
    pub device_part: f64,
    /// Part of the time left beside the device's latency that a request may wait, in thousandths.
    pub patience_milli: u16,
    /// Slots of each host until the device is known.
    pub slots_first: u32,
    /// The most slots for all together, as when nobody has a target.
    pub slots_max: f64,
}

impl Default for SlackOptions {
    fn default() -> Self {
        Self {
            period: Span::from_millis(100),
            device_part: 0.85,
            patience_milli: 500,
            slots_first: 64,
            slots_max: 4096.0,
        }
    }
}

/// Part of what N lacks to U by which the trim moves in a period, if all of U is left for those
/// passed over. The less that is, the more N moves by it: more at the device is more latency for
/// those served whole, who then have more there too.
const TRIM_GAIN: f64 = 0.1;

/// The least part of that gain.
const TRIM_GAIN_PART_MIN: f64 = 0.2;

/// Bounds of the trim, in parts of U.
const TRIM: (f64, f64) = (-0.3, 1.0);

/// Part of U beyond which N is too much.
const OVERSHOOT: f64 = 1.1;

/// The most of the excess that is taken back in a period, in parts of U: more would be a blow that
/// the next one has to undo.
const EXCESS_MAX: f64 = 0.2;

/// The most that one flow gives up, in parts of what it needs.
const CUT_MAX: f64 = 0.5;

/// The time in which the queue of a flow served whole is to be gone. Much longer than a period and
/// a delay of the summaries: otherwise a flow that was held back once has a queue too large to be
/// served whole again, and two flows take turns.
const DRAIN_S: f64 = 1.0;

/// What those passed over share at least, in parts of U.
const FLOOR: f64 = 0.05;

/// Our controller. See the [module](self).
#[derive(Clone, Debug)]
pub struct Slack {
    options: SlackOptions,
    estimator: Estimator,
    watch: Watch,
    /// Added to what is left for those passed over, in parts of U.
    trim: f64,
}

/// What one flow asks.
#[derive(Clone, Copy, Debug)]
struct Ask {
    id: FlowId,
    /// The strictest latency first; infinite without a target, or with one out of reach.
    bound_s: f64,
    /// Slots that it will use while nobody is held back.
    free: f64,
    /// Slots that it needs to be served whole while all of U is in use.
    whole: f64,
    /// Its weight among those passed over, above zero: its part of that of its tenant.
    weight: f64,
    is_waiting: bool,
    /// Whether its tenant is owed something ([`is_overdue`]).
    is_overdue: bool,
}

impl Slack {
    /// A controller that has seen nothing yet.
    pub fn new(options: SlackOptions) -> Self {
        Self { options, estimator: Estimator::default(), watch: Watch::default(), trim: 0.0 }
    }

    /// What the device is believed to do; nothing before the first sample.
    pub fn line(&self) -> Option<Line> {
        self.estimator.line()
    }

    /// The latency that a flow lets the device have, in seconds; infinite if there is none, or if
    /// `least` slots would already be too many.
    fn bound_s(&self, flow: &FlowSummary, least: f64) -> f64 {
        let bound_s = flow.target.map_or(f64::INFINITY, |target| target.device_latency_max_s());
        let can_keep = self.estimator.can_keep(self.options.device_part * bound_s, least);
        if can_keep { bound_s } else { f64::INFINITY }
    }

    /// The slots of each ask, in the same order.
    fn divide(&mut self, asks: &[Ask], slots_all: f64, in_use: f64) -> Vec<f64> {
        let used: f64 = asks.iter().map(|ask| ask.free).sum();
        if used <= slots_all {
            self.trim = 0.0;
            return asks.iter().map(|ask| ask.free + slots_all - used).collect();
        }
        let mut order: Vec<usize> = (0..asks.len()).collect();
        order.sort_by(|&left, &right| {
            let (left, right) = (&asks[left], &asks[right]);
            let by_target = left.bound_s.total_cmp(&right.bound_s);
            by_target.then(left.whole.total_cmp(&right.whole)).then(left.id.cmp(&right.id))
        });
        // Served whole means not held back at all: its cap is U.
        let mut caps = vec![slots_all; asks.len()];
        let (mut left, mut whole, mut passed_over) = (slots_all, Vec::new(), Vec::new());
        for index in order {
            if asks[index].bound_s.is_finite() && asks[index].whole <= left {
                left -= asks[index].whole;
                whole.push(index);
            } else {
                passed_over.push(index);
            }
        }
        let kept = kept(asks, &whole, &passed_over, slots_all);
        let lacking = (kept.iter().sum::<f64>() - left).max(0.0);
        let excess = (in_use - OVERSHOOT * slots_all).max(0.0);
        let unspent = left.min(excess);
        left -= unspent;
        if excess + lacking > 0.0 {
            let taken = (excess.min(EXCESS_MAX * slots_all) - unspent).max(0.0);
            take_back(asks, &whole, taken + lacking, &mut caps);
        }
        if passed_over.iter().any(|index| asks[*index].is_waiting) {
            let lacking = (slots_all - in_use) / slots_all;
            let gain = TRIM_GAIN * (left / slots_all).max(TRIM_GAIN_PART_MIN);
            self.trim = (self.trim + gain * lacking).clamp(TRIM.0, TRIM.1);
        }
        let shared = (left + self.trim * slots_all).max(FLOOR * slots_all);
        share_out(asks, &passed_over, shared, &mut caps);
        for (index, kept) in passed_over.iter().zip(kept) {
            caps[*index] = caps[*index].max(kept);
        }
        caps
    }
}

/// A tenant; several that a host tells of as one are known there alone.
type Whose = (TenantNumber, Option<HostId>);

fn whose(id: FlowId) -> Whose {
    (id.tenant, (id.tenant == TenantNumber::SEVERAL).then_some(id.host))
}

/// What is kept for each of those passed over that are overdue: what its tenant lacks to half its
/// share beside those of its flows that are served whole, if it asks for that; by what its flows
/// would use.
fn kept(asks: &[Ask], whole: &[usize], passed_over: &[usize], slots_all: f64) -> Vec<f64> {
    /// Of one tenant.
    #[derive(Default)]
    struct Sums {
        weight: f64,
        whole: f64,
        free: f64,
    }
    let mut tenants = BTreeMap::<Whose, Sums>::new();
    for ask in asks {
        tenants.entry(whose(ask.id)).or_default().weight += ask.weight;
    }
    let weights: f64 = asks.iter().map(|ask| ask.weight).sum();
    for index in whole {
        tenants.entry(whose(asks[*index].id)).or_default().whole += asks[*index].whole;
    }
    for index in passed_over.iter().filter(|index| asks[**index].is_overdue) {
        tenants.entry(whose(asks[*index].id)).or_default().free += asks[*index].free;
    }
    let kept = |index: &usize| {
        let ask = &asks[*index];
        if !ask.is_overdue {
            return 0.0;
        }
        let tenant = &tenants[&whose(ask.id)];
        let lacking = (slots_all / 2.0 * tenant.weight / weights - tenant.whole).max(0.0);
        ask.free * (lacking / tenant.free).min(1.0)
    };
    passed_over.iter().map(kept).collect()
}

/// Whether the oldest request of a flow has waited for so long that its tenant is owed something
/// ([`OVERDUE`]), or for any time without a target. Requests that came evenly and wait in the order
/// of their arrival are half as old in the mean.
fn is_overdue(flow: &FlowSummary) -> bool {
    let bound = flow.target.map_or(Span::ZERO, |target| target.latency_max);
    let mean_ns = flow.queued_age.0 / u64::from(flow.queued.max(1));
    flow.queued > 0 && mean_ns.saturating_mul(2) >= bound.0.saturating_mul(OVERDUE)
}

/// Caps flows served whole at what they need; the last of them give up the excess.
fn take_back(asks: &[Ask], whole: &[usize], mut excess: f64, caps: &mut [f64]) {
    for &index in whole.iter().rev() {
        let cut = excess.clamp(0.0, CUT_MAX * asks[index].whole);
        caps[index] = asks[index].whole - cut;
        excess -= cut;
    }
}

/// Gives what is left to those passed over: to each without a target by weight and as much as it
/// would use at most, and with them, as one of all their weights, to those that have a target,
/// who divide it by their needs.
fn share_out(asks: &[Ask], passed_over: &[usize], shared: f64, caps: &mut [f64]) {
    let (strict, free): (Vec<usize>, Vec<usize>) =
        passed_over.iter().partition(|index| asks[**index].bound_s.is_finite());
    let sum = |of: fn(&Ask) -> f64| strict.iter().map(|index| of(&asks[*index])).sum::<f64>();
    let (needs, weights) = (sum(|ask| ask.whole), sum(|ask| ask.weight));
    let mut claims: Vec<(f64, f64)> =
        free.iter().map(|index| (asks[*index].free, asks[*index].weight)).collect();
    claims.extend((!strict.is_empty()).then_some((needs, weights)));
    let given = fill(&claims, shared);
    for (index, given) in free.iter().zip(&given) {
        caps[*index] = *given;
    }
    if let Some(given) = given.get(free.len()) {
        for index in strict {
            caps[index] = given * asks[index].whole / needs;
        }
    }
}

/// Divides by weight, nobody more than asked while another lacks; what nobody asked for is divided
/// by weight too. Claims are `(asked, weight)`.
fn fill(claims: &[(f64, f64)], amount: f64) -> Vec<f64> {
    let mut by_level: Vec<usize> = (0..claims.len()).collect();
    let level = |index: usize| claims[index].0 / claims[index].1;
    by_level.sort_by(|&left, &right| level(left).total_cmp(&level(right)).then(left.cmp(&right)));
    let mut given = vec![0.0; claims.len()];
    let (mut left, mut weights) = (amount, claims.iter().map(|(_, weight)| weight).sum::<f64>());
    let all_weights = weights;
    for index in by_level {
        let (asked, weight) = claims[index];
        given[index] = asked.min(left * weight / weights);
        left -= given[index];
        weights -= weight;
    }
    for (given, (_, weight)) in given.iter_mut().zip(claims) {
        *given += left.max(0.0) * weight / all_weights;
    }
    given
}

impl Controller for Slack {
    fn period(&self) -> Span {
        self.options.period
    }

    fn step(&mut self, view: &View<'_>) -> Decision {
        let unmet = self.watch.note(view);
        let period_s = self.options.period.as_secs_f64();
        let sum = |of: fn(&FlowSummary) -> f64| view.flows().map(|(_, flow)| of(flow)).sum::<f64>();
        let used_s = sum(|flow| flow.slot_time.as_secs_f64());
        self.estimator.note(period_s, used_s, sum(|flow| f64::from(flow.completions)));
        let Some(line) = self.estimator.line() else {
            let slots = self.options.slots_first;
            return Decision { slots, order: Order::Arrival, slots_all: 0, unmet, division: None };
        };
        let (least, in_use) = (view.known.len() as f64, used_s / period_s);
        let bounds_s = view.flows().map(|(_, flow)| self.bound_s(flow, least));
        let strictest_s = bounds_s.fold(f64::INFINITY, f64::min);
        let slots_all = line.outstanding(self.options.device_part * strictest_s);
        let slots_all = slots_all.clamp(least, self.options.slots_max.max(least));
        let deepest_s = line.latency_s(slots_all);
        let latency_s = line.latency_s(in_use.min(slots_all));
        let mut flows_of = BTreeMap::<Whose, u32>::new();
        for (id, _) in view.flows() {
            *flows_of.entry(whose(id)).or_default() += 1;
        }
        let asks: Vec<Ask> = view
            .flows()
            .map(|(id, flow)| {
                let (expected, queued) = (f64::from(flow.expected_per_s), f64::from(flow.queued));
                let at_device = f64::from(flow.outstanding).max(expected * latency_s);
                Ask {
                    id,
                    bound_s: self.bound_s(flow, least),
                    free: at_device.min(slots_all) + queued,
                    whole: ((expected + queued / DRAIN_S) * deepest_s).max(1.0),
                    weight: f64::from(flow.weight_milli.max(1)) / f64::from(flows_of[&whose(id)]),
                    is_waiting: queued > 0.0,
                    is_overdue: is_overdue(flow),
                }
            })
            .collect();
        let caps = self.divide(&asks, slots_all, in_use);
        let own = asks.iter().zip(&caps).filter(|(ask, _)| ask.id.host == view.own);
        let slots = whole_slots(own.map(|(_, cap)| cap).sum());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let device = Span((deepest_s * 1e9) as u64);
        let order = Order::Deadline { device, patience_milli: self.options.patience_milli };
        Decision { slots, order, slots_all: whole_slots(slots_all), unmet, division: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(asks: &[(f64, f64)]) -> Vec<Ask> {
        let ask = |(host, (bound_s, slots)): (u32, &(f64, f64))| Ask {
            id: FlowId { host: HostId(host), tenant: TenantNumber(host) },
            bound_s: *bound_s,
            free: *slots,
            whole: *slots,
            is_overdue: true,
            weight: 1.0,
            is_waiting: true,
        };
        (0..).zip(asks).map(ask).collect()
    }

    fn divide(uses: &[(f64, f64)], slots_all: f64) -> Vec<f64> {
        // All of U is in use: nothing to trim.
        Slack::new(SlackOptions::default()).divide(&asks(uses), slots_all, slots_all)
    }

    #[test]
    fn while_all_fits_everybody_may_have_all_that_is_free() {
        assert_eq!(divide(&[(0.25, 60.0), (0.8, 50.0), (0.8, 80.0)], 320.0), [190.0, 180.0, 210.0]);
    }

    #[test]
    fn in_a_shortage_the_strictest_are_served_whole_and_the_loosest_have_the_rest() {
        let uses = [(0.25, 60.0), (0.25, 50.0), (0.8, 150.0), (0.8, 140.0)];
        assert_eq!(divide(&uses, 320.0), [320.0, 320.0, 70.0, 320.0]);
    }

    #[test]
    fn what_is_too_much_at_the_device_is_taken_from_the_last_that_is_served_whole() {
        let uses = asks(&[(0.25, 60.0), (0.25, 50.0), (0.8, 150.0), (0.8, 140.0)]);
        let mut slack = Slack::new(SlackOptions::default());
        // 352 is a tenth above U; 10 fewer are left for the one passed over, then none.
        assert_eq!(slack.divide(&uses, 320.0, 362.0)[..2], [60.0, 50.0]);
        let caps = Slack::new(SlackOptions::default()).divide(&uses, 320.0, 442.0);
        assert_eq!(caps[3..], [140.0], "70 were left, and at most 64 are taken back: {caps:?}");
        let tight = asks(&[(0.25, 100.0), (0.25, 200.0), (0.8, 150.0)]);
        let caps = Slack::new(SlackOptions::default()).divide(&tight, 320.0, 400.0);
        // Half a share, 53 slots, is kept for the third, of which 20 were left; 28 are too many.
        assert!((caps[1] - (200.0 - 28.0 - 33.333)).abs() < 0.01 && caps[2] > 53.0, "{caps:?}");
    }

    #[test]
    fn a_strict_flow_too_large_for_the_device_costs_the_others_nothing() {
        let uses = [(0.1, 900.0), (0.25, 50.0), (f64::INFINITY, 100.0)];
        assert_eq!(divide(&uses, 320.0), [170.0, 320.0, 100.0]);
    }

    #[test]
    fn those_without_a_target_share_what_is_left_by_weight_and_are_held_to_it() {
        let uses = [(0.02, 20.0), (f64::INFINITY, 320.0), (f64::INFINITY, 30.0), (1.0, 400.0)];
        assert_eq!(divide(&uses, 320.0), [320.0, 135.0, 30.0, 135.0]);
    }

    #[test]
    fn what_is_divided_by_weight_is_divided_whole() {
        assert_eq!(fill(&[(9.0, 1.0), (9.0, 2.0)], 12.0), [4.0, 8.0]);
        assert_eq!(fill(&[(1.0, 1.0), (9.0, 2.0)], 12.0), [1.0 + 2.0 / 3.0, 9.0 + 4.0 / 3.0]);
        assert_eq!(fill(&[], 12.0), []);
    }

    #[test]
    fn those_passed_over_share_by_their_uses() {
        let uses = [(0.25, 100.0), (0.8, 250.0), (0.8, 500.0)];
        let caps = divide(&uses, 320.0);
        assert!((caps[1] + caps[2] - 220.0).abs() < 1e-9, "{caps:?}");
        assert!((caps[2] / caps[1] - 2.0).abs() < 1e-9, "{caps:?}");
    }

    #[test]
    fn those_passed_over_have_half_of_their_shares_whoever_is_served_whole() {
        let uses = [(0.25, 310.0), (0.8, 100.0), (f64::INFINITY, 300.0), (f64::INFINITY, 4.0)];
        let caps = divide(&uses, 320.0);
        assert!(caps[1] >= 40.0 && caps[2] >= 40.0 && caps[3] >= 4.0, "{caps:?}");
        assert!(caps.iter().sum::<f64>() <= 320.0 * OVERSHOOT, "{caps:?}");
    }

    #[test]
    fn what_caps_leave_unused_is_given_out_while_somebody_waits() {
        let mut slack = Slack::new(SlackOptions::default());
        let uses = asks(&[(0.25, 200.0), (0.8, 300.0)]);
        let caps: Vec<f64> = (0..3).map(|_| slack.divide(&uses, 320.0, 256.0)[1]).collect();
        assert!((caps[0] - 122.4).abs() < 1e-9 && caps[2] > caps[1], "{caps:?}");
        let quiet = asks(&[(0.25, 100.0), (0.8, 100.0)]);
        let _ = slack.divide(&quiet, 320.0, 200.0);
        assert!((slack.divide(&uses, 320.0, 320.0)[1] - 120.0).abs() < 1e-9, "forgotten");
    }
}
