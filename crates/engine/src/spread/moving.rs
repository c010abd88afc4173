//! Objects that pass to other servers after some have joined or are to leave: one after the other,
//! on the account of the tenant `moves`, while clients go on.
//!
//! ```text
//! objects, in order:   0 1 2 3 4 5 | 6 7 8 9 ..
//!               by the new servers | by those before
//!                                  ^ the next one to pass
//! ```
//!
//! Most need nothing but to be passed: nobody wrote them, or their server is a candidate of theirs
//! among the new servers too, and another choice is noted. The others **move**:
//!
//! ```text
//! copied, again where clients write -> writes held, the rest copied -> flush, entry on the new
//! server, flush -> choice noted on the keepers -> in force, writes go on -> old entry cleared
//! ```
//!
//! - From the hold to the note both places are alike, so it does not matter which of them a cut
//!   leaves in force: the old one as long as the choice is not noted, since only a choice tells
//!   that an object has passed.
//! - A flush that failed at the new server may have lost what was copied: it is copied again.
//! - The old slot is cleared last, when nothing refers to it, so a choice never points to nothing.
//! - A copy that came to nothing leaves its slot alone if a late write may still come through, and
//!   its object is not given up until the volume is opened anew: its entry may be there.

use std::collections::BTreeSet;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::place::choices::PAGE_OBJECTS;
use evenkeel_core::place::choose::choose;
use evenkeel_core::place::policy::View;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::place::Place;
use super::report::{ChangeReport, Stuck};
use super::scribe::{Entering, Leaving, Mutant};
use super::serving::{REST, Serving};
use super::volume::Volume;
use crate::Request;
use crate::notes::copying::{Copying, Run};
use crate::notes::{Step, StepKind};
use crate::units::{Stage, UnitEntry, UnitTable};

/// The longest that writes are held for the first attempt to move an object; twice as long for the
/// next one, and so on.
const HOLD_MAX: Span = Span::from_millis(500);
/// As often that is doubled at most.
const DOUBLINGS_MAX: u32 = 5;
/// After an attempt that clients were too fast for, the next one begins so much later.
const PAUSE: Span = Span::from_secs(1);
/// Objects that are passed at a time, so that other things get their turn.
const PASSED_MAX: u32 = 1 << 12;

/// What moves objects.
#[derive(Debug, Default)]
pub(super) struct Mover {
    phase: Phase,
    job: Option<Job>,
    /// The step under way, and the request that it has become.
    step: Option<Step>,
    step_slot: Option<u32>,
    /// Requests that wait for the job, oldest first.
    held: Vec<(u32, TenantId)>,
    /// Nothing begins before.
    wake_at: Option<Nanos>,
    stuck: Option<Stuck>,
    /// How often the next object was begun in vain.
    attempts: u32,
    /// Objects whose old entries are yet to be cleared.
    departing: BTreeSet<u32>,
    /// Objects of which an entry may be left somewhere that does not count.
    haunted: BTreeSet<u32>,
    /// Objects that have to move.
    to_move: u32,
    moved: u64,
    copied_bytes: u64,
    given_up: u64,
    failed: u64,
    began: Option<Nanos>,
    worked_until: Nanos,
    /// Whether objects are still to pass; pages before this one have none.
    is_passing: bool,
    page: usize,
}

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
    /// The new server is to enter the object.
    Entering,
    /// The keepers are to note this version of its page.
    Choosing {
        version: u64,
    },
    /// No keeper could; nobody knows whether the choice is noted.
    InDoubt,
}

/// An object on its way.
#[derive(Debug)]
struct Job {
    object: u32,
    from: (usize, u32),
    to: (usize, u32),
    /// Which candidate the new server is.
    position: usize,
    copying: Copying,
}

impl Mover {
    /// The object on its way.
    pub(super) fn object(&self) -> Option<u32> {
        self.job.as_ref().map(|job| job.object)
    }

