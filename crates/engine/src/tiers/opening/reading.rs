//! What the notes of a volume say: the map that is whole, and the records of the journal behind it.
//! Only those count that were written in the half of the last opening that came to its end, since
//! an owner began to note there; whatever is older there, or comes late, has an older term.

use std::ops::Range;

use evenkeel_core::time::Nanos;

use super::super::format::checkpoint;
use super::super::format::journal::Record;
use super::super::format::{BLOCK_BYTES, Block, PLACES_PER_BLOCK};
use super::super::journal::{Checkpoint, Journal};
use super::super::layout::{COPIES, Layout};
use super::super::map::{MapBuilder, MapError, TierMap};
use super::super::refusal::{Refusal, RefusalReason};
use super::super::rules::Mutant;
use super::super::volume::Volume;
use super::{BLOCKS_AT_ONCE, Claimed, Opening, Phase, Task};
use crate::lease::Half;
use crate::notes::STEP_BYTES_MAX;

/// Maps that are written in the other half: one in each area. An opening that was cut short may
/// have had one write under way to the same half, which would else lie over the only map.
const MAPS: u32 = 2;

/// So many records are looked for behind the last one that is found: a gap in the journal is not
/// its end. Not all of the journal is read, since it can be four times as large as a map.
const LOOK_AHEAD_RECORDS: u64 = 512;
/// Bytes of a record, both copies.
const RECORD_BYTES: u64 = COPIES as u64 * BLOCK_BYTES;
/// Records that are read at once.
const RECORDS_AT_ONCE: u64 = STEP_BYTES_MAX / RECORD_BYTES;

/// What was read of the notes so far.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Maps that may be whole, the one to be tried next last.
    candidates: Vec<Checkpoint>,
    /// The map that is read, or why it is none.
    map: Option<Result<MapBuilder, MapError>>,
    /// By position in the journal, as far as it was read.
    pairs: Vec<Pair>,
    /// The records from the one behind the newest map on that were asked for.
    records: Range<u64>,
    /// The last record that was found in the journal.
    newest: Option<u64>,
}

/// Both copies of a record, as far as they are whole.
#[derive(Clone, Copy, Debug, Default)]
struct Pair([Option<Record>; COPIES]);

impl Opening {
    /// Makes a volume, whose name lies on every tier by now.
    pub(super) fn make(&mut self) {
        let Claimed { volume, layout, office, .. } = self.claimed();
        let none = Checkpoint { number: 0, area: 1, sequence: 0, term: 0 };
        let journal = Journal::new(*volume, (office.half, office.generation), 0, none);
        let (layout, map) = (layout.clone(), TierMap::initial(layout));
        self.known(layout, map, journal);
        self.push_map();
        self.phase = Phase::Make;
    }

    /// Counts the heads up, first those that are behind to the newest generation, then all by one;
    /// then reads what lies where. So no head is written over the newest one of its tier.
    pub(super) fn read(&mut self) {
        let generation = self.claimed().office.generation;
        for tier in 0..self.devices.len() {
            let missed = self.generations[tier] + 1..generation;
            let heads = missed.map(|generation| Task::WriteHead { tier, generation });
            self.tasks.extend(heads.flat_map(|head| [head, Task::Flush { tier }]));
        }
        self.push_heads(generation);
        self.reading.pairs = vec![Pair::default(); self.layout().journal_records as usize];
        self.tasks.extend([0, 1].map(|area| Task::ReadMapHead { area }));
        self.phase = Phase::Maps;
    }

    /// Where the last opening that came to its end has noted.
    fn half_read(&self) -> Half {
        self.claimed().settled.half
    }

    /// Where an area of the map that is read lies.
    pub(super) fn map_offset(&self, area: u32) -> u64 {
        self.layout().checkpoint_offset(self.half_read(), area)
    }

    /// Whether something of this term counts.
    fn counts(&self, term: u64) -> bool {
        term >= self.claimed().settled.since || self.rules.is_broken(Mutant::CountOld)
    }

    /// Takes the first block of a map.
    pub(super) fn take_map_head(&mut self, area: u32, blocks: Option<&[Block]>) {
        let (volume, offset) = (self.claimed().volume, self.map_offset(area));
        let block = blocks.and_then(<[_]>::first);
        let head = block.and_then(|one| checkpoint::decode(volume, offset, one));
        let head = head.map(|(head, _)| head).filter(|head| self.counts(head.term));
        self.reading.candidates.extend(head.map(|head| Checkpoint {
            number: head.number,
            area,
            sequence: head.sequence,
            term: head.term,
        }));
    }

    /// The first block of each map was read: the journal is read from the newer one on.
    pub(super) fn begin_journal(&mut self) {
        let newest = self.reading.candidates.iter().map(|map| map.sequence).max();
        let start = newest.unwrap_or(0) + 1;
        self.reading.records = start..start;
        self.reading.newest = None;
        self.phase = Phase::Journal;
    }

