//! Whether the drives given are of one time and one history.
//!
//! Each drive has a superblock of its own, which says what it knew of the others when it was last
//! written to. Three things can be wrong that no checksum shows:
//!
//! - **Split brain.** Each of two drives went on without the other, and marked it stale. Each may
//!   have acknowledged what the other lacks, so that neither may be written over by the other
//!   without being asked for: the store is refused.
//!
//! ```text
//! A alone   A: superblock 8, B is stale      B: superblock 7
//! B alone   A: superblock 8, B is stale      B: superblock 8, A is stale     refused
//! ```
//!
//! - **Rollback.** A drive that counts as in sync is an older image of itself: a backup that was
//!   put back, a snapshot of a virtual machine. A power cut may leave a drive without the newest
//!   superblock, but with the last chunk of its checkpoint, which is durable everywhere before.
//!   Whoever lacks both is brought up to date like a drive with nothing on it. Within the time of
//!   one checkpoint the records tell: a drive lacks the last durable record of a segment. Its copy
//!   of that segment counts no more.
//!
//! - **All of them are older images**, or lost what they had acknowledged. Only whoever opens the
//!   store can know that, see [`Position`]: the store is refused.

use std::collections::BTreeMap;

use super::OpenOptions;
use super::load::read_chunk;
use super::scan::{Candidate, Candidates};
use crate::chain::Member;
use crate::drive::Drive;
use crate::error::{OpenError, Side};
use crate::format::checkpoint::ChunkIdentity;
use crate::format::record::RecordHeader;
use crate::format::superblock::{DriveState, Superblock};
use crate::position::Position;
use crate::rules::Rule;
use crate::store::Store;
use crate::units::{BLOCK_BYTES, Lsn, SegmentId, Slot};

/// Refuses two drives if each says that the other is stale. The superblocks are those of the drives
/// given, in their order.
pub(super) fn refuse_split(own: &[&Superblock]) -> Result<(), OpenError> {
    // A foreign drive, or one that was replaced, is refused for that.
    let holds_stale = |one: &Superblock, other: &Superblock| {
        let [row, own] = [one, other].map(|it| it.drives.get(other.drive.index()));
        let is_it = one.store == other.store && row.map(|it| it.uuid) == own.map(|it| it.uuid);
        is_it && row.is_some_and(|row| row.state != DriveState::InSync)
    };
    for (position, one) in own.iter().enumerate() {
        for (other_position, other) in own.iter().enumerate().skip(position + 1) {
            if holds_stale(one, other) && holds_stale(other, one) {
                let sides = [(position, one), (other_position, other)];
                return Err(OpenError::Split(sides.map(|(position, it)| Side::of(position, it))));
            }
        }
    }
    Ok(())
}

/// Whether a drive that counts as in sync lacks what was durable before the newest superblock.
pub(super) async fn is_rolled_back<D: Drive>(
    member: &Member<D>,
    own: &Superblock,
    newest: &Superblock,
) -> bool {
    let (known, place) = (own.checkpoint, newest.checkpoint);
    let is_newest = (known.number, known.chunks) >= (place.number, place.chunks);
    if !member.is_active() || is_newest {
        return false;
    }
    let (store, mount, index) = (newest.store, newest.mount, place.chunks - 1);
    let last = ChunkIdentity { store, mount, checkpoint: place.number, index };
    read_chunk([member].into_iter(), &place, place.last_block, last).await.is_err()
}

/// Bytes of a header that damage may have changed at most: it is a bad bit, or a few.
const DAMAGED_BYTES_MAX: usize = 8;

/// Whether a block is not the header that was expected, nor that header with some bad bits.
fn is_of_another_time(block: &[u8], expected: &[u8]) -> bool {
    let different = block.iter().zip(expected).filter(|(one, other)| one != other).count();
    different > DAMAGED_BYTES_MAX || different > 0 && RecordHeader::decode(block).is_ok()
}

impl<D: Drive> Store<D> {
    /// Up to where records of the mount that was found are remembered as durable.
    pub(super) fn known_durable(&self, options: &OpenOptions) -> Lsn {
        let (found, known) = (self.position(), self.known_position(options));
        let of_mount = known.filter(|it| (it.store, it.mount) == (found.store, found.mount));
        of_mount.map_or(Lsn(0), |it| it.durable)
    }

    /// Refuses a store that was replayed and is behind what is remembered of it.
    pub(super) fn refuse_older(&self, options: &OpenOptions) -> Result<(), OpenError> {
        let found = Position { durable: self.state.borrow().applied, ..self.position() };
        let known = self.known_position(options);
        match known.filter(|known| !options.accepts_loss && found.lacks(known)) {
            Some(known) => Err(OpenError::Older { found, known }),
            None => Ok(()),
        }
    }

    fn known_position(&self, options: &OpenOptions) -> Option<Position> {
        options.known.filter(|_| self.state.borrow().rules.hold(Rule::KnownPosition))
    }

    /// Sets copies of segments apart that lack the last record that was durable there.
    pub(super) async fn drop_rolled_back(
        &self,
        candidates: &Candidates,
        durable: Lsn,
        moved_durable: u64,
    ) {
        if !self.state.borrow().rules.hold(Rule::OneTime) {
            return;
        }
        let mut last: BTreeMap<SegmentId, &Candidate> = BTreeMap::new();
        let user = candidates.user.range(..=durable.0);
        for (_, candidate) in user.chain(candidates.moved.range(..=moved_durable)) {
            let (segment, _) = self.state.borrow().space.locate(candidate.address);
            let known = last.entry(segment).or_insert(candidate);
            if known.address < candidate.address {
                *known = candidate;
            }
        }
        for (segment, candidate) in last {
            self.compare_copies(segment, candidate).await;
        }
    }

    async fn compare_copies(&self, segment: SegmentId, candidate: &Candidate) {
        let (_, block) = self.state.borrow().space.locate(candidate.address);
        let mut slots = self.by_preference(segment);
        slots.retain(|slot| self.chain.members[slot.drive.index()].is_active());
        if slots.len() < 2 {
            return;
        }
        let expected = candidate.header.encode();
        let mut behind: Vec<Slot> = Vec::new();
        for &slot in &slots {
            let member = &self.chain.members[slot.drive.index()];
            // What cannot be read is bad, and no sign of another time.
            let header = member.read_slot(slot, block, BLOCK_BYTES).await;
            if header.is_ok_and(|header| is_of_another_time(&header, &expected)) {
                behind.push(slot);
            }
        }
        if behind.len() == slots.len() {
            return;
        }
        for slot in behind {
            self.state.borrow_mut().space.set_old_copy_apart(segment, slot);
            self.note_rolled_back(slot.drive);
        }
    }
}
