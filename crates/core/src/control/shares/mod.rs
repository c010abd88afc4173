//! Shares over all hosts: each tenant gets its part of what the device does, wherever its clients
//! are.
//!
//! Once a period every host computes the same from the same summaries:
//!
//! 1. **The depth.** How many requests all hosts have at the device together: the knee of its
//!    throughput, found by trying ([`crate::sched::depth::periods`]) from what all of them
//!    complete. One host tries, the first of those that are heard, and tells what it would have;
//!    all follow. Nothing is configured.
//! 2. **Targets** bound it: `L(N) = a + bN` is learned ([`super::latency`]), and the depth is such
//!    that the device takes at most 0.85 of the strictest target that it can keep.
//! 3. **The division** of that depth (`division`): by share among tenants, by clients among a
//!    tenant's hosts, by what requests cost. A host has thousandths of slots ([`super::slots`]),
//!    since a device that is full with two requests has to be divided among three hosts as well.
//! 4. **Inside a host** requests go by start-time fair queuing, with what each tenant is due there
//!    as its weight. So a tenant that asks for less than it is due hardly waits, and nobody is
//!    passed over: who asks for more than its share is late by its own doing, and has its share. A
//!    tenant with a target may run ahead of its share for half a second, so that its bursts need
//!    not wait.
//! 5. **Floors** come before shares, and **limits** are divided among a tenant's hosts: both count
//!    over all of them.
//! 6. **Trim.** A host whose tenants ask now and then leaves slots unused. While somebody lacks
//!    something, all have more by a part of what is lacking to the depth.
//!
//! While nobody lacks anything every host may have all that is free besides what it uses.
//!
//! Sources: windows in proportion to shares are PARDA's (FAST 2009), whose latency threshold has to
//! be known; splitting what a tenant is due over hosts by its demand there is mClock's way with
//! limits in a cluster (OSDI 2010, section 5); shares of what all servers do together are DSFQ's
//! (FAST 2007), which needs a server for each host.

mod division;
mod fill;
mod limit;
mod told;

use super::latency::Estimator;
use super::order::Order;
use super::summary::{FlowId, FlowSummary};
use super::watch::{FloorWatch, Watch};
use super::{Controller, Decision, Division, Due, View};
use crate::sched::depth::periods::{Period, PeriodicDepth};
use crate::ticket::Cost;
use crate::time::Span;
use division::{Divided, Flow, divide};
use told::{Lately, Sums, Told};

/// How it decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharesOptions {
    /// Time between steps.
    pub period: Span,
    /// Where the search for the depth begins, for all hosts together.
    pub depth_first: u32,
    /// Slots of each host until something was served.
    pub slots_first: u32,
    /// Part of the strictest target that the device may take, above 0 and at most 1.
    pub device_part: f64,
}

impl Default for SharesOptions {
    fn default() -> Self {
        Self { period: Span::from_millis(200), depth_first: 8, slots_first: 8, device_part: 0.85 }
    }
}

/// With fewer requests for all together the order in which they happen to come decides what each
/// host gets, more than its slots do.
const DEPTH_MIN: u32 = 4;

/// Where sums are heard the depth is a multiple of a request for each so many hosts: with fewer a
/// host waits longer for its turn than for the device, and what is tried is not used.
const HOSTS_PER_UNIT: u32 = 32;

/// So much of what all do has to be told for it to be said who is below a floor.
const FLOORS_TOLD: f64 = 0.9;

/// Memory of what flows do.
const MEMORY_S: f64 = 0.5;

/// Part of what lacks to the depth by which the trim moves in a period, and the most of it.
const TRIM_GAIN: f64 = 0.1;
const TRIM_MAX: f64 = 1.0;

/// So many steps after the depth changed a period was spent under it as a whole.
const SETTLED: u32 = 2;

/// The depth counts as full from this part of it on.
const FULL: f64 = 0.85;

/// What is given to a host that uses little is this part of an equal part of the depth at least, so
/// that whoever begins there has something until the next step.
const RESERVE: f64 = 0.25;

/// The time in which what waits of a tenant with a target is to be gone.
const DRAIN_S: f64 = 1.0;

/// Tenants with a target may have ahead of their share what they are due in so many seconds: their
/// bursts go first, and others wait at most that much longer.
const LEAD_S: f64 = 0.5;

