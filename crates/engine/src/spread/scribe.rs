//! Writes what a volume notes on one server: slots wiped, table and choices, in an order that a
//! power cut may end at any point.
//!
//! ```text
//! wipe the slots -> flush -> table blocks, pages of choices -> flush -> discard slots left -> told
//!                                                                 |                       ^
//!                                      any of them for the first time? directory, flush --+
//! ```
//!
//! All that came up meanwhile is noted together in the next round, so the cost of a round is shared
//! by however many objects wait for it. An object goes through two rounds: one on its server, which
//! ends with its entry in the table; then one on each keeper, which ends with its choice. **Entry
//! before choice:** what a cut leaves is then a slot of zeroes that nobody refers to. The other way
//! round it would be a choice of nothing, and look like a server that has lost an object.
//!
//! An object that is given up goes the other way: its choice is taken back on each keeper, then its
//! entry is cleared, and then its slot is free. A cut in between leaves an entry without a choice,
//! and the object as it was.
//!
//! A step that fails is tried again with what it stood on, three times in all. Then the server
//! rests.

use std::collections::BTreeSet;

use evenkeel_core::id::TenantId;

use super::heads;
use super::layout::{ENTRIES_PER_BLOCK, Note};
use super::rules::{Mutant, Rules};
use super::volume::{Latest, Volume};
use crate::notes::StepKind;
use crate::notes::block::{BLOCK, BLOCK_BYTES, Block};

/// How often a round is tried.
pub const ATTEMPTS: u32 = 3;
/// Most bytes that are wiped in one step.
const WIPE_BYTES_MAX: u64 = 64 << 20;

/// What notes on one server.
#[derive(Debug, Default)]
pub(super) struct Scribe {
    phase: Phase,
    attempt: u32,
    /// Objects that are to be entered in the next round.
    pub(super) queue: Vec<Entering>,
    /// Slots whose entries are to be cleared in the next round.
    pub(super) leaving: Vec<Leaving>,
    /// Pages that are to be written in the next round; for keepers.
    pub(super) pages: BTreeSet<u32>,
    /// Whether the head is to be written in the next round, with another size.
    pub(super) is_head_due: bool,
    /// Who waits for them, if anybody does.
    pub(super) pages_payer: Option<TenantId>,
    /// The objects of this round.
    batch: Vec<Entering>,
    /// The slots that are left in this round.
    left: Vec<Leaving>,
    /// Slots to wipe, later those to discard: the first one, and how many.
    runs: Vec<(u32, u32)>,
    /// The blocks of this round, with how they are to be written.
    blocks: Vec<(Note, Latest)>,
    /// Whether the head is written in this round.
    has_head: bool,
    /// Blocks of the directory that are to list some of them for the first time, likewise.
    directory: Vec<(Note, Latest)>,
    /// What the step under way writes.
    pub(super) bytes: Vec<u8>,
    pub(super) is_busy: bool,
    payer: Option<TenantId>,
}

/// An object that is to be entered in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entering {
    pub(super) object: u32,
    pub(super) slot: u32,
    pub(super) sequence: u64,
    /// Who waits for it.
    pub(super) payer: TenantId,
    /// Whether its bytes were copied to the slot, which is not wiped then.
    pub(super) is_copied: bool,
}

/// An object that is to be cleared from the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) object: u32,
    pub(super) slot: u32,
    /// Who waits for it, if anybody does.
    pub(super) payer: Option<TenantId>,
    /// Whether the slot was given back to its server; if that failed, it may still happen.
    pub(super) is_discarded: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Wipe(usize),
    FlushWiped,
    Write(usize),
    Head,
    Flush,
    List(usize),
    FlushListed,
    Discard(usize),
}

/// A step that a scribe wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) kind: StepKind,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) payer: Option<TenantId>,
}

