//! The SSD as a log of its own: regions, filled in memory, written whole, round and round.
//!
//! ```text
//! regions   [ 0: oldest ] [ 1 ] [ 2 ] [ 3 ] [ 4: pending ] [ 5: open, in memory ]
//!             ^ next to be written over       sealed, on its way
//!
//! before    a  B  -  C  d  -  e  F        was read since its last turn: upper case; dead: -
//! reopened  .  B  .  C  .  .  .  F        stay where they are, and have to be read again
//! written   g  B  h  C  i  j  k  F        as a whole, with B, C and F read back before
//! ```
//!
//! Whose turn it is, is the oldest region's. What was read in it since its last turn stays for
//! another one (the second chance of CLOCK, by regions), at most three quarters of it; the rest
//! makes room for what leaves the memory. So the SSD sees only large writes that replace its
//! content in order, which is what its own garbage collection copes with best: nothing is left to
//! be moved there. What stays is written again, and counts as such.
//!
//! What leaves the memory has to be worth it: its place must have been used about as often, lately,
//! as the places of what was dropped in the last regions ([`super::frequency`]). Until something is
//! dropped all is welcome. That keeps out what is written and hardly ever read, which is most. A
//! use of what lies on the tail counts as four of the body. A read there is two seeks instead of
//! one, away from the tail and back, and holds up not only who reads, but whoever writes as well.
//!
//! The index lies in memory: for each block a key of 8 bytes, its place in 4, 8 of the sketch, two
//! to four words of hash table, and a bit. It ends with the mount, and with it all entries.

use std::collections::VecDeque;

use evenkeel_core::cache::table::SlotTable;

use super::frequency::{Frequency, Place};
use super::{Key, Side};

/// The measures of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashMeasures {
    /// Regions; at least 4, so that one can be open and one on its way.
    pub regions: u32,
    /// Blocks of a region, at least one; regions times this is at most 2^28, a TiB.
    pub region_blocks: u32,
}

/// A block of the log: its region times the blocks of a region, plus the block within.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlashBlock(pub u32);

/// A region of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region(pub u32);

/// Sealed regions that may be on their way at once; then the log takes nothing in. A record of a
/// MiB comes into the memory at once, and pushes four regions of 256 KiB out of it: this is room
/// for two.
pub(super) const PENDING_MAX: usize = 8;

/// No key: addresses of the log are below 2^40.
const NONE: Key = Key(u64::MAX);

/// Parts of an estimate that the bar is kept in.
const BAR_UNIT: u32 = 256;

/// Uses of the body that one use of the tail counts as: see the [module](self).
const TAIL_WEIGHT: u32 = 4;

/// The bar goes a part of the way to what was dropped last.
const BAR_STEPS: u32 = 5;

/// The log. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct FlashLog {
    measures: FlashMeasures,
    /// Of each block.
    keys: Vec<Key>,
    /// Of each block.
    places: Vec<Place>,
    /// A bit for each block: it was read since its region's last turn.
    was_read: Vec<u64>,
    table: SlotTable,
    /// Reads under way from each region.
    readers: Vec<u32>,
    /// The next region to open.
    next: u32,
    open: Option<Open>,
    pending: VecDeque<Region>,
    frequency: Frequency,
    /// What was dropped lately was worth on average, in parts of [`BAR_UNIT`]; see [`Self::worth`].
    bar: u32,
}

/// The region that is being filled, and its next free block.
#[derive(Clone, Copy, Debug)]
struct Open {
    region: Region,
    free: FlashBlock,
}

/// Room for a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    pub(super) block: FlashBlock,
    /// Blocks that stayed in the region when it was opened for this one.
    pub(super) kept: u32,
    /// The region that is full with it.
    pub(super) sealed: Option<Region>,
}

impl FlashMeasures {
    /// Blocks of the log.
    pub fn blocks(self) -> usize {
        self.regions as usize * self.region_blocks as usize
    }

    /// Bytes of memory that the index of the log takes.
    pub fn index_bytes(self) -> usize {
        self.blocks() * (size_of::<Key>() + size_of::<Place>())
            + bit_words(self.blocks()) * size_of::<u64>()
            + SlotTable::memory_bytes(self.blocks())
            + Frequency::memory_bytes(self.blocks())
            + self.regions as usize * size_of::<u32>()
            + PENDING_MAX * size_of::<Region>()
    }

