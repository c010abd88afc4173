//! The cache drive: its label, its regions, and the task that writes them.
//!
//! ```text
//! | label | label | - | region 0 | region 1 | ..      a region begins at a multiple of its size
//! ```
//!
//! Nothing is read from it that was not written in this mount, and nothing it gives is believed
//! unless it matches the map. So it may lie, lose its cache in a power cut, or vanish: reads then
//! go to the drives. That it begins empty after each mount is the price for keeping no index on it;
//! an index would have to be written with each region, read back, and held against the map, to save
//! what a day's reads bring in again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_core::time::Nanos;

use super::contents::{Contents, Sealed};
use super::flash::{FlashBlock, FlashMeasures, Region};
use super::options::{CacheError, CacheOptions, REGIONS_MIN};
use super::policy::CacheCounters;
use super::wear::{Endurance, WearReport};
use crate::buffer::Buffer;
use crate::drive::{Drive, DriveError, Durability};
use crate::format::Defect;
use crate::format::cache::CacheLabel;
use crate::store::Store;
use crate::sync::Signal;
use crate::units::{BLOCK_BYTES, BLOCK_BYTES_U64};

/// The cache of a store.
#[derive(Debug)]
pub(crate) struct Cache<D> {
    /// The table of segments has it too, and tells it which blocks die.
    pub(crate) contents: Rc<RefCell<Contents>>,
    pub(crate) drive: Option<CacheDrive<D>>,
    pub(crate) now: Cell<Nanos>,
    memory_bytes: usize,
    /// A region is full.
    pub(crate) sealed: Signal,
}

/// The cache drive. See the [module](self).
#[derive(Debug)]
pub(crate) struct CacheDrive<D> {
    drive: D,
    measures: FlashMeasures,
    label: Cell<CacheLabel>,
    /// Bytes written in the life of the drive.
    written_bytes: Cell<u64>,
}

/// How the cache of a store is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// What it did since the store was opened.
    pub counters: CacheCounters,
    /// Bytes of memory that it may take.
    pub memory_bytes: usize,
    /// Bytes of the cache drive that it uses; zero if there is none, or it failed.
    pub flash_bytes: u64,
    /// How worn the cache drive is.
    pub wear: WearReport,
}

/// Regions that a label is written ahead of. So the books never say too little, and too much by no
/// more than this for each mount.
const REGIONS_BOOKED: u64 = 256;

impl<D: Drive> Store<D> {
    /// Makes a drive a cache drive of this store, over whatever is on it. The drive's wear stays on
    /// its books if it was a cache drive before.
    ///
    /// # Errors
    /// [`CacheError::TooSmall`], or the drive's.
    pub async fn format_cache_drive(&self, drive: &D) -> Result<(), CacheError> {
        let store = self.state.borrow().superblock.store;
        regions(drive, &self.tuning.cache)?;
        let before = read_label(drive).await?.ok();
        let (sequence, written_bytes_max) =
            before.map_or((0, 0), |label| (label.sequence, label.written_bytes_max));
        for next in 1..=2 {
            let label = CacheLabel { store, sequence: sequence + next, written_bytes_max };
            write_label(drive, label).await.map_err(CacheError::Drive)?;
        }
        Ok(())
    }

    /// Begins to use a cache drive. The cache starts empty.
    ///
    /// # Errors
    /// [`CacheError`]; the store goes on as it was.
    pub async fn add_cache_drive(&mut self, drive: D) -> Result<(), CacheError> {
        let options = self.tuning.cache;
        let store = self.state.borrow().superblock.store;
        let flash = options.flash(regions(&drive, &options)?)?;
        let label = read_label(&drive).await?.map_err(CacheError::NotACache)?;
        if label.store != store {
            return Err(CacheError::Foreign(label.store));
        }
        let cache_drive = CacheDrive {
            drive,
            measures: flash,
            label: Cell::new(label),
            written_bytes: Cell::new(label.written_bytes_max),
        };
        self.use_cache(Some(cache_drive))
    }

    /// Gives the store the cache that its options ask for, if any.
    pub(crate) fn use_cache(&mut self, drive: Option<CacheDrive<D>>) -> Result<(), CacheError> {
        let options = self.tuning.cache;
        options.check()?;
        if options.memory_bytes == 0 && drive.is_none() {
            return Ok(());
        }
        let measures = options.measures(drive.as_ref().map(|drive| drive.measures))?;
        let endurance = drive.as_ref().map(|drive| Endurance {
            endurance_bytes: options.endurance_bytes,
            written_before_bytes: drive.written_bytes.get(),
            budget_bytes_per_day: options.budget_bytes_per_day,
        });
        let now = self.cache.as_ref().map_or(Nanos::ZERO, |cache| cache.now.get());
        let contents = Contents::new(now, measures, endurance.unwrap_or_default());
        let contents = Rc::new(RefCell::new(contents));
        self.state.borrow_mut().space.tell_deaths_to(Rc::clone(&contents));
        self.cache = Some(Cache {
            contents,
            drive,
            now: Cell::new(now),
            memory_bytes: options.memory_bytes,
            sealed: Signal::default(),
        });
        Ok(())
    }

    /// Tells the store what time it is, on any clock that only goes forward. The cache's budget and
    /// forecast are all that need it.
    pub fn set_time(&self, now: Nanos) {
        if let Some(cache) = &self.cache {
            cache.now.set(now.max(cache.now.get()));
        }
    }

    /// Writes full regions to the cache drive, for as long as the store is open.
    pub(crate) async fn write_cache<T>(&self) -> T {
        let Some(cache) = &self.cache else { return std::future::pending().await };
        let Some(drive) = &cache.drive else { return std::future::pending().await };
        loop {
            let next = || cache.contents.borrow().next_sealed();
            let sealed = cache.sealed.until(next).await;
            match cache.write(drive, &sealed).await {
                Ok(()) => cache.contents.borrow_mut().written(sealed.region),
                Err(_) => cache.contents.borrow_mut().lose_flash(),
            }
        }
    }
}

