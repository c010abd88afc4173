//! What a lost connection holds up: requests that change bytes which the server may still change.

use std::ops::Range;

use evenkeel_core::id::ServerId;
use evenkeel_core::time::Nanos;

use super::Engine;
use crate::late::changes_content;
use crate::units::{Stage, UnitEntry};

impl Engine {
    /// A server may carry a lost write out until then: what would change the same bytes and is not
    /// with the server yet waits for that.
    pub(super) fn answer_is_late(
        &mut self,
        now: Nanos,
        (server, disk): (ServerId, u64),
        range: &Range<u64>,
        until: Nanos,
    ) {
        if until <= now {
            return;
        }
        self.late.add(now, (server, disk), range, until);
        if let Some(volume) = &mut self.volume {
            volume.add_late(now, server, range, until);
        }
        for unit in self.queued_late(now, server, disk) {
            let slot = unit.request;
            self.requests.entry_mut(slot).cut_again(unit.at);
            let unit = self.take_back(now, unit.ticket.slot);
            if let Some(volume) = &mut self.volume {
                volume.ended(&unit);
            }
            self.enqueue_next(now, slot);
        }
    }

    /// Units in a server's queue that change bytes which a late write may reach.
    fn queued_late(&self, now: Nanos, server: ServerId, disk: u64) -> Vec<UnitEntry> {
        let Self { units, requests, volume, late, .. } = self;
        let is_reached = |unit: &&UnitEntry| {
            let range = unit.offset..unit.offset.saturating_add(unit.ticket.size_bytes);
            late.first_in(now, volume.as_deref(), (server, disk), &range).is_some()
        };
        let queued = units.live().filter(|unit| {
            unit.stage == Stage::Queued
                && unit.server == server
                && changes_content(unit.ticket.kind)
                && (volume.is_some() || requests.entry(unit.request).request.disk == disk)
        });
        queued.filter(is_reached).copied().collect()
    }

    /// What servers may still carry out of the opening of a volume, or of its time before it was
    /// opened anew, is of the volume's concern.
    pub(super) fn pass_on_late(&mut self, now: Nanos) {
        let volume = self.volume.as_mut().expect("it was mounted just now");
        for (server, range, until) in self.late.all(now) {
            volume.add_late(now, server, &range, until);
        }
    }

    /// When requests look again that wait for late writes.
    pub(super) fn late_deadline(&self, now: Nanos) -> Option<Nanos> {
        if !self.late.is_awaited() {
            return None;
        }
        let next_end = match &self.volume {
            Some(volume) => volume.next_late_end(),
            None => self.late.next_end(),
        };
        Some(next_end.unwrap_or(now))
    }

    /// Requests that have waited for late writes look again, oldest first.
    pub(super) fn end_late_waits(&mut self, now: Nanos) {
        self.late.forget(now);
        if let Some(volume) = &mut self.volume {
            volume.forget_late(now);
        }
        for slot in self.late.take_waiters() {
            self.requests.entry_mut(slot).waits_for_late = false;
            self.enqueue_next(now, slot);
            self.finish_if_over(now, slot);
        }
    }
}
