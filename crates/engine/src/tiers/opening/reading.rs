//! What the notes of a volume say: the map that is whole, and the records of the journal behind it.
//! Only those count that were written in the half of the last opening that came to its end, since
//! an owner began to note there; whatever is older there, or comes late, has an older term.

use evenkeel_core::time::Nanos;

use super::super::format::checkpoint;
use super::super::format::journal::Record;
use super::super::format::{BLOCK_BYTES, Block, PLACES_PER_BLOCK};
use super::super::journal::{Checkpoint, Journal};
use super::super::layout::{COPIES, Layout};
use super::super::map::{Place, TierMap};
use super::super::refusal::{Refusal, RefusalReason};
use super::super::volume::Volume;
use super::{BLOCKS_AT_ONCE, Claimed, Opening, Phase, Task};
use crate::lease::Half;
use crate::notes::STEP_BYTES_MAX;

/// Maps that are written in the other half: one in each area. An opening that was cut short may
/// have had one write under way to the same half, which would else lie over the only map.
const MAPS: u32 = 2;

/// What was read of the notes so far.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Maps that may be whole, the one to be tried next last.
    candidates: Vec<Checkpoint>,
    places: Vec<Place>,
    pairs: Vec<Pair>,
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
        let half = self.half_read();
        let layout = self.layout();
        let (start, length) = (layout.journal_offset(half), layout.journal_bytes());
        self.reading.pairs = vec![Pair::default(); layout.journal_records as usize];
        self.tasks.extend([0, 1].map(|area| Task::ReadMapHead { area }));
        self.push_reads(start, length, |offset, length| Task::ReadJournal { offset, length });
        self.phase = Phase::Notes;
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
        term >= self.claimed().settled.since
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

    /// The first block of each map was read, and the journal: the map is tried first that is sure
    /// to be durable.
    pub(super) fn begin_map(&mut self) -> Result<(), Refusal> {
        let newest = self.newest_sequence();
        let is_sure = |map: &Checkpoint| newest.is_some_and(|last| last > map.sequence);
        self.reading.candidates.sort_by_key(|map| (is_sure(map), map.number));
        self.try_next_map()
    }

    fn try_next_map(&mut self) -> Result<(), Refusal> {
        let fastest = self.layout().fastest();
        let checkpoint = self.reading.candidates.pop();
        let checkpoint =
            checkpoint.ok_or_else(|| self.refusal_of(fastest, RefusalReason::MapDamaged))?;
        let start = self.map_offset(checkpoint.area);
        let blocks = self.layout().extents.div_ceil(PLACES_PER_BLOCK);
        self.reading.places.clear();
        let length = u64::from(blocks) * BLOCK_BYTES;
        self.push_reads(start, length, |offset, length| Task::ReadMap { offset, length });
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
            if is_next && (head.number, head.sequence, head.term) == wanted {
                self.reading.places.extend(places);
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
        if self.reading.places.len() != self.layout().extents as usize {
            return self.try_next_map();
        }
        let layout = self.layout().clone();
        let fastest = layout.fastest();
        let damaged = |sequence| RefusalReason::JournalDamaged { sequence };
        let map = TierMap::from_places(&layout, std::mem::take(&mut self.reading.places));
        let mut map = map.map_err(|_| self.refusal_of(fastest, RefusalReason::MapDamaged))?;
        let (mut last, mut term) = (checkpoint.sequence, checkpoint.term);
        while let Some(record) = self.record(&layout, last + 1).filter(|next| next.term >= term) {
            (last, term) = (last + 1, record.term);
            map.replay(record.extent, record.from, record.to)
                .map_err(|_| self.refusal_of(fastest, damaged(last)))?;
        }
        if self.newest_sequence().is_some_and(|newest| newest > last) {
            return Err(self.refusal_of(fastest, damaged(last + 1)));
        }
        // Records that nobody reads any more leave no gap: members remember how many there were.
        if self.noted > last {
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

    fn newest_sequence(&self) -> Option<u64> {
        self.reading.pairs.iter().filter_map(|pair| Some(pair.newest()?.sequence)).max()
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
                if sequence == last || copy != Some(record) {
                    self.tasks.push_back(Task::WriteRecord { offset, record });
                }
            }
        }
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
