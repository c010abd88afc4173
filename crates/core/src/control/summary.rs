//! What a host tells the others once each period.
//!
//! Counters of the period and the state at its end, by tenant, in whole numbers: nothing in it
//! depends on what the host decided to do about it, so that every algorithm can live on the same
//! summary. With tens of tenants it fits into one datagram.

use super::name::TenantNumber;
use super::target::Target;
use crate::ticket::Cost;
use crate::time::Span;

/// The most tenants that one summary tells of.
pub const FLOWS_MAX: usize = 64;

/// The unit in which hosts report costs, in nanoseconds.
pub const COST_UNIT: u64 = 1024;

/// The most that a count of one period can be: a thousand million requests per second are beyond
/// any device.
const COUNT_MAX: u32 = 1_000_000_000;

/// The most requests that one tenant has at a device for a whole day.
const SLOTS_MAX: u32 = 100_000;

/// The longest that a request may have taken: what waited longer says nothing about a device.
const TIME_MAX: Span = Span::from_secs(24 * 3600);

/// A host, by the number of its name ([`super::name`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// One tenant at one host: what gets slots, and has a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId {
    /// The host.
    pub host: HostId,
    /// The tenant there.
    pub tenant: TenantNumber,
}

/// A host's word on one period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Who speaks.
    pub host: HostId,
    /// Which life of the host: grows each time that it starts anew.
    pub incarnation: u64,
    /// Number of the period, counted alike by all hosts; grows from one summary to the next.
    pub period: u64,
    /// How many requests it would have all hosts have at the device together, if it is the one
    /// that decides that ([`super::shares`]); zero if it does not know.
    pub depth: u32,
    /// By tenant, at most [`FLOWS_MAX`].
    pub flows: Vec<FlowSummary>,
}

/// What happened to one tenant's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSummary {
    /// Whose.
    pub tenant: TenantNumber,
    /// Its weight, in thousandths, for algorithms that know shares.
    pub weight_milli: u32,
    /// The least that it is to have over all hosts whenever it asks for it, in cost per second;
    /// zero for none, and while nobody knows what its requests cost.
    pub floor: Cost,
    /// What it was promised; none for a tenant that takes what is left.
    pub target: Option<Target>,
    /// Requests that arrived.
    pub arrivals: u32,
    /// Requests that the device finished.
    pub completions: u32,
    /// Of those, how many took longer than the target's latency.
    pub late: u32,
    /// What the completions cost.
    pub cost: Cost,
    /// Sum over the completions of the time from dispatch to completion.
    pub device_time: Span,
    /// Sum over the completions of the time from arrival to completion.
    pub response_time: Span,
    /// Time integral of the requests at the device: divided by the period, the slots used.
    pub slot_time: Span,
    /// Requests at the device at the end.
    pub outstanding: u32,
    /// Requests that wait for a slot at the end.
    pub queued: u32,
    /// The part of the period in which at least one waited for a slot, in percent.
    pub backlogged_percent: u8,
    /// Whether something waits for its own limit at the end.
    pub is_limited: bool,
    /// Sum over those of the time since their arrival.
    pub queued_age: Span,
    /// Requests per second that the host expects to arrive.
    pub expected_per_s: u32,
}

/// A cost as hosts report it: in whole units.
fn in_units(cost: Cost) -> Cost {
    Cost(cost.0 / COST_UNIT * COST_UNIT)
}

impl Summary {
    /// Whether the figures can be those of a host: not too many tenants, each once and in order,
    /// and every one plausible.
    pub fn is_plausible(&self) -> bool {
        self.flows.len() <= FLOWS_MAX
            && self.depth <= SLOTS_MAX
            && self.flows.is_sorted_by(|left, right| left.tenant < right.tenant)
            && self.flows.iter().all(FlowSummary::is_plausible)
    }
}

impl FlowSummary {
    /// Whether the figures can be true together: counts that a device can reach, times that so many
    /// requests can have taken, and a target that can be kept at all.
    pub fn is_plausible(&self) -> bool {
        let Self { arrivals, completions, outstanding, queued, .. } = *self;
        let counts = [arrivals, completions, outstanding, queued, self.expected_per_s];
        let times = [
            (self.device_time, completions),
            (self.response_time, completions),
            (self.queued_age, queued.max(1)),
            (self.slot_time, SLOTS_MAX),
            (Span(self.cost.0), completions),
        ];
        let at_most = |requests: u32| TIME_MAX.0.saturating_mul(u64::from(requests));
        let is_whole = |target: Target| {
            target.latency_max > Span::ZERO
                && target.latency_max <= TIME_MAX
                && target.window > Span::ZERO
                && target.window <= TIME_MAX
        };
        counts.iter().all(|count| *count <= COUNT_MAX)
            && self.late <= completions
            && self.backlogged_percent <= 100
            && times.iter().all(|(time, requests)| time.0 <= at_most(*requests))
            && self.target.is_none_or(is_whole)
    }

    /// Mean time at the device of the requests that completed, in seconds; none if none did. Never
    /// below a microsecond: hosts tell times in whole ones, so that a fast device may say zero, and
    /// controllers divide by it.
    pub fn device_latency_s(&self) -> Option<f64> {
        let mean_s = || self.device_time.as_secs_f64() / f64::from(self.completions);
        (self.completions > 0).then(|| mean_s().max(1e-6))
    }

