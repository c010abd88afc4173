//! Slots that a late write may still reach are left alone: no object of them is given up or moved,
//! and none is put there. What clients write to such bytes waits before it is queued.

use evenkeel_core::time::Nanos;

use super::super::rules::Mutant;
use super::Serving;
use crate::lease::{Half, LateWrites};

impl Serving {
    /// What late writes may still reach. A test may have clients write there.
    pub(crate) fn late(&self) -> Option<&LateWrites> {
        (!self.rules.is_broken(Mutant::WriteLate)).then_some(&self.volume.late)
    }

    /// The same, to be changed; what moves looks at it again.
    pub(crate) fn late_mut(&mut self) -> &mut LateWrites {
        self.is_due = true;
        &mut self.volume.late
    }

    /// Whether a late write may still reach a slot.
    pub(in crate::spread) fn is_slot_late(&self, now: Nanos, (server, slot): (usize, u32)) -> bool {
        let begins = self.volume.layout.slot_offset(server, slot);
        let range = begins..begins + self.volume.layout.object_bytes;
        self.volume.late.reaches(now, server, &range)
    }

    /// Whether the object in a slot is not given up yet, since a late write may still reach it.
    pub(super) fn must_stay(&self, now: Nanos, place: (usize, u32)) -> bool {
        self.is_slot_late(now, place)
            && !self.is_stale[place.0]
            && !self.rules.is_broken(Mutant::WriteLate)
    }

    /// Takes a slot of a server that nothing may reach any more: from this owner's end, which is as
    /// far as can be from what the owner before may still have under way.
    pub(in crate::spread) fn take_slot(&mut self, now: Nanos, server: usize) -> Option<u32> {
        let is_usable = |slot: &u32| !self.is_slot_late(now, (server, *slot));
        let is_first =
            self.volume.office.half == Half::First || self.rules.is_broken(Mutant::SameEnd);
        let slot = {
            let mut free = self.volume.tables[server].free.iter();
            if is_first { free.find(is_usable) } else { free.rfind(is_usable) }
        }?;
        self.volume.tables[server].free.remove(slot);
        Some(slot)
    }

    /// Whether a server would have room, but that late writes may still come.
    pub(super) fn is_room_late(&self, now: Nanos, server: usize) -> bool {
        !self.is_full(server)
            && self.volume.tables[server]
                .free
                .iter()
                .any(|slot| self.is_slot_late(now, (server, slot)))
    }

    /// A request waits until no late writes may come any more.
    pub(super) fn wait_for_late(&mut self, slot: u32) {
        if !self.late_waiters.contains(&slot) {
            self.late_waiters.push(slot);
        }
    }

    /// When requests go on that wait for late writes.
    pub(super) fn late_deadline(&self) -> Option<Nanos> {
        let is_awaited = !self.late_waiters.is_empty();
        is_awaited.then(|| self.volume.late.next_end().unwrap_or(Nanos::ZERO))
    }

    /// Some late writes do not come any more: whoever has waited for them looks again.
    pub(super) fn end_late_writes(&mut self, now: Nanos) {
        if self.late_deadline().is_some_and(|end| end <= now) {
            self.volume.late.forget(now);
            self.released.append(&mut self.late_waiters);
        }
    }
}
