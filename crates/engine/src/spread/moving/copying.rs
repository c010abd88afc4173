//! An object on its way is copied, again where clients write meanwhile, until both places are
//! alike.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::super::report::Stuck;
use super::super::rules::Mutant;
use super::super::scribe::Entering;
use super::super::serving::{REST, Serving};
use super::{Job, Phase};
use crate::Refused;
use crate::late::changes_content;
use crate::notes::copying::Copying;
use crate::notes::{Step, StepKind};
use crate::units::{Stage, UnitEntry, UnitTable};

impl Serving {
    /// Begins to move an object, if one of its candidates has room.
    pub(super) fn begin_job(&mut self, now: Nanos, object: u32, from: (usize, u32)) {
        if self.is_stale[from.0] {
            self.mover.stuck = Some(Stuck::Stale(self.server_id(from.0)));
            return self.mover.rest(now + REST);
        }
        if self.is_slot_late(now, from) {
            return self.mover.rest(self.volume.late.until());
        }
        self.end_rests(now);
        if let Err(Refused::Away(keeper)) = self.check_keepers(now) {
            self.mover.stuck = Some(Stuck::Away(keeper));
            return self.mover.rest(now + REST);
        }
        let servers = self.volume.new_candidates(object);
        let servers: Vec<usize> = servers.map(|one| one.expect("members are listed")).collect();
        let picked = self.pick(now, &servers).map(|position| (position, servers[position]));
        let picked = picked.and_then(|(position, to)| match self.take_slot(now, to) {
            Some(slot) => Ok((position, (to, slot))),
            None => Err(to),
        });
        match picked {
            Ok((position, to)) => {
                let copying = Copying::new(self.volume.layout.object_bytes);
                self.mover.job = Some(Job { object, from, to, position, copying });
                self.mover.phase = Phase::Copy;
                self.mover.stuck = None;
                self.report_load(to.0, now);
            }
            Err(server) => {
                let is_full = self.is_full(server);
                let server = self.server_id(server);
                self.mover.stuck =
                    Some(if is_full { Stuck::NoRoom(server) } else { Stuck::Away(server) });
                self.mover.rest(now + REST);
            }
        }
    }

    /// Whether a write to an object has to wait for its move.
    pub(in crate::spread) fn is_held(&self, kind: Kind, object: u32) -> bool {
        changes_content(kind)
            && self.mover.object() == Some(object)
            && self.mover.is_holding()
            && !self.rules.is_broken(Mutant::SkipHold)
    }

    /// Decides on the mover's next step.
    pub(in crate::spread) fn poll_mover(&mut self, now: Nanos, units: &UnitTable) -> Option<Step> {
        let is_idle = !self.mover.is_passing && self.mover.job.is_none();
        if is_idle || self.mover.step.is_some() || !self.may_serve(now) {
            return None;
        }
        if self.mover.phase == Phase::Idle {
            self.begin_next(now);
        }
        let is_late = |job: &Job| [job.from, job.to].iter().any(|one| self.is_slot_late(now, *one));
        if self.is_stoppable() && self.mover.job.as_ref().is_some_and(is_late) {
            self.give_up_move(now);
        }
        let is_stale = |job: &&Job| self.is_stale[job.from.0] || self.is_stale[job.to.0];
        if self.is_stoppable()
            && let Some(job) = self.mover.job.as_ref().filter(is_stale)
        {
            let server = if self.is_stale[job.from.0] { job.from.0 } else { job.to.0 };
            self.fail_move(now, Stuck::Stale(self.server_id(server)), false);
        }
        let late = self.mover.job.as_ref().and_then(|job| job.copying.held_since());
        if self.is_stoppable() && late.is_some_and(|since| now >= since + self.mover.hold_max()) {
            self.give_up_move(now);
        }
        let is_drained = |job: &Job| job.copying.is_drained();
        if self.mover.phase == Phase::Drain && self.mover.job.as_ref().is_some_and(is_drained) {
            self.mover.phase = Phase::Copy;
        }
        while self.mover.phase == Phase::Copy {
            self.choose_copy(now, units);
        }
        self.mover.step = self.wanted();
        self.mover.worked_until = now;
        self.mover.step
    }

    /// Whether the job can still be ended as if it had never begun.
    fn is_stoppable(&self) -> bool {
        matches!(self.mover.phase, Phase::Copy | Phase::Drain | Phase::Read(_) | Phase::Write(_))
    }

