//! The store itself, as the crash tests see it.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_sim::disk::{CrashDisk, SimDrive};
use evenkeel_sim::executor::Clock;
use evenkeel_store::{
    Buffer, CacheError, CreateOptions, DriveShape, Durability, Nonce, OpenOptions, Position,
    Provision, Rules, Shrink, Store, StoreError, Tuning, Uuid, VolumeId, VolumeKind, Zoning,
    create, possible_bytes,
};

use super::history::{Space, World};
use super::stamp::{Author, CELL_BYTES, authors, paint};
use super::subject::{Act, Answer, Subject};

/// What a store of these tests is made of.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// What the store's random names are made of.
    pub(crate) name: u8,
    pub(crate) drives: usize,
    pub(crate) copies: u8,
    pub(crate) segment_bytes: u64,
    /// Bytes of volume 0, the only one.
    pub(crate) volume_bytes: u64,
    /// Segments that each drive has beyond what the volume needs.
    pub(crate) spare_segments: u64,
    pub(crate) tuning: Tuning,
    pub(crate) rules: Rules,
    /// Whether the drives have zones, each of which holds a segment and a little more.
    pub(crate) is_zoned: bool,
    /// Whether to open without drives that are not there.
    pub(crate) allow_missing: bool,
    /// How far the store was, as is remembered outside its drives.
    pub(crate) known: Option<Position>,
    /// Whether tidying up begins with a scrub.
    pub(crate) scrubs: bool,
    /// Blocks of the cache drive, the last one of the machine; zero for none.
    pub(crate) cache_blocks: u64,
    pub(crate) mounts: Mounts,
}

/// The nonces of mounts, which a real machine draws at random: no two are alike, whoever has a
/// clone of the setup.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts(Rc<Cell<u64>>);

impl Mounts {
    fn next(&self) -> Nonce {
        self.0.set(self.0.get() + 1);
        Nonce(self.0.get())
    }
}

impl Setup {
    /// So many drives with so many copies; as small as a store can be.
    pub(crate) fn tiny(drives: usize, copies: u8) -> Self {
        Self {
            name: 0x50,
            drives,
            copies,
            segment_bytes: 64 << 10,
            volume_bytes: 24 * 4096,
            spare_segments: 0,
            tuning: Tuning::default(),
            rules: Rules::default(),
            is_zoned: false,
            allow_missing: false,
            known: None,
            scrubs: false,
            cache_blocks: 0,
            mounts: Mounts::default(),
        }
    }

    /// The same on drives with zones.
    pub(crate) fn zoned(drives: usize, copies: u8) -> Self {
        Self { is_zoned: true, ..Self::tiny(drives, copies) }
    }

    /// So many conventional zones, and as few open ones as a store can do with.
    fn zoning(&self, conventional_zones: u32) -> Zoning {
        Zoning {
            zone_bytes: self.segment_bytes + 4 * 4096,
            capacity_bytes: self.segment_bytes + 4096,
            conventional_zones,
            open_zones_max: Some(4),
        }
    }

    /// The smallest drive of which as many as there are hold the volume.
    fn least_shape(&self) -> DriveShape {
        let holds = |shape: DriveShape| {
            let possible = possible_bytes(&vec![shape; self.drives], &self.options());
            possible.is_ok_and(|bytes| bytes >= self.volume_bytes)
        };
        let plain = |segments| DriveShape::from(segments * self.segment_bytes);
        let zoned = |zones: u32| {
            // A quarter of the smallest drives is taken by their areas.
            let zoning = self.zoning(zones.div_ceil(4));
            let size_bytes = u64::from(zones) * zoning.zone_bytes;
            DriveShape { size_bytes, zoning: Some(zoning) }
        };
        let shape = if self.is_zoned {
            (1..1000).map(zoned).find(|&shape| holds(shape))
        } else {
            (1..1000).map(plain).find(|&shape| holds(shape))
        };
        shape.expect("some drive is large enough")
    }

    pub(crate) fn open_options(&self) -> OpenOptions {
        let Self { tuning, rules, allow_missing, known, .. } = *self;
        OpenOptions { tuning, rules, allow_missing, known, ..OpenOptions::new(self.mounts.next()) }
    }

