//! What a host tells the others once each period.
//!
//! Counters of the period and the state at its end, by tenant, in whole numbers: nothing in it
//! depends on what the host decided to do about it, so that every algorithm can live on the same
//! summary. With tens of tenants it fits into one datagram; with more it goes out in parts.
//!
//! # Parts
//!
//! A part says all that there is to say of the tenants with numbers in a range, so that each stands
//! for itself: whoever has one knows these tenants, whatever became of the others. The ranges of a
//! word's parts cover all numbers.
//!
//! ```text
//!   flows   3 9 17 | 40 55 81 | 90 97        parts  0..=39, 40..=89, 90..=u32::MAX
//!                    lost                    known  3 9 17, those of 40..=89 as before, 90 97
//! ```

use super::name::TenantNumber;
use super::target::Target;
use crate::ticket::Cost;
use crate::time::Span;

/// The most tenants that one summary tells of.
pub const FLOWS_MAX: usize = 1_024;

/// The most tenants that one part of it tells of: with usual figures some 1,000 bytes, so that it
/// fits a packet of Ethernet.
pub const PART_FLOWS_MAX: usize = 32;

/// The most parts of a word.
pub const PARTS_MAX: usize = FLOWS_MAX / PART_FLOWS_MAX;

/// The unit in which hosts report costs, in nanoseconds.
pub const COST_UNIT: u64 = 1024;

/// The most that a count of one period can be: a thousand million requests per second are beyond
/// any device.
const COUNT_MAX: u32 = 1_000_000_000;

/// The most requests that one tenant has at a device for a whole day.
const SLOTS_MAX: u32 = 100_000;

/// The most hosts that a sum is of.
const SUMMED_MAX: u32 = 1 << 20;

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

/// Which part of a word a summary is: of the tenants with numbers from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The least number that it tells of.
    pub first: TenantNumber,
    /// The greatest.
    pub last: TenantNumber,
    /// How many parts the word has, at most [`PARTS_MAX`].
    pub count: u8,
}

impl Part {
    /// All of a word.
    pub const WHOLE: Self = Self { first: TenantNumber(0), last: TenantNumber(u32::MAX), count: 1 };

    /// Whether a tenant is one of those.
    pub fn contains(self, tenant: TenantNumber) -> bool {
        (self.first..=self.last).contains(&tenant)
    }

    /// Whether any tenant is of both.
    pub(super) fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl Default for Part {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// A host's word on one period, or a part of it.
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
    /// Of which tenants it tells.
    pub part: Part,
    /// What it is of, if it adds up the words of several hosts.
    pub sum: Option<SumOf>,
    /// By tenant, at most [`FLOWS_MAX`], and [`PART_FLOWS_MAX`] in what comes from another host.
    pub flows: Vec<FlowSummary>,
}

/// What a summary is of that adds up the words of several hosts ([`super::sums`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumOf {
    /// How many hosts; zero where another summary of the same hosts counts them.
    pub hosts: u32,
    /// The host among them that would decide the depth: the first by its number that knows one.
    pub leader: HostId,
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
    /// Whether the figures can be those of another host: not too many tenants, each once and in
    /// order, and every one plausible.
    pub fn is_plausible(&self) -> bool {
        self.flows.len() <= PART_FLOWS_MAX
            && (1..=PARTS_MAX).contains(&usize::from(self.part.count))
            && self.depth <= SLOTS_MAX
            && self.hosts() <= SUMMED_MAX
            && self.flows.iter().all(|flow| self.part.contains(flow.tenant))
            && self.flows.is_sorted_by(|left, right| left.tenant < right.tenant)
            && self.flows.iter().all(FlowSummary::is_plausible)
    }

    /// How many hosts it is of.
    pub fn hosts(&self) -> u32 {
        self.sum.map_or(1, |sum| sum.hosts)
    }

    /// The host that says the depth.
    pub fn leader(&self) -> HostId {
        self.sum.map_or(self.host, |sum| sum.leader)
    }

