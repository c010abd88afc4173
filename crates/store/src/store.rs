//! A store that is open: what clients call, and the one task that does the work behind it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use crate::buffer::Buffer;
use crate::cache::{Cache, CacheOptions, CacheStatus};
use crate::chain::Chain;
use crate::clean::Turns;
use crate::drive::Drive;
use crate::error::{Halt, StoreError};
use crate::log::Pending;
use crate::position::Position;
use crate::state::{Counters, State};
use crate::sync::{Lock, Ranges, Signal, first_of};
use crate::telemetry::Telemetry;
use crate::units::{Address, BLOCK_BYTES_U64, DriveIndex, Lsn, SegmentId, VolumeId};
use crate::volume::{Promises, VolumeKind};

/// An open store over drives of type `D`.
///
/// Its methods take `&self` and may be called at once by many tasks of one thread. They make
/// progress only while [`Store::run`] is polled. Dropping the future of a write does not take the
/// write back: it may or may not happen.
#[derive(Debug)]
pub struct Store<D> {
    pub(crate) chain: Chain<D>,
    pub(crate) state: RefCell<State>,
    pub(crate) tuning: Tuning,
    /// Changes that wait for a record.
    pub(crate) queue: RefCell<VecDeque<Pending>>,
    pub(crate) queued_blocks: Cell<usize>,
    /// In seconds since 1970.
    pub(crate) unix_time_s: Cell<u64>,
    /// Whether an empty record is asked for.
    pub(crate) wants_mark: Cell<bool>,
    /// The queue has room again.
    pub(crate) room: Signal,
    /// Anything else has changed.
    pub(crate) changed: Signal,
    pub(crate) ranges: Rc<Ranges>,
    pub(crate) promises: Rc<Promises>,
    /// Held while a superblock is written.
    pub(crate) superblock: Lock,
    /// Checkpoints that were asked for and completed.
    pub(crate) wanted_checkpoints: Cell<u64>,
    pub(crate) made_checkpoints: Cell<u64>,
    /// When the cleaner may use the drives.
    pub(crate) turns: Turns,
    /// Reads of clients that are under way.
    pub(crate) readers: Cell<u32>,
    pub(crate) cache: Option<Cache<D>>,
    /// Headers that were damaged on all copies, and restored from the next ones.
    pub(crate) restored_headers: Cell<usize>,
    /// Drives that were older images of themselves.
    pub(crate) rolled_back: RefCell<BTreeSet<DriveIndex>>,
    /// The first record of a segment of which a copy is torn and cannot be mended, while the store
    /// is recovered.
    pub(crate) torn: RefCell<BTreeMap<SegmentId, Address>>,
    /// Blocks whose other copy a power cut has torn where it cannot be mended, until they have two
    /// copies again.
    pub(crate) rescued: RefCell<BTreeMap<Address, Buffer>>,
}

/// What may differ from mount to mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Records that are written at once at most; more clients than that share records.
    pub commit_depth: usize,
    /// Where the cleaner writes what it moves.
    pub cleaning: Cleaning,
    /// What is kept in memory and on a cache drive; nothing unless asked for.
    pub cache: CacheOptions,
    /// Bytes that the cleaner reads before it writes them again; less than 256 KiB count as that.
    /// The more, the less its drives go back and forth; the longer readers wait behind it.
    pub cleaning_quantum_bytes: usize,
    /// Cleans in advance while less than this percent of all segments is free; 0 cleans only when
    /// clients would soon run out of room.
    pub clean_ahead_percent: u8,
    /// Segments in a row for which the tail stays on the same drives, at least one. The more, the
    /// longer the other drives are the cleaner's and the readers' alone.
    pub epoch_segments: u32,
    /// Bytes of log that clients may write behind a checkpoint, and the cleaner half as many: the
    /// fewer, the more checkpoints, the less a mount has to look through. At least one segment.
    pub log_bytes: u64,
    /// Bytes of records that are in effect and not known to be durable, from which on the store
    /// flushes by itself; there are never more than twice so many. The next mount reads all of
    /// them. Short records count for more than they have.
    pub volatile_bytes: u64,
    /// Blocks with a bad copy that are noted at a time, to be written anew: some 3 MiB of memory
    /// for each 65,536, which are 256 MiB of data. What is found beyond is counted.
    pub noted_blocks_max: usize,
}

