//! Files as drives keep the contract of a drive, whatever does the work.

use std::os::unix::fs::FileExt;

use evenkeel_store::{
    BLOCK_BYTES, Buffer, CreateOptions, DriveError, Durability, OpenOptions, VolumeId, create,
};

use super::*;

const KINDS: [DriveKind; 2] = [DriveKind::Best, DriveKind::Threads];

fn block(byte: u8) -> Buffer {
    Buffer::copy_of(&[byte; BLOCK_BYTES])
}

fn at(index: u64) -> u64 {
    index * BLOCK_BYTES as u64
}

/// The one body that files must pass on every kind of drive, past the page cache or not.
async fn conformance(path: &std::path::Path, how: OpenDrive) {
    let how = OpenDrive { create_bytes: Some(1 << 20), ..how };
    let drive = FileDrive::open(path, &how).await.unwrap();
    let geometry = drive.geometry();
    assert_eq!(geometry.size_bytes, 1 << 20);
    assert!([512, 4096].contains(&geometry.block_bytes));

    let data = vec![block(1), Buffer::copy_of(&[2; 3 * BLOCK_BYTES]), block(3)];
    drive.write(at(1), data, Durability::Volatile).await.unwrap();
    let unflushed = drive.read(at(0), 7 * BLOCK_BYTES).await.unwrap();
    assert!(unflushed.is_aligned());
    let bytes: Vec<u8> = unflushed.chunks(BLOCK_BYTES).map(|block| block[0]).collect();
    assert_eq!(bytes, [0, 1, 2, 2, 2, 3, 0]);
    drive.flush().await.unwrap();
    drive.write(at(9), vec![block(9)], Durability::Durable).await.unwrap();
    assert_eq!(std::fs::File::open(path).unwrap().metadata().unwrap().len(), 1 << 20);

    let (data, length) = (vec![block(1)], BLOCK_BYTES);
    let end = geometry.size_bytes;
    assert!(matches!(drive.read(end, length).await, Err(DriveError::Misuse(_))));
    assert!(matches!(drive.read(1, length).await, Err(DriveError::Misuse(_))));
    let written = drive.write(end, data, Durability::Volatile).await;
    assert!(matches!(written, Err(DriveError::Misuse(_))));

    // Everything at once, some of it for nobody: the flush covers it all the same.
    let writes = (0..200).map(|index| drive.write(at(index), vec![block(7)], Durability::Volatile));
    for (index, write) in writes.enumerate() {
        let mut write = pin!(write);
        let now = std::future::poll_fn(|context| {
            std::task::Poll::Ready(write.as_mut().poll(context).is_ready())
        });
        if !now.await && index % 2 == 0 {
            write.await.unwrap();
        }
    }
    drive.flush().await.unwrap();
    assert!(drive.read(0, 200 * BLOCK_BYTES).await.unwrap().iter().all(|&byte| byte == 7));
    drive.discard(at(0), at(64)).await.unwrap();
    assert!(drive.read(at(64), BLOCK_BYTES).await.unwrap().iter().all(|&byte| byte == 7));
}

#[test]
fn a_file_keeps_the_contract_of_a_drive() {
    let folder = tempfile::tempdir().unwrap();
    for (index, kind) in KINDS.into_iter().enumerate() {
        for direct in [true, false] {
            let path = folder.path().join(format!("{index}-{direct}"));
            let how = OpenDrive { direct, kind, ..OpenDrive::default() };
            block_on(conformance(&path, how)).unwrap();
        }
    }
}

#[test]
fn a_file_that_became_shorter_has_bad_places_and_is_not_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    for kind in KINDS {
        let how = OpenDrive { kind, create_bytes: Some(1 << 20), ..OpenDrive::default() };
        block_on(async {
            let drive = FileDrive::open(&path, &how).await.unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_len(8192).unwrap();
            assert_eq!(drive.read(at(2), 4096).await, Err(DriveError::Medium));
            assert!(drive.read(0, 8192).await.is_ok());
        })
        .unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_drive_is_opened_once_and_by_whom_it_suits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let patience = std::time::Duration::from_millis(30);
    let how = OpenDrive { lock_patience: patience, ..OpenDrive::default() };
    let making = OpenDrive { create_bytes: Some(1 << 20), ..how };
    let reading = OpenDrive { read_only: true, ..how };
    block_on(async {
        let error = FileDrive::open(&path, &how).await.unwrap_err().to_string();
        assert!(error.contains("drive") && error.contains("check the path"), "{error}");
        let drive = FileDrive::open(&path, &making).await.unwrap();
        for second in [how, reading] {
            let error = FileDrive::open(&path, &second).await.unwrap_err();
            assert!(matches!(error, OpenDriveError::InUse(_)), "{error}");
        }
        drop(drive);
        let one = FileDrive::open(&path, &reading).await.unwrap();
        let other = FileDrive::open(&path, &reading).await.unwrap();
        assert_eq!(one.read(0, 4096).await, other.read(0, 4096).await);
        assert!(one.write(0, vec![block(1)], Durability::Volatile).await.is_err());
        let error = FileDrive::open(folder.path(), &how).await.unwrap_err();
        assert!(matches!(error, OpenDriveError::NotADrive(_)), "{error}");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = open_drives(&[path.clone(), link], &how).await.unwrap_err();
        assert!(matches!(error, OpenDriveError::Twice(_)), "{error}");
    })
    .unwrap();
}

