//! The segment table: what each segment is for, how much of it is alive, and where the next record
//! goes.
//!
//! ```text
//!          stage                publish           claim            full
//! free ----------------> staged ---------> runway -------> open ----------> sealed
//!   ^   (a checkpoint            (it is durable)                              |
//!   |    is being made)                                                       | nothing alive
//!   +--------------------------------- release <------------------------------+
//!                          (a checkpoint is being made)
//! ```
//!
//! Segments are released and staged only while a checkpoint is made, and what was staged may be
//! written to only when that checkpoint is durable. So whatever the last durable checkpoint needs
//! stays untouched, and the segments that may hold records behind it, its *runway*, are named in
//! it: recovery looks into these and no others, which bounds it. Before a mount's first checkpoint
//! what is torn may be moved to a segment that is published at once, since none needs that one.

mod load;
mod placement;
mod victims;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use crate::cache::{Contents, Key, Side};
use crate::format::checkpoint::{Phase, SegmentRow};
use crate::format::record::{DATA_BLOCKS_MAX, Kind};
use crate::units::{Address, Copies, DriveIndex, Lsn, SegmentId, Slot};
use placement::{Combination, Placement};
use victims::Victims;

/// The measures of the segment table.
#[derive(Clone, Debug)]
pub(crate) struct Measures {
    pub(crate) segment_blocks: u32,
    pub(crate) copies: u8,
    /// Slots of each drive.
    pub(crate) slots: Vec<u32>,
}

/// The segment table. See the [module](self).
#[derive(Debug)]
pub(crate) struct Space {
    segment_blocks: u32,
    copies: u8,
    segments: Vec<Segment>,
    /// Of all segments.
    live_blocks: u64,
    free_segments: BTreeSet<SegmentId>,
    /// Of each drive; `None` if the drive takes no part.
    free_slots: Vec<Option<BTreeSet<u32>>>,
    placement: Placement,
    victims: Victims,
    /// Sealed segments with nothing alive.
    dead: BTreeSet<SegmentId>,
    /// Sealed segments that lack a copy.
    thin: BTreeSet<SegmentId>,
    /// Segments that the last durable checkpoint needs and that lack a copy.
    thin_in_checkpoint: usize,
    staged: [VecDeque<SegmentId>; 2],
    runway: [VecDeque<SegmentId>; 2],
    open: [Option<Open>; 2],
    /// Segments that have got their last record, until somebody takes note of it.
    completed: Vec<SegmentId>,
    /// Whom to tell which blocks die, and which move.
    cache: Option<Rc<RefCell<Contents>>>,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    state: State,
    generation: u64,
    kind: Kind,
    copies: Copies,
    /// A copy that does not count, since it is not what it should be everywhere. Until the segment
    /// is free it may have what the others lose; the next mount does not know of it.
    spare: Option<Slot>,
    /// The spare is of another time: it lacks what was durable, and never counts again.
    is_spare_old: bool,
    born: Lsn,
    /// Blocks that the map refers to.
    live: u32,
    /// Records that are being written to it.
    landing: u32,
    /// Reads under way from it.
    readers: u32,
    /// Whether the last durable checkpoint knows it as sealed, so that no drive that was well then
    /// can lack a part of it.
    is_covered: bool,
    /// Whether a live block of it cannot be read, so that cleaning it is of no use.
    is_stuck: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Staged,
    Runway,
    Open,
    Sealed,
}

/// Where a stream of records goes on.
#[derive(Clone, Copy, Debug)]
struct Open {
    segment: SegmentId,
    next_block: u32,
}

/// Room for one record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) segment: SegmentId,
    pub(crate) generation: u64,
    /// Of the record's header.
    pub(crate) address: Address,
    pub(crate) copies: Copies,
    /// Whether the record is the first, and the segment's header is written with it.
    pub(crate) is_first: bool,
}

const UNUSED: Segment = Segment {
    state: State::Free,
    generation: 0,
    kind: Kind::User,
    copies: [None, None],
    spare: None,
    is_spare_old: false,
    born: Lsn(0),
    live: 0,
    landing: 0,
    readers: 0,
    is_covered: false,
    is_stuck: false,
};

