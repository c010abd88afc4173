//! Tiered volumes: opened on the models of their tiers, and moved step by step as the engine asks.
//!
//! Models hold no bytes, but a volume's own notes (heads, map, journal) are kept here as they are
//! written: a gate that comes back opens the volume from them, as the real one does.
//!
//! ```text
//! Opening <--- blank, or the notes ---+
//!    | Volume                         | kept when a step that notes is done
//!    v                                |
//! Engine -- Output::Move(step) --> a request of the mover's, to one server --> Input::Moved
//! ```

use std::collections::BTreeMap;

use evenkeel_core::id::ServerId;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;
use evenkeel_engine::lease::{Gate, Names, OwnerId};
use evenkeel_engine::notes::{Answer, Ask, Opens, PartDevice, Step, StepKind, VolumeId};
use evenkeel_engine::tiers::{Opening, Refusal, Volume};
use evenkeel_engine::{Input, Unit};

use super::World;
use super::tables::{Call, Home, Origin, Request};
use crate::checkers::{Contents, Custody, Part, Rule, Verdict, Violation, broken};
use crate::events::Bound;
use crate::result::{Ending, RowId};

/// What every volume is called: a scenario has each of its volumes to itself.
const NAME: VolumeId = VolumeId([0x5e; 16]);

/// A volume reads and writes its notes in blocks of so many bytes.
const BLOCK_BYTES: usize = 4096;

/// A tiered volume of a domain.
#[derive(Debug)]
pub(super) struct Tiers {
    extent_bytes: u64,
    /// The tiers, the slowest first.
    devices: Vec<PartDevice>,
    notes: Notes,
    pub(super) contents: Contents,
    size_bytes: u64,
    /// Where moves are booked.
    row: RowId,
    /// What a step that is under way will have noted.
    noting: Vec<u8>,
    /// Whether anything failed since the volume was opened.
    is_hurt: bool,
    /// How often the gate was started.
    runs: u8,
}

/// The blocks that a volume has written about itself, by tier and offset. Others are blank.
#[derive(Debug, Default)]
struct Notes(BTreeMap<(usize, u64), [u8; BLOCK_BYTES]>);

impl Notes {
    fn write(&mut self, tier: usize, offset: u64, bytes: &[u8]) {
        for (at, block) in (offset..).step_by(BLOCK_BYTES).zip(bytes.as_chunks().0) {
            self.0.insert((tier, at), *block);
        }
    }

    fn read(&self, tier: usize, offset: u64, length: u64) -> Vec<u8> {
        let blocks = (offset..offset + length).step_by(BLOCK_BYTES);
        let blank = [0; BLOCK_BYTES];
        blocks.flat_map(|at| *self.0.get(&(tier, at)).unwrap_or(&blank)).collect()
    }
}

impl Tiers {
    /// A volume to be made on blank devices, the slowest first.
    pub(super) fn new(extent_bytes: u64, devices: Vec<PartDevice>, row: RowId) -> Self {
        let (notes, noting) = (Notes::default(), Vec::new());
        Self {
            extent_bytes,
            devices,
            notes,
            contents: Contents::default(),
            size_bytes: 0,
            row,
            noting,
            is_hurt: false,
            runs: 0,
        }
    }

    /// The volume's size, once it has been opened.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// A unit of one of the volume's requests goes out. Returns its number if it writes.
    pub(super) fn unit_begins(
        &mut self,
        now: Nanos,
        request: &Request,
        server: u32,
        unit: &Unit,
    ) -> Result<u64, Box<Violation>> {
        let part = part(request, (server, unit.offset), unit.at, unit.length);
        match (request.origin, unit.kind) {
            (Origin::Move, Kind::Read) => self.contents.copy_from(&part),
            (Origin::Flight(_), Kind::Read) => {
                self.contents.read(now, &part, request.answered_writes)?;
            }
            (Origin::Flight(_), Kind::Write | Kind::Trim | Kind::WriteZeroes) => {
                return Ok(self.contents.begin_write());
            }
            _ => {}
        }
        Ok(0)
    }

    /// A unit of one of the volume's requests has come back.
    pub(super) fn unit_ends(&mut self, request: &Request, call: &Call) {
        self.is_hurt |= !call.ok;
        if !call.ok {
            return;
        }
        let part = part(request, (call.server, call.offset), call.at, call.length);
        match (request.origin, call.kind) {
            (Origin::Move, Kind::Write) if self.noting.is_empty() => self.contents.copy_to(&part),
            (Origin::Flight(_), Kind::Write | Kind::Trim | Kind::WriteZeroes) => {
                self.contents.end_write(&part, call.write);
            }
            _ => {}
        }
    }

    /// Whether anything failed since the volume was opened: a write to what is in doubt since then
    /// is refused, and a flush tells of what another one could not.
    pub(super) fn is_hurt(&self) -> bool {
        self.is_hurt
    }

    /// What the gate calls itself: it is the same one whenever it is started, on one machine.
    fn names(&mut self) -> Names {
        self.runs = self.runs.checked_add(1).expect("gates are not started so often");
        let mut run = [1; 16];
        run[8..].fill(self.runs);
        let gate = Gate { name: "the gate".to_owned(), state: [1; 16], run, ..Gate::default() };
        Names { volume: NAME, owner: OwnerId([self.runs; 16]), gate, before: Vec::new() }
    }

