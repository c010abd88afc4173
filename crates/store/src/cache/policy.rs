//! What is kept where: the whole of the cache but the bytes.
//!
//! Bytes lie in *frames*, each of one block; there is one more than blocks are kept, so that there
//! is always a free one to take a block in before another leaves. The policy says which frame a
//! block goes to, and which frame is to be copied to the SSD's open region before that.
//!
//! | leaves | and was | goes to |
//! |---|---|---|
//! | the tail queue | read there | main queue of the body |
//! | the tail queue | not read, still young | SSD, if worth it |
//! | main queue of the body | used again, by S3-FIFO's rules | SSD, if worth it |
//! | small queue of the body | used once, but not for the first time | SSD, if worth it |
//! | any queue | none of these, or on the SSD already | nowhere |
//!
//! So one scan of the body fills a tenth of the memory and hardly wears the SSD. What is worth it
//! the SSD's log says ([`super::flash`]): it knows how often a block's place was used, how often
//! those of the blocks that would have to go, and what a read of the tail costs.

use evenkeel_core::cache::S3Fifo;
use evenkeel_core::time::Nanos;

use super::flash::{FlashBlock, FlashLog, FlashMeasures, Region};
use super::frequency::Place;
use super::tail::Tail;
use super::wear::{Endurance, Wear, WearReport};

/// A block of the log, by its address. An address is written once before its segment is freed, so
/// that what it names never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub u64);

/// Room for the bytes of one block in memory, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame(pub u32);

/// On which side of the chain a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Only on drives that take the clients' writes now, so that reading it makes the tail seek.
    Tail,
    /// On another drive.
    Body,
}

/// What a block that leaves the memory is to the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Where it lies: a read of the tail weighs more.
    pub side: Side,
    /// Whether it was written lately. If so it may go to the SSD unread; else it has to prove that
    /// it is used.
    pub is_young: bool,
}

impl From<Side> for Standing {
    /// Where the tail stays on one drive for long: what lies there is young, and nothing else.
    fn from(side: Side) -> Self {
        Self { side, is_young: side == Side::Tail }
    }
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// Blocks in memory that were written last; at least one.
    pub tail_blocks: usize,
    /// Blocks in memory that were read; at least one.
    pub body_blocks: usize,
    /// The log on the SSD, if there is one.
    pub flash: Option<FlashMeasures>,
}

/// Where a block was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In memory.
    Memory(Frame),
    /// On the SSD; in memory as well as long as its region is open or on its way.
    Flash(FlashBlock),
    /// Only on the drives.
    Nowhere,
}

/// What taking a block in asks of whoever holds the bytes, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// First, copy a block to the SSD's log.
    pub staged: Option<Staged>,
    /// Then, put the bytes of the new block here.
    pub frame: Frame,
}

/// A block that goes to the SSD's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    /// Where its bytes are.
    pub from: Frame,
    /// Where they go.
    pub to: FlashBlock,
    /// The region that is complete with it, and is to be written: see [`Policy::written`].
    pub sealed: Option<Region>,
}

/// Reads by where the block was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// In memory.
    pub memory: u64,
    /// On the SSD.
    pub flash: u64,
    /// Only on the drives.
    pub misses: u64,
}

/// What a cache did, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Reads of blocks that lay on the tail.
    pub tail: Hits,
    /// Reads of all others.
    pub body: Hits,
    /// Blocks taken in when they were written.
    pub written: u64,
    /// Those of them that died before they left the memory, and so never wore the SSD.
    pub died_in_memory: u64,
    /// Blocks that were written to the SSD.
    pub flash_written: u64,
    /// Those of them that were there before, and stayed for one more turn.
    pub flash_kept: u64,
    /// Blocks that were not, since their places are used less than those of what would have to go.
    pub flash_unworthy: u64,
    /// Blocks that did not, to keep within the budget.
    pub flash_over_budget: u64,
    /// Blocks that did not since the SSD was too slow.
    pub flash_busy: u64,
    /// Blocks that the SSD could not give back as they were, so that the drives were read.
    pub flash_failed: u64,
}

/// The cache without its bytes.
#[derive(Clone, Debug)]
pub struct Policy {
    tail: Tail,
    body: S3Fifo<Frame>,
    free: Vec<Frame>,
    /// Of the block in each frame.
    places: Vec<Place>,
    flash: Option<FlashLog>,
    wear: Wear,
    counters: CacheCounters,
}

