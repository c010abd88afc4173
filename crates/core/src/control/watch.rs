//! Whose target is not met: flows that broke theirs in two windows running.
//!
//! One broken window is bad luck, and three are too late to tell somebody. So a flow is named at
//! the end of its second broken window in succession, and until it keeps one. A window in which
//! nothing completed although something waited is broken; one in which nothing was asked says
//! nothing.

use std::collections::BTreeMap;

use super::View;
use super::summary::{FlowId, FlowSummary};
use super::target::{Tally, Target};

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

#[cfg(test)]
mod tests {
    use super::super::peers::Known;
    use super::super::summary::{HostId, Summary};
    use super::*;
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
            let known = [Known { summary, missed: 0 }];
            let now = Nanos::ZERO + Span::from_millis(100 * period);
            !watch.note(&View { own: HostId(0), now, known: &known, has_lost: false }).is_empty()
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

    #[test]
    fn the_mean_of_a_window_counts_and_not_that_of_a_period() {
        assert!(!named([900, 10, 10, 10, 10, 10, 10, 10, 10, 10].repeat(4)).contains(&true));
    }
}
