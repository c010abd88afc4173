//! Who may hold how much of the first depth.

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::Floor;
use evenkeel_core::time::{Nanos, Span};

use super::division::{Claim, divide};
use super::flow::Flow;
use super::pace::Quickest;
use super::slot_time::SlotTime;
use super::{Device, Slots, Stage};
use crate::report::SlowReport;
use crate::units::UnitEntry;

/// A shallower depth is there to keep requests apart, and has no second one for slow ones.
const SECOND_DEPTH_MIN: u64 = 4;
/// Whoever was slow is held for so long after that: an export that hangs now and then would take
/// its neighbours' slots each time anew.
const SLOW_MEMORY: Span = Span::from_secs(10);
/// The size of requests for which a floor in bytes is reckoned.
const SMALL_REQUEST_BYTES: u64 = 4096;

/// A division looks at each flow. Beyond so many of them ..
const FLOWS_AT_ONCE: u64 = 64;
/// .. the next one waits for so long for each, so that it takes a small part of the time however
/// many flows there are, and however often one of them asks that has not asked lately.
const PAUSE_PER_FLOW: Span = Span::from_micros(4);

/// What a division works with; kept, so that it allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Flows that ask and do not hang, by tenant, and what each may hold.
    going: Vec<usize>,
    parts: Vec<u64>,
    tenants: Vec<Claim>,
    own: Vec<Claim>,
    order: Vec<usize>,
}

impl Slots {
    /// Whether [`divide`](Self::divide) is to be called with this depth and device.
    pub(crate) fn is_stale(&self, now: Nanos, capacity: u64, device: Device) -> bool {
        let is_due = self.is_stale && now.since(self.divided) >= self.pause();
        is_due || capacity != self.capacity || device != self.device
    }

    /// Time between two divisions at least.
    fn pause(&self) -> Span {
        let many = (self.flows.len() as u64).saturating_sub(FLOWS_AT_ONCE);
        Span(PAUSE_PER_FLOW.0.saturating_mul(many))
    }

    /// Divides a depth of this capacity anew; zero is no depth. True if more of some flow is in
    /// the scheduler than may be: [`park_excess`](Self::park_excess) then. O(flows * log flows).
    pub(crate) fn divide(&mut self, now: Nanos, capacity: u64, device: Device) -> bool {
        (self.is_stale, self.divided) = (false, now);
        self.capacity = capacity;
        self.take_device(device);
        self.is_divided = capacity > 0 && self.has_several_disks(now);
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.going.clear();
        let (mut held, mut quickest, mut quickest_median) = (0, Quickest::NONE, Quickest::NONE);
        for (index, flow) in self.flows.iter_mut().enumerate() {
            (flow.cap, flow.is_second) = (None, false);
            if flow.hanging > 0 {
                // What hangs is where it is, and the others have the rest. It gets no more either
                // where nobody else asks now, or there would be no room for whoever returns.
                held += flow.inside;
                flow.hung_until = now + SLOW_MEMORY;
                flow.cap = (capacity > 0).then(|| (capacity / 4).saturating_sub(flow.away));
            } else if flow.is_active(now) {
                scratch.going.push(index);
            } else {
                continue;
            }
            quickest = quickest.and(index, &flow.pace_at(now));
            quickest_median = quickest_median.and(index, &flow.slot_time.median());
        }
        (self.quickest, self.quickest_median) = (quickest, quickest_median);
        if self.is_divided {
            self.part(&mut scratch, capacity.saturating_sub(held));
            for (&index, &part) in scratch.going.iter().zip(&scratch.parts) {
                self.hold_if_slow(now, index, part);
            }
        }
        self.scratch = scratch;
        self.settle()
    }

    /// What looked slow before this was known need not have been; what hung did hang.
    fn take_device(&mut self, device: Device) {
        let Device { one_by_one, is_shared, .. } = device;
        let before = std::mem::replace(&mut self.device, device);
        self.queue = if one_by_one { self.capacity / self.depth.charge_min() } else { 1 };
        if one_by_one && !before.one_by_one || is_shared && !before.is_shared {
            self.flows.iter_mut().for_each(|flow| flow.slow_until = Nanos::ZERO);
        }
        if is_shared != before.is_shared {
            self.flows.iter_mut().for_each(|flow| flow.slot_time = SlotTime::default());
        }
    }

    fn has_several_disks(&self, now: Nanos) -> bool {
        let mut active = self.flows.iter().filter(|flow| flow.is_active(now));
        let first = active.next().map(|flow| flow.disk);
        active.any(|flow| Some(flow.disk) != first)
    }

    /// Gives a flow its part, and holds it to that if it is slow or was lately.
    fn hold_if_slow(&mut self, now: Nanos, index: usize, part: u64) {
        let (capacity, one) = (self.capacity, self.depth.charge_min());
        let floor_part = self.floor_part(index);
        self.forgive_passed(now, index);
        let is_slow = self.is_slow(now, &self.flows[index]);
        let passed_by = self.passed_by(now, index);
        let flow = &mut self.flows[index];
        flow.part = part;
        let is_known = flow.pace.is_known();
        let has_turn = is_known && self.device.turn == Some(flow.tenant) && now >= flow.hung_until;
        let is_excused = has_turn || is_known && self.device.is_shared;
        let is_slow = is_slow && !is_excused;
        if is_slow && is_known {
            flow.slow_until = now + SLOW_MEMORY;
            flow.passed_by = passed_by.or(flow.passed_by);
        }
        if has_turn || !is_slow && now >= flow.held_until() {
            return;
        }
        let most = if is_known { capacity } else { (capacity / 4).max(one) };
        let part = part.max(floor_part).min(most);
        flow.cap = Some(part.max(one));
        flow.is_second = is_known && part < one && capacity >= SECOND_DEPTH_MIN;
    }