impl Space {
    pub(crate) fn new(measures: &Measures) -> Self {
        let slots: u64 = measures.slots.iter().copied().map(u64::from).sum();
        let count = u32::try_from(slots / u64::from(measures.copies)).expect("slots are bounded");
        Self {
            segment_blocks: measures.segment_blocks,
            copies: measures.copies,
            segments: vec![UNUSED; count as usize],
            live_blocks: 0,
            free_segments: (0..count).map(SegmentId).collect(),
            free_slots: measures.slots.iter().map(|&slots| Some((0..slots).collect())).collect(),
            placement: Placement::new(measures.copies),
            victims: Victims::new(measures.segment_blocks),
            dead: BTreeSet::new(),
            thin: BTreeSet::new(),
            thin_in_checkpoint: 0,
            staged: [VecDeque::new(), VecDeque::new()],
            runway: [VecDeque::new(), VecDeque::new()],
            open: [None, None],
            completed: Vec::new(),
            cache: None,
        }
    }

    /// The segment of an address, and the block within.
    pub(crate) fn locate(&self, address: Address) -> (SegmentId, u64) {
        let blocks = u64::from(self.segment_blocks);
        let segment = u32::try_from(address.0 / blocks).expect("addresses in use were checked");
        (SegmentId(segment), address.0 % blocks)
    }

    /// Whether an address from outside lies in a segment that is in use, so many blocks from it on
    /// included.
    pub(crate) fn is_in_use(&self, address: Address, blocks: u64) -> bool {
        let segment = address.0 / u64::from(self.segment_blocks);
        let last = (address.0 + blocks - 1) / u64::from(self.segment_blocks);
        let row = usize::try_from(segment).ok().and_then(|index| self.segments.get(index));
        segment == last && row.is_some_and(|row| row.state != State::Free)
    }

    pub(crate) fn address(&self, segment: SegmentId, block: u64) -> Address {
        Address(u64::from(segment.0) * u64::from(self.segment_blocks) + block)
    }

    pub(crate) fn segment_blocks(&self) -> u32 {
        self.segment_blocks
    }

    pub(crate) fn copies(&self, segment: SegmentId) -> Copies {
        self.segments[segment.index()].copies
    }

    pub(crate) fn generation(&self, segment: SegmentId) -> u64 {
        self.segments[segment.index()].generation
    }

    pub(crate) fn live(&self, segment: SegmentId) -> u32 {
        self.segments[segment.index()].live
    }

    /// Blocks that the map refers to.
    pub(crate) fn live_blocks(&self) -> u64 {
        self.live_blocks
    }

    /// Whether clients' records are being written to this drive now.
    pub(crate) fn is_tail(&self, drive: DriveIndex) -> bool {
        self.open[0].is_some_and(|open| {
            self.copies(open.segment).iter().flatten().any(|slot| slot.drive == drive)
        })
    }

    /// Whether a segment is the one that clients' records are being written to.
    pub(crate) fn is_in_tail(&self, segment: SegmentId) -> bool {
        self.open[stream(Kind::User)].is_some_and(|open| open.segment == segment)
    }

    /// Whether [`Self::claim`] would find room.
    pub(crate) fn has_room(&self, kind: Kind, blocks: u64) -> bool {
        u64::from(self.open_rest_blocks(kind)) >= blocks || !self.runway[stream(kind)].is_empty()
    }

    /// Room for a record of so many blocks, header included; none if the runway is used up.
    pub(crate) fn claim(&mut self, kind: Kind, blocks: u64, now: Lsn) -> Option<Claim> {
        let blocks = u32::try_from(blocks).expect("a record is bounded");
        assert!(blocks < self.segment_blocks, "a record fits into a segment");
        let fits = |open: &Open| open.next_block + blocks <= self.segment_blocks;
        let open = match self.open[stream(kind)].filter(fits) {
            Some(open) => open,
            None => self.open_next(kind, now)?,
        };
        let next_block = open.next_block + blocks;
        self.open[stream(kind)] = Some(Open { next_block, ..open });
        let row = &mut self.segments[open.segment.index()];
        row.landing += 1;
        Some(Claim {
            segment: open.segment,
            generation: row.generation,
            copies: row.copies,
            address: self.address(open.segment, u64::from(open.next_block)),
            is_first: open.next_block == 1,
        })
    }

