//! From record header to record header through a segment, in reads that are neither many nor long.
//!
//! ```text
//! records   | H d | H d | H d d | H d d d d d d d d d d d d d d d d d | H d d .. d | H
//! reads     <1>                 <------- window ------->              <1>          <1>
//! ```
//!
//! The first header is read alone, since there may be none. While records are shorter than a
//! window, the next read brings as many of them as fit one; behind a longer one the header alone is
//! read, since more would only take bandwidth. Windows grow step by step, so that what is read for
//! nothing stays in proportion to what is there.
//!
//! Data is never looked at as if it could be a header: a volume may well contain the image of
//! another store.

use crate::buffer::Buffer;
use crate::drive::Drive;
use crate::format::record::{Identity, RecordHeader};
use crate::store::Store;
use crate::units::{BLOCK_BYTES, SegmentId, Slot};

/// How many times longer the next window is, up to the longest.
const GROWTH: u64 = 16;

/// How far a segment has been read. See the [module](self).
#[derive(Debug)]
pub(crate) struct Hops {
    window: Option<Window>,
    /// Blocks of the next read.
    blocks: u64,
    blocks_max: u64,
}

/// A piece of one copy of a segment.
#[derive(Debug)]
struct Window {
    slot: Slot,
    first: u64,
    data: Buffer,
}

impl Hops {
    /// Reads windows of so many blocks at most.
    pub(crate) fn new(blocks_max: u64) -> Self {
        Self { window: None, blocks: 1, blocks_max }
    }

    /// The next header lies behind this one.
    fn passed(&mut self, header: &RecordHeader) {
        let is_long = header.record_blocks() >= self.blocks_max;
        self.blocks = if is_long { 1 } else { self.blocks_max.min(self.blocks * GROWTH) };
    }
}

impl Window {
    fn block(&self, block: u64) -> Option<&[u8]> {
        let place = usize::try_from(block.checked_sub(self.first)?).ok()?;
        self.data.chunks_exact(BLOCK_BYTES).nth(place)
    }
}

impl<D: Drive> Store<D> {
    /// The record header at a place, from the first copy that has one that `is_wanted`. Places are
    /// asked for in their order.
    pub(crate) async fn hop(
        &self,
        hops: &mut Hops,
        segment: SegmentId,
        block: u64,
        is_wanted: impl Fn(&RecordHeader) -> bool,
    ) -> Option<RecordHeader> {
        let slots = self.by_preference(segment);
        if hops.window.as_ref().and_then(|window| window.block(block)).is_none() {
            let end = u64::from(self.state.borrow().space.segment_blocks());
            let blocks = hops.blocks.min(end - block);
            hops.window = self.window_at(*slots.first()?, block, blocks).await;
        }
        let known = hops.window.as_ref().and_then(|it| Some((it.slot, it.block(block)?)));
        let wanted = |bytes: &[u8]| RecordHeader::decode(bytes).ok().filter(&is_wanted);
        let mut header = known.and_then(|(_, bytes)| wanted(bytes));
        let others = slots.into_iter().filter(|slot| known.is_none_or(|(known, _)| known != *slot));
        for slot in others {
            if header.is_some() {
                break;
            }
            let member = &self.chain.members[slot.drive.index()];
            let Ok(bytes) = member.read_slot(slot, block, BLOCK_BYTES).await else { continue };
            header = wanted(&bytes);
        }
        hops.passed(header.as_ref()?);
        header
    }

    /// So many blocks of a copy; none if they cannot be read.
    async fn window_at(&self, slot: Slot, first: u64, blocks: u64) -> Option<Window> {
        let length = usize::try_from(blocks).expect("a window is short") * BLOCK_BYTES;
        let member = &self.chain.members[slot.drive.index()];
        let data = member.read_slot(slot, first, length).await.ok()?;
        Some(Window { slot, first, data })
    }

    /// The record header at a place, from whichever copy has it.
    pub(crate) async fn header_at(&self, segment: SegmentId, block: u64) -> Option<RecordHeader> {
        let is_wanted = |header: &RecordHeader| self.is_at_home(header, segment, block);
        self.hop(&mut Hops::new(1), segment, block, is_wanted).await
    }

    /// Whether a record header belongs to this place and this use of the segment.
    pub(crate) fn is_at_home(&self, header: &RecordHeader, segment: SegmentId, block: u64) -> bool {
        let state = self.state.borrow();
        let Identity { address, generation, .. } = header.identity;
        address == state.space.address(segment, block)
            && generation == state.space.generation(segment)
    }
}
