//! Opens the servers of a volume: asks its driver for reads, writes and flushes, and to let time
//! pass, until it has a [`Volume`] or a reason why not.
//!
//! ```text
//!   fronts --- in use, and beating ---> Refused
//!     |
//!     +------- in use, and silent: fenced off? --- no ---> Refused
//!     |
//!   claim on every server, wait: still ours? --- no ---> Refused
//!     |                                                     ^
//!     +--- blank: directories of nothing, heads 1 ----------+------> Ready
//!     |                                                     |
//!     +--- heads up --- directories, what they list --- mended, flushed, made sure: still ours?
//!                                             |                    ^          |
//!                       other servers listed, or some to leave     |          v
//!                                             |                    |        Ready
//!            those that join: directories of nothing, then heads --+
//! ```
//!
//! What it takes grows with what was written in the volume, not with its size.
//!
//! Whoever joins gets its head last of all, but before the others get theirs: a head that names the
//! new members is found only if all that it speaks of is there.
//!
//! A power cut at any point leaves something that opens again. A driver may also have died without
//! a power cut, perhaps just after a flush had failed; what is read then may be in the server's
//! cache alone. So whatever was noted since the last opening came to its end is written again,
//! before a flush: `settled` in the owner's block tells since when.

mod changing;
mod claiming;
mod repairing;

use std::collections::VecDeque;
use std::ops::Range;

use evenkeel_core::time::{Nanos, Span};

use super::assembling::{Assembly, Rewrites, Step};
use super::directory::Directories;
use super::format::head::Head;
use super::heads;
use super::layout::{COPIES, Layout, Note, Shape};
use super::reading::Reading;
use super::refusal::{Needed, PARLANCE, Refusal, RefusalReason};
use super::rules::{Mutant, Rules};
use super::volume::{Latest, Volume};
use crate::lease::{
    Act, Candidate, FRONT_BYTES, Gatekeeper, Identity, LateWrites, Names, Obstacle, Rebuilding,
    Sending, Settled, Witness,
};
use crate::notes::blank::Making;
use crate::notes::block::{BLOCK, BLOCK_BYTES, Block};
use crate::notes::head::head_offset;
use crate::notes::{Answer, Ask, Opens, PartDevice, STEP_BYTES_MAX, Unfit};

/// The opening of a volume.
#[derive(Debug)]
pub struct Opening {
    pub(super) candidate: Candidate<Head>,
    shape: Shape,
    devices: Vec<PartDevice>,
    /// By server: whether objects are to be moved off it.
    leaving: Vec<bool>,
    /// Servers that are blank, and join.
    joining: Vec<usize>,
    /// Servers that are to keep the choices from now on.
    new_keepers: Vec<usize>,
    /// Members that are not listed, by number.
    missing: u64,
    /// The server that does not answer.
    away: Option<usize>,
    /// The server that was away and is back.
    returning: Option<usize>,
    phase: Phase,
    /// What is to be asked for next, in order.
    tasks: VecDeque<Task>,
    /// The bytes of the write that is asked for.
    bytes: Vec<u8>,
    directories: Directories,
    reading: Option<Reading>,
    assembly: Option<Assembly>,
    /// Objects of the volume as the heads have it.
    objects_in_heads: u32,
    /// How much was read of what directories list, and how much there is, in bytes.
    to_read: (u64, u64),
    opened: Option<Box<Volume>>,
    refusal: Option<Refusal>,
    /// What this gate knows of the volume.
    witness: Option<Witness>,
    /// What is made of servers without heads, which were looked at beyond them.
    probing: Option<(Making, Layout)>,
    /// A server has answered with an error: nobody knows what it still carries out.
    has_failed: bool,
    /// Heads that are made anew, if this is a repair.
    rebuilding: Option<Rebuilding<Head>>,
    /// The front that is being read block by block.
    front: [Option<Box<Block>>; 3],
    /// What is yet to be written again.
    rewrites: Rewrites,
    /// What a repair is yet to write once more, into the other copy of this half.
    again: Vec<(usize, Note)>,
    pub(super) rules: Rules,
}