/// The capacity as a weight: parts of it keep nine digits less those of the smallest.
const WHOLE: f64 = 1e8;

/// The controller. See the [module](self).
#[derive(Clone, Debug)]
pub struct Shares {
    options: SharesOptions,
    /// By flow, in order.
    flows: Vec<Flow>,
    told: Told,
    estimator: Estimator,
    watch: Watch,
    floors: FloorWatch,
    search: PeriodicDepth,
    /// How many requests one of the search's is.
    unit: u32,
    /// The depth in force, and for how many steps it has been.
    depth: u32,
    steps: u32,
    /// Added to the slots, in parts of them.
    trim: f64,
}

impl Shares {
    /// A controller that has seen nothing yet.
    pub fn new(options: SharesOptions) -> Self {
        Self {
            options,
            flows: Vec::new(),
            told: Told::default(),
            estimator: Estimator::default(),
            watch: Watch::default(),
            floors: FloorWatch::default(),
            search: PeriodicDepth::new(options.depth_first, DEPTH_MIN),
            unit: 1,
            depth: options.depth_first,
            steps: 0,
            trim: 0.0,
        }
    }

    /// Takes a period in, smoothed over [`MEMORY_S`]. Hosts of which nothing new was heard are
    /// taken to go on as they did. Says what those did before of which something was.
    fn note_flows(&mut self, view: &View<'_>, period_s: f64) -> Lately {
        let part = period_s / (period_s + MEMORY_S);
        let before = std::mem::take(&mut self.flows);
        let mut before = before.into_iter().peekable();
        let mut lately = Lately::default();
        for known in view.known {
            for (index, told) in known.summary.flows.iter().enumerate() {
                let id = FlowId { host: known.summary.host, tenant: told.tenant };
                while before.next_if(|flow| flow.id < id).is_some() {}
                let seen = seen(id, told, period_s);
                let before = before.next_if(|flow| flow.id == id);
                let rate = before.map_or(0.0, |before| before.rate);
                let is_news = known.is_news_of(index);
                lately.all += rate;
                lately.told += if is_news { rate } else { 0.0 };
                self.flows.push(match before {
                    Some(before) if !is_news => before,
                    Some(before) => before.towards(seen, part),
                    None => seen,
                });
            }
        }
        lately
    }

    /// The depth that the strictest target leaves; infinite without one that can be kept.
    fn depth_of_targets(&self, view: &View<'_>) -> f64 {
        let Some(line) = self.estimator.line() else { return f64::INFINITY };
        let part = self.options.device_part;
        let targets = view.flows().filter_map(|(_, flow)| flow.target);
        let bounds = targets.map(|target| target.device_latency_max_s());
        let bounds = bounds.filter(|bound_s| self.estimator.can_keep(part * bound_s, 1.0));
        let strictest_s = bounds.fold(f64::INFINITY, f64::min);
        if strictest_s.is_finite() {
            line.outstanding(part * strictest_s).max(1.0)
        } else {
            f64::INFINITY
        }
    }

    /// Decides the depth, and goes on with the search where this host leads it.
    fn find_depth(&mut self, view: &View<'_>, sums: &Sums, is_told: bool, bound: f64) {
        let length = self.options.period;
        // Who only looks tells no depth, and leads nobody. Neither does who has just started: what
        // the others have found goes on.
        let leaders = view.known.iter().map(|known| &known.summary).filter(|one| one.depth > 0);
        let leader = leaders.min_by_key(|one| one.leader());
        let is_led = leader.is_some_and(|leader| leader.leader() != view.own);
        if !is_told && !is_led {
            self.search.pause(view.now);
        }
        // What is tried ends at once where not all can follow.
        let told = leader.filter(|_| is_led || is_told).map_or(0, |summary| summary.depth);
        let depth = if told > 0 { told } else { self.depth_next() };
        self.steps = if depth == self.depth { self.steps.saturating_add(1) } else { 0 };
        self.depth = depth;
        if is_led {
            return self.search.follow(depth / self.unit);
        }
        if !is_told {
            return;
        }
        let in_use = sums.slot_time_s / length.as_secs_f64();
        let is_full = sums.is_backlogged && in_use >= FULL * f64::from(depth);
        let asked = sums.asked.filter(|asked| *asked < depth);
        let tells = is_full || asked.is_some();
        if tells && self.steps >= SETTLED && bound > f64::from(depth) {
            let (work, completions) = (Cost(count(sums.work)), count(sums.completions));
            let asked = asked.map(|asked| (asked / self.unit).max(1));
            let period = Period { length, work, completions, asked };
            self.search.note(view.now, period);
        } else {
            self.search.skip(view.now);
        }
    }

