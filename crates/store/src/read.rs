//! Reading: look up, read from the better copy, compare with the tags, fall back to the other.
//!
//! A block whose copy is bad is not written over: nothing in the log ever is. It is moved, like a
//! block that is cleaned, and the bad copy dies with its segment.

use evenkeel_core::crc32c::crc32c;

use crate::buffer::{Buffer, BufferMut};
use crate::drive::{Drive, DriveError};
use crate::error::StoreError;
use crate::format::record::DATA_BLOCKS_MAX;
use crate::map::Tag;
use crate::rules::Rule;
use crate::store::Store;
use crate::sync::join_all;
use crate::units::{Address, BLOCK_BYTES, BLOCK_BYTES_U64, SegmentId, Slot, VolumeId};

/// Blocks in a row of a volume that are neighbours in one segment.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) volume: VolumeId,
    pub(crate) block: u64,
    pub(crate) address: Address,
    pub(crate) tags: Vec<Tag>,
}

/// What could be read of one copy.
pub(crate) struct CopyBlocks {
    /// Zeroes where a block could not be read.
    pub(crate) data: Buffer,
    /// Of each block: without it, a lost block would pass for one that was written with zeroes.
    pub(crate) readable: Vec<bool>,
}

/// Keeps a segment from being used anew while it is read.
pub(crate) struct Pin<'a, D: Drive> {
    store: &'a Store<D>,
    segment: SegmentId,
}

/// Counts as a read of a client until dropped.
struct Reader<'a, D: Drive>(&'a Store<D>);

impl<'a, D: Drive> Reader<'a, D> {
    fn new(store: &'a Store<D>) -> Self {
        store.readers.set(store.readers.get() + 1);
        Self(store)
    }
}

impl<D: Drive> Drop for Reader<'_, D> {
    fn drop(&mut self) {
        let Self(store) = self;
        store.readers.set(store.readers.get() - 1);
        // The cleaner may have waited so that this one is not disturbed.
        if store.readers.get() == 0 && store.turns.are_awaited() {
            store.changed.notify();
        }
    }
}

impl<D: Drive> Store<D> {
    /// The bytes of a range. A block that is being written meanwhile comes as it was or as it
    /// will be.
    ///
    /// # Errors
    /// [`StoreError`]; none of the bytes are given if one block cannot be read.
    pub async fn read(
        &self,
        volume: VolumeId,
        offset_bytes: u64,
        length_bytes: usize,
    ) -> Result<Buffer, StoreError> {
        self.check_range(volume, offset_bytes, length_bytes as u64)?;
        let _reader = Reader::new(self);
        let first = offset_bytes / BLOCK_BYTES_U64;
        let end = (offset_bytes + length_bytes as u64).div_ceil(BLOCK_BYTES_U64);
        let within = usize::try_from(offset_bytes % BLOCK_BYTES_U64).expect("less than a block");
        let runs = self.runs(volume, first, end);
        let places: Vec<usize> = runs.iter().map(|run| index_of(run.block - first)).collect();
        let outcomes = match &runs[..] {
            [run] => vec![self.read_cached(run).await],
            runs => join_all(runs.iter().map(|run| self.read_cached(run))).await,
        };
        let blocks = index_of(end - first);
        let mut whole = BufferMut::zeroed(blocks);
        for (place, outcome) in places.into_iter().zip(outcomes) {
            if matches!(outcome, Err(StoreError::Unreadable { .. })) {
                self.state.borrow_mut().counters.failed_reads += 1;
            }
            let data = outcome?;
            if data.len() == blocks {
                return Ok(data.slice(within..within + length_bytes));
            }
            whole[place..place + data.len()].copy_from_slice(&data);
        }
        Ok(whole.freeze().slice(within..within + length_bytes))
    }

