//! Where requests wait before they may queue at a device: the window and the limits.
//!
//! Of a tenant's requests, in order of arrival, at most a window's worth are queued at devices or
//! in service. The others wait here, whichever device they are for:
//!
//! ```text
//!                  window of 4: two in service, two queued
//! arrivals  -->  [ f s f f s ]  -->  slow [ s s ]  (in service)
//!                 front queue        fast [ ]      (f f in service)
//!                                          ^ has room, yet the next f waits behind the window
//! ```
//!
//! So a tenant whose requests are stuck on one device comes to a stop on the others too, and its
//! progress on all of them is one. That is what makes the order of virtual times hold across
//! devices: without it, a tenant far ahead would never feel it on a device with room.
//!
//! The tenant's limit acts at the same place, over all devices together.

use super::super::bucket::Buckets;
use super::super::heap::IndexedHeap;
use super::super::queues::Queues;
use super::super::{Limit, Share};
use crate::id::TenantId;
use crate::share::{DEVICES_MAX, DeviceId};
use crate::ticket::Ticket;
use crate::time::{Nanos, Span};

/// A ticket and the device it is for.
pub(super) type Bound = (Ticket, DeviceId);

/// The front queues of all tenants.
#[derive(Clone, Debug)]
pub(super) struct Front {
    window: u32,
    gates: Vec<Gate>,
    waiting: Queues<Bound>,
    /// Tenants with tickets waiting and room in the window, by when the first may pass.
    due: IndexedHeap<(Nanos, u32)>,
    held_by_device: [usize; DEVICES_MAX],
}

/// One tenant.
#[derive(Clone, Debug, Default)]
struct Gate {
    /// Nothing for a tenant that never had a limit.
    buckets: Option<Box<Buckets>>,
    /// Tickets past the gate and not complete.
    admitted: u32,
    /// Whether it is the limit that holds the first of those that wait.
    is_throttled: bool,
    /// Tickets that wait, by device.
    held: [u32; DEVICES_MAX],
    /// Request-time that the limit has held, by device, until `changed`.
    throttled: [Span; DEVICES_MAX],
    changed: Nanos,
}

impl Gate {
    fn ready_at(&mut self, now: Nanos, ticket: &Ticket) -> Nanos {
        self.buckets.as_mut().map_or(now, |buckets| buckets.ready_at(now, ticket))
    }

    fn admit(&mut self, now: Nanos, ticket: &Ticket) {
        if let Some(buckets) = &mut self.buckets {
            buckets.take(now, ticket);
        }
        self.admitted += 1;
    }

    fn set_limit(&mut self, now: Nanos, limit: Limit) {
        match &mut self.buckets {
            Some(buckets) => buckets.change(now, limit),
            none => *none = Buckets::new(now, limit).map(Box::new),
        }
    }

    /// Request-time that the limit has held of those for a device.
    fn throttled(&self, now: Nanos, device: usize) -> Span {
        let waiting = if self.is_throttled { u64::from(self.held[device]) } else { 0 };
        self.throttled[device] + Span(now.since(self.changed).0.saturating_mul(waiting))
    }

    /// Brings the throttled time up to now; to be called before anything changes.
    fn account(&mut self, now: Nanos) {
        for device in 0..DEVICES_MAX {
            self.throttled[device] = self.throttled(now, device);
        }
        self.changed = now;
    }
}

impl Front {
    /// Front queues with this window, at least 1, and no tenant yet.
    pub(super) fn new(window: u32) -> Self {
        Self {
            window: window.max(1),
            gates: Vec::new(),
            waiting: Queues::default(),
            due: IndexedHeap::default(),
            held_by_device: [0; DEVICES_MAX],
        }
    }

    /// Adds a tenant or changes its limit, which holds at once.
    pub(super) fn configure(&mut self, now: Nanos, tenant: TenantId, share: &Share) {
        let tenants = self.gates.len().max(tenant.index() + 1);
        self.gates.resize_with(tenants, Gate::default);
        self.waiting.reserve_tenants(tenants);
        self.due.reserve_ids(tenants);
        self.gates[tenant.index()].set_limit(now, share.limit);
        self.place_head(now, tenant);
    }