    /// What this host would have all hosts have at the device together.
    fn depth_next(&self) -> u32 {
        self.search.depth().saturating_mul(self.unit)
    }

    fn adjust_trim(&mut self, slots_all: f64, in_use: f64, is_short: bool) {
        if is_short && self.steps < SETTLED {
            // What was in use was so under another depth.
        } else if is_short {
            let lacking = (slots_all - in_use) / slots_all;
            self.trim = (self.trim + TRIM_GAIN * lacking).clamp(0.0, TRIM_MAX);
        } else {
            self.trim -= TRIM_GAIN * self.trim;
        }
    }

    /// What this host has of the division of so many slots.
    fn own_part(&self, view: &View<'_>, flows: &[Flow], divided: &Divided, all: f64) -> Division {
        let own = || flows.iter().enumerate().filter(|(_, flow)| flow.id.host == view.own);
        let has_enough = own().all(|(index, _)| !divided.lacks[index]);
        // Bursts of a tenant with a target are not held back as long as it keeps to its share.
        let has_target = own().any(|(_, flow)| flow.offered.is_some());
        let hosts = f64::from(view.hosts());
        let burst = (division::BURSTING / hosts).min(1.0);
        let reserve = if has_target { burst * all } else { RESERVE * all / hosts };
        let slots = if divided.level.is_some() {
            own().map(|(index, _)| divided.slots[index]).sum()
        } else {
            let free = (all - flows.iter().map(|flow| flow.in_use).sum::<f64>()).max(0.0);
            own().map(|(_, flow)| flow.in_use).sum::<f64>() + free
        };
        // While nobody lacks anything all weights are plain shares.
        let level = divided.level.unwrap_or_else(|| 1.0 / shares(flows).max(1.0));
        let capacity: f64 = flows.iter().map(|flow| flow.rate).sum();
        let due = |(index, flow): (usize, &Flow)| {
            let part = divided.level.map_or(level * flow.weight, |_| divided.parts[index]);
            let lead = flow.offered.map_or(0.0, |_| LEAD_S * part * capacity);
            Due {
                tenant: flow.id.tenant,
                weight: weight(part),
                lead: cost(lead),
                limit_ppm: ppm(divided.limits[index]),
            }
        };
        Division {
            slots_milli: milli(if has_enough { f64::max(slots, reserve) } else { slots }),
            due: own().map(due).collect(),
            weight_per_milli: weight(level),
            limit_ppm: ppm(1.0 / hosts),
            depth_next: self.depth_next(),
            below_floor: self.floors.below(),
        }
    }
}

/// How many requests one of the search's is.
fn unit(view: &View<'_>) -> u32 {
    if view.hears_sums() { (view.hosts() / HOSTS_PER_UNIT).max(1).next_power_of_two() } else { 1 }
}

/// A part of the capacity as a weight.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn weight(part: f64) -> u32 {
    (part * WHOLE).clamp(1.0, 1e9) as u32
}

/// A part of a limit in millionths.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn ppm(part: f64) -> u32 {
    (part * 1e6).round().clamp(1.0, 1e6) as u32
}

/// A cost in seconds.
fn cost(seconds: f64) -> Cost {
    Cost(count(seconds * 1e9))
}

/// A whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn count(number: f64) -> u64 {
    number as u64
}

/// Thousandths, at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn milli(slots: f64) -> u64 {
    (slots * 1000.0).round().clamp(1.0, 1e9) as u64
}

/// The shares of all flows, in thousandths.
fn shares(flows: &[Flow]) -> f64 {
    flows.iter().map(|flow| flow.weight).sum()
}

