//! Objects that are given up: a trim of all of an object, or zeroes all over it, give its room
//! back.
//!
//! ```text
//! choice taken back on the keepers -> nothing refers to the slot -> entry cleared -> slot free
//!           reads as before        |           reads bring zeroes, writes wait           | answer
//! ```
//!
//! **Choice before entry:** a choice without an entry would look like a server that has lost an
//! object. What a cut leaves of this order is an entry without a choice, and so the object with
//! what it held; nobody was told that it is gone. The answer waits until the entry is cleared for
//! good: else a cut could bring back what a client knows to be zeroes.
//!
//! A request for many objects gives up up to [`AT_ONCE_MAX`] of them together, so that they share
//! the rounds of notes.

use std::collections::BTreeMap;

use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::place::Place;
use super::rules::Mutant;
use super::scribe::Leaving;
use super::serving::Serving;
use super::volume::Volume;
use crate::Request;
use crate::units::{UnitEntry, UnitTable};

/// Most objects that one request gives up at a time.
const AT_ONCE_MAX: usize = 256;

/// An object that is given up.
#[derive(Debug)]
pub(super) struct Freeing {
    server: usize,
    slot: u32,
    pub(super) stage: Stage,
    /// Who asked first.
    payer: TenantId,
    /// Requests that wait for it.
    pub(super) waiters: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The keepers are to note this version of its page.
    Unchoosing { version: u64 },
    /// Nothing may refer to its slot, then its server is to clear the entry.
    Clearing,
    /// It could not be noted; nobody knows what would be found later.
    InDoubt,
}

/// A slot that is left as soon as nothing refers to it.
#[derive(Debug)]
pub(super) struct Vacating {
    /// Requests that do.
    units: u32,
    leaving: Leaving,
}

/// Slots that are left, by server and slot.
pub(super) type Vacatings = BTreeMap<(usize, u32), Vacating>;

impl Serving {
    /// Whether a request gives up the object that lies after `at` bytes of it.
    pub(super) fn gives_up(&self, now: Nanos, request: &Request, at: u64) -> bool {
        let object_bytes = self.volume.layout.object_bytes;
        let is_kind = match request.kind {
            Kind::Trim => true,
            Kind::WriteZeroes => !request.keeps_room,
            _ => false,
        };
        let is_whole = (request.offset + at).is_multiple_of(object_bytes)
            && request.length - at >= object_bytes;
        is_kind && is_whole && self.check_keepers(now).is_ok()
    }

    /// Begins to give up the objects that lie wholly in what is left of a request.
    pub(super) fn give_up(&mut self, now: Nanos, request: &Request, at: u64, payer: TenantId) {
        let first = self.object_of(request.offset + at);
        let count = (request.length - at) / self.volume.layout.object_bytes;
        let objects = (u64::from(first)..u64::from(first) + count).take(AT_ONCE_MAX);
        let objects = objects.map(|object| u32::try_from(object).expect("within the volume"));
        let mut begun = Vec::new();
        for object in objects {
            if let Some((server, slot)) = self.volume.places.get(object).get()
                && !self.freeings.contains_key(&object)
                && !self.is_stale[server]
                && !self.is_slot_late(now, (server, slot))
                && self.mover.may_give_up(object)
            {
                self.volume.choices.set(u64::from(object), None);
                begun.push((object, server, slot));
            }
        }
        self.note_choices(Some(payer));
        for (object, server, slot) in begun {
            let version = self.volume.versions[Volume::page_of(object) as usize];
            let stage = Stage::Unchoosing { version };
            self.freeings.insert(object, Freeing { server, slot, stage, payer, waiters: vec![] });
            if self.rules.is_broken(Mutant::ClearFirst) {
                let payer = Some(payer);
                let leaving = Leaving { object, slot, payer, is_discarded: false };
                self.scribes[server].leaving.push(leaving);
            }
        }
        self.is_due = true;
    }

