//! The cache with its bytes: frames in memory, and the regions that are being filled or are on
//! their way to the cache drive.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, Range};

use evenkeel_core::crc32c::crc32c;
use evenkeel_core::time::Nanos;

use super::flash::{FlashBlock, FlashMeasures, Region};
use super::frequency::Place;
use super::policy::{Found, Key, Measures, Placed, Policy, Side, Staged, Standing};
use super::wear::{Endurance, WearReport};
use super::{CacheCounters, Frame};
use crate::buffer::{Buffer, BufferMut};
use crate::map::Tag;
use crate::units::BLOCK_BYTES;

/// The policy with its bytes. See the [module](self).
pub(crate) struct Contents {
    policy: Policy,
    flash: Option<FlashMeasures>,
    /// Of each frame.
    bytes: Box<[u8]>,
    /// Of each frame: what it holds must look like this.
    tags: Box<[Tag]>,
    /// The region that is being filled.
    open: Option<Filling<BufferMut>>,
    /// Full regions that are not on the cache drive yet, oldest first.
    sealed: VecDeque<Filling<Buffer>>,
}

/// A region with what is new in it.
#[derive(Clone)]
struct Filling<B> {
    region: Region,
    bytes: B,
    /// Of each block: it is new, and lies here. The others are on the cache drive, as they were.
    is_new: Box<[bool]>,
    /// What is on the cache drive, once it was read back.
    before: Option<Buffer>,
}

/// A block of a region, in memory.
struct InRegion<'a> {
    bytes: &'a [u8],
    /// Whether it came from memory. What was read back from the cache drive is not believed.
    is_known: bool,
}

/// A region that is to be written to the cache drive.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) region: Region,
    /// What is new, at its place.
    pub(crate) bytes: Buffer,
    /// Blocks that stay as they are on the cache drive.
    pub(crate) kept: Vec<Range<u32>>,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// It was copied.
    Here,
    /// On the cache drive.
    Flash(FlashBlock),
    /// On the drives only.
    Nowhere,
}

/// A block with what is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) key: Key,
    pub(crate) place: Place,
    pub(crate) tag: Tag,
    pub(crate) bytes: &'a [u8],
}

impl Contents {
    pub(crate) fn new(now: Nanos, measures: Measures, endurance: Endurance) -> Self {
        let frames = measures.frames();
        Self {
            policy: Policy::new(now, measures, endurance),
            flash: measures.flash,
            bytes: vec![0; frames * BLOCK_BYTES].into_boxed_slice(),
            tags: vec![Tag(0); frames].into_boxed_slice(),
            open: None,
            sealed: VecDeque::new(),
        }
    }

    /// Looks for a block that is read, counts it, and copies it if it is in memory.
    #[inline]
    pub(crate) fn look(
        &mut self,
        (key, place): (Key, Place),
        tag: Tag,
        side: Side,
        into: &mut [u8],
    ) -> Looked {
        match self.policy.read(key, place, side) {
            Found::Memory(frame) if self.tags[frame.0 as usize] == tag => {
                into.copy_from_slice(self.frame(frame));
                Looked::Here
            }
            // Entries die with their blocks, so that this cannot be. If it is, the drives know.
            Found::Memory(_) => {
                self.policy.forget(key);
                Looked::Nowhere
            }
            Found::Flash(block) => match self.staged(block) {
                None => Looked::Flash(block),
                Some(staged) if staged.is_known || Tag::of(crc32c(staged.bytes)) == tag => {
                    into.copy_from_slice(staged.bytes);
                    Looked::Here
                }
                Some(_) => {
                    self.policy.reject(key);
                    Looked::Nowhere
                }
            },
            Found::Nowhere => Looked::Nowhere,
        }
    }

