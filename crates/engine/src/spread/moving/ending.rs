//! How the move of an object ends: the new place is in force, or all is as if it had never begun.

use evenkeel_core::time::{Nanos, Span};

use super::super::place::Place;
use super::super::report::Stuck;
use super::super::rules::Mutant;
use super::super::scribe::{Entering, Leaving};
use super::super::serving::{REST, Serving};
use super::super::volume::Volume;
use super::{Job, Phase};
use crate::units::UnitTable;

/// After an attempt that clients were too fast for, the next one begins so much later.
const PAUSE: Span = Span::from_secs(1);

impl Serving {
    /// An object that moves is entered on its new server: now its choice.
    pub(in crate::spread) fn moved_entered(
        &mut self,
        now: Nanos,
        one: &Entering,
        units: &UnitTable,
    ) {
        let job = self.mover.job.as_ref().expect("it was entered for a move");
        let (object, position) = (job.object, job.position);
        assert!(object == one.object, "one object moves at a time");
        self.volume.choices.set(u64::from(object), Some(position));
        self.volume.left[Volume::page_of(object) as usize] -= 1;
        let payer = self.mover.held.first().map(|(_, tenant)| *tenant);
        self.note_choices(payer);
        let version = self.volume.versions[Volume::page_of(object) as usize];
        self.mover.phase = Phase::Choosing { version };
        if self.rules.is_broken(Mutant::SkipChoice) {
            self.switch(units);
        } else {
            self.count_moved(now, units);
        }
    }

    /// Goes on with the object whose choice all keepers have that are at work.
    pub(in crate::spread) fn count_moved(&mut self, now: Nanos, units: &UnitTable) {
        let Phase::Choosing { version } = self.mover.phase else { return };
        let object = self.mover.object().expect("a choice is of a job");
        match self.is_noted(now, object, version) {
            None => {}
            Some(true) => self.switch(units),
            Some(false) => {
                self.mover.phase = Phase::InDoubt;
                self.released.extend(self.mover.held.drain(..).map(|(slot, _)| slot));
            }
        }
    }

    /// The new place is in force.
    fn switch(&mut self, units: &UnitTable) {
        let Job { object, from, to, .. } = self.end_job();
        self.mover.phase = Phase::Idle;
        self.mover.attempts = 0;
        self.mover.moved += 1;
        self.mover.to_move = self.mover.to_move.saturating_sub(1);
        self.volume.places.set(object, Place::new(to.0, to.1));
        self.mover.departing.insert(object);
        let leaving = Leaving { object, slot: from.1, payer: None, is_discarded: false };
        self.vacate(from.0, leaving, units);
    }

    /// The object could not be entered on its new server.
    pub(in crate::spread) fn moved_not_entered(&mut self, now: Nanos, one: &Entering) {
        self.mover.haunted.insert(one.object);
        self.mover.failed += 1;
        let to = self.mover.job.as_ref().expect("it was entered for a move").to.0;
        self.fail_move(now, Stuck::Away(self.server_id(to)), false);
    }

    /// Clients are too fast: another time.
    pub(super) fn give_up_move(&mut self, now: Nanos) {
        let (server, slot) = self.end_job().to;
        self.volume.tables[server].free.insert(slot);
        self.report_load(server, now);
        self.mover.given_up += 1;
        self.mover.attempts += 1;
        self.mover.rest(now + PAUSE);
        self.is_due = true;
    }

    /// A step failed, or may not be made, before the object was entered.
    pub(super) fn fail_move(&mut self, now: Nanos, why: Stuck, was_read: bool) {
        let Job { to: (server, slot), copying, .. } = self.end_job();
        if was_read && copying.copied_bytes() == 0 {
            self.volume.tables[server].free.insert(slot);
            self.report_load(server, now);
        }
        self.mover.stuck = Some(why);
        self.mover.rest(now + REST);
    }

    fn end_job(&mut self) -> Job {
        self.released.extend(self.mover.held.drain(..).rev().map(|(slot, _)| slot));
        self.mover.job.take().expect("an object is on its way")
    }
}
