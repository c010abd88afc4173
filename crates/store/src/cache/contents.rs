//! The cache with its bytes: frames in memory, and the regions that are being filled or are on
//! their way to the cache drive.

use std::collections::VecDeque;
use std::fmt;

use evenkeel_core::time::Nanos;

use super::flash::{FlashBlock, FlashMeasures, Region};
use super::policy::{Found, Key, Measures, Placed, Policy, Side, Staged};
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
    open: Option<(Region, BufferMut)>,
    /// Full regions that are not on the cache drive yet, oldest first.
    sealed: VecDeque<(Region, Buffer)>,
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
    pub(crate) fn look(&mut self, key: Key, tag: Tag, side: Side, into: &mut [u8]) -> Looked {
        match self.policy.read(key, side) {
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
                Some(bytes) => {
                    into.copy_from_slice(bytes);
                    Looked::Here
                }
                None => Looked::Flash(block),
            },
            Found::Nowhere => Looked::Nowhere,
        }
    }

    /// A block of a region that is not on the cache drive yet.
    fn staged(&self, block: FlashBlock) -> Option<&[u8]> {
        let (region, within) = self.flash?.locate(block);
        let start = within as usize * BLOCK_BYTES;
        let open = self.open.as_ref().filter(|open| open.0 == region).map(|open| &*open.1);
        let sealed = || self.sealed.iter().find(|sealed| sealed.0 == region).map(|it| &*it.1);
        open.or_else(sealed).map(|bytes| &bytes[start..start + BLOCK_BYTES])
    }

    /// Takes in a block that was just written. `side` tells where any block lies.
    #[inline]
    pub(crate) fn take_written(
        &mut self,
        now: Nanos,
        block: Block<'_>,
        side: impl Fn(Key) -> Side,
    ) {
        let placed = self.policy.take_written(now, block.key, side);
        self.place(placed, block);
    }

    /// Takes in a block that was read from a drive or the cache drive.
    pub(crate) fn take_read(&mut self, now: Nanos, block: Block<'_>, side: impl Fn(Key) -> Side) {
        if let Some(placed) = self.policy.take_read(now, block.key, side) {
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
        let bytes = flash.region_blocks as usize * BLOCK_BYTES;
        let (_, buffer) = self.open.get_or_insert_with(|| (region, BufferMut::zeroed(bytes)));
        let (from, to) = (staged.from.0 as usize * BLOCK_BYTES, within as usize * BLOCK_BYTES);
        buffer[to..to + BLOCK_BYTES].copy_from_slice(&self.bytes[from..from + BLOCK_BYTES]);
        if staged.sealed.is_some()
            && let Some((region, buffer)) = self.open.take()
        {
            self.sealed.push_back((region, buffer.freeze()));
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
    pub(crate) fn next_sealed(&self) -> Option<(Region, Buffer)> {
        self.sealed.front().cloned()
    }

    /// The region that was next is on the cache drive.
    pub(crate) fn written(&mut self, region: Region) {
        self.sealed.retain(|sealed| sealed.0 != region);
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

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Contents({} frames, {:?})", self.tags.len(), self.policy.counters())
    }
}