    /// The same in parts that others take, in the order of the tenants.
    pub fn into_parts(self) -> Vec<Self> {
        let flows = self.flows.len();
        if flows <= PART_FLOWS_MAX {
            return vec![self];
        }
        let in_each = flows.div_ceil(flows.div_ceil(PART_FLOWS_MAX));
        let count = u8::try_from(flows.div_ceil(in_each)).expect("at most PARTS_MAX");
        let Self { host, incarnation, period, depth, part, sum, flows } = self;
        let mut first = part.first;
        let mut rest = flows.chunks(in_each).peekable();
        let mut parts = Vec::new();
        while let Some(flows) = rest.next() {
            let next = rest.peek().map(|next| next[0].tenant);
            let last = next.map_or(part.last, |next| TenantNumber(next.0 - 1));
            let (part, flows) = (Part { first, last, count }, flows.to_vec());
            parts.push(Self { host, incarnation, period, depth, part, sum, flows });
            first = next.unwrap_or(part.last);
        }
        parts
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

    /// The same within what is plausible, where figures of several hosts were added.
    #[must_use]
    pub(super) fn bounded(self) -> Self {
        let count = |count: u32| count.min(COUNT_MAX);
        let (completions, queued) = (count(self.completions), count(self.queued));
        let at_most = |time: Span, requests: u32| {
            Span(time.0.min(TIME_MAX.0.saturating_mul(u64::from(requests))))
        };
        Self {
            arrivals: count(self.arrivals),
            completions,
            late: self.late.min(completions),
            cost: Cost(at_most(Span(self.cost.0), completions).0),
            device_time: at_most(self.device_time, completions),
            response_time: at_most(self.response_time, completions),
            slot_time: at_most(self.slot_time, SLOTS_MAX),
            outstanding: count(self.outstanding),
            queued,
            queued_age: at_most(self.queued_age, queued.max(1)),
            expected_per_s: count(self.expected_per_s),
            ..self
        }
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

    /// Two flows as one, of the same tenant.
    pub(super) fn and(self, other: &Self) -> Self {
        Self {
            tenant: self.tenant,
            floor: Cost(self.floor.0.saturating_add(other.floor.0)),
            is_limited: self.is_limited || other.is_limited,
            weight_milli: self.weight_milli.saturating_add(other.weight_milli),
            target: self.target.or(other.target),
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
/// those without a target the ones with least are reported as one. Tenants of one number are one.
pub(crate) fn fold(mut flows: Vec<FlowSummary>) -> Vec<FlowSummary> {
    flows.sort_by_key(|flow| flow.tenant);
    flows.dedup_by(|flow, before| {
        let is_same = flow.tenant == before.tenant;
        if is_same {
            *before = before.and(flow);
        }
        is_same
    });
    if flows.len() > FLOWS_MAX {
        let has = |flow: &FlowSummary| (flow.cost, flow.outstanding, flow.tenant);
        flows.sort_by_key(|flow| (flow.target.is_none(), std::cmp::Reverse(has(flow))));
        let rest = flows.split_off(FLOWS_MAX - 1);
        let rest = rest.into_iter().filter(|flow| flow.target.is_none());
        let rest = rest.map(|flow| FlowSummary { tenant: TenantNumber::SEVERAL, ..flow });
        flows.extend(rest.reduce(|rest, flow| rest.and(&flow)));
        flows.sort_by_key(|flow| flow.tenant);
    }
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
        assert_eq!(fold((0..1_024).map(flow).collect()).len(), 1_024);
        let folded = fold((0..1_100).map(flow).collect());
        assert_eq!(folded.len(), 1_024);
        // 550 with a target, the 473 that had most without one, and 77.
        assert_eq!(folded.iter().filter(|flow| flow.target.is_some()).count(), 550);
        let rest = folded[0];
        assert_eq!((rest.tenant, rest.arrivals), (TenantNumber::SEVERAL, 77 * 3));
        assert_eq!(rest.weight_milli, 77 * 500);
        let parts = Summary { flows: folded, ..Summary::default() }.into_parts();
        assert!(parts.len() == PARTS_MAX && parts.iter().all(Summary::is_plausible));
    }

    #[test]
    fn tenants_of_one_number_are_told_of_as_one() {
        let flow = |tenant| FlowSummary {
            tenant: TenantNumber(tenant),
            arrivals: 1,
            ..FlowSummary::default()
        };
        let folded = fold([9, 4, 9].map(flow).to_vec());
        let told: Vec<(u32, u32)> =
            folded.iter().map(|flow| (flow.tenant.0, flow.arrivals)).collect();
        assert_eq!(told, [(4, 1), (9, 2)]);
    }

    #[test]
    fn the_parts_of_a_word_cover_all_numbers_and_each_tells_of_its_own() {
        for count in [0, 1, 32, 33, 64, 65, 1_000, 1_024] {
            let flow = |tenant: u32| FlowSummary {
                tenant: TenantNumber(5 + 3 * tenant),
                ..FlowSummary::default()
            };
            let flows: Vec<_> = (0..count).map(flow).collect();
            let whole = Summary { period: 7, depth: 9, flows: flows.clone(), ..Summary::default() };
            let parts = whole.into_parts();
            assert_eq!(parts.len(), (count as usize).div_ceil(PART_FLOWS_MAX).max(1));
            let told: Vec<_> = parts.iter().flat_map(|part| part.flows.clone()).collect();
            assert_eq!(told, flows);
            let mut next = Some(0);
            for one in &parts {
                assert!(one.is_plausible() && (one.period, one.depth) == (7, 9), "{one:?}");
                assert_eq!(usize::from(one.part.count), parts.len());
                assert_eq!(Some(one.part.first.0), next);
                next = one.part.last.0.checked_add(1);
            }
            assert_eq!(next, None, "{count}: up to the greatest number");
        }
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