/// Where the cleaner writes what it moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cleaning {
    /// To segments of its own, on other drives than the tail if there are any.
    #[default]
    CompactInBody,
    /// To the tail, between the clients' records.
    MoveToTail,
}

/// How a store is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The last record that was acknowledged.
    pub lsn: Lsn,
    /// The last record that is known to be durable.
    pub durable: Lsn,
    /// Segments that can be staged for writing at the next checkpoint.
    pub free_segments: usize,
    /// Segments that clients' records may go to before it.
    pub runway_segments: usize,
    /// Whether segments lack a copy that is being made.
    pub is_mending: bool,
    /// Segments that have fewer copies than the store is to have, those included that only the
    /// last checkpoint needs. At zero, any one drive of a mirrored store can be taken away.
    pub thin_segments: usize,
    /// Bytes that are promised to nobody: what new volumes, snapshots of provisioned ones, and thin
    /// volumes can still take.
    pub free_bytes: u64,
    /// Bytes of memory that the map takes.
    pub map_bytes: usize,
    /// Why the store stopped, if it did.
    pub halted: Option<Halt>,
    /// What was done since it was opened.
    pub counters: Counters,
    /// What it costs, and how full it is.
    pub telemetry: Telemetry,
    /// How the cache is doing, if there is one.
    pub cache: Option<CacheStatus>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            commit_depth: 2,
            cleaning: Cleaning::default(),
            cleaning_quantum_bytes: 1 << 20,
            clean_ahead_percent: 0,
            epoch_segments: 16,
            log_bytes: 1 << 30,
            volatile_bytes: 64 << 20,
            noted_blocks_max: 1 << 16,
            cache: CacheOptions::default(),
        }
    }
}

impl<D: Drive> Store<D> {
    pub(crate) fn new(chain: Chain<D>, mut state: State, tuning: Tuning) -> Self {
        state.space.keep_tail_for(tuning.epoch_segments);
        state.log_bytes = tuning.log_bytes;
        Self {
            chain,
            state: RefCell::new(state),
            tuning,
            queue: RefCell::new(VecDeque::new()),
            queued_blocks: Cell::new(0),
            unix_time_s: Cell::new(0),
            wants_mark: Cell::new(false),
            room: Signal::default(),
            changed: Signal::default(),
            ranges: Rc::new(Ranges::default()),
            promises: Rc::default(),
            superblock: Lock::default(),
            wanted_checkpoints: Cell::new(0),
            made_checkpoints: Cell::new(0),
            turns: Turns::default(),
            readers: Cell::new(0),
            cache: None,
            restored_headers: Cell::new(0),
            rolled_back: RefCell::default(),
            torn: RefCell::default(),
            rescued: RefCell::default(),
        }
    }

    /// Writes the clients' records, cleans, and makes checkpoints, until the store stops; gives the
    /// reason. It is polled by one task for as long as the store is open.
    pub async fn run(&self) -> Halt {
        // Boxed, since what they wait for is large, and callers keep the whole of it by value.
        let house = Box::pin(first_of(self.maintain(), self.keep_durable()));
        first_of(first_of(self.commit(), house), self.write_cache()).await;
        self.drain();
        self.state.borrow().halted.expect("both end only when the store has stopped")
    }

