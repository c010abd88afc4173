//! A store without trouble: what is written is read, whatever the sizes and however full.

use std::pin::pin;
use std::task::Poll;

use evenkeel_core::prng::Prng;
use evenkeel_store::{
    Buffer, Durability, Halt, Store, StoreError, VolumeId, create, possible_bytes,
};

use crate::support::drive::{CrashDrive, Power};
use crate::support::executor::{Spawner, block_on, run};
use crate::support::{mirror, options, usual};

const VOLUME: VolumeId = VolumeId(0);

/// Formats drives, and runs `body` with the open store.
pub(crate) fn with_store(
    drives: u8,
    copies: u8,
    volume_blocks: u64,
    body: impl AsyncFnOnce(&Store<CrashDrive>),
) -> Vec<CrashDrive> {
    let power = Power::new(1);
    let drives: Vec<_> = (0..drives).map(|_| CrashDrive::new(400, &power)).collect();
    let count = u8::try_from(drives.len()).unwrap();
    block_on(create(&drives, &options(count, copies, volume_blocks))).unwrap();
    reopen(&drives, body);
    drives
}

pub(crate) fn reopen(drives: &[CrashDrive], body: impl AsyncFnOnce(&Store<CrashDrive>)) {
    let store = block_on(Store::open(drives.to_vec(), usual())).unwrap();
    let spawner = Spawner::default();
    spawner.spawn(async {
        assert_eq!(store.run().await, Halt::Closed);
    });
    let main = async {
        body(&store).await;
        store.close().await.unwrap();
    };
    run(&spawner, main, || false);
}

async fn read(store: &Store<CrashDrive>, offset: u64, length: usize) -> Vec<u8> {
    store.read(VOLUME, offset, length).await.unwrap().to_vec()
}

#[test]
fn what_was_never_written_reads_as_zeroes() {
    with_store(1, 1, 50, async |store| {
        assert_eq!(read(store, 0, 50 * 4096).await, vec![0; 50 * 4096]);
        assert_eq!(read(store, 5000, 100).await, [0; 100]);
    });
}

#[test]
fn bytes_written_at_any_offset_are_read_back_also_by_the_next_mount() {
    let mut prng = Prng::new(2);
    let mut expected = vec![0; 60 * 4096];
    let drives = with_store(2, 2, 60, async |_| {});
    for _ in 0..4 {
        let changes: Vec<(usize, usize, u8)> = (0..60)
            .map(|_| {
                let offset = usize::try_from(prng.below(60 * 4096 - 1)).unwrap();
                let longest = [5, 4096, 100_000][usize::try_from(prng.below(3)).unwrap()];
                let length = 1 + usize::try_from(prng.below(longest)).unwrap();
                let byte = u8::try_from(prng.below(256)).unwrap();
                (offset, length.min(60 * 4096 - offset), byte)
            })
            .collect();
        for &(offset, length, byte) in &changes {
            // Byte 0 stands for zeroing.
            expected[offset..offset + length].fill(if byte < 60 { 0 } else { byte });
        }
        let expected = &expected;
        reopen(&drives, async |store| {
            for &(offset, length, byte) in &changes {
                let at = offset as u64;
                if byte < 60 {
                    let zeroed =
                        store.write_zeroes(VOLUME, at, length as u64, Durability::Volatile);
                    zeroed.await.unwrap();
                } else {
                    let data = Buffer::copy_of(&vec![byte; length]);
                    store.write(VOLUME, at, data, Durability::Volatile).await.unwrap();
                }
            }
            assert!(read(store, 0, expected.len()).await == *expected);
        });
        reopen(&drives, async |store| assert!(read(store, 0, expected.len()).await == *expected));
    }
}

#[test]
fn requests_outside_a_volume_are_refused() {
    with_store(1, 1, 50, async |store| {
        let outside = StoreError::OutOfRange { size_bytes: 50 * 4096 };
        assert_eq!(store.read(VOLUME, 49 * 4096, 4097).await, Err(outside));
        let write = store.write(VOLUME, u64::MAX, Buffer::zeroed(2), Durability::Volatile);
        assert_eq!(write.await, Err(outside));
        let unknown = VolumeId(1);
        assert_eq!(store.read(unknown, 0, 1).await, Err(StoreError::UnknownVolume(unknown)));
    });
}

