//! The cache of a store: what it saves the drives, and what a bad cache drive cannot do.

use evenkeel_core::time::Nanos;
use evenkeel_store::format::cache::CacheLabel;
use evenkeel_store::{
    Buffer, CacheError, CacheOptions, CacheStatus, Durability, Halt, OpenError, OpenOptions, Store,
    Tuning, Uuid, VolumeId, create,
};

use crate::support::drive::{CrashDrive, Power};
use crate::support::executor::{Spawner, block_on, run};
use crate::support::model::block;
use crate::support::{options, usual};

const VOLUME: VolumeId = VolumeId(0);
const BLOCKS: u64 = 200;

/// A store of two drives, and a cache drive.
struct Rig {
    drives: Vec<CrashDrive>,
    flash: CrashDrive,
}

fn rig() -> Rig {
    rig_of(550)
}

fn rig_of(drive_blocks: u64) -> Rig {
    let power = Power::new(1);
    let drives = vec![CrashDrive::new(drive_blocks, &power), CrashDrive::new(drive_blocks, &power)];
    block_on(create(&drives, &options(2, 1, BLOCKS))).unwrap();
    Rig { drives, flash: CrashDrive::new(200, &power) }
}

fn cache(memory_bytes: usize) -> OpenOptions {
    let endurance_bytes = 3000 * 200 * 4096;
    let cache =
        CacheOptions { memory_bytes, region_blocks: 4, endurance_bytes, ..CacheOptions::default() };
    OpenOptions { tuning: Tuning { cache, ..Tuning::default() }, ..usual() }
}

impl Rig {
    fn open(&self, memory_bytes: usize) -> Store<CrashDrive> {
        block_on(Store::open(self.drives.clone(), cache(memory_bytes))).unwrap()
    }

    fn open_with_flash(&self, memory_bytes: usize) -> Store<CrashDrive> {
        let mut store = self.open(memory_bytes);
        block_on(store.format_cache_drive(&self.flash)).unwrap();
        block_on(store.add_cache_drive(self.flash.clone())).unwrap();
        store
    }

    fn set_drives_gone(&self, is_gone: bool) {
        self.drives.iter().for_each(|drive| drive.is_gone.set(is_gone));
    }
}

fn work(store: &Store<CrashDrive>, body: impl AsyncFnOnce(&Store<CrashDrive>)) {
    let spawner = Spawner::default();
    spawner.spawn(async {
        assert_eq!(store.run().await, Halt::Closed);
    });
    let main = async {
        body(store).await;
        store.close().await.unwrap();
    };
    run(&spawner, main, || false);
}

async fn write(store: &Store<CrashDrive>, at: u64, value: u64) {
    let data = Buffer::copy_of(&block(value));
    store.write(VOLUME, at * 4096, data, Durability::Volatile).await.unwrap();
}

async fn is_read(store: &Store<CrashDrive>, at: u64, value: u64) -> bool {
    match store.read(VOLUME, at * 4096, 4096).await {
        Ok(data) => {
            assert!(*data == *block(value), "block {at} holds something else");
            true
        }
        Err(_) => false,
    }
}

fn status(store: &Store<CrashDrive>) -> CacheStatus {
    store.status().cache.unwrap()
}

#[test]
fn what_was_written_last_is_read_without_any_drive() {
    let rig = rig();
    let store = rig.open(256 << 10);
    work(&store, async |store| {
        for at in 0..20 {
            write(store, at, 1 + at).await;
        }
        rig.set_drives_gone(true);
        let all = store.read(VOLUME, 0, 20 * 4096).await.unwrap();
        assert!((0..20).all(|at| all[at * 4096..(at + 1) * 4096] == *block(1 + at as u64)));
        for at in 0..20 {
            assert!(is_read(store, at, 1 + at).await);
        }
        rig.set_drives_gone(false);
        let counters = status(store).counters;
        assert_eq!(counters.tail.memory + counters.body.memory, 40, "{counters:?}");
        assert_eq!(counters.written, 20);
    });
}

#[test]
fn what_leaves_the_memory_is_read_from_the_cache_drive() {
    let rig = rig();
    let store = rig.open_with_flash(400 << 10);
    work(&store, async |store| {
        for at in 0..120 {
            write(store, at, 1 + at).await;
        }
        rig.set_drives_gone(true);
        let mut found = 0;
        for at in 0..120 {
            found += u32::from(is_read(store, at, 1 + at).await);
        }
        rig.set_drives_gone(false);
        let CacheStatus { counters, wear, .. } = status(store);
        assert!(found > 110, "{found} of 120, {counters:?}");
        assert!(counters.tail.flash + counters.body.flash > 50, "{counters:?}");
        assert_eq!(wear.written_bytes, counters.flash_written * 4096);
        assert_eq!(wear.lifetime_days, None, "nobody said what time it is");
        store.set_time(Nanos(86_400_000_000_000));
        assert!(status(store).wear.lifetime_days.is_some());
    });
}

#[test]
fn what_a_cache_drive_gives_is_believed_only_if_it_is_right() {
    let rig = rig();
    let store = rig.open_with_flash(400 << 10);
    work(&store, async |store| {
        for at in 0..120 {
            write(store, at, 1 + at).await;
        }
        (8..200).for_each(|block| rig.flash.tamper(block, |bytes| bytes[7] ^= 0x10));
        for at in 0..120 {
            assert!(is_read(store, at, 1 + at).await);
        }
        assert!(status(store).counters.flash_failed > 50);
    });
}

/// Writes the upper half of the volume over and over, and reads the lower one in between, until the
/// cache drive has been written over several times.
async fn turn_over(store: &Store<CrashDrive>) {
    for at in 0..BLOCKS {
        write(store, at, 1 + at).await;
    }
    for round in 0..2_000 {
        let at = 100 + round * 7 % 100;
        write(store, at, 1 + at).await;
        assert!(is_read(store, round % 100, 1 + round % 100).await);
    }
}