    /// Whether writes to the object on its way are refused for good.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.phase == Phase::InDoubt
    }

    /// Whether writes to the object on its way are held.
    pub(super) fn is_holding(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.copying.held_since().is_some())
    }

    /// Whether an object may be given up: nothing else must tell of it than its place.
    pub(super) fn may_give_up(&self, object: u32) -> bool {
        self.object() != Some(object)
            && !self.departing.contains(&object)
            && !self.haunted.contains(&object)
    }

    /// When it is to be polled although nothing happens.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        let since = self.job.as_ref().filter(|_| self.phase == Phase::Drain);
        let since = since.and_then(|job| job.copying.held_since());
        let late = since.map(|since| since + self.hold_max());
        late.into_iter().chain(self.wake_at).min()
    }

    /// A client's request waits. If it is the first, the request that the step under way has become
    /// is returned: it is the client's to pay from now on.
    pub(super) fn hold(&mut self, slot: u32, tenant: TenantId) -> Option<u32> {
        if self.held.iter().any(|(held, _)| *held == slot) {
            return None;
        }
        self.held.push((slot, tenant));
        self.step_slot.filter(|_| self.held.len() == 1)
    }

    pub(super) fn withdraw(&mut self, slot: u32) {
        self.held.retain(|(held, _)| *held != slot);
    }

    /// Requests that wait no longer.
    pub(super) fn take_held(&mut self) -> impl Iterator<Item = u32> {
        self.held.drain(..).rev().map(|(slot, _)| slot)
    }

    /// A request has arrived: if it is the step under way, and somebody waits, whose it is to pay.
    pub(super) fn step_arrived(&mut self, request: &Request, server: ServerId) -> Option<TenantId> {
        let step = self.step.filter(|_| self.step_slot.is_none())?;
        let is_it = step.server == server
            && step.offset == request.offset
            && matches!(request.kind, Kind::Read | Kind::Write);
        if !is_it {
            return None;
        }
        self.step_slot = Some(request.slot);
        self.held.first().map(|(_, tenant)| *tenant)
    }

    /// This request is over.
    pub(super) fn finished(&mut self, slot: u32) {
        self.step_slot.take_if(|step| *step == slot);
    }

    /// The old entry of a moved object is cleared.
    pub(super) fn departed(&mut self, object: u32) {
        self.departing.remove(&object);
    }

    fn hold_max(&self) -> Span {
        Span(HOLD_MAX.0 << self.attempts.min(DOUBLINGS_MAX))
    }

    fn rest(&mut self, until: Nanos) {
        (self.phase, self.wake_at) = (Phase::Idle, Some(until));
    }
}

impl Serving {
    /// Counts what has to move, before anything does.
    pub(super) fn begin_passing(&mut self) {
        self.mover.is_passing = self.volume.is_passing();
        let to_move = if self.mover.is_passing { self.volume.objects_to_move() } else { 0 };
        self.mover.to_move = u32::try_from(to_move).expect("objects are numbered by u32");
        self.is_due |= self.mover.is_passing;
    }

