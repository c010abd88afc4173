//! Zones held against what the store has in them, without reading any of it: a drive tells where
//! its write pointers are.
//!
//! ```text
//!   zone   | written .............. | nothing is there      |
//!                                   ^ pointer     ^ a block in use: not on this copy
//! ```
//!
//! A pointer that lies too low has been moved behind the store's back, as by a tool that resets
//! zones; a zone that cannot be written or read any more the drive has given up itself.

use std::collections::BTreeMap;

use super::CheckReport;
use super::finding::{Finding, Place, Severity};
use super::read_only::ReadOnly;
use crate::drive::Drive;
use crate::drive::zone::ZoneState;
use crate::store::Store;
use crate::units::{BLOCK_BYTES_U64, SegmentId, Slot};

/// Looks at the zones of all segments in use.
pub(super) fn check_zones<D: Drive>(report: &mut CheckReport, store: &Store<ReadOnly<D>>) {
    if store.chain.members.iter().all(|member| !member.has_zones()) {
        return;
    }
    for (segment, used_blocks) in used_blocks(store) {
        let slots = store.by_preference(segment);
        let lacking: Vec<(Slot, Lack)> = slots
            .iter()
            .filter_map(|&slot| Some((slot, lack(store, slot, used_blocks)?)))
            .collect();
        let is_lost = lacking.len() == slots.len();
        for (slot, lack) in lacking {
            report.note(Finding {
                severity: if is_lost { Severity::Error } else { Severity::Warning },
                place: Place::Block { segment, slot, block: lack.first_block() },
                what: lack.to_string(),
                remedy: if is_lost {
                    "restore what lay there from a backup; replace the drive if it gives up zones"
                } else {
                    "scrub the store, which writes anew what is bad on one copy; replace the drive \
                     if it gives up zones"
                },
            });
        }
    }
}

/// Of each segment, up to which block it is in use.
fn used_blocks<D: Drive>(store: &Store<ReadOnly<D>>) -> BTreeMap<SegmentId, u64> {
    let state = store.state.borrow();
    let mut used = BTreeMap::new();
    for (_, _, entry) in state.map.entries() {
        let (segment, block) = state.space.locate(entry.address);
        let end = used.entry(segment).or_insert(0);
        *end = (block + 1).max(*end);
    }
    used
}

/// What a zone does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    All,
    From { block: u64, used_blocks: u64 },
}

fn lack<D: Drive>(store: &Store<ReadOnly<D>>, slot: Slot, used_blocks: u64) -> Option<Lack> {
    match store.chain.members[slot.drive.index()].zone_state(slot)? {
        ZoneState::Conventional => None,
        ZoneState::Unusable => Some(Lack::All),
        ZoneState::Sequential { written_bytes } => {
            let block = written_bytes / BLOCK_BYTES_U64;
            (block < used_blocks).then_some(Lack::From { block, used_blocks })
        }
    }
}

impl Lack {
    fn first_block(self) -> u64 {
        match self {
            Self::All => 0,
            Self::From { block, .. } => block,
        }
    }
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => write!(f, "the drive has given up the zone of this copy"),
            Self::From { block, used_blocks } => write!(
                f,
                "the zone of this copy is written up to block {block}, and in use up to block \
                 {used_blocks}"
            ),
        }
    }
}
