//! Opens the tiers of a volume: asks its driver for reads, writes and flushes until it has a
//! [`Volume`], or a reason why not.
//!
//! ```text
//!   heads of all tiers --- blank ---> make: heads of generation 0, flush,
//!     |          |                          map, flush, heads of generation 1, flush ----+
//!     |          +------- unfit ---> Refused                                             |
//!     v                                                                                  v
//!   journal --> map that is whole --> last record again, flush, heads up, flush, twice -> Ready
//! ```
//!
//! A power cut at any point leaves something that opens again.
//!
//! A driver may also have died without a power cut, perhaps just after a flush had failed. What is
//! read then may be in the drive's cache alone, and the drive may have given up writing it. So
//! nothing is relied on that was not flushed with success: the last record is written again, before
//! a flush; and a map that no record was written after is used only if the other one is damaged.

use std::collections::VecDeque;

use evenkeel_core::time::Nanos;

use super::format::checkpoint;
use super::format::head::Head;
use super::format::journal::Record;
use super::format::{BLOCK, BLOCK_BYTES, Block, VolumeId};
use super::heads::{self, Verdict};
use super::journal::{Checkpoint, Journal};
use super::layout::{COPIES, Layout};
use super::map::{Place, TierMap};
use super::refusal::{Refusal, RefusalReason};
use super::volume::Volume;
use crate::notes::head::{HeadCopy, head_offset};
use crate::notes::{Answer, Ask, Opens, PartDevice, STEP_BYTES_MAX, Unfit};

/// The opening of a volume.
#[derive(Debug)]
pub struct Opening {
    /// The volume's name; that for a new one until the heads are read.
    volume: VolumeId,
    extent_bytes: u64,
    devices: Vec<PartDevice>,
    phase: Phase,
    /// What is to be asked for next, in order.
    tasks: VecDeque<Task>,
    /// The bytes of the write that is asked for.
    bytes: Vec<u8>,
    copies: Vec<[HeadCopy<Head>; 2]>,
    layout: Option<Layout>,
    /// Each tier's generation.
    generations: Vec<u64>,
    /// Maps that may be whole, the one to be tried next last.
    candidates: Vec<Checkpoint>,
    places: Vec<Place>,
    pairs: Vec<Pair>,
    opened: Option<Box<Volume>>,
    refusal: Option<Refusal>,
}

/// What the tasks at hand are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Read all heads.
    Heads,
    /// Make a volume.
    Making,
    /// Read the first block of both maps, and the journal.
    Notes,
    /// Read a map.
    Map(Checkpoint),
    /// Make sure of it all.
    Closing,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    ReadHead { tier: usize, copy: usize },
    ReadMapHead { area: u32 },
    ReadMap { offset: u64, length: u64 },
    ReadJournal { offset: u64, length: u64 },
    WriteHead { tier: usize, generation: u64 },
    WriteMap { first: u32 },
    WriteRecord { offset: u64, record: Record },
    Flush { tier: usize },
}

/// Both copies of a record, as far as they are whole.
#[derive(Clone, Copy, Debug, Default)]
struct Pair([Option<Record>; COPIES]);

/// Blocks that are read or written at once.
const BLOCKS_AT_ONCE: u32 = 256;
const _: () = assert!(BLOCKS_AT_ONCE as u64 * BLOCK_BYTES == STEP_BYTES_MAX);

impl Opens for Opening {
    type Volume = Volume;
    type Refusal = Refusal;

    fn poll(&mut self, _: Nanos) -> Ask<'_, Volume, Refusal> {
        while self.refusal.is_none() && self.tasks.is_empty() && self.phase != Phase::Closing {
            if let Err(refusal) = self.advance() {
                self.refusal = Some(refusal);
            }
        }
        if let Some(refusal) = &self.refusal {
            return Ask::Refused(refusal.clone());
        }
        match self.tasks.front() {
            None => Ask::Ready(self.opened.take().expect("polled after it was ready")),
            Some(&task) => self.ask(task),
        }
    }

    fn answer(&mut self, answer: Answer<'_>) {
        let task = self.tasks.pop_front().expect("answers follow questions");
        match (task, answer) {
            (Task::ReadHead { tier, copy }, _) => {
                let block = answer.blocks(1).and_then(<[_]>::first);
                self.copies[tier][copy] = block.map(Head::decode);
            }
            (Task::ReadMapHead { area }, _) => self.take_map_head(area, answer.blocks(1)),
            (Task::ReadMap { offset, length }, _) => {
                self.take_map(offset, answer.blocks(length / BLOCK_BYTES));
            }
            (Task::ReadJournal { offset, length }, _) => {
                self.take_journal(offset, length, answer.blocks(length / BLOCK_BYTES));
            }
            (_, Answer::Done) => {}
            (_, Answer::Read(_)) => panic!("nobody asked for bytes"),
            (_, Answer::Failed) => {
                self.refuse(self.tier_of(task), Unfit::Failed.into());
            }
        }
    }
}

