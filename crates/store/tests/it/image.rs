//! Whole images of stores of this version, as they lie in people's racks: `testdata/*.image` opens
//! and holds what it held. `EVENKEEL_BLESS=1` makes them anew, which is for a new version of the
//! format only.
//!
//! An image is text: a line for each block that is not empty, then its bytes that are not zero, 16
//! to a line behind their place in the block. Data is one byte repeated, which one line says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use evenkeel_store::{Buffer, Durability, Provision, VolumeId};

use crate::support::drive::CrashDrive;
use crate::support::executor::block_on;
use crate::support::mirror::{self, VOLUME, lose_cache, open, with};
use crate::support::usual;

const BLOCKS: u64 = 24;

/// How a store was left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    /// With records behind its checkpoint.
    Killed,
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(format!("{name}.image"))
}

/// A store with a snapshot, blocks that were moved or given back, and increments.
fn make(drives: u8, copies: u8, end: End) -> Vec<CrashDrive> {
    let drives = mirror::drives(drives, copies, BLOCKS);
    with(&open(&drives, usual()).unwrap(), async |store| {
        for byte in 1..=16 {
            mirror::write(store, 0..4, byte).await;
            mirror::write(store, u64::from(byte) % BLOCKS..u64::from(byte) % BLOCKS + 1, byte)
                .await;
            if byte == 8 {
                store.snapshot(VOLUME).await.unwrap();
                store.create_volume(8 * 4096, Provision::Thin).await.unwrap();
            }
        }
        store.write_zeroes(VOLUME, 3 * 4096, 4096, Durability::Volatile).await.unwrap();
        let data = Buffer::copy_of(&[0x77; 4096]);
        store.write(VolumeId(2), 4096, data, Durability::Durable).await.unwrap();
        match end {
            End::Closed => store.close().await.unwrap(),
            End::Killed => store.mark_tail().await.unwrap(),
        }
    });
    lose_cache(&drives);
    drives
}

/// The first byte of each block of each volume and snapshot.
fn held(drives: &[CrashDrive]) -> Vec<Vec<u8>> {
    let store = open(drives, usual()).unwrap();
    let read = |volume: evenkeel_store::Volume| {
        let length = usize::try_from(volume.size_bytes).unwrap();
        let data = block_on(store.read(volume.id, 0, length)).unwrap();
        let blocks = data.chunks_exact(4096).inspect(|it| assert!(it.iter().all(|b| *b == it[0])));
        blocks.map(|block| block[0]).collect()
    };
    store.volumes().into_iter().map(read).collect()
}

fn print(drives: &[CrashDrive]) -> String {
    let mut text = String::new();
    for (index, drive) in drives.iter().enumerate() {
        for (block, bytes) in drive.content() {
            if bytes.iter().all(|&byte| byte == bytes[0]) {
                writeln!(text, "drive {index} block {block} all {:02x}", bytes[0]).unwrap();
                continue;
            }
            writeln!(text, "drive {index} block {block}").unwrap();
            for (line, bytes) in bytes.chunks(16).enumerate() {
                if bytes.iter().any(|&byte| byte != 0) {
                    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    writeln!(text, "{:03x} {}", line * 16, hex.join("")).unwrap();
                }
            }
        }
    }
    text
}

fn parse(text: &str) -> BTreeMap<(usize, u64), Vec<u8>> {
    let mut blocks = BTreeMap::new();
    let mut current = (0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["drive", index, "block", block, rest @ ..] = &words[..] {
            current = (index.parse().unwrap(), block.parse().unwrap());
            let byte = rest.get(1).map_or(0, |hex| u8::from_str_radix(hex, 16).unwrap());
            blocks.insert(current, vec![byte; 4096]);
        } else {
            let at = usize::from_str_radix(words[0], 16).unwrap();
            let bytes: &mut Vec<u8> = blocks.get_mut(&current).unwrap();
            for (offset, pair) in words[1].as_bytes().chunks(2).enumerate() {
                let hex = std::str::from_utf8(pair).unwrap();
                bytes[at + offset] = u8::from_str_radix(hex, 16).unwrap();
            }
        }
    }
    blocks
}

/// Drives with the content of an image.
fn load(name: &str, count: u8, copies: u8) -> Vec<CrashDrive> {
    let drives = mirror::drives(count, copies, BLOCKS);
    let text = std::fs::read_to_string(path(name)).unwrap();
    for (index, drive) in drives.iter().enumerate() {
        for block in drive.content().into_keys() {
            drive.tamper(block, |bytes| bytes.fill(0));
        }
        for ((_, block), bytes) in parse(&text).iter().filter(|((of, _), _)| *of == index) {
            drive.tamper(*block, |target| target.copy_from_slice(bytes));
        }
    }
    drives
}

#[test]
fn images_of_this_version_open_and_hold_what_they_held() {
    let cases = [
        ("one-drive-killed", 1, 1, End::Killed),
        ("one-drive-closed", 1, 1, End::Closed),
        ("three-drives-killed", 3, 1, End::Killed),
        ("pair-killed", 2, 2, End::Killed),
    ];
    for (name, count, copies, end) in cases {
        let fresh = make(count, copies, end);
        if std::env::var_os("EVENKEEL_BLESS").is_some() {
            std::fs::write(path(name), print(&fresh)).unwrap();
        }
        let held_now = held(&fresh);
        assert_eq!(held_now.len(), 3, "a volume, its snapshot, and another one");
        assert_eq!(held_now[0][..4], [16, 16, 16, 0]);
        assert_eq!(held(&load(name, count, copies)), held_now, "{name}");
    }
}

#[test]
fn an_image_of_another_version_is_refused_by_name() {
    for (version, name) in [(2, "older"), (4, "newer")] {
        let drives = load("one-drive-closed", 1, 1);
        drives[0].become_version(version);
        let refusal = open(&drives, usual()).err().unwrap().to_string();
        let format = format!("written by an {name} evenkeel (format {version})");
        let format = format.replace("an newer", "a newer");
        assert!(refusal.contains(&format), "{refusal}");
    }
}
