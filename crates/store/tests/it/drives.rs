//! Drives that fail, lie, return and are missing: mirrors keep what was acknowledged, and whoever
//! is refused is told why.

use evenkeel_store::check::{CheckOptions, check};
use evenkeel_store::format::Defect;
use evenkeel_store::format::superblock::DriveState;
use evenkeel_store::{
    Buffer, DriveIndex, Durability, Halt, Nonce, OpenError, OpenOptions, Replacement, Rules, Store,
    Uuid, create, read_superblock,
};

use crate::support::drive::CrashDrive;
use crate::support::executor::{End, Spawner, block_on, run};
use crate::support::mirror::{self, VOLUME, lose_cache, open, with, without_missing, write};
use crate::support::{options, usual};

const BLOCKS: u64 = 24;

fn drives(count: u8, copies: u8) -> Vec<CrashDrive> {
    mirror::drives(count, copies, BLOCKS)
}

async fn fill(store: &Store<CrashDrive>, byte: u8) {
    write(store, 0..BLOCKS, byte).await;
}

/// Whether the volume holds these bytes and nothing else.
fn is_filled(drives: &[CrashDrive], options: OpenOptions, byte: u8) -> bool {
    mirror::is_filled(drives, options, 24, byte)
}

/// Whether all is there on a drive alone that had failed, returned, and been given time.
fn a_returned_drive_has_everything(rules: Rules) -> bool {
    let options = OpenOptions { rules, ..without_missing() };
    let drives = drives(2, 2);
    with(&open(&drives, options).unwrap(), async |store| {
        write(store, 8..BLOCKS, 2).await;
        write(store, 0..8, 1).await;
        drives[1].is_gone.set(true);
        write(store, 0..8, 2).await;
        // Tells recovery that the records before it are durable and need no second look.
        write(store, 0..1, 2).await;
        assert_eq!(store.status().halted, None);
    });
    lose_cache(&drives);
    drives[1].is_gone.set(false);
    with(&open(&drives, options).unwrap(), async |store| {
        while store.status().is_mending {
            store.checkpoint().await.unwrap();
        }
        store.checkpoint().await.unwrap();
    });
    lose_cache(&drives);
    is_filled(&drives[1..], options, 2)
}

#[test]
fn a_drive_that_failed_and_returned_gets_what_it_missed() {
    assert!(a_returned_drive_has_everything(Rules::default()));
}

#[cfg(feature = "mutants")]
#[test]
fn without_a_mark_on_the_others_a_returned_drive_would_count_as_whole() {
    use evenkeel_store::Rule::{OneTime, StaleBeforeAck};

    // Its age would tell as well.
    assert!(a_returned_drive_has_everything(Rules::without(OneTime)));
    let rules = Rules::without_both([StaleBeforeAck, OneTime]);
    assert!(!a_returned_drive_has_everything(rules));
}

/// Whether all is read although one of two drives loses writes without a word.
fn a_drive_that_loses_writes_does_no_harm(rules: Rules) -> bool {
    let options = OpenOptions { rules, ..usual() };
    let drives = drives(2, 2);
    (1..40).all(|round| {
        with(&open(&drives, options).unwrap(), async |store| {
            drives[0].lost_per_mille.set(100);
            fill(store, round).await;
        });
        drives[0].lost_per_mille.set(0);
        is_filled(&drives, options, round)
    })
}

#[test]
fn a_drive_that_loses_writes_is_noticed_by_the_tags() {
    assert!(a_drive_that_loses_writes_does_no_harm(Rules::default()));
}

#[cfg(feature = "mutants")]
#[test]
fn without_tags_a_lost_write_would_be_read_as_the_data_before_it() {
    let rules = Rules::without(evenkeel_store::Rule::VerifyTags);
    assert!(!a_drive_that_loses_writes_does_no_harm(rules));
}

/// A mount has its name in a superblock only with its first checkpoint. Were it there with the mark
/// of a drive that fails before, nothing behind the old checkpoint would be of the right mount.
#[test]
fn a_drive_that_fails_while_a_mount_begins_takes_nothing_with_it() {
    let (mut cuts, mut marks) = (0, 0);
    for lasts in 1..40 {
        for cut_after in 1.. {
            let drives = drives(2, 2);
            with(&open(&drives, usual()).unwrap(), async |store| fill(store, 7).await);
            lose_cache(&drives);
            drives[1].lasts.set(lasts);
            drives[0].power.cut_after(cut_after);
            let opening = async { drop(Store::open(drives.clone(), usual()).await) };
            let end = run(&Spawner::default(), opening, || drives[0].power.is_off());
            drives[0].power.cut_after(u64::MAX);
            drives[1].lasts.set(u64::MAX);
            lose_cache(&drives);
            if end == End::Done {
                break;
            }
            let known = block_on(read_superblock(&drives[0])).unwrap().unwrap();
            cuts += 1;
            marks += u32::from(known.drives[1].state != DriveState::InSync);
            assert!(is_filled(&drives, usual(), 7), "drive 1 lasts {lasts}, cut at {cut_after}");
        }
    }
    assert!(cuts > 100 && marks > 10, "{cuts} cuts, {marks} with a drive marked before");
}