impl Measures {
    /// Frames that the policy uses: their indices are below this.
    pub fn frames(self) -> usize {
        self.tail_blocks + self.body_blocks + 1
    }

    /// Bytes of memory that a policy of these measures takes, at most. The frames are not counted.
    pub fn policy_bytes(self) -> usize {
        Tail::memory_bytes(self.tail_blocks)
            + S3Fifo::<Frame>::memory_bytes(self.body_blocks)
            + self.frames() * (size_of::<Frame>() + size_of::<Place>())
            + self.flash.map_or(0, FlashMeasures::index_bytes)
    }
}

impl Policy {
    /// An empty cache. The endurance is that of the SSD, and of no account without one.
    pub fn new(now: Nanos, measures: Measures, endurance: Endurance) -> Self {
        let frames = u32::try_from(measures.frames()).expect("the measures are bounded");
        Self {
            tail: Tail::new(measures.tail_blocks),
            body: S3Fifo::new(measures.body_blocks),
            free: (0..frames).rev().map(Frame).collect(),
            places: vec![Place::default(); measures.frames()],
            flash: measures.flash.map(FlashLog::new),
            wear: Wear::new(now, endurance),
            counters: CacheCounters::default(),
        }
    }

    /// Looks for a block that is read, and counts it.
    #[inline]
    pub fn read(&mut self, key: Key, place: Place, side: Side) -> Found {
        let in_memory = self.tail.hit(key).or_else(|| self.body.hit(key.0));
        let mut found = in_memory.map_or(Found::Nowhere, Found::Memory);
        if let Some(flash) = &mut self.flash {
            flash.note_use(place);
            if in_memory.is_none()
                && let Some(block) = flash.find(key)
            {
                flash.note_read(block);
                found = Found::Flash(block);
            }
        }
        let hits = self.hits_mut(side);
        match found {
            Found::Memory(_) => hits.memory += 1,
            Found::Flash(_) => hits.flash += 1,
            Found::Nowhere => hits.misses += 1,
        }
        found
    }

    /// Whether a block is there. It does not count as used.
    pub fn has(&self, key: Key) -> bool {
        self.tail.contains(key)
            || self.body.peek(key.0).is_some()
            || self.flash.as_ref().is_some_and(|flash| flash.find(key).is_some())
    }

    /// Takes in a block that was just written; its key was never there. `standing` tells what
    /// any block is.
    #[inline]
    pub fn take_written(
        &mut self,
        now: Nanos,
        key: Key,
        place: Place,
        standing: impl Fn(Key) -> Standing,
    ) -> Placed {
        self.forget(key);
        self.counters.written += 1;
        if let Some(flash) = &mut self.flash {
            flash.note_use(place);
        }
        let staged = if self.tail.is_full() { self.leave_tail(now, standing) } else { None };
        let frame = self.take_free(place);
        self.tail.insert(key, frame);
        Placed { staged, frame }
    }

    /// Takes in a block that was read from a drive or from the SSD; nothing if it is in memory.
    #[inline]
    pub fn take_read(
        &mut self,
        now: Nanos,
        key: Key,
        place: Place,
        standing: impl Fn(Key) -> Standing,
    ) -> Option<Placed> {
        if self.tail.contains(key) || self.body.peek(key.0).is_some() {
            return None;
        }
        let frame = self.take_free(place);
        let evicted = self.body.insert(key.0, frame);
        let staged = evicted.and_then(|evicted| {
            self.leave(now, Key(evicted.object), evicted.value, evicted.was_main, standing)
        });
        Some(Placed { staged, frame })
    }

    /// The oldest block of the tail queue makes room.
    fn leave_tail(&mut self, now: Nanos, standing: impl Fn(Key) -> Standing) -> Option<Staged> {
        let left = self.tail.take_oldest()?;
        if !left.was_read {
            return self.leave(now, left.key, left.frame, false, standing);
        }
        let evicted = self.body.insert_main(left.key.0, left.frame)?;
        self.leave(now, Key(evicted.object), evicted.value, evicted.was_main, standing)
    }