impl Opening {
    /// Begins to open these devices, the slowest first. If they are blank, a volume of the name
    /// `fresh` is made of them, which must not have been used before.
    ///
    /// # Panics
    /// Unless there are two to [`TIERS_MAX`](crate::policy::TIERS_MAX) devices, and the extent's
    /// size is a power of two within [`EXTENT_BYTES`](super::layout::EXTENT_BYTES); the policy's
    /// checks see to both.
    pub fn new(fresh: VolumeId, extent_bytes: u64, devices: Vec<PartDevice>) -> Self {
        assert!((2..=crate::policy::TIERS_MAX).contains(&devices.len()), "two tiers at least");
        let read = |tier| [0, 1].map(|copy| Task::ReadHead { tier, copy });
        Self {
            volume: fresh,
            extent_bytes,
            phase: Phase::Heads,
            tasks: (0..devices.len()).flat_map(read).collect(),
            bytes: Vec::new(),
            copies: vec![[None, None]; devices.len()],
            devices,
            layout: None,
            generations: Vec::new(),
            candidates: Vec::new(),
            places: Vec::new(),
            pairs: Vec::new(),
            opened: None,
            refusal: None,
        }
    }

    fn ask(&mut self, task: Task) -> Ask<'_, Volume, Refusal> {
        let tier = self.tier_of(task);
        let read = |offset, length| Ask::Read { part: tier, offset, length };
        match task {
            Task::ReadHead { copy, .. } => read(copy as u64 * BLOCK_BYTES, BLOCK_BYTES),
            Task::ReadMapHead { area } => read(self.layout().checkpoint_offset(area), BLOCK_BYTES),
            Task::ReadMap { offset, length } | Task::ReadJournal { offset, length } => {
                read(offset, length)
            }
            Task::Flush { tier } => Ask::Flush { part: tier },
            Task::WriteHead { .. } | Task::WriteMap { .. } | Task::WriteRecord { .. } => {
                let offset = self.make_bytes(task);
                Ask::Write { part: tier, offset, bytes: &self.bytes }
            }
        }
    }

    /// Makes the bytes of a write; returns where they go.
    fn make_bytes(&mut self, task: Task) -> u64 {
        let mut block: Block = [0; BLOCK];
        let offset = match task {
            Task::WriteHead { tier, generation } => {
                let offset = head_offset(generation);
                self.head(tier, generation).encode(offset, &mut block);
                offset
            }
            Task::WriteRecord { offset, record } => {
                record.encode(self.volume, offset, &mut block);
                offset
            }
            Task::WriteMap { first } => {
                let volume = self.opened.as_ref().expect("a volume is being made");
                let Volume { layout, map, journal } = &**volume;
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
        let layout = self.layout();
        let [tier_index, tiers] =
            [tier, layout.tiers.len()].map(|count| u32::try_from(count).expect("few tiers"));
        Head {
            volume: self.volume,
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
        }
    }

    /// The tasks of a phase are done: what they found decides what comes next.
    fn advance(&mut self) -> Result<(), Refusal> {
        match self.phase {
            Phase::Heads => self.judge_heads()?,
            Phase::Making => {
                let opened = self.opened.as_mut().expect("a volume is being made");
                opened.journal.checkpoint_is_durable();
                self.push_heads(1);
                self.phase = Phase::Closing;
            }
            Phase::Notes => {
                let newest = self.newest_sequence();
                let is_sure = |map: &Checkpoint| newest.is_some_and(|last| last > map.sequence);
                self.candidates.sort_by_key(|map| (is_sure(map), map.number));
                self.try_next_map()?;
            }
            Phase::Map(checkpoint) => self.judge_map(checkpoint)?,
            Phase::Closing => unreachable!("nothing follows it"),
        }
        Ok(())
    }

    fn judge_heads(&mut self) -> Result<(), Refusal> {
        match heads::judge(self.volume, self.extent_bytes, &self.devices, &self.copies)? {
            Verdict::Make(volume) => self.make(volume)?,
            Verdict::Use { volume, layout, generations } => {
                (self.volume, self.generations) = (volume, generations);
                let (start, length) = (layout.journal_offset(), layout.journal_bytes());
                self.pairs = vec![Pair::default(); layout.journal_records as usize];
                self.layout = Some(layout);
                self.tasks.extend([0, 1].map(|area| Task::ReadMapHead { area }));
                self.push_reads(start, length, |offset, length| Task::ReadJournal {
                    offset,
                    length,
                });
                self.phase = Phase::Notes;
            }
        }
        Ok(())
    }

    /// Makes a volume. Its name lies on every tier before anything else does, so that a tier that
    /// is exchanged meanwhile is noticed.
    fn make(&mut self, volume: VolumeId) -> Result<(), Refusal> {
        let sizes: Vec<_> = self.devices.iter().map(|device| device.size_bytes).collect();
        let layout = Layout::plan(self.extent_bytes, &sizes)
            .map_err(|error| self.refusal_of(error.tier(), RefusalReason::Layout(error)))?;
        let map = TierMap::initial(&layout);
        let none = Checkpoint { number: 0, area: 1, sequence: 0 };
        let journal = Journal::new(volume, 0, none);
        let blocks = layout.checkpoint_blocks;
        let fastest = layout.fastest();
        self.volume = volume;
        self.layout = Some(layout.clone());
        self.opened = Some(Box::new(Volume { layout, map, journal }));
        self.push_heads(0);
        let starts = (0..blocks).step_by(BLOCKS_AT_ONCE as usize);
        self.tasks.extend(starts.map(|first| Task::WriteMap { first }));
        self.tasks.push_back(Task::Flush { tier: fastest });
        self.phase = Phase::Making;
        Ok(())
    }

    fn take_map_head(&mut self, area: u32, blocks: Option<&[Block]>) {
        let offset = self.layout().checkpoint_offset(area);
        let block = blocks.and_then(<[_]>::first);
        if let Some((head, _)) = block.and_then(|one| checkpoint::decode(self.volume, offset, one))
        {
            let (number, sequence) = (head.number, head.sequence);
            self.candidates.push(Checkpoint { number, area, sequence });
        }
    }

    fn try_next_map(&mut self) -> Result<(), Refusal> {
        let fastest = self.layout().fastest();
        let checkpoint = self.candidates.pop();
        let checkpoint =
            checkpoint.ok_or_else(|| self.refusal_of(fastest, RefusalReason::MapDamaged))?;
        let start = self.layout().checkpoint_offset(checkpoint.area);
        let blocks = self.layout().extents.div_ceil(super::format::PLACES_PER_BLOCK);
        self.places.clear();
        let length = u64::from(blocks) * BLOCK_BYTES;
        self.push_reads(start, length, |offset, length| Task::ReadMap { offset, length });
        self.phase = Phase::Map(checkpoint);
        Ok(())
    }

    /// Takes the places from these blocks of a map, unless one is damaged; then the map will be
    /// found to be too short.
    fn take_map(&mut self, start: u64, blocks: Option<&[Block]>) {
        let Phase::Map(checkpoint) = self.phase else { unreachable!("a map is read in its phase") };
        let first = self.layout().checkpoint_offset(checkpoint.area);
        for (offset, block) in offsets(start).zip(blocks.unwrap_or_default()) {
            let Some((head, places)) = checkpoint::decode(self.volume, offset, block) else {
                return;
            };
            let is_next = u64::from(head.index) * BLOCK_BYTES == offset - first;
            let same = (head.number, head.sequence) == (checkpoint.number, checkpoint.sequence);
            if is_next && same {
                self.places.extend(places);
            }
        }
    }

    /// Takes the records from these blocks of the journal. If they cannot be read together, each is
    /// read by itself: the last one written may be unreadable after a power cut.
    fn take_journal(&mut self, start: u64, length: u64, blocks: Option<&[Block]>) {
        if blocks.is_none() && length > BLOCK_BYTES {
            for index in (0..length / BLOCK_BYTES).rev() {
                let offset = start + index * BLOCK_BYTES;
                self.tasks.push_front(Task::ReadJournal { offset, length: BLOCK_BYTES });
            }
            return;
        }
        let journal_offset = self.layout().journal_offset();
        let records = u64::from(self.layout().journal_records);
        for (offset, block) in offsets(start).zip(blocks.unwrap_or_default()) {
            let index = (offset - journal_offset) / BLOCK_BYTES;
            let index = usize::try_from(index).expect("the journal is in memory");
            let (pair, copy) = (index / COPIES, index % COPIES);
            let record = Record::decode(self.volume, offset, block);
            let fits = |record: &Record| record.sequence % records == pair as u64;
            self.pairs[pair].0[copy] = record.filter(fits);
        }
    }

    /// Follows the journal from the map on.
    fn judge_map(&mut self, checkpoint: Checkpoint) -> Result<(), Refusal> {
        if self.places.len() != self.layout().extents as usize {
            return self.try_next_map();
        }
        let layout = self.layout().clone();
        let fastest = layout.fastest();
        let damaged = |sequence| RefusalReason::JournalDamaged { sequence };
        let map = TierMap::from_places(&layout, std::mem::take(&mut self.places));
        let mut map = map.map_err(|_| self.refusal_of(fastest, RefusalReason::MapDamaged))?;
        let mut last = checkpoint.sequence;
        while let Some(record) = self.record(&layout, last + 1) {
            last += 1;
            map.replay(record.extent, record.from, record.to)
                .map_err(|_| self.refusal_of(fastest, damaged(last)))?;
        }
        if self.newest_sequence().is_some_and(|newest| newest > last) {
            return Err(self.refusal_of(fastest, damaged(last + 1)));
        }
        self.push_repairs(&layout, checkpoint.sequence, last);
        let journal = Journal::new(self.volume, last, checkpoint);
        self.opened = Some(Box::new(Volume { layout, map, journal }));
        self.close();
        Ok(())
    }

    fn newest_sequence(&self) -> Option<u64> {
        self.pairs.iter().filter_map(|pair| Some(pair.newest()?.sequence)).max()
    }

    fn record(&self, layout: &Layout, sequence: u64) -> Option<Record> {
        let pair = self.pair(layout, sequence);
        pair.newest().filter(|record| record.sequence == sequence)
    }

    fn pair(&self, layout: &Layout, sequence: u64) -> &Pair {
        let index = sequence % u64::from(layout.journal_records);
        &self.pairs[usize::try_from(index).expect("the journal is in memory")]
    }

    /// Writes again, of the records behind the map, both copies of the last one, and whatever copy
    /// of another is not whole.
    fn push_repairs(&mut self, layout: &Layout, before: u64, last: u64) {
        for sequence in before + 1..=last {
            let copies = self.pair(layout, sequence).0;
            let record = self.record(layout, sequence).expect("it was just followed");
            for (offset, copy) in offsets(layout.record_offset(sequence)).zip(copies) {
                if sequence == last || copy != Some(record) {
                    self.tasks.push_back(Task::WriteRecord { offset, record });
                }
            }
        }
    }

    /// Makes durable what was read, then counts the heads up: those that are behind to the newest
    /// generation, or all by one; and then all by one once more. So heads that are one apart are of
    /// an opening that was cut short, and whatever was there before the last one is two behind.
    fn close(&mut self) {
        let tiers = self.devices.len();
        self.tasks.extend((0..tiers).map(|tier| Task::Flush { tier }));
        let newest = self.generations.iter().copied().max().unwrap_or(0);
        let is_even = self.generations.iter().all(|generation| *generation == newest);
        let generation = newest + u64::from(is_even);
        let behind = (0..tiers).filter(|tier| self.generations[*tier] < generation);
        let writes: Vec<_> = behind.map(|tier| Task::WriteHead { tier, generation }).collect();
        self.tasks.extend(writes);
        self.tasks.extend((0..tiers).map(|tier| Task::Flush { tier }));
        self.push_heads(generation + 1);
        self.phase = Phase::Closing;
    }

    fn push_heads(&mut self, generation: u64) {
        let tiers = 0..self.devices.len();
        self.tasks.extend(tiers.clone().map(|tier| Task::WriteHead { tier, generation }));
        self.tasks.extend(tiers.map(|tier| Task::Flush { tier }));
    }

    fn push_reads(&mut self, start: u64, length: u64, task: impl Fn(u64, u64) -> Task) {
        let end = start + length;
        let mut offset = start;
        while offset < end {
            let length = STEP_BYTES_MAX.min(end - offset);
            self.tasks.push_back(task(offset, length));
            offset += length;
        }
    }

    fn tier_of(&self, task: Task) -> usize {
        match task {
            Task::ReadHead { tier, .. } | Task::WriteHead { tier, .. } | Task::Flush { tier } => {
                tier
            }
            _ => self.devices.len() - 1,
        }
    }

    fn layout(&self) -> &Layout {
        self.layout.as_ref().expect("known since the heads were judged")
    }

    fn refuse(&mut self, tier: usize, reason: RefusalReason) {
        self.refusal = Some(self.refusal_of(tier, reason));
    }

    fn refusal_of(&self, tier: usize, reason: RefusalReason) -> Refusal {
        Refusal { tier: self.devices[tier].name.clone(), reason }
    }
}

impl Pair {
    /// The newer of the copies that are whole.
    fn newest(&self) -> Option<Record> {
        self.0.into_iter().flatten().max_by_key(|record| record.sequence)
    }
}

/// Where blocks lie that follow each other.
fn offsets(start: u64) -> impl Iterator<Item = u64> {
    (0..).map(move |index: u64| start + index * BLOCK_BYTES)
}
