//! Opens the tiers of a volume: asks its driver for reads, writes and flushes, and to let time
//! pass, until it has a [`Volume`] or a reason why not.
//!
//! ```text
//!   fronts --- in use, and beating ---> Refused
//!     |
//!     +------- in use, and silent: fenced off? --- no ---> Refused
//!     |
//!   claim on every tier, wait: still ours? --- no ---> Refused
//!     |                                                  ^
//!     +--- blank: map, flush, heads 1 -------------------+------+
//!     |                                                  |      |
//!     +--- heads up, flush --- journal, map that is whole       |
//!                                |                              |
//!                                +--- last record again, or     |
//!                                     the map in the other half |
//!                                                |              |
//!                        flush, heads up, made sure: still ours? ---> Ready
//! ```
//!
//! A power cut at any point leaves something that opens again.
//!
//! A driver may also have died without a power cut, perhaps just after a flush had failed. What is
//! read then may be in the drive's cache alone, and the drive may have given up writing it. So
//! nothing is relied on that was not flushed with success: the last record is written again, before
//! a flush; and a map that no record was written after is used only if the other one is damaged.
//!
//! An owner that has not let go may still have notes under way. They lie in its half, so this one
//! notes in the other, and begins with all of the map there.

mod claiming;
mod reading;
mod repairing;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use evenkeel_core::time::{Nanos, Span};

use reading::Reading;
pub(super) use repairing::KnownNotes;

use super::format::head::Head;
use super::format::journal::Record;
use super::format::{BLOCK, BLOCK_BYTES, Block, VolumeId};
use super::journal::Checkpoint;
use super::layout::Layout;
use super::refusal::{Refusal, RefusalReason};
use super::rules::Rules;
use super::volume::{Volume, identity};
use crate::lease::{
    Act, Candidate, FRONT_BYTES, Gatekeeper, Identity, LateWrites, Names, Obstacle, Office,
    Rebuilding, Sending, Settled, Witness,
};
use crate::notes::head::head_offset;
use crate::notes::{Answer, Ask, Opens, PartDevice, STEP_BYTES_MAX, Unfit};

/// The opening of a volume.
#[derive(Debug)]
pub struct Opening {
    pub(super) candidate: Candidate<Head>,
    extent_bytes: u64,
    devices: Vec<PartDevice>,
    /// For so long after it has displaced an owner that has not let go nothing moves.
    rest: Span,
    phase: Phase,
    /// What is to be asked for next, in order.
    tasks: VecDeque<Task>,
    /// The bytes of the write that is asked for.
    bytes: Vec<u8>,
    /// The front that is being read block by block.
    front: [Option<Box<Block>>; 3],
    claimed: Option<Claimed>,
    /// Each tier's generation.
    generations: Vec<u64>,
    reading: Reading,
    opened: Option<Box<Volume>>,
    refusal: Option<Refusal>,
    /// The last move that was durable, as far as any tier knows.
    noted: u64,
    /// What this gate knows of the volume.
    witness: Option<Witness>,
    /// Whether tiers without heads were looked at beyond them.
    has_probed: bool,
    /// A tier has answered with an error: nobody knows what it still carries out.
    has_failed: bool,
    /// Heads that are made anew, if this is a repair.
    rebuilding: Option<Rebuilding<Head>>,
    /// The map that is used.
    pub(super) map_used: Option<Checkpoint>,
    pub(super) rules: Rules,
}

/// The volume, before its map is known.
#[derive(Debug)]
struct Claimed {
    volume: VolumeId,
    layout: Layout,
    /// What is said of this opening once it has come to its end.
    office: Office,
    /// What the last one has said.
    settled: Settled,
    late: LateWrites,
}