    /// A block that is not on the cache drive yet.
    fn staged(&self, block: FlashBlock) -> Option<InRegion<'_>> {
        let (region, within) = self.flash?.locate(block);
        let open = self.open.as_ref().filter(|open| open.region == region);
        if let Some(open) = open {
            return open.block(within);
        }
        self.sealed.iter().find(|sealed| sealed.region == region)?.block(within)
    }

    /// Takes in a block that was just written. `standing` tells what any block is to the chain.
    #[inline]
    pub(crate) fn take_written(
        &mut self,
        now: Nanos,
        block: Block<'_>,
        standing: impl Fn(Key) -> Standing,
    ) {
        let placed = self.policy.take_written(now, block.key, block.place, standing);
        self.place(placed, block);
    }

    /// Takes in a block that was read from a drive or the cache drive.
    pub(crate) fn take_read(
        &mut self,
        now: Nanos,
        block: Block<'_>,
        standing: impl Fn(Key) -> Standing,
    ) {
        if let Some(placed) = self.policy.take_read(now, block.key, block.place, standing) {
            self.place(placed, block);
        }
    }

    fn place(&mut self, placed: Placed, block: Block<'_>) {
        if let Some(staged) = placed.staged {
            self.stage(staged);
        }
        let frame = placed.frame.0 as usize;
        self.tags[frame] = block.tag;
        self.bytes[frame * BLOCK_BYTES..(frame + 1) * BLOCK_BYTES].copy_from_slice(block.bytes);
    }

    fn stage(&mut self, staged: Staged) {
        let flash = self.flash.expect("a block is staged only for a cache drive");
        let (region, within) = flash.locate(staged.to);
        let open = self.open.get_or_insert_with(|| Filling::new(region, flash.region_blocks));
        let (from, to) = (staged.from.0 as usize * BLOCK_BYTES, within as usize * BLOCK_BYTES);
        open.bytes[to..to + BLOCK_BYTES].copy_from_slice(&self.bytes[from..from + BLOCK_BYTES]);
        open.is_new[within as usize] = true;
        if staged.sealed.is_some()
            && let Some(full) = self.open.take()
        {
            self.sealed.push_back(full.freeze());
        }
    }

    /// The block is no more.
    pub(crate) fn forget(&mut self, key: Key) {
        self.policy.forget(key);
    }

    /// The block was moved, as it is.
    pub(crate) fn rename(&mut self, from: Key, to: Key) {
        self.policy.rename(from, to);
    }

    /// The next region to be written to the cache drive.
    pub(crate) fn next_sealed(&self) -> Option<Sealed> {
        let (next, flash) = (self.sealed.front()?, self.flash?);
        let mut kept: Vec<Range<u32>> = Vec::new();
        for (block, within) in flash.blocks_of(next.region).zip(0..) {
            if next.is_new[within as usize] || !self.policy.is_alive(block) {
                continue;
            }
            match kept.last_mut().filter(|last| last.end == within) {
                Some(last) => last.end = within + 1,
                None => kept.push(within..within + 1),
            }
        }
        Some(Sealed { region: next.region, bytes: next.bytes.clone(), kept })
    }

    /// What is on the cache drive in a sealed region, so that blocks that stay there are found here
    /// from now on.
    pub(crate) fn note_read_back(&mut self, region: Region, before: &Buffer) {
        if let Some(sealed) = self.sealed.iter_mut().find(|sealed| sealed.region == region) {
            sealed.before = Some(before.clone());
        }
    }

    /// Whether blocks of a region are being read from the cache drive.
    pub(crate) fn is_being_read(&self, region: Region) -> bool {
        self.policy.is_being_read(region)
    }

    /// What was to stay in a region could not be read.
    pub(crate) fn lose_kept(&mut self, sealed: &Sealed) {
        let Some(flash) = self.flash else { return };
        for (block, within) in flash.blocks_of(sealed.region).zip(0..) {
            if sealed.kept.iter().any(|kept| kept.contains(&within)) {
                self.policy.lose(block);
            }
        }
    }

    /// The region that was next is on the cache drive.
    pub(crate) fn written(&mut self, region: Region) {
        self.sealed.retain(|sealed| sealed.region != region);
        self.policy.written(region);
    }

    /// Goes on without the cache drive.
    pub(crate) fn lose_flash(&mut self) {
        self.policy.lose_flash();
        self.flash = None;
        self.open = None;
        self.sealed.clear();
    }

    /// The log on the cache drive, if it has not failed.
    pub(crate) fn flash(&self) -> Option<FlashMeasures> {
        self.flash
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) fn policy_mut(&mut self) -> &mut Policy {
        &mut self.policy
    }

    pub(crate) fn counters(&self) -> CacheCounters {
        self.policy.counters()
    }

    pub(crate) fn wear(&self, now: Nanos) -> WearReport {
        self.policy.wear(now)
    }

    fn frame(&self, frame: Frame) -> &[u8] {
        let start = frame.0 as usize * BLOCK_BYTES;
        &self.bytes[start..start + BLOCK_BYTES]
    }
}

impl<B: Deref<Target = [u8]>> Filling<B> {
    /// A block, if it is here.
    fn block(&self, within: u32) -> Option<InRegion<'_>> {
        let start = within as usize * BLOCK_BYTES;
        let is_known = self.is_new[within as usize];
        let bytes = if is_known { &self.bytes } else { &**self.before.as_ref()? };
        Some(InRegion { bytes: &bytes[start..start + BLOCK_BYTES], is_known })
    }
}

impl Filling<BufferMut> {
    fn new(region: Region, region_blocks: u32) -> Self {
        let blocks = region_blocks as usize;
        let is_new = vec![false; blocks].into_boxed_slice();
        Self { region, bytes: BufferMut::zeroed(blocks * BLOCK_BYTES), is_new, before: None }
    }

    fn freeze(self) -> Filling<Buffer> {
        let Self { region, bytes, is_new, before } = self;
        Filling { region, bytes: bytes.freeze(), is_new, before }
    }
}

impl Sealed {
    /// The region as it is to be, given what is there now: what is new and what stays in turn.
    #[must_use]
    pub(crate) fn over(&self, before: &Buffer) -> Vec<Buffer> {
        let cut = |from: &Buffer, range: Range<u32>| {
            from.slice(range.start as usize * BLOCK_BYTES..range.end as usize * BLOCK_BYTES)
        };
        let end = u32::try_from(self.bytes.len() / BLOCK_BYTES).expect("a region is bounded");
        let (mut pieces, mut at) = (Vec::with_capacity(2 * self.kept.len() + 1), 0);
        for kept in &self.kept {
            pieces.extend((at < kept.start).then(|| cut(&self.bytes, at..kept.start)));
            pieces.push(cut(before, kept.clone()));
            at = kept.end;
        }
        pieces.extend((at < end).then(|| cut(&self.bytes, at..end)));
        pieces
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Contents({} frames, {:?})", self.tags.len(), self.policy.counters())
    }
}