    /// Goes on with every object whose choice is taken back on all keepers that are at work.
    pub(super) fn count_unchosen(&mut self, now: Nanos, units: &UnitTable) {
        let noted = self.freeings.iter().filter_map(|(object, freeing)| {
            let Stage::Unchoosing { version } = freeing.stage else { return None };
            self.is_noted(now, *object, version).map(|is_known| (*object, is_known))
        });
        for (object, is_known) in noted.collect::<Vec<_>>() {
            let freeing = self.freeings.get_mut(&object).expect("found above");
            if !is_known {
                freeing.stage = Stage::InDoubt;
                self.released.append(&mut freeing.waiters);
                continue;
            }
            freeing.stage = Stage::Clearing;
            let (server, slot, payer) = (freeing.server, freeing.slot, Some(freeing.payer));
            self.count_to_move(object, false);
            self.volume.places.set(object, Place::NOWHERE);
            self.placed -= 1;
            let leaving = Leaving { object, slot, payer, is_discarded: false };
            if self.rules.is_broken(Mutant::SkipClear) {
                self.volume.tables[server].enter(slot, None);
                self.left(now, server, &leaving);
            } else if !self.rules.is_broken(Mutant::ClearFirst) {
                self.vacate(server, leaving, units);
            }
        }
    }

    /// Has a slot cleared once nothing refers to it.
    pub(super) fn vacate(&mut self, server: usize, leaving: Leaving, units: &UnitTable) {
        let place = (server, leaving.slot);
        let refers = |unit: &&UnitEntry| self.slot_of(unit) == Some(place);
        let count = units.live().filter(refers).count();
        if count == 0 {
            self.scribes[server].leaving.push(leaving);
            self.is_due = true;
        } else {
            let units = u32::try_from(count).expect("units are numbered by u32");
            self.vacatings.insert(place, Vacating { units, leaving });
        }
    }

    /// A unit is over, be it that the backend has answered or that it was taken back.
    pub(crate) fn ended(&mut self, unit: &UnitEntry) {
        if self.vacatings.is_empty() && self.mover.object().is_none() {
            return;
        }
        let Some(place) = self.slot_of(unit) else { return };
        self.copied_unit_ended(unit, place);
        if let Some(vacating) = self.vacatings.get_mut(&place) {
            vacating.units -= 1;
            if vacating.units == 0 {
                let gone = self.vacatings.remove(&place).expect("found above");
                self.scribes[place.0].leaving.push(gone.leaving);
                self.is_due = true;
            }
        }
    }

    /// A slot is cleared: it may be taken again, and its object begins anew.
    pub(super) fn left(&mut self, now: Nanos, server: usize, one: &Leaving) {
        if one.is_discarded {
            self.volume.tables[server].free.insert(one.slot);
            self.report_load(server, now);
        }
        if let Some(freeing) = self.freeings.remove(&one.object) {
            self.freed += 1;
            self.released.extend(freeing.waiters);
        } else {
            self.mover.departed(one.object);
        }
    }

    /// Of a slot nobody knows whether it is cleared. Of an object that lies elsewhere that is done
    /// again later.
    pub(super) fn not_left(&mut self, server: usize, one: Leaving) {
        if let Some(freeing) = self.freeings.get_mut(&one.object) {
            freeing.stage = Stage::InDoubt;
            self.released.append(&mut freeing.waiters);
        } else {
            self.later.push((server, one));
        }
    }

    /// The server and slot that a unit refers to, unless that is what the volume notes.
    pub(super) fn slot_of(&self, unit: &UnitEntry) -> Option<(usize, u32)> {
        let server = self.index_of(unit.server);
        let layout = &self.volume.layout;
        let into = unit.offset.checked_sub(layout.servers[server].data_offset)?;
        let slot = u32::try_from(into / layout.object_bytes).ok()?;
        Some((server, slot))
    }
}