    pub(crate) fn options(&self) -> CreateOptions {
        CreateOptions {
            store: Uuid([self.name; 16]),
            drives: (self.name + 1..).take(self.drives).map(|name| Uuid([name; 16])).collect(),
            copies: self.copies,
            segment_bytes: self.segment_bytes,
            over_provisioning_percent: 10,
            volume_bytes: vec![self.volume_bytes],
        }
    }
}

/// A store that is open, with the task that works behind it.
pub(crate) struct Real {
    pub(crate) store: Rc<Store<SimDrive>>,
    scrubs: bool,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn bytes(cells: u32) -> u64 {
    u64::from(cells) * CELL_BYTES as u64
}

impl Real {
    /// Has an open store do its work.
    pub(crate) fn start(store: Store<SimDrive>, setup: &Setup, clock: &Clock) -> Rc<Self> {
        let (store, scrubs) = (Rc::new(store), setup.scrubs);
        let worker = Rc::clone(&store);
        clock.spawn(async move {
            worker.run().await;
        });
        Rc::new(Self { store, scrubs })
    }

    async fn tidy(&self) -> Result<(), StoreError> {
        if self.scrubs {
            let mut scrub = self.store.scrub();
            while scrub.step().await?.is_some() {}
        }
        self.store.checkpoint().await
    }

    /// Who wrote each of these cells of volume 0.
    pub(crate) async fn read(&self, first: u32, cells: u32) -> Result<Vec<Author>, String> {
        self.try_read(first, cells).await.map_err(text)?
    }

    /// Does what a client asks. There is no refusing it the room of volume 0, which has its own.
    async fn attempt(&self, act: &Act) -> Result<(), StoreError> {
        let durability = if act.is_barrier() { Durability::Durable } else { Durability::Volatile };
        match *act {
            Act::Paint { space, first, cells, author: 0, .. }
            | Act::Discard { space, first, cells } => {
                let (first, length) = (bytes(first), bytes(cells));
                self.store.write_zeroes(self.volume(space), first, length, durability).await
            }
            Act::Paint { space, first, cells, author, .. } => {
                let data = Buffer::copy_of(&paint(author, first, cells));
                let volume = self.volume(space);
                let outcome = self.store.write(volume, bytes(first), data, durability).await;
                let is_full = matches!(outcome, Err(StoreError::NoRoom { .. }));
                assert!(!is_full || space > 0, "a provisioned volume has its room");
                outcome
            }
            Act::Flush => self.store.flush().await,
            Act::Tidy => self.tidy().await,
            Act::Rest => self.store.mark_tail().await,
            Act::Copy(of) => match self.store.snapshot(self.volume(of)).await {
                Err(StoreError::ReadOnly(of)) => {
                    self.store.clone_volume(of, Provision::Thin).await.map(drop)
                }
                outcome => outcome.map(drop),
            },
            Act::RollBack { space, to } => {
                self.store.roll_back(self.volume(space), self.volume(to)).await
            }
            Act::Delete(space) => self.store.delete_volume(self.volume(space)).await,
            Act::Create { cells, is_thin } => {
                let provision = if is_thin { Provision::Thin } else { Provision::Full };
                self.store.create_volume(bytes(cells), provision).await.map(drop)
            }
            Act::Resize { space, cells } => {
                let volume = self.volume(space);
                self.store.resize_volume(volume, bytes(cells), Shrink::Discard).await
            }
        }
    }

    /// The number that the store has for a space; one that nobody has if there is no such space.
    fn volume(&self, space: Space) -> VolumeId {
        let volumes = self.store.volumes();
        volumes.get(space as usize).map_or(VolumeId(u32::MAX), |volume| volume.id)
    }

