//! How a lane keeps the owners of its slots ([`crate::slots`]).

use evenkeel_core::control::shared;
use evenkeel_core::id::TenantId;
use evenkeel_core::sched::Scheduler;
use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_core::time::Nanos;

use super::{Lane, Left};
use crate::cost::learned::Learned;
use crate::discipline::Order;
use crate::policy::{Depth, Domain, Mode};
use crate::slots::{Device, Slots};
use crate::units::{Stage, UnitEntry, UnitTable};

impl Lane {
    /// The owners of the slots under this order, if it has a depth of its own to divide. A member
    /// of a volume is one disk for all tenants.
    pub(super) fn slots_for(
        &mut self,
        now: Nanos,
        domain: &Domain,
        order: &Order,
    ) -> Option<Slots> {
        let is_member = domain.tiers.is_some() || domain.spread.is_some();
        let depth = match order {
            _ if is_member || domain.mode != Mode::Enforce => return None,
            Order::Alone { depth, .. } => *depth,
            Order::InAll { .. } => self.scheduling.depth,
            Order::Shared { discipline: shared::Discipline::Weight, slots, .. } => {
                Depth::Requests(*slots)
            }
            Order::Tier { .. } | Order::Shared { .. } => return None,
        };
        let mut slots = self.slots.take().unwrap_or_else(|| Slots::new(now, depth));
        slots.begin_anew(depth);
        Some(slots)
    }

    /// What was parked and may go on goes to the scheduler.
    pub(super) fn release_parked(&mut self, now: Nanos) {
        let Some(slots) = &mut self.slots else { return };
        while let Some(ticket) = slots.release() {
            self.ledger.unparked(now, ticket.tenant);
            self.scheduler.enqueue_held(now, ticket);
        }
    }

    /// Whether the depth is to be divided anew.
    pub(crate) fn is_division_stale(&self, now: Nanos) -> bool {
        let slots = self.slots.as_ref();
        slots.is_some_and(|slots| slots.is_stale(now, self.depth_to_divide(), self.device()))
    }

    /// Divides the depth among those who ask for it. O(flows * log flows + units) at most.
    pub(crate) fn divide(&mut self, now: Nanos, units: &UnitTable) {
        let capacity = self.depth_to_divide();
        let device = self.device();
        let Some(slots) = &mut self.slots else { return };
        if slots.divide(now, capacity, device) {
            self.park_excess(now, units);
        }
        self.release_parked(now);
    }

    /// What is known of the device. If even the greatest depth gains something, it serves many at
    /// once, whatever its times look like: one whose answers come in bursts looks as if it served
    /// one at a time, and one whose depth is the bottleneck as if its tenants shared it.
    fn device(&self) -> Device {
        let learned = self.learned_in_force();
        let top = DepthPolicy::Automatic.units_max(1);
        let found = self.scheduler.depth_found();
        let is_knee = found.is_some_and(|found| found < top);
        Device {
            one_by_one: (found.is_none() || is_knee)
                && learned.is_some_and(Learned::serves_one_by_one),
            is_shared: is_knee && learned.is_some_and(Learned::tenants_share_one_device),
            turn: self.turn(),
        }
    }

    /// The depth in force; none at a store, whose writes wait for room in queues of their own. Of
    /// a greater depth that is only tried nobody gets more: a slow export's requests would outlast
    /// the trial.
    fn depth_to_divide(&self) -> u64 {
        if self.room.is_some() {
            return 0;
        }
        let now = self.scheduler.depth_now();
        self.scheduler.depth_found().map_or(now, |found| now.min(found.into()))
    }

    /// Takes back from the scheduler what those who are held to their part have there beyond it.
    fn park_excess(&mut self, now: Nanos, units: &UnitTable) {
        let Some(slots) = &mut self.slots else { return };
        let is_queued = |unit: &&UnitEntry| unit.stage == Stage::Queued;
        let mut queued: Vec<&UnitEntry> = units.live().filter(is_queued).collect();
        queued.sort_by_key(|unit| std::cmp::Reverse((unit.queued_at, unit.ticket.slot)));
        queued.retain(|unit| slots.park_excess(unit));
        for unit in queued {
            self.unqueue(now, unit.ticket);
            self.ledger.parked(now, unit.ticket.tenant);
        }
    }

    /// Whether somebody may wait for a slot.
    pub(crate) fn waits_for_slots(&self) -> bool {
        let slots = self.slots.as_ref().filter(|slots| !slots.is_settled());
        slots.is_some_and(|slots| slots.parked() + self.scheduler.queued() > 0)
    }

    /// Whether a tenant is held to its part of the slots here.
    pub(crate) fn holds(&self, tenant: TenantId) -> bool {
        self.slots.as_ref().is_some_and(|slots| slots.holds(tenant))
    }

    /// What the second depth holds.
    pub(crate) fn second_depth(&self) -> u64 {
        self.slots.as_ref().map_or(0, Slots::second_depth)
    }

    /// Begins a look at the units in service.
    pub(crate) fn begin_look(&mut self, now: Nanos) {
        if let Some(slots) = &mut self.slots {
            slots.begin_look(now);
        }
    }

    /// Looks at a unit in service.
    pub(crate) fn look(&mut self, now: Nanos, unit: &UnitEntry) {
        if let Some(slots) = &mut self.slots {
            slots.look(now, unit);
        }
    }

    /// Ends the look: what is out for too long leaves the depth.
    pub(crate) fn end_look(&mut self, now: Nanos, units: &UnitTable) {
        let capacity = self.depth_to_divide();
        let Some(slots) = &mut self.slots else { return };
        for unit in slots.end_look(now, capacity) {
            self.leave_depth(now, units.entry(unit).ticket, Left::Unserved);
        }
        self.divide(now, units);
    }
}