    /// Opens the volume, in no time of the world's.
    pub(super) fn open(&mut self) -> Result<Box<Volume>, Refusal> {
        self.is_hurt = false;
        let mut opening = Opening::new(self.names(), self.extent_bytes, self.devices.clone());
        let mut now = Nanos::ZERO;
        loop {
            match opening.poll(now) {
                Ask::Read { part: tier, offset, length } => {
                    let bytes = self.notes.read(tier, offset, length);
                    opening.answer(Answer::Read(&bytes));
                }
                Ask::Write { part: tier, offset, bytes } => {
                    self.notes.write(tier, offset, bytes);
                    opening.answer(Answer::Done);
                }
                Ask::Wait(span) => {
                    now += span;
                    opening.answer(Answer::Done);
                }
                Ask::Flush { .. } | Ask::Fence(_) => opening.answer(Answer::Done),
                Ask::Ready(volume) => {
                    self.size_bytes = volume.size_bytes();
                    return Ok(volume);
                }
                Ask::Refused(refusal) => return Err(refusal),
            }
        }
    }
}

/// The part of a volume, or of a step of a move, that a unit stands for.
fn part(request: &Request, (server, server_offset): (u32, u64), at: u64, length: u64) -> Part {
    let base = if request.origin == Origin::Move { 0 } else { request.offset };
    Part { offset: base + at, server, server_offset, length }
}

impl World<'_> {
    /// The engine wants a step of a move made.
    pub(super) fn begin_step(&mut self, domain: u32, step: &Step) -> Verdict {
        let now = self.now;
        let one = &mut self.gate.domains[domain as usize];
        let Some(tiers) = &mut one.tiers else {
            let what = format!("{step:?} without a volume");
            return Err(broken(now, Rule::BytesAreConserved, what));
        };
        tiers.noting.clear();
        if step.kind == StepKind::Note {
            tiers.noting.extend_from_slice(one.engine.note_bytes(step.server));
        }
        let row = tiers.row;
        let server = one.servers[step.server.index()];
        self.sequence += 1;
        let slot = self.requests.insert(Request {
            // Nobody hears of a move.
            target: 0,
            custody: Custody::send(step.length),
            origin: Origin::Move,
            domain,
            home: Home::Server(server),
            tenant: step.tenant,
            row,
            kind: match step.kind {
                StepKind::Read => Kind::Read,
                StepKind::Write | StepKind::Note => Kind::Write,
                StepKind::Wipe => Kind::WriteZeroes,
                StepKind::Discard => Kind::Trim,
                StepKind::Flush => Kind::Flush,
            },
            offset: step.offset,
            length: step.length,
            sequence: self.sequence,
            reached_at: now,
            waits_since: now,
            answered_writes: 0,
            is_backlog: false,
            is_measured: self.book.measures(now),
            is_waiting: false,
            ok: true,
        });
        self.conservation.sent(step.tenant, step.length);
        self.admit(Bound { slot, epoch: self.gate.epoch })
    }

    /// The gate is done with a step: its engine hears of it at once.
    pub(super) fn end_step(&mut self, slot: u32) -> Verdict {
        let now = self.now;
        let request = &mut self.requests[slot];
        request.custody.reply(now)?;
        let Request { domain, home, row, kind, offset, length, tenant, ok, reached_at, .. } =
            *request;
        self.requests.release(slot);
        self.conservation.answered(tenant, length);
        if ok {
            self.book.delivered(row, kind, length);
        }
        self.book.ended(now, row, &Ending { kind, bytes: length, due: reached_at, ok });
        let one = &mut self.gate.domains[domain as usize];
        let Home::Server(home) = home else { unreachable!("steps go to servers") };
        let server = one.servers.iter().position(|server| *server == home);
        let server = server.and_then(|server| u32::try_from(server).ok());
        let server = ServerId(server.expect("steps go to servers of their domain"));
        let tiers = one.tiers.as_mut().expect("steps are of volumes");
        let noted = std::mem::take(&mut tiers.noting);
        if ok {
            let fastest = tiers.devices.len() - 1;
            tiers.notes.write(fastest, offset, &noted);
        }
        let kind = match kind {
            _ if !noted.is_empty() => StepKind::Note,
            Kind::Read => StepKind::Read,
            Kind::Flush => StepKind::Flush,
            _ => StepKind::Write,
        };
        one.engine.handle(now, Input::Moved { server, kind, ok });
        Ok(())
    }

    /// Steps under way die with the gate.
    pub(super) fn forget_steps(&mut self) {
        for slot in 0..u32::try_from(self.requests.entries().len()).expect("slots are small") {
            let request = &mut self.requests[slot];
            if request.origin == Origin::Move && request.custody.is_under_way() {
                let Request { tenant, length, .. } = *request;
                request.custody = Custody::default();
                self.requests.release(slot);
                self.conservation.answered(tenant, length);
            }
        }
        for domain in &mut self.gate.domains {
            if let Some(tiers) = &mut domain.tiers {
                tiers.noting.clear();
            }
        }
    }
}