    /// The same, with the store's errors apart from what is wrong with its answers.
    pub(crate) async fn try_read(
        &self,
        first: u32,
        cells: u32,
    ) -> Result<Result<Vec<Author>, String>, StoreError> {
        let length = cells as usize * CELL_BYTES;
        let bytes = self.store.read(VolumeId(0), bytes(first), length).await?;
        Ok(authors(first, &bytes))
    }
}

/// Whatever is wrong with the cache drive, the store goes without it.
async fn add_cache(store: &mut Store<SimDrive>, drive: SimDrive) {
    if let Err(CacheError::NotACache(_)) = store.add_cache_drive(drive.clone()).await
        && store.format_cache_drive(&drive).await.is_ok()
    {
        let _ = store.add_cache_drive(drive).await;
    }
}

/// Cells of a block.
pub(crate) const BLOCK_CELLS: u32 = 8;

/// What is read of each block; nothing of one that is named as unreadable.
pub(crate) type Found = Vec<Option<Vec<Author>>>;

/// Whether this is what is found, but for the blocks that are unreadable.
pub(crate) fn is_found(world: &World, found: &[Option<Vec<Author>>]) -> bool {
    let image = world.spaces[&0].chunks_exact(BLOCK_CELLS as usize);
    image.zip(found).all(|(cells, found)| found.as_ref().is_none_or(|found| found == cells))
}

impl Real {
    /// Reads the first blocks of volume 0, one by one.
    ///
    /// # Errors
    /// Any but that a block is unreadable; cells that nobody wrote.
    pub(crate) async fn read_blocks(&self, blocks: u32) -> Result<Found, String> {
        let mut found = Vec::new();
        for block in 0..blocks {
            found.push(match self.try_read(block * BLOCK_CELLS, BLOCK_CELLS).await {
                Ok(cells) => Some(cells?),
                Err(StoreError::Unreadable { .. }) => None,
                Err(error) => return Err(text(error)),
            });
        }
        Ok(found)
    }
}

impl Subject for Real {
    type Setup = Setup;

    async fn format(setup: Setup, mut drives: Vec<SimDrive>) -> Result<(), String> {
        drives.truncate(setup.drives);
        create(&drives, &setup.options()).await.map_err(text)
    }

    async fn open(
        setup: Setup,
        mut drives: Vec<SimDrive>,
        clock: Clock,
    ) -> Result<Rc<Self>, String> {
        let has_cache = setup.cache_blocks > 0 && drives.len() > setup.drives;
        let cache_drive = if has_cache { drives.pop() } else { None };
        let mut store = Store::open(drives, setup.open_options()).await.map_err(text)?;
        if let Some(drive) = cache_drive {
            add_cache(&mut store, drive).await;
        }
        Ok(Self::start(store, &setup, &clock))
    }

    async fn perform(&self, act: &Act) -> Result<Answer, String> {
        match self.attempt(act).await {
            Ok(()) => Ok(Answer::Done),
            Err(
                StoreError::NoRoom { .. }
                | StoreError::MapFull
                | StoreError::UnknownVolume(_)
                | StoreError::ReadOnly(_)
                | StoreError::OutOfRange { .. }
                | StoreError::NotASnapshot(_),
            ) => Ok(Answer::Refused),
            Err(error) => Err(text(error)),
        }
    }

    async fn contents(&self) -> Result<World, String> {
        let mut world = World::default();
        for (space, volume) in (0..).zip(self.store.volumes()) {
            let length = usize::try_from(volume.size_bytes).map_err(text)?;
            let bytes = self.store.read(volume.id, 0, length).await.map_err(text)?;
            world.spaces.insert(space, Rc::new(authors(0, &bytes)?));
            if volume.kind == VolumeKind::Snapshot {
                world.snapshots.insert(space);
            }
        }
        Ok(world)
    }

    fn blank(setup: &Setup) -> World {
        let cells = setup.volume_bytes / CELL_BYTES as u64;
        World::of(&[(0, u32::try_from(cells).expect("a small volume"))])
    }

    fn atomic_cells(setup: &Setup) -> u32 {
        let bytes = (setup.segment_bytes - 2 * 4096).min(1 << 20);
        u32::try_from(bytes / CELL_BYTES as u64).expect("at most a mebibyte")
    }

    /// The smallest drives that hold the volume, and what is to spare.
    fn drives(setup: &Setup) -> Vec<CrashDisk> {
        let DriveShape { size_bytes, zoning } = setup.least_shape();
        let slot_bytes = zoning.map_or(setup.segment_bytes, |zoning| zoning.zone_bytes);
        let disk = CrashDisk::new(size_bytes + setup.spare_segments * slot_bytes);
        let disk = match zoning {
            Some(zoning) => disk.with_zones(zoning),
            None => disk,
        };
        let cache_bytes = setup.cache_blocks * 4096;
        let cache_drive = (cache_bytes > 0).then(|| CrashDisk::new(cache_bytes));
        std::iter::repeat_n(disk, setup.drives).chain(cache_drive).collect()
    }
}