    /// A block leaves the memory, and goes to the SSD if that is worth it.
    fn leave(
        &mut self,
        now: Nanos,
        key: Key,
        frame: Frame,
        was_used_again: bool,
        standing: impl Fn(Key) -> Standing,
    ) -> Option<Staged> {
        self.free.push(frame);
        let flash = self.flash.as_mut()?;
        let (Standing { side, is_young }, place) = (standing(key), self.places[frame.0 as usize]);
        let may_be_wanted = was_used_again || is_young || flash.comes_again(place);
        if !may_be_wanted || flash.find(key).is_some() {
            return None;
        }
        if !flash.is_worth_room(place, side) {
            self.counters.flash_unworthy += 1;
            return None;
        }
        if !self.wear.has_room(now, 1, is_young) {
            self.counters.flash_over_budget += 1;
            return None;
        }
        let keeps = self.wear.has_room(now, flash.region_blocks(), false);
        let Some(admitted) = flash.admit(key, place, keeps, |key| standing(key).side) else {
            self.counters.flash_busy += 1;
            return None;
        };
        self.wear.spend(now, 1 + admitted.kept);
        self.counters.flash_written += 1 + u64::from(admitted.kept);
        self.counters.flash_kept += u64::from(admitted.kept);
        Some(Staged { from: frame, to: admitted.block, sealed: admitted.sealed })
    }

    /// The block is no more: its address means nothing until it is written anew.
    #[inline]
    pub fn forget(&mut self, key: Key) {
        let frame = self.tail.remove(key).inspect(|_| self.counters.died_in_memory += 1);
        self.free.extend(frame.or_else(|| self.body.remove(key.0)));
        if let Some(flash) = &mut self.flash {
            flash.forget(key);
        }
    }

    /// The block was moved to another address, as it is.
    pub fn rename(&mut self, from: Key, to: Key) {
        self.forget(to);
        self.tail.rename(from, to);
        self.body.rename(from.0, to.0);
        if let Some(flash) = &mut self.flash {
            flash.rename(from, to);
        }
    }

    /// A region that was sealed is on the SSD. Until then it counts as on its way, and only a few
    /// may be.
    pub fn written(&mut self, region: Region) {
        if let Some(flash) = &mut self.flash {
            flash.written(region);
        }
    }

    /// Keeps a block of the SSD from being written over while it is read.
    pub fn pin(&mut self, block: FlashBlock) {
        if let Some(flash) = &mut self.flash {
            flash.pin(block);
        }
    }

    /// Whether a block of a region is pinned.
    pub fn is_being_read(&self, region: Region) -> bool {
        self.flash.as_ref().is_some_and(|flash| flash.is_being_read(region))
    }

    /// Ends a [`Self::pin`].
    pub fn unpin(&mut self, block: FlashBlock) {
        if let Some(flash) = &mut self.flash {
            flash.unpin(block);
        }
    }

    /// The SSD did not give this block back as it was: forgets that it is there.
    pub fn reject(&mut self, key: Key) {
        self.counters.flash_failed += 1;
        if let Some(flash) = &mut self.flash {
            flash.forget(key);
        }
    }

    /// Whether a block of the SSD holds anything alive.
    pub fn is_alive(&self, block: FlashBlock) -> bool {
        self.flash.as_ref().is_some_and(|flash| flash.is_alive(block))
    }

    /// The SSD could not give back a block that was to stay: it is not there any more.
    pub fn lose(&mut self, block: FlashBlock) {
        self.counters.flash_failed += 1;
        if let Some(flash) = &mut self.flash {
            flash.clear(block);
        }
    }

    /// Goes on without the SSD.
    pub fn lose_flash(&mut self) {
        self.flash = None;
    }

    /// What it did so far.
    pub fn counters(&self) -> CacheCounters {
        self.counters
    }

    /// How worn the SSD is.
    pub fn wear(&self, now: Nanos) -> WearReport {
        self.wear.report(now)
    }

    /// A frame for the block of a place.
    fn take_free(&mut self, place: Place) -> Frame {
        let frame = self.free.pop().expect("there is one frame more than blocks are kept");
        self.places[frame.0 as usize] = place;
        frame
    }

    fn hits_mut(&mut self, side: Side) -> &mut Hits {
        match side {
            Side::Tail => &mut self.counters.tail,
            Side::Body => &mut self.counters.body,
        }
    }
}

impl Hits {
    /// All reads.
    pub fn reads(&self) -> u64 {
        self.memory + self.flash + self.misses
    }

    /// Those since an earlier account of the same cache.
    #[must_use]
    pub fn since(&self, earlier: Self) -> Self {
        Self {
            memory: self.memory - earlier.memory,
            flash: self.flash - earlier.flash,
            misses: self.misses - earlier.misses,
        }
    }

    /// Reads that reached no drive, by all; `None` without a read.
    pub fn ratio(&self) -> Option<f64> {
        let reads = self.reads();
        (reads > 0).then(|| (self.memory + self.flash) as f64 / reads as f64)
    }
}
