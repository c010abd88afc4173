//! A drive is replaced, or was away: what takes its place, what is refused, and how much is copied.

use evenkeel_store::{
    DriveIndex, OpenError, Replacement, ReplacementError, Store, Uuid, read_superblock,
};

use crate::support::drive::CrashDrive;
use crate::support::executor::block_on;
use crate::support::mirror::{
    drives, is_filled, lose_cache, mend, open, with, without_missing, write,
};
use crate::support::usual;

const BLOCKS: u64 = 200;

/// A store of so many drives, filled with ones.
fn filled(count: u8, copies: u8) -> Vec<CrashDrive> {
    let drives = drives(count, copies, BLOCKS);
    with(&open(&drives, usual()).unwrap(), async |store| {
        write(store, 0..BLOCKS, 1).await;
        store.close().await.unwrap();
    });
    drives
}

fn blank(drives: &[CrashDrive], blocks: u64) -> CrashDrive {
    CrashDrive::new(blocks, &drives[0].power)
}

fn replace(
    rest: &[&CrashDrive],
    lost: u8,
    drive: &CrashDrive,
) -> Result<Store<CrashDrive>, OpenError> {
    let rest = rest.iter().copied().cloned().collect();
    let lost = DriveIndex(lost);
    let replacement = Replacement { lost, drive: drive.clone(), name: Uuid([0xee; 16]) };
    block_on(Store::open_replacing(rest, replacement, usual()))
}

#[test]
fn a_new_drive_gets_a_copy_of_everything_and_the_old_one_is_refused() {
    let old = filled(3, 2);
    let new = blank(&old, 1200);
    with(&replace(&[&old[0], &old[2]], 1, &new).unwrap(), async |store| {
        assert!(store.status().thin_segments > 0, "what was on the old drive lacks a copy");
        write(store, 0..8, 1).await;
        mend(store).await;
    });
    let now = [old[0].clone(), new, old[2].clone()];
    lose_cache(&now);
    for away in 0..3 {
        let rest: Vec<CrashDrive> =
            (0..3).filter(|it| *it != away).map(|it| now[it].clone()).collect();
        assert!(is_filled(&rest, without_missing(), 200, 1), "without drive {away}");
        with(&open(&now, usual()).unwrap(), mend);
        lose_cache(&now);
    }
    let refused = open(&[old[0].clone(), old[1].clone(), old[2].clone()], usual());
    assert_eq!(refused.err(), Some(OpenError::Replaced { position: 1 }));
}

#[test]
fn drives_that_cannot_take_the_place_are_refused_before_anything_is_written() {
    let drives = filled(2, 2);
    let before = block_on(read_superblock(&drives[0])).unwrap();
    let refusal = |rest: &[&CrashDrive], lost, drive| replace(rest, lost, drive).err().unwrap();
    let (small, large) = (blank(&drives, 500), blank(&drives, 1000));
    let too_small = refusal(&[&drives[0]], 1, &small);
    assert!(
        matches!(too_small, OpenError::Replacement(ReplacementError::TooSmall { .. })),
        "{too_small:?}"
    );
    assert_eq!(
        refusal(&[&drives[0]], 1, &drives[0]),
        OpenError::Replacement(ReplacementError::InUse { drive: DriveIndex(0) })
    );
    assert_eq!(
        refusal(&[&drives[0], &drives[1]], 1, &large),
        OpenError::Replacement(ReplacementError::Occupied { position: 1 })
    );
    assert_eq!(
        refusal(&[&drives[0]], 2, &large),
        OpenError::Replacement(ReplacementError::UnknownDrive { drive: DriveIndex(2), drives: 2 })
    );
    assert_eq!(block_on(read_superblock(&drives[0])).unwrap(), before);
    assert!(is_filled(&drives, usual(), 200, 1));
}

#[test]
fn what_has_no_other_copy_cannot_be_replaced() {
    let drives = filled(2, 1);
    let refused = replace(&[&drives[0]], 1, &blank(&drives, 1000)).err().unwrap();
    assert!(matches!(refused, OpenError::Insufficient(_)), "{refused:?}");
    assert!(is_filled(&drives, usual(), 200, 1));
}

#[test]
fn a_new_drive_that_fails_at_once_leaves_the_store_as_one_that_lacks_it() {
    let drives = filled(2, 2);
    let new = blank(&drives, 1000);
    new.is_gone.set(true);
    assert!(matches!(replace(&[&drives[0]], 1, &new), Err(OpenError::Drive(DriveIndex(1), _))));
    assert!(is_filled(&drives[..1], without_missing(), 200, 1));
    assert!(is_filled(&drives, usual(), 200, 1));
}

/// Only what was written while a drive was away is copied when it is back, and what shares a
/// segment with it: not the rest of the volume.
#[test]
fn a_drive_that_was_away_gets_only_what_it_missed() {
    const SEGMENT_BLOCKS: u64 = 16;
    let drives = filled(2, 2);
    let missed = 10;
    with(&open(&drives, usual()).unwrap(), async |store| {
        drives[1].is_gone.set(true);
        write(store, 0..missed, 2).await;
    });
    lose_cache(&drives);
    drives[1].is_gone.set(false);
    with(&open(&drives, usual()).unwrap(), async |store| {
        mend(store).await;
        let copied = store.status().counters.moved_blocks;
        assert!((missed..missed + SEGMENT_BLOCKS).contains(&copied), "{copied} of {BLOCKS} blocks");
        store.close().await.unwrap();
    });
    lose_cache(&drives);
    let read = |block: u64| {
        let store = open(&drives[1..], without_missing()).unwrap();
        block_on(store.read(crate::support::mirror::VOLUME, block * 4096, 4096)).unwrap()[0]
    };
    assert_eq!([0, missed - 1, missed, BLOCKS - 1].map(read), [2, 2, 1, 1]);
}