    /// The region of a block, and the block within.
    pub fn locate(self, block: FlashBlock) -> (Region, u32) {
        (Region(block.0 / self.region_blocks), block.0 % self.region_blocks)
    }

    /// The blocks of a region.
    pub(super) fn blocks_of(self, region: Region) -> impl Iterator<Item = FlashBlock> + use<> {
        let first = region.0 * self.region_blocks;
        (first..first + self.region_blocks).map(FlashBlock)
    }
}

impl FlashLog {
    pub(super) fn new(measures: FlashMeasures) -> Self {
        assert!(measures.regions >= 4 && measures.region_blocks > 0, "options were checked");
        let blocks = measures.blocks();
        Self {
            measures,
            keys: vec![NONE; blocks],
            places: vec![Place::default(); blocks],
            was_read: vec![0; bit_words(blocks)],
            table: SlotTable::with_capacity(blocks),
            readers: vec![0; measures.regions as usize],
            next: 0,
            open: None,
            pending: VecDeque::with_capacity(PENDING_MAX),
            frequency: Frequency::new(blocks),
            bar: 0,
        }
    }

    pub(super) fn region_blocks(&self) -> u32 {
        self.measures.region_blocks
    }

    pub(super) fn find(&self, key: Key) -> Option<FlashBlock> {
        let block = self.table.find(key.0, |block| self.keys[block as usize].0)?;
        Some(FlashBlock(block))
    }

    /// Whether a block of the log holds anything alive.
    pub(super) fn is_alive(&self, block: FlashBlock) -> bool {
        self.keys[block.0 as usize] != NONE
    }

    /// A place was read or written.
    #[inline]
    pub(super) fn note_use(&mut self, place: Place) {
        self.frequency.note(place);
    }

    /// A block of the log is read.
    pub(super) fn note_read(&mut self, block: FlashBlock) {
        self.was_read[block.0 as usize / 64] |= 1 << (block.0 % 64);
    }

    /// Whether a place was used at all before its last use.
    pub(super) fn comes_again(&self, place: Place) -> bool {
        self.frequency.estimate(place) > 1
    }

    /// Whether a block is worth as much as what would have to go for it.
    pub(super) fn is_worth_room(&self, place: Place, side: Side) -> bool {
        self.worth(place, side) * BAR_UNIT >= self.bar
    }

    /// How often a place was used, by what it costs to read it there.
    fn worth(&self, place: Place, side: Side) -> u32 {
        let weight = if side == Side::Tail { TAIL_WEIGHT } else { 1 };
        weight * u32::from(self.frequency.estimate(place))
    }

    /// Room for one block more, which is not there; none while too many regions are on their way,
    /// or while the oldest one is being read. If a region has to be opened for it, what was read
    /// there stays if `keeps` says so; `side` tells where any block lies.
    pub(super) fn admit(
        &mut self,
        key: Key,
        place: Place,
        keeps: bool,
        side: impl Fn(Key) -> Side,
    ) -> Option<Admitted> {
        let (open, kept) = match self.open {
            Some(open) => (open, 0),
            None => self.open_next(keeps, side)?,
        };
        let block = open.free;
        self.keys[block.0 as usize] = key;
        self.places[block.0 as usize] = place;
        self.table.insert(key.0, block.0);
        self.take_was_read(block);
        self.open = self.free_block(open.region, block.0 + 1);
        let sealed = self.open.is_none().then_some(open.region);
        self.pending.extend(sealed);
        Some(Admitted { block, kept, sealed })
    }

    /// Opens the oldest region; tells how many blocks stay in it.
    fn open_next(&mut self, keeps: bool, side: impl Fn(Key) -> Side) -> Option<(Open, u32)> {
        let region = Region(self.next);
        let is_busy = self.is_being_read(region) || self.pending.contains(&region);
        if is_busy || self.pending.len() == PENDING_MAX {
            return None;
        }
        let kept_max = if keeps { self.measures.region_blocks * 3 / 4 } else { 0 };
        let kept = self.make_room(region, kept_max, side);
        self.next = (self.next + 1) % self.measures.regions;
        let first = region.0 * self.measures.region_blocks;
        let open = self.free_block(region, first).expect("a quarter of it was made free");
        Some((open, kept))
    }

