//! Whose promises are not met: flows that broke their target in two windows running, and tenants
//! that were below their floor in four.
//!
//! One broken window is bad luck, and three are too late to tell somebody. So a flow is named at
//! the end of its second broken window in succession, and until it keeps one. A window in which
//! nothing completed although something waited is broken; one in which nothing was asked says
//! nothing.
//!
//! A floor is of a tenant at all hosts together, and due as long as something of it waits at one of
//! them; its windows are seconds. It takes some three of them until a tenant that begins to ask has
//! what it is due, so that only the fourth in succession names it.

use std::collections::BTreeMap;

use super::View;
use super::name::TenantNumber;
use super::summary::{FlowId, FlowSummary};
use super::target::{Tally, Target};
use crate::sched::GOAL_WINDOW;
use crate::time::Span;

/// Broken windows in succession after which a flow is named.
const BROKEN: u32 = 2;

/// Follows the windows of all flows. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Watch {
    flows: BTreeMap<FlowId, Watched>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    window: u64,
    tally: Tally,
    starved: bool,
    broken: u32,
}

impl Watch {
    /// Takes in a period that ends now; says which flows' targets are not met, by flow.
    pub fn note(&mut self, view: &View<'_>) -> Vec<FlowId> {
        let mut present = Vec::new();
        for (id, flow) in view.flows() {
            let Some(target) = flow.target else { continue };
            // The period's last instant still belongs to it.
            let window = target.window_of(crate::time::Nanos(view.now.0.saturating_sub(1)));
            let first = || Watched { window, ..Watched::default() };
            let watched = self.flows.entry(id).or_insert_with(first);
            if watched.window != window {
                watched.close(&target, window);
            }
            watched.add(flow);
            // A window that ends with this period need not wait for the next.
            if target.window_of(view.now) != window {
                watched.close(&target, window + 1);
            }
            present.push(id);
        }
        self.flows.retain(|id, _| present.binary_search(id).is_ok());
        let unmet = self.flows.iter().filter(|(_, watched)| watched.broken >= BROKEN);
        unmet.map(|(id, _)| *id).collect()
    }
}

impl Watched {
    fn add(&mut self, flow: &FlowSummary) {
        self.tally.completions += u64::from(flow.completions);
        self.tally.late += u64::from(flow.late);
        self.tally.response_ns += u128::from(flow.response_time.0);
        self.starved = flow.queued > 0 && flow.completions == 0;
    }

    fn close(&mut self, target: &Target, next: u64) {
        let asked = self.tally.completions > 0 || self.starved;
        let is_broken = self.tally.breaks(target) || (self.tally.completions == 0 && self.starved);
        self.broken = match (asked, is_broken) {
            (false, _) => self.broken,
            (true, true) => self.broken.saturating_add(1),
            (true, false) => 0,
        };
        (self.window, self.tally, self.starved) = (next, Tally::default(), false);
    }
}

/// Windows below its floor in succession after which a tenant is named.
const BELOW: u32 = 4;

/// A floor counts as kept with this part of it, in percent: a window ends between two requests.
const KEPT_PERCENT: u128 = 90;

/// A tenant asks for its floor if something of it waited for so much of a period, in percent.
const ASKS_PERCENT: u8 = 90;

/// Follows tenants' floors over all hosts. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct FloorWatch {
    tenants: BTreeMap<TenantNumber, WatchedFloor>,
}

/// A tenant in a period, over all hosts.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    floor: u64,
    cost: u64,
    asks: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct WatchedFloor {
    /// What passed of the window.
    passed: Span,
    /// What it had of the device in it, and what was due, in nanoseconds.
    cost_ns: u128,
    due_ns: u128,
    below: u32,
}

impl FloorWatch {
    /// Takes in a period of this length, of which every host has told.
    pub fn note(&mut self, view: &View<'_>, period: Span) {
        let mut asked: BTreeMap<TenantNumber, Asked> = BTreeMap::new();
        for (id, flow) in view.flows() {
            let tenant = asked.entry(id.tenant).or_default();
            tenant.floor = tenant.floor.max(flow.floor.0);
            tenant.cost = tenant.cost.saturating_add(flow.cost.0);
            tenant.asks |= flow.backlogged_percent >= ASKS_PERCENT && !flow.is_limited;
        }
        // Who does not ask for all of a window is not held back in it.
        asked.retain(|_, tenant| tenant.floor > 0 && tenant.asks);
        self.tenants.retain(|tenant, _| asked.contains_key(tenant));
        for (tenant, asked) in asked {
            self.tenants.entry(tenant).or_default().note(asked, period);
        }
    }

