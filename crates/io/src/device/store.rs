//! A store on its worker, and its volumes as devices.
//!
//! ```text
//! policy has it -> drives open -> recovery -> open, its own task runs -> closed with the gate
//!       ^               |             |                    |
//!       +--- pause -----+-- trouble --+                    +-> stopped: EIO until a restart
//! ```
//!
//! A store that has stopped could not keep what it promises any more, so that nothing reopens it
//! behind the operator's back: whoever was acknowledged a write must hear of it first.

mod cache;
mod rest;
mod scrub;
mod volume;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use evenkeel_engine::policy;
use evenkeel_store::format::Defect;
use evenkeel_store::{Drive, Halt, OpenError, OpenOptions, Store, Tuning, Volume};
use tokio::sync::Notify;

use crate::clock::{Clock, unix_time_s};
use crate::drive::DriveKind;
use crate::gate::{StoreDamage, StoreReport};
use crate::store::{
    DriveModels, FileDrive, OpenDrive, ScrubStatus, VolumeError, VolumeOrder, carry_out,
    fresh_nonce, known_position, open_drives, position_path, refuse_twice,
};
use cache::CacheDrive;
use rest::Memory;
pub(crate) use volume::{Request, StoreVolume};

/// Between two attempts to open a store, shorter at first.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long another program may have a drive locked before that is told.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

type FileStore = Store<Rc<FileDrive>>;

/// How drives are opened, beside what the policy says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means {
    /// What does the work.
    pub(crate) kind: DriveKind,
    /// What drives can be made to behave like.
    pub(crate) models: DriveModels,
}

/// The store of a backend.
#[derive(Debug)]
pub(crate) struct StoreHost {
    name: String,
    source: policy::Store,
    means: Means,
    clock: Clock,
    /// Where it is remembered how far the store is.
    folder: Option<PathBuf>,
    standing: RefCell<Standing>,
    /// Told whenever `standing` changes.
    news: Notify,
    is_closing: Cell<bool>,
    /// The last scrub.
    scrub: RefCell<Option<ScrubStatus>>,
}

#[derive(Debug)]
enum Standing {
    /// It is being opened; with what stands in the way, if that is known.
    Opening(Option<String>),
    Open(Opened),
    /// It has stopped for this reason.
    Stopped(String),
    Closed,
}

/// A store that is open, and what it stands on.
#[derive(Debug)]
struct Opened {
    store: Rc<FileStore>,
    drives: Vec<Rc<FileDrive>>,
    /// The SSD of its cache, if the policy has one.
    cache: Option<CacheDrive>,
    memory: Rc<Memory>,
}

impl StoreHost {
    /// A store that [`Self::keep`] opens.
    pub(crate) fn new(
        name: &str,
        source: policy::Store,
        means: Means,
        clock: Clock,
        folder: Option<PathBuf>,
    ) -> Rc<Self> {
        Rc::new(Self {
            name: name.to_owned(),
            source,
            means,
            clock,
            folder,
            standing: RefCell::new(Standing::Opening(None)),
            news: Notify::new(),
            is_closing: Cell::new(false),
            scrub: RefCell::default(),
        })
    }