    /// Reads on in the journal, until nothing more is to be expected there; then the map is tried
    /// first that is sure to be durable.
    pub(super) fn read_on(&mut self) -> Result<(), Refusal> {
        let Range { start, end } = self.reading.records.clone();
        let step = end.saturating_sub(RECORDS_AT_ONCE).max(start)..end;
        let found = step.filter_map(|at| Some(self.pair(self.layout(), at).newest()?.sequence));
        let newest = self.reading.newest.max(found.max());
        self.reading.newest = newest;
        let expected = newest.unwrap_or(0).max(self.noted).max(start) + LOOK_AHEAD_RECORDS;
        let limit = expected.min(start + u64::from(self.layout().journal_records));
        if end < limit {
            let next = limit.min(end + RECORDS_AT_ONCE);
            self.reading.records.end = next;
            self.push_records(end..next);
            return Ok(());
        }
        let is_sure = |map: &Checkpoint| newest.is_some_and(|last| last > map.sequence);
        self.reading.candidates.sort_by_key(|map| (is_sure(map), map.number));
        self.try_next_map()
    }

    /// Has these records read, where they go around the ring.
    fn push_records(&mut self, records: Range<u64>) {
        let half = self.half_read();
        let ring = u64::from(self.layout().journal_records);
        let mut first = records.start;
        while first < records.end {
            let count = (records.end - first).min(ring - first % ring).min(RECORDS_AT_ONCE);
            let offset = self.layout().record_offset(half, first);
            let length = count * RECORD_BYTES;
            self.tasks.push_back(Task::ReadJournal { offset, length });
            first += count;
        }
    }

    fn try_next_map(&mut self) -> Result<(), Refusal> {
        let fastest = self.layout().fastest();
        let checkpoint = self.reading.candidates.pop();
        let checkpoint =
            checkpoint.ok_or_else(|| self.refusal_of(fastest, RefusalReason::MapDamaged))?;
        self.reading.map = Some(Ok(MapBuilder::new(self.layout())));
        let first = self.map_offset(checkpoint.area);
        let blocks = self.layout().extents.div_ceil(PLACES_PER_BLOCK);
        let end = first + u64::from(blocks) * BLOCK_BYTES;
        let mut offset = first;
        while offset < end {
            let length = STEP_BYTES_MAX.min(end - offset);
            self.tasks.push_back(Task::ReadMap { offset, length });
            offset += length;
        }
        let ring = u64::from(self.layout().journal_records);
        let unread = (checkpoint.sequence + 1)..self.reading.records.start;
        if unread.end.saturating_sub(unread.start) <= ring {
            self.push_records(unread);
        }
        self.phase = Phase::Map(checkpoint);
        Ok(())
    }

    /// Takes the places from these blocks of a map, unless one is damaged; then the map will be
    /// found to be too short.
    pub(super) fn take_map(&mut self, start: u64, blocks: Option<&[Block]>) {
        let Phase::Map(checkpoint) = self.phase else { unreachable!("a map is read in its phase") };
        let (volume, first) = (self.claimed().volume, self.map_offset(checkpoint.area));
        for (offset, block) in offsets(start).zip(blocks.unwrap_or_default()) {
            let Some((head, places)) = checkpoint::decode(volume, offset, block) else { return };
            let is_next = u64::from(head.index) * BLOCK_BYTES == offset - first;
            let wanted = (checkpoint.number, checkpoint.sequence, checkpoint.term);
            if !is_next || (head.number, head.sequence, head.term) != wanted {
                return;
            }
            for place in places {
                let Some(Ok(map)) = &mut self.reading.map else { return };
                if let Err(error) = map.push(place) {
                    self.reading.map = Some(Err(error));
                }
            }
        }
    }

    /// Takes the records from these blocks of the journal. If they cannot be read together, each is
    /// read by itself: the last one written may be unreadable after a power cut.
    pub(super) fn take_journal(&mut self, start: u64, length: u64, blocks: Option<&[Block]>) {
        if blocks.is_none() && length > BLOCK_BYTES {
            for index in (0..length / BLOCK_BYTES).rev() {
                let offset = start + index * BLOCK_BYTES;
                self.tasks.push_front(Task::ReadJournal { offset, length: BLOCK_BYTES });
            }
            return;
        }
        let volume = self.claimed().volume;
        let journal_offset = self.layout().journal_offset(self.half_read());
        let records = u64::from(self.layout().journal_records);
        for (offset, block) in offsets(start).zip(blocks.unwrap_or_default()) {
            let index = (offset - journal_offset) / BLOCK_BYTES;
            let index = usize::try_from(index).expect("the journal is in memory");
            let (pair, copy) = (index / COPIES, index % COPIES);
            let fits = |record: &Record| {
                record.sequence % records == pair as u64 && self.counts(record.term)
            };
            let record = Record::decode(volume, offset, block).filter(fits);
            self.reading.pairs[pair].0[copy] = record;
        }
    }

