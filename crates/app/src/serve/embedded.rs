//! The store of `evenkeel serve` without a file: three files in the data folder, made at the first
//! start.
//!
//! All three are on one disk, where a mirror would save from little and cost half of the speed:
//! they have one copy of everything. They are sparse, and take the room of what is written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use evenkeel_engine::policy::{Policy, Source};
use evenkeel_io::store::{OpenDrive, block_on, fresh_uuid, open_drives};
use evenkeel_store::{CreateOptions, create};

use crate::terminal;

/// The folder of the files, in the data folder.
const FOLDER: &str = "store";

/// Bytes of each file: with what is never given away, both volumes have room, and a snapshot of
/// each that is then rewritten.
const FILE_BYTES: u64 = 2 << 30;

/// Bytes of each volume, in the order of the exports of the built-in policy.
const VOLUME_BYTES: [u64; 2] = [1 << 30; 2];

/// Bytes of a segment, small enough that a first look at the store is worth it.
const SEGMENT_BYTES: u64 = 8 << 20;

/// Percent of the room that volumes never get.
const OVER_PROVISIONING_PERCENT: u8 = 25;

/// Makes the store if the policy means it and it is not there.
///
/// # Errors
/// If the folder or a file cannot be made.
pub(super) fn prepare(data: &Path, policy: &Policy) -> anyhow::Result<()> {
    let folder = data.join(FOLDER);
    let is_within = |drives: &&Vec<PathBuf>| {
        !drives.is_empty() && drives.iter().all(|drive| drive.parent() == Some(&folder))
    };
    let mut stores = policy.backends.iter().filter_map(|backend| match &backend.source {
        Source::Store(store) => Some(&store.drives),
        _ => None,
    });
    let Some(drives) = stores.find(is_within) else { return Ok(()) };
    if folder.exists() {
        return Ok(());
    }
    make(&folder, drives)
        .with_context(|| format!("cannot make a store in {}", folder.display()))?;
    terminal::say(&format!(
        "made a store of {} files in {}: they grow to {} GiB at most",
        drives.len(),
        folder.display(),
        (drives.len() as u64 * FILE_BYTES) >> 30,
    ));
    Ok(())
}

/// Made under another name first, so that it is there as a whole or not at all.
fn make(folder: &Path, drives: &[PathBuf]) -> anyhow::Result<()> {
    let unfinished = folder.with_extension("new");
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::create_dir_all(&unfinished)?,
    }
    let names = drives.iter().filter_map(|drive| drive.file_name());
    let paths: Vec<PathBuf> = names.map(|name| unfinished.join(name)).collect();
    let names = drives.iter().map(|_| fresh_uuid()).collect::<io::Result<_>>();
    let options = CreateOptions {
        store: fresh_uuid()?,
        drives: names?,
        copies: 1,
        segment_bytes: SEGMENT_BYTES,
        over_provisioning_percent: OVER_PROVISIONING_PERCENT,
        volume_bytes: VOLUME_BYTES.to_vec(),
    };
    let how = OpenDrive { create_bytes: Some(FILE_BYTES), ..OpenDrive::default() };
    block_on(async {
        let drives = open_drives(&paths, &how).await?;
        create(&drives, &options).await?;
        anyhow::Ok(())
    })??;
    fs::rename(&unfinished, folder)?;
    let parent = folder.parent().expect("it lies in the data folder");
    Ok(fs::File::open(parent)?.sync_all()?)
}

/// Refuses to begin anew beside the disks of a version that had them as plain files.
///
/// # Errors
/// If there are such disks, with what to do.
pub(super) fn refuse_old_disks(data: &Path) -> anyhow::Result<()> {
    let disks = data.join("disks");
    let Ok(mut entries) = fs::read_dir(&disks) else { return Ok(()) };
    if entries.next().is_none() {
        return Ok(());
    }
    anyhow::bail!(
        "{} has disks of an earlier version, but {} is not there to say how they are served; \
         bring it back (a backend with `directory = \"disks\"`), or give another folder with \
         `--data`",
        disks.display(),
        data.join("policy.toml").display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn files(data: &Path) -> Vec<String> {
        let entries = fs::read_dir(data.join(FOLDER)).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
        let mut names: Vec<String> = entries.map(|entry| name(entry).unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_built_in_policy_gets_its_store_once() {
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("policy.toml");
        fs::write(&file, config::DEFAULT).unwrap();
        let policy = config::load(&file).unwrap().policy.unwrap();
        // What a start that was cut short left behind.
        fs::create_dir(data.path().join("store.new")).unwrap();
        fs::write(data.path().join("store.new/a.img"), "half").unwrap();
        prepare(data.path(), &policy).unwrap();
        assert_eq!(files(data.path()), ["a.img", "b.img", "c.img"]);
        assert!(!data.path().join("store.new").exists());
        fs::write(data.path().join("store/a.img"), "kept").unwrap();
        prepare(data.path(), &policy).unwrap();
        assert_eq!(fs::read(data.path().join("store/a.img")).unwrap(), b"kept");
    }

    #[test]
    fn other_stores_are_left_alone_and_old_disks_are_not_passed_over() {
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("policy.toml");
        let elsewhere = config::DEFAULT.replace("store/", "elsewhere/");
        fs::write(&file, elsewhere).unwrap();
        let policy = config::load(&file).unwrap().policy.unwrap();
        prepare(data.path(), &policy).unwrap();
        assert!(!data.path().join(FOLDER).exists() && !data.path().join("elsewhere").exists());
        refuse_old_disks(data.path()).unwrap();
        fs::create_dir(data.path().join("disks")).unwrap();
        refuse_old_disks(data.path()).unwrap();
        fs::write(data.path().join("disks/alice"), "").unwrap();
        let error = refuse_old_disks(data.path()).unwrap_err().to_string();
        assert!(error.contains("disks") && error.contains("--data"), "{error}");
    }
}