/// A power cut leaves the newest superblock on one drive alone, a mount is cut as well, and then
/// nobody can read that superblock any more: it must not have been the only one all the time.
#[test]
fn a_superblock_that_a_cut_left_on_one_drive_alone_is_not_relied_on_alone() {
    let mut alone = 0;
    for cut_after in 1..16 {
        for next_cut in 1..40 {
            let drives = drives(2, 2);
            let power = drives[0].power.clone();
            let store = open(&drives, usual()).unwrap();
            let spawner = Spawner::default();
            spawner.spawn(async {
                store.run().await;
            });
            let work = async {
                fill(&store, 7).await;
                power.cut_after(cut_after);
                store.checkpoint().await.unwrap();
            };
            run(&spawner, work, || power.is_off());
            power.cut_after(u64::MAX);
            drives[0].lose_cache(0);
            drives[1].lose_cache(100);
            let newest = |drive| block_on(read_superblock(drive)).unwrap().unwrap().sequence;
            let (other, lonely) = (newest(&drives[0]), newest(&drives[1]));
            power.cut_after(next_cut);
            let opening = async { drop(Store::open(drives.clone(), usual()).await) };
            run(&Spawner::default(), opening, || power.is_off());
            power.cut_after(u64::MAX);
            for drive in &drives {
                drive.lose_cache(100);
            }
            if other < lonely {
                alone += 1;
                for place in drives[1].blocks_with(b"\xe9kSB") {
                    let is_lonely = |bytes: &[u8]| bytes[48..56] == lonely.to_le_bytes();
                    drives[1].tamper(place, |bytes| bytes[100] ^= u8::from(is_lonely(bytes)));
                }
            }
            assert!(is_filled(&drives, usual(), 7), "cut at {cut_after}, then at {next_cut}");
        }
    }
    assert!(alone > 30, "the newest was on one drive alone {alone} times");
}

#[test]
fn a_lone_drive_that_fails_stops_the_store() {
    let drives = drives(1, 1);
    with(&open(&drives, usual()).unwrap(), async |store| {
        fill(store, 1).await;
        drives[0].is_gone.set(true);
        let data = Buffer::copy_of(&[1; 4096]);
        let refused = store.write(VOLUME, 0, data, Durability::Volatile).await.unwrap_err();
        let text =
            "the store has stopped: drive 0: the drive does not answer; mend it and open again";
        assert_eq!(refused.to_string(), text);
        assert_eq!(store.flush().await, Err(refused));
        assert!(matches!(store.status().halted, Some(Halt::Drive(DriveIndex(0), _))));
    });
    drives[0].is_gone.set(false);
    assert!(is_filled(&drives, usual(), 1));
}

/// One mount writes blocks of 1 and the next one blocks of 2, each mount with its nonce, on a drive
/// that loses all superblocks of the first and one record of the second. How the blocks begin that
/// a third mount finds.
fn after_lost_superblocks(nonces: [u64; 2]) -> Vec<u8> {
    let drives = drives(1, 1);
    let drive = &drives[0];
    with(&open(&drives, usual()).unwrap(), async |store| fill(store, 9).await);
    let superblocks = drive.blocks_with(b"\xe9kSB");
    for (byte, nonce) in (1..).zip(nonces) {
        let headers = drive.blocks_with(b"\xe9kRH");
        drive.deaf.borrow_mut().extend(superblocks.iter().filter(|_| byte == 1));
        with(&open(&drives, OpenOptions::new(Nonce(nonce))).unwrap(), async |store| {
            for block in 0..6 {
                if byte == 2 && block == 4 {
                    // The next record, header and data, goes where the first mount put its own.
                    let ours = drive.blocks_with(b"\xe9kRH");
                    drive.deaf.borrow_mut().extend(ours.iter().flat_map(|at| [*at, at + 1]));
                }
                write(store, block..block + 1, byte).await;
                let now = drive.blocks_with(b"\xe9kRH");
                assert!(byte == 2 || now.len() > headers.len());
            }
        });
        drive.deaf.borrow_mut().clear();
        lose_cache(&drives);
    }
    let store = open(&drives, usual()).unwrap();
    let data = block_on(store.read(VOLUME, 0, 6 * 4096)).unwrap();
    data.chunks(4096).map(|block| block[0]).collect()
}

