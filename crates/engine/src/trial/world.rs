//! Clients, an engine with a volume, and its drives: every command of the drives is an event of its
//! own, and what happens next is drawn. What kind of volume it is, a [`Kit`] says.

use std::collections::BTreeMap;
use std::ops::Range;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::disk::{Cut, Disk, SECTOR, index};
use super::oracle::Oracle;
use crate::notes::{Answer, Ask, Opens, Step, StepKind};
use crate::policy::Domain;
use crate::{Engine, Input, Output, Refused, Request, Target, Unit};

/// A kind of volume.
pub(crate) trait Kit: Default {
    /// What an opening gives.
    type Volume;
    /// A rule that can be broken.
    type Mutant: Copy;

    /// Drives on which there is no volume yet.
    fn disks() -> Vec<Disk>;

    /// Opens the volume; none if it was cut short after so many asks.
    fn open(&self, disks: &mut [Disk], asks: u64) -> Option<Result<Self::Volume, String>>;

    /// Bytes of the volume.
    fn size_bytes(volume: &Self::Volume) -> u64;

    /// What the volume holds, past any engine.
    ///
    /// # Errors
    /// Something of it cannot be found.
    fn content(disks: &[Disk], volume: &Self::Volume) -> Result<Vec<u8>, String>;

    /// Whether a sector of the volume can be looked at.
    fn is_there(_: &Self::Volume, _: usize) -> bool {
        true
    }

    /// An engine that serves the volume.
    fn engine(now: Nanos, volume: Self::Volume, mutant: Option<Self::Mutant>) -> Engine;
}

/// Asks after which an opening is cut short at the latest, if it is.
const CUT_ASKS_MAX: u64 = 100;
/// Events until everything has come to its end, at most.
const SETTLED_MAX: u64 = 100_000;
/// Bytes that steps copy at most.
const BUFFER_BYTES: usize = 64 << 10;

/// How often things go wrong, in percent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
    /// Those of notes and flushes that the mover asks for.
    pub(crate) notes: u64,
}

impl Faults {
    /// All goes well.
    pub(crate) const NONE: Self = Self { writes: 0, flushes: 0, notes: 0 };
    /// Anything may go wrong.
    pub(crate) const ANY: Self = Self { writes: 3, flushes: 10, notes: 10 };
}

/// A world.
pub(crate) struct World<K: Kit> {
    pub(crate) kit: K,
    pub(crate) engine: Engine,
    pub(crate) disks: Vec<Disk>,
    pub(crate) oracle: Oracle,
    pub(crate) prng: Prng,
    pub(crate) faults: Faults,
    /// How many commands in a hundred take very long.
    pub(crate) stuck: u64,
    wake_at: Option<Nanos>,
    mutant: Option<K::Mutant>,
    now: Nanos,
    requests: BTreeMap<u32, Pending>,
    commands: Vec<Command>,
    /// Writes of a gate that is gone, and when its drives carry them out.
    late: Vec<(Nanos, Late)>,
    /// What the last step that reads has read.
    buffer: Vec<u8>,
    sectors: usize,
    /// Events up to now.
    pub(crate) events: u64,
    /// Requests of clients that were answered with an error.
    pub(crate) errors: u64,
    /// What was refused, and why.
    pub(crate) refusals: Vec<Refused>,
    /// Drives that take no writes and no flushes.
    pub(crate) broken: Vec<ServerId>,
    /// Whether zeroes of clients keep their room.
    pub(crate) keeps_room: bool,
}

/// A request under way.
enum Pending {
    Read { began: u64, bytes: Vec<u8>, first_sector: usize },
    Write { handles: Range<usize>, value: u64, fua: bool },
    Flush { began: u64, tenant: TenantId },
    Step(Step),
}

/// What drives carry out late of what they had read from a gate that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lates {
    /// Everything.
    All,
    /// What the volume itself had asked for.
    Steps,
    /// Of that, what it noted.
    Notes,
}

/// A write that a drive has read from a connection that is gone.
struct Late {
    server: ServerId,
    offset: u64,
    bytes: Vec<u8>,
}

/// A unit with a drive.
pub(crate) struct Command {
    unit: Unit,
    acknowledged: u64,
    /// It ends no earlier than this event, as long as others can.
    not_before: u64,
}