    /// Follows the journal from the map on.
    pub(super) fn judge_map(&mut self, checkpoint: Checkpoint) -> Result<(), Refusal> {
        let layout = self.layout().clone();
        let fastest = layout.fastest();
        let damaged = |sequence| RefusalReason::JournalDamaged { sequence };
        let map = self.reading.map.take().expect("it was read");
        let map = map.map_err(|_| self.refusal_of(fastest, RefusalReason::MapDamaged))?;
        let Some(mut map) = map.finish() else { return self.try_next_map() };
        let (mut last, mut term) = (checkpoint.sequence, checkpoint.term);
        while let Some(record) = self.record(&layout, last + 1).filter(|next| next.term >= term) {
            (last, term) = (last + 1, record.term);
            map.replay(record.extent, record.from, record.to)
                .map_err(|_| self.refusal_of(fastest, damaged(last)))?;
        }
        let has_gap = self.reading.newest.is_some_and(|newest| newest > last);
        if has_gap && !self.rules.is_broken(Mutant::StopAtGap) {
            return Err(self.refusal_of(fastest, damaged(last + 1)));
        }
        // Records that nobody reads any more leave no gap: members remember how many there were.
        if self.noted > last && !self.rules.is_broken(Mutant::TrustEnd) {
            return Err(
                self.refusal_of(fastest, RefusalReason::JournalCut { last, noted: self.noted })
            );
        }
        self.candidate.noted = last;
        self.map_used = Some(checkpoint);
        let Claimed { volume, office, .. } = self.claimed();
        let journal = Journal::new(*volume, (office.half, office.generation), last, checkpoint);
        if self.stays_in_half() {
            self.push_repairs(&layout, checkpoint.sequence, last);
            self.known(layout, map, journal);
            if self.is_repair() {
                self.push_map();
            }
            self.phase = Phase::Mend(u32::from(self.is_repair()));
        } else {
            self.known(layout, map, journal);
            self.push_map();
            self.phase = Phase::Mend(MAPS);
        }
        Ok(())
    }

    /// What was written again is written; or one map, if some were to be.
    pub(super) fn mended(&mut self, maps: u32) {
        if maps > 0 {
            let opened = self.opened.as_mut().expect("its map was judged");
            opened.journal.checkpoint_is_durable();
        }
        if maps > 1 {
            self.push_map();
            self.phase = Phase::Mend(maps - 1);
        } else {
            self.close();
        }
    }

    fn stays_in_half(&self) -> bool {
        self.claimed().office.half == self.half_read()
    }

    /// The volume is known, but for what is noted of this opening.
    fn known(&mut self, layout: Layout, map: TierMap, journal: Journal) {
        let claimed = self.claimed.as_mut().expect("known since the fronts were judged");
        let (office, late) = (claimed.office.clone(), std::mem::take(&mut claimed.late));
        let moves_from = Nanos::ZERO;
        self.opened = Some(Box::new(Volume { layout, map, journal, office, late, moves_from }));
    }

    /// Has all of the map written, and flushed.
    fn push_map(&mut self) {
        let (blocks, fastest) = (self.layout().checkpoint_blocks, self.layout().fastest());
        let starts = (0..blocks).step_by(BLOCKS_AT_ONCE as usize);
        self.tasks.extend(starts.map(|first| Task::WriteMap { first }));
        self.tasks.push_back(Task::Flush { tier: fastest });
    }

    fn record(&self, layout: &Layout, sequence: u64) -> Option<Record> {
        let pair = self.pair(layout, sequence);
        pair.newest().filter(|record| record.sequence == sequence)
    }

    fn pair(&self, layout: &Layout, sequence: u64) -> &Pair {
        let index = sequence % u64::from(layout.journal_records);
        &self.reading.pairs[usize::try_from(index).expect("the journal is in memory")]
    }

    /// Writes again, of the records behind the map, both copies of the last one, and whatever copy
    /// of another is not whole.
    fn push_repairs(&mut self, layout: &Layout, before: u64, last: u64) {
        for sequence in before + 1..=last {
            let copies = self.pair(layout, sequence).0;
            let record = self.record(layout, sequence).expect("it was just followed");
            let offset = layout.record_offset(self.half_read(), sequence);
            for (offset, copy) in offsets(offset).zip(copies) {
                let is_unsure = sequence == last && !self.rules.is_broken(Mutant::TrustCache);
                if is_unsure || copy != Some(record) {
                    self.tasks.push_back(Task::WriteRecord { offset, record });
                }
            }
        }
    }
}

impl Pair {
    /// The newer of the copies that are whole.
    fn newest(&self) -> Option<Record> {
        self.0.into_iter().flatten().max_by_key(|record| (record.term, record.sequence))
    }
}

/// Where blocks lie that follow each other.
fn offsets(start: u64) -> impl Iterator<Item = u64> {
    (0..).map(move |index: u64| start + index * BLOCK_BYTES)
}