    fn open_next(&mut self, kind: Kind, now: Lsn) -> Option<Open> {
        if self.runway[stream(kind)].is_empty() {
            return None;
        }
        self.seal(kind);
        let segment = self.take_from_runway(kind);
        let row = &mut self.segments[segment.index()];
        (row.state, row.born) = (State::Open, now);
        Some(Open { segment, next_block: 1 })
    }

    /// The first segment of the runway for clients; for the cleaner, one that shares as few drives
    /// with the tail as possible.
    fn take_from_runway(&mut self, kind: Kind) -> SegmentId {
        let shared = |&segment: &SegmentId| {
            let copies = self.copies(segment);
            copies.iter().flatten().filter(|slot| self.is_tail(slot.drive)).count()
        };
        let runway = &self.runway[stream(kind)];
        let index = match kind {
            Kind::User => 0,
            Kind::Moved => {
                (0..runway.len()).min_by_key(|&index| shared(&runway[index])).unwrap_or(0)
            }
        };
        self.runway[stream(kind)].remove(index).expect("the caller looked")
    }

    /// Ends the open segment of a stream, if there is one.
    pub(crate) fn seal(&mut self, kind: Kind) {
        if let Some(open) = self.open[stream(kind)].take() {
            self.segments[open.segment.index()].state = State::Sealed;
            self.complete(open.segment);
        }
    }

    /// A record that was claimed is in the map.
    pub(crate) fn landed(&mut self, segment: SegmentId) {
        self.segments[segment.index()].landing -= 1;
        self.complete(segment);
    }

    fn complete(&mut self, segment: SegmentId) {
        if Self::is_settled(&self.segments[segment.index()]) {
            self.completed.push(segment);
        }
        self.settle(segment);
    }

    /// The copies of segments that have got their last record since this was asked before.
    pub(crate) fn take_completed(&mut self) -> Vec<Slot> {
        let completed = std::mem::take(&mut self.completed);
        completed.into_iter().flat_map(|segment| self.copies(segment)).flatten().collect()
    }

    /// Sorts a sealed segment whose records have all landed in with the others.
    fn settle(&mut self, segment: SegmentId) {
        let row = &self.segments[segment.index()];
        if row.state != State::Sealed || row.landing > 0 {
            return;
        }
        if row.live == 0 {
            self.dead.insert(segment);
        } else if !row.is_stuck {
            self.victims.insert(segment, row.born, row.live);
            if self.lacks_copy(row.copies) {
                self.thin.insert(segment);
            }
        }
    }

    /// The first settled segment with something alive, from this one on.
    pub(crate) fn next_sealed(&self, from: SegmentId) -> Option<SegmentId> {
        let rows = self.segments.get(from.index()..)?;
        let skipped = rows.iter().position(|row| Self::is_settled(row) && row.live > 0)?;
        Some(SegmentId(from.0 + u32::try_from(skipped).expect("segments are bounded")))
    }

    /// Copies of settled segments with something alive.
    pub(crate) fn sealed_copies(&self) -> u64 {
        let rows = self.segments.iter().filter(|row| Self::is_settled(row) && row.live > 0);
        rows.map(|row| row.copies.iter().flatten().count() as u64).sum()
    }

    /// Whether a segment is settled, and still in this use.
    pub(crate) fn is_sealed_as(&self, segment: SegmentId, generation: u64) -> bool {
        let row = &self.segments[segment.index()];
        Self::is_settled(row) && row.generation == generation
    }

    fn is_settled(row: &Segment) -> bool {
        row.state == State::Sealed && row.landing == 0
    }

    /// The map refers to so many blocks of a segment more.
    pub(crate) fn gain(&mut self, address: Address, blocks: u32) {
        let (segment, _) = self.locate(address);
        let row = &mut self.segments[segment.index()];
        assert!(!Self::is_settled(row), "a settled segment never gets new data");
        row.live += blocks;
        self.live_blocks += u64::from(blocks);
    }

