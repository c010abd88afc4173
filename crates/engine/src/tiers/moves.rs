//! One extent on its way to another slot, step by step, so that a power cut at any point leaves
//! either place with all that was ever acknowledged.
//!
//! ```text
//!          clients write: what they wrote is copied again      clients' writes are held
//!        |---------------------------------------------|------------------------------------|
//!  begin: read, write, read, write, ..   little is left: drain, read, write the rest,
//!                                                        flush target, record, flush record
//!                                                                        switch, release -->
//!                                                  slot free once nobody reads there any more
//! ```
//!
//! - The **drain** waits for writes that are with the old place's server or its queue. From then on
//!   the extent does not change, so that old and new place are alike when the record becomes
//!   durable at an instant that nobody knows: whichever place a reopened volume finds in force, it
//!   is right.
//! - The **target is flushed before the record is written**. So the record never points to bytes
//!   that a power cut takes back, whatever was forced or flushed at the old place.
//! - The **switch comes after the record's flush**. So no write that is acknowledged at the new
//!   place can be lost with the record.
//! - The **old slot is taken again only when no unit refers to it**: reads that were queued before
//!   the switch still go there.
//!
//! # When a step fails
//!
//! Before the record, the move ends and the old place stays in force. The new slot is left alone
//! for the time that a late write may take, since one that was answered with an error may still
//! come through. If the record or its flush fails, nobody knows which place a reopened volume would
//! find in force; the same bytes are written and flushed again, which settles it. If that fails
//! [`NOTE_ATTEMPTS`] times, nothing else moves and the extent becomes **read-only**: reads are
//! right in both places, a write would be in one place only, and is answered with an error. The
//! record is tried again after growing pauses, of a second up to a minute, until it is noted. So is
//! the map.
//!
//! A flush that fails may have lost what others wrote, too, and drives tell only whom they answer.
//! So a flush of the mover that failed lets the next one of every tenant at that tier fail, and one
//! of a tenant that of every other and of the mover.
//!
//! # When a connection is lost
//!
//! Nothing moves from or to a slot that a late write may still reach, and nothing is noted where
//! one may. A move under way that is met by one before its record is given up.
//!
//! # When it takes too long
//!
//! Where clients write faster than the mover copies, the move is given up after copying the extent
//! [`PASSES_MAX`] times over, or when writes would be held for longer than [`HOLD_MAX`].

use evenkeel_core::time::{Nanos, Span};

use super::choice::Choice;
use super::map::Place;
use super::report::{MovesReport, Stopped};
use super::rules::{Mutant, Rules};
use super::volume::Volume;
use crate::notes::StepKind;
use crate::notes::copying::{Copying, Run};

/// The longest that writes are held before the record is written.
pub const HOLD_MAX: Span = Span::from_millis(500);
/// How often the record is written before its extent is in doubt.
pub const NOTE_ATTEMPTS: u32 = 3;
/// After a move that came to nothing, the next one begins no earlier than so much later.
const REST: Span = Span::from_secs(10);
/// The first pause before notes that could not be written are written again, and the longest.
const RETRY_MIN: Span = Span::from_secs(1);
const RETRY_MAX: Span = Span::from_secs(60);
/// Blocks of the map that one step writes.
const MAP_BLOCKS: u32 = 256;

/// A step of a move, before it is known who pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) kind: StepKind,
    pub(super) tier: usize,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// What a decision of the mover changes for the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// Writes to the extent are held from now on; those under way have to be counted.
    Held,
    /// Writes to the extent are held no longer.
    Released,
    /// As before, and the extent is in its new place; units that refer to this one have to be
    /// counted.
    Switched {
        /// The old place.
        from: Place,
    },
}

/// Moves extents, one at a time. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Mover {
    /// What a step copies at most.
    step_bytes: u64,
    phase: Phase,
    is_step_under_way: bool,
    job: Option<Job>,
    /// No move begins before this instant.
    rest_until: Nanos,
    /// When notes that could not be written are tried again, and the pause before that.
    retry: Option<(Nanos, Span)>,
    /// For so long a slot is left alone to which a write has failed.
    late: Span,
    report: MovesReport,
    pub(super) rules: Rules,
}

