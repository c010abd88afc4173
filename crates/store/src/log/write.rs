//! From a client's bytes to a change of whole blocks: cutting, and filling up blocks that are
//! written in part.

use std::ops::Range;

use evenkeel_core::crc32c::crc32c;

use super::Pending;
use crate::buffer::{Buffer, BufferMut};
use crate::drive::{Drive, Durability};
use crate::error::StoreError;
use crate::format::record::{Change, DATA_BLOCKS_MAX, Extent};
use crate::store::Store;
use crate::sync::{Once, RangeHeld};
use crate::units::{BLOCK_BYTES, BLOCK_BYTES_U64, VolumeId};
use crate::volume::Promise;

/// Blocks of data that wait for their records at most; then writers wait. 16 MiB.
const QUEUE_BLOCKS_MAX: usize = 4096;

/// Blocks that one extent may unmap at most.
const UNMAP_BLOCKS_MAX: u64 = 1 << 30;

impl<D: Drive> Store<D> {
    /// Writes bytes. Writes of up to [`Self::atomic_bytes`] that start on a block are atomic: after
    /// a power cut all of it is there, or nothing.
    ///
    /// # Errors
    /// [`StoreError`]; after one, any whole pieces of the write may have happened.
    pub async fn write(
        &self,
        volume: VolumeId,
        offset_bytes: u64,
        data: Buffer,
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.check_range(volume, offset_bytes, data.len() as u64)?;
        self.check_writable(volume)?;
        self.check_write_fits(volume, offset_bytes, data.len() as u64)?;
        let mut waiting = Vec::new();
        let mut done = 0;
        while done < data.len() {
            let at = offset_bytes + done as u64;
            let within = index(at % BLOCK_BYTES_U64);
            let length = (index(self.atomic_bytes()) - within).min(data.len() - done);
            waiting.push(self.queue_write(volume, at, data.slice(done..done + length)).await?);
            done += length;
        }
        self.settle(waiting, durability).await
    }

    /// Makes bytes read as zeroes, giving the room of whole blocks back.
    ///
    /// # Errors
    /// [`StoreError`]; after one, any part of it may have happened.
    pub async fn write_zeroes(
        &self,
        volume: VolumeId,
        offset_bytes: u64,
        length_bytes: u64,
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.check_range(volume, offset_bytes, length_bytes)?;
        self.check_writable(volume)?;
        let end = offset_bytes + length_bytes;
        let first_whole = offset_bytes.next_multiple_of(BLOCK_BYTES_U64).min(end);
        let last_whole = (end - end % BLOCK_BYTES_U64).max(first_whole);
        let mut waiting = Vec::new();
        for (start, end) in [(offset_bytes, first_whole), (last_whole, end)] {
            if start < end {
                let zeroes = Buffer::zeroed(index(end - start));
                waiting.push(self.queue_write(volume, start, zeroes).await?);
            }
        }
        let (mut block, end) = (first_whole / BLOCK_BYTES_U64, last_whole / BLOCK_BYTES_U64);
        while block < end {
            let blocks = (end - block).min(UNMAP_BLOCKS_MAX);
            waiting.push(self.queue_unmap(volume, block, blocks).await?);
            block += blocks;
        }
        self.settle(waiting, durability).await
    }

    /// Bytes of the longest atomic write: 1 MiB, or less if segments are small.
    pub fn atomic_bytes(&self) -> u64 {
        self.record_blocks_max() as u64 * BLOCK_BYTES_U64
    }

    /// Data blocks of a record at most: a segment has room for its header and one record.
    pub(crate) fn record_blocks_max(&self) -> usize {
        DATA_BLOCKS_MAX.min(self.state.borrow().space.segment_blocks() as usize - 2)
    }

    pub(crate) async fn settle(
        &self,
        waiting: Vec<Once<Result<(), StoreError>>>,
        durability: Durability,
    ) -> Result<(), StoreError> {
        for done in waiting {
            done.wait().await?;
        }
        match durability {
            Durability::Volatile => Ok(()),
            Durability::Durable => self.flush().await,
        }
    }

    async fn queue_write(
        &self,
        volume: VolumeId,
        offset_bytes: u64,
        data: Buffer,
    ) -> Result<Once<Result<(), StoreError>>, StoreError> {
        let end_bytes = offset_bytes + data.len() as u64;
        let blocks = offset_bytes / BLOCK_BYTES_U64..end_bytes.div_ceil(BLOCK_BYTES_U64);
        let held = self.hold(volume, blocks.clone(), offset_bytes..end_bytes).await;
        // The volume may have changed as a whole while this waited.
        self.check_range(volume, offset_bytes, data.len() as u64)?;
        let data = self.whole_blocks(volume, offset_bytes, data).await?;
        let extent = Extent {
            volume,
            block: blocks.start,
            blocks: u32::try_from(blocks.end - blocks.start).expect("a piece is bounded"),
            change: Change::Written,
        };
        let promise = self.promise_of(&extent)?;
        self.enqueue(extent, Some(data), promise, held).await
    }