    /// Drops what was not read, and what was beyond so many blocks; tells how many are left.
    fn make_room(&mut self, region: Region, kept_max: u32, side: impl Fn(Key) -> Side) -> u32 {
        let (mut kept, mut dropped, mut worth) = (0, 0, 0);
        for block in self.measures.blocks_of(region) {
            let was_read = self.take_was_read(block);
            if !self.is_alive(block) {
                continue;
            }
            if was_read && kept < kept_max {
                kept += 1;
                continue;
            }
            dropped += 1;
            let index = block.0 as usize;
            worth += self.worth(self.places[index], side(self.keys[index]));
            self.clear(block);
        }
        if let Some(mean) = (worth * BAR_UNIT).checked_div(dropped) {
            self.bar = (self.bar * (BAR_STEPS - 1) + mean) / BAR_STEPS;
        }
        kept
    }

    /// Whether a block was read since this was asked last.
    fn take_was_read(&mut self, block: FlashBlock) -> bool {
        let (word, bit) = (&mut self.was_read[block.0 as usize / 64], 1 << (block.0 % 64));
        let was_read = *word & bit != 0;
        *word &= !bit;
        was_read
    }

    /// The first free block of a region that is to be filled, from a block on.
    fn free_block(&self, region: Region, from: u32) -> Option<Open> {
        let end = (region.0 + 1) * self.measures.region_blocks;
        let free = (from..end).map(FlashBlock).find(|&block| !self.is_alive(block))?;
        Some(Open { region, free })
    }

    /// A sealed region is on the SSD.
    pub(super) fn written(&mut self, region: Region) {
        self.pending.retain(|pending| *pending != region);
    }

    pub(super) fn forget(&mut self, key: Key) {
        if let Some(block) = self.find(key) {
            self.clear(block);
        }
    }

    /// What is in a block is lost.
    pub(super) fn clear(&mut self, block: FlashBlock) {
        let key = std::mem::replace(&mut self.keys[block.0 as usize], NONE);
        if key != NONE {
            self.table.remove(key.0, block.0);
        }
    }

    /// Gives a block another key, which is not there.
    pub(super) fn rename(&mut self, from: Key, to: Key) {
        if let Some(block) = self.find(from) {
            self.clear(block);
            self.keys[block.0 as usize] = to;
            self.table.insert(to.0, block.0);
        }
    }

    /// Keeps the region of a block from being opened while it is read.
    pub(super) fn pin(&mut self, block: FlashBlock) {
        let (region, _) = self.measures.locate(block);
        self.readers[region.0 as usize] += 1;
    }

    pub(super) fn is_being_read(&self, region: Region) -> bool {
        self.readers[region.0 as usize] > 0
    }

    pub(super) fn unpin(&mut self, block: FlashBlock) {
        let (region, _) = self.measures.locate(block);
        self.readers[region.0 as usize] -= 1;
    }
}

