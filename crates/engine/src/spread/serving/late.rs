//! What an earlier process of this gate had under way may still be carried out: clients wait before
//! they write there, and slots that it may reach are left alone.

use evenkeel_core::time::Nanos;

use super::super::moving::changes_content;
use super::super::rules::Mutant;
use super::Serving;
use crate::Request;
use crate::lease::Half;

impl Serving {
    /// How many bytes of a piece of a request may change, from its first one on, before late writes
    /// may come; none if they may not come at all. What gives up an object waits for all of it.
    pub(super) fn bytes_before_late(
        &self,
        now: Nanos,
        request: &Request,
        at: u64,
        place: (usize, u32),
    ) -> Option<u64> {
        let (server, slot) = place;
        let is_free = !changes_content(request.kind)
            || self.is_stale[server]
            || self.volume.late.is_over(now)
            || self.rules.is_broken(Mutant::WriteLate);
        if is_free {
            return None;
        }
        let layout = &self.volume.layout;
        let begins = layout.slot_offset(server, slot);
        let into = (request.offset + at) % layout.object_bytes;
        let length = (request.length - at).min(layout.object_bytes - into);
        let start = begins + into;
        let first = self.volume.late.first_in(now, server, start..start + length)?;
        Some(if self.gives_up(now, request, at) { 0 } else { first - start })
    }

    /// Whether a late write may still reach a slot.
    pub(in crate::spread) fn is_slot_late(&self, now: Nanos, (server, slot): (usize, u32)) -> bool {
        let begins = self.volume.layout.slot_offset(server, slot);
        let range = begins..begins + self.volume.layout.object_bytes;
        self.volume.late.first_in(now, server, range).is_some()
    }

    /// Takes a slot of a server that nothing may reach any more: from this owner's end, which is as
    /// far as can be from what the owner before may still have under way.
    pub(in crate::spread) fn take_slot(&mut self, now: Nanos, server: usize) -> Option<u32> {
        let is_usable = |slot: &&u32| !self.is_slot_late(now, (server, **slot));
        let mut free = self.volume.tables[server].free.iter();
        let is_first =
            self.volume.office.half == Half::First || self.rules.is_broken(Mutant::SameEnd);
        let slot = if is_first { free.find(is_usable) } else { free.rfind(is_usable) };
        let slot = *slot?;
        self.volume.tables[server].free.remove(&slot);
        Some(slot)
    }

    /// Whether a server would have room, but that late writes may still come.
    pub(super) fn is_room_late(&self, now: Nanos, server: usize) -> bool {
        !self.is_full(server)
            && self.volume.tables[server]
                .free
                .iter()
                .any(|slot| self.is_slot_late(now, (server, *slot)))
    }

    /// A request waits until no late writes may come any more.
    pub(super) fn wait_for_late(&mut self, slot: u32) {
        if !self.late_waiters.contains(&slot) {
            self.late_waiters.push(slot);
        }
    }

    /// When requests go on that wait for late writes.
    pub(super) fn late_deadline(&self) -> Option<Nanos> {
        (!self.late_waiters.is_empty()).then_some(self.volume.late.until())
    }

    /// Late writes do not come any more: whoever has waited for them goes on.
    pub(super) fn end_late_writes(&mut self, now: Nanos) {
        if self.volume.late.is_over(now) {
            self.released.append(&mut self.late_waiters);
        }
    }
}