    /// From now on, tells the cache which blocks die, and which move.
    pub(crate) fn tell_deaths_to(&mut self, cache: Rc<RefCell<Contents>>) {
        self.cache = Some(cache);
    }

    /// A live block is at another address now; the old one is lost right afterwards.
    pub(crate) fn tell_move(&self, from: Address, to: Address) {
        if let Some(cache) = &self.cache {
            cache.borrow_mut().rename(Key(from.0), Key(to.0));
        }
    }

    /// Whether reading a block must disturb the clients' writes.
    pub(crate) fn side(&self, address: Address) -> Side {
        let (segment, _) = self.locate(address);
        if self.is_on_tail(segment) { Side::Tail } else { Side::Body }
    }

    /// Whether a block is in one of the last so many segments that were made ready for writing.
    pub(crate) fn is_young(&self, address: Address, segments: u64) -> bool {
        let (segment, _) = self.locate(address);
        let now = self.open[0].map_or(0, |open| self.generation(open.segment));
        self.generation(segment) + segments >= now
    }

    /// The map refers to one block less.
    pub(crate) fn lose(&mut self, address: Address) {
        if let Some(cache) = &self.cache {
            cache.borrow_mut().forget(Key(address.0));
        }
        let (segment, _) = self.locate(address);
        let row = &mut self.segments[segment.index()];
        let before = row.live;
        row.live = before.checked_sub(1).expect("only live blocks die");
        self.live_blocks -= 1;
        let row = *row;
        if !Self::is_settled(&row) || row.is_stuck && row.live > 0 {
            return;
        }
        if row.live == 0 || self.victims.is_apart(before, row.live) {
            self.victims.remove(segment, row.born, before);
            self.thin.remove(&segment);
            self.settle(segment);
        }
    }

    pub(crate) fn pin(&mut self, segment: SegmentId) {
        self.segments[segment.index()].readers += 1;
    }

    pub(crate) fn unpin(&mut self, segment: SegmentId) {
        self.segments[segment.index()].readers -= 1;
    }

    /// Live blocks to move until cleaning has gained so many segments, the emptiest first; of all
    /// that can be cleaned, if that is not enough.
    pub(crate) fn debt_blocks(&self, segments: usize) -> u64 {
        let usable = u64::from(self.live_max().max(1));
        let wanted_blocks = segments as u64 * usable;
        let (mut gained_blocks, mut moved_blocks) = (0, 0);
        for segment in self.victims.emptiest_first() {
            let live = u64::from(self.live(segment));
            if gained_blocks >= wanted_blocks || live >= usable {
                break;
            }
            gained_blocks += usable - live;
            moved_blocks += live;
        }
        moved_blocks
    }

    /// The segment to clean next: one that lacks a copy, else the best by cost and benefit that
    /// can be read without disturbing the tail, unless the best of all is far better.
    pub(crate) fn victim(&self, now: Lsn) -> Option<SegmentId> {
        self.thin_victim().or_else(|| {
            let best = self.best_victim(now, |_| true)?;
            if !self.is_on_tail(best) {
                return Some(best);
            }
            let garbage = |segment| self.segment_blocks - self.live(segment);
            let apart = self.best_victim(now, |segment| !self.is_on_tail(segment));
            Some(apart.filter(|&apart| 2 * garbage(apart) >= garbage(best)).unwrap_or(best))
        })
    }

    /// Whether there is any segment to clean.
    pub(crate) fn has_victim(&self, now: Lsn) -> bool {
        self.thin_victim().or_else(|| self.best_victim(now, |_| true)).is_some()
    }

    fn thin_victim(&self) -> Option<SegmentId> {
        let can_mend = self.copies == 1 || self.free_slots.iter().flatten().count() > 1;
        self.thin.first().copied().filter(|_| can_mend)
    }

    /// The best victim of those that `counts` accepts, by cost and benefit.
    fn best_victim(&self, now: Lsn, counts: impl Fn(SegmentId) -> bool) -> Option<SegmentId> {
        let live_max = self.live_max();
        let can_be_cleaned = |segment| self.live(segment) <= live_max && counts(segment);
        self.victims.best(now, can_be_cleaned, |segment| self.live(segment))
    }