#[test]
fn records_of_a_mount_whose_superblocks_were_lost_do_not_count_in_the_next() {
    assert_eq!(after_lost_superblocks([5, 6]), [2, 2, 2, 2, 9, 9]);
}

#[test]
fn mounts_with_the_same_nonce_could_not_be_told_apart_then() {
    assert_eq!(after_lost_superblocks([5, 5]), [2, 2, 2, 2, 1, 1]);
}

#[test]
fn missing_drives_are_named_and_can_be_left_out() {
    let drives = drives(3, 2);
    with(&open(&drives, usual()).unwrap(), async |store| fill(store, 1).await);
    let missing = OpenError::Missing(vec![DriveIndex(1)]);
    let rest = [drives[2].clone(), drives[0].clone()];
    assert_eq!(open(&rest, usual()).err().unwrap(), missing);
    with(&open(&rest, without_missing()).unwrap(), async |store| fill(store, 2).await);
    // From now on drive 1 is known to be stale, and is not needed.
    assert!(is_filled(&rest, usual(), 2));
    assert!(is_filled(&drives, usual(), 2));
    let two_missing = open(&drives[..1], without_missing()).err().unwrap();
    assert!(matches!(two_missing, OpenError::Insufficient(_)), "{two_missing:?}");
}

/// Whether all is there on a drive alone that was put back as it was before so many checkpoints,
/// was given time, and then had to do without the other.
fn a_drive_put_back_as_it_was_gets_what_it_lacks(rules: Rules, checkpoints: u32) -> bool {
    let options = OpenOptions { rules, ..without_missing() };
    let drives = drives(2, 2);
    with(&open(&drives, options).unwrap(), async |store| fill(store, 1).await);
    lose_cache(&drives);
    let mut older = None;
    with(&open(&drives, options).unwrap(), async |store| {
        fill(store, 2).await;
        older = Some(drives[1].image());
        fill(store, 3).await;
        // Tells recovery that the records before it are durable and need no second look.
        write(store, 0..1, 3).await;
        for _ in 0..checkpoints {
            store.checkpoint().await.unwrap();
            write(store, 0..8, 4).await;
            write(store, 0..8, 3).await;
        }
    });
    lose_cache(&drives);
    drives[1].put_back(older.expect("it was made above"));
    let mut was_told = false;
    with(&open(&drives, options).unwrap(), async |store| {
        was_told = store.rolled_back() == [DriveIndex(1)];
        mirror::mend(store).await;
        store.checkpoint().await.unwrap();
    });
    assert!(was_told || rules != Rules::default(), "{checkpoints} checkpoints");
    lose_cache(&drives);
    is_filled(&drives[1..], options, 3)
}

