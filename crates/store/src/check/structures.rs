//! The structures of a store, each held against the others.

use std::collections::BTreeMap;

use super::CheckReport;
use super::finding::{Finding, Place, Severity};
use super::read_only::ReadOnly;
use crate::drive::zone::DriveShape;
use crate::drive::{Drive, DriveError};
use crate::format::Defect;
use crate::format::checkpoint::{CHUNK_BYTES_MAX, ChunkIdentity, decode_chunk};
use crate::format::layout::Layout;
use crate::format::superblock::{DriveState, Superblock};
use crate::store::Store;
use crate::units::{BLOCK_BYTES, BLOCK_BYTES_U64, SegmentId};

/// Looks at all four places of a drive.
pub(super) async fn check_superblocks<D: Drive>(
    report: &mut CheckReport,
    position: usize,
    drive: &D,
) {
    let Some(layout) = Layout::of_superblocks(DriveShape::of(drive)) else { return };
    let mut bad = Vec::new();
    let mut is_member = false;
    for slot in 0..2 {
        for (is_at_end, offset) in
            [false, true].into_iter().zip(layout.superblock_offsets_bytes(slot))
        {
            let what = match drive.read(offset, BLOCK_BYTES).await {
                Ok(block) => match Superblock::decode(&block) {
                    Ok(_) => {
                        is_member = true;
                        continue;
                    }
                    Err(defect) => format!("no superblock: {defect}"),
                },
                Err(DriveError::Gone) => return,
                Err(error) => format!("the superblock cannot be read: {error}"),
            };
            let place = Place::Superblock { position, slot, is_at_end };
            let remedy = "open the store twice, each time of which writes one slot anew";
            bad.push(Finding { severity: Severity::Note, place, what, remedy });
        }
    }
    // A drive without any is refused as a whole.
    bad.into_iter().filter(|_| is_member).for_each(|finding| report.note(finding));
}

/// Names drives that are missing or stale.
pub(super) fn check_drives<D: Drive>(report: &mut CheckReport, store: &Store<ReadOnly<D>>) {
    let rolled_back = store.rolled_back();
    for member in &store.chain.members {
        let (what, remedy) = match (member.is_present(), member.state.get()) {
            (true, _) if rolled_back.contains(&member.index) => (
                "the drive is an older image of itself".to_owned(),
                "open the store, which copies what the drive lacks",
            ),
            (true, DriveState::InSync) => continue,
            (true, DriveState::Stale { since }) => (
                format!("the drive was away; it may lack what was written since record {since}"),
                "open the store, which copies what the drive lacks",
            ),
            (false, _) => {
                ("the drive is missing".to_owned(), "bring it, or replace it by a new one")
            }
        };
        let place = Place::Drive(member.index);
        report.note(Finding { severity: Severity::Warning, place, what, remedy });
    }
}

/// Counts headers of records that are damaged on all copies.
pub(super) fn check_headers<D: Drive>(report: &mut CheckReport, store: &Store<ReadOnly<D>>) {
    let restored = store.restored_headers();
    if restored > 0 {
        report.note(Finding {
            severity: Severity::Note,
            place: Place::Store,
            what: format!(
                "headers of records that are damaged, and repeated by the next: {restored}"
            ),
            remedy: "open the store, which needs them no more then; see to the drive",
        });
    }
}

/// Looks whether each drive has the newest checkpoint whole.
pub(super) async fn check_checkpoint<D: Drive>(
    report: &mut CheckReport,
    store: &Store<ReadOnly<D>>,
) {
    let (place, name, mount) = {
        let state = store.state.borrow();
        (state.superblock.checkpoint, state.superblock.store, state.superblock.mount)
    };
    let mut at_block = 0;
    for index in 0..place.chunks {
        let expected = ChunkIdentity { store: name, mount, checkpoint: place.number, index };
        let rest_bytes = place.blocks.saturating_sub(at_block) * BLOCK_BYTES_U64;
        let length = usize::try_from(rest_bytes).unwrap_or(usize::MAX).min(CHUNK_BYTES_MAX);
        let mut chunk_blocks = 0;
        for member in store.chain.active() {
            for offset in member.layout.chunk_offsets_bytes(&place, at_block) {
                let what = match member.read(offset, length).await {
                    Ok(bytes) => match decode_chunk(&bytes, expected) {
                        Ok((_, length)) => {
                            chunk_blocks = (length / BLOCK_BYTES) as u64;
                            continue;
                        }
                        Err(defect) => damaged(defect),
                    },
                    Err(error) => format!("it cannot be read: {error}"),
                };
                report.note(Finding {
                    severity: Severity::Note,
                    place: Place::Chunk { drive: member.index, index },
                    what,
                    remedy: "open the store, which makes a new checkpoint on every drive",
                });
            }
        }
        at_block += chunk_blocks;
    }
}

fn damaged(defect: Defect) -> String {
    format!("it is damaged ({defect}); another copy is whole")
}

/// Counts segments that lack a copy.
pub(super) fn check_table<D: Drive>(report: &mut CheckReport, store: &Store<ReadOnly<D>>) {
    let thin = store.state.borrow().space.thin_segments();
    if thin > 0 {
        report.note(Finding {
            severity: Severity::Warning,
            place: Place::Store,
            what: format!("{thin} segments have fewer copies than they should"),
            remedy: "open the store with all its drives, which copies them; replace what is gone",
        });
    }
}

/// Holds the map against itself and against the counts of live blocks.
pub(super) fn check_map<D: Drive>(report: &mut CheckReport, store: &Store<ReadOnly<D>>) {
    let state = store.state.borrow();
    let blocks = u64::from(state.space.segment_blocks());
    let words = usize::try_from(blocks.div_ceil(64)).expect("a segment is bounded");
    let mut used: BTreeMap<SegmentId, Vec<u64>> = BTreeMap::new();
    for (volume, block, entry) in state.map.entries() {
        let (segment, at) = state.space.locate(entry.address);
        let bits = used.entry(segment).or_insert_with(|| vec![0; words]);
        let word = usize::try_from(at / 64).expect("within the segment");
        let is_taken = bits[word] & (1 << (at % 64)) != 0;
        bits[word] |= 1 << (at % 64);
        if is_taken {
            report.note(Finding {
                severity: Severity::Error,
                place: Place::Segment(segment),
                what: format!(
                    "block {block} of volume {} is where another block is, at {at}",
                    volume.0
                ),
                remedy: "restore the volume from a backup, and report this with a dump",
            });
        }
    }
    for (segment, bits) in used {
        let mapped: u32 = bits.iter().map(|word| word.count_ones()).sum();
        let live = state.space.live(segment);
        if mapped != live {
            report.note(Finding {
                severity: Severity::Error,
                place: Place::Segment(segment),
                what: format!("{mapped} blocks are mapped to it, and {live} are counted as alive"),
                remedy: "do not write to the store, and report this with a dump",
            });
        }
    }
}
