//! What is out for too long leaves the first depth for the second.

use evenkeel_core::id::TenantId;
use evenkeel_core::time::{Nanos, Span};

use super::flow::Flow;
use super::{Place, Slots, Stage};
use crate::report::HangingReport;
use crate::units::UnitEntry;

/// A request that is out for less than this never leaves the depth.
const OVERDUE_MIN: Span = Span::from_secs(1);
/// Nor one that is out for less than so many medians.
const OVERDUE_MEDIANS: u64 = 8;
/// Latest latencies of which the median is taken.
const SAMPLES: usize = 64;
/// The greatest demand is remembered for one to two of these.
const PEAK_PERIOD: Span = Span::from_millis(500);

/// The latest latencies of a server.
#[derive(Debug)]
pub(super) struct Latencies {
    latest: [Span; SAMPLES],
    answers: usize,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { latest: [Span::ZERO; SAMPLES], answers: 0 }
    }
}

impl Latencies {
    pub(super) fn add(&mut self, latency: Span) {
        self.latest[self.answers % SAMPLES] = latency;
        self.answers += 1;
    }

    /// After so long a request is overdue.
    fn patience(&self) -> Span {
        let mut sorted = self.latest;
        let known = &mut sorted[..self.answers.min(SAMPLES)];
        known.sort_unstable();
        let median = known.get(known.len() / 2).copied().unwrap_or(Span::ZERO);
        OVERDUE_MIN.max(Span(median.0.saturating_mul(OVERDUE_MEDIANS)))
    }
}

impl Slots {
    /// Begins a look at all units in service.
    pub(crate) fn begin_look(&mut self, now: Nanos) {
        self.overdue.clear();
        self.youngest = None;
        let is_new_period = now.since(self.peaks_since) >= PEAK_PERIOD;
        if is_new_period {
            self.peaks_since = now;
        }
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
            flow.oldest = None;
            if is_new_period {
                flow.peaks = [flow.demand(), flow.peaks[0]];
                flow.slot_time.fade();
            }
            if flow.is_forgotten(now) {
                self.forget(index);
            }
        }
    }

    /// Looks at a unit in service.
    pub(crate) fn look(&mut self, now: Nanos, unit: &UnitEntry) {
        let Some(place) = self.places.get(unit.ticket.slot as usize) else { return };
        if !matches!(place.stage, Stage::InDepth | Stage::Away | Stage::Hanging) {
            return;
        }
        let sent = unit.dispatched_at;
        self.youngest = self.youngest.max(Some(sent));
        let oldest = &mut self.flows[place.flow].oldest;
        *oldest = Some(oldest.map_or(sent, |other| other.min(sent)));
        if place.stage != Stage::Hanging && now.since(sent) > OVERDUE_MIN {
            self.overdue.push((sent, unit.ticket.slot));
        }
    }

    /// Ends the look: which units leave a depth of this capacity, longest out first.
    pub(crate) fn end_look(&mut self, now: Nanos, capacity: u64) -> Vec<u32> {
        self.is_stale = true;
        let patience = self.latencies.patience();
        self.is_settled = self.youngest.is_none_or(|sent| now.since(sent) > patience);
        let mut overdue = std::mem::take(&mut self.overdue);
        overdue.retain(|(sent, _)| now.since(*sent) > patience);
        overdue.sort_unstable();
        if !self.is_divided {
            return Vec::new();
        }
        let units = overdue.into_iter().map(|(_, unit)| unit);
        units.filter(|unit| self.leaves(now, *unit, capacity)).collect()
    }

    /// Whether another look may change something although nothing comes or goes.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled || !self.is_divided
    }

    /// Notes that a unit is out for too long. True if it leaves the first depth for that, for the
    /// second has room for it.
    fn leaves(&mut self, now: Nanos, unit: u32, capacity: u64) -> bool {
        let Place { flow, amount, stage } = self.places[unit as usize];
        if stage == Stage::Away {
            self.places[unit as usize].stage = Stage::Hanging;
            self.flows[flow].hanging += 1;
            return false;
        }
        let fits = self.fits_second(now, self.flows[flow].tenant, amount, capacity);
        if fits {
            self.flows[flow].hanging += 1;
            self.send_away(unit as usize, Stage::Hanging);
        }
        fits
    }

    /// A unit leaves the first depth.
    pub(super) fn send_away(&mut self, unit: usize, stage: Stage) {
        let place = &mut self.places[unit];
        place.stage = stage;
        let flow = &mut self.flows[place.flow];
        flow.inside -= place.amount;
        flow.away += place.amount;
        self.away += place.amount;
        self.in_depth -= place.amount;
    }

    /// Whether so much more of a tenant fits into the second depth.
    fn fits_second(&self, now: Nanos, tenant: TenantId, amount: u64, capacity: u64) -> bool {
        let flows_of = |tenant: TenantId| {
            self.by_tenant[tenant.index()].iter().map(|index| &self.flows[*index])
        };
        let own: u64 = flows_of(tenant).map(|flow| flow.away).sum();
        let others = self.away - own;
        if self.away + amount > capacity.max(amount) {
            return false;
        }
        let tenants = (0..).map(TenantId).take(self.weights.len());
        let is_active = |other: &TenantId| flows_of(*other).any(|flow| flow.is_active(now));
        let weight_of = |tenant: TenantId| u128::from(self.weights[tenant.index()]);
        let weights: u128 = tenants.filter(is_active).map(weight_of).sum();
        let share = u128::from(capacity) * weight_of(tenant) / weights.max(weight_of(tenant));
        let share = u64::try_from(share).expect("at most the capacity");
        own == 0 || own + amount <= share.min(capacity.saturating_sub(others) / 2)
    }

    /// Flows that hang.
    pub(crate) fn hanging(&self, now: Nanos) -> Vec<HangingReport> {
        let report = |flow: &Flow| HangingReport {
            tenant: flow.tenant,
            disk: flow.disk,
            disk_name: String::new(),
            requests: u64::from(flow.in_service),
            oldest: flow.oldest.map_or(Span::ZERO, |sent| now.since(sent)),
        };
        let patience = self.latencies.patience();
        let hangs = |flow: &&Flow| flow.oldest.is_some_and(|sent| now.since(sent) > patience);
        self.flows.iter().filter(hangs).map(report).collect()
    }
}