/// Words for a bit each.
fn bit_words(blocks: usize) -> usize {
    blocks.div_ceil(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(regions: u32, region_blocks: u32) -> FlashLog {
        FlashLog::new(FlashMeasures { regions, region_blocks })
    }

    fn admitted(log: &mut FlashLog, key: u64) -> Option<Admitted> {
        log.admit(Key(key), Place::of(0, key), true, |_| Side::Body)
    }

    fn filled(log: &mut FlashLog, keys: std::ops::Range<u64>) -> Vec<Region> {
        let mut sealed = Vec::new();
        for key in keys {
            let admitted = admitted(log, key).expect("nothing is under way");
            if let Some(region) = admitted.sealed {
                log.written(region);
                sealed.push(region);
            }
        }
        sealed
    }

    #[test]
    fn it_goes_round_and_loses_its_oldest_region_whole_if_nothing_of_it_was_read() {
        let mut log = log(4, 3);
        assert_eq!(filled(&mut log, 0..12), [0, 1, 2, 3].map(Region));
        assert!((0..12).all(|key| log.find(Key(key)).is_some()));
        admitted(&mut log, 12).expect("room");
        let kept: Vec<u64> = (0..13).filter(|&key| log.find(Key(key)).is_some()).collect();
        assert_eq!(kept, (3..13).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_read_stays_where_it_is_for_one_more_turn() {
        let mut log = log(4, 4);
        filled(&mut log, 0..16);
        let place = |log: &FlashLog, key| log.find(Key(key));
        let before = [1, 2].map(|key| place(&log, key));
        before.iter().flatten().for_each(|&block| log.note_read(block));
        assert_eq!(admitted(&mut log, 16).map(|it| it.kept), Some(2));
        assert_eq!([1, 2].map(|key| place(&log, key)), before);
        assert_eq!([0, 3].map(|key| place(&log, key)), [None, None]);
        let last = admitted(&mut log, 17).expect("room");
        assert_eq!((last.block, last.sealed), (FlashBlock(3), Some(Region(0))), "around them");
        log.written(Region(0));
        filled(&mut log, 18..31);
        assert_eq!([1, 2].map(|key| place(&log, key)), [None, None], "not read again");
    }

    #[test]
    fn a_quarter_of_a_region_is_given_up_even_if_all_of_it_was_read() {
        let mut log = log(4, 4);
        filled(&mut log, 0..16);
        (0..16).for_each(|block| log.note_read(FlashBlock(block)));
        assert_eq!(admitted(&mut log, 16).map(|it| (it.kept, it.block)), Some((3, FlashBlock(3))));
        log.written(Region(0));
        let unkept = log.admit(Key(17), Place::of(0, 17), false, |_| Side::Body);
        let unkept = unkept.map(|it| it.kept);
        assert_eq!(unkept, Some(0), "nothing stays if it must not");
    }

    #[test]
    fn room_is_for_places_that_were_used_as_often_as_what_is_dropped() {
        let mut log = log(4, 2);
        let used = |log: &mut FlashLog, key, times| {
            (0..times).for_each(|_| log.note_use(Place::of(0, key)));
        };
        used(&mut log, 100, 1);
        let is_worth = |log: &FlashLog, key| log.is_worth_room(Place::of(0, key), Side::Body);
        assert!(is_worth(&log, 99), "all is welcome while there is room");
        for key in 0..8 {
            used(&mut log, key, 3);
        }
        filled(&mut log, 0..16);
        assert!(!is_worth(&log, 99));
        used(&mut log, 101, 4);
        assert!(is_worth(&log, 101));
        assert!(log.comes_again(Place::of(0, 101)) && !log.comes_again(Place::of(0, 102)));
    }

    #[test]
    fn on_the_tail_a_use_counts_as_four() {
        let is_worth = |dropped_at: Side, side| {
            let mut log = log(4, 2);
            (0..8).for_each(|key| (0..4).for_each(|_| log.note_use(Place::of(0, key))));
            log.note_use(Place::of(0, 99));
            for key in 0..16 {
                let admitted = log.admit(Key(key), Place::of(0, key), true, |_| dropped_at);
                admitted.and_then(|it| it.sealed).into_iter().for_each(|it| log.written(it));
            }
            log.is_worth_room(Place::of(0, 99), side)
        };
        assert!(is_worth(Side::Body, Side::Tail) && !is_worth(Side::Body, Side::Body));
        assert!(!is_worth(Side::Tail, Side::Tail), "where all is the tail it makes no difference");
    }

    #[test]
    fn it_takes_nothing_in_while_regions_are_on_their_way_or_the_oldest_is_read() {
        let mut log = log(10, 1);
        assert!((0..8).all(|key| admitted(&mut log, key).is_some()));
        assert!(admitted(&mut log, 8).is_none(), "eight are on their way");
        (0..8).for_each(|region| log.written(Region(region)));
        filled(&mut log, 8..10);
        let oldest = log.find(Key(0)).unwrap();
        log.pin(oldest);
        assert!(admitted(&mut log, 10).is_none(), "it is being read");
        log.unpin(oldest);
        assert!(admitted(&mut log, 10).is_some());
    }

    #[test]
    fn a_renamed_block_stays_in_its_place() {
        let mut log = log(4, 2);
        filled(&mut log, 0..3);
        let block = log.find(Key(1));
        log.rename(Key(1), Key(100));
        assert_eq!((log.find(Key(1)), log.find(Key(100))), (None, block));
        log.forget(Key(100));
        assert_eq!(log.find(Key(100)), None);
    }
}
