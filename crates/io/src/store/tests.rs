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
