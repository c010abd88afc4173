//! Volumes and snapshots come and go while the store runs, and nobody loses or gains by another.

use std::collections::BTreeMap;

use evenkeel_core::prng::Prng;
use evenkeel_store::{
    Buffer, Durability, Provision, Shrink, Store, StoreError, Volume, VolumeId, VolumeKind,
    possible_bytes,
};

use crate::everyday::{reopen, with_store};
use crate::support::drive::CrashDrive;
use crate::support::options;
use crate::together::all;

const VOLUME: VolumeId = VolumeId(0);
const BLOCK: u64 = 4096;

async fn fill(store: &Store<CrashDrive>, volume: VolumeId, block: u64, blocks: u64, value: u8) {
    let data = Buffer::copy_of(&vec![value; usize::try_from(blocks * BLOCK).unwrap()]);
    store.write(volume, block * BLOCK, data, Durability::Volatile).await.unwrap();
}

/// The first byte of each block.
async fn values(store: &Store<CrashDrive>, volume: VolumeId, blocks: u64) -> Vec<u8> {
    let length = usize::try_from(blocks * BLOCK).unwrap();
    let bytes = store.read(volume, 0, length).await.unwrap();
    bytes.chunks_exact(4096).map(|block| block[0]).collect()
}

fn volume(store: &Store<CrashDrive>, id: VolumeId) -> Volume {
    store.volumes().into_iter().find(|volume| volume.id == id).unwrap()
}

/// Waits until nothing of what was deleted is left.
async fn settle(store: &Store<CrashDrive>) {
    for _ in 0..10 {
        store.checkpoint().await.unwrap();
    }
}

#[test]
fn a_snapshot_stays_as_it_was_and_a_clone_goes_its_own_way() {
    let (mut snapshot, mut clone) = (VOLUME, VOLUME);
    let drives = with_store(2, 2, 20, async |store| {
        fill(store, VOLUME, 0, 4, 1).await;
        snapshot = store.snapshot(VOLUME).await.unwrap();
        fill(store, VOLUME, 1, 1, 2).await;
        clone = store.clone_volume(snapshot, Provision::Thin).await.unwrap();
        fill(store, clone, 2, 1, 3).await;
    });
    for _ in 0..2 {
        reopen(&drives, async |store| {
            assert_eq!(values(store, VOLUME, 4).await, [1, 2, 1, 1]);
            assert_eq!(values(store, snapshot, 4).await, [1, 1, 1, 1]);
            assert_eq!(values(store, clone, 4).await, [1, 1, 3, 1]);
        });
    }
    reopen(&drives, async |store| {
        let write = store.write(snapshot, 0, Buffer::zeroed(4096), Durability::Volatile).await;
        assert_eq!(write, Err(StoreError::ReadOnly(snapshot)));
        let origins: Vec<_> = store.volumes().iter().map(|it| (it.kind, it.origin)).collect();
        let expected = [
            (VolumeKind::Provisioned, None),
            (VolumeKind::Snapshot, Some(VOLUME)),
            (VolumeKind::Thin, Some(snapshot)),
        ];
        assert_eq!(origins, expected);
    });
}

#[test]
fn what_a_volume_takes_is_its_own_or_shared() {
    with_store(1, 1, 20, async |store| {
        fill(store, VOLUME, 0, 6, 1).await;
        let takes = |id| {
            let volume = volume(store, id);
            (volume.mapped_bytes / BLOCK, volume.own_bytes / BLOCK)
        };
        assert_eq!(takes(VOLUME), (6, 6));
        let first = store.snapshot(VOLUME).await.unwrap();
        assert_eq!((takes(VOLUME), takes(first)), ((6, 0), (6, 0)));
        fill(store, VOLUME, 0, 2, 2).await;
        assert_eq!((takes(VOLUME), takes(first)), ((6, 2), (6, 2)));
        let second = store.snapshot(VOLUME).await.unwrap();
        store.write_zeroes(VOLUME, 0, 3 * BLOCK, Durability::Volatile).await.unwrap();
        assert_eq!((takes(VOLUME), takes(second), takes(first)), ((3, 0), (6, 2), (6, 2)));
        store.delete_volume(first).await.unwrap();
        settle(store).await;
        assert_eq!((takes(VOLUME), takes(second)), ((3, 0), (6, 3)));
        store.delete_volume(second).await.unwrap();
        settle(store).await;
        assert_eq!(takes(VOLUME), (3, 3));
        assert_eq!(values(store, VOLUME, 6).await, [0, 0, 0, 1, 1, 1]);
    });
}