/// Blocks of notes that are written at once.
const NOTES_AT_ONCE: u32 = 256;
/// Blocks whose writing is prepared in one go.
const REWRITES_AT_ONCE: usize = 4096;
/// The generation of the opening that makes a volume. It has written two heads on every server.
const NEW_GENERATION: u64 = 2;
const _: () = assert!(NOTES_AT_ONCE as u64 * BLOCK_BYTES == STEP_BYTES_MAX);

/// What the tasks at hand are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Read all fronts.
    Look,
    /// Write this gate's name on all servers, and let it settle.
    Claim,
    /// Read all fronts again.
    Confirm,
    /// Write directories of nothing.
    Make,
    /// Read the directories.
    List,
    /// Read what they list of tables and choices.
    Read,
    /// Put together what was read.
    Assemble,
    /// Write again what may not be durable.
    Mend,
    /// Have it listed.
    MendListing,
    /// Make servers ready that are to keep the choices.
    Welcome,
    /// Have that listed, and make servers ready that join.
    WelcomeListing,
    /// Make sure of it all.
    Close,
    /// Read all fronts for the last time.
    Done,
    /// Take back claims of an opening that is refused.
    Withdraw,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    Lease(Act),
    /// Read a block of a front that cannot be read whole; it was asked for at this time.
    LookAt {
        server: usize,
        block: usize,
        since: Nanos,
    },
    /// Look whether there is something although the server has no head.
    Probe {
        server: usize,
        offset: u64,
    },
    ReadNotes {
        server: usize,
        offset: u64,
        length: u64,
    },
    WriteHead {
        server: usize,
        generation: u64,
    },
    WriteNotes {
        server: usize,
        first: Note,
        count: u32,
    },
    WriteDirectory {
        server: usize,
        block: u32,
        latest: Latest,
    },
    Flush {
        server: usize,
    },
    /// Let others on the thread have their turn.
    Yield,
}

impl Opens for Opening {
    type Volume = Volume;
    type Refusal = Refusal;