/// What the tasks at hand are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Read all fronts.
    Look,
    /// Write this gate's name on all tiers, and let it settle.
    Claim,
    /// Read all fronts again.
    Confirm,
    /// Write the map of a new volume.
    Make,
    /// Read the first block of both maps.
    Maps,
    /// Read the journal from there on.
    Journal,
    /// Read a map.
    Map(Checkpoint),
    /// Write again what may not be durable, or in the other half so many maps.
    Mend(u32),
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
        tier: usize,
        block: usize,
        since: Nanos,
    },
    /// Look whether there is something although the tier has no head.
    Probe {
        tier: usize,
        offset: u64,
    },
    ReadMapHead {
        area: u32,
    },
    ReadMap {
        offset: u64,
        length: u64,
    },
    ReadJournal {
        offset: u64,
        length: u64,
    },
    WriteHead {
        tier: usize,
        generation: u64,
    },
    WriteMap {
        first: u32,
    },
    WriteRecord {
        offset: u64,
        record: Record,
    },
    Flush {
        tier: usize,
    },
}

/// Blocks that are read or written at once.
const BLOCKS_AT_ONCE: u32 = 256;
const _: () = assert!(BLOCKS_AT_ONCE as u64 * BLOCK_BYTES == STEP_BYTES_MAX);

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
            (Task::Lease(Act::Look(tier)), _) => self.looked(tier, asked_at, answer),
            (Task::LookAt { tier, block, since }, _) => {
                self.looked_at((tier, block), since, answer);
            }
            (Task::Probe { tier, offset }, _) => self.probed(tier, offset, answer.blocks(1)),
            (Task::ReadMapHead { area }, _) => self.take_map_head(area, answer.blocks(1)),
            (Task::ReadMap { offset, length }, _) => {
                self.take_map(offset, answer.blocks(length / BLOCK_BYTES));
            }
            (Task::ReadJournal { offset, length }, _) => {
                self.take_journal(offset, length, answer.blocks(length / BLOCK_BYTES));
            }
            (Task::Lease(Act::Fence), Answer::Done) => self.candidate.fenced(),
            (Task::Lease(Act::Fence), Answer::Failed) => {
                let refusal = self.obstructed(self.candidate.unfenced());
                self.refuse_for(refusal);
            }
            (Task::Lease(act), Answer::Done) => self.candidate.tenure.done(act, asked_at),
            (_, Answer::Done) => {}
            (_, Answer::Read(_)) => panic!("nobody asked for bytes"),
            (_, Answer::Failed) => {
                self.has_failed = true;
                self.refuse(self.tier_of(task), Unfit::Failed.into());
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
        let claimed = self.claimed.as_ref().filter(|_| self.candidate.is_in_office())?;
        // Until its head is written again, a tier cannot show what it is.
        (!self.is_rebuilt(part)).then(|| identity(claimed.volume, part))
    }

    fn right(&self) -> Option<&Gatekeeper> {
        Some(&self.candidate.tenure.right)
    }
}

impl Opening {
    /// Begins to open these devices, the slowest first. If they are blank, a volume is made of
    /// them.
    ///
    /// # Panics
    /// Unless there are two to [`TIERS_MAX`](crate::policy::TIERS_MAX) devices, and the extent's
    /// size is a power of two within [`EXTENT_BYTES`](super::layout::EXTENT_BYTES); the policy's
    /// checks see to both.
    pub fn new(names: Names, extent_bytes: u64, devices: Vec<PartDevice>) -> Self {
        assert!((2..=crate::policy::TIERS_MAX).contains(&devices.len()), "two tiers at least");
        let mut opening = Self {
            candidate: Candidate::new(names, devices.len()),
            extent_bytes,
            devices,
            rest: Span::ZERO,
            phase: Phase::Look,
            tasks: VecDeque::new(),
            bytes: Vec::new(),
            front: [const { None }; 3],
            claimed: None,
            generations: Vec::new(),
            reading: Reading::default(),
            opened: None,
            refusal: None,
            noted: 0,
            witness: None,
            has_probed: false,
            has_failed: false,
            rebuilding: None,
            map_used: None,
            rules: Rules::default(),
        };
        if opening.devices.iter().any(|device| device.size_bytes < FRONT_BYTES) {
            opening.refusal = opening.layout_for_new().err();
        } else {
            opening.push_each(|tier| Task::Lease(Act::Look(tier)));
        }
        opening
    }