    /// Makes everything durable, with nothing to replay at the next mount, and stops the store.
    ///
    /// # Errors
    /// [`StoreError::Halted`] if the store has stopped before.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.checkpoint().await?;
        self.halt(Halt::Closed);
        Ok(())
    }

    /// Makes everything durable that was acknowledged, with little to replay at the next mount.
    ///
    /// # Errors
    /// [`StoreError::Halted`] if the store has stopped.
    pub async fn checkpoint(&self) -> Result<(), StoreError> {
        let wanted = self.wanted_checkpoints.get() + 1;
        self.wanted_checkpoints.set(wanted);
        self.changed.notify();
        self.changed
            .until(|| match self.state.borrow().halted {
                Some(halt) => Some(Err(StoreError::Halted(halt))),
                None => (self.made_checkpoints.get() >= wanted).then_some(Ok(())),
            })
            .await
    }

    /// Whether all copies of a block lie on drives that clients' records are being written to now,
    /// so that reading it would disturb the tail. A block that was never written lies nowhere.
    pub fn is_on_tail(&self, volume: VolumeId, block: u64) -> bool {
        let state = self.state.borrow();
        let entry = state.map.at(volume, block);
        entry.is_some_and(|entry| state.space.is_on_tail(state.space.locate(entry.address).0))
    }

    /// What the store costs and how full it is. Cheaper than [`Self::status`], which walks the map.
    pub fn telemetry(&self) -> Telemetry {
        Telemetry::of(&self.chain, &self.state.borrow())
    }

    /// How the cache is doing, if there is one.
    pub fn cache_status(&self) -> Option<CacheStatus> {
        self.cache.as_ref().map(Cache::status)
    }

    /// Tells the store what time it is, in seconds since 1970. It stands in the superblocks, for
    /// people who have to tell drives apart.
    pub fn set_unix_time(&self, seconds: u64) {
        self.unix_time_s.set(seconds);
    }

    /// How far the store is, to be remembered outside its drives; see [`Position`].
    pub fn position(&self) -> Position {
        let state = self.state.borrow();
        Position { store: state.superblock.store, mount: state.mount, durable: state.durable }
    }

    /// See [`Status::thin_segments`].
    pub fn thin_segments(&self) -> usize {
        self.state.borrow().space.thin_segments()
    }

    /// Drives that were found to be older images of themselves when the store was opened. They are
    /// brought up to date, see [`Status::thin_segments`].
    pub fn rolled_back(&self) -> Vec<DriveIndex> {
        self.rolled_back.borrow().iter().copied().collect()
    }

    /// Headers of records that were damaged on all copies when the store was opened, and restored
    /// from the headers of the next records: a drive has bad sectors.
    pub fn restored_headers(&self) -> usize {
        self.restored_headers.get()
    }

    pub(crate) fn note_rolled_back(&self, drive: DriveIndex) {
        self.rolled_back.borrow_mut().insert(drive);
    }

    /// How the store is doing.
    pub fn status(&self) -> Status {
        let state = self.state.borrow();
        Status {
            lsn: state.applied,
            durable: state.durable,
            free_segments: state.space.supply_segments(),
            runway_segments: state.space.runway_segments(crate::format::record::Kind::User),
            is_mending: state.space.is_thin() || !state.mending.is_empty(),
            thin_segments: self.thin_segments(),
            free_bytes: state.free_blocks(&self.promises) * BLOCK_BYTES_U64,
            map_bytes: state.map.memory_bytes(),
            halted: state.halted,
            counters: state.counters,
            telemetry: Telemetry::of(&self.chain, &state),
            cache: self.cache_status(),
        }
    }

    /// Stops the store for good; everyone who waits is told.
    pub(crate) fn halt(&self, halt: Halt) {
        self.state.borrow_mut().halted.get_or_insert(halt);
        self.drain();
        self.room.notify();
        self.turns.notify();
        self.changed.notify();
    }

    /// Tells those whose changes wait for a record that the store has stopped.
    fn drain(&self) {
        let Some(halt) = self.state.borrow().halted else { return };
        for pending in self.queue.take() {
            pending.done.set(Err(StoreError::Halted(halt)));
        }
        self.queued_blocks.set(0);
    }

    pub(crate) fn check_running(&self) -> Result<(), StoreError> {
        match self.state.borrow().halted {
            Some(halt) => Err(StoreError::Halted(halt)),
            None => Ok(()),
        }
    }

    /// Refuses to change a snapshot.
    pub(crate) fn check_writable(&self, volume: VolumeId) -> Result<(), StoreError> {
        let state = self.state.borrow();
        let is_snapshot =
            state.volumes.get(&volume).is_some_and(|row| row.kind == VolumeKind::Snapshot);
        if is_snapshot { Err(StoreError::ReadOnly(volume)) } else { Ok(()) }
    }

    /// Refuses a range that is not within its volume.
    pub(crate) fn check_range(
        &self,
        volume: VolumeId,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), StoreError> {
        self.check_running()?;
        let state = self.state.borrow();
        let row = state.volumes.get(&volume).ok_or(StoreError::UnknownVolume(volume))?;
        let size_bytes = row.blocks * BLOCK_BYTES_U64;
        match offset_bytes.checked_add(length_bytes) {
            Some(end) if end <= size_bytes => Ok(()),
            _ => Err(StoreError::OutOfRange { size_bytes }),
        }
    }
}