    /// Whether all copies of a segment lie on drives that clients' records are being written to.
    pub(crate) fn is_on_tail(&self, segment: SegmentId) -> bool {
        self.copies(segment).iter().flatten().all(|slot| self.is_tail(slot.drive))
    }

    /// Whether segments lack a copy that they could have.
    pub(crate) fn is_thin(&self) -> bool {
        !self.thin.is_empty() && self.free_slots.iter().flatten().count() > 1
    }

    /// Segments that lack a copy now, or that the last durable checkpoint needs and that do.
    pub(crate) fn thin_segments(&self) -> usize {
        let in_use = self.segments.iter().filter(|row| row.state != State::Free);
        in_use.filter(|row| self.lacks_copy(row.copies)).count().max(self.thin_in_checkpoint)
    }

    fn lacks_copy(&self, copies: Copies) -> bool {
        copies.iter().flatten().count() < usize::from(self.copies)
    }

    /// Live blocks of a segment up to which cleaning it gains room; see [`live_max`].
    fn live_max(&self) -> u32 {
        live_max(self.segment_blocks)
    }

    /// Takes a segment out of the cleaner's sight: a live block of it cannot be read.
    pub(crate) fn give_up(&mut self, segment: SegmentId) {
        let row = &mut self.segments[segment.index()];
        row.is_stuck = true;
        let row = *row;
        self.victims.remove(segment, row.born, row.live);
        self.thin.remove(&segment);
    }

    /// Whether every segment in use has a copy on a drive that `counts`.
    pub(crate) fn is_whole_on(&self, counts: impl Fn(DriveIndex) -> bool) -> bool {
        let in_use = self.segments.iter().filter(|row| row.state != State::Free);
        in_use
            .map(|row| row.copies)
            .all(|copies| copies.iter().flatten().any(|slot| counts(slot.drive)))
    }

    /// Segments that this stream has before it, staged ones included, the open one not.
    pub(crate) fn runway_segments(&self, kind: Kind) -> usize {
        self.runway[stream(kind)].len() + self.staged[stream(kind)].len()
    }

    /// Blocks that are left in the open segment of a stream; none if it has no such segment.
    pub(crate) fn open_rest_blocks(&self, kind: Kind) -> u32 {
        self.open[stream(kind)].map_or(0, |open| self.segment_blocks - open.next_block)
    }

    /// Data blocks that the next record of the cleaner can have.
    pub(crate) fn room_to_move_blocks(&self) -> usize {
        let blocks = match self.open_rest_blocks(Kind::Moved) {
            // Not even a header and one block.
            0..2 if self.runway[stream(Kind::Moved)].is_empty() => 0,
            0..2 => self.segment_blocks - 2,
            rest => rest - 1,
        };
        DATA_BLOCKS_MAX.min(blocks as usize)
    }

    /// Segments in all.
    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Segments that a checkpoint made now could stage.
    pub(crate) fn supply_segments(&self) -> usize {
        let is_unread = |segment: &&SegmentId| self.segments[segment.index()].readers == 0;
        self.placement.capacity(&self.free_by_drive()) + self.dead.iter().filter(is_unread).count()
    }

    fn free_by_drive(&self) -> Vec<(DriveIndex, usize)> {
        let drives = (0..).map(DriveIndex).zip(&self.free_slots);
        drives.filter_map(|(drive, slots)| Some((drive, slots.as_ref()?.len()))).collect()
    }

    /// Frees the segments with nothing alive and nobody reading.
    pub(crate) fn release(&mut self) -> Vec<Slot> {
        let is_unread = |segment: &SegmentId| self.segments[segment.index()].readers == 0;
        let dead: Vec<SegmentId> = self.dead.iter().copied().filter(is_unread).collect();
        dead.into_iter().flat_map(|segment| self.free(segment)).flatten().collect()
    }