#[test]
fn an_older_image_of_a_drive_does_not_count_until_it_has_everything() {
    for checkpoints in 0..4 {
        let is_whole = a_drive_put_back_as_it_was_gets_what_it_lacks(Rules::default(), checkpoints);
        assert!(is_whole, "{checkpoints} checkpoints");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn without_a_look_at_its_age_an_older_image_would_count_as_whole() {
    let rules = Rules::without(evenkeel_store::Rule::OneTime);
    let is_whole = |checkpoints| a_drive_put_back_as_it_was_gets_what_it_lacks(rules, checkpoints);
    assert!((0..4).any(|checkpoints| !is_whole(checkpoints)));
}

#[test]
fn an_older_image_without_another_copy_is_refused() {
    let drives = drives(3, 1);
    let older = drives[1].image();
    with(&open(&drives, usual()).unwrap(), async |store| {
        fill(store, 1).await;
        store.checkpoint().await.unwrap();
    });
    lose_cache(&drives);
    drives[1].put_back(older);
    let refusal = open(&drives, usual()).err().unwrap();
    assert!(matches!(refusal, OpenError::RolledBack(_)), "{refusal:?}");
    assert_eq!(refusal.position(), Some(1));
}

#[test]
fn drives_that_went_on_without_each_other_are_never_joined() {
    let drives = drives(2, 2);
    with(&open(&drives, usual()).unwrap(), async |store| fill(store, 1).await);
    lose_cache(&drives);
    for (drive, byte) in drives.iter().zip(2..) {
        let alone = [drive.clone()];
        with(&open(&alone, without_missing()).unwrap(), async |store| fill(store, byte).await);
        lose_cache(&drives);
    }
    for options in [usual(), without_missing()] {
        let refusal = open(&drives, options).err().unwrap();
        assert!(matches!(refusal, OpenError::Split(_)), "{refusal:?}");
    }
    assert!(is_filled(&drives[..1], without_missing(), 2), "nothing was touched");
    assert!(is_filled(&drives[1..], without_missing(), 3), "nothing was touched");
    let report =
        block_on(check(drives.clone(), CheckOptions { reads_data: true, known: None }, |_| ()));
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    // Whichever side is chosen, the other gets what that has.
    let replacement =
        Replacement { lost: DriveIndex(1), drive: drives[1].clone(), name: Uuid([9; 16]) };
    let store = Store::open_replacing(vec![drives[0].clone()], replacement, usual());
    with(&block_on(store).unwrap(), async |store| {
        mirror::mend(store).await;
        store.checkpoint().await.unwrap();
    });
    lose_cache(&drives);
    assert!(is_filled(&drives, usual(), 2));
    assert!(is_filled(&drives[1..], without_missing(), 2));
}

#[test]
fn foreign_doubled_and_blank_drives_are_refused() {
    let (ours, theirs) = (drives(2, 2), drives(2, 2));
    let mut other = options(2, 2, BLOCKS);
    other.store.0[0] = 1;
    block_on(create(&theirs, &other)).unwrap();
    let refusal = |drives: &[&CrashDrive]| {
        let drives: Vec<_> = drives.iter().copied().cloned().collect();
        open(&drives, usual()).err().unwrap()
    };
    let blank = CrashDrive::new(260, &ours[0].power);
    assert_eq!(refusal(&[]), OpenError::NoDrive);
    assert_eq!(refusal(&[&ours[0], &ours[0]]), OpenError::Duplicate { position: 1 });
    let foreign = refusal(&[&ours[0], &theirs[1]]);
    assert!(matches!(foreign, OpenError::Foreign { position: 0 | 1, .. }), "{foreign:?}");
    let not_a_member = OpenError::NotAMember { position: 1, defect: Defect::Magic };
    assert_eq!(refusal(&[&ours[0], &blank]), not_a_member);
    for block in ours[0].blocks_with(b"\xe9kSB") {
        ours[0].tamper(block, |bytes| bytes[4] ^= 4);
    }
    let damaged = OpenError::NotAMember { position: 0, defect: Defect::Checksum };
    assert_eq!(refusal(&[&ours[0], &ours[1]]), damaged, "a bit that flips is no version");
    ours[0].become_version(9);
    let newer = "drive 0 was written by a newer evenkeel (format 9); use that one";
    assert_eq!(refusal(&[&ours[0], &ours[1]]).to_string(), newer);
    ours[0].become_version(1);
    let older = "drive 0 was written by an older evenkeel (format 1), which this one does not \
                 read; use that one, and copy its volumes to a new store";
    assert_eq!(refusal(&[&ours[0], &ours[1]]).to_string(), older);
}

#[test]
fn superblocks_overwritten_at_one_end_of_the_drive_do_no_harm() {
    let drives = drives(1, 1);
    with(&open(&drives, usual()).unwrap(), async |store| fill(store, 7).await);
    let places = drives[0].blocks_with(b"\xe9kSB");
    assert_eq!(places.len(), 4);
    // The newest superblock lies at both ends of the drive; whichever slot it is in, one is left.
    for &place in &places[..2] {
        drives[0].tamper(place, |bytes| bytes[100] ^= 1);
    }
    assert!(is_filled(&drives, usual(), 7));
}

#[test]
fn a_new_store_opens_although_either_superblock_slot_is_unreadable() {
    for slot in 0..2 {
        let drives = drives(2, 2);
        let places = drives[1].blocks_with(b"\xe9kSB");
        assert_eq!(places.len(), 4);
        for &place in places.iter().skip(slot).step_by(2) {
            drives[1].tamper(place, |bytes| bytes[100] ^= 1);
        }
        with(&open(&drives, usual()).unwrap(), async |store| fill(store, 7).await);
        assert!(is_filled(&drives, usual(), 7));
    }
}

#[test]
fn two_places_that_are_read_in_turn_are_read_by_a_drive_each() {
    const FAR: u64 = 199;
    let drives = mirror::drives(2, 2, FAR + 1);
    with(&open(&drives, usual()).unwrap(), async |store| {
        write(store, 0..FAR + 1, 1).await;
        let commands = || [&drives[0], &drives[1]].map(|drive| drive.reads.get().0);
        let before = commands();
        for _ in 0..10 {
            for block in [0, FAR] {
                store.read(VOLUME, block * 4096, 4096).await.unwrap();
            }
        }
        assert_eq!([commands()[0] - before[0], commands()[1] - before[1]], [10, 10]);
    });
}