    fn wanted(&self) -> Option<Step> {
        let job = self.mover.job.as_ref()?;
        let (kind, (server, slot), run) = match self.mover.phase {
            Phase::Read(run) => (StepKind::Read, job.from, run),
            Phase::Write(run) => (StepKind::Write, job.to, run),
            _ => return None,
        };
        let offset = self.volume.layout.slot_offset(server, slot) + run.offset;
        let tenant = self.mover.held.first().map_or_else(|| self.clerk(), |(_, tenant)| *tenant);
        Some(Step { kind, server: self.server_id(server), offset, length: run.length, tenant })
    }

    /// The mover's step is over.
    pub(in crate::spread) fn copy_ended(&mut self, now: Nanos, ok: bool) {
        let step = self.mover.step.take().expect("a step of the mover is under way");
        self.mover.step_slot = None;
        self.mover.phase = match (self.mover.phase, ok) {
            (Phase::Read(run), true) => Phase::Write(run),
            (Phase::Write(run), true) => {
                let job = self.mover.job.as_mut().expect("something is copied");
                job.copying.copied(run);
                self.mover.copied_bytes += run.length;
                Phase::Copy
            }
            (phase, _) => {
                self.mover.failed += 1;
                let is_read = matches!(phase, Phase::Read(_));
                return self.fail_move(now, Stuck::Away(step.server), is_read);
            }
        };
    }

    /// A flush has failed at a server: what was copied to it may be lost.
    pub(in crate::spread) fn distrust_copy(&mut self, server: usize) {
        let is_there = |job: &&mut Job| job.to.0 == server;
        let Some(job) = self.mover.job.as_mut().filter(is_there) else { return };
        if self.rules.is_broken(Mutant::TrustCopy) {
            return;
        }
        match self.mover.phase {
            Phase::Copy | Phase::Drain | Phase::Read(_) | Phase::Write(_) => {
                job.copying.begin_anew();
            }
            Phase::Entering if self.scribes[server].withdraw_copied() => {
                job.copying.begin_anew();
                self.mover.phase = Phase::Copy;
                self.is_due = true;
            }
            _ => {}
        }
    }

    /// A unit of the object on its way is over.
    pub(in crate::spread) fn copied_unit_ended(&mut self, unit: &UnitEntry, place: (usize, u32)) {
        let copies_once = self.rules.is_broken(Mutant::CopyOnce);
        let Some(job) = self.mover.job.as_mut().filter(|job| job.from == place) else { return };
        if changes_content(unit.ticket.kind) {
            let into = unit.offset - self.volume.layout.slot_offset(place.0, place.1);
            let is_to_copy = unit.stage == Stage::InService && !copies_once;
            let length = unit.ticket.size_bytes;
            self.is_due |= job.copying.write_ended(into, length, is_to_copy);
        }
    }

    /// Says what is copied next, if anything is, or begins to hold writes, or gives up.
    fn choose_copy(&mut self, now: Nanos, units: &UnitTable) {
        let is_again = self.mover.attempts > 0;
        let copying = &mut self.mover.job.as_mut().expect("something is copied").copying;
        if copying.held_since().is_none() {
            if copying.is_nearly_copied() || is_again && copying.has_passed() {
                copying.hold(now);
                return self.drain(units);
            }
            if copying.is_hopeless() {
                return self.give_up_move(now);
            }
        }
        match copying.take_run() {
            Some(run) => self.mover.phase = Phase::Read(run),
            None => self.enter_moved(),
        }
    }

    /// Counts the writes under way, which are waited for.
    fn drain(&mut self, units: &UnitTable) {
        let from = self.mover.job.as_ref().expect("writes are held for a move").from;
        let is_write = |unit: &&UnitEntry| {
            changes_content(unit.ticket.kind) && self.slot_of(unit) == Some(from)
        };
        let writers = units.live().filter(is_write).count();
        let writers = u32::try_from(writers).expect("units are numbered by u32");
        let skips = self.rules.is_broken(Mutant::SkipDrain);
        let job = self.mover.job.as_mut().expect("looked at above");
        job.copying.drain(if skips { 0 } else { writers });
        self.mover.phase = if job.copying.is_drained() { Phase::Copy } else { Phase::Drain };
    }

    /// Both places are alike: the new server is to enter the object.
    fn enter_moved(&mut self) {
        let job = self.mover.job.as_ref().expect("something is copied");
        let (object, (server, slot)) = (job.object, job.to);
        self.volume.sequence += 1;
        let sequence = self.volume.sequence;
        let payer = self.mover.held.first().map_or_else(|| self.clerk(), |(_, tenant)| *tenant);
        let entering = Entering { object, slot, sequence, payer, is_copied: true };
        self.scribes[server].queue.push(entering);
        self.mover.phase = Phase::Entering;
    }
}
