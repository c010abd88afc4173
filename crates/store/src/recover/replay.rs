//! Replay: clients' records in the order of their LSNs up to the first gap, then the cleaner's.
//!
//! A record that is not known to have been flushed, a client's or the cleaner's, counts only if
//! each of its blocks is whole on some copy. If it is, all copies are made alike before it counts,
//! since from then on it is durable.

use evenkeel_core::crc32c::crc32c;

use super::scan::{Candidate, Candidates};
use super::stopped;
use crate::buffer::{Buffer, BufferMut};
use crate::drive::Drive;
use crate::error::{Halt, OpenError};
use crate::format::record::RecordHeader;
use crate::read::CopyBlocks;
use crate::rules::Rule;
use crate::store::Store;
use crate::units::{BLOCK_BYTES, Slot};
use crate::volume::Impossible;

impl<D: Drive> Store<D> {
    /// Brings the state from the checkpoint to the last record that counts.
    pub(super) async fn replay(&self, candidates: Candidates) -> Result<(), OpenError> {
        let Candidates { user, moved } = candidates;
        let rules = self.state.borrow().rules;
        let headers = || user.values().chain(moved.values()).map(|it| &it.header);
        let durable = headers().map(|header| header.durable).max().unwrap_or_default();
        let moved_durable = headers().map(|header| header.moved_durable).max().unwrap_or_default();
        let mut next = self.state.borrow().applied.next().0;
        // Empty, unless the rule is broken.
        let mut late = Vec::new();
        for (&sequence, candidate) in user.range(next..) {
            if sequence != next && rules.hold(Rule::StopAtGap) {
                break;
            }
            if sequence > durable.0 && !self.make_whole(candidate).await.map_err(stopped)? {
                if rules.hold(Rule::StopAtGap) {
                    break;
                }
                continue;
            }
            if rules.hold(Rule::VolumeOrder) || !candidate.changes_a_volume() {
                self.replay_one(candidate)?;
            } else {
                late.push(candidate);
            }
            next = sequence + 1;
        }
        late.into_iter().try_for_each(|candidate| self.replay_one(candidate))?;
        let known = self.state.borrow().moved_sequence;
        for (&sequence, candidate) in moved.range(known + 1..) {
            if sequence <= moved_durable || self.make_whole(candidate).await.map_err(stopped)? {
                self.replay_one(candidate)?;
            }
            self.state.borrow_mut().moved_sequence = sequence;
        }
        let mut state = self.state.borrow_mut();
        state.claimed = state.applied;
        state.moved_applied = state.moved_sequence;
        Ok(())
    }

    fn replay_one(&self, candidate: &Candidate) -> Result<(), OpenError> {
        let mut state = self.state.borrow_mut();
        let replayed = state.try_apply(&candidate.header, candidate.address.plus(1));
        replayed.map_err(|Impossible| OpenError::Inconsistent("a record of no volume"))
    }

    /// Whether each block of the record is whole on some copy. If so, all copies are whole after.
    async fn make_whole(&self, candidate: &Candidate) -> Result<bool, Halt> {
        if !self.state.borrow().rules.hold(Rule::RecordData) {
            return Ok(true);
        }
        let (segment, block) = self.state.borrow().space.locate(candidate.address);
        let length = (1 + candidate.header.checksums.len()) * BLOCK_BYTES;
        let mut whole = Whole::new(&candidate.header);
        let mut torn: Vec<Slot> = Vec::new();
        for slot in self.by_preference(segment) {
            let copy = self.read_copy(slot, block, length).await;
            if !copy.is_ok_and(|copy| whole.take(&copy)) {
                torn.push(slot);
            }
        }
        let Some(record) = whole.finish() else { return Ok(false) };
        for slot in torn {
            self.rewrite(slot, block, &record).await?;
        }
        Ok(true)
    }

    async fn rewrite(&self, slot: Slot, block: u64, record: &Buffer) -> Result<(), Halt> {
        let failures =
            self.chain.write_copies([Some(slot), None], block, std::slice::from_ref(record));
        self.fail_drives(failures.await).await;
        match self.state.borrow().halted {
            None => Ok(()),
            Some(halt) => Err(halt),
        }
    }
}

/// A record that is put together from its copies.
struct Whole {
    checksums: Vec<u32>,
    found: Vec<bool>,
    record: BufferMut,
}

impl Whole {
    fn new(header: &RecordHeader) -> Self {
        let encoded = header.encode();
        let mut record = BufferMut::zeroed((1 + header.checksums.len()) * BLOCK_BYTES);
        record[..BLOCK_BYTES].copy_from_slice(&encoded);
        Self {
            checksums: header.checksums.clone(),
            found: vec![false; header.checksums.len()],
            record,
        }
    }

    /// Takes what a copy has; whether it is whole.
    fn take(&mut self, copy: &CopyBlocks) -> bool {
        let (header, data) = copy.data.split_at(BLOCK_BYTES);
        let mut is_whole = copy.readable[0] && header == &self.record[..BLOCK_BYTES];
        for (index, block) in data.chunks_exact(BLOCK_BYTES).enumerate() {
            if copy.readable[index + 1] && crc32c(block) == self.checksums[index] {
                self.record[(index + 1) * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(block);
                self.found[index] = true;
            } else {
                is_whole = false;
            }
        }
        is_whole
    }

    fn finish(self) -> Option<Buffer> {
        self.found.iter().all(|&found| found).then(|| self.record.freeze())
    }
}