#[test]
fn volumes_are_made_resized_and_deleted_and_their_numbers_never_come_again() {
    let mut made = VOLUME;
    let drives = with_store(1, 1, 20, async |store| {
        made = store.create_volume(10 * BLOCK, Provision::Full).await.unwrap();
        fill(store, made, 0, 10, 7).await;
        let outside = store.read(made, 10 * BLOCK, 1).await;
        assert_eq!(outside, Err(StoreError::OutOfRange { size_bytes: 10 * BLOCK }));
        store.resize_volume(made, 12 * BLOCK, Shrink::Refuse).await.unwrap();
        let shrunk = store.resize_volume(made, 5 * BLOCK, Shrink::Refuse).await;
        assert_eq!(shrunk, Err(StoreError::WouldShrink { size_bytes: 12 * BLOCK }));
        store.resize_volume(made, 5 * BLOCK, Shrink::Discard).await.unwrap();
        store.resize_volume(made, 8 * BLOCK, Shrink::Refuse).await.unwrap();
        assert_eq!(values(store, made, 8).await, [7, 7, 7, 7, 7, 0, 0, 0]);
        assert_eq!(store.create_volume(100, Provision::Full).await, Err(StoreError::VolumeSize));
    });
    reopen(&drives, async |store| {
        assert_eq!(values(store, made, 8).await, [7, 7, 7, 7, 7, 0, 0, 0]);
        store.delete_volume(made).await.unwrap();
        assert_eq!(store.read(made, 0, 1).await, Err(StoreError::UnknownVolume(made)));
        assert_eq!(store.delete_volume(made).await, Err(StoreError::UnknownVolume(made)));
    });
    reopen(&drives, async |store| {
        assert_eq!(store.volumes().len(), 1);
        let next = store.create_volume(BLOCK, Provision::Thin).await.unwrap();
        assert!(next > made);
    });
}

#[test]
fn a_volume_is_rolled_back_to_any_snapshot_of_its_family() {
    let mut snapshot = VOLUME;
    let drives = with_store(1, 1, 20, async |store| {
        fill(store, VOLUME, 0, 3, 1).await;
        snapshot = store.snapshot(VOLUME).await.unwrap();
        fill(store, VOLUME, 0, 8, 2).await;
        store.roll_back(VOLUME, snapshot).await.unwrap();
        fill(store, VOLUME, 2, 1, 3).await;
        let other = store.create_volume(BLOCK, Provision::Thin).await.unwrap();
        let strange = store.roll_back(other, snapshot).await;
        assert_eq!(strange, Err(StoreError::NotASnapshot(snapshot)));
        let no_snapshot = store.roll_back(VOLUME, other).await;
        assert_eq!(no_snapshot, Err(StoreError::NotASnapshot(other)));
        let itself = store.roll_back(VOLUME, VOLUME).await;
        assert_eq!(itself, Err(StoreError::NotASnapshot(VOLUME)));
    });
    reopen(&drives, async |store| {
        assert_eq!(values(store, VOLUME, 4).await, [1, 1, 3, 0]);
        assert_eq!(values(store, snapshot, 4).await, [1, 1, 1, 0]);
    });
}

/// Blocks that one drive of these tests can promise.
fn possible() -> u64 {
    possible_bytes(&[400 * BLOCK], &options(1, 1, 1)).unwrap() / BLOCK
}

#[test]
fn a_full_thin_volume_fails_clearly_and_leaves_the_provisioned_one_its_room() {
    let blocks = possible();
    with_store(1, 1, blocks - 10, async |store| {
        let thin = store.create_volume(1 << 40, Provision::Thin).await.unwrap();
        for block in 0..10 {
            fill(store, thin, block * 3, 1, 1).await;
        }
        let write = |block: u64| {
            store.write(thin, block * BLOCK, Buffer::zeroed(4096), Durability::Volatile)
        };
        let full = StoreError::NoRoom { wanted_bytes: BLOCK, free_bytes: 0 };
        assert_eq!(write(1).await, Err(full));
        assert_eq!(store.status().free_bytes, 0);
        assert_eq!(write(0).await, Ok(()), "what it has can be written over");
        for round in 0..3 {
            for block in 0..blocks - 10 {
                fill(store, VOLUME, block, 1, round).await;
            }
            assert_eq!(write(1).await, Err(full));
        }
        store.write_zeroes(thin, 0, 1 << 39, Durability::Volatile).await.unwrap();
        assert_eq!(write(1).await, Ok(()), "what was discarded is free again");
    });
}

#[test]
fn a_block_that_was_given_back_has_room_for_all_who_replace_it_at_once() {
    with_store(1, 1, possible() - 1, async |store| {
        let thin = store.create_volume(BLOCK, Provision::Thin).await.unwrap();
        fill(store, thin, 0, 1, 1).await;
        assert_eq!(store.status().free_bytes, 0);
        let asked = (0..4).map(async |number| {
            let done = if number == 0 {
                store.write_zeroes(thin, 0, BLOCK, Durability::Volatile).await
            } else {
                store.write(thin, 0, Buffer::zeroed(4096), Durability::Volatile).await
            };
            assert_eq!(done, Ok(()));
        });
        all(asked).await;
    });
}