#[test]
fn a_store_on_files_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b", "c"].map(|name| folder.path().join(name)).into();
    let volume = VolumeId(0);
    for (round, kind) in (0..).zip(KINDS.into_iter().chain(KINDS)) {
        let how = OpenDrive { kind, create_bytes: Some(16 << 20), ..OpenDrive::default() };
        let work = async {
            let drives = open_drives(&paths, &how).await.unwrap();
            if round == 0 {
                let options = CreateOptions {
                    store: fresh_uuid().unwrap(),
                    drives: drives.iter().map(|_| fresh_uuid().unwrap()).collect(),
                    copies: 2,
                    segment_bytes: 1 << 20,
                    over_provisioning_percent: 25,
                    volume_bytes: vec![4 << 20],
                };
                create(&drives, &options).await.unwrap();
            }
            let store =
                Store::open(drives, OpenOptions::new(fresh_nonce().unwrap())).await.unwrap();
            let work = async {
                let known = store.read(volume, 0, 1 << 20).await.unwrap();
                assert!(known.iter().all(|&byte| byte == round));
                let data = Buffer::copy_of(&vec![round + 1; 1 << 20]);
                store.write(volume, 0, data, Durability::Durable).await.unwrap();
                // Half of the mounts end without a word.
                if round % 2 == 0 {
                    store.close().await.unwrap();
                }
            };
            beside(&store, work).await;
        };
        block_on(work).unwrap();
    }
    let mut superblock = [0; 4];
    std::fs::File::open(&paths[0]).unwrap().read_exact_at(&mut superblock, 0).unwrap();
    assert_eq!(superblock, [0xe9, 0x6b, 0x53, 0x42], "it is on the disk, not in a cache of ours");
}

const ZONED: OpenDrive = OpenDrive {
    direct: true,
    read_only: false,
    create_bytes: Some(ZONES * ZONE_BYTES),
    create_zones: Some(EmulatedZoning { zone_bytes: ZONE_BYTES, conventional_zones: 8 }),
    kind: DriveKind::Best,
    lock_patience: std::time::Duration::from_secs(3),
    answer_patience: std::time::Duration::from_mins(1),
};
const ZONES: u64 = 64;
const ZONE_BYTES: u64 = 256 << 10;

fn written(states: &[evenkeel_store::ZoneState], zone: usize) -> u64 {
    match states[zone] {
        evenkeel_store::ZoneState::Sequential { written_bytes } => written_bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_with_zones_refuses_what_a_drive_does_and_keeps_its_pointers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zoned.img");
    let zone = 9 * ZONE_BYTES;
    block_on(async {
        let drive = FileDrive::open(&path, &ZONED).await.unwrap();
        assert_eq!(drive.geometry().size_bytes, ZONES * ZONE_BYTES);
        assert_eq!(drive.zoning().unwrap().conventional_zones, 8);
        let write = |at_block: u64, byte| {
            drive.write(zone + at(at_block), vec![block(byte)], Durability::Volatile)
        };
        let is_refused = |outcome| matches!(outcome, Err(DriveError::Misuse(_)));
        write(0, 1).await.unwrap();
        assert!(is_refused(write(0, 1).await), "written already");
        assert!(is_refused(write(2, 1).await), "a gap");
        write(1, 2).await.unwrap();
        assert!(is_refused(drive.read(zone, 3 * BLOCK_BYTES).await.map(drop)));
        drive.finish_zone(10 * ZONE_BYTES).await.unwrap();
        drive.flush().await.unwrap();
        // Not flushed: lost when the file is opened anew, as it is from a drive that loses power.
        write(2, 3).await.unwrap();
        drop(drive);
        let drive = FileDrive::open(&path, &OpenDrive::default()).await.unwrap();
        let states = drive.report_zones().await.unwrap();
        assert_eq!((written(&states, 9), written(&states, 10)), (at(2), ZONE_BYTES));
        assert_eq!(drive.read(zone + at(1), BLOCK_BYTES).await.unwrap()[0], 2);
        drive.reset_zone(zone).await.unwrap();
        drive.write(zone, vec![block(4)], Durability::Volatile).await.unwrap();
        drive.flush().await.unwrap();
        assert_eq!(written(&drive.report_zones().await.unwrap(), 9), at(1));
    })
    .unwrap();
}

#[test]
fn a_store_on_files_with_zones_is_overwritten_many_times_and_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    block_on(async {
        let drives = open_drives(&paths, &ZONED).await.unwrap();
        let volume_bytes = 4 << 20;
        let options = CreateOptions {
            store: fresh_uuid().unwrap(),
            drives: vec![fresh_uuid().unwrap(), fresh_uuid().unwrap()],
            copies: 2,
            segment_bytes: ZONE_BYTES,
            over_provisioning_percent: 20,
            volume_bytes: vec![volume_bytes],
        };
        create(&drives, &options).await.unwrap();
        drop(drives);
        for round in 1..=8 {
            let drives = open_drives(&paths, &OpenDrive::default()).await.unwrap();
            let options = OpenOptions::new(fresh_nonce().unwrap());
            let store = Store::open(drives, options).await.unwrap();
            let work = async {
                let blocks = volume_bytes / BLOCK_BYTES as u64;
                for index in (0..blocks).map(|index| index * 7 % blocks) {
                    if round > 1 {
                        let old = store.read(VolumeId(0), at(index), BLOCK_BYTES).await.unwrap();
                        assert_eq!(old[5], round - 1);
                    }
                    let durability = Durability::Volatile;
                    store.write(VolumeId(0), at(index), block(round), durability).await.unwrap();
                }
                store.flush().await.unwrap();
                // Half of the mounts end like a kill.
                if round % 2 == 0 {
                    store.close().await.unwrap();
                }
            };
            beside(&store, work).await;
        }
    })
    .unwrap();
}
