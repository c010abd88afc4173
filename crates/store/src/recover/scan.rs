//! Finding the records behind a checkpoint: from header to header through the segments that it
//! names, and nowhere else.
//!
//! Data is never looked at as if it could be a header: a volume may well contain the image of
//! another store.

use std::collections::BTreeMap;

use crate::drive::Drive;
use crate::format::record::{Change, Identity, Kind, RecordHeader};
use crate::rules::Rule;
use crate::store::Store;
use crate::sync::join_all;
use crate::units::{Address, BLOCK_BYTES, SegmentId};

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
        let scanned = join_all(segments.iter().map(|&segment| self.scan_segment(segment))).await;
        let mut candidates = Candidates::default();
        for candidate in scanned.into_iter().flatten() {
            let by_kind = match candidate.header.kind {
                Kind::User => &mut candidates.user,
                Kind::Moved => &mut candidates.moved,
            };
            by_kind.insert(candidate.header.sequence, candidate);
        }
        candidates
    }

    async fn scan_segment(&self, segment: SegmentId) -> Vec<Candidate> {
        let end = u64::from(self.state.borrow().space.segment_blocks());
        let mut found = Vec::new();
        let mut block = 1;
        while block < end
            && let Some(candidate) = self.candidate_at(segment, block).await
            && block + candidate.header.record_blocks() <= end
        {
            block += candidate.header.record_blocks();
            found.push(candidate);
        }
        found
    }

    async fn candidate_at(&self, segment: SegmentId, block: u64) -> Option<Candidate> {
        let expected = self.expected_identity(segment, block);
        let is_checked = self.state.borrow().rules.hold(Rule::RecordIdentity);
        for slot in self.by_preference(segment) {
            let member = &self.chain.members[slot.drive.index()];
            let Ok(bytes) = member.read_slot(slot, block, BLOCK_BYTES).await else { continue };
            let Ok(header) = RecordHeader::decode(&bytes) else { continue };
            let belongs = header.identity == expected || !is_checked;
            if belongs {
                return Some(Candidate { header, address: expected.address });
            }
        }
        None
    }

    /// What a record at this place says of itself if it belongs here and now.
    fn expected_identity(&self, segment: SegmentId, block: u64) -> Identity {
        let state = self.state.borrow();
        Identity {
            store: state.superblock.store,
            epoch: state.superblock.epoch,
            generation: state.space.generation(segment),
            address: state.space.address(segment, block),
        }
    }
}
