//! Making, resizing, copying and deleting volumes.
//!
//! Each is one change in the log. It waits until nothing of the volume is under way and keeps new
//! changes of it waiting meanwhile, so that a snapshot holds exactly what was acknowledged before
//! it, and nothing of what is asked for behind it.

use super::room::{Need, Promise};
use super::{Provision, Shrink, VOLUME_BYTES_MAX, VOLUME_NUMBERS_END};
use crate::drive::{Drive, Durability};
use crate::error::StoreError;
use crate::format::record::Extent;
use crate::format::volume::{VolumeChange, VolumeKind, VolumeRow};
use crate::store::Store;
use crate::sync::RangeHeld;
use crate::units::{BLOCK_BYTES_U64, VolumeId};

/// All blocks of a volume, also those that it gets later.
const WHOLE: std::ops::Range<u64> = 0..u64::MAX;

impl<D: Drive> Store<D> {
    /// Makes an empty volume. It is there for good once it is flushed.
    ///
    /// # Errors
    /// [`StoreError::VolumeSize`], [`StoreError::NoRoom`] if it is to be provisioned and cannot be,
    /// [`StoreError::TooManyVolumes`], [`StoreError::MapFull`], [`StoreError::Halted`].
    pub async fn create_volume(
        &self,
        size_bytes: u64,
        provision: Provision,
    ) -> Result<VolumeId, StoreError> {
        let (kind, blocks) = (kind_of(provision), check_size(size_bytes)?);
        let change = VolumeChange::Create { kind, blocks };
        self.make_volume(change, need_of_copy(kind, blocks), None).await
    }

    /// Makes a volume larger, or smaller.
    ///
    /// # Errors
    /// [`StoreError::WouldShrink`] if it would become smaller and `shrink` refuses that; else as
    /// [`Self::create_volume`], and [`StoreError::UnknownVolume`], [`StoreError::ReadOnly`].
    pub async fn resize_volume(
        &self,
        volume: VolumeId,
        size_bytes: u64,
        shrink: Shrink,
    ) -> Result<(), StoreError> {
        let blocks = check_size(size_bytes)?;
        let held = self.ranges.acquire(volume, WHOLE).await;
        let row = self.writable(volume)?;
        if blocks < row.blocks && shrink == Shrink::Refuse {
            return Err(StoreError::WouldShrink { size_bytes: row.blocks * BLOCK_BYTES_U64 });
        }
        let extent = Extent::of_volume(volume, VolumeChange::Resize { blocks });
        let mut need = need_of_growth(&row, blocks);
        if row.kind == VolumeKind::Thin && blocks < row.blocks {
            // What is cut off of a leaf that is shared leaves one of its own.
            let cut = row.blocks - blocks;
            need.leaves += self.state.borrow().map.shared_leaves(volume, blocks, cut);
        }
        let promise = self.promise(need, None)?;
        self.change_volume(extent, promise, held).await
    }

    /// Deletes a volume or a snapshot. Its room comes back little by little.
    ///
    /// # Errors
    /// [`StoreError::UnknownVolume`], [`StoreError::Halted`].
    pub async fn delete_volume(&self, volume: VolumeId) -> Result<(), StoreError> {
        let held = self.ranges.acquire(volume, WHOLE).await;
        self.row(volume)?;
        let extent = Extent::of_volume(volume, VolumeChange::Delete);
        self.change_volume(extent, Promise::default(), held).await
    }

    /// Makes a snapshot of a volume, in constant time: it holds what was acknowledged before, never
    /// changes, and is there for good once it is flushed.
    ///
    /// # Errors
    /// [`StoreError::UnknownVolume`], [`StoreError::ReadOnly`] of a snapshot;
    /// [`StoreError::NoRoom`] if a provisioned volume could not be written in full beside it; else
    /// as [`Self::create_volume`].
    pub async fn snapshot(&self, volume: VolumeId) -> Result<VolumeId, StoreError> {
        let kept = self.ranges.acquire(volume, WHOLE).await;
        self.writable(volume)?;
        let change = VolumeChange::Snapshot { of: volume };
        self.make_volume(change, Need::default(), Some((volume, kept))).await
    }

    /// Makes a volume that holds what a snapshot holds, in constant time.
    ///
    /// # Errors
    /// [`StoreError::UnknownVolume`], [`StoreError::NotASnapshot`]; else as
    /// [`Self::create_volume`].
    pub async fn clone_volume(
        &self,
        snapshot: VolumeId,
        provision: Provision,
    ) -> Result<VolumeId, StoreError> {
        let kept = self.ranges.acquire(snapshot, WHOLE).await;
        let row = self.snapshot_row(snapshot)?;
        let kind = kind_of(provision);
        let change = VolumeChange::Clone { of: snapshot, kind };
        self.make_volume(change, need_of_copy(kind, row.blocks), Some((snapshot, kept))).await
    }

