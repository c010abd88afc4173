//! The store's reads and writes by way of its cache.
//!
//! ```text
//! run of 8 blocks:   memory memory SSD SSD drive drive drive memory
//!                    copied at once one read  one read     copied at once
//! ```
//!
//! What came from the cache drive is held against the map's tags, like everything else that a drive
//! gives; if it does not match, the drives are read. What is in memory was checked on its way in.

use std::cell::RefCell;

use super::contents::{Block, Contents, Looked};
use super::drive::Cache;
use super::flash::{FlashBlock, FlashMeasures};
use super::frequency::Place;
use super::policy::{Key, Standing};
use crate::buffer::{Buffer, BufferMut};
use crate::drive::{Drive, DriveError};
use crate::error::StoreError;
use crate::format::record::RecordHeader;
use crate::read::Run;
use crate::state::State;
use crate::store::Store;
use crate::sync::{Signal, join_all};
use crate::units::{Address, BLOCK_BYTES, BLOCK_BYTES_U64, VolumeId};

/// Blocks of a run that have to be read, from one place.
struct Part<'a> {
    /// The first one's index in the run.
    at: usize,
    blocks: usize,
    from: Source<'a>,
}

enum Source<'a> {
    Drives,
    Flash(Pinned<'a>),
}

/// Blocks on the cache drive, kept from being written over until dropped.
struct Pinned<'a> {
    contents: &'a RefCell<Contents>,
    first: FlashBlock,
    /// Who writes regions waits for the end of it.
    ended: &'a Signal,
}

impl<D: Drive> Store<D> {
    /// Whether a read of this range would be answered by the cache alone, drives untouched: all of
    /// it is in memory, on the SSD, or was never written. As of now; nothing is kept there by it,
    /// and it does not count as a use. O(blocks).
    pub fn is_cached(&self, volume: VolumeId, offset_bytes: u64, length_bytes: u64) -> bool {
        let Some(cache) = &self.cache else { return false };
        if self.check_range(volume, offset_bytes, length_bytes).is_err() {
            return false;
        }
        let first = offset_bytes / BLOCK_BYTES_U64;
        let end = (offset_bytes + length_bytes).div_ceil(BLOCK_BYTES_U64);
        let (state, contents) = (self.state.borrow(), cache.contents.borrow());
        let mut blocks = (first..end).filter_map(|block| state.map.at(volume, block));
        blocks.all(|entry| contents.policy().has(Key(entry.address.0)))
    }

    /// The data of a run, from the cache as far as it has it.
    pub(crate) async fn read_cached(&self, run: &Run) -> Result<Buffer, StoreError> {
        let Some(cache) = &self.cache else { return self.read_run(run).await };
        let mut data = BufferMut::zeroed(run.tags.len() * BLOCK_BYTES);
        let parts = self.look_up(cache, run, &mut data);
        if parts.is_empty() {
            return Ok(data.freeze());
        }
        // The drives may be asked only when the cache drive has failed to answer; until then, too,
        // the segment must not be used anew.
        let (segment, _) = self.state.borrow().space.locate(run.address);
        let _pin = self.pin(segment);
        let fetched = join_all(parts.iter().map(|part| self.fetch(cache, run, part))).await;
        for (part, fetched) in parts.iter().zip(fetched) {
            let fetched = fetched?;
            data[bytes(part)].copy_from_slice(&fetched);
        }
        for part in &parts {
            self.keep(cache, &run.part(part.at, part.blocks), &data[bytes(part)]);
        }
        cache.sealed.notify();
        Ok(data.freeze())
    }