/// What a client does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Read,
    Write,
    Force,
    Zero,
    /// Trims and zeroes are one to these drives.
    Trim,
    Flush,
}

impl<K: Kit> World<K> {
    /// A new volume.
    pub(crate) fn new(seed: u64, mutant: Option<K::Mutant>) -> Self {
        Self::with(K::default(), seed, mutant)
    }

    /// A new volume that is opened like this.
    pub(crate) fn with(kit: K, seed: u64, mutant: Option<K::Mutant>) -> Self {
        let mut disks = K::disks();
        let volume = kit.open(&mut disks, u64::MAX).unwrap().unwrap();
        let sectors = usize::try_from(K::size_bytes(&volume)).unwrap() / SECTOR;
        let engine = K::engine(Nanos::ZERO, volume, mutant);
        Self {
            kit,
            engine,
            disks,
            oracle: Oracle::new(sectors),
            prng: Prng::new(seed),
            faults: Faults::NONE,
            stuck: 0,
            wake_at: None,
            mutant,
            now: Nanos::ZERO,
            requests: BTreeMap::new(),
            commands: Vec::new(),
            late: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            sectors,
            events: 0,
            errors: 0,
            refusals: Vec::new(),
            broken: Vec::new(),
            keeps_room: false,
        }
    }

    /// A client asks for something within these sectors.
    pub(crate) fn act(&mut self, act: Act, within: Range<usize>) {
        let length = (1 + index(&mut self.prng, 8)).min(within.len());
        let first = within.start + index(&mut self.prng, within.len() - length + 1);
        self.act_on(act, first..first + length);
    }

    /// A client asks for something of just these sectors.
    pub(crate) fn act_on(&mut self, act: Act, range: Range<usize>) {
        let (slot, first, length) = (self.free_slot(), range.start, range.len());
        let tenant = TenantId(u32::try_from(index(&mut self.prng, 2)).unwrap());
        // Of two flushes at once, the drive tells one of a loss.
        let same =
            |one: &Pending| matches!(one, Pending::Flush { tenant: who, .. } if *who == tenant);
        if matches!(act, Act::Flush) && self.requests.values().any(same) {
            return;
        }
        let (pending, kind) = match act {
            Act::Read => {
                let (began, bytes) = (self.oracle.tick(), vec![0; length * SECTOR]);
                (Pending::Read { began, bytes, first_sector: first }, Kind::Read)
            }
            Act::Flush => (Pending::Flush { began: self.oracle.tick(), tenant }, Kind::Flush),
            Act::Write | Act::Force | Act::Zero | Act::Trim => {
                let kind = match act {
                    Act::Zero => Kind::WriteZeroes,
                    Act::Trim => Kind::Trim,
                    _ => Kind::Write,
                };
                let (handles, value) = self.oracle.begin(range, kind != Kind::Write);
                (Pending::Write { handles, value, fua: matches!(act, Act::Force) }, kind)
            }
        };
        self.requests.insert(slot, pending);
        let is_flush = kind == Kind::Flush;
        let [offset, length] = [first, length].map(|n| if is_flush { 0 } else { n * SECTOR });
        self.arrive(Request {
            slot,
            tenant,
            target: Target::Volume,
            disk: 0,
            kind,
            offset: offset as u64,
            length: length as u64,
            keeps_room: self.keeps_room,
        });
    }

    /// Clients with something under way.
    pub(crate) fn clients(&self) -> usize {
        self.requests.values().filter(|pending| !matches!(pending, Pending::Step(_))).count()
    }

    /// Something happens at a drive, if anything is under way; false if not.
    pub(crate) fn complete_one(&mut self) -> Result<bool, String> {
        self.events += 1;
        self.now += Span::from_micros(50);
        if self.commands.is_empty() {
            let Some(at) = self.wake_at else { return Ok(false) };
            self.now = self.now.max(at);
            self.carry_out_late(self.now);
            self.drain()?;
            return Ok(true);
        }
        self.carry_out_late(self.now);
        let may = |command: &Command| command.not_before <= self.events;
        let all = 0..self.commands.len();
        let ready: Vec<_> = all.filter(|at| may(&self.commands[*at])).collect();
        let picked = match ready.len() {
            0 => index(&mut self.prng, self.commands.len()),
            ready_count => ready[index(&mut self.prng, ready_count)],
        };
        let command = self.commands.swap_remove(picked);
        let ok = self.perform(&command);
        self.engine.handle(self.now, Input::Done { unit: command.unit.unit, ok });
        self.drain()?;
        Ok(true)
    }