    /// Whether a flow is slow beside the quickest: by its latest answers, or by what its slots are
    /// held by most of the time.
    fn is_slow(&self, now: Nanos, flow: &Flow) -> bool {
        let median = flow.slot_time.median();
        self.is_slow_lately(now, flow)
            || median.is_known() && median.is_slow_beside(self.quickest_median, self.queue)
    }

    pub(super) fn is_slow_lately(&self, now: Nanos, flow: &Flow) -> bool {
        flow.pace_at(now).is_slow_beside(self.quickest, self.queue)
    }

    /// Lets go on what may; true if something inside may not.
    fn settle(&mut self) -> bool {
        let mut has_excess = false;
        for (index, flow) in self.flows.iter().enumerate() {
            has_excess |= flow.cap.is_some_and(|cap| flow.inside > cap);
            if !flow.parked.is_empty() {
                self.to_release.push_back(index);
            }
        }
        has_excess
    }

    /// What the floor of a flow's tenant takes of the depth at the flow's pace (Little's law),
    /// half of it at most. A floor in bytes is taken for one of small requests.
    fn floor_part(&self, index: usize) -> u64 {
        let flow = &self.flows[index];
        let Floor { rate_iops, rate_bytes } = self.floors[flow.tenant.index()];
        let rate = u128::from(rate_iops.max(rate_bytes / SMALL_REQUEST_BYTES));
        let requests = (rate * u128::from(flow.pace.latency().0)).div_ceil(1_000_000_000);
        let amount = requests.saturating_mul(u128::from(self.depth.charge_min()));
        u64::try_from(amount).unwrap_or(u64::MAX).min(self.capacity / 2)
    }

    /// Whether a flow of this tenant is held to its part. O(flows of the tenant).
    pub(crate) fn holds(&self, tenant: TenantId) -> bool {
        self.by_tenant[tenant.index()].iter().any(|index| self.flows[*index].cap.is_some())
    }

    /// The flows that answer like those of another device: they are slow beside the quickest.
    /// O(flows).
    pub(crate) fn slow(&self, now: Nanos) -> Vec<SlowReport> {
        let is_slow = |flow: &&Flow| {
            let is_held = self.is_divided && now < flow.held_until() && flow.hanging == 0;
            is_held && flow.pace.is_known() && self.is_slow(now, flow)
        };
        let report = |flow: &Flow| SlowReport {
            tenant: flow.tenant,
            disk: flow.disk,
            disk_name: String::new(),
            latency: flow.pace_at(now).latency(),
            quickest: self.quickest.latency(),
        };
        self.flows.iter().filter(is_slow).map(report).collect()
    }

    /// Parks this unit, which is in the scheduler, if more of its flow is inside than may be.
    /// Newer ones go first. True if it is to be taken back from the scheduler.
    pub(crate) fn park_excess(&mut self, unit: &UnitEntry) -> bool {
        let Some(place) = self.places.get_mut(unit.ticket.slot as usize) else { return false };
        if place.stage != Stage::Queued {
            return false;
        }
        let flow = &mut self.flows[place.flow];
        if !flow.has_excess(place.amount) {
            return false;
        }
        place.stage = Stage::Parked;
        flow.inside -= place.amount;
        flow.parked_amount += place.amount;
        flow.parked.push_front(unit.ticket);
        self.parked += 1;
        true
    }

    /// Divides so much among flows: to each tenant its part, and that among its flows.
    fn part(&self, scratch: &mut Scratch, capacity: u64) {
        let Scratch { going, parts, tenants, own, order } = scratch;
        let tenant_of = |index: &usize| self.flows[*index].tenant;
        let demand = |index: &usize| self.flows[*index].peak();
        going.sort_unstable_by_key(|index| (tenant_of(index), *index));
        let is_same = |one: &usize, other: &usize| tenant_of(one) == tenant_of(other);
        tenants.clear();
        tenants.extend(going.chunk_by(is_same).map(|flows| {
            let weight = self.weights[tenant_of(&flows[0]).index()];
            Claim::new(weight, flows.iter().map(demand).sum())
        }));
        divide(capacity, tenants, order);
        parts.clear();
        for (flows, whole) in going.chunk_by(is_same).zip(tenants) {
            own.clear();
            own.extend(flows.iter().map(|index| Claim::new(1, demand(index))));
            divide(whole.part, own, order);
            parts.extend(own.iter().map(|claim| claim.part));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::ticket;
    use super::*;
    use crate::policy::Depth;

    /// How often the depth is divided while so many tenants ask once each in a second.
    fn divisions(tenants: u32) -> u32 {
        let mut slots = Slots::new(Nanos::ZERO, Depth::Requests(8));
        for tenant in 0..tenants {
            slots.configure(TenantId(tenant), &evenkeel_core::sched::Share::default());
        }
        let mut count = 0;
        for tenant in 0..tenants {
            let now = Nanos(u64::from(tenant) * 1_000_000_000 / u64::from(tenants));
            let ticket = ticket(tenant, tenant);
            let _ = slots.parks(now, ticket, u64::from(tenant));
            if slots.is_stale(now, 8, Device::default()) {
                let _ = slots.divide(now, 8, Device::default());
                count += 1;
            }
        }
        count
    }

    #[test]
    fn who_asks_first_is_seen_at_once_but_where_many_do() {
        assert_eq!([1, 8, 64].map(divisions), [1, 8, 64]);
        // Each looks at all flows: ten thousand of them are looked at less often.
        assert!(divisions(10_000) < 500, "{}", divisions(10_000));
    }
}