/// How a round ended, if it did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// Objects that are entered.
    pub(super) entered: Vec<Entering>,
    /// Slots that are cleared.
    pub(super) left: Vec<Leaving>,
    /// Whether pages were written.
    pub(super) has_pages: bool,
    /// Whether the head was, if it was to be.
    pub(super) head: Option<bool>,
    /// Objects that could not be entered: the server has to rest.
    pub(super) failed: Vec<Entering>,
    /// Slots of which nobody knows whether they are cleared.
    pub(super) not_left: Vec<Leaving>,
    pub(super) has_failed: bool,
}

impl Scribe {
    /// The next step, if there is anything to do and none is under way.
    pub(super) fn poll(
        &mut self,
        server: usize,
        volume: &mut Volume,
        rules: Rules,
    ) -> Option<Wanted> {
        if self.is_busy {
            return None;
        }
        if self.phase == Phase::Idle {
            self.begin(server, volume, rules)?;
        }
        let mut wanted = self.wanted(server, volume);
        wanted.payer = self.payer;
        self.is_busy = true;
        Some(wanted)
    }

    /// Whether there is nothing to do and nothing under way.
    pub(super) fn is_at_rest(&self) -> bool {
        self.phase == Phase::Idle
            && self.queue.is_empty()
            && self.leaving.is_empty()
            && self.pages.is_empty()
            && !self.is_head_due
    }

    /// Begins a round with all that is wanted by now.
    fn begin(&mut self, server: usize, volume: &mut Volume, rules: Rules) -> Option<()> {
        self.batch = std::mem::take(&mut self.queue);
        self.left = std::mem::take(&mut self.leaving);
        let pages = std::mem::take(&mut self.pages);
        self.has_head = std::mem::take(&mut self.is_head_due);
        let has_notes = !(self.batch.is_empty() && self.left.is_empty() && pages.is_empty());
        if !has_notes && !self.has_head {
            return None;
        }
        // Whoever waits pays; the mover pays if nobody does.
        let entering = self.batch.iter().min_by_key(|one| one.is_copied);
        let leaving = self.left.iter().find_map(|one| one.payer);
        let waiting = entering.map(|one| one.payer).or(leaving);
        let pages_payer = self.pages_payer.take();
        self.payer = waiting.or(pages_payer);
        self.attempt = 1;
        let fresh = self.batch.iter().filter(|one| !one.is_copied);
        self.runs = runs(fresh.map(|one| one.slot), volume);
        let slots =
            self.batch.iter().map(|one| one.slot).chain(self.left.iter().map(|one| one.slot));
        let blocks: BTreeSet<u32> = slots.map(|slot| slot / ENTRIES_PER_BLOCK).collect();
        let notes = blocks.into_iter().map(Note::Table).chain(pages.into_iter().map(Note::Page));
        self.blocks = notes.map(|note| (note, volume.latest(server, note).next())).collect();
        self.directory = self.directory_of(server, volume, rules);
        let has_copied = self.batch.iter().any(|one| one.is_copied);
        if !self.runs.is_empty() && !rules.is_broken(Mutant::SkipWipe) {
            self.phase = Phase::Wipe(0);
        } else if has_copied {
            self.phase = Phase::FlushWiped;
        } else {
            self.enter(server, volume);
            self.phase = self.first_write();
        }
        Some(())
    }

    /// Where a round begins to write.
    fn first_write(&self) -> Phase {
        if self.blocks.is_empty() { Phase::Head } else { Phase::Write(0) }
    }

    /// The blocks of the directory that do not list what this round writes.
    fn directory_of(&self, server: usize, volume: &Volume, rules: Rules) -> Vec<(Note, Latest)> {
        let new = self.blocks.iter().filter(|(note, _)| !volume.is_listed(server, *note));
        let blocks = new.map(|(note, _)| volume.layout.listed_in(server, *note).0);
        let blocks: BTreeSet<u32> =
            blocks.filter(|_| !rules.is_broken(Mutant::SkipListing)).collect();
        let notes = blocks.into_iter().map(Note::Directory);
        notes.map(|note| (note, volume.latest(server, note).next())).collect()
    }

