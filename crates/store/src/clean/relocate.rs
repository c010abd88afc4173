//! Moving blocks: read them, verified, and write them again in a record that says where they were.
//!
//! A move takes effect block by block, and only where the block is still at the old address: what a
//! client wrote meanwhile wins, live and in replay, whatever the order in which the two became
//! durable.

use std::collections::VecDeque;

use evenkeel_core::crc32c::crc32c;

use crate::buffer::Buffer;
use crate::drive::Drive;
use crate::error::StoreError;
use crate::format::record::{Change, Extent, Kind, RecordHeader};
use crate::read::Run;
use crate::store::{Cleaning, Store};
use crate::sync::{join_all, yield_now};
use crate::units::{BLOCK_BYTES, SegmentId, VolumeId};

impl<D: Drive> Store<D> {
    /// Moves all that is alive out of a segment; the next checkpoint frees it.
    pub(super) async fn clean(&self, segment: SegmentId) {
        let live = self.live_blocks(segment).await;
        let live_blocks = u64::from(self.state.borrow().space.live(segment));
        let segment_blocks = u64::from(self.state.borrow().space.segment_blocks());
        let garbage_blocks = segment_blocks.saturating_sub(live_blocks);
        let earn = |moved_blocks| {
            self.state.borrow_mut().pace.earn(moved_blocks, garbage_blocks, live_blocks);
        };
        let outcome = self.relocate(live, earn).await;
        let mut state = self.state.borrow_mut();
        match outcome {
            Ok(()) if state.space.live(segment) == 0 => state.counters.cleaned_segments += 1,
            // Room ran out; the next checkpoint provides more.
            Ok(()) => {}
            Err(_) => state.space.give_up(segment),
        }
    }

    /// Writes blocks anew of which a copy is bad.
    pub(super) async fn mend(&self, blocks: Vec<(VolumeId, u64)>) {
        let runs = {
            let state = self.state.borrow();
            let entries = blocks.iter().filter_map(|&(volume, block)| {
                let entry = state.map.at(volume, block)?;
                Some(Run { volume, block, address: entry.address, tags: vec![entry.tag] })
            });
            entries.collect()
        };
        // A block without any good copy stays as it is; whoever reads it is told.
        let _ = self.relocate(runs, |_| {}).await;
        // Reading them has named them once more.
        self.state.borrow_mut().mending.retain(|block| !blocks.contains(block));
    }

    /// Moves runs, one record at a time, until room runs out; tells `moved` the blocks of each.
    ///
    /// # Errors
    /// The last [`StoreError`] of a block that could not be read; the others were moved.
    async fn relocate(&self, runs: Vec<Run>, moved: impl Fn(u64)) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let mut waiting: VecDeque<Run> = runs.into();
        while !waiting.is_empty() {
            let room = self.state.borrow().space.room_to_move_blocks();
            if room == 0 {
                return outcome;
            }
            let batch = take_batch(&mut waiting, room);
            let data = join_all(batch.iter().map(|run| self.read_run(run))).await;
            let mut readable = Vec::new();
            for (run, data) in batch.into_iter().zip(data) {
                match data {
                    Ok(data) => readable.push((run, data)),
                    Err(error) => {
                        outcome = Err(error);
                        readable.extend(self.read_singly(&run).await);
                    }
                }
            }
            let blocks = readable.iter().map(|(run, _)| run.tags.len() as u64).sum();
            if !readable.is_empty() && !self.move_blocks(readable).await {
                return outcome;
            }
            moved(blocks);
            self.changed.notify();
            yield_now().await;
        }
        outcome
    }

    /// The readable blocks of a run that cannot be read as a whole.
    async fn read_singly(&self, run: &Run) -> Vec<(Run, Buffer)> {
        let mut readable = Vec::new();
        for at in 0..run.tags.len() {
            let single = run.part(at, 1);
            if let Ok(data) = self.read_run(&single).await {
                readable.push((single, data));
            }
        }
        readable
    }

    /// Writes one record of moved blocks; false if there is no room, or the store has stopped.
    async fn move_blocks(&self, runs: Vec<(Run, Buffer)>) -> bool {
        let claimed = {
            let mut state = self.state.borrow_mut();
            let data = runs.iter().flat_map(|(_, data)| data.chunks_exact(BLOCK_BYTES));
            let checksums: Vec<u32> = data.map(crc32c).collect();
            let blocks = 1 + checksums.len() as u64;
            let now = state.applied;
            let to_tail = self.tuning.cleaning == Cleaning::MoveToTail;
            let tail = if to_tail { state.space.claim(Kind::User, blocks, now) } else { None };
            let Some(claim) = tail.or_else(|| state.space.claim(Kind::Moved, blocks, now)) else {
                return false;
            };
            state.moved_sequence += 1;
            let header = RecordHeader {
                kind: Kind::Moved,
                identity: state.identity(&claim),
                sequence: state.moved_sequence,
                durable: state.durable,
                extents: runs.iter().map(|(run, _)| run.as_moved()).collect(),
                checksums,
            };
            (header, claim)
        };
        let (header, claim) = claimed;
        let data = runs.into_iter().map(|(_, data)| data.into_aligned());
        let failures = self.write_claimed(&header, &claim, data).await;
        self.fail_drives(failures).await;
        if self.check_running().is_err() {
            return false;
        }
        let mut state = self.state.borrow_mut();
        state.apply(&header, claim.address.plus(1));
        state.space.landed(claim.segment);
        state.counters.moved_records += 1;
        state.counters.moved_blocks += header.checksums.len() as u64;
        true
    }
}

impl Run {
    fn as_moved(&self) -> Extent {
        Extent {
            volume: self.volume,
            block: self.block,
            blocks: u32::try_from(self.tags.len()).expect("a run is bounded"),
            change: Change::Moved { from: self.address },
        }
    }
}

/// Takes runs that fit one record of so many data blocks, cutting the last one if need be.
fn take_batch(waiting: &mut VecDeque<Run>, blocks_max: usize) -> Vec<Run> {
    let mut batch = Vec::new();
    let (mut blocks, mut header_bytes) = (0, 0);
    while let Some(run) = waiting.front_mut() {
        let fitting = run.tags.len().min(blocks_max - blocks);
        let part = run.part(0, fitting);
        header_bytes += part.as_moved().header_bytes();
        if fitting == 0 || header_bytes > RecordHeader::ROOM_BYTES {
            break;
        }
        blocks += fitting;
        batch.push(part);
        if fitting < run.tags.len() {
            *run = run.part(fitting, run.tags.len() - fitting);
        } else {
            waiting.pop_front();
        }
    }
    batch
}