    /// Keeps a segment from being used anew until dropped.
    pub(crate) fn pin(&self, segment: SegmentId) -> Pin<'_, D> {
        Pin::new(self, segment)
    }

    /// What of a range is mapped: runs of bytes, one behind the other, and whether each has data or
    /// reads as zeroes. At most `runs_max` of them, so that it may stop short of the end.
    ///
    /// # Errors
    /// [`StoreError`] for a range that is not within the volume, and if the store has stopped.
    pub fn extents(
        &self,
        volume: VolumeId,
        offset_bytes: u64,
        length_bytes: u64,
        runs_max: usize,
    ) -> Result<Vec<(u64, bool)>, StoreError> {
        self.check_range(volume, offset_bytes, length_bytes)?;
        let state = self.state.borrow();
        let (mut at, end) = (offset_bytes, offset_bytes + length_bytes);
        let mut runs: Vec<(u64, bool)> = Vec::new();
        while at < end {
            let block = at / BLOCK_BYTES_U64;
            let until = ((block + 1) * BLOCK_BYTES_U64).min(end);
            let is_mapped = state.map.at(volume, block).is_some();
            if let Some((length, same)) = runs.last_mut()
                && *same == is_mapped
            {
                *length += until - at;
            } else if runs.len() < runs_max {
                runs.push((until - at, is_mapped));
            } else {
                break;
            }
            at = until;
        }
        Ok(runs)
    }

    /// The mapped blocks of a range.
    fn runs(&self, volume: VolumeId, first: u64, end: u64) -> Vec<Run> {
        let state = self.state.borrow();
        let mut runs: Vec<Run> = Vec::new();
        for block in first..end {
            let Some(entry) = state.map.at(volume, block) else { continue };
            match runs.last_mut() {
                Some(run) if run.is_continued(block, entry.address, &state.space) => {
                    run.tags.push(entry.tag);
                }
                _ => {
                    let tags = vec![entry.tag];
                    runs.push(Run { volume, block, address: entry.address, tags });
                }
            }
        }
        runs
    }

    /// The data of a run, each block from a copy that matches its tag.
    pub(crate) async fn read_run(&self, run: &Run) -> Result<Buffer, StoreError> {
        let (segment, block) = self.state.borrow().space.locate(run.address);
        let _pin = self.pin(segment);
        let length = run.tags.len() * BLOCK_BYTES;
        let mut found: Option<(BufferMut, Vec<bool>)> = None;
        let spare = self.state.borrow().space.spare(segment);
        for slot in self.by_preference(segment).into_iter().chain(spare) {
            let (data, good) = match self.read_copy(slot, block, length).await {
                Ok(CopyBlocks { data, readable }) => {
                    let good = self.matching(&data, &run.tags);
                    (
                        data,
                        good.into_iter().zip(readable).map(|(good, read)| good && read).collect(),
                    )
                }
                Err(_) => (Buffer::zeroed(length), vec![false; run.tags.len()]),
            };
            if found.is_none() && good.iter().all(|&good| good) {
                return Ok(data);
            }
            let (whole, known) =
                found.get_or_insert_with(|| (BufferMut::zeroed(length), vec![false; good.len()]));
            for index in (0..good.len()).filter(|&index| good[index] && !known[index]) {
                let range = index * BLOCK_BYTES..(index + 1) * BLOCK_BYTES;
                whole[range.clone()].copy_from_slice(&data[range]);
            }
            self.note_bad_copies(run, &good);
            known.iter_mut().zip(good).for_each(|(known, good)| *known |= good);
            if known.iter().all(|&known| known) {
                break;
            }
        }
        let (mut whole, mut known) = found.unwrap_or_else(|| (BufferMut::zeroed(0), vec![false]));
        self.fill_in(run, &mut whole, &mut known);
        match known.iter().position(|&known| !known) {
            None => Ok(whole.freeze()),
            Some(index) => {
                Err(StoreError::Unreadable { volume: run.volume, block: run.block + index as u64 })
            }
        }
    }

    /// Adds what is kept in memory of the blocks that no drive has.
    fn fill_in(&self, run: &Run, whole: &mut BufferMut, known: &mut [bool]) {
        let rescued = self.rescued.borrow();
        for (index, target) in whole.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            let kept = rescued.get(&run.address.plus(index as u64));
            let tag = &run.tags[index..=index];
            let kept = kept.filter(|kept| !known[index] && self.matching(kept, tag)[0]);
            if let Some(kept) = kept {
                target.copy_from_slice(kept);
                known[index] = true;
            }
        }
    }

    /// The copies of a segment: those on a drive that is awake first, of these those that are not
    /// on the tail, of these those on the drive that has less to do, and among equals the one that
    /// is nearer to where its drive's last command ends.
    pub(crate) fn by_preference(&self, segment: SegmentId) -> Vec<Slot> {
        let state = self.state.borrow();
        let copies = state.space.copies(segment);
        let present = |slot: &Slot| self.chain.members[slot.drive.index()].is_present();
        let mut slots: Vec<Slot> = copies.into_iter().flatten().filter(present).collect();
        slots.sort_by_key(|slot| {
            let member = &self.chain.members[slot.drive.index()];
            (
                !member.is_active(),
                member.is_asleep(),
                state.space.is_tail(slot.drive),
                member.under_way(),
                member.distance_bytes(slot.slot),
            )
        });
        slots
    }

    /// Blocks of a copy. Where the medium fails in the middle, the rest is read block by block.
    pub(crate) async fn read_copy(
        &self,
        slot: Slot,
        block: u64,
        length: usize,
    ) -> Result<CopyBlocks, DriveError> {
        let member = &self.chain.members[slot.drive.index()];
        match member.read_slot(slot, block, length).await {
            Err(DriveError::Medium) if length > BLOCK_BYTES => {}
            outcome => {
                let readable = vec![true; length / BLOCK_BYTES];
                return outcome.map(|data| CopyBlocks { data, readable });
            }
        }
        let mut whole = BufferMut::zeroed(length);
        let mut readable = Vec::new();
        for (index, target) in (0..).zip(whole.chunks_exact_mut(BLOCK_BYTES)) {
            let outcome = member.read_slot(slot, block + index, BLOCK_BYTES).await;
            readable.push(outcome.is_ok());
            match outcome {
                Ok(data) => target.copy_from_slice(&data),
                Err(DriveError::Medium) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(CopyBlocks { data: whole.freeze(), readable })
    }

    pub(crate) fn matching(&self, data: &[u8], tags: &[Tag]) -> Vec<bool> {
        let is_checked = self.state.borrow().rules.hold(Rule::VerifyTags);
        let blocks = data.chunks_exact(BLOCK_BYTES).zip(tags);
        blocks.map(|(block, &tag)| !is_checked || Tag::of(crc32c(block)) == tag).collect()
    }

    fn note_bad_copies(&self, run: &Run, good: &[bool]) {
        let bad = (run.block..).zip(good).filter(|(_, good)| !**good);
        let bad: Vec<_> = bad.map(|(block, _)| (run.volume, block)).collect();
        self.state.borrow_mut().counters.bad_copies += bad.len() as u64;
        self.note_for_mending(bad);
    }

    /// Has blocks written anew by housekeeping, as far as there is room for notes; gives how many
    /// were not noted. Whoever reads them again notes them then.
    pub(crate) fn note_for_mending(
        &self,
        blocks: impl IntoIterator<Item = (VolumeId, u64)>,
    ) -> u64 {
        let mut unnoted_blocks = 0;
        let mut state = self.state.borrow_mut();
        for block in blocks {
            let is_full = state.mending.len() >= self.tuning.noted_blocks_max;
            if !is_full {
                state.mending.insert(block);
            } else if !state.mending.contains(&block) {
                unnoted_blocks += 1;
            }
        }
        state.counters.unnoted_blocks += unnoted_blocks;
        drop(state);
        self.changed.notify();
        unnoted_blocks
    }
}

impl Run {
    /// Its blocks, by their names.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (VolumeId, u64)> {
        let blocks = self.block..self.block + self.tags.len() as u64;
        blocks.map(|block| (self.volume, block))
    }

    /// So many of its blocks, from the one with this index on.
    pub(crate) fn part(&self, at: usize, blocks: usize) -> Self {
        Self {
            volume: self.volume,
            block: self.block + at as u64,
            address: self.address.plus(at as u64),
            tags: self.tags[at..at + blocks].to_vec(),
        }
    }

    pub(crate) fn is_continued(
        &self,
        block: u64,
        address: Address,
        space: &crate::space::Space,
    ) -> bool {
        let length = self.tags.len() as u64;
        self.block + length == block
            && self.address.plus(length) == address
            && self.tags.len() < DATA_BLOCKS_MAX
            && space.locate(self.address).0 == space.locate(address).0
    }
}

impl<'a, D: Drive> Pin<'a, D> {
    pub(crate) fn new(store: &'a Store<D>, segment: SegmentId) -> Self {
        store.state.borrow_mut().space.pin(segment);
        Self { store, segment }
    }
}

impl<D: Drive> Drop for Pin<'_, D> {
    fn drop(&mut self) {
        self.store.state.borrow_mut().space.unpin(self.segment);
        self.store.changed.notify();
    }
}

/// So many blocks in bytes of memory.
fn index_of(blocks: u64) -> usize {
    usize::try_from(blocks).expect("a read fits memory") * BLOCK_BYTES
}
