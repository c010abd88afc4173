//! What is alive in a segment: its record headers say what was written, the map says what still
//! counts.

use crate::buffer::Buffer;
use crate::drive::Drive;
use crate::format::record::{Change, Identity, RecordHeader};
use crate::read::Run;
use crate::store::Store;
use crate::units::{Address, BLOCK_BYTES, SegmentId, VolumeId};

/// Blocks that are read at once where a header is, if records are shorter than that: 64 KiB take a
/// disk little longer than one block, and the next headers come with it. Behind a longer record the
/// header alone is read, since more would only take bandwidth.
const WINDOW_BLOCKS: u64 = 16;

/// A piece of a segment.
#[derive(Debug, Default)]
struct Window {
    first: u64,
    data: Option<Buffer>,
}

impl Window {
    fn holds(&self, block: u64) -> bool {
        self.block(block).is_some()
    }

    fn block(&self, block: u64) -> Option<&[u8]> {
        let place = usize::try_from(block.checked_sub(self.first)?).ok()?;
        self.data.as_ref()?.chunks_exact(BLOCK_BYTES).nth(place)
    }
}

impl<D: Drive> Store<D> {
    /// The live blocks of a segment, in the order of their addresses.
    pub(crate) async fn live_blocks(&self, segment: SegmentId) -> Vec<Run> {
        let mut written = self.written_blocks(segment).await;
        let mut live = self.still_there(&written);
        let expected = self.state.borrow().space.live(segment) as usize;
        if live.iter().map(|run| run.tags.len()).sum::<usize>() < expected {
            // A header is lost on all copies. The map knows as well, only not as fast.
            written = self.mapped_blocks(segment);
            live = self.still_there(&written);
        }
        live
    }

    /// What the records of a segment wrote: volume, block and address.
    async fn written_blocks(&self, segment: SegmentId) -> Vec<(VolumeId, u64, Address)> {
        let end = u64::from(self.state.borrow().space.segment_blocks());
        let mut written = Vec::new();
        let mut block = 1;
        let mut window = Window::default();
        let mut window_blocks = 1;
        while block < end {
            if !window.holds(block) {
                let blocks = window_blocks.min(end - block);
                window = self.window_at(segment, block, blocks).await;
            }
            let header = match self.header_in(&window, segment, block) {
                Some(header) => header,
                None => match self.header_at(segment, block).await {
                    Some(header) => header,
                    None => break,
                },
            };
            let mut address = header.identity.address.plus(1);
            for extent in header.extents.iter().filter(|extent| extent.change != Change::Unmapped) {
                for offset in 0..u64::from(extent.blocks) {
                    written.push((extent.volume, extent.block + offset, address));
                    address = address.plus(1);
                }
            }
            block += header.record_blocks();
            window_blocks = if header.record_blocks() < WINDOW_BLOCKS { WINDOW_BLOCKS } else { 1 };
        }
        written
    }

    /// So many blocks from a place on, from the preferred copy; none if they cannot be read.
    async fn window_at(&self, segment: SegmentId, block: u64, blocks: u64) -> Window {
        let blocks = usize::try_from(blocks).expect("a window is short");
        let Some(&slot) = self.by_preference(segment).first() else { return Window::default() };
        let member = &self.chain.members[slot.drive.index()];
        let data = member.read_slot(slot, block, blocks * BLOCK_BYTES).await.ok();
        Window { first: block, data }
    }

    /// The record header at a place, if it is in the window.
    fn header_in(&self, window: &Window, segment: SegmentId, block: u64) -> Option<RecordHeader> {
        let header = RecordHeader::decode(window.block(block)?).ok()?;
        let state = self.state.borrow();
        let is_own = header.identity.address == state.space.address(segment, block)
            && header.identity.generation == state.space.generation(segment);
        is_own.then_some(header)
    }

    /// The record header at a place, from whichever copy has it.
    pub(crate) async fn header_at(&self, segment: SegmentId, block: u64) -> Option<RecordHeader> {
        for slot in self.by_preference(segment) {
            let member = &self.chain.members[slot.drive.index()];
            let Ok(bytes) = member.read_slot(slot, block, BLOCK_BYTES).await else { continue };
            let header = RecordHeader::decode(&bytes).ok();
            if let Some(header) = header.filter(|header| self.is_at_home(header, segment, block)) {
                return Some(header);
            }
        }
        None
    }

    /// Whether a record header belongs to this place and this use of the segment.
    pub(crate) fn is_at_home(&self, header: &RecordHeader, segment: SegmentId, block: u64) -> bool {
        let state = self.state.borrow();
        let Identity { address, generation, .. } = header.identity;
        address == state.space.address(segment, block)
            && generation == state.space.generation(segment)
    }

    fn mapped_blocks(&self, segment: SegmentId) -> Vec<(VolumeId, u64, Address)> {
        let state = self.state.borrow();
        let entries =
            state.map.entries().map(|(volume, block, entry)| (volume, block, entry.address));
        let mut mapped: Vec<_> =
            entries.filter(|&(_, _, address)| state.space.locate(address).0 == segment).collect();
        mapped.sort_unstable_by_key(|&(_, _, address)| address);
        mapped
    }

    /// Those blocks that are still where they were written, neighbours together.
    fn still_there(&self, written: &[(VolumeId, u64, Address)]) -> Vec<Run> {
        let state = self.state.borrow();
        let mut runs: Vec<Run> = Vec::new();
        for &(volume, block, address) in written {
            let holder = state.map.holder(volume, block, address);
            let Some((volume, entry)) = holder else { continue };
            match runs.last_mut() {
                Some(run)
                    if run.volume == volume && run.is_continued(block, address, &state.space) =>
                {
                    run.tags.push(entry.tag);
                }
                _ => runs.push(Run { volume, block, address, tags: vec![entry.tag] }),
            }
        }
        runs
    }
}