    /// Tenants below their floor, in order.
    pub fn below(&self) -> Vec<TenantNumber> {
        let below = self.tenants.iter().filter(|(_, watched)| watched.below >= BELOW);
        below.map(|(tenant, _)| *tenant).collect()
    }
}

impl WatchedFloor {
    fn note(&mut self, asked: Asked, period: Span) {
        self.passed += period;
        self.cost_ns += u128::from(asked.cost);
        self.due_ns += u128::from(asked.floor) * u128::from(period.0) / 1_000_000_000;
        if self.passed < GOAL_WINDOW {
            return;
        }
        let is_below = self.cost_ns * 100 < self.due_ns * KEPT_PERCENT;
        let below = if is_below { self.below.saturating_add(1) } else { 0 };
        *self = Self { below, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::super::peers::Known;
    use super::super::summary::{HostId, Summary};
    use super::*;
    use crate::ticket::Cost;
    use crate::time::{Nanos, Span};

    /// Tenths of a second with ten completions each, of these mean response times.
    fn named(means_ms: impl IntoIterator<Item = u64>) -> Vec<bool> {
        let target = Target::mean(Span::from_millis(100), Span::from_secs(1));
        let mut watch = Watch::default();
        let mut period = 0;
        let mut note = |mean_ms| {
            period += 1;
            let flow = FlowSummary {
                target: Some(target),
                completions: 10,
                response_time: Span::from_millis(10 * mean_ms),
                ..FlowSummary::default()
            };
            let summary = Summary { period, flows: vec![flow], ..Summary::default() };
            let known = [Known::whole(summary, 0)];
            let now = Nanos::ZERO + Span::from_millis(100 * period);
            !watch
                .note(&View { own: HostId(0), now, known: &known, lost: &[], missing: 0 })
                .is_empty()
        };
        means_ms.into_iter().map(&mut note).collect()
    }

    #[test]
    fn a_flow_is_named_with_its_second_broken_window_until_it_keeps_one() {
        let broken = std::iter::repeat_n(150, 30);
        let named = named(broken.chain(std::iter::repeat_n(50, 20)));
        let first = named.iter().position(|named| *named);
        assert_eq!(first, Some(19), "at the end of the second window");
        assert_eq!(named.iter().rposition(|named| *named), Some(38));
    }

    /// Fifths of a second in which a tenant with a floor of half the device at two hosts has this
    /// of it, in milliseconds a period, and waits or does not.
    fn below_floor(periods: &[(u64, bool)]) -> Vec<bool> {
        let mut watch = FloorWatch::default();
        let mut note = |(ms, asks): &(u64, bool)| {
            let flow = |cost_ms, backlogged_percent| FlowSummary {
                tenant: TenantNumber(7),
                floor: Cost(500_000_000),
                cost: Cost(cost_ms * 1_000_000),
                backlogged_percent,
                ..FlowSummary::default()
            };
            let known = |host, flow| {
                let host = HostId(host);
                Known::whole(Summary { host, flows: vec![flow], ..Summary::default() }, 0)
            };
            let waits = if *asks { 100 } else { 20 };
            let known = [known(0, flow(ms / 2, waits)), known(1, flow(ms - ms / 2, 0))];
            let view = View { own: HostId(0), now: Nanos(1), known: &known, lost: &[], missing: 0 };
            watch.note(&view, Span::from_millis(200));
            !watch.below().is_empty()
        };
        periods.iter().map(&mut note).collect()
    }

    #[test]
    fn a_floor_is_missed_with_the_fourth_second_below_it_and_only_by_whoever_asks() {
        let named = below_floor(&[[(60, true); 30], [(100, true); 30]].concat());
        assert_eq!(named.iter().position(|named| *named), Some(19), "20 periods are 4 s");
        assert_eq!(named.iter().rposition(|named| *named), Some(33), "until a second keeps it");
        assert!(!below_floor(&[(92, true); 60]).contains(&true), "that is as good as kept");
        assert!(!below_floor(&[(20, false); 60]).contains(&true), "it does not ask");
        assert!(!below_floor(&[(10, true), (10, true), (10, false)].repeat(20)).contains(&true));
    }

    #[test]
    fn the_mean_of_a_window_counts_and_not_that_of_a_period() {
        assert!(!named([900, 10, 10, 10, 10, 10, 10, 10, 10, 10].repeat(4)).contains(&true));
    }
}