/// What the mover does next, or does now if a step is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    /// Choose what to copy next.
    Copy,
    Read(Run),
    Write(Run),
    /// Wait for the writes under way.
    Drain,
    FlushTarget,
    Note {
        attempt: u32,
    },
    FlushNote {
        attempt: u32,
    },
    /// Write the map anew, from this block on.
    WriteMap {
        first: u32,
    },
    FlushMap,
}

#[derive(Debug)]
struct Job {
    extent: u32,
    from: Place,
    to: Place,
    copying: Copying,
}

impl Mover {
    /// What was moved so far.
    pub(super) fn report(&self) -> MovesReport {
        self.report
    }

    /// Whether something new could begin.
    pub(super) fn is_idle(&self, now: Nanos) -> bool {
        self.phase == Phase::Idle
            && self.report.stopped.is_none()
            && (now >= self.rest_until || self.rules.is_broken(Mutant::MoveEarly))
    }

    /// The place whose writes matter, that of the extent under way.
    pub(super) fn source(&self) -> Option<Place> {
        self.job.as_ref().map(|job| job.from)
    }

    /// Whether writes to the extent under way are held.
    pub(super) fn is_holding(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.copying.held_since().is_some())
            && !self.rules.is_broken(Mutant::SkipHold)
    }

    /// Whether writes to the extent under way are refused.
    pub(super) fn is_in_doubt(&self) -> bool {
        matches!(self.report.stopped, Some(Stopped::InDoubt { .. }))
    }

    /// When the mover wants to be polled although nothing happens.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        let draining = self.job.as_ref().filter(|_| self.phase == Phase::Drain);
        let held_since = draining.and_then(|job| job.copying.held_since());
        let retry = self.retry.filter(|_| !self.is_step_under_way).map(|(at, _)| at);
        held_since.map(|since| since + HOLD_MAX).into_iter().chain(retry).min()
    }

    /// For so long a slot is left alone to which a write has failed.
    pub(super) fn leave_for(&mut self, late: Span) {
        self.late = late;
    }

    /// What a step of the next moves copies at most.
    pub(super) fn step_by(&mut self, step_bytes: u64) {
        self.step_bytes = step_bytes;
    }

    /// No move begins before this instant.
    pub(super) fn rest_until(&mut self, instant: Nanos) {
        self.rest_until = self.rest_until.max(instant);
    }

    /// Begins a move, if there is a slot for it.
    pub(super) fn begin(&mut self, now: Nanos, choice: Choice, volume: &mut Volume) {
        assert!(self.job.is_none(), "one move at a time");
        let from = volume.map.place(choice.extent);
        let moves_late = self.rules.is_broken(Mutant::MoveLate);
        if !moves_late && (volume.is_slot_late(now, from) || volume.are_notes_late(now)) {
            return;
        }
        let to = if moves_late {
            volume.map.take_free(choice.tier, |_| true)
        } else {
            volume.take_free(now, choice.tier)
        };
        let Some(to) = to else { return };
        self.job = Some(Job {
            extent: choice.extent,
            from,
            to,
            copying: Copying::new(volume.layout.extent_bytes).in_steps_of(self.step_bytes),
        });
        self.phase = Phase::Copy;
    }

    /// Begins to write the map anew.
    pub(super) fn begin_map(&mut self) {
        assert!(self.job.is_none(), "one thing at a time");
        self.phase = Phase::WriteMap { first: 0 };
    }

    /// So many writes were under way when writes began to be held.
    pub(super) fn drain(&mut self, writers: u32) {
        let writers = if self.rules.is_broken(Mutant::SkipDrain) { 0 } else { writers };
        self.job.as_mut().expect("writes are held for a move").copying.drain(writers);
    }

    /// A write to the place of the extent under way is over, well or not: what it touched has to be
    /// copied again. `offset` counts from the extent's start. True if it was the last to wait for.
    pub(super) fn write_ended(&mut self, offset: u64, length: u64, was_sent: bool) -> bool {
        let copies_once = self.rules.is_broken(Mutant::CopyOnce);
        let Some(job) = &mut self.job else { return false };
        job.copying.write_ended(offset, length, was_sent && !copies_once)
    }

    /// Decides what to do next, if no step is under way; at most one change or step at a time.
    pub(super) fn poll(
        &mut self,
        now: Nanos,
        volume: &mut Volume,
        note: &mut Vec<u8>,
    ) -> (Change, Option<Wanted>) {
        if self.is_step_under_way || self.retry.is_some_and(|(at, _)| now < at) {
            return (Change::None, None);
        }
        let is_late =
            |job: &Job| job.copying.held_since().is_some_and(|since| now >= since + HOLD_MAX);
        let may_end = matches!(self.phase, Phase::Copy | Phase::Drain | Phase::FlushTarget);
        let is_lost = |job: &Job| {
            let is_late = volume.is_slot_late(now, job.from) || volume.is_slot_late(now, job.to);
            (is_late || volume.are_notes_late(now)) && !self.rules.is_broken(Mutant::MoveLate)
        };
        if may_end && self.job.as_ref().is_some_and(|job| is_late(job) || is_lost(job)) {
            return (self.give_up(now, volume), None);
        }
        if self.phase == Phase::Drain
            && self.job.as_ref().is_some_and(|job| job.copying.is_drained())
        {
            self.phase = Phase::Copy;
        }
        if self.phase == Phase::Copy {
            let change = self.choose_copy(now, volume);
            if change != Change::None {
                return (change, None);
            }
        }
        let wanted = self.wanted(volume, note);
        self.is_step_under_way = wanted.is_some();
        (Change::None, wanted)
    }

    /// The step that was asked for is over.
    pub(super) fn step_ended(&mut self, now: Nanos, ok: bool, volume: &mut Volume) -> Change {
        assert!(std::mem::take(&mut self.is_step_under_way), "no step is under way");
        self.phase = match (self.phase, ok) {
            (Phase::Read(run), true) => Phase::Write(run),
            (Phase::Write(run), true) => {
                self.copied(run);
                Phase::Copy
            }
            (Phase::FlushTarget, true) if self.rules.is_broken(Mutant::SkipNote) => {
                return self.switch(volume);
            }
            (Phase::Note { .. }, true) if self.rules.is_broken(Mutant::SkipNoteFlush) => {
                return self.switch(volume);
            }
            (Phase::FlushTarget, true) => Phase::Note { attempt: 1 },
            (Phase::Note { attempt }, true) => Phase::FlushNote { attempt },
            (Phase::FlushNote { .. }, true) => return self.switch(volume),
            (Phase::WriteMap { first }, true) => Phase::WriteMap { first: first + MAP_BLOCKS },
            (Phase::FlushMap, true) => {
                volume.journal.checkpoint_is_durable();
                self.goes_on();
                Phase::Idle
            }
            (Phase::Read(_), false) => return self.fail(now, volume, true),
            (Phase::Write(_) | Phase::FlushTarget, false) => return self.fail(now, volume, false),
            (Phase::Note { attempt } | Phase::FlushNote { attempt }, false) => {
                if self.rules.is_broken(Mutant::IgnoreDoubt) {
                    return self.fail(now, volume, false);
                }
                self.phase = Phase::Note { attempt: attempt.saturating_add(1) };
                return if attempt < NOTE_ATTEMPTS { Change::None } else { self.doubt(now) };
            }
            (Phase::WriteMap { .. } | Phase::FlushMap, false) => {
                self.pauses(now, Stopped::MapNotWritten);
                Phase::WriteMap { first: 0 }
            }
            (Phase::Idle | Phase::Copy | Phase::Drain, _) => unreachable!("they ask for no step"),
        };
        Change::None
    }

    /// Says what is copied next, if anything is, or begins to hold writes, or gives up.
    fn choose_copy(&mut self, now: Nanos, volume: &mut Volume) -> Change {
        let skips_flush = self.rules.is_broken(Mutant::SkipTargetFlush);
        let copying = &mut self.job.as_mut().expect("something is copied").copying;
        if copying.held_since().is_none() {
            if copying.is_nearly_copied() {
                copying.hold(now);
                self.phase = Phase::Drain;
                return Change::Held;
            }
            if copying.is_hopeless() {
                return self.give_up(now, volume);
            }
        }
        self.phase = match copying.take_run() {
            Some(run) => Phase::Read(run),
            None if skips_flush => Phase::Note { attempt: 1 },
            None => Phase::FlushTarget,
        };
        Change::None
    }

    /// The step of this phase. The map's blocks end with a flush.
    fn wanted(&mut self, volume: &Volume, note: &mut Vec<u8>) -> Option<Wanted> {
        let layout = &volume.layout;
        let fastest = layout.fastest();
        if let Phase::WriteMap { first } = self.phase {
            let blocks = (first, MAP_BLOCKS);
            let offset = volume.journal.write_checkpoint(layout, &volume.map, blocks, note);
            if !note.is_empty() {
                let length = note.len() as u64;
                return Some(Wanted { kind: StepKind::Note, tier: fastest, offset, length });
            }
            self.phase = Phase::FlushMap;
        }
        let flush = |tier| Wanted { kind: StepKind::Flush, tier, offset: 0, length: 0 };
        if matches!(self.phase, Phase::FlushMap | Phase::FlushNote { .. }) {
            return Some(flush(fastest));
        }
        let job = self.job.as_ref()?;
        let copy = |kind, place: Place, run: Run| {
            let offset = layout.slot_offset(place.tier(), place.slot()) + run.offset;
            Wanted { kind, tier: place.tier(), offset, length: run.length }
        };
        match self.phase {
            Phase::Read(run) => Some(copy(StepKind::Read, job.from, run)),
            Phase::Write(run) => Some(copy(StepKind::Write, job.to, run)),
            Phase::FlushTarget => Some(flush(job.to.tier())),
            Phase::Note { .. } => {
                let places = [job.from, job.to];
                let offset = volume.journal.write_record(layout, job.extent, places, note);
                let length = note.len() as u64;
                Some(Wanted { kind: StepKind::Note, tier: fastest, offset, length })
            }
            _ => None,
        }
    }

    fn copied(&mut self, run: Run) {
        let job = self.job.as_mut().expect("something is copied");
        job.copying.copied(run);
        self.report.copied_bytes += run.length;
    }

    /// The record is durable: the new place is in force.
    fn switch(&mut self, volume: &mut Volume) -> Change {
        let job = self.end();
        self.goes_on();
        volume.journal.record_is_durable();
        let from = volume.map.switch(job.extent, job.to);
        self.report.done += 1;
        Change::Switched { from }
    }

    fn give_up(&mut self, now: Nanos, volume: &mut Volume) -> Change {
        let job = self.end();
        volume.map.release(job.to);
        self.report.given_up += 1;
        self.rest_until = now + REST;
        Change::Released
    }

    /// A step failed before the record was written.
    fn fail(&mut self, now: Nanos, volume: &mut Volume, is_slot_untouched: bool) -> Change {
        let job = self.end();
        if !is_slot_untouched || job.copying.copied_bytes() > 0 {
            volume.leave(job.to, now + self.late);
        }
        volume.map.release(job.to);
        self.report.failed += 1;
        self.rest_until = now + REST;
        Change::Released
    }

    /// Nobody knows whether the record would be found: it is written again later.
    fn doubt(&mut self, now: Nanos) -> Change {
        let extent = self.job.as_ref().expect("a record is of a move").extent;
        self.pauses(now, Stopped::InDoubt { extent });
        Change::Released
    }

    /// Notes cannot be written: they are tried again after a pause, each twice the one before.
    fn pauses(&mut self, now: Nanos, why: Stopped) {
        let pause = self.retry.map_or(RETRY_MIN, |(_, pause)| Span(pause.0 * 2).min(RETRY_MAX));
        self.retry = Some((now + pause, pause));
        self.report.failed += u64::from(self.report.stopped.is_none());
        self.report.stopped = Some(why);
    }

    /// Notes have been written.
    fn goes_on(&mut self) {
        self.retry = None;
        self.report.stopped = None;
    }

    fn end(&mut self) -> Job {
        self.phase = Phase::Idle;
        self.job.take().expect("a move is under way")
    }
}