    /// The slots are wiped: their entries may be noted.
    fn enter(&self, server: usize, volume: &mut Volume) {
        let table = &mut volume.tables[server];
        for one in &self.batch {
            table.enter(one.slot, one.entry());
        }
        for one in &self.left {
            table.enter(one.slot, None);
        }
    }

    fn wanted(&mut self, server: usize, volume: &Volume) -> Wanted {
        let flush = Wanted { kind: StepKind::Flush, offset: 0, length: 0, payer: None };
        match self.phase {
            Phase::Idle => unreachable!("a round was begun"),
            Phase::Wipe(index) | Phase::Discard(index) => {
                let (first, count) = self.runs[index];
                let offset = volume.layout.slot_offset(server, first);
                let length = u64::from(count) * volume.layout.object_bytes;
                let is_wipe = matches!(self.phase, Phase::Wipe(_));
                let kind = if is_wipe { StepKind::Wipe } else { StepKind::Discard };
                Wanted { kind, offset, length, payer: None }
            }
            Phase::FlushWiped | Phase::Flush | Phase::FlushListed => flush,
            Phase::Write(index) => {
                let (note, latest) = &mut self.blocks[index];
                if let Note::Page(page) = note {
                    latest.number = volume.versions[*page as usize];
                }
                let mut block: Block = [0; BLOCK];
                let offset = volume.encode(server, *note, *latest, &mut block);
                self.write(offset, &block)
            }
            Phase::Head => {
                let mut block: Block = [0; BLOCK];
                let offset = heads::encode_again(volume, server, &mut block);
                self.write(offset, &block)
            }
            Phase::List(index) => {
                let (note, latest) = self.directory[index];
                let new = self.blocks.iter().map(|(note, _)| *note);
                let mut block: Block = [0; BLOCK];
                let offset = volume.encode_listing((server, note), latest, new, &mut block);
                self.write(offset, &block)
            }
        }
    }

    fn write(&mut self, offset: u64, block: &Block) -> Wanted {
        self.bytes.clear();
        self.bytes.extend_from_slice(block);
        Wanted { kind: StepKind::Note, offset, length: BLOCK_BYTES, payer: None }
    }

    /// Takes back what is to be entered after it was copied, unless that is entered already; false
    /// if there is no such thing.
    pub(super) fn withdraw_copied(&mut self) -> bool {
        let before = self.queue.len() + self.batch.len();
        self.queue.retain(|one| !one.is_copied);
        if matches!(self.phase, Phase::Wipe(_) | Phase::FlushWiped) {
            self.batch.retain(|one| !one.is_copied);
        }
        self.queue.len() + self.batch.len() < before
    }

    /// The step is over.
    pub(super) fn step_ended(
        &mut self,
        server: usize,
        ok: bool,
        volume: &mut Volume,
        rules: Rules,
    ) -> Ended {
        assert!(std::mem::take(&mut self.is_busy), "no step is under way");
        if !ok {
            return self.step_failed(server, volume);
        }
        self.phase = match self.phase {
            Phase::Idle => unreachable!("it asks for no step"),
            Phase::Wipe(index) if index + 1 < self.runs.len() => Phase::Wipe(index + 1),
            Phase::Wipe(_) if !rules.is_broken(Mutant::SkipWipeFlush) => Phase::FlushWiped,
            Phase::Wipe(_) | Phase::FlushWiped => {
                self.enter(server, volume);
                self.first_write()
            }
            Phase::Write(index) if index + 1 < self.blocks.len() => Phase::Write(index + 1),
            Phase::Write(_) if self.has_head => Phase::Head,
            Phase::Write(_) | Phase::Head if !rules.is_broken(Mutant::SkipNoteFlush) => {
                Phase::Flush
            }
            Phase::Write(_) | Phase::Head | Phase::Flush if !self.directory.is_empty() => {
                Phase::List(0)
            }
            Phase::List(index) if index + 1 < self.directory.len() => Phase::List(index + 1),
            Phase::List(_) if !rules.is_broken(Mutant::SkipNoteFlush) => Phase::FlushListed,
            Phase::Discard(index) if index + 1 < self.runs.len() => Phase::Discard(index + 1),
            Phase::Discard(_) => return self.end(server, volume),
            Phase::Write(_) | Phase::Head | Phase::Flush | Phase::List(_) | Phase::FlushListed => {
                self.runs = runs(self.left.iter().map(|one| one.slot), volume);
                if self.runs.is_empty() {
                    return self.end(server, volume);
                }
                self.left.iter_mut().for_each(|one| one.is_discarded = true);
                Phase::Discard(0)
            }
        };
        Ended::default()
    }

