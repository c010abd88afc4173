//! Replay: clients' records in the order of their LSNs up to the first gap, then the cleaner's.
//!
//! A record that is not known to have been flushed, a client's or the cleaner's, counts only if
//! each of its blocks is whole on some copy. If it is, all copies are made alike before it counts,
//! since from then on it is durable.
//!
//! A gap before what was durable is no end of the log but damage. What behind it is whole must not
//! be put into effect without what is missing, which may be older or newer writes of the same
//! blocks: the store is refused, unless its owner gives up all behind the gap.

use evenkeel_core::crc32c::crc32c;

use super::scan::{Candidate, Candidates};
use super::{OpenOptions, stopped};
use crate::buffer::{Buffer, BufferMut};
use crate::drive::Drive;
use crate::error::{Damage, Halt, OpenError};
use crate::format::record::{Extent, RecordHeader};
use crate::read::CopyBlocks;
use crate::rules::Rule;
use crate::state::Effect;
use crate::store::Store;
use crate::units::{BLOCK_BYTES, BLOCK_BYTES_U64, Lsn, Slot};
use crate::volume::Impossible;

/// Blocks that are kept in memory at most: 16 MiB, many times what is under way at a power cut.
const RESCUED_BLOCKS_MAX: usize = 4096;

impl<D: Drive> Store<D> {
    /// Brings the state from the checkpoint to the last record that counts.
    pub(super) async fn replay(
        &self,
        candidates: Candidates,
        options: &OpenOptions,
    ) -> Result<(), OpenError> {
        let rules = self.state.borrow().rules;
        let headers = || {
            let all = candidates.user.values().chain(candidates.moved.values());
            all.map(|it| &it.header)
        };
        let durable = headers().map(|header| header.durable).max().unwrap_or_default();
        let durable = durable.max(self.known_durable(options));
        let moved_durable = headers().map(|header| header.moved_durable).max().unwrap_or_default();
        self.drop_rolled_back(&candidates, durable, moved_durable).await;
        if !options.accepts_loss && rules.hold(Rule::LookBehind) {
            self.refuse_damage(&candidates, durable)?;
        }
        let Candidates { user, moved, .. } = candidates;
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

    /// Refuses a log of which records that were durable are missing.
    fn refuse_damage(&self, candidates: &Candidates, durable: Lsn) -> Result<(), OpenError> {
        let state = self.state.borrow();
        let mut missing = state.applied.next();
        while candidates.user.contains_key(&missing.0) {
            missing = missing.next();
        }
        if missing > durable {
            return Ok(());
        }
        let drive = candidates.damaged.first().and_then(|address| {
            let (segment, _) = state.space.locate(*address);
            state.space.copies(segment).iter().flatten().next().map(|slot| slot.drive)
        });
        let behind = candidates.user.range(missing.0..);
        if behind.clone().next().is_none() && candidates.damaged.is_empty() {
            // Nothing is behind it: what was known outside is not here.
            return Ok(());
        }
        let extents: Vec<Extent> =
            behind.clone().flat_map(|(_, it)| &it.header.extents).copied().collect();
        let whole = behind.count() as u64;
        Err(OpenError::Damaged(Box::new(Damage { missing, durable, drive, whole, extents })))
    }

    fn replay_one(&self, candidate: &Candidate) -> Result<(), OpenError> {
        let mut state = self.state.borrow_mut();
        let effect = Effect::of(&candidate.header, candidate.address.plus(1));
        let replayed = state.carry_out(effect);
        replayed.map_err(|Impossible| OpenError::Inconsistent("a record of no volume"))
    }

    /// Whether each block of the record is whole on some copy. If so, all copies are whole after;
    /// one in a zone that cannot be made so is a copy no more, unless there is no better one.
    async fn make_whole(&self, candidate: &Candidate) -> Result<bool, Halt> {
        if !self.state.borrow().rules.hold(Rule::RecordData) {
            return Ok(true);
        }
        let (segment, block) = self.state.borrow().space.locate(candidate.address);
        let length = (1 + candidate.header.checksums.len()) * BLOCK_BYTES;
        let mut whole = Whole::new(&candidate.header);
        let mut torn: Vec<(Slot, Found)> = Vec::new();
        let slots = self.by_preference(segment);
        for &slot in &slots {
            let copy = self.read_copy(slot, block, length).await;
            let found = copy.map_or(Found::Part, |copy| whole.take(&copy));
            if found != Found::All {
                torn.push((slot, found));
            }
        }
        let Some(record) = whole.finish() else { return Ok(false) };
        let mut lost = Vec::new();
        for (slot, found) in torn {
            if !self.mend_copy(slot, block, &record).await? {
                lost.push((slot, found));
            }
        }
        // What follows in a copy that was set apart is not there either.
        if !lost.is_empty() || self.state.borrow().space.spare(segment).is_some() {
            self.rescue(candidate, &record);
            self.note_torn(segment, candidate.address);
        }
        if lost.len() == slots.len() {
            // If one has all data, the map tells where. Else they are needed together.
            match lost.iter().position(|(_, found)| *found == Found::Data) {
                Some(kept) => drop(lost.remove(kept)),
                None => lost.clear(),
            }
        }
        for (slot, _) in lost {
            self.state.borrow_mut().space.set_copy_apart(segment, slot);
        }
        Ok(true)
    }

    /// Keeps in memory what has one copy now, until it has another: whatever else there is of the
    /// record, it may be all that the drives had of it.
    fn rescue(&self, candidate: &Candidate, record: &Buffer) {
        let mut rescued = self.rescued.borrow_mut();
        for at in (BLOCK_BYTES..record.len()).step_by(BLOCK_BYTES) {
            if rescued.len() < RESCUED_BLOCKS_MAX {
                let address = candidate.address.plus((at / BLOCK_BYTES) as u64);
                rescued.insert(address, record.slice(at..at + BLOCK_BYTES));
            }
        }
    }

    /// Makes the copy of a record whole; whether that could be.
    async fn mend_copy(&self, slot: Slot, block: u64, record: &Buffer) -> Result<bool, Halt> {
        let member = &self.chain.members[slot.drive.index()];
        if member.written_bytes(slot).is_some() {
            self.complete(slot, block, record).await
        } else {
            self.rewrite(slot, block, record).await?;
            Ok(true)
        }
    }

    async fn rewrite(&self, slot: Slot, block: u64, record: &Buffer) -> Result<(), Halt> {
        let failures =
            self.chain.write_copies([Some(slot), None], block, std::slice::from_ref(record));
        self.fail_drives(failures.await).await;
        self.state.borrow().halted.map_or(Ok(()), Err)
    }

    /// Writes what is missing of a record's copy in a zone, where nothing can be written over;
    /// whether it is whole then.
    ///
    /// ```text
    /// | header | data | da           |        the copy that a power cut has left
    ///                     ^ pointer
    ///                     | ta | data |      what is written
    /// ```
    async fn complete(&self, slot: Slot, block: u64, record: &Buffer) -> Result<bool, Halt> {
        let member = &self.chain.members[slot.drive.index()];
        let start_bytes = block * BLOCK_BYTES_U64;
        let written = member.written_bytes(slot).and_then(|it| it.checked_sub(start_bytes));
        let written = written.and_then(|bytes| usize::try_from(bytes).ok());
        let Some(written) = written.filter(|&written| written < record.len()) else {
            return Ok(false);
        };
        let copy = member.read_slot(slot, block, record.len()).await;
        if !copy.is_ok_and(|copy| copy[..written] == record[..written]) {
            return Ok(false);
        }
        let rest = record.slice(written..record.len()).into_aligned();
        let outcome = member.write_slot(slot, start_bytes + written as u64, rest).await;
        let failures = outcome.err().map(|error| (slot.drive, error));
        self.fail_drives(failures.into_iter().collect()).await;
        self.state.borrow().halted.map_or_else(|| Ok(outcome.is_ok()), Err)
    }
}

/// What a copy of a record has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    All,
    /// All but the header.
    Data,
    Part,
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

    /// Takes what a copy has, and says how much that is.
    fn take(&mut self, copy: &CopyBlocks) -> Found {
        let (header, data) = copy.data.split_at(BLOCK_BYTES);
        let has_header = copy.readable[0] && header == &self.record[..BLOCK_BYTES];
        let mut found = if has_header { Found::All } else { Found::Data };
        for (index, block) in data.chunks_exact(BLOCK_BYTES).enumerate() {
            if copy.readable[index + 1] && crc32c(block) == self.checksums[index] {
                self.record[(index + 1) * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(block);
                self.found[index] = true;
            } else {
                found = Found::Part;
            }
        }
        found
    }

    fn finish(self) -> Option<Buffer> {
        self.found.iter().all(|&found| found).then(|| self.record.freeze())
    }
}
