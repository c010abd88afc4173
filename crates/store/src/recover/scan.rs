//! Finding the records behind a checkpoint: from header to header through the segments that it
//! names, and nowhere else.
//!
//! Where no header is, the log of a segment ends, or one is damaged: a bad sector, a flipped bit.
//! So what lies behind is looked through for a header that is at home there. A header that is lost
//! alone is restored from the next one, which repeats it. Whether the log ends where two in a row
//! are lost is for [`replay`](super::replay) to say.

use std::collections::BTreeMap;

use crate::drive::Drive;
use crate::format::record::{Change, DATA_BLOCKS_MAX, Identity, Kind, Previous, RecordHeader};
use crate::format::segment::SegmentHeader;
use crate::hops::Hops;
use crate::rules::Rule;
use crate::store::Store;
use crate::sync::join_all;
use crate::units::{Address, BLOCK_BYTES, BLOCK_BYTES_U64, SegmentId};

/// Segments that are read at the same time, which bounds the memory for windows to 16 MiB.
const SEGMENTS_AT_ONCE: usize = 16;

/// Blocks of a window at most: 1 MiB. Nobody waits for anything else yet, and a disk that reads a
/// MiB in one go is faster than one that passes over a part of it.
const WINDOW_BLOCKS: u64 = DATA_BLOCKS_MAX as u64;

/// How many times the bytes that may be unflushed are looked through behind what was written: twice
/// that can be, in segments of clients and of the cleaner.
const VOLATILE_PARTS: u64 = 4;

/// Records whose headers were found, by sequence.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) user: BTreeMap<u64, Candidate>,
    pub(super) moved: BTreeMap<u64, Candidate>,
    /// Where a header should be and none is, although records lie behind.
    pub(super) damaged: Vec<Address>,
    /// The places of headers that were restored from the next ones.
    pub(super) restored: Vec<Address>,
}

/// What was found in one segment.
#[derive(Debug)]
struct Scanned {
    segment: SegmentId,
    records: Vec<Candidate>,
    damaged: Vec<Address>,
    /// Nothing shows that it was ever written to.
    is_blank: bool,
}

impl Candidates {
    fn take(&mut self, scanned: Scanned) {
        for candidate in scanned.records {
            let by_kind = match candidate.header.kind {
                Kind::User => &mut self.user,
                Kind::Moved => &mut self.moved,
            };
            by_kind.insert(candidate.header.sequence, candidate);
        }
        self.damaged.extend(scanned.damaged);
    }

    /// Restores headers that are lost, of records that count.
    fn restore(&mut self, counts: impl Fn(&RecordHeader) -> bool) {
        for records in [&mut self.user, &mut self.moved] {
            let restored: Vec<Candidate> = records
                .values()
                .filter_map(|next| next.before(records))
                .filter(|it| counts(&it.header))
                .collect();
            for candidate in restored {
                self.restored.push(candidate.address);
                records.insert(candidate.header.sequence, candidate);
            }
        }
        self.damaged.retain(|address| !self.restored.contains(address));
    }
}

/// A record whose header was found, or restored.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) header: RecordHeader,
    /// Where its header is.
    pub(super) address: Address,
}

impl Candidate {
    /// The record before, from what this one repeats of its header, if its own is not there.
    fn before(&self, known: &BTreeMap<u64, Self>) -> Option<Self> {
        let sequence = self.header.sequence.checked_sub(1)?;
        if known.contains_key(&sequence) {
            return None;
        }
        let before = sequence.checked_sub(1).and_then(|sequence| known.get(&sequence));
        let before = before.map(|it| Box::new(Previous::of(&it.header)));
        let header = self.header.restore_previous(before)?;
        Some(Self { address: header.identity.address, header })
    }

    /// Whether it changes a volume as a whole.
    pub(super) fn changes_a_volume(&self) -> bool {
        self.header.extents.iter().any(|extent| matches!(extent.change, Change::Volume(_)))
    }
}

impl<D: Drive> Store<D> {
    /// All records in these segments that belong to the checkpoint's mount.
    pub(super) async fn scan(&self, segments: &[SegmentId]) -> Candidates {
        let mut candidates = Candidates::default();
        let mut blank = Vec::new();
        for some in segments.chunks(SEGMENTS_AT_ONCE) {
            let scanned = some.iter().map(|&segment| self.scan_segment(segment, false));
            for scanned in join_all(scanned).await {
                blank.extend(scanned.is_blank.then_some(scanned.segment));
                candidates.take(scanned);
            }
        }
        // Behind the checkpoint of a store that was closed, no segment was begun. Where one was,
        // there may be more, also if the only record of the first one is damaged.
        if blank.len() < segments.len() {
            for segment in self.next_in_use(blank) {
                candidates.take(self.scan_segment(segment, true).await);
            }
        }
        candidates.restore(|header| self.is_behind_checkpoint(header));
        candidates
    }