    /// What lies where in a volume that is made of the devices.
    fn layout_for_new(&self) -> Result<Layout, Refusal> {
        let sizes: Vec<_> = self.devices.iter().map(|device| device.size_bytes).collect();
        Layout::plan(self.extent_bytes, &sizes)
            .map_err(|error| self.refusal_of(error.tier(), RefusalReason::Layout(error)))
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

    /// Nobody else on this machine can reach any tier: all are locked, or this process's own.
    #[must_use]
    pub fn locked(mut self, is_locked: bool) -> Self {
        self.candidate.is_locked = is_locked;
        self
    }

    /// This gate has served this volume by that name: no other one is opened, and none made, and
    /// none that is older than it was.
    #[must_use]
    pub fn knowing(mut self, witness: Option<Witness>) -> Self {
        self.witness = witness;
        self
    }

    /// Moves nothing for so long if the owner before has not let go.
    #[must_use]
    pub fn resting(mut self, span: Span) -> Self {
        self.rest = span;
        self
    }

    fn ask(&mut self) -> Ask<'_, Volume, Refusal> {
        let task = *self.tasks.front().expect("looked at by `poll`");
        let part = self.tier_of(task);
        let read = |offset, length| Ask::Read { part, offset, length };
        match task {
            Task::Lease(Act::Look(_)) => read(0, FRONT_BYTES),
            Task::Lease(Act::Wait(span)) => Ask::Wait(span),
            Task::Lease(Act::Fence) => Ask::Fence(self.candidate.losers()),
            Task::LookAt { block, .. } => read(block as u64 * BLOCK_BYTES, BLOCK_BYTES),
            Task::Probe { offset, .. } => read(offset, BLOCK_BYTES),
            Task::ReadMapHead { area } => read(self.map_offset(area), BLOCK_BYTES),
            Task::ReadMap { offset, length } | Task::ReadJournal { offset, length } => {
                read(offset, length)
            }
            Task::Flush { .. } => Ask::Flush { part },
            Task::Lease(_)
            | Task::WriteHead { .. }
            | Task::WriteMap { .. }
            | Task::WriteRecord { .. } => {
                let offset = self.make_bytes(task);
                Ask::Write { part, offset, bytes: &self.bytes }
            }
        }
    }

    /// Makes the bytes of a write; returns where they go.
    fn make_bytes(&mut self, task: Task) -> u64 {
        let mut block: Block = [0; BLOCK];
        let offset = match task {
            Task::Lease(act) => {
                let Claimed { volume, office, .. } = self.claimed();
                self.candidate.encode(act, (*volume, office.settled(None)), &mut block)
            }
            Task::WriteHead { tier, generation } => {
                let offset = head_offset(generation);
                self.head(tier, generation).encode(offset, &mut block);
                offset
            }
            Task::WriteRecord { offset, record } => {
                record.encode(self.claimed().volume, offset, &mut block);
                offset
            }
            Task::WriteMap { first } => {
                let volume = self.opened.as_ref().expect("the map is known");
                let Volume { layout, map, journal, .. } = &**volume;
                let blocks = (first, BLOCKS_AT_ONCE);
                return journal.write_checkpoint(layout, map, blocks, &mut self.bytes);
            }
            _ => unreachable!("no write"),
        };
        self.bytes.clear();
        self.bytes.extend_from_slice(&block);
        offset
    }

    fn head(&self, tier: usize, generation: u64) -> Head {
        let Claimed { volume, layout, office, .. } = self.claimed();
        let [tier_index, tiers] =
            [tier, layout.tiers.len()].map(|count| u32::try_from(count).expect("few tiers"));
        Head {
            volume: *volume,
            generation,
            features_optional: 0,
            tier: tier_index,
            tiers,
            extent_bytes: layout.extent_bytes,
            data_offset: layout.tiers[tier].data_offset,
            slots: layout.tiers[tier].slots,
            extents: layout.extents,
            checkpoint_blocks: layout.checkpoint_blocks,
            journal_records: layout.journal_records,
            opening: office.owner,
        }
    }