    /// Copies what is in memory; tells what is not.
    fn look_up<'a>(&self, cache: &'a Cache<D>, run: &Run, data: &mut [u8]) -> Vec<Part<'a>> {
        let side = self.state.borrow().space.side(run.address);
        let mut parts: Vec<Part<'_>> = Vec::new();
        let blocks = data.chunks_exact_mut(BLOCK_BYTES).zip(&run.tags).enumerate();
        for (at, (into, &tag)) in blocks {
            let key = Key(run.address.plus(at as u64).0);
            let place = place(run.volume, run.block + at as u64);
            let looked = cache.contents.borrow_mut().look((key, place), tag, side, into);
            let last = parts.last_mut().filter(|last| last.at + last.blocks == at);
            if let Some(last) = last
                && last.is_continued_by(looked, cache)
            {
                last.blocks += 1;
                continue;
            }
            let from = match looked {
                Looked::Here => continue,
                Looked::Nowhere => Source::Drives,
                Looked::Flash(block) => Source::Flash(Pinned::new(cache, block)),
            };
            parts.push(Part { at, blocks: 1, from });
        }
        parts
    }

    async fn fetch(
        &self,
        cache: &Cache<D>,
        run: &Run,
        part: &Part<'_>,
    ) -> Result<Buffer, StoreError> {
        let run = run.part(part.at, part.blocks);
        if let (Source::Flash(pinned), Some(drive)) = (&part.from, &cache.drive) {
            let outcome = drive.read(pinned.first, part.blocks).await;
            if let Some(data) = self.believed(cache, &run, outcome) {
                return Ok(data);
            }
        }
        self.read_run(&run).await
    }

    /// What the cache drive gave, if it is what was asked for; else it is held against the drive.
    fn believed(
        &self,
        cache: &Cache<D>,
        run: &Run,
        outcome: Result<Buffer, DriveError>,
    ) -> Option<Buffer> {
        let mut contents = cache.contents.borrow_mut();
        let data = match outcome {
            Ok(data) => data,
            Err(DriveError::Medium) => Buffer::zeroed(0),
            Err(_) => {
                contents.lose_flash();
                return None;
            }
        };
        let good = self.matching(&data, &run.tags);
        let is_good = |at: usize| good.get(at).is_some_and(|&good| good);
        for at in (0..run.tags.len()).filter(|&at| !is_good(at)) {
            contents.policy_mut().reject(Key(run.address.plus(at as u64).0));
        }
        (0..run.tags.len()).all(is_good).then_some(data)
    }

    /// Takes in blocks that were read, those that are still where they were.
    fn keep(&self, cache: &Cache<D>, run: &Run, data: &[u8]) {
        let state = self.state.borrow();
        let standing = cache.standing(&state);
        let mut contents = cache.contents.borrow_mut();
        for (at, bytes) in (0..).zip(data.chunks_exact(BLOCK_BYTES)) {
            let address = run.address.plus(at);
            let entry = state.map.at(run.volume, run.block + at);
            if let Some(entry) = entry.filter(|entry| entry.address == address) {
                let place = place(run.volume, run.block + at);
                let block = Block { key: Key(address.0), place, tag: entry.tag, bytes };
                contents.take_read(cache.now.get(), block, &standing);
            }
        }
    }

    /// Takes in the data blocks of a record that has just taken effect, the first of them at
    /// `first`. What the same record replaced is dead already, and nobody would tell of it again.
    pub(crate) fn keep_written<'a>(
        &self,
        first: Address,
        header: &RecordHeader,
        data: impl Iterator<Item = &'a Buffer>,
    ) {
        let Some(cache) = &self.cache else { return };
        let state = self.state.borrow();
        let standing = cache.standing(&state);
        let mut contents = cache.contents.borrow_mut();
        let blocks = data.flat_map(|buffer| buffer.chunks_exact(BLOCK_BYTES));
        let names = header.extents.iter().flat_map(|extent| {
            let blocks = 0..u64::from(extent.data_blocks());
            blocks.map(|at| (extent.volume, extent.block + at))
        });
        for (at, (bytes, (volume, block))) in (0..).zip(blocks.zip(names)) {
            let address = first.plus(at);
            let entry = state.map.at(volume, block);
            if let Some(entry) = entry.filter(|entry| entry.address == address) {
                let (key, place) = (Key(address.0), place(volume, block));
                let block = Block { key, place, tag: entry.tag, bytes };
                contents.take_written(cache.now.get(), block, &standing);
            }
        }
        drop(contents);
        cache.sealed.notify();
    }
}

impl<D> Cache<D> {
    /// What blocks are to the chain. Young are those of the last segments, as many as the cache
    /// drive holds. The tail goes on to other drives with every epoch, so that where a block lies
    /// says nothing about how soon the tail will be there again.
    fn standing<'a>(&self, state: &'a State) -> impl Fn(Key) -> Standing + use<'a, D> {
        let blocks = self.contents.borrow().flash().map_or(0, FlashMeasures::blocks);
        let segments = blocks as u64 / u64::from(state.space.segment_blocks());
        move |Key(key)| Standing {
            side: state.space.side(Address(key)),
            is_young: state.space.is_young(Address(key), segments),
        }
    }
}

impl Part<'_> {
    /// Whether the next block comes from the same place: on the cache drive, it lies right behind,
    /// in the same region.
    fn is_continued_by<D>(&self, next: Looked, cache: &Cache<D>) -> bool {
        match (&self.from, next) {
            (Source::Drives, Looked::Nowhere) => true,
            (Source::Flash(pinned), Looked::Flash(block)) => {
                let flash = cache.contents.borrow().flash();
                let is_same_region = flash
                    .is_some_and(|flash| flash.locate(pinned.first).0 == flash.locate(block).0);
                is_same_region && pinned.first.0 as usize + self.blocks == block.0 as usize
            }
            _ => false,
        }
    }
}

impl<'a> Pinned<'a> {
    fn new<D>(cache: &'a Cache<D>, first: FlashBlock) -> Self {
        cache.contents.borrow_mut().policy_mut().pin(first);
        Self { contents: &cache.contents, first, ended: &cache.sealed }
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.contents.borrow_mut().policy_mut().unpin(self.first);
        self.ended.notify();
    }
}

fn place(volume: VolumeId, block: u64) -> Place {
    Place::of(u64::from(volume.0), block)
}

/// Where the blocks of a part are in the data of their run.
fn bytes(part: &Part<'_>) -> std::ops::Range<usize> {
    part.at * BLOCK_BYTES..(part.at + part.blocks) * BLOCK_BYTES
}