    fn free(&mut self, segment: SegmentId) -> Copies {
        let row = std::mem::replace(&mut self.segments[segment.index()], UNUSED);
        let mut copies = row.copies;
        // It was one of them until it was set apart, and nothing has taken its place.
        if let (Some(spare), Some(gap)) = (row.spare, copies.iter_mut().find(|it| it.is_none())) {
            *gap = Some(spare);
        }
        self.dead.remove(&segment);
        self.free_segments.insert(segment);
        self.give_back(copies);
        copies
    }

    fn give_back(&mut self, copies: Copies) {
        for slot in copies.iter().flatten() {
            if let Some(Some(slots)) = self.free_slots.get_mut(slot.drive.index()) {
                slots.insert(slot.slot);
            }
        }
    }

    /// The tail stays on the same drives for so many segments in a row.
    pub(crate) fn keep_tail_for(&mut self, segments: u32) {
        self.placement.keep_tail_for(segments);
    }

    /// How many segments before the cleaner lie on each drive.
    fn moved_ahead(&self, drive: DriveIndex) -> usize {
        let ahead = self.runway[stream(Kind::Moved)].iter();
        let segments = ahead.chain(&self.staged[stream(Kind::Moved)]);
        let slots = segments.flat_map(|&segment| self.copies(segment)).flatten();
        slots.filter(|slot| slot.drive == drive).count()
    }

    /// Prepares a free segment for a stream; whether there was one.
    pub(crate) fn stage(&mut self, kind: Kind, generation: u64) -> bool {
        let free = self.free_by_drive();
        let Some(&segment) = self.free_segments.first() else { return false };
        let drives = match kind {
            Kind::User => {
                let Self { placement, segments, segment_blocks, .. } = self;
                placement.next_of_epoch(&free, || shared_blocks(segments, *segment_blocks))
            }
            Kind::Moved => {
                let ahead: Vec<usize> =
                    free.iter().map(|&(drive, _)| self.moved_ahead(drive)).collect();
                self.placement.next_spread(&free, &ahead)
            }
        };
        let Some(drives) = drives else { return false };
        self.free_segments.remove(&segment);
        let copies = drives.map(|drive| {
            let drive = drive?;
            let slots = self.free_slots[drive.index()].as_mut();
            let slot = slots.and_then(BTreeSet::pop_first).expect("the drive has a free slot");
            Some(Slot { drive, slot })
        });
        self.segments[segment.index()] =
            Segment { state: State::Staged, generation, kind, copies, ..UNUSED };
        self.staged[stream(kind)].push_back(segment);
        true
    }

    /// Lets the staged segments be written to.
    pub(crate) fn publish(&mut self) {
        for (staged, runway) in self.staged.iter_mut().zip(&mut self.runway) {
            for segment in staged.drain(..) {
                self.segments[segment.index()].state = State::Runway;
                runway.push_back(segment);
            }
        }
    }

    /// The table as a checkpoint keeps it.
    pub(crate) fn rows(&self) -> Vec<SegmentRow> {
        self.rows_with(|row| if Self::is_settled(row) { Phase::Sealed } else { Phase::Replay })
    }

    fn rows_with(&self, phase: impl Fn(&Segment) -> Phase) -> Vec<SegmentRow> {
        let rows = (0..).map(SegmentId).zip(&self.segments);
        rows.filter(|(_, row)| row.state != State::Free)
            .map(|(segment, row)| SegmentRow {
                segment,
                generation: row.generation,
                phase: phase(row),
                kind: row.kind,
                copies: row.copies,
                born: row.born,
            })
            .collect()
    }

    /// A checkpoint with these rows is durable on all drives that take part.
    pub(crate) fn cover(&mut self, rows: &[SegmentRow]) {
        for row in rows.iter().filter(|row| row.phase == Phase::Sealed) {
            self.segments[row.segment.index()].is_covered = true;
        }
        self.thin_in_checkpoint = rows.iter().filter(|row| self.lacks_copy(row.copies)).count();
    }

