//! Servers that objects may be placed on, and how full they are: one that could not be written to
//! rests for a while, and one that had no room counts as full for a while, whatever its table says.

use evenkeel_core::id::ServerId;
use evenkeel_core::place::loads::Metrics;
use evenkeel_core::time::Nanos;

use super::super::scribe::Entering;
use super::{FULL, REST, Serving, as_id};

impl Serving {
    /// A server could not be written to: what was to go there goes elsewhere, if it can. The slots
    /// are left alone until the volume is opened anew, as a late write may still come through.
    pub(super) fn rest(&mut self, now: Nanos, index: usize, failed: &[Entering]) {
        self.rest_until[index] = now + REST;
        self.loads.report(as_id(index), Metrics::default());
        for one in failed {
            if one.is_copied {
                self.moved_not_entered(now, one);
            } else if self.grant(now, one.object, one.payer).is_err() {
                let grant = self.grants.remove(&one.object).expect("its entry was asked for");
                // Each finds out by itself what stands in the way.
                self.released.extend(grant.waiters);
            }
        }
    }

    /// A server had no room for a write.
    pub(crate) fn is_out_of_room(&mut self, now: Nanos, server: ServerId) {
        let index = self.index_of(server);
        self.full_until[index] = now + FULL;
        self.report_load(index, now);
    }

    /// Something of a server was discarded: it may have room again.
    pub(in crate::spread) fn has_freed(&mut self, now: Nanos, index: usize) {
        if std::mem::take(&mut self.full_until[index]) > Nanos::ZERO {
            self.report_load(index, now);
        }
    }

    /// Servers that have rested take part again; keepers catch up first. So do those that have been
    /// full for long enough.
    pub(in crate::spread) fn end_rests(&mut self, now: Nanos) {
        for index in 0..self.full_until.len() {
            if now >= self.full_until[index] {
                self.has_freed(now, index);
            }
        }
        for index in 0..self.rest_until.len() {
            let rested = std::mem::take(&mut self.rest_until[index]);
            if rested == Nanos::ZERO || now < rested {
                self.rest_until[index] = rested;
                continue;
            }
            self.report_load(index, now);
            let behind = (0..).zip(&self.volume.pages[index]).zip(&self.volume.versions);
            let behind = behind.filter(|((_, latest), version)| latest.number < **version);
            self.scribes[index].pages.extend(behind.map(|((page, _), _)| page));
            self.write_head_again(index);
            let due = self.later.extract_if(.., |(server, _)| *server == index);
            self.scribes[index].leaving.extend(due.map(|(_, one)| one));
        }
    }

    pub(in crate::spread) fn report_load(&mut self, index: usize, now: Nanos) {
        if self.is_stale[index] || self.volume.away == Some(index) || now < self.rest_until[index] {
            return;
        }
        let object_bytes = self.volume.layout.object_bytes;
        let slots = self.volume.layout.servers[index].slots;
        let used = if self.is_told_full(index) { slots } else { self.used_slots(index) };
        let metrics = Metrics {
            capacity_bytes: u64::from(slots) * object_bytes,
            used_bytes: u64::from(used) * object_bytes,
            ..self.gauges[index].metrics()
        };
        self.loads.report(as_id(index), metrics);
    }

    /// Slots of a server that cannot be taken.
    pub(super) fn used_slots(&self, index: usize) -> u32 {
        if self.volume.away == Some(index) {
            return self.absent;
        }
        self.volume.layout.servers[index].slots - self.volume.tables[index].free.count()
    }

    /// Whether a server has said that it has no room.
    fn is_told_full(&self, index: usize) -> bool {
        self.full_until[index] > Nanos::ZERO
    }

    /// Whether a server has no room below the ceiling, or none at all.
    pub(in crate::spread) fn is_full(&self, index: usize) -> bool {
        self.is_told_full(index)
            || self.used_slots(index) >= self.ceiling_slots(self.volume.layout.servers[index].slots)
    }

    pub(super) fn ceiling_slots(&self, slots: u32) -> u32 {
        let below = u64::from(slots) * u64::from(self.plan.ceiling_milli) / 1000;
        u32::try_from(below).expect("at most all of them")
    }
}