#[test]
fn a_snapshot_is_refused_that_would_take_the_room_of_its_volume() {
    let blocks = possible();
    with_store(1, 1, blocks / 2 + 5, async |store| {
        for block in 0..blocks / 2 + 5 {
            fill(store, VOLUME, block, 1, 1).await;
        }
        let refused = store.snapshot(VOLUME).await;
        assert!(matches!(refused, Err(StoreError::NoRoom { .. })), "{refused:?}");
        store.write_zeroes(VOLUME, 0, 20 * BLOCK, Durability::Volatile).await.unwrap();
        let snapshot = store.snapshot(VOLUME).await.unwrap();
        for round in 2..6 {
            for block in 0..blocks / 2 + 5 {
                fill(store, VOLUME, block, 1, round).await;
            }
        }
        let refused = store.create_volume(20 * BLOCK, Provision::Full).await;
        assert!(matches!(refused, Err(StoreError::NoRoom { .. })), "{refused:?}");
        store.delete_volume(snapshot).await.unwrap();
        settle(store).await;
        store.create_volume(20 * BLOCK, Provision::Full).await.unwrap();
    });
}

#[test]
fn the_map_of_snapshots_has_a_bound_as_well() {
    with_store(1, 1, 4, async |store| {
        let mut snapshots = 0;
        let error = loop {
            fill(store, VOLUME, 0, 1, snapshots).await;
            match store.snapshot(VOLUME).await {
                Ok(_) => snapshots += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error, StoreError::MapFull);
        assert!(snapshots > 4);
        fill(store, VOLUME, 0, 4, 9).await;
        store.checkpoint().await.unwrap();
    });
}

/// Overwrites, snapshots, clones and deletes for long enough that all of it is cleaned many times.
#[test]
fn many_clones_survive_cleaning_for_ever() {
    for (drives, copies, seed) in [(1, 1, 1), (3, 1, 2), (2, 2, 3), (3, 2, 4)] {
        let sizes = vec![400 * BLOCK; usize::from(drives)];
        let blocks = possible_bytes(&sizes, &options(drives, copies, 1)).unwrap() / BLOCK * 2 / 5;
        let mut expected: BTreeMap<VolumeId, Vec<u8>> = BTreeMap::new();
        expected.insert(VOLUME, vec![0; usize::try_from(blocks).unwrap()]);
        let mut prng = Prng::new(seed);
        let mut cleaned_segments = 0;
        let drives = with_store(drives, copies, blocks, async |_| {});
        for _ in 0..4 {
            let expected = &mut expected;
            let (prng, cleaned_segments) = (&mut prng, &mut cleaned_segments);
            reopen(&drives, async |store| {
                for _ in 0..1000 {
                    act(store, prng, expected, blocks).await;
                }
                for (&id, values_of) in &*expected {
                    assert_eq!(values(store, id, blocks).await, *values_of, "{id:?}");
                }
                *cleaned_segments += store.status().counters.cleaned_segments;
            });
        }
        assert!(cleaned_segments > 20, "{cleaned_segments} segments cleaned");
    }
}

async fn act(
    store: &Store<CrashDrive>,
    prng: &mut Prng,
    expected: &mut BTreeMap<VolumeId, Vec<u8>>,
    blocks: u64,
) {
    let known = store.volumes();
    let pick = |prng: &mut Prng, is_snapshot| {
        let fits: Vec<VolumeId> = known
            .iter()
            .filter(|volume| (volume.kind == VolumeKind::Snapshot) == is_snapshot)
            .map(|volume| volume.id)
            .collect();
        let index = usize::try_from(prng.below(fits.len().max(1) as u64)).unwrap();
        fits.get(index).copied()
    };
    match prng.below(20) {
        0 if known.len() < 8 => {
            let of = pick(prng, false).unwrap();
            match store.snapshot(of).await {
                Ok(id) => drop(expected.insert(id, expected[&of].clone())),
                Err(StoreError::NoRoom { .. } | StoreError::MapFull) => {}
                Err(error) => panic!("{error}"),
            }
        }
        1 if known.len() < 8 => {
            let Some(of) = pick(prng, true) else { return };
            match store.clone_volume(of, Provision::Thin).await {
                Ok(id) => drop(expected.insert(id, expected[&of].clone())),
                Err(StoreError::MapFull) => {}
                Err(error) => panic!("{error}"),
            }
        }
        2 => {
            let is_snapshot = prng.below(2) == 0;
            let Some(id) = pick(prng, is_snapshot) else { return };
            if id != VOLUME {
                store.delete_volume(id).await.unwrap();
                expected.remove(&id);
            }
        }
        _ => {
            let id = pick(prng, false).unwrap();
            let (block, value) = (prng.below(blocks), u8::try_from(prng.below(256)).unwrap());
            let data = Buffer::copy_of(&[value; 4096]);
            match store.write(id, block * BLOCK, data, Durability::Volatile).await {
                Ok(()) => {
                    expected.get_mut(&id).unwrap()[usize::try_from(block).unwrap()] = value;
                }
                Err(StoreError::NoRoom { .. } | StoreError::MapFull) => assert_ne!(id, VOLUME),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
