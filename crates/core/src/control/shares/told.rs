//! How much of what all hosts do is known, where words are lost.
//!
//! With fifty hosts, or a word in thirty parts, some part of a period is nearly always lost. What
//! was not told is taken to have gone on as what was told did: the sums of the period are those of
//! the flows that were told, times what all of them did lately over what these did.
//!
//! ```text
//!   lately    100  80  20 | 40        told now    90  84  18 | lost      told: 200 of 240
//!   in all    (90 + 84 + 18) x 240 / 200
//! ```
//!
//! Nothing is learned from a period of which too little is known, nor while hosts are silent that
//! did more than a little: they may use the device still, and what the others see of it then
//! follows from what these have left of it. Of hosts that are lost for a moment, since every second
//! word is lost, a fifth may be silent; of those that have gone for longer than that explains, a
//! fiftieth.

use std::collections::BTreeMap;

use crate::control::View;
use crate::control::peers::{Known, Patience};
use crate::control::summary::{FlowSummary, HostId};

use super::division::Flow;

/// What was told has to be this part of all at least.
const TOLD_MIN: f64 = 0.4;

/// Hosts of which some words in succession are missed may have done this part of all at most, ..
const LATE_MAX: f64 = 0.2;
/// .. and those that were heard within a minute and are no more this one.
const SILENT_MAX: f64 = 0.02;

/// What hosts did lately, in cost per second. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    rates: BTreeMap<HostId, f64>,
}

/// What flows did lately: those that were told of in this period, and all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lately {
    pub(super) told: f64,
    pub(super) all: f64,
}

/// What all hosts did in a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) slot_time_s: f64,
    pub(super) completions: f64,
    pub(super) work: f64,
    pub(super) is_backlogged: bool,
    /// What clients ask for, if they had all of it at the device throughout the period.
    pub(super) asked: Option<u32>,
}

/// Clients that always ask have as many at the device at the end of a period as in the mean of it,
/// within this part.
const STEADY: f64 = 0.02;

impl Told {
    /// Takes in the flows as they are after the period, of which `lately` was told. Returns which
    /// part of all that is; none if nothing can be learned from it.
    pub(super) fn note(&mut self, view: &View<'_>, flows: &[Flow], lately: Lately) -> Option<f64> {
        let before = std::mem::take(&mut self.rates);
        for host in flows.chunk_by(|one, next| one.id.host == next.id.host) {
            self.rates.insert(host[0].id.host, host.iter().map(|flow| flow.rate).sum());
        }
        let all: f64 = self.rates.values().sum();
        let lost = view.lost.iter().filter_map(|host| Some((*host, *before.get(host)?)));
        let lost: Vec<(HostId, f64)> = lost.collect();
        let silent: f64 = lost.iter().map(|(_, rate)| rate).sum();
        self.rates.extend(lost);
        let kept = Patience::default().kept;
        let late = view.known.iter().filter(|known| known.missed > kept);
        let late = late.filter_map(|known| self.rates.get(&known.summary.host)).sum::<f64>();
        let is_whole = view.known.iter().all(Known::is_news);
        let part = if is_whole { 1.0 } else { lately.told / lately.all };
        let missing = f64::from(view.missing);
        let is_quiet = late <= LATE_MAX * all
            && silent <= SILENT_MAX * (all + silent)
            && missing <= SILENT_MAX * (f64::from(view.hosts()) + missing);
        // Nothing is known of all before the first word of each.
        (part >= TOLD_MIN && is_quiet).then_some(part)
    }
}

impl Sums {
    /// Of a period of which this part was told; of nothing, what is known of it.
    pub(super) fn of(view: &View<'_>, period_s: f64, told: Option<f64>) -> Self {
        let mut sums = Self::default();
        let (mut outstanding, mut queued) = (0_u64, 0_u64);
        for (flow, _) in told_flows(view).filter(|(_, is_news)| *is_news || told.is_none()) {
            sums.slot_time_s += flow.slot_time.as_secs_f64();
            sums.completions += f64::from(flow.completions);
            sums.work += flow.cost.0 as f64;
            sums.is_backlogged |= flow.backlogged_percent >= 50;
            outstanding += u64::from(flow.outstanding);
            queued += u64::from(flow.queued);
        }
        let part = told.unwrap_or(1.0);
        sums.slot_time_s /= part;
        sums.completions /= part;
        sums.work /= part;
        if part >= 1.0 && queued == 0 {
            sums.asked = steady(outstanding, sums.slot_time_s / period_s);
        }
        sums
    }
}

/// What clients ask for that had all of it at the device throughout the period.
fn steady(outstanding: u64, in_use: f64) -> Option<u32> {
    let asked = u32::try_from(outstanding).ok().filter(|asked| *asked > 0)?;
    let (all, most) = (f64::from(asked), STEADY * f64::from(asked));
    ((all - in_use).abs() <= most).then_some(asked)
}

/// All flows, and whether what is known of each is of this period.
fn told_flows<'a>(view: &View<'a>) -> impl Iterator<Item = (&'a FlowSummary, bool)> {
    view.known.iter().flat_map(|known| {
        let flows = known.summary.flows.iter().enumerate();
        flows.map(|(index, flow)| (flow, known.is_news_of(index)))
    })
}
