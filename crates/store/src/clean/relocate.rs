//! Moving blocks: read them, verified, and write them again in a record that says where they were.
//!
//! A move takes effect block by block, and only where the block is still at the old address: what a
//! client wrote meanwhile wins, live and in replay, whatever the order in which the two became
//! durable.

use std::collections::VecDeque;

use evenkeel_core::crc32c::crc32c;

use super::turn::ChoreKind;
use crate::buffer::Buffer;
use crate::drive::Drive;
use crate::error::StoreError;
use crate::format::record::{Change, Extent, Kind, RecordHeader};
use crate::read::Run;
use crate::space::Claim;
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

    /// Moves runs, a quantum at a time, until room runs out; tells `moved` the blocks of each.
    ///
    /// # Errors
    /// The last [`StoreError`] of a block that could not be read; the others were moved.
    pub(crate) async fn relocate(
        &self,
        runs: Vec<Run>,
        moved: impl Fn(u64),
    ) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let mut left: VecDeque<Run> = runs.into();
        // What is mended at once goes into one record.
        let quantum_blocks =
            (self.tuning.cleaning_quantum_bytes / BLOCK_BYTES).max(super::MEND_BLOCKS_MAX);
        while !left.is_empty() {
            self.until_durable_enough().await;
            if self.state.borrow().space.room_to_move_blocks() == 0 {
                return outcome;
            }
            let quantum = take_blocks(&mut left, quantum_blocks);
            let blocks: usize = quantum.iter().map(|run| run.tags.len()).sum();
            let bytes = (blocks * BLOCK_BYTES) as u64;
            let reading = self.turn(ChoreKind::Read, bytes).await;
            let data = self.gather(&quantum).await;
            drop(reading);
            let mut readable = VecDeque::new();
            for (run, data) in quantum.into_iter().zip(data) {
                match data {
                    Ok(data) => readable.push_back((run, data)),
                    Err(error) => {
                        outcome = Err(error);
                        readable.extend(self.read_singly(&run).await);
                    }
                }
            }
            let writing = self.turn(ChoreKind::Write, bytes).await;
            let is_moved = self.move_quantum(readable, &moved).await;
            drop(writing);
            // Whoever waits for a checkpoint does not wait for many turns.
            if !is_moved || self.turns.are_attended() && self.is_checkpoint_wanted() {
                return outcome;
            }
            self.changed.notify();
            yield_now().await;
        }
        outcome
    }

    /// Writes what was read, in as many records as it takes, all at once; false if room ran out, or
    /// the store has stopped.
    async fn move_quantum(
        &self,
        mut readable: VecDeque<(Run, Buffer)>,
        moved: &impl Fn(u64),
    ) -> bool {
        let mut records = Vec::new();
        while !readable.is_empty() {
            let room = self.state.borrow().space.room_to_move_blocks();
            if room == 0 {
                break;
            }
            let Some(record) = self.claim_move(take_batch(&mut readable, room)) else { break };
            records.push(record);
        }
        let is_all = readable.is_empty();
        let writes = records.into_iter().map(|record| async {
            let blocks = record.header.checksums.len() as u64;
            let is_done = self.write_move(record).await;
            if is_done {
                moved(blocks);
            }
            is_done
        });
        let is_done = join_all(writes).await.into_iter().all(|is_done| is_done);
        if is_done {
            // There is one cleaner, so that no other record of it is under way.
            let mut state = self.state.borrow_mut();
            state.moved_applied = state.moved_sequence;
        }
        is_done && is_all
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

    /// Makes one record of moved blocks, with room for it; none if there is no room.
    fn claim_move(&self, runs: Vec<(Run, Buffer)>) -> Option<Move> {
        let mut state = self.state.borrow_mut();
        let data = runs.iter().flat_map(|(_, data)| data.chunks_exact(BLOCK_BYTES));
        let checksums: Vec<u32> = data.map(crc32c).collect();
        let blocks = 1 + checksums.len() as u64;
        let now = state.applied;
        let to_tail = self.tuning.cleaning == Cleaning::MoveToTail;
        let tail = if to_tail { state.space.claim(Kind::User, blocks, now) } else { None };
        let claim = tail.or_else(|| state.space.claim(Kind::Moved, blocks, now))?;
        state.moved_sequence += 1;
        let header = RecordHeader {
            kind: Kind::Moved,
            identity: state.identity(&claim),
            sequence: state.moved_sequence,
            durable: state.durable,
            moved_durable: state.moved_durable,
            extents: runs.iter().map(|(run, _)| run.as_moved()).collect(),
            checksums,
            previous: None,
        };
        let header = state.chain_header(header);
        Some(Move { header, claim, data: runs.into_iter().map(|(_, data)| data).collect() })
    }

    /// Writes one record of moved blocks; false if the store has stopped.
    async fn write_move(&self, record: Move) -> bool {
        let Move { header, claim, data } = record;
        let data = data.into_iter().map(Buffer::into_aligned);
        let failures = self.write_claimed(&header, &claim, data).await;
        self.fail_drives(failures).await;
        if self.check_running().is_err() {
            return false;
        }
        {
            let mut state = self.state.borrow_mut();
            state.apply(&header, claim.address.plus(1));
            state.space.landed(claim.segment);
            state.work.apply(header.record_blocks());
            state.counters.moved_records += 1;
            state.counters.moved_blocks += header.checksums.len() as u64;
        }
        self.finish_completed().await;
        true
    }
}

/// A record of the cleaner on its way.
struct Move {
    header: RecordHeader,
    claim: Claim,
    data: Vec<Buffer>,
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

/// Takes runs of so many blocks, cutting the last one if need be.
fn take_blocks(waiting: &mut VecDeque<Run>, blocks_max: usize) -> Vec<Run> {
    let mut taken = Vec::new();
    let mut left = blocks_max;
    while left > 0
        && let Some(run) = waiting.pop_front()
    {
        let fitting = run.tags.len().min(left);
        if fitting < run.tags.len() {
            waiting.push_front(run.part(fitting, run.tags.len() - fitting));
        }
        left -= fitting;
        taken.push(run.part(0, fitting));
    }
    taken
}

/// Takes runs with their data that fit one record of so many data blocks, cutting the last one if
/// need be.
fn take_batch(waiting: &mut VecDeque<(Run, Buffer)>, blocks_max: usize) -> Vec<(Run, Buffer)> {
    let mut batch = Vec::new();
    let (mut blocks, mut header_bytes) = (0, 0);
    while let Some((run, data)) = waiting.front_mut() {
        let fitting = run.tags.len().min(blocks_max - blocks);
        let part = run.part(0, fitting);
        header_bytes += part.as_moved().header_bytes();
        if fitting == 0 || header_bytes > RecordHeader::ROOM_BYTES {
            break;
        }
        blocks += fitting;
        batch.push((part, data.slice(0..fitting * BLOCK_BYTES)));
        if fitting < run.tags.len() {
            *run = run.part(fitting, run.tags.len() - fitting);
            *data = data.slice(fitting * BLOCK_BYTES..data.len());
        } else {
            waiting.pop_front();
        }
    }
    batch
}