/// What clients ask of a tenant in cost per second, with a part of what waits.
fn offered(summary: &FlowSummary) -> f64 {
    let each_s = Span(summary.cost.0).as_secs_f64() / f64::from(summary.completions.max(1));
    each_s * (f64::from(summary.expected_per_s) + f64::from(summary.queued) / DRAIN_S)
}

fn seen(id: FlowId, summary: &FlowSummary, period_s: f64) -> Flow {
    Flow {
        id,
        weight: f64::from(summary.weight_milli.max(1)),
        rate: Span(summary.cost.0).as_secs_f64() / period_s,
        requests_per_s: f64::from(summary.completions) / period_s,
        in_use: summary.slot_time.as_secs_f64() / period_s,
        backlogged: f64::from(summary.backlogged_percent) / 100.0,
        floor: Span(summary.floor.0).as_secs_f64(),
        is_limited: summary.is_limited,
        offered: summary.target.map(|_| offered(summary)),
        present: f64::from(summary.outstanding) + f64::from(summary.queued),
    }
}

impl Controller for Shares {
    fn period(&self) -> Span {
        self.options.period
    }

    fn step(&mut self, view: &View<'_>) -> Decision {
        let unmet = self.watch.note(view);
        let period_s = self.options.period.as_secs_f64();
        let lately = self.note_flows(view, period_s);
        let told = self.told.note(view, &self.flows, lately);
        let sums = Sums::of(view, period_s, told);
        let is_told = told.is_some();
        if told.is_some_and(|part| part >= FLOORS_TOLD) {
            self.floors.note(view, self.options.period);
        }
        if is_told {
            self.estimator.note(period_s, sums.slot_time_s, sums.completions);
        }
        let bound = self.depth_of_targets(view);
        self.unit = unit(view);
        self.find_depth(view, &sums, is_told, bound);
        let slots_all = f64::from(self.depth).min(bound);
        let flows = std::mem::take(&mut self.flows);
        let all = slots_all * (1.0 + self.trim);
        let division = match divide(&flows, all, view.hosts()) {
            Some(divided) => {
                if is_told {
                    let in_use = sums.slot_time_s / period_s;
                    self.adjust_trim(slots_all, in_use, divided.level.is_some());
                }
                self.own_part(view, &flows, &divided, all)
            }
            None => Division {
                slots_milli: u64::from(self.options.slots_first) * 1000,
                limit_ppm: ppm(1.0 / f64::from(view.hosts())),
                depth_next: self.depth_next(),
                below_floor: self.floors.below(),
                ..Division::default()
            },
        };
        self.flows = flows;
        let slots = u32::try_from(division.slots_milli.div_ceil(1000)).unwrap_or(u32::MAX);
        Decision {
            slots,
            order: Order::Arrival,
            slots_all: super::whole_slots(slots_all),
            unmet,
            division: Some(division),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::peers::Known;
    use super::super::summary::{HostId, Summary};
    use super::*;
    use crate::time::Nanos;

    fn known(host: u32, depth: u32) -> Known {
        let flow = FlowSummary {
            weight_milli: 1000,
            completions: 40,
            cost: Cost(40_000_000),
            slot_time: Span::from_millis(800),
            outstanding: 4,
            queued: 60,
            backlogged_percent: 100,
            ..FlowSummary::default()
        };
        let summary =
            Summary { host: HostId(host), depth, flows: vec![flow], ..Summary::default() };
        Known::whole(summary, 0)
    }

    /// The depth that a host has in force, and what it tells the others.
    fn depths(shares: &mut Shares, known: &[Known]) -> (u32, u32) {
        let view = View { own: HostId(0), now: Nanos::ZERO, known, lost: &[], missing: 0 };
        let decision = shares.step(&view);
        (decision.slots_all, decision.division.map_or(0, |division| division.depth_next))
    }

    #[test]
    fn who_starts_goes_on_with_the_depth_that_the_others_found() {
        let mut shares = Shares::new(SharesOptions::default());
        assert_eq!(depths(&mut shares, &[known(0, 0), known(1, 64)]), (64, 64));
        assert_eq!(depths(&mut shares, &[known(0, 64), known(1, 64)]).0, 64, "and leads");
        let mut first = Shares::new(SharesOptions::default());
        assert_eq!(depths(&mut first, &[known(0, 0), known(1, 0)]), (8, 8), "nobody knows");
    }
}
