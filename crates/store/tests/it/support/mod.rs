//! What the tests share: an executor, a drive that forgets, and small stores.

pub(crate) mod drive;
pub(crate) mod executor;
pub(crate) mod mirror;
pub(crate) mod model;

use evenkeel_store::{CreateOptions, Uuid};

/// Options for a small store: segments of 16 blocks.
pub(crate) fn options(drives: u8, copies: u8, volume_blocks: u64) -> CreateOptions {
    CreateOptions {
        store: Uuid([0xaa; 16]),
        drives: (0..drives).map(|drive| Uuid([drive; 16])).collect(),
        copies,
        segment_bytes: 64 << 10,
        over_provisioning_percent: 15,
        volume_bytes: vec![volume_blocks * 4096],
    }
}