    /// A drive takes no part any more. What it has of covered segments is still good; what was
    /// written since may be missing on it.
    pub(crate) fn drop_drive(&mut self, drive: DriveIndex) {
        self.free_slots[drive.index()] = None;
        for index in 0..self.segments.len() {
            let row = &mut self.segments[index];
            let is_there = |copy: &Option<Slot>| copy.is_some_and(|slot| slot.drive == drive);
            row.spare.take_if(|spare| spare.drive == drive);
            if row.is_covered {
                continue;
            }
            if let Some(copy) = row.copies.iter_mut().find(|copy| is_there(copy)) {
                // One that was set apart lacks what nobody relies on before the mount begins.
                let apart = row.spare.take();
                row.spare = copy.filter(|_| apart.is_some());
                *copy = apart;
                let segment = SegmentId(u32::try_from(index).expect("segments are bounded"));
                self.settle(segment);
            }
        }
    }

    /// A copy is not what it should be, and cannot be made so: it counts no more. Its place is free
    /// when the segment is.
    pub(crate) fn set_copy_apart(&mut self, segment: SegmentId, slot: Slot) {
        let row = &mut self.segments[segment.index()];
        if let Some(copy) = row.copies.iter_mut().find(|copy| **copy == Some(slot)) {
            row.spare = copy.take();
        }
    }

    /// A copy lacks what was durable: it counts no more, whatever becomes of the segment.
    pub(crate) fn set_old_copy_apart(&mut self, segment: SegmentId, slot: Slot) {
        self.set_copy_apart(segment, slot);
        self.segments[segment.index()].is_spare_old = true;
    }

    /// A copy that was set apart is what it should be wherever something is alive.
    pub(crate) fn count_again(&mut self, segment: SegmentId) {
        let row = &mut self.segments[segment.index()];
        if row.is_spare_old {
            return;
        }
        let takes_part = |slot: &Slot| self.free_slots[slot.drive.index()].is_some();
        let gap = row.copies.iter_mut().find(|copy| copy.is_none());
        if let (Some(gap), Some(spare)) = (gap, row.spare.filter(takes_part)) {
            (*gap, row.spare) = (Some(spare), None);
            self.thin.remove(&segment);
        }
    }

    /// A copy that does not count, and may have what those that do have lost.
    pub(crate) fn spare(&self, segment: SegmentId) -> Option<Slot> {
        self.segments[segment.index()].spare
    }

    /// A new drive takes part, with nothing on it.
    pub(crate) fn adopt_drive(&mut self, drive: DriveIndex, slots: u32) {
        self.free_slots[drive.index()] = Some((0..slots).collect());
    }

    /// Frees what was staged and published but never written to; the next checkpoint stages anew.
    pub(crate) fn retract_runway(&mut self) {
        for stream in 0..self.runway.len() {
            while let Some(segment) = self.runway[stream].pop_front() {
                self.free(segment);
            }
        }
    }
}

/// The live blocks that lie on both drives of each pair. Of segments that clients are yet to fill
/// all blocks count.
fn shared_blocks(segments: &[Segment], segment_blocks: u32) -> BTreeMap<Combination, u64> {
    let mut shared = BTreeMap::new();
    for row in segments.iter().filter(|row| row.state != State::Free) {
        let [Some(first), Some(second)] = row.copies else { continue };
        let [first, second] = [first.drive, second.drive];
        let pair = [Some(first.min(second)), Some(first.max(second))];
        let is_to_be_filled = row.kind == Kind::User && row.state != State::Sealed;
        let blocks = if is_to_be_filled { segment_blocks } else { row.live };
        *shared.entry(pair).or_default() += u64::from(blocks);
    }
    shared
}

/// Live blocks of a segment up to which cleaning it gains room.
///
/// Moving L blocks takes their headers (one per record, and one more where a segment ends in
/// between), and a segment loses its header and at most one block at its end.
pub(crate) fn live_max(segment_blocks: u32) -> u32 {
    segment_blocks.saturating_sub(5 + segment_blocks.div_ceil(MOVED_BLOCKS_MAX))
}

/// Single blocks that one record of the cleaner can move at least.
pub(crate) const MOVED_BLOCKS_MAX: u32 = 82;

fn stream(kind: Kind) -> usize {
    match kind {
        Kind::User => 0,
        Kind::Moved => 1,
    }
}
