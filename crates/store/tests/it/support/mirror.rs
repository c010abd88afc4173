//! Stores on drives that come and go, one mount after the other.

use std::ops::Range;

use evenkeel_store::{Buffer, Durability, OpenError, OpenOptions, Store, VolumeId, create};

use super::drive::{CrashDrive, Power};
use super::executor::{Spawner, block_on, run};
use super::{options, usual};

pub(crate) const VOLUME: VolumeId = VolumeId(0);

/// New drives of 1,000 blocks with a store whose volume has so many blocks.
pub(crate) fn drives(count: u8, copies: u8, volume_blocks: u64) -> Vec<CrashDrive> {
    let power = Power::new(4);
    let drives: Vec<_> = (0..count).map(|_| CrashDrive::new(1000, &power)).collect();
    block_on(create(&drives, &options(count, copies, volume_blocks))).unwrap();
    drives
}

pub(crate) fn open(
    drives: &[CrashDrive],
    options: OpenOptions,
) -> Result<Store<CrashDrive>, OpenError> {
    block_on(Store::open(drives.to_vec(), options))
}

/// Runs `body` with the store, which is then dropped as by a power cut.
pub(crate) fn with(store: &Store<CrashDrive>, body: impl AsyncFnOnce(&Store<CrashDrive>)) {
    let spawner = Spawner::default();
    spawner.spawn(async {
        store.run().await;
    });
    run(&spawner, body(store), || false);
}

/// Writes blocks and flushes.
pub(crate) async fn write(store: &Store<CrashDrive>, blocks: Range<u64>, byte: u8) {
    for block in blocks {
        let data = Buffer::copy_of(&[byte; 4096]);
        store.write(VOLUME, block * 4096, data, Durability::Volatile).await.unwrap();
    }
    store.flush().await.unwrap();
}

/// Waits until every segment has all its copies, in the last checkpoint as well.
pub(crate) async fn mend(store: &Store<CrashDrive>) {
    while store.status().is_mending || store.status().thin_segments > 0 {
        store.checkpoint().await.unwrap();
    }
}

/// Whether the volume begins with so many blocks of these bytes.
pub(crate) fn is_filled(
    drives: &[CrashDrive],
    options: OpenOptions,
    blocks: usize,
    byte: u8,
) -> bool {
    let store = open(drives, options).unwrap();
    let read = block_on(store.read(VOLUME, 0, blocks * 4096));
    read.is_ok_and(|data| *data == *vec![byte; blocks * 4096])
}

pub(crate) fn lose_cache(drives: &[CrashDrive]) {
    for drive in drives {
        drive.lose_cache(0);
    }
}

pub(crate) fn without_missing() -> OpenOptions {
    OpenOptions { allow_missing: true, ..usual() }
}