    /// Waits until these bytes of these blocks may be written. Where the blocks take room that they
    /// did not have, others wait: else each of them would be promised the same room.
    async fn hold(&self, volume: VolumeId, blocks: Range<u64>, bytes: Range<u64>) -> RangeHeld {
        let is_whole = [bytes.start, bytes.end].iter().all(|it| it % BLOCK_BYTES_U64 == 0);
        let needs_room = || {
            let count = blocks.end - blocks.start;
            self.state.borrow().need_of_write(volume, blocks.start, count).is_some()
        };
        if is_whole && !needs_room() {
            let held = self.ranges.acquire_to_replace(volume, blocks.clone()).await;
            // The blocks may have been given back while this waited.
            if !needs_room() {
                return held;
            }
        }
        self.ranges.acquire(volume, blocks).await
    }

    async fn queue_unmap(
        &self,
        volume: VolumeId,
        block: u64,
        blocks: u64,
    ) -> Result<Once<Result<(), StoreError>>, StoreError> {
        let held = self.ranges.acquire(volume, block..block + blocks).await;
        self.check_range(volume, block * BLOCK_BYTES_U64, blocks * BLOCK_BYTES_U64)?;
        let blocks = u32::try_from(blocks).expect("an extent is bounded");
        let extent = Extent { volume, block, blocks, change: Change::Unmapped };
        let promise = self.promise_of(&extent)?;
        self.enqueue(extent, None, promise, held).await
    }

    /// Refuses a write that finds no room, before any piece of it is under way.
    fn check_write_fits(
        &self,
        volume: VolumeId,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), StoreError> {
        let block = offset_bytes / BLOCK_BYTES_U64;
        let end = (offset_bytes + length_bytes).div_ceil(BLOCK_BYTES_U64);
        let state = self.state.borrow();
        let need = state.need_of_write(volume, block, end - block);
        need.map_or(Ok(()), |need| self.promises.take(&state, need, None).map(drop))
    }

    /// The room that a change of a thin volume takes.
    fn promise_of(&self, extent: &Extent) -> Result<Option<Promise>, StoreError> {
        let state = self.state.borrow();
        let need = state.need_of(extent);
        need.map(|need| self.promises.take(&state, need, None)).transpose()
    }

    pub(crate) async fn enqueue(
        &self,
        extent: Extent,
        data: Option<Buffer>,
        promise: Option<Promise>,
        held: RangeHeld,
    ) -> Result<Once<Result<(), StoreError>>, StoreError> {
        let blocks = extent.data_blocks() as usize;
        let has_room = || {
            let queued = self.queued_blocks.get();
            queued == 0 || queued + blocks <= QUEUE_BLOCKS_MAX
        };
        let is_over = || self.state.borrow().halted.is_some();
        self.room.until(|| (has_room() || is_over()).then_some(())).await;
        self.check_running()?;
        let checksums = match &data {
            Some(data) => data.chunks_exact(BLOCK_BYTES).map(crc32c).collect(),
            None => Vec::new(),
        };
        let done = Once::default();
        self.queued_blocks.set(self.queued_blocks.get() + blocks);
        self.queue.borrow_mut().push_back(Pending {
            extent,
            data,
            checksums,
            done: done.clone(),
            _promise: promise,
            _held: held,
        });
        self.changed.notify();
        Ok(done)
    }

    /// The data as aligned whole blocks; what the client left out of the first and the last block
    /// comes from the volume.
    async fn whole_blocks(
        &self,
        volume: VolumeId,
        offset_bytes: u64,
        data: Buffer,
    ) -> Result<Buffer, StoreError> {
        let before = index(offset_bytes % BLOCK_BYTES_U64);
        let end = before + data.len();
        let whole = end.next_multiple_of(BLOCK_BYTES);
        if before == 0 && end == whole {
            return Ok(data.into_aligned());
        }
        let mut blocks = BufferMut::zeroed(whole);
        let start_bytes = offset_bytes - before as u64;
        let last = whole - BLOCK_BYTES;
        if before > 0 {
            let old = self.read(volume, start_bytes, BLOCK_BYTES).await?;
            blocks[..BLOCK_BYTES].copy_from_slice(&old);
        }
        if end < whole && (last > 0 || before == 0) {
            let old = self.read(volume, start_bytes + last as u64, BLOCK_BYTES).await?;
            blocks[last..].copy_from_slice(&old);
        }
        blocks[before..end].copy_from_slice(&data);
        Ok(blocks.freeze())
    }
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a piece of a write fits memory")
}