    /// Lets a ticket pass at once, or keeps it. Whether it passed.
    pub(super) fn pass(&mut self, now: Nanos, (ticket, device): Bound) -> bool {
        let index = ticket.tenant.index();
        let gate = &mut self.gates[index];
        if gate.admitted < self.window
            && self.waiting.len_of(index) == 0
            && gate.ready_at(now, &ticket) <= now
        {
            gate.admit(now, &ticket);
            return true;
        }
        gate.account(now);
        gate.held[device.index()] += 1;
        self.held_by_device[device.index()] += 1;
        self.waiting.push(index, (ticket, device));
        if self.waiting.len_of(index) == 1 {
            self.place_head(now, ticket.tenant);
        }
        false
    }

    /// The next ticket that may pass by now.
    pub(super) fn release(&mut self, now: Nanos) -> Option<Bound> {
        let ((ready_at, _), tenant) = self.due.peek()?;
        if ready_at > now {
            return None;
        }
        let (ticket, device) =
            self.waiting.pop(tenant as usize).expect("a tenant that is due has a ticket waiting");
        self.forget(now, &(ticket, device));
        self.gates[tenant as usize].admit(now, &ticket);
        self.place_head(now, TenantId(tenant));
        Some((ticket, device))
    }

    /// A ticket that had passed is complete, or taken back.
    pub(super) fn leave(&mut self, now: Nanos, tenant: TenantId) {
        let gate = &mut self.gates[tenant.index()];
        gate.admitted =
            gate.admitted.checked_sub(1).expect("a ticket leaves once, after it passed");
        // With more room than one, the head waits for its tokens, and has its place already.
        if gate.admitted + 1 == self.window {
            self.place_head(now, tenant);
        }
    }

    /// Takes back a ticket that waits here for a device; false if it does not. Slots are unique by
    /// device. O(tickets of that tenant).
    pub(super) fn remove(&mut self, now: Nanos, (ticket, device): Bound) -> bool {
        let same = |(queued, to): &Bound| queued.slot == ticket.slot && *to == device;
        let removed = self.waiting.remove(ticket.tenant.index(), same, |_, _| ());
        let Some(bound) = removed else { return false };
        self.forget(now, &bound);
        self.place_head(now, ticket.tenant);
        true
    }

    /// Takes back all tickets of a tenant that wait here for a device. O(tickets of that tenant).
    pub(super) fn drain(&mut self, now: Nanos, tenant: TenantId, device: DeviceId) -> Vec<Ticket> {
        let mut drained = Vec::new();
        for _ in 0..self.waiting.len_of(tenant.index()) {
            let bound = self.waiting.pop(tenant.index()).expect("as many as counted");
            if bound.1 == device {
                self.forget(now, &bound);
                drained.push(bound.0);
            } else {
                self.waiting.push(tenant.index(), bound);
            }
        }
        self.place_head(now, tenant);
        drained
    }