    /// The round is over: its blocks are durable.
    fn end(&mut self, server: usize, volume: &mut Volume) -> Ended {
        let mut has_pages = false;
        for (note, latest) in self.blocks.drain(..).chain(self.directory.drain(..)) {
            *volume.latest_mut(server, note) = latest;
            has_pages |= matches!(note, Note::Page(_));
        }
        self.phase = Phase::Idle;
        let (entered, left) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.left));
        let head = std::mem::take(&mut self.has_head).then_some(true);
        Ended { entered, left, has_pages, head, ..Ended::default() }
    }

    /// What a step that failed left behind nobody knows: the round goes back to where all is done
    /// anew, and is given up after a while.
    fn step_failed(&mut self, server: usize, volume: &mut Volume) -> Ended {
        if matches!(self.phase, Phase::Discard(_)) {
            // It was advice. All else is durable.
            self.left.iter_mut().for_each(|one| one.is_discarded = false);
            return self.end(server, volume);
        }
        if self.attempt < ATTEMPTS {
            self.attempt += 1;
            self.phase = match self.phase {
                Phase::Wipe(_) | Phase::FlushWiped => Phase::Wipe(0),
                // What it lists is durable, and may be listed by now.
                Phase::List(_) | Phase::FlushListed => Phase::List(0),
                _ => self.first_write(),
            };
            if self.phase == Phase::Wipe(0) && self.runs.is_empty() {
                self.phase = Phase::FlushWiped;
            }
            return Ended::default();
        }
        self.phase = Phase::Idle;
        self.blocks.clear();
        self.directory.clear();
        for one in &self.batch {
            volume.tables[server].enter(one.slot, None);
        }
        let mut failed = std::mem::take(&mut self.batch);
        failed.append(&mut self.queue);
        let mut not_left = std::mem::take(&mut self.left);
        not_left.append(&mut self.leaving);
        let head = std::mem::take(&mut self.has_head) || std::mem::take(&mut self.is_head_due);
        let head = head.then_some(false);
        Ended { failed, not_left, head, has_failed: true, ..Ended::default() }
    }
}

impl Entering {
    fn entry(&self) -> Option<super::format::table::Entry> {
        super::format::table::Entry::new(self.object, self.sequence)
    }
}

