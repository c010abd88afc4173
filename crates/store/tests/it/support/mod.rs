//! What the tests share: an executor, a drive that forgets, and small stores.

pub(crate) mod drive;
pub(crate) mod executor;
pub(crate) mod mirror;
pub(crate) mod model;

use std::cell::Cell;

use evenkeel_store::{CreateOptions, Nonce, OpenOptions, Uuid};

thread_local! {
    static MOUNTS: Cell<u64> = const { Cell::new(0) };
}

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

/// Options for a mount as usual, with a nonce of its own.
pub(crate) fn usual() -> OpenOptions {
    MOUNTS.set(MOUNTS.get() + 1);
    OpenOptions::new(Nonce(MOUNTS.get()))
}
