//! The cache of a store on its worker: what the policy wants, the SSD, and what time it is.
//!
//! The SSD is a convenience. One that is not there, is somebody else's, or fails while it is used
//! is told in the status; the store serves all the same, from its drives.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use evenkeel_engine::policy::StoreCache;
use evenkeel_store::{CacheError, CacheOptions};
use tokio::task::spawn_local;

use super::{FileStore, LOCK_PATIENCE};
use crate::clock::Clock;
use crate::drive::DriveKind;
use crate::store::{FileDrive, OpenDrive};

/// Between two times that the store is told what time it is: its budget and its forecast are about
/// days.
const TICK: Duration = Duration::from_secs(1);

/// How long the SSD may owe an answer. A read that waits for it longer than for a drive is worse
/// off than without it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The SSD of a cache.
#[derive(Debug)]
pub(super) struct CacheDrive {
    path: PathBuf,
    /// The drive, or why the store does without.
    drive: Result<Rc<FileDrive>, String>,
}

impl CacheDrive {
    /// Opens the SSD that the policy has, if it has one, and gives it to the store.
    pub(super) async fn open(
        cache: &StoreCache,
        kind: DriveKind,
        store: &mut FileStore,
    ) -> Option<Self> {
        let path = cache.drive.clone()?;
        let drive = use_drive(&path, kind, store).await;
        if let Err(why) = &drive {
            tracing::warn!(path = %path.display(), why, "going on without the cache drive");
        }
        Some(Self { path, drive })
    }

    /// Why the store does without, if it does.
    pub(super) fn trouble(&self, store: &FileStore) -> Option<String> {
        let is_used = || store.cache_status().is_some_and(|cache| cache.flash_bytes > 0);
        let why = match &self.drive {
            Err(why) => why,
            Ok(_) if is_used() => return None,
            Ok(_) => "it failed; see to it, then restart the gate",
        };
        Some(format!("no cache on {}: {why}", self.path.display()))
    }
}

async fn use_drive(
    path: &Path,
    kind: DriveKind,
    store: &mut FileStore,
) -> Result<Rc<FileDrive>, String> {
    let how = OpenDrive {
        kind,
        lock_patience: LOCK_PATIENCE,
        answer_patience: PATIENCE,
        ..OpenDrive::default()
    };
    let drive = FileDrive::open(path, &how).await.map_err(|error| error.to_string())?;
    let drive = Rc::new(drive);
    let used = store.add_cache_drive(Rc::clone(&drive)).await;
    used.map_err(|error| match error {
        CacheError::NotACache(_) | CacheError::Foreign(_) => {
            format!("{error} (`evenkeel store format-cache` does that)")
        }
        _ => error.to_string(),
    })?;
    Ok(drive)
}

/// What the policy wants, as the store understands it.
pub(super) fn options(cache: &StoreCache) -> CacheOptions {
    CacheOptions {
        memory_bytes: usize::try_from(cache.memory_bytes).unwrap_or(usize::MAX),
        endurance_bytes: cache.endurance_bytes,
        budget_bytes_per_day: NonZeroU64::new(cache.daily_writes_bytes),
        ..CacheOptions::default()
    }
}

/// Tells the store what time it is, for as long as there is one.
pub(super) fn tell_time(store: &Rc<FileStore>, clock: Clock) {
    let store = Rc::downgrade(store);
    spawn_local(async move {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            ticks.tick().await;
            let Some(store) = store.upgrade() else { return };
            store.set_time(clock.now());
        }
    });
}