    /// Opens the store, as often as that takes, and runs it until it stops.
    pub(crate) async fn keep(self: Rc<Self>) {
        let mut pause = PAUSE_MIN;
        while !self.is_closing.get() {
            match self.attempt().await {
                Ok(opened) => return self.run(opened).await,
                Err(why) => {
                    let is_news = !matches!(
                        &*self.standing.borrow(),
                        Standing::Opening(Some(known)) if *known == why
                    );
                    if is_news {
                        tracing::warn!(store = self.name, why, "store not open");
                    }
                    self.stand(Standing::Opening(Some(why)));
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn run(&self, opened: Opened) {
        let store = Rc::clone(&opened.store);
        rest::look_after(&store, Rc::clone(&opened.memory));
        self.stand(Standing::Open(opened));
        cache::tell_time(&store, self.clock);
        let halt = store.run().await;
        match halt {
            Halt::Closed => self.stand(Standing::Closed),
            Halt::Drive(drive, error) => {
                let failures = self.of_drives(FileDrive::failure);
                let why = if failures.is_empty() {
                    format!("drive {drive} of the store: {error}")
                } else {
                    failures.join("; ")
                };
                let why = format!(
                    "the store has stopped, since it lost the last copy of something: {why}. \
                     Mend that, then restart the gate: what was flushed is recovered"
                );
                tracing::error!(store = self.name, why, "store stopped");
                self.stand(Standing::Stopped(why));
            }
        }
    }

    fn stand(&self, standing: Standing) {
        self.standing.replace(standing);
        self.news.notify_waiters();
    }

    async fn attempt(&self) -> Result<Opened, String> {
        let begin = Instant::now();
        let mut drives = self.drives().await?;
        let nonce = fresh_nonce().map_err(|error| format!("no random numbers: {error}"))?;
        let tuning = Tuning { cache: cache::options(&self.source.cache), ..Tuning::default() };
        let allow_missing = self.source.degraded;
        let known = match &self.folder {
            Some(folder) => known_position(folder, &drives).await.map_err(|it| it.to_string())?,
            None => None,
        };
        let unix_time_s = unix_time_s();
        let options =
            OpenOptions { allow_missing, known, unix_time_s, tuning, ..OpenOptions::new(nonce) };
        let store = self.open_on(&mut drives, options).await;
        let mut store = store.map_err(|error| self.named(&error, &drives))?;
        for drive in store.rolled_back() {
            tracing::warn!(
                store = self.name,
                %drive,
                "the drive is an older image of itself; what it lacks is copied from the others"
            );
        }
        if let headers @ 1.. = store.restored_headers() {
            tracing::warn!(
                store = self.name,
                headers,
                "headers of records were damaged, and restored from the next: see to the drives"
            );
        }
        let cache = CacheDrive::open(&self.source.cache, self.means.kind, &mut store).await;
        let ms = begin.elapsed().as_millis();
        tracing::info!(store = self.name, ms, "open");
        let memory = Memory::begin(&self.name, &store, self.folder.as_deref());
        Ok(Opened { store: Rc::new(store), drives, cache, memory })
    }

    /// Opens the store; where it may be degraded, without drives that are none of it.
    async fn open_on(
        &self,
        drives: &mut Vec<Rc<FileDrive>>,
        options: OpenOptions,
    ) -> Result<FileStore, OpenError> {
        loop {
            let error = match Store::open(drives.clone(), options).await {
                Ok(store) => return Ok(store),
                Err(error) => error,
            };
            let is_no_member = match error {
                OpenError::NotAMember { defect, .. } => {
                    !matches!(defect, Defect::Version(_) | Defect::Features(_))
                }
                OpenError::Shrunk { .. } | OpenError::Unreadable { .. } => true,
                _ => false,
            };
            let position = error.position().filter(|_| is_no_member && self.source.degraded);
            let Some(position) = position.filter(|_| drives.len() > 1) else { return Err(error) };
            let path = drives.remove(position).path().display().to_string();
            tracing::warn!(store = self.name, path, %error, "going on without a drive");
        }
    }

    /// The error, with the path of the drive that it counts, or what else the operator can do.
    fn named(&self, error: &OpenError, drives: &[Rc<FileDrive>]) -> String {
        let failures = drives.iter().filter_map(|drive| drive.failure());
        match (error, &self.folder) {
            (OpenError::Missing(_), _) => {
                format!("{error}, or say `degraded = true` to go on without")
            }
            (OpenError::Older { known, .. }, Some(folder)) => {
                let path = position_path(folder, known.store);
                format!("{error}; or remove {} to go on with what is there", path.display())
            }
            // A store knows that a drive failed, and the drive why.
            (OpenError::Drive(..), _) if failures.clone().next().is_some() => {
                failures.collect::<Vec<_>>().join("; ")
            }
            _ => match error.position().and_then(|position| drives.get(position)) {
                Some(drive) => format!("{}: {error}", drive.path().display()),
                None => error.to_string(),
            },
        }
    }

    /// The drives, but for those that may be missing.
    async fn drives(&self) -> Result<Vec<Rc<FileDrive>>, String> {
        let how = OpenDrive {
            direct: self.source.direct,
            kind: self.means.kind,
            lock_patience: LOCK_PATIENCE,
            ..OpenDrive::default()
        };
        let paths = &self.source.drives;
        if !self.source.degraded {
            let drives = open_drives(paths, &how).await.map_err(|error| error.to_string())?;
            return drives.into_iter().map(|drive| self.furnished(drive)).collect();
        }
        refuse_twice(paths).map_err(|error| error.to_string())?;
        let mut drives = Vec::new();
        for path in paths {
            match FileDrive::open(path, &how).await {
                Ok(drive) => drives.push(self.furnished(drive)?),
                Err(error) if error.is_missing() => {
                    tracing::warn!(store = self.name, %error, "going on without a drive");
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(drives)
    }

    /// The drive, made to behave as the policy says.
    fn furnished(&self, drive: FileDrive) -> Result<Rc<FileDrive>, String> {
        if let Some(zoning) = drive.zoning() {
            let (path, emulated) = (drive.path().display(), drive.has_emulated_zones());
            let zone_bytes = zoning.zone_bytes;
            tracing::info!(store = self.name, %path, zone_bytes, emulated, "drive with zones");
        }
        let mut drive = self.emulated(drive)?;
        let Some(after) = self.source.power_down else { return Ok(Rc::new(drive)) };
        let path = drive.path().display().to_string();
        match drive.power_down(Duration::from_nanos(after.0)) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => tracing::warn!(store = self.name, path, why, "never powered down"),
            Err(error) => return Err(format!("drive {path}: {error}")),
        }
        Ok(Rc::new(drive))
    }

    /// The drive, made as slow as the policy says.
    fn emulated(&self, drive: FileDrive) -> Result<FileDrive, String> {
        let Some(name) = &self.source.emulate else { return Ok(drive) };
        let path = drive.path().to_owned();
        let failed = |why: String| format!("drive {}: {why}", path.display());
        // Drives of one model differ in what is drawn, and not from one start to the next.
        let seed = self.source.drives.iter().position(|it| *it == path).unwrap_or(0) as u64;
        let model = (self.means.models)(name, drive.geometry().size_bytes, seed).map_err(failed)?;
        let drive = drive.emulate(model).map_err(|error| failed(error.to_string()))?;
        tracing::info!(store = self.name, path = %path.display(), model = name, "emulated drive");
        Ok(drive)
    }

    /// Waits until the store is open or something is known to stand in the way.
    ///
    /// # Errors
    /// What stands in the way.
    pub(crate) async fn opened(&self) -> Result<(), String> {
        loop {
            let news = self.news.notified();
            match &*self.standing.borrow() {
                Standing::Open(..) => return Ok(()),
                Standing::Opening(Some(why)) | Standing::Stopped(why) => return Err(why.clone()),
                Standing::Closed => return Err("the gate is stopping".to_owned()),
                Standing::Opening(None) => {}
            }
            news.await;
        }
    }

    /// Makes everything durable and stops the store; nothing is left to recover.
    pub(crate) async fn close(&self) {
        self.is_closing.set(true);
        let Some(store) = self.store() else { return };
        if let Err(error) = store.close().await {
            tracing::warn!(store = self.name, %error, "not closed; the next start recovers it");
        }
        if let Standing::Open(opened) = &*self.standing.borrow() {
            opened.memory.note(&store);
        }
        // The drives are let go only when nobody asks them any more.
        self.stand(Standing::Closed);
    }

    /// The store, as soon as it is open; none if it never will be.
    pub(crate) async fn once_open(&self) -> Option<Rc<FileStore>> {
        loop {
            let news = self.news.notified();
            match &*self.standing.borrow() {
                Standing::Open(opened) => return Some(Rc::clone(&opened.store)),
                Standing::Stopped(_) | Standing::Closed => return None,
                Standing::Opening(_) => {}
            }
            news.await;
        }
    }

    fn store(&self) -> Option<Rc<FileStore>> {
        match &*self.standing.borrow() {
            Standing::Open(opened) => Some(Rc::clone(&opened.store)),
            _ => None,
        }
    }

    /// Its volumes and snapshots.
    ///
    /// # Errors
    /// [`VolumeError::NotOpen`].
    pub(crate) fn volumes(&self) -> Result<Vec<Volume>, VolumeError> {
        Ok(self.open_store()?.volumes())
    }

    /// Changes them; clients go on meanwhile.
    ///
    /// # Errors
    /// [`VolumeError`].
    pub(crate) async fn change_volume(&self, order: VolumeOrder) -> Result<Volume, VolumeError> {
        carry_out(&*self.open_store()?, order).await
    }

    fn open_store(&self) -> Result<Rc<FileStore>, VolumeError> {
        let why = || self.stopped_by().unwrap_or_default();
        self.store().ok_or_else(|| VolumeError::NotOpen(why()))
    }

    /// Why it serves nobody, if it does not.
    pub(crate) fn stopped_by(&self) -> Option<String> {
        match &*self.standing.borrow() {
            Standing::Open(..) => None,
            Standing::Opening(Some(why)) | Standing::Stopped(why) => Some(why.clone()),
            Standing::Opening(None) => Some("it is being recovered".to_owned()),
            Standing::Closed => Some("it is closed".to_owned()),
        }
    }

    /// What the operator should know of: why it serves nobody, or what it does without.
    pub(crate) fn trouble(&self) -> Option<String> {
        let mut troubles = self.of_drives(FileDrive::trouble);
        troubles.extend(self.damage_trouble());
        troubles.extend(self.cache_trouble());
        self.stopped_by().or_else(|| (!troubles.is_empty()).then(|| troubles.join("; ")))
    }

    /// What the drives say of themselves.
    fn of_drives(&self, what: fn(&FileDrive) -> Option<String>) -> Vec<String> {
        match &*self.standing.borrow() {
            Standing::Open(opened) => {
                opened.drives.iter().filter_map(|drive| what(drive)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What the drives have lost, or nearly.
    fn damage_trouble(&self) -> Option<String> {
        let StoreDamage { restored_headers, failed_reads, .. } = damage_of(&*self.store()?);
        let told = [
            (
                failed_reads,
                "reads that failed, of blocks that no drive can give any more (a scrub names them, \
                 and writing them anew makes them well)",
            ),
            (restored_headers, "damaged headers of records that were restored (see to the drives)"),
        ];
        let all = told.into_iter().filter(|(count, _)| *count > 0);
        all.map(|(count, what)| format!("{what}: {count}")).reduce(|a, b| format!("{a}; {b}"))
    }

    fn cache_trouble(&self) -> Option<String> {
        match &*self.standing.borrow() {
            Standing::Open(opened) => opened.cache.as_ref()?.trouble(&opened.store),
            _ => None,
        }
    }

    /// How it is doing, once it is open.
    pub(crate) fn report(&self) -> Option<StoreReport> {
        let standing = self.standing.borrow();
        let Standing::Open(Opened { store, drives, .. }) = &*standing else { return None };
        Some(StoreReport {
            telemetry: store.telemetry(),
            thin_segments: store.thin_segments(),
            damage: damage_of(store),
            cache: store.cache_status(),
            scrub: self.scrub.borrow().clone(),
            spindles: drives.iter().filter_map(|drive| drive.spindle()).collect(),
        })
    }

    /// How often acknowledged writes may have been lost so far: what no flush had covered is in
    /// doubt when the store stops, and it never goes on from there.
    pub(crate) fn losses(&self) -> u64 {
        u64::from(matches!(&*self.standing.borrow(), Standing::Stopped(_)))
    }
}

fn damage_of(store: &FileStore) -> StoreDamage {
    let counters = store.status().counters;
    StoreDamage {
        restored_headers: store.restored_headers() as u64,
        bad_copies: counters.bad_copies,
        failed_reads: counters.failed_reads,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use evenkeel_store::{Buffer, CreateOptions, Durability, create};
    use evenkeel_wire::nbd::proto::Extent;
    use tokio::task::spawn_local;

    use super::*;
    use crate::store::{block_on, fresh_uuid};

    async fn make(paths: &[PathBuf], copies: u8) {
        let how = OpenDrive { create_bytes: Some(16 << 20), ..OpenDrive::default() };
        let drives = open_drives(paths, &how).await.unwrap();
        let options = CreateOptions {
            store: fresh_uuid().unwrap(),
            drives: drives.iter().map(|_| fresh_uuid().unwrap()).collect(),
            copies,
            segment_bytes: 1 << 20,
            over_provisioning_percent: 25,
            volume_bytes: vec![2 << 20, 1 << 20],
        };
        create(&drives, &options).await.unwrap();
    }

    fn host(paths: &[PathBuf], degraded: bool) -> Rc<StoreHost> {
        let drives = paths.to_vec();
        let source = policy::Store { drives, degraded, ..policy::Store::default() };
        let means = Means { kind: DriveKind::Best, models: |_, _, _| Err("none".to_owned()) };
        let host = StoreHost::new("log", source, means, Clock::start(), None);
        spawn_local(Rc::clone(&host).keep());
        host
    }

    fn paths(folder: &tempfile::TempDir) -> Vec<PathBuf> {
        ["a", "b"].map(|name| folder.path().join(name)).into()
    }

    #[test]
    fn a_volume_reads_what_was_written_before_the_gate_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let paths = paths(&folder);
        block_on(async {
            make(&paths, 1).await;
            let first = host(&paths, false);
            first.opened().await.unwrap();
            let volume = StoreVolume::new(Rc::clone(&first), 1);
            assert_eq!(volume.features().unwrap().size_bytes, 1 << 20);
            let data = Buffer::copy_of(b"not even a sector");
            let write = Request::Write { data, durability: Durability::Volatile };
            volume.perform(4095, write).await.unwrap();
            let hole = Extent::HOLE | Extent::ZERO;
            let expected = [(8192, 0), ((1 << 20) - 8192, hole)];
            let expected = expected.map(|(length, flags)| Extent { length, flags });
            assert_eq!(volume.extents(0, 1 << 20).unwrap(), expected);
            let zeroes = Request::Trim { length_bytes: 8191, durability: Durability::Durable };
            volume.perform(1, zeroes).await.unwrap();
            first.close().await;
            assert!(volume.perform(0, Request::Flush).await.is_err());
            drop((first, volume));

            let again = host(&paths, false);
            again.opened().await.unwrap();
            let volume = StoreVolume::new(Rc::clone(&again), 1);
            let read = volume.perform(4094, Request::Read { length_bytes: 3 }).await.unwrap();
            assert_eq!(*read.unwrap(), *b"\0n\0", "a trim gives back whole blocks alone");
            let third = StoreVolume::new(Rc::clone(&again), 2);
            assert!(third.features().is_none());
            assert_eq!(third.missing(), "the store has no volume 2, but 0, 1");
            again.close().await;
        })
        .unwrap();
    }

    #[test]
    fn a_store_that_is_not_there_says_which_drive_and_comes_when_it_does() {
        let folder = tempfile::tempdir().unwrap();
        let paths = paths(&folder);
        block_on(async {
            let host = host(&paths, false);
            let why = host.opened().await.unwrap_err();
            assert!(why.contains("/a") && why.contains("make the store"), "{why}");
            File::create(&paths[0]).unwrap().set_len(1 << 20).unwrap();
            File::create(&paths[1]).unwrap().set_len(1 << 20).unwrap();
            while host.trouble().unwrap() == why {
                tokio::time::sleep(PAUSE_MIN).await;
            }
            let why = host.opened().await.unwrap_err();
            assert!(why.contains("/a") && why.contains("no superblock"), "{why}");
            for path in &paths {
                std::fs::remove_file(path).unwrap();
            }
            make(&paths, 1).await;
            while host.opened().await.is_err() {
                tokio::time::sleep(PAUSE_MIN).await;
            }
            host.close().await;
        })
        .unwrap();
    }

    #[test]
    fn a_mirror_starts_without_a_drive_if_it_may() {
        let gone = |path: &Path| std::fs::remove_file(path);
        let truncated = |path: &Path| File::options().write(true).open(path)?.set_len(1 << 20);
        let blank = |path: &Path| std::fs::write(path, vec![0; 16 << 20]);
        for spoil in [gone, truncated, blank] as [fn(&Path) -> io::Result<()>; 3] {
            let folder = tempfile::tempdir().unwrap();
            let paths = paths(&folder);
            block_on(async {
                make(&paths, 2).await;
                spoil(&paths[1]).unwrap();
                let strict = host(&paths, false);
                let why = strict.opened().await.unwrap_err();
                assert!(why.contains("/b"), "{why}");
                strict.close().await;
                let lenient = host(&paths, true);
                lenient.opened().await.unwrap();
                lenient.close().await;
            })
            .unwrap();
        }
    }
}