/// Slots side by side, as many in one run as are wiped in one step.
fn runs(slots: impl Iterator<Item = u32>, volume: &Volume) -> Vec<(u32, u32)> {
    let most = WIPE_BYTES_MAX / volume.layout.object_bytes;
    let mut slots: Vec<u32> = slots.collect();
    slots.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for slot in slots {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == slot && u64::from(*count) < most => {
                *count += 1;
            }
            _ => runs.push((slot, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Layout, Shape};
    use super::super::volume::Volume;
    use super::*;
    use crate::lease::{Office, OwnerId};
    use crate::notes::VolumeId;

    const OBJECT_BYTES: u64 = 64 << 10;

    fn entering(object: u32, slot: u32) -> Entering {
        let (sequence, payer) = (u64::from(object) + 1, TenantId(0));
        Entering { object, slot, sequence, payer, is_copied: false }
    }

    fn volume() -> Volume {
        let shape = Shape { object_bytes: OBJECT_BYTES, size_bytes: None, candidates: 2 };
        let layout = Layout::plan(&shape, &[64 << 20, 64 << 20]).unwrap();
        let office = Office { owner: OwnerId([2; 16]), generation: 1, ..Office::default() };
        Volume::blank(VolumeId([1; 16]), layout, office)
    }

    /// The steps of the next round, all of which go well.
    fn round(scribe: &mut Scribe, volume: &mut Volume) -> Vec<(StepKind, u64, u64)> {
        let mut steps = Vec::new();
        while let Some(wanted) = scribe.poll(0, volume, Rules::default()) {
            steps.push((wanted.kind, wanted.offset, wanted.length));
            scribe.step_ended(0, true, volume, Rules::default());
        }
        steps
    }

    #[test]
    fn a_round_wipes_runs_of_slots_and_writes_each_block_once() {
        let (mut scribe, mut volume) = (Scribe::default(), volume());
        scribe.queue = [4, 2, 3, 300].map(|slot| entering(slot, slot)).into();
        scribe.pages.insert(0);
        let slot = |slot| volume.layout.slot_offset(0, slot);
        let (run, alone) = (slot(2), slot(300));
        let [first, second, page, directory] =
            [Note::Table(0), Note::Table(1), Note::Page(0), Note::Directory(0)]
                .map(|note| volume.layout.note_offset(0, note, 0));
        let expected = [
            (StepKind::Wipe, run, 3 * OBJECT_BYTES),
            (StepKind::Wipe, alone, OBJECT_BYTES),
            (StepKind::Flush, 0, 0),
            (StepKind::Note, first, 4096),
            (StepKind::Note, second, 4096),
            (StepKind::Note, page, 4096),
            (StepKind::Flush, 0, 0),
            (StepKind::Note, directory, 4096),
            (StepKind::Flush, 0, 0),
        ];
        assert_eq!(round(&mut scribe, &mut volume), expected);
        scribe.queue.push(entering(5, 5));
        let steps = round(&mut scribe, &mut volume);
        let notes = steps.iter().filter(|step| step.0 == StepKind::Note).count();
        assert_eq!(notes, 1, "it is listed");
    }

    #[test]
    fn a_block_is_never_written_over_its_newest_copy() {
        let (mut scribe, mut volume) = (Scribe::default(), volume());
        let mut offsets = Vec::new();
        for object in 0..4 {
            scribe.queue.push(entering(object, object));
            let steps = round(&mut scribe, &mut volume);
            offsets.extend(steps.iter().filter(|step| step.0 == StepKind::Note).map(|step| step.1));
        }
        let [first, second] = [0, 1].map(|copy| volume.layout.note_offset(0, Note::Table(0), copy));
        let directory = volume.layout.note_offset(0, Note::Directory(0), 0);
        assert_eq!(offsets, [first, directory, second, first, second]);
    }

    #[test]
    fn a_round_that_fails_is_done_anew_and_given_up_at_last() {
        let (mut scribe, mut volume) = (Scribe::default(), volume());
        scribe.queue.push(entering(7, 7));
        let mut offsets = Vec::new();
        let failed = loop {
            let wanted = scribe.poll(0, &mut volume, Rules::default()).unwrap();
            let ok = wanted.kind != StepKind::Flush || offsets.is_empty();
            if wanted.kind == StepKind::Note {
                offsets.push(wanted.offset);
            }
            let ended = scribe.step_ended(0, ok, &mut volume, Rules::default());
            if ended.has_failed {
                break ended.failed;
            }
        };
        let first = volume.layout.note_offset(0, Note::Table(0), 0);
        assert_eq!(offsets, [first; ATTEMPTS as usize], "the same bytes");
        assert_eq!(failed, [entering(7, 7)]);
        assert_eq!(volume.tables[0].entry(7), None);
    }
}
