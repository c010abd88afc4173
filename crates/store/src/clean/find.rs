//! What is alive in a segment: its record headers say what was written, the map says what still
//! counts.

use crate::drive::Drive;
use crate::format::record::Change;
use crate::hops::Hops;
use crate::read::Run;
use crate::store::Store;
use crate::units::{Address, SegmentId, VolumeId};

/// Blocks that are read at once where a header is, if records are shorter than that: 64 KiB take a
/// disk little longer than one block.
const WINDOW_BLOCKS: u64 = 16;

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
        let mut hops = Hops::new(WINDOW_BLOCKS);
        while block < end {
            let is_wanted = |header: &_| self.is_at_home(header, segment, block);
            let Some(header) = self.hop(&mut hops, segment, block, is_wanted).await else { break };
            let mut address = header.identity.address.plus(1);
            for extent in header.extents.iter().filter(|extent| extent.change != Change::Unmapped) {
                for offset in 0..u64::from(extent.blocks) {
                    written.push((extent.volume, extent.block + offset, address));
                    address = address.plus(1);
                }
            }
            block += header.record_blocks();
        }
        written
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