#[test]
fn what_is_read_on_the_cache_drive_outlives_what_is_written_around_it() {
    let rig = rig();
    let store = rig.open_with_flash(400 << 10);
    work(&store, async |store| {
        turn_over(store).await;
        let CacheStatus { counters, wear, .. } = status(store);
        assert!(counters.flash_kept > 100, "{counters:?}");
        assert_eq!(counters.flash_failed, 0, "what stays is as it was");
        assert!(counters.flash_unworthy > 0, "{counters:?}");
        assert_eq!(wear.written_bytes, counters.flash_written * 4096);
    });
}

#[test]
fn what_cannot_stay_on_the_cache_drive_is_read_from_the_drives() {
    let rig = rig();
    let store = rig.open_with_flash(400 << 10);
    work(&store, async |store| {
        for at in 0..BLOCKS {
            write(store, at, 1 + at).await;
        }
        rig.flash.unreadable.borrow_mut().extend((8..200).step_by(5));
        turn_over(store).await;
        let CacheStatus { counters, flash_bytes, .. } = status(store);
        assert!(counters.flash_failed > 10 && flash_bytes > 0, "{counters:?}");
    });
}

#[test]
fn a_store_goes_on_without_its_cache_drive() {
    let rig = rig();
    let store = rig.open_with_flash(400 << 10);
    work(&store, async |store| {
        for at in 0..60 {
            write(store, at, 1 + at).await;
        }
        rig.flash.is_gone.set(true);
        for at in 60..120 {
            write(store, at, 1 + at).await;
        }
        for at in 0..120 {
            assert!(is_read(store, at, 1 + at).await);
        }
        assert_eq!(status(store).flash_bytes, 0);
    });
}

#[test]
fn the_cleaner_takes_nothing_out_of_the_cache() {
    let rig = rig_of(348);
    let store = rig.open(256 << 10);
    work(&store, async |store| {
        for at in 0..BLOCKS {
            write(store, at, 1 + at).await;
        }
        // Read again and again, so that it stays; then overwritten all around, so that it moves.
        for _ in 0..4 {
            for at in 0..8 {
                assert!(is_read(store, at * 20, 1 + at * 20).await);
            }
        }
        for round in 0..3000 {
            let at = round * 7 % BLOCKS;
            if !at.is_multiple_of(20) {
                write(store, at, 1 + at).await;
            }
        }
        assert!(store.status().counters.moved_blocks > 10, "{:?}", store.status());
        rig.set_drives_gone(true);
        for at in 0..8 {
            assert!(is_read(store, at * 20, 1 + at * 20).await, "block {}", at * 20);
        }
        rig.set_drives_gone(false);
    });
}

#[test]
fn a_drive_that_is_no_cache_drive_of_this_store_is_refused_and_left_alone() {
    let rig = rig();
    let mut store = rig.open(400 << 10);
    let no_label = block_on(store.add_cache_drive(rig.flash.clone()));
    assert!(matches!(no_label, Err(CacheError::NotACache(_))), "{no_label:?}");
    let member = block_on(store.add_cache_drive(rig.drives[0].clone()));
    assert!(matches!(member, Err(CacheError::NotACache(_))), "{member:?}");
    block_on(store.format_cache_drive(&rig.flash)).unwrap();
    let other = vec![CrashDrive::new(400, &Power::new(1))];
    let options = evenkeel_store::CreateOptions { store: Uuid([9; 16]), ..options(1, 1, 50) };
    block_on(create(&other, &options)).unwrap();
    let mut stranger = block_on(Store::open(other, cache(400 << 10))).unwrap();
    let foreign = block_on(stranger.add_cache_drive(rig.flash.clone()));
    assert_eq!(foreign, Err(CacheError::Foreign(Uuid([0xaa; 16]))));
    assert_eq!(block_on(store.add_cache_drive(rig.flash.clone())), Ok(()));
    let small = CrashDrive::new(19, &Power::new(1));
    let too_small = CacheError::TooSmall { needed_bytes: 20 * 4096 };
    assert_eq!(block_on(store.format_cache_drive(&small)), Err(too_small));
}

#[test]
fn a_cache_that_does_not_fit_its_memory_is_refused_with_what_would_do() {
    let rig = rig();
    let refused = block_on(Store::open(rig.drives.clone(), cache(8000)));
    let Some(OpenError::Cache(CacheError::Memory { needed_bytes })) = refused.err() else {
        panic!("8,000 bytes do not suffice")
    };
    assert!(block_on(Store::open(rig.drives.clone(), cache(needed_bytes))).is_ok());
}

#[test]
fn the_wear_of_a_cache_drive_is_never_forgotten() {
    let rig = rig();
    let mut before = 0;
    for _ in 0..3 {
        let store = rig.open_with_flash(400 << 10);
        assert!(status(&store).wear.written_in_all_bytes >= before, "formatting does not forget");
        work(&store, async |store| {
            for at in 0..120 {
                write(store, at, 1 + at).await;
            }
        });
        rig.flash.lose_cache(0);
        before = status(&store).wear.written_in_all_bytes;
    }
    let labels = rig.flash.blocks_with(b"\xe9kCA");
    assert_eq!(labels, [0, 1]);
    let label = |block: u64| {
        let bytes = block_on(evenkeel_store::Drive::read(&rig.flash, block * 4096, 4096)).unwrap();
        CacheLabel::decode(&bytes).unwrap()
    };
    let newest = std::cmp::max_by_key(label(0), label(1), |label| label.sequence);
    assert!(newest.written_bytes_max >= before && before > 3 * 200_000, "{newest:?} {before}");
}