    /// Gives a volume the content and the size of one of its snapshots, or of a relative's, in
    /// constant time. What it held is lost, unless other snapshots hold it.
    ///
    /// # Errors
    /// [`StoreError::UnknownVolume`], [`StoreError::ReadOnly`], [`StoreError::NotASnapshot`] if it
    /// is none or of a volume of other descent; else as [`Self::create_volume`].
    pub async fn roll_back(&self, volume: VolumeId, to: VolumeId) -> Result<(), StoreError> {
        // What is a snapshot stays one. So everybody waits for a snapshot first, then for a volume.
        self.writable(volume)?;
        self.snapshot_row(to)?;
        let kept = self.ranges.acquire(to, WHOLE).await;
        let held = self.ranges.acquire(volume, WHOLE).await;
        let (row, snapshot) = (self.writable(volume)?, self.snapshot_row(to)?);
        if row.family != snapshot.family {
            return Err(StoreError::NotASnapshot(to));
        }
        let extent = Extent::of_volume(volume, VolumeChange::RollBack { to });
        let mut promise = self.promise(need_of_growth(&row, snapshot.blocks), Some(volume))?;
        promise.keep(kept);
        self.change_volume(extent, promise, held).await
    }

    /// Makes a volume or snapshot with a number of its own; of what is held, if it is a copy.
    async fn make_volume(
        &self,
        change: VolumeChange,
        need: Need,
        origin: Option<(VolumeId, RangeHeld)>,
    ) -> Result<VolumeId, StoreError> {
        self.check_running()?;
        let (shared, kept) = origin.unzip();
        let mut promise = self.promise(Need { volumes: 1, ..need }, shared)?;
        if let Some(kept) = kept {
            promise.keep(kept);
        }
        let volume = {
            let mut state = self.state.borrow_mut();
            let volume = VolumeId(state.next_volume);
            if volume.0 == VOLUME_NUMBERS_END {
                return Err(StoreError::TooManyVolumes);
            }
            state.next_volume += 1;
            volume
        };
        let held = self.ranges.acquire(volume, WHOLE).await;
        let extent = Extent::of_volume(volume, change);
        self.change_volume(extent, promise, held).await?;
        Ok(volume)
    }

    fn promise(&self, need: Need, shared: Option<VolumeId>) -> Result<Promise, StoreError> {
        self.promises.take(&self.state.borrow(), need, shared)
    }

    async fn change_volume(
        &self,
        extent: Extent,
        promise: Promise,
        held: RangeHeld,
    ) -> Result<(), StoreError> {
        let done = self.enqueue(extent, None, Some(promise), held).await?;
        self.settle(vec![done], Durability::Volatile).await
    }

    fn row(&self, volume: VolumeId) -> Result<VolumeRow, StoreError> {
        self.check_running()?;
        let state = self.state.borrow();
        state.volumes.get(&volume).copied().ok_or(StoreError::UnknownVolume(volume))
    }

    fn writable(&self, volume: VolumeId) -> Result<VolumeRow, StoreError> {
        let row = self.row(volume)?;
        let is_writable = row.kind != VolumeKind::Snapshot;
        if is_writable { Ok(row) } else { Err(StoreError::ReadOnly(volume)) }
    }

    fn snapshot_row(&self, volume: VolumeId) -> Result<VolumeRow, StoreError> {
        let row = self.row(volume)?;
        let is_snapshot = row.kind == VolumeKind::Snapshot;
        if is_snapshot { Ok(row) } else { Err(StoreError::NotASnapshot(volume)) }
    }
}

fn kind_of(provision: Provision) -> VolumeKind {
    match provision {
        Provision::Full => VolumeKind::Provisioned,
        Provision::Thin => VolumeKind::Thin,
    }
}

fn check_size(size_bytes: u64) -> Result<u64, StoreError> {
    let is_possible = size_bytes.is_multiple_of(BLOCK_BYTES_U64) && size_bytes <= VOLUME_BYTES_MAX;
    if is_possible { Ok(size_bytes / BLOCK_BYTES_U64) } else { Err(StoreError::VolumeSize) }
}

/// What a volume is promised when it is made, empty or as a copy.
fn need_of_copy(kind: VolumeKind, blocks: u64) -> Need {
    match kind {
        VolumeKind::Provisioned => Need::of_size(blocks),
        VolumeKind::Thin | VolumeKind::Snapshot => Need::default(),
    }
}

fn need_of_growth(row: &VolumeRow, blocks: u64) -> Need {
    let (all, now) = (need_of_copy(row.kind, blocks), need_of_copy(row.kind, row.blocks));
    Need {
        blocks: all.blocks.saturating_sub(now.blocks),
        leaves: all.leaves.saturating_sub(now.leaves),
        volumes: 0,
    }
}
