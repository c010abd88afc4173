//! One window of one copy: its record headers in their places, its live blocks as the map has them.
//!
//! ```text
//! copy:      | S | H | d d d | H | d | H | d d d d | garbage
//! window            [  d d | H | d | H | d ]
//! live:             x x       .       x . x .       as the map says
//! ```
//!
//! Where the chain of headers breaks on this copy, another copy says how it goes on. A header none
//! of whose blocks is alive is nobody's loss; behind the last record there may be anything.

use std::collections::BTreeSet;
use std::ops::Range;

use evenkeel_core::crc32c::crc32c;

use super::{Flaw, FlawKind};
use crate::buffer::Buffer;
use crate::drive::{Drive, DriveError};
use crate::format::record::{DATA_BLOCKS_MAX, RecordHeader};
use crate::map::Tag;
use crate::read::{CopyBlocks, Run};
use crate::store::Store;
use crate::units::{BLOCK_BYTES, SegmentId, Slot, VolumeId};

/// Blocks of a window: 1 MiB.
pub(super) const WINDOW_BLOCKS: u64 = DATA_BLOCKS_MAX as u64;

/// How far a copy has been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    /// The first block of the next window. The segment's own header counts for nothing.
    pub(super) at_block: u64,
    /// Where the next record header lies, unless the chain has ended.
    next_header: Option<u64>,
}

/// A block that should be alive, and its place.
#[derive(Clone, Copy, Debug)]
struct Live {
    volume: VolumeId,
    block: u64,
    /// Within the segment.
    at: u64,
    tag: Tag,
}

impl Default for Walk {
    fn default() -> Self {
        Self { at_block: 1, next_header: Some(1) }
    }
}

impl Walk {
    /// The next window of a segment of so many blocks.
    pub(super) fn window(&self, end: u64) -> Range<u64> {
        self.at_block..(self.at_block + WINDOW_BLOCKS).min(end)
    }
}

impl<D: Drive> Store<D> {
    /// Reads the next window of a copy, compares, and notes what is bad for mending; gives what it
    /// found, and how many blocks could not be noted. `None` if the drive does not answer.
    pub(super) async fn examine(
        &self,
        segment: SegmentId,
        slot: Slot,
        live: &[Run],
        walk: &mut Walk,
    ) -> Option<(Vec<Flaw>, u64)> {
        let window = walk.window(u64::from(self.state.borrow().space.segment_blocks()));
        let copy = self.read_window(slot, &window).await?;
        let (mut flaws, mut bad) = (Vec::new(), BTreeSet::new());
        for (place, lost) in self.bad_headers(segment, &window, &copy, live, walk).await {
            bad.extend(lost);
            flaws.push(Flaw { segment, slot, block: place, kind: FlawKind::Header });
        }
        for block in self.bad_blocks(&window, &copy, live) {
            let is_elsewhere = self.is_good_elsewhere(segment, slot, &block).await;
            let Live { volume, block, at, .. } = block;
            let kind = if is_elsewhere {
                bad.insert((volume, block));
                FlawKind::Data { volume, block }
            } else {
                FlawKind::Lost { volume, block }
            };
            flaws.push(Flaw { segment, slot, block: at, kind });
        }
        flaws.sort_by_key(|flaw| flaw.block);
        walk.at_block = window.end;
        Some((flaws, self.note_for_mending(bad)))
    }

    async fn read_window(&self, slot: Slot, window: &Range<u64>) -> Option<CopyBlocks> {
        let length = index(window.end - window.start) * BLOCK_BYTES;
        match self.read_copy(slot, window.start, length).await {
            Ok(copy) => Some(copy),
            Err(DriveError::Medium) => {
                let readable = vec![false; length / BLOCK_BYTES];
                Some(CopyBlocks { data: Buffer::zeroed(length), readable })
            }
            Err(DriveError::Gone) => None,
            Err(DriveError::Misuse(what)) => panic!("a window lies within its slot: {what}"),
        }
    }

    /// The places of headers in a window that are bad on this copy, each with the blocks of its
    /// record that are alive, of which there are some.
    async fn bad_headers(
        &self,
        segment: SegmentId,
        window: &Range<u64>,
        copy: &CopyBlocks,
        live: &[Run],
        walk: &mut Walk,
    ) -> Vec<(u64, Vec<(VolumeId, u64)>)> {
        let mut bad = Vec::new();
        while let Some(place) = walk.next_header.filter(|place| window.contains(place)) {
            let at = index(place - window.start);
            let bytes = &copy.data[at * BLOCK_BYTES..][..BLOCK_BYTES];
            let own = Some(bytes).filter(|_| copy.readable[at]);
            let own = own.and_then(|bytes| RecordHeader::decode(bytes).ok());
            let own = own.filter(|header| self.is_at_home(header, segment, place));
            let is_bad = own.is_none();
            let header = if is_bad { self.header_at(segment, place).await } else { own };
            let end = header.map(|header| place + header.record_blocks());
            walk.next_header = end;
            if !is_bad {
                continue;
            }
            let lost = self.alive(live, place..end.unwrap_or(u64::MAX));
            let lost: Vec<_> = lost.map(|live| (live.volume, live.block)).collect();
            if !lost.is_empty() {
                bad.push((place, lost));
            }
        }
        bad
    }

    /// The live blocks in a window that do not match their tags on this copy.
    fn bad_blocks(&self, window: &Range<u64>, copy: &CopyBlocks, live: &[Run]) -> Vec<Live> {
        let is_bad = |live: &Live| {
            let at = index(live.at - window.start);
            let bytes = &copy.data[at * BLOCK_BYTES..][..BLOCK_BYTES];
            !copy.readable[at] || Tag::of(crc32c(bytes)) != live.tag
        };
        self.alive(live, window.clone()).filter(is_bad).collect()
    }

    /// The live blocks in a range of the segment.
    fn alive<'a>(
        &self,
        live: &'a [Run],
        range: Range<u64>,
    ) -> impl Iterator<Item = Live> + use<'a, D> {
        let segment_blocks = u64::from(self.state.borrow().space.segment_blocks());
        let place = move |run: &Run| run.address.0 % segment_blocks;
        let first = live.partition_point(|run| place(run) + run.tags.len() as u64 <= range.start);
        let runs = live[first..].iter().take_while(move |run| place(run) < range.end);
        let blocks = runs.flat_map(move |run| {
            (0..).zip(&run.tags).map(move |(offset, &tag)| Live {
                volume: run.volume,
                block: run.block + offset,
                at: place(run) + offset,
                tag,
            })
        });
        blocks.filter(move |live| range.contains(&live.at))
    }

    /// Whether another copy has the block.
    async fn is_good_elsewhere(&self, segment: SegmentId, bad: Slot, live: &Live) -> bool {
        for slot in self.by_preference(segment).into_iter().filter(|slot| *slot != bad) {
            let Ok(copy) = self.read_copy(slot, live.at, BLOCK_BYTES).await else { continue };
            if Tag::of(crc32c(&copy.data)) == live.tag {
                return true;
            }
        }
        false
    }
}

fn index(blocks: u64) -> usize {
    usize::try_from(blocks).expect("a window fits memory")
}