impl<D> Cache<D> {
    pub(crate) fn status(&self) -> CacheStatus {
        let contents = self.contents.borrow();
        let blocks = contents.flash().map_or(0, FlashMeasures::blocks);
        CacheStatus {
            counters: contents.counters(),
            memory_bytes: self.memory_bytes,
            flash_bytes: blocks as u64 * BLOCK_BYTES_U64,
            wear: contents.wear(self.now.get()),
        }
    }
}

impl<D: Drive> Cache<D> {
    /// Writes a full region, when nobody reads it any more.
    async fn write(&self, drive: &CacheDrive<D>, sealed: &Sealed) -> Result<(), DriveError> {
        let data = self.completed(drive, sealed).await?;
        let is_quiet = || (!self.contents.borrow().is_being_read(sealed.region)).then_some(());
        self.sealed.until(is_quiet).await;
        drive.write(sealed.region, data).await
    }

    /// A region with what stays in it, which is read back. It is not looked at: whoever reads it
    /// holds it against the map.
    async fn completed(
        &self,
        drive: &CacheDrive<D>,
        sealed: &Sealed,
    ) -> Result<Vec<Buffer>, DriveError> {
        if sealed.kept.is_empty() {
            return Ok(vec![sealed.bytes.clone()]);
        }
        match drive.read_region(sealed.region).await {
            Ok(before) => {
                self.contents.borrow_mut().note_read_back(sealed.region, &before);
                Ok(sealed.over(&before))
            }
            Err(DriveError::Medium) => {
                self.contents.borrow_mut().lose_kept(sealed);
                Ok(vec![sealed.bytes.clone()])
            }
            Err(error) => Err(error),
        }
    }
}

impl<D: Drive> CacheDrive<D> {
    /// Blocks in a row.
    pub(crate) async fn read(
        &self,
        first: FlashBlock,
        blocks: usize,
    ) -> Result<Buffer, DriveError> {
        let (region, within) = self.measures.locate(first);
        let offset = self.offset_bytes(region) + u64::from(within) * BLOCK_BYTES_U64;
        self.drive.read(offset, blocks * BLOCK_BYTES).await
    }

    async fn read_region(&self, region: Region) -> Result<Buffer, DriveError> {
        let length = self.measures.region_blocks as usize * BLOCK_BYTES;
        self.drive.read(self.offset_bytes(region), length).await
    }

    async fn write(&self, region: Region, data: Vec<Buffer>) -> Result<(), DriveError> {
        let region_bytes = u64::from(self.measures.region_blocks) * BLOCK_BYTES_U64;
        let written_bytes = self.written_bytes.get() + region_bytes;
        let label = self.label.get();
        if written_bytes > label.written_bytes_max {
            let ahead = (REGIONS_BOOKED - 1) * region_bytes;
            let sequence = label.sequence + 1;
            let label = CacheLabel { sequence, written_bytes_max: written_bytes + ahead, ..label };
            write_label(&self.drive, label).await?;
            self.label.set(label);
        }
        self.written_bytes.set(written_bytes);
        self.drive.write(self.offset_bytes(region), data, Durability::Volatile).await
    }

    fn offset_bytes(&self, region: Region) -> u64 {
        let region_bytes = u64::from(self.measures.region_blocks) * BLOCK_BYTES_U64;
        first_region_bytes(region_bytes) + u64::from(region.0) * region_bytes
    }
}

/// Where regions begin: behind the two labels.
fn first_region_bytes(region_bytes: u64) -> u64 {
    (2 * BLOCK_BYTES_U64).next_multiple_of(region_bytes)
}

/// Regions that a drive has room for.
fn regions<D: Drive>(drive: &D, options: &CacheOptions) -> Result<u64, CacheError> {
    options.check()?;
    if drive.zoning().is_some() {
        return Err(CacheError::Zoned);
    }
    let region_bytes = u64::from(options.region_blocks) * BLOCK_BYTES_U64;
    let first_bytes = first_region_bytes(region_bytes);
    let regions = drive.geometry().size_bytes.saturating_sub(first_bytes) / region_bytes;
    if regions < u64::from(REGIONS_MIN) {
        let needed_bytes = first_bytes + u64::from(REGIONS_MIN) * region_bytes;
        return Err(CacheError::TooSmall { needed_bytes });
    }
    Ok(regions)
}

/// The label of a cache drive, the newer one of the two; or what is wrong with the first.
///
/// # Errors
/// [`CacheError::Drive`].
pub async fn read_label<D: Drive>(drive: &D) -> Result<Result<CacheLabel, Defect>, CacheError> {
    let mut newest: Result<CacheLabel, Defect> = Err(Defect::Truncated);
    for block in [1, 0] {
        let label = match drive.read(block * BLOCK_BYTES_U64, BLOCK_BYTES).await {
            Ok(bytes) => CacheLabel::decode(&bytes),
            Err(DriveError::Medium) => continue,
            Err(error) => return Err(CacheError::Drive(error)),
        };
        newest = match (newest, label) {
            (Ok(known), Ok(found)) if known.sequence >= found.sequence => Ok(known),
            (Ok(known), Err(_)) => Ok(known),
            (_, found) => found,
        };
    }
    Ok(newest)
}

async fn write_label<D: Drive>(drive: &D, label: CacheLabel) -> Result<(), DriveError> {
    let block = Buffer::copy_of(&label.encode());
    drive.write(label.sequence % 2 * BLOCK_BYTES_U64, vec![block], Durability::Volatile).await?;
    drive.flush().await
}