    /// The times in whole microseconds and the cost in whole units, rounded down: what hosts tell
    /// each other, so that each takes itself for what the others do.
    #[must_use]
    pub fn in_microseconds(self) -> Self {
        let rounded = |span: Span| Span(span.0 / 1_000 * 1_000);
        Self {
            target: self.target.map(Target::in_microseconds),
            device_time: rounded(self.device_time),
            response_time: rounded(self.response_time),
            slot_time: rounded(self.slot_time),
            cost: in_units(self.cost),
            floor: in_units(self.floor),
            queued_age: rounded(self.queued_age),
            ..self
        }
    }

    /// Two flows without a target as one.
    fn and(self, other: &Self) -> Self {
        Self {
            tenant: TenantNumber::SEVERAL,
            floor: Cost(self.floor.0.saturating_add(other.floor.0)),
            is_limited: self.is_limited || other.is_limited,
            weight_milli: self.weight_milli.saturating_add(other.weight_milli),
            target: None,
            arrivals: self.arrivals.saturating_add(other.arrivals),
            completions: self.completions.saturating_add(other.completions),
            late: self.late.saturating_add(other.late),
            cost: Cost(self.cost.0.saturating_add(other.cost.0)),
            device_time: self.device_time + other.device_time,
            response_time: self.response_time + other.response_time,
            slot_time: self.slot_time + other.slot_time,
            outstanding: self.outstanding.saturating_add(other.outstanding),
            queued: self.queued.saturating_add(other.queued),
            backlogged_percent: self.backlogged_percent.max(other.backlogged_percent),
            queued_age: self.queued_age + other.queued_age,
            expected_per_s: self.expected_per_s.saturating_add(other.expected_per_s),
        }
    }

    /// The same flow, of which nothing was heard for a while: what it asks is taken to be the
    /// half.
    #[must_use]
    pub fn halved(self) -> Self {
        Self {
            arrivals: self.arrivals / 2,
            completions: self.completions / 2,
            late: self.late / 2,
            cost: Cost(self.cost.0 / 2),
            device_time: Span(self.device_time.0 / 2),
            response_time: Span(self.response_time.0 / 2),
            slot_time: Span(self.slot_time.0 / 2),
            outstanding: self.outstanding / 2,
            queued: self.queued / 2,
            backlogged_percent: self.backlogged_percent / 2,
            queued_age: Span(self.queued_age.0 / 2),
            expected_per_s: self.expected_per_s / 2,
            ..self
        }
    }
}

/// Tells of at most [`FLOWS_MAX`] tenants, in the order of their numbers: where there are more, of
/// those without a target the ones with least are reported as one.
pub(crate) fn fold(mut flows: Vec<FlowSummary>) -> Vec<FlowSummary> {
    if flows.len() > FLOWS_MAX {
        let has = |flow: &FlowSummary| (flow.cost, flow.outstanding, flow.tenant);
        flows.sort_by_key(|flow| (flow.target.is_none(), std::cmp::Reverse(has(flow))));
        let rest = flows.split_off(FLOWS_MAX - 1);
        let rest = rest.into_iter().filter(|flow| flow.target.is_none());
        flows.extend(rest.reduce(|rest, flow| rest.and(&flow)));
    }
    flows.sort_by_key(|flow| flow.tenant);
    flows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_without_a_target_are_told_of_as_one_where_there_are_too_many() {
        let target = Some(Target::mean(Span::from_millis(10), Span::from_secs(1)));
        let flow = |tenant: u32| FlowSummary {
            tenant: TenantNumber(tenant + 1),
            cost: Cost(u64::from(tenant)),
            completions: 1,
            weight_milli: 500,
            target: target.filter(|_| tenant % 2 == 1),
            arrivals: 3,
            ..FlowSummary::default()
        };
        assert_eq!(fold((0..64).map(flow).collect()).len(), 64);
        let folded = fold((0..100).map(flow).collect());
        assert_eq!(folded.len(), 64);
        // 50 with a target, the 13 that had most without one, and 37.
        assert_eq!(folded.iter().filter(|flow| flow.target.is_some()).count(), 50);
        let rest = folded[0];
        assert_eq!((rest.tenant, rest.arrivals), (TenantNumber::SEVERAL, 37 * 3));
        assert_eq!(rest.weight_milli, 37 * 500);
        let summary = Summary { flows: folded, ..Summary::default() };
        assert!(summary.is_plausible());
    }

    #[test]
    fn halving_keeps_the_mean_latency_and_the_promise() {
        let flow = FlowSummary {
            completions: 10,
            device_time: Span::from_millis(400),
            queued: 7,
            target: Some(Target::mean(Span::from_millis(250), Span::from_secs(1))),
            ..FlowSummary::default()
        };
        let halved = flow.halved();
        assert_eq!(halved.device_latency_s(), flow.device_latency_s());
        assert_eq!((halved.queued, halved.target), (3, flow.target));
        assert_eq!(FlowSummary::default().device_latency_s(), None);
        let at_once = FlowSummary { completions: 7, ..FlowSummary::default() };
        assert_eq!(at_once.device_latency_s(), Some(1e-6));
    }
}