    /// The tasks of a phase are done: what they found decides what comes next. True at the end.
    fn advance(&mut self) -> Result<bool, Refusal> {
        match self.phase {
            Phase::Look => self.watch_or_claim()?,
            Phase::Claim => {
                self.push_each(|tier| Task::Lease(Act::Look(tier)));
                self.candidate.begin_confirm();
                self.phase = Phase::Confirm;
            }
            Phase::Confirm => {
                self.confirm()?;
                // The next gate needs all tiers, so that it finds a beat on any of them.
                self.candidate.take_office(1);
                if self.candidate.is_new { self.make() } else { self.read() }
            }
            Phase::Make => {
                let opened = self.opened.as_mut().expect("a volume is being made");
                opened.journal.checkpoint_is_durable();
                self.push_heads(1);
                self.close();
            }
            Phase::Maps => self.begin_journal(),
            Phase::Journal => self.read_on()?,
            Phase::Map(checkpoint) => self.judge_map(checkpoint)?,
            Phase::Mend(maps) => self.mended(maps),
            Phase::Close => {
                self.push_each(|tier| Task::Lease(Act::Look(tier)));
                self.phase = Phase::Done;
            }
            Phase::Done => {
                self.confirm()?;
                self.finish();
                return Ok(true);
            }
            Phase::Withdraw => unreachable!("it has been refused"),
        }
        Ok(false)
    }

    /// Makes everything durable, counts all heads up once more, and says so.
    fn close(&mut self) {
        let generation = self.claimed().office.generation;
        self.push_each(|tier| Task::Flush { tier });
        self.push_heads(generation + 1);
        self.push_each(|tier| Task::Lease(Act::Settle(tier)));
        self.push_each(|tier| Task::Flush { tier });
        self.phase = Phase::Close;
    }

    /// Everything that was asked for is done: the volume is what it is from now on.
    fn finish(&mut self) {
        let opened = self.opened.as_mut().expect("its map was judged");
        opened.office.beats.clone_from(&self.candidate.tenure.beats);
        opened.office.noted = opened.journal.last();
        let has_displaced = opened.office.since == opened.office.generation;
        if has_displaced && self.rest > Span::ZERO {
            opened.moves_from = self.candidate.tenure.now + self.rest;
        }
    }

    fn push_heads(&mut self, generation: u64) {
        self.push_each(|tier| Task::WriteHead { tier, generation });
        self.push_each(|tier| Task::Flush { tier });
    }

    fn push_each(&mut self, task: impl Fn(usize) -> Task) {
        self.tasks.extend((0..self.devices.len()).map(task));
    }

    fn tier_of(&self, task: Task) -> usize {
        match task {
            Task::Lease(act) => act.member().unwrap_or(0),
            Task::LookAt { tier, .. }
            | Task::Probe { tier, .. }
            | Task::WriteHead { tier, .. }
            | Task::Flush { tier } => tier,
            _ => self.devices.len() - 1,
        }
    }

    fn claimed(&self) -> &Claimed {
        self.claimed.as_ref().expect("known since the fronts were judged")
    }

    fn layout(&self) -> &Layout {
        &self.claimed().layout
    }

    fn refuse(&mut self, tier: usize, reason: RefusalReason) {
        self.refuse_for(self.refusal_of(tier, reason));
    }

    /// Nothing else is done any more than to take claims back.
    fn refuse_for(&mut self, refusal: Refusal) {
        self.tasks.clear();
        self.refusal.get_or_insert(refusal);
    }

    fn obstructed(&self, (tier, why): Obstacle) -> Refusal {
        self.refusal_of(tier, why.into())
    }

    fn refusal_of(&self, tier: usize, reason: RefusalReason) -> Refusal {
        Refusal { tier: self.devices[tier].name.clone(), reason }
    }
}