/// The drives are promised to the last byte, filled, and overwritten ten times.
fn never_out_of_space(drives: u8, copies: u8) {
    let sizes = vec![400 * 4096; usize::from(drives)];
    let blocks = possible_bytes(&sizes, &options(drives, copies, 1)).unwrap() / 4096;
    with_store(drives, copies, blocks, async |store| {
        let mut prng = Prng::new(3);
        let mut expected = vec![0; usize::try_from(blocks).unwrap()];
        for round in 0..11 * blocks {
            let block = if round < blocks { round } else { prng.below(blocks) };
            let value = u8::try_from(1 + prng.below(255)).unwrap();
            expected[usize::try_from(block).unwrap()] = value;
            let data = Buffer::copy_of(&[value; 4096]);
            store.write(VOLUME, block * 4096, data, Durability::Volatile).await.unwrap();
        }
        for (block, &value) in (0..).zip(&expected) {
            assert_eq!(read(store, block * 4096, 4096).await, [value; 4096]);
        }
        assert!(store.status().counters.moved_blocks > 0, "so much cannot go without cleaning");
    });
}

#[test]
fn a_full_volume_can_be_overwritten_for_ever_on_one_drive() {
    never_out_of_space(1, 1);
}

#[test]
fn a_full_volume_can_be_overwritten_for_ever_on_a_chain() {
    never_out_of_space(3, 1);
}

#[test]
fn a_full_volume_can_be_overwritten_for_ever_on_mirrors() {
    never_out_of_space(3, 2);
}

#[test]
fn a_rotten_block_is_read_from_the_mirror_and_written_anew() {
    let data = Buffer::copy_of(&[0x77; 3 * 4096]);
    let drives = with_store(2, 2, 50, async |store| {
        store.write(VOLUME, 0, data.clone(), Durability::Durable).await.unwrap();
    });
    for block in drives[0].blocks_with(&[0x77; 100]) {
        drives[0].tamper(block, |bytes| bytes[4000] ^= 1);
    }
    reopen(&drives, async |store| {
        assert_eq!(read(store, 0, 3 * 4096).await, *data);
        while store.status().is_mending {
            store.checkpoint().await.unwrap();
        }
    });
    for block in drives[1].blocks_with(&[0x77; 100]).into_iter().take(3) {
        drives[1].tamper(block, |bytes| bytes.fill(0));
    }
    reopen(&drives, async |store| assert_eq!(read(store, 0, 3 * 4096).await, *data));
}

/// Ready after so many polls.
fn polls(count: u32) -> impl Future<Output = ()> {
    let mut left = count;
    std::future::poll_fn(move |context| {
        context.waker().wake_by_ref();
        left = left.saturating_sub(1);
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
}

/// Whoever runs a store may stop amid a checkpoint, and go on: all is there, then and later.
#[test]
fn a_store_that_was_left_amid_a_checkpoint_goes_on() {
    for count in 1..80 {
        for rounds in 1..4 {
            let drives = mirror::drives(1, 1, 24);
            let store = mirror::open(&drives, usual()).unwrap();
            for round in 1..=rounds {
                mirror::with(&store, async |store| {
                    mirror::write(store, 0..24, round).await;
                    let (mut checkpoint, mut polls) =
                        (pin!(store.checkpoint()), pin!(polls(count)));
                    let mut is_made = false;
                    std::future::poll_fn(|context| {
                        is_made = is_made || checkpoint.as_mut().poll(context).is_ready();
                        if is_made { Poll::Ready(()) } else { polls.as_mut().poll(context) }
                    })
                    .await;
                });
            }
            mirror::with(&store, async |store| {
                mirror::write(store, 0..24, 9).await;
                store.checkpoint().await.unwrap();
                mirror::write(store, 0..12, 9).await;
            });
            drop(store);
            mirror::lose_cache(&drives);
            assert!(mirror::is_filled(&drives, usual(), 24, 9), "{count} polls, {rounds} rounds");
        }
    }
}
