//! Finding the records behind a checkpoint: from header to header through the segments that it
//! names, and nowhere else.

use std::collections::BTreeMap;

use crate::drive::Drive;
use crate::format::record::{Change, DATA_BLOCKS_MAX, Identity, Kind, RecordHeader};
use crate::hops::Hops;
use crate::rules::Rule;
use crate::store::Store;
use crate::sync::join_all;
use crate::units::{Address, SegmentId};

/// Segments that are read at the same time, which bounds the memory for windows to 16 MiB.
const SEGMENTS_AT_ONCE: usize = 16;

/// Blocks of a window at most: 1 MiB. Nobody waits for anything else yet, and a disk that reads a
/// MiB in one go is faster than one that passes over a part of it.
const WINDOW_BLOCKS: u64 = DATA_BLOCKS_MAX as u64;

/// Records whose headers were found, by sequence.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) user: BTreeMap<u64, Candidate>,
    pub(super) moved: BTreeMap<u64, Candidate>,
}

/// A record whose header was found.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) header: RecordHeader,
    /// Where it was found.
    pub(super) address: Address,
}

impl Candidate {
    /// Whether it changes a volume as a whole.
    pub(super) fn changes_a_volume(&self) -> bool {
        self.header.extents.iter().any(|extent| matches!(extent.change, Change::Volume(_)))
    }
}

impl<D: Drive> Store<D> {
    /// All records in these segments that belong to the checkpoint's mount.
    pub(super) async fn scan(&self, segments: &[SegmentId]) -> Candidates {
        let mut candidates = Candidates::default();
        for some in segments.chunks(SEGMENTS_AT_ONCE) {
            let scanned = join_all(some.iter().map(|&segment| self.scan_segment(segment))).await;
            for candidate in scanned.into_iter().flatten() {
                let by_kind = match candidate.header.kind {
                    Kind::User => &mut candidates.user,
                    Kind::Moved => &mut candidates.moved,
                };
                by_kind.insert(candidate.header.sequence, candidate);
            }
        }
        candidates
    }

    async fn scan_segment(&self, segment: SegmentId) -> Vec<Candidate> {
        let end = u64::from(self.state.borrow().space.segment_blocks());
        let is_checked = self.state.borrow().rules.hold(Rule::RecordIdentity);
        let mut found = Vec::new();
        let mut block = 1;
        let mut hops = Hops::new(WINDOW_BLOCKS);
        while block < end {
            let expected = self.expected_identity(segment, block);
            let belongs = |header: &RecordHeader| header.identity == expected || !is_checked;
            let Some(header) = self.hop(&mut hops, segment, block, belongs).await else { break };
            block += header.record_blocks();
            if block > end {
                break;
            }
            found.push(Candidate { header, address: expected.address });
        }
        found
    }

    /// What a record at this place says of itself if it belongs here and now.
    fn expected_identity(&self, segment: SegmentId, block: u64) -> Identity {
        let state = self.state.borrow();
        Identity {
            store: state.superblock.store,
            mount: state.superblock.mount,
            generation: state.space.generation(segment),
            address: state.space.address(segment, block),
        }
    }
}