    /// When the next ticket may pass.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.due.peek().map(|((ready_at, _), _)| ready_at)
    }

    /// Tickets that wait here for a device.
    pub(super) fn held(&self, device: DeviceId) -> usize {
        self.held_by_device[device.index()]
    }

    /// Whether the tenant has tickets past the gate that are not complete.
    pub(super) fn has_admitted(&self, tenant: usize) -> bool {
        self.gates[tenant].admitted > 0
    }

    /// Request-time that the tenant's limit has held of those for a device.
    pub(super) fn throttled(&self, now: Nanos, tenant: TenantId, device: DeviceId) -> Span {
        let gate = self.gates.get(tenant.index());
        gate.map_or(Span::ZERO, |gate| gate.throttled(now, device.index()))
    }

    /// A ticket no longer waits here.
    fn forget(&mut self, now: Nanos, (ticket, device): &Bound) {
        let gate = &mut self.gates[ticket.tenant.index()];
        gate.account(now);
        gate.held[device.index()] -= 1;
        self.held_by_device[device.index()] -= 1;
    }

    /// Puts the tenant where the first of its waiting tickets belongs.
    fn place_head(&mut self, now: Nanos, tenant: TenantId) {
        let gate = &mut self.gates[tenant.index()];
        gate.account(now);
        gate.is_throttled = false;
        match self.waiting.front(tenant.index()) {
            Some((head, _)) if gate.admitted < self.window => {
                let ready_at = gate.ready_at(now, head);
                gate.is_throttled = ready_at > now;
                self.due.set(tenant.0, (ready_at, tenant.0));
            }
            _ => self.due.remove(tenant.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::ticket;

    const SECOND: u64 = 1_000_000_000;

    fn front(window: u32, limit: Limit) -> Front {
        let mut front = Front::new(window);
        let share = Share { limit, ..Share::default() };
        front.configure(Nanos(0), TenantId(0), &share);
        front
    }

    fn bound(slot: u32, device: u8) -> Bound {
        (ticket(0, slot), DeviceId(device))
    }

    #[test]
    fn what_is_beyond_the_window_waits_in_order_of_arrival() {
        let mut front = front(2, Limit::default());
        let passed = [0, 1, 2, 3].map(|slot| front.pass(Nanos(0), bound(slot, 0)));
        assert_eq!(passed, [true, true, false, false]);
        assert!(!front.pass(Nanos(0), bound(4, 1)), "for another device, yet behind");
        assert_eq!((front.held(DeviceId(0)), front.held(DeviceId(1))), (2, 1));
        assert_eq!(front.release(Nanos(0)), None);
        (0..2).for_each(|_| front.leave(Nanos(1), TenantId(0)));
        let released = [(); 3].map(|()| front.release(Nanos(1)));
        assert_eq!(released, [Some(bound(2, 0)), Some(bound(3, 0)), None]);
    }

    #[test]
    fn a_limit_holds_over_all_devices_and_counts_where_they_wait() {
        let mut front = front(8, Limit { rate_iops: 10, burst_requests: 2, ..Limit::default() });
        let passed = [0, 1, 0, 1].map(|device| front.pass(Nanos(0), bound(0, device)));
        assert_eq!(passed, [true, true, false, false]);
        assert_eq!(front.next_at(), Some(Nanos(SECOND / 10)));
        assert_eq!(front.release(Nanos(SECOND / 10)), Some(bound(0, 0)));
        assert_eq!(front.release(Nanos(SECOND / 10)), None);
        let throttled = |device| front.throttled(Nanos(SECOND / 5), TenantId(0), DeviceId(device));
        assert_eq!([0, 1].map(throttled), [Span(SECOND / 10), Span(SECOND / 5)]);
    }

    #[test]
    fn waiting_for_the_window_is_not_throttled() {
        let mut front = front(1, Limit { rate_iops: 1, burst_requests: 2, ..Limit::default() });
        let passed = [0, 1, 2].map(|slot| front.pass(Nanos(0), bound(slot, 0)));
        assert_eq!(passed, [true, false, false]);
        assert_eq!(front.throttled(Nanos(SECOND), TenantId(0), DeviceId(0)), Span::ZERO);
        front.leave(Nanos(SECOND), TenantId(0));
        assert_eq!(front.release(Nanos(SECOND)), Some(bound(1, 0)));
    }

    #[test]
    fn what_is_removed_or_drained_never_passes() {
        let mut front = front(1, Limit::default());
        for slot in 0..6 {
            front.pass(Nanos(0), bound(slot, u8::from(slot % 2 == 0)));
        }
        assert!(front.remove(Nanos(0), bound(1, 0)));
        assert!(!front.remove(Nanos(0), bound(2, 0)), "that slot waits for the other device");
        assert!(!front.remove(Nanos(0), bound(0, 1)), "passed already");
        assert_eq!(front.drain(Nanos(0), TenantId(0), DeviceId(1)), [ticket(0, 2), ticket(0, 4)]);
        front.leave(Nanos(0), TenantId(0));
        assert_eq!(front.release(Nanos(0)), Some(bound(3, 0)));
        assert_eq!([0, 1].map(|device| front.held(DeviceId(device))), [1, 0]);
    }
}