    fn poll(&mut self, now: Nanos) -> Ask<'_, Volume, Refusal> {
        self.candidate.tenure.polled(now);
        while self.tasks.is_empty() {
            if let Some(refusal) = &self.refusal {
                if self.phase == Phase::Withdraw || self.has_failed {
                    return Ask::Refused(refusal.clone());
                }
                self.withdraw();
                continue;
            }
            match self.advance() {
                Ok(true) => {
                    return Ask::Ready(self.opened.take().expect("polled after it was ready"));
                }
                Ok(false) => {}
                Err(refusal) => self.refuse_for(refusal),
            }
        }
        if self.candidate.tenure.begins_round(now) {
            self.push_round();
        }
        self.candidate.tenure.asked_at.get_or_insert(now);
        self.ask()
    }

    fn answer(&mut self, answer: Answer<'_>) {
        let task = self.tasks.pop_front().expect("answers follow questions");
        let asked_at = self.candidate.tenure.asked_at.take().expect("answers follow questions");
        match (task, answer) {
            (Task::Lease(Act::Look(server)), _) => self.looked(server, asked_at, answer),
            (Task::LookAt { server, block, since }, _) => {
                self.looked_at((server, block), since, answer);
            }
            (Task::Probe { server, offset }, _) => {
                self.probed(server, offset, answer.blocks(1));
            }
            (Task::ReadNotes { server, offset, length }, _) => {
                self.take_notes(server, offset, length, answer);
            }
            (Task::Lease(Act::Fence), Answer::Done) => self.candidate.fenced(),
            (Task::Lease(Act::Fence), Answer::Failed) => {
                let obstacle = self.candidate.unfenced();
                self.refuse_for_obstacle(obstacle);
            }
            (Task::Lease(act), Answer::Done) => self.candidate.tenure.done(act, asked_at),
            (_, Answer::Done) => {}
            (_, Answer::Read(_)) => panic!("nobody asked for bytes"),
            (task, Answer::Failed) => {
                let server = task.server().expect("time passes without errors");
                self.has_failed = true;
                self.refuse(server, Unfit::Failed.into());
            }
        }
    }

    fn sending(&self) -> Sending {
        match self.tasks.front() {
            None | Some(Task::LookAt { .. } | Task::Probe { .. }) => Sending::Look,
            Some(Task::Lease(act)) => act.sending(),
            // Whoever else has claimed loses nothing by it.
            Some(Task::Flush { .. }) if self.phase == Phase::Claim => Sending::Look,
            Some(Task::WriteHead { generation: 0, .. }) => Sending::Claim,
            _ => Sending::Data,
        }
    }

    fn identity(&self, part: usize) -> Option<Identity> {
        let volume = self.opened.as_deref().filter(|_| self.candidate.is_in_office())?;
        // Until its head is written again, a server cannot show what it is.
        let is_shown = self.away != Some(part) && !self.is_rebuilt(part);
        let is_old = !self.joining.contains(&part) && is_shown;
        let number = volume.layout.servers[part].number;
        is_old.then_some(Identity { words: PARLANCE, volume: volume.id, number })
    }

    fn reads_ahead(&self, count: usize) -> Vec<(usize, u64, u64)> {
        let reads = self.tasks.iter().skip(1).map_while(|task| match *task {
            Task::ReadNotes { server, offset, length } => Some((server, offset, length)),
            _ => None,
        });
        reads.take(count).collect()
    }

    fn progress(&self) -> Option<(u64, u64)> {
        self.reading.is_some().then_some(self.to_read)
    }

    fn right(&self) -> Option<&Gatekeeper> {
        Some(&self.candidate.tenure.right)
    }
}

impl Opening {
    /// Begins to open these devices. If all are blank, a volume is made of them; if some are, they
    /// join it. `leaving` says, device by device, off which ones objects are to be moved.
    ///
    /// # Panics
    /// Unless there are 2 to [`SERVERS_MAX`](super::layout::SERVERS_MAX) devices of which two stay,
    /// and the shape is within its bounds; the policy's checks see to all that.
    pub fn new(names: Names, shape: Shape, devices: Vec<PartDevice>, leaving: Vec<bool>) -> Self {
        let count = devices.len();
        assert!((2..=super::layout::SERVERS_MAX).contains(&count), "{count} servers");
        assert!(leaving.len() == count, "each stays or leaves");
        assert!(leaving.iter().filter(|leaves| !**leaves).count() >= 2, "two stay");
        let mut opening = Self {
            shape,
            phase: Phase::Look,
            tasks: VecDeque::new(),
            bytes: Vec::new(),
            devices,
            leaving,
            joining: Vec::new(),
            new_keepers: Vec::new(),
            missing: 0,
            away: None,
            returning: None,
            directories: Directories::default(),
            reading: None,
            assembly: None,
            objects_in_heads: 0,
            to_read: (0, 0),
            opened: None,
            refusal: None,
            witness: None,
            probing: None,
            has_failed: false,
            rebuilding: None,
            front: [const { None }; 3],
            rewrites: Rewrites::new(),
            again: Vec::new(),
            rules: Rules::default(),
            candidate: Candidate::new(names, count),
        };
        opening.push_each(|server| Task::Lease(Act::Look(server)));
        opening
    }

    /// Watches gates that have not let go for so long at least.
    #[must_use]
    pub fn watching(mut self, span: Span) -> Self {
        self.candidate.watch_for(span);
        self
    }

    /// Heeds what an earlier process of this gate may still change.
    #[must_use]
    pub fn heeding(mut self, late: LateWrites) -> Self {
        self.candidate.late = late;
        self
    }

    /// This gate has served this volume by that name: no other one is opened, and none made, and
    /// none that is older than it was.
    #[must_use]
    pub fn knowing(mut self, witness: Option<Witness>) -> Self {
        self.witness = witness;
        self
    }