    /// Whether a record is not in the checkpoint, and lies where such records do.
    fn is_behind_checkpoint(&self, header: &RecordHeader) -> bool {
        let state = self.state.borrow();
        let Identity { address, generation, .. } = header.identity;
        let known = match header.kind {
            Kind::User => state.applied.0,
            Kind::Moved => state.moved_sequence,
        };
        header.sequence > known
            && state.space.is_in_use(address, header.record_blocks())
            && state.space.generation(state.space.locate(address).0) == generation
    }

    /// The first of these segments, in the order of their use, to which records can have been
    /// written since the last flush. A power cut may have torn the first record of one, and the
    /// segment's own header with it, and left others behind it whole.
    fn next_in_use(&self, mut blank: Vec<SegmentId>) -> Vec<SegmentId> {
        let state = self.state.borrow();
        blank.sort_unstable_by_key(|segment| state.space.generation(*segment));
        let segment_bytes = u64::from(state.space.segment_blocks()) * BLOCK_BYTES_U64;
        let count = VOLATILE_PARTS
            .saturating_mul(self.tuning.volatile_bytes)
            .div_ceil(segment_bytes)
            .max(2);
        blank.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        blank
    }

    /// From header to header; `looks_behind` also where nothing shows that there are any.
    async fn scan_segment(&self, segment: SegmentId, looks_behind: bool) -> Scanned {
        let end = u64::from(self.state.borrow().space.segment_blocks());
        let is_checked = self.state.borrow().rules.hold(Rule::RecordIdentity);
        let mut found =
            Scanned { segment, records: Vec::new(), damaged: Vec::new(), is_blank: false };
        let mut block = 1;
        let mut hops = Hops::new(WINDOW_BLOCKS);
        while block < end {
            let expected = self.expected_identity(segment, block);
            let belongs = |header: &RecordHeader| header.identity == expected || !is_checked;
            let Some(header) = self.hop(&mut hops, segment, block, belongs).await else {
                found.is_blank = found.records.is_empty() && !self.is_begun(segment).await;
                if found.is_blank && !looks_behind {
                    break;
                }
                let Some(next) = self.header_behind(segment, block).await else { break };
                found.damaged.push(expected.address);
                (block, hops) = (next, Hops::new(WINDOW_BLOCKS));
                continue;
            };
            block += header.record_blocks();
            if block > end {
                break;
            }
            found.records.push(Candidate { header, address: expected.address });
        }
        found
    }

    /// Whether anything was written to this use of the segment, by its own header.
    async fn is_begun(&self, segment: SegmentId) -> bool {
        let expected = self.expected_identity(segment, 0);
        for slot in self.by_preference(segment) {
            let member = &self.chain.members[slot.drive.index()];
            let Ok(block) = member.read_slot(slot, 0, BLOCK_BYTES).await else { return true };
            let is_it = |header: &SegmentHeader| {
                (header.store, header.generation) == (expected.store, expected.generation)
            };
            if SegmentHeader::decode(&block).is_ok_and(|header| is_it(&header)) {
                return true;
            }
        }
        false
    }

    /// The place of the next header behind a place where none is, on any copy.
    async fn header_behind(&self, segment: SegmentId, at: u64) -> Option<u64> {
        if !self.state.borrow().rules.hold(Rule::LookBehind) {
            return None;
        }
        let end = u64::from(self.state.borrow().space.segment_blocks());
        let mut first = at + 1;
        while first < end {
            let blocks = WINDOW_BLOCKS.min(end - first);
            let mut nearest = None;
            for slot in self.by_preference(segment) {
                let length = usize::try_from(blocks).expect("a window is short") * BLOCK_BYTES;
                let Ok(copy) = self.read_copy(slot, first, length).await else { continue };
                let found =
                    (first..).zip(copy.data.chunks_exact(BLOCK_BYTES)).find(|(block, it)| {
                        let is_it = |header: RecordHeader| {
                            header.identity == self.expected_identity(segment, *block)
                        };
                        RecordHeader::decode(it).is_ok_and(is_it)
                    });
                nearest = nearest.into_iter().chain(found.map(|(block, _)| block)).min();
            }
            if nearest.is_some() {
                return nearest;
            }
            first += blocks;
        }
        None
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