    /// Everything under way comes to its end.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        let end = self.events + SETTLED_MAX;
        while self.complete_one()? {
            if self.events > end {
                return Err("it never comes to rest".into());
            }
        }
        if self.requests.is_empty() { Ok(()) } else { Err("requests are stuck".into()) }
    }

    pub(crate) fn drain(&mut self) -> Result<(), String> {
        loop {
            match self.engine.poll(self.now) {
                Output::Submit(unit) => {
                    self.events += 1;
                    let acknowledged = self.disk(unit.server).acknowledged();
                    let stuck = if self.prng.below(100) < self.stuck { 1200 } else { 0 };
                    let not_before = self.events + stuck;
                    self.commands.push(Command { unit, acknowledged, not_before });
                }
                Output::Refuse { why, .. } => self.refusals.push(why),
                Output::Zeroes { slot, .. } => {
                    let pending = &self.requests[&slot];
                    assert!(matches!(pending, Pending::Read { .. }), "only reads are told");
                }
                Output::Finish { slot, ok } => self.finish(slot, ok)?,
                Output::Move(step) => {
                    let slot = self.free_slot();
                    self.requests.insert(slot, Pending::Step(step));
                    let target = Target::Server(step.server);
                    let kind = match step.kind {
                        StepKind::Read => Kind::Read,
                        StepKind::Write | StepKind::Note => Kind::Write,
                        StepKind::Wipe => Kind::WriteZeroes,
                        StepKind::Flush => Kind::Flush,
                        StepKind::Discard => Kind::Trim,
                    };
                    let Step { tenant, offset, length, .. } = step;
                    self.arrive(Request {
                        slot,
                        tenant,
                        target,
                        disk: 0,
                        kind,
                        offset,
                        length,
                        keeps_room: false,
                    });
                }
                Output::WaitUntil(at) => {
                    self.wake_at = Some(at);
                    return Ok(());
                }
                Output::Idle => {
                    self.wake_at = None;
                    return Ok(());
                }
            }
        }
    }

    /// Commands that the drives have.
    pub(crate) fn commands(&self) -> usize {
        self.commands.len()
    }

    /// Takes the only command of the drives out of their hands.
    pub(crate) fn take_command(&mut self) -> Command {
        assert_eq!(self.commands.len(), 1, "there is one");
        self.commands.remove(0)
    }

    /// Gives a command back.
    pub(crate) fn put_command(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// The instant.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// The drives as a power cut leaves them now: writes under way may have had their effect too.
    pub(crate) fn after_cut(&self, cut: Cut) -> Vec<Disk> {
        let mut disks = self.disks.clone();
        for Command { unit, .. } in &self.commands {
            if let Some(bytes) = self.content(unit) {
                let disk = &mut disks[unit.server.index()];
                disk.write(unit.offset, &bytes, false);
            }
        }
        for disk in &mut disks {
            disk.power_cut(cut);
        }
        disks
    }

    /// The host dies; with the power (as the cut says), or without.
    pub(crate) fn die(&mut self, cut: Option<Cut>) {
        if let Some(cut) = cut {
            self.disks = self.after_cut(cut);
        } else {
            // With the host goes the knowledge of flushes that failed, its clients' own too.
            if self.faults.flushes + self.faults.notes > 0 {
                self.oracle.flush_failed();
            }
            for command in std::mem::take(&mut self.commands) {
                if self.prng.below(2) == 0 {
                    self.write(&command.unit, false);
                }
            }
        }
        self.commands.clear();
        self.requests.clear();
    }

    /// The gate is killed. Drives may carry out what they have read before `until`, most of it not
    /// before `from`. Returns where that is.
    pub(crate) fn kill(
        &mut self,
        (from, until): (Nanos, Nanos),
        lates: Lates,
    ) -> Vec<(usize, Range<u64>)> {
        self.oracle.abandon();
        let mut ranges = Vec::new();
        for Command { unit, .. } in std::mem::take(&mut self.commands) {
            let Some(bytes) = self.content(&unit) else { continue };
            let counts = match (lates, &self.requests[&unit.slot]) {
                (Lates::All, _) | (Lates::Steps, Pending::Step(_)) => true,
                (Lates::Notes, Pending::Step(step)) => step.kind == StepKind::Note,
                _ => false,
            };
            if !counts {
                continue;
            }
            let Unit { server, offset, length, .. } = unit;
            ranges.push((server.index(), offset..offset + length));
            let at = match self.prng.below(8) {
                0 => continue,
                1 => self.now,
                2 => self.now + Span(self.prng.below(until.since(self.now).0)),
                _ => from + Span(self.prng.below(until.since(from).0)),
            };
            self.late.push((at, Late { server, offset, bytes }));
        }
        self.requests.clear();
        self.wake_at = None;
        let late = |one: &Late| one.offset..one.offset + one.bytes.len() as u64;
        ranges.extend(self.late.iter().map(|(_, one)| (one.server.index(), late(one))));
        ranges
    }

    /// The connection to a drive is lost. What it had read from it the drive carries out within
    /// `late`, once more or never; the gate sends it again at once.
    pub(crate) fn lose_connection(&mut self, server: ServerId, late: Span) -> Result<(), String> {
        let until = self.now + late;
        let there = self.commands.iter().map(|command| command.unit);
        for unit in there.filter(|unit| unit.server == server).collect::<Vec<_>>() {
            let Some(bytes) = self.content(&unit) else { continue };
            let Unit { offset, length, .. } = unit;
            if self.prng.below(4) > 0 {
                let at = self.now + Span(self.prng.below(late.0));
                self.late.push((at, Late { server, offset, bytes }));
            }
            let range = offset..offset + length;
            self.engine.handle(self.now, Input::Late { server, disk: 0, range, until });
        }
        self.drain()
    }

    /// Once nothing may come late any more all of the volume is read.
    pub(crate) fn read_all_after(&mut self, late: Span) -> Result<(), String> {
        self.settle()?;
        self.pass(late);
        let all = self.sectors();
        self.act_on(Act::Read, all);
        self.drain()?;
        self.settle()
    }

    /// Drives carry out what they have read from a gate that is gone, up to this instant.
    pub(crate) fn carry_out_late(&mut self, now: Nanos) {
        for (_, late) in self.late.extract_if(.., |(at, _)| *at <= now) {
            self.disks[late.server.index()].write(late.offset, &late.bytes, false);
        }
    }

    /// Opens the volume while time passes, and late writes come.
    pub(crate) fn open<O>(&mut self, mut opening: O) -> Result<K::Volume, String>
    where
        O: Opens<Volume = K::Volume>,
    {
        loop {
            self.pass(Span::from_micros(1));
            let bytes;
            let answer = match opening.poll(self.now) {
                Ask::Read { part, offset, length } => {
                    bytes = self.disks[part].read(offset, length);
                    Answer::Read(&bytes)
                }
                Ask::Write { part, offset, bytes } => {
                    self.disks[part].write(offset, bytes, false);
                    Answer::Done
                }
                Ask::Flush { .. } | Ask::Fence(_) => Answer::Done,
                Ask::Wait(span) => {
                    self.pass(span);
                    Answer::Done
                }
                Ask::Ready(volume) => return Ok(*volume),
                Ask::Refused(refusal) => return Err(refusal.to_string()),
            };
            opening.answer(answer);
        }
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, span: Span) {
        self.now += span;
        self.carry_out_late(self.now);
    }

    /// The host dies and comes back, and may die again while it opens the volume.
    pub(crate) fn restart(&mut self, cut: Option<Cut>) -> Result<(), String> {
        self.die(cut);
        let volume = loop {
            let is_whole = self.prng.below(3) == 0;
            let asks = if is_whole { u64::MAX } else { self.prng.below(CUT_ASKS_MAX) };
            match self.kit.open(&mut self.disks, asks) {
                Some(opened) => break opened?,
                None if cut.is_some() => {
                    let cut = Cut::Any(self.prng.next_u64());
                    for disk in &mut self.disks {
                        disk.power_cut(cut);
                    }
                }
                None => {}
            }
        };
        self.serve(volume, cut.is_some())
    }

    /// Serves a volume that was just opened, after a look at all of it.
    pub(crate) fn serve(&mut self, volume: K::Volume, was_cut: bool) -> Result<(), String> {
        self.check_all(&volume, was_cut)?;
        self.engine = K::engine(self.now, volume, self.mutant);
        Ok(())
    }

    /// Checks every sector of a volume that was just opened.
    pub(crate) fn check_all(&mut self, volume: &K::Volume, was_cut: bool) -> Result<(), String> {
        let began = self.oracle.tick();
        let oracle = &mut self.oracle;
        check::<K>(&self.disks, volume, |sector, value| {
            if was_cut {
                oracle.read_after_cut(sector, value)
            } else {
                oracle.read(sector, value, began)
            }
        })
    }

    /// As [`Self::check_all`] after a power cut, for drives that are a copy of the world's.
    pub(crate) fn check_copy(&self, disks: &[Disk], volume: &K::Volume) -> Result<(), String> {
        check::<K>(disks, volume, |sector, value| self.oracle.check_after_cut(sector, value))
    }

    /// The power is cut now, on copies of the drives: whatever is left must open, and hold all that
    /// was promised.
    pub(crate) fn check_cuts(&self, prng: &mut Prng) -> Result<(), String> {
        for cut in [Cut::LoseAll, Cut::KeepAll, Cut::Any(prng.next_u64())] {
            let mut disks = self.after_cut(cut);
            let volume = self.kit.open(&mut disks, u64::MAX).expect("asks without end");
            let volume = volume.map_err(|refusal| format!("{cut:?}: {refusal}"))?;
            self.check_copy(&disks, &volume).map_err(|why| format!("{cut:?}: {why}"))?;
        }
        Ok(())
    }

    /// As [`Self::check_cuts`] after one in so many events; never if 0.
    pub(crate) fn check_cuts_each(&self, events: u64, prng: &mut Prng) -> Result<(), String> {
        if events > 0 && prng.below(events) == 0 { self.check_cuts(prng) } else { Ok(()) }
    }

    /// Perhaps the host dies now: it does so after so many events in a thousand.
    pub(crate) fn perhaps_die(&mut self, events_milli: u64, prng: &mut Prng) -> Result<(), String> {
        if prng.below(1000) >= events_milli {
            return Ok(());
        }
        let cut = Cut::Any(prng.next_u64());
        self.restart((prng.below(4) > 0).then_some(cut))
    }

    /// Sectors of the volume.
    pub(crate) fn sectors(&self) -> Range<usize> {
        0..self.sectors
    }

    /// Exchanges the policy.
    pub(crate) fn reload(&mut self, domain: &Domain) -> Result<(), String> {
        self.engine.handle(self.now, Input::Policy(domain));
        self.drain()
    }

    fn arrive(&mut self, request: Request) {
        self.engine.handle(self.now, Input::Arrive(request));
    }

    fn free_slot(&self) -> u32 {
        (0..u32::MAX).find(|slot| !self.requests.contains_key(slot)).unwrap()
    }

    fn disk(&mut self, server: ServerId) -> &mut Disk {
        &mut self.disks[server.index()]
    }

    /// A drive performs a command; false if it reports an error.
    fn perform(&mut self, command: &Command) -> bool {
        let Command { unit, acknowledged, .. } = *command;
        let is_note = matches!(&self.requests[&unit.slot], Pending::Step(step)
            if matches!(step.kind, StepKind::Note | StepKind::Flush));
        let percent = match unit.kind {
            _ if is_note => self.faults.notes,
            Kind::Flush => self.faults.flushes,
            Kind::Read => 0,
            _ => self.faults.writes,
        };
        let is_broken = self.broken.contains(&unit.server) && unit.kind != Kind::Read;
        let ok = self.prng.below(100) >= percent && !is_broken;
        match unit.kind {
            Kind::Read => {
                let bytes = self.disk(unit.server).read(unit.offset, unit.length);
                let at = usize::try_from(unit.at).unwrap();
                let whole = match self.requests.get_mut(&unit.slot).unwrap() {
                    Pending::Read { bytes: whole, .. } => whole,
                    _ => &mut self.buffer,
                };
                whole[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            Kind::Flush if ok => self.disk(unit.server).flush(acknowledged),
            Kind::Flush => {
                let mut prng = Prng::new(self.prng.next_u64());
                self.disk(unit.server).fail_flush(acknowledged, &mut prng);
            }
            // A write that failed was done, or it was not.
            _ if ok || self.prng.below(2) == 0 => {
                let fua =
                    ok && matches!(self.requests[&unit.slot], Pending::Write { fua: true, .. });
                self.write(&unit, fua);
            }
            _ => {}
        }
        ok
    }

    fn write(&mut self, unit: &Unit, fua: bool) {
        if let Some(bytes) = self.content(unit) {
            self.disk(unit.server).write(unit.offset, &bytes, fua);
        }
    }

    /// What a unit writes; none if it does not write.
    fn content(&self, unit: &Unit) -> Option<Vec<u8>> {
        let [at, length] = [unit.at, unit.length].map(|bytes| usize::try_from(bytes).unwrap());
        match (unit.kind, &self.requests[&unit.slot]) {
            (Kind::Write, Pending::Write { value, .. }) => {
                Some(value.to_le_bytes().repeat(length / 8))
            }
            (Kind::Write, Pending::Step(step)) => {
                let source = match step.kind {
                    StepKind::Note => self.engine.note_bytes(step.server),
                    _ => &self.buffer,
                };
                Some(source[at..at + length].to_vec())
            }
            (Kind::WriteZeroes | Kind::Trim, _) => Some(vec![0; length]),
            _ => None,
        }
    }

    fn finish(&mut self, slot: u32, ok: bool) -> Result<(), String> {
        match self.requests.remove(&slot).unwrap() {
            Pending::Step(step) => {
                let Step { server, kind, .. } = step;
                self.engine.handle(self.now, Input::Moved { server, kind, ok });
            }
            Pending::Flush { began, .. } if ok => self.oracle.flushed(began),
            Pending::Flush { .. } => {
                self.errors += 1;
                self.oracle.flush_failed();
            }
            Pending::Write { handles, fua, .. } if ok => self.oracle.end(handles, fua),
            Pending::Read { began, bytes, first_sector } if ok => {
                for (index, bytes) in bytes.chunks(SECTOR).enumerate() {
                    self.oracle.read(first_sector + index, value(bytes)?, began)?;
                }
            }
            Pending::Write { .. } | Pending::Read { .. } => self.errors += 1,
        }
        Ok(())
    }
}

/// Looks at every sector of a volume.
fn check<K: Kit>(
    disks: &[Disk],
    volume: &K::Volume,
    mut look: impl FnMut(usize, u64) -> Result<(), String>,
) -> Result<(), String> {
    let content = K::content(disks, volume)?;
    let sectors = content.chunks(SECTOR).enumerate();
    let mut sectors = sectors.filter(|(sector, _)| K::is_there(volume, *sector));
    sectors.try_for_each(|(sector, bytes)| look(sector, value(bytes)?))
}

/// What a sector holds, which is one number all over.
fn value(bytes: &[u8]) -> Result<u64, String> {
    let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    if bytes.chunks(8).all(|part| part == value.to_le_bytes()) {
        Ok(value)
    } else {
        Err("a sector holds something that nobody wrote".into())
    }
}

/// Performs what an opening asks for; none if it was cut short after so many asks.
pub(crate) fn open<O: Opens>(
    disks: &mut [Disk],
    asks: u64,
    mut opening: O,
) -> Option<Result<O::Volume, O::Refusal>> {
    let mut now = Nanos::ZERO;
    for _ in 0..asks {
        let bytes;
        now += Span::from_micros(1);
        let answer = match opening.poll(now) {
            Ask::Read { part, offset, length } if !disks[part].is_readable(offset, length) => {
                Answer::Failed
            }
            Ask::Read { part, offset, length } => {
                bytes = disks[part].read(offset, length);
                Answer::Read(&bytes)
            }
            Ask::Write { part, offset, bytes } => {
                disks[part].write(offset, bytes, false);
                Answer::Done
            }
            Ask::Flush { part } => {
                let acknowledged = disks[part].acknowledged();
                disks[part].flush(acknowledged);
                Answer::Done
            }
            Ask::Wait(span) => {
                now += span;
                Answer::Done
            }
            Ask::Fence(_) => Answer::Done,
            Ask::Ready(volume) => return Some(Ok(*volume)),
            Ask::Refused(refusal) => return Some(Err(refusal)),
        };
        opening.answer(answer);
    }
    None
}