    /// Does without a server, which does not answer: of its device only the name matters.
    #[must_use]
    pub fn without(mut self, server: usize) -> Self {
        self.away = Some(server);
        self.tasks.retain(|task| task.server() != Some(server));
        self
    }

    fn ask(&mut self) -> Ask<'_, Volume, Refusal> {
        let task = *self.tasks.front().expect("looked at by `poll`");
        match task {
            Task::Lease(Act::Look(server)) => {
                Ask::Read { part: server, offset: 0, length: FRONT_BYTES }
            }
            Task::Lease(Act::Wait(span)) => Ask::Wait(span),
            Task::Yield => Ask::Wait(Span::ZERO),
            Task::Lease(Act::Fence) => Ask::Fence(self.candidate.losers()),
            Task::LookAt { server, block, .. } => {
                let offset = block as u64 * BLOCK_BYTES;
                Ask::Read { part: server, offset, length: BLOCK_BYTES }
            }
            Task::Probe { server, offset } => {
                Ask::Read { part: server, offset, length: BLOCK_BYTES }
            }
            Task::ReadNotes { server, offset, length } => {
                Ask::Read { part: server, offset, length }
            }
            Task::Flush { server } => Ask::Flush { part: server },
            Task::Lease(_)
            | Task::WriteHead { .. }
            | Task::WriteNotes { .. }
            | Task::WriteDirectory { .. } => {
                let server = task.server().expect("what is written goes to a server");
                let offset = self.make_bytes(task);
                Ask::Write { part: server, offset, bytes: &self.bytes }
            }
        }
    }

    /// Makes the bytes of a write; returns where they go.
    fn make_bytes(&mut self, task: Task) -> u64 {
        let volume = self.opened.as_deref().expect("nothing is written before the verdict");
        let mut block: Block = [0; BLOCK];
        let offset = match task {
            Task::WriteNotes { server, first, count } => {
                self.bytes.clear();
                let notes = std::iter::successors(Some(first), |note| Some(note.next()));
                for note in notes.take(count as usize) {
                    volume.encode(server, note, volume.latest(server, note), &mut block);
                    self.bytes.extend_from_slice(&block);
                }
                return volume.layout.note_offset(server, first, volume.latest(server, first).copy);
            }
            Task::WriteDirectory { server, block: index, latest } => {
                volume.encode(server, Note::Directory(index), latest, &mut block)
            }
            Task::WriteHead { server, generation } => {
                let after = self.candidate.settled[server].by;
                let offset = head_offset(generation);
                heads::head(volume, server, (generation, after)).encode(offset, &mut block);
                offset
            }
            Task::Lease(act) => {
                let ended = volume.settled();
                self.candidate.encode(act, (volume.id, ended), &mut block)
            }
            _ => unreachable!("no write"),
        };
        self.bytes.clear();
        self.bytes.extend_from_slice(&block);
        offset
    }

    /// The tasks of a phase are done: what they found decides what comes next. True at the end.
    fn advance(&mut self) -> Result<bool, Refusal> {
        match self.phase {
            Phase::Look => self.watch_or_claim()?,
            Phase::Claim => {
                let claimed = self.quickest_first().into_iter();
                self.tasks.extend(claimed.map(|server| Task::Lease(Act::Look(server))));
                self.candidate.begin_confirm();
                self.phase = Phase::Confirm;
            }
            Phase::Confirm => {
                self.confirm()?;
                let needed = self.opened().beats_needed();
                self.candidate.take_office(needed);
                if self.candidate.is_new {
                    self.make();
                } else {
                    self.read();
                }
            }
            Phase::Make => {
                // Both copies of each head: either tells that there is a volume.
                for generation in 1..=self.opened().office.generation {
                    self.push_each(|server| Task::WriteHead { server, generation });
                    self.push_each(|server| Task::Flush { server });
                }
                self.close();
            }
            Phase::List => self.read_listed()?,
            Phase::Read => self.begin_assembly(),
            Phase::Assemble => self.assemble()?,
            Phase::Mend if !self.rewrites.is_empty() => self.mend_some(),
            Phase::Mend => {
                self.push_directories(self.old().collect::<Vec<_>>());
                self.phase = Phase::MendListing;
            }
            Phase::MendListing if !self.again.is_empty() => self.mend_again(),
            Phase::MendListing => match self.change()? {
                Some(members) => self.welcome(members),
                None => self.close(),
            },
            Phase::Welcome => self.list_welcome(),
            Phase::WelcomeListing => {
                self.push_heads();
                self.close();
            }
            Phase::Close => {
                self.push_each(|server| Task::Lease(Act::Look(server)));
                self.phase = Phase::Done;
            }
            Phase::Done => {
                self.confirm()?;
                let beats = self.candidate.tenure.beats.clone();
                let afters = self.candidate.settled.iter().map(|settled| settled.by).collect();
                let volume = self.opened.as_mut().expect("made by the claim");
                (volume.office.beats, volume.afters) = (beats, afters);
                return Ok(true);
            }
            Phase::Withdraw => unreachable!("it has been refused"),
        }
        Ok(false)
    }

    fn make(&mut self) {
        self.push_new_directories(0..self.devices.len());
        self.push_each(|server| Task::Flush { server });
        self.phase = Phase::Make;
    }

    fn read(&mut self) {
        let generation = self.opened().office.generation;
        self.objects_in_heads = self.opened().layout.objects;
        self.push_old(|server| Task::WriteHead { server, generation });
        self.push_old(|server| Task::Flush { server });
        if self.rebuilding.is_some() {
            self.push_other_heads(generation);
        }
        let layout = self.opened().layout.clone();
        for server in self.old().collect::<Vec<_>>() {
            self.push_reads(server, layout.directory_range(server));
        }
        self.phase = Phase::List;
    }

    /// Has what the directories list read.
    fn read_listed(&mut self) -> Result<(), Refusal> {
        let mut directories = std::mem::take(&mut self.directories);
        let volume = self.opened.as_mut().expect("made by the claim");
        let finished = directories.finish(volume);
        for server in 0..volume.directories.len() {
            for (block, latest) in (0..).zip(&mut volume.directories[server]) {
                *latest = directories.latest(server, block).unwrap_or(*latest);
            }
        }
        if let Err((server, offset)) = finished {
            return Err(self.refusal_of(server, Unfit::Unreadable { offset }.into()));
        }
        let layout = self.opened().layout.clone();
        for server in self.old().collect::<Vec<_>>() {
            for range in directories.ranges(&layout, server) {
                self.to_read.1 += range.end - range.start;
                self.push_reads(server, range);
            }
        }
        let servers = layout.servers.len();
        self.reading = Some(Reading::new(directories, servers, self.returning, self.rules));
        self.phase = Phase::Read;
        Ok(())
    }

    fn push_reads(&mut self, server: usize, range: Range<u64>) {
        let Range { start: mut offset, end } = range;
        while offset < end {
            let length = STEP_BYTES_MAX.min(end - offset);
            self.tasks.push_back(Task::ReadNotes { server, offset, length });
            offset += length;
        }
    }

    /// Takes blocks of notes. If they cannot be read together, each is read by itself: one may be
    /// unreadable.
    fn take_notes(&mut self, server: usize, offset: u64, length: u64, answer: Answer<'_>) {
        let count = length / BLOCK_BYTES;
        let volume = self.opened.as_deref().expect("made by the claim");
        match answer.blocks(count) {
            Some(blocks) => {
                self.to_read.0 += if self.reading.is_some() { length } else { 0 };
                let blocks = (offset..).step_by(BLOCK).zip(blocks);
                blocks.for_each(|(offset, block)| match &mut self.reading {
                    Some(reading) => reading.take(volume, server, offset, block),
                    None => self.directories.take(volume, server, offset, block),
                });
            }
            None if count > 1 => {
                for index in (0..count).rev() {
                    let offset = offset + index * BLOCK_BYTES;
                    self.tasks.push_front(Task::ReadNotes { server, offset, length: BLOCK_BYTES });
                }
            }
            None => match &mut self.reading {
                Some(reading) => reading.fail(&volume.layout, server, offset),
                None => self.directories.fail(&volume.layout, server, offset),
            },
        }
    }

    fn begin_assembly(&mut self) {
        let reading = self.reading.take().expect("notes were read");
        // A repair writes everything again.
        let is_repair = self.rebuilding.is_some();
        let trusts_all = self.rules.is_broken(Mutant::TrustCache);
        let since = |settled: &Settled| match settled.generation {
            _ if is_repair => 0,
            _ if trusts_all => u64::MAX,
            generation => generation,
        };
        let since: Vec<u64> = self.candidate.settled.iter().map(since).collect();
        self.assembly = Some(Assembly::new(reading, since));
        self.phase = Phase::Assemble;
    }

    /// Puts together what was read, a bit at a time.
    fn assemble(&mut self) -> Result<(), Refusal> {
        let assembly = self.assembly.as_mut().expect("begun before");
        let volume = self.opened.as_mut().expect("made by the claim");
        let rewrites = match assembly.step(volume) {
            Step::More => {
                self.tasks.push_back(Task::Yield);
                return Ok(());
            }
            Step::Done(rewrites) => Some(rewrites),
            Step::Damaged => None,
        };
        let unreadable = assembly.unreadable();
        self.assembly = None;
        // What cannot be read now may be read later. It must not be given up for good.
        let is_missed = rewrites.is_none() || volume.lost_objects() > 0;
        let is_missed = is_missed && !self.rules.is_broken(Mutant::GiveUpUnread);
        if let Some((server, offset)) = unreadable.filter(|_| is_missed) {
            return Err(self.refusal_of(server, Unfit::Unreadable { offset }.into()));
        }
        match rewrites {
            Some(rewrites) => self.mend(rewrites),
            None => {
                return Err(match self.away {
                    Some(server) => self.refusal_of(server, RefusalReason::Needed(Needed::Notes)),
                    None => self.refusal_of(0, RefusalReason::NotesDamaged),
                });
            }
        }
        Ok(())
    }

    /// Writes again what may not be durable.
    fn mend(&mut self, rewrites: Rewrites) {
        if self.rebuilding.is_some() {
            self.again = rewrites.iter().copied().collect();
        }
        if self.opened().layout.objects != self.objects_in_heads {
            let generation = self.opened().office.generation;
            self.push_old(|server| Task::WriteHead { server, generation });
        }
        self.rewrites = rewrites;
        self.phase = Phase::Mend;
    }

    /// Writes some of it: there may be a great deal.
    fn mend_some(&mut self) {
        let rest = match self.rewrites.iter().nth(REWRITES_AT_ONCE).copied() {
            Some(first) => self.rewrites.split_off(&first),
            None => Rewrites::new(),
        };
        let some = std::mem::replace(&mut self.rewrites, rest);
        self.push_notes(some);
        if self.rewrites.is_empty() {
            self.push_old(|server| Task::Flush { server });
        }
    }

    /// Writes all directories of these servers anew, to both copies of the half: of either can be
    /// told since when it holds, should the other be damaged.
    fn push_directories(&mut self, servers: impl IntoIterator<Item = usize>) {
        let servers: Vec<usize> = servers.into_iter().collect();
        let half = self.opened().office.half;
        for _ in 0..2 {
            for &server in &servers {
                let volume = self.opened.as_mut().expect("made by the claim");
                for (block, latest) in (0..).zip(&mut volume.directories[server]) {
                    *latest = latest.next_in(half);
                    let latest = *latest;
                    self.tasks.push_back(Task::WriteDirectory { server, block, latest });
                }
            }
            self.tasks.extend(servers.iter().map(|server| Task::Flush { server: *server }));
        }
    }

    /// Writes the directories of servers that are new to the volume, to all copies: there may be
    /// whole ones of when they belonged to it before.
    fn push_new_directories(&mut self, servers: impl Iterator<Item = usize>) {
        let volume = self.opened.as_mut().expect("made by the claim");
        let half = volume.office.half;
        for server in servers {
            for (block, latest) in (0..).zip(&mut volume.directories[server]) {
                *latest = Latest::none(half).next();
                let number = latest.number;
                for copy in 0..COPIES {
                    let latest = Latest { number, copy };
                    self.tasks.push_back(Task::WriteDirectory { server, block, latest });
                }
            }
        }
    }

    /// Makes everything durable, and says so.
    fn close(&mut self) {
        self.push_each(|server| Task::Flush { server });
        self.push_each(|server| Task::Lease(Act::Settle(server)));
        self.push_each(|server| Task::Flush { server });
        self.phase = Phase::Close;
    }

    /// Has these blocks written, in their order; as many together as lie side by side.
    fn push_notes(&mut self, notes: impl IntoIterator<Item = (usize, Note)>) {
        let volume = self.opened.as_deref().expect("made by the claim");
        // Where the next block has to lie to be written with the last one.
        let mut follows = None;
        for (server, note) in notes {
            let place = |note| (server, note, volume.latest(server, note).copy);
            match self.tasks.back_mut() {
                Some(Task::WriteNotes { count, .. })
                    if follows == Some(place(note)) && *count < NOTES_AT_ONCE =>
                {
                    *count += 1;
                }
                _ => self.tasks.push_back(Task::WriteNotes { server, first: note, count: 1 }),
            }
            follows = Some((server, note.next(), volume.latest(server, note).copy));
        }
    }

    /// For each server that is there.
    fn push_each(&mut self, task: impl Fn(usize) -> Task) {
        let away = self.away;
        let there = (0..self.devices.len()).filter(|server| Some(*server) != away);
        self.tasks.extend(there.map(task));
    }

    /// For each server that is there and does not join.
    fn push_old(&mut self, task: impl Fn(usize) -> Task) {
        let old: Vec<usize> = self.old().collect();
        self.tasks.extend(old.into_iter().map(task));
    }

    /// The servers that are there and do not join.
    fn old(&self) -> impl Iterator<Item = usize> {
        let is_old = |server: &usize| !self.joining.contains(server) && self.away != Some(*server);
        (0..self.devices.len()).filter(is_old)
    }

    fn opened(&self) -> &Volume {
        self.opened.as_deref().expect("made by the claim")
    }

    fn refuse(&mut self, server: usize, reason: RefusalReason) {
        let refusal = self.refusal_of(server, reason);
        self.refuse_for(refusal);
    }

    fn refuse_for_obstacle(&mut self, obstacle: Obstacle) {
        let refusal = self.obstructed(obstacle);
        self.refuse_for(refusal);
    }

    fn obstructed(&self, (server, why): Obstacle) -> Refusal {
        self.refusal_of(server, why.into())
    }

    /// Nothing else is done any more than to take claims back.
    fn refuse_for(&mut self, refusal: Refusal) {
        self.tasks.clear();
        self.refusal.get_or_insert(refusal);
    }

    fn refusal_of(&self, server: usize, reason: RefusalReason) -> Refusal {
        Refusal { server: self.devices[server].name.clone(), reason }
    }
}

impl Task {
    fn server(self) -> Option<usize> {
        match self {
            Self::Lease(act) => act.member(),
            Self::LookAt { server, .. }
            | Self::Probe { server, .. }
            | Self::ReadNotes { server, .. }
            | Self::WriteHead { server, .. }
            | Self::WriteNotes { server, .. }
            | Self::WriteDirectory { server, .. }
            | Self::Flush { server } => Some(server),
            Self::Yield => None,
        }
    }
}