    /// Decides on the mover's next step.
    pub(super) fn poll_mover(&mut self, now: Nanos, units: &UnitTable) -> Option<Step> {
        let is_idle = !self.mover.is_passing && self.mover.job.is_none();
        if is_idle || self.mover.step.is_some() || !self.may_serve(now) {
            return None;
        }
        if self.mover.phase == Phase::Idle {
            self.begin_next(now);
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
    pub(super) fn copy_ended(&mut self, now: Nanos, ok: bool) {
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
    pub(super) fn distrust_copy(&mut self, server: usize) {
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

    /// An object that moves is entered on its new server: now its choice.
    pub(super) fn moved_entered(&mut self, now: Nanos, one: &Entering, units: &UnitTable) {
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
    pub(super) fn count_moved(&mut self, now: Nanos, units: &UnitTable) {
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
        self.volume.places[object as usize] = Place::new(to.0, to.1);
        self.mover.departing.insert(object);
        let leaving = Leaving { object, slot: from.1, payer: None, is_discarded: false };
        self.vacate(from.0, leaving, units);
    }

    /// A unit of the object on its way is over.
    pub(super) fn copied_unit_ended(&mut self, unit: &UnitEntry, place: (usize, u32)) {
        let copies_once = self.rules.is_broken(Mutant::CopyOnce);
        let Some(job) = self.mover.job.as_mut().filter(|job| job.from == place) else { return };
        if changes_content(unit.ticket.kind) {
            let into = unit.offset - self.volume.layout.slot_offset(place.0, place.1);
            let is_to_copy = unit.stage == Stage::InService && !copies_once;
            let length = unit.ticket.size_bytes;
            self.is_due |= job.copying.write_ended(into, length, is_to_copy);
        }
    }

    /// The object could not be entered on its new server.
    pub(super) fn moved_not_entered(&mut self, now: Nanos, one: &Entering) {
        self.mover.haunted.insert(one.object);
        self.mover.failed += 1;
        let to = self.mover.job.as_ref().expect("it was entered for a move").to.0;
        self.fail_move(now, Stuck::Away(self.server_id(to)), false);
    }

    /// An object was written or given up that has not passed: it may have to move, or not any more.
    pub(super) fn count_to_move(&mut self, object: u32, is_there: bool) {
        if self.volume.must_move(object) {
            let to_move = &mut self.mover.to_move;
            *to_move = if is_there { *to_move + 1 } else { to_move.saturating_sub(1) };
        }
    }

    /// Whether a write to an object has to wait for its move.
    pub(super) fn is_held(&self, kind: Kind, object: u32) -> bool {
        changes_content(kind)
            && self.mover.object() == Some(object)
            && self.mover.is_holding()
            && !self.rules.is_broken(Mutant::SkipHold)
    }

    /// The accounts of a change, as long as there is one.
    pub(super) fn change_report(&self, now: Nanos) -> Option<ChangeReport> {
        let mover = &self.mover;
        let until = if mover.job.is_some() { now } else { mover.worked_until };
        let is_over = !mover.is_passing
            && mover.job.is_none()
            && mover.departing.is_empty()
            && self.volume.layout.keepers().all(|keeper| {
                let pages = self.volume.pages[keeper].iter().zip(&self.volume.versions);
                pages.into_iter().all(|(latest, version)| latest.number >= *version)
            });
        self.volume.layout.members.may_be_changing().then(|| ChangeReport {
            objects_left: self.volume.objects_left(),
            to_move: mover.to_move,
            moved: mover.moved,
            copied_bytes: mover.copied_bytes,
            given_up: mover.given_up,
            failed: mover.failed,
            elapsed: mover.began.map_or(Span::ZERO, |began| until.since(began)),
            stuck: mover.stuck.filter(|_| mover.is_passing),
            is_over,
        })
    }

    /// Passes objects until one has to move, and begins with it.
    fn begin_next(&mut self, now: Nanos) {
        if self.mover.wake_at.is_some_and(|at| now < at) {
            return;
        }
        self.mover.wake_at = None;
        let mut passed = 0;
        self.mover.began.get_or_insert(now);
        while self.mover.page < self.volume.left.len() {
            let page = self.mover.page;
            if self.volume.left[page] == 0 {
                self.mover.page += 1;
                continue;
            }
            while self.volume.left[page] > 0 {
                let left = u64::from(self.volume.left[page]);
                let object = (page as u64 + 1) * PAGE_OBJECTS - left;
                if !self.pass(now, object) {
                    return;
                }
                passed += 1;
                if passed >= PASSED_MAX {
                    self.mover.wake_at = Some(now);
                    return;
                }
            }
            self.note_passed(page);
        }
        self.mover.is_passing = false;
    }

    /// Passes an object; false if that has to wait, or the object to move.
    fn pass(&mut self, now: Nanos, number: u64) -> bool {
        let page = usize::try_from(number / PAGE_OBJECTS).expect("few pages");
        let object = u32::try_from(number).ok().filter(|it| *it < self.volume.layout.objects);
        let Some(object) = object else {
            self.volume.left[page] = 0;
            return true;
        };
        if let Some(is_in_doubt) = self.is_on_its_way(object) {
            self.mover.stuck = is_in_doubt.then_some(Stuck::InDoubt);
            return false;
        }
        let home = match self.volume.places[object as usize].get() {
            Some((server, _)) => Some(server),
            // What is lost is looked for where it was, if that can be said.
            None => {
                self.volume.choices.choice(number).and_then(|at| self.volume.candidate(object, at))
            }
        };
        let position = home.and_then(|server| {
            self.volume.new_candidates(object).position(|one| one == Some(server))
        });
        match (self.volume.places[object as usize].get(), position) {
            (Some(from), None) => {
                self.begin_job(now, object, from);
                return false;
            }
            (_, Some(position)) if self.volume.choices.choice(number) != Some(position) => {
                self.volume.choices.set(number, Some(position));
            }
            _ => {}
        }
        self.volume.left[page] -= 1;
        true
    }

    /// All objects of a page have passed.
    fn note_passed(&mut self, page: usize) {
        self.note_choices(None);
        self.volume.versions[page] += 1;
        let page = u32::try_from(page).expect("pages are numbered by u32");
        for keeper in self.volume.layout.keepers().collect::<Vec<_>>() {
            self.scribes[keeper].pages.insert(page);
        }
    }

    fn begin_job(&mut self, now: Nanos, object: u32, from: (usize, u32)) {
        if self.is_stale[from.0] {
            self.mover.stuck = Some(Stuck::Stale(self.server_id(from.0)));
            return self.mover.rest(now + REST);
        }
        self.end_rests(now);
        let servers = self.volume.new_candidates(object);
        let servers: Vec<usize> = servers.map(|one| one.expect("members are listed")).collect();
        let picked = self.pick(now, &servers).map(|position| (position, servers[position]));
        let picked = picked.and_then(|(position, to)| match self.volume.tables[to].free.pop() {
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

    /// The best of these servers.
    ///
    /// # Errors
    /// The one that comes closest to having room.
    pub(super) fn pick(&mut self, now: Nanos, servers: &[usize]) -> Result<usize, usize> {
        self.refresh_loads(now, servers);
        let view = View { loads: &self.loads, size_bytes: self.volume.layout.object_bytes };
        let ids: Vec<[ServerId; 1]> = servers
            .iter()
            .map(|&server| [ServerId(u32::try_from(server).expect("few servers"))])
            .collect();
        let ceiling = f64::from(self.plan.ceiling_milli) / 1000.0;
        let picked = choose(&*self.policy, &view, ids.iter().map(|id| &id[..]), ceiling);
        picked.map_err(|no_room| no_room.server.index())
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

    /// Clients are too fast: another time.
    fn give_up_move(&mut self, now: Nanos) {
        let (server, slot) = self.end_job().to;
        self.volume.tables[server].free.push(slot);
        self.report_load(server, now);
        self.mover.given_up += 1;
        self.mover.attempts += 1;
        self.mover.rest(now + PAUSE);
        self.is_due = true;
    }

    /// A step failed, or may not be made, before the object was entered.
    fn fail_move(&mut self, now: Nanos, why: Stuck, was_read: bool) {
        let Job { to: (server, slot), copying, .. } = self.end_job();
        if was_read && copying.copied_bytes() == 0 {
            self.volume.tables[server].free.push(slot);
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

fn changes_content(kind: Kind) -> bool {
    matches!(kind, Kind::Write | Kind::Trim | Kind::WriteZeroes)
}
