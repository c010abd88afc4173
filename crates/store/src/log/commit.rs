//! Group commit: changes that wait share a record, several records are under way at once, and
//! they take effect and are acknowledged in the order of their LSNs.
//!
//! The order is a commit rule. Replay goes by LSN and stops at the first gap; if the live map went
//! by completion instead, two writes of a block could end up in one order before a power cut and
//! in the other behind it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

use super::Pending;
use crate::buffer::Buffer;
use crate::chain::Failure;
use crate::drive::Drive;
use crate::format::record::{Change, DATA_BLOCKS_MAX, Extent, Identity, Kind, RecordHeader};
use crate::format::segment::SegmentHeader;
use crate::rules::Rule;
use crate::space::{Claim, Space};
use crate::state::State;
use crate::store::Store;
use crate::sync::{Order, Pipeline};

/// A record on its way; an empty one has nothing pending.
#[derive(Debug)]
struct Record {
    header: RecordHeader,
    claim: Claim,
    pending: Vec<Pending>,
}

impl<D: Drive> Store<D> {
    /// Writes records until the store stops and none is under way.
    pub(crate) async fn commit(&self) {
        let mut pipeline = Pipeline::new();
        let is_in_order = self.state.borrow().rules.hold(Rule::LogOrder);
        let order = if is_in_order { Order::Begun } else { Order::Ended };
        loop {
            let landed = poll_fn(|context| {
                while pipeline.len() < self.tuning.commit_depth
                    && let Some(record) = self.next_record()
                {
                    pipeline.push(self.write_record(record));
                }
                if pipeline.len() == 0 && self.check_running().is_err() {
                    return Poll::Ready(None);
                }
                let landed = pipeline.poll_next(context, order).map(Some);
                if landed.is_pending() {
                    self.changed.register(context.waker());
                }
                landed
            });
            let Some((record, failures)) = landed.await else { return };
            self.land(record, failures).await;
        }
    }

    /// Takes as many waiting changes as fit one record, and room for it in the log.
    fn next_record(&self) -> Option<Record> {
        let mut queue = self.queue.borrow_mut();
        let mut state = self.state.borrow_mut();
        let is_mark = self.wants_mark.take();
        if queue.is_empty() && !is_mark
            || state.halted.is_some()
            || state.is_flush_overdue(&self.tuning)
        {
            return None;
        }
        let (count, blocks) = fitting_room(&queue, &state.space);
        let record_blocks = 1 + blocks as u64;
        let (now, shortage) = (state.applied, state.shortage());
        if !state.may_write(shortage, record_blocks) {
            return None;
        }
        let claim = state.space.claim(Kind::User, record_blocks, now)?;
        state.pace.spend(shortage, record_blocks);
        let pending: Vec<Pending> = queue.drain(..count).collect();
        self.queued_blocks.set(self.queued_blocks.get() - blocks);
        self.room.notify();
        state.claimed = state.claimed.next();
        state.said_durable = state.said_durable.max(state.durable);
        if !pending.is_empty() {
            state.last_change = state.claimed;
        }
        let header = RecordHeader {
            kind: Kind::User,
            identity: state.identity(&claim),
            sequence: state.claimed.0,
            durable: state.durable,
            moved_durable: state.moved_durable,
            extents: merged(pending.iter().map(|change| &change.extent)),
            checksums: pending.iter().flat_map(|change| &change.checksums).copied().collect(),
            previous: None,
        };
        let header = state.chain_header(header);
        Some(Record { header, claim, pending })
    }

    /// Waits until changes wait for room in the log although they did not, or do no longer; says
    /// which, or nothing once the store has stopped. With the last of those who wait, it may be
    /// told again and again: room comes in small pieces.
    pub async fn next_shortage(&self, was_short: bool) -> Option<bool> {
        let news = || match self.check_running() {
            Err(_) => Some(None),
            Ok(()) => Some(self.is_held_up()).filter(|&is_short| is_short != was_short).map(Some),
        };
        self.changed.until(news).await
    }

    /// Whether changes wait for room in the log.
    pub(crate) fn is_held_up(&self) -> bool {
        let (queue, state) = (self.queue.borrow(), self.state.borrow());
        if queue.is_empty() || state.is_flush_overdue(&self.tuning) {
            return false;
        }
        // Looked at with every record: where there is plenty of room, it must cost next to nothing.
        let most_blocks = 1 + DATA_BLOCKS_MAX as u64;
        if !state.shortage().is_any() && state.space.has_room(Kind::User, most_blocks) {
            return false;
        }
        let (_, blocks) = fitting_room(&queue, &state.space);
        let record_blocks = 1 + blocks as u64;
        !state.may_write(state.shortage(), record_blocks)
            || !state.space.has_room(Kind::User, record_blocks)
    }

    async fn write_record(&self, record: Record) -> (Record, Vec<Failure>) {
        let data = record.pending.iter().flat_map(|change| &change.data).cloned();
        let failures = self.write_claimed(&record.header, &record.claim, data).await;
        (record, failures)
    }

    /// Writes a record to all copies of its segment.
    pub(crate) async fn write_claimed(
        &self,
        header: &RecordHeader,
        claim: &Claim,
        data: impl Iterator<Item = Buffer>,
    ) -> Vec<Failure> {
        let mut blocks = Vec::new();
        if claim.is_first {
            let segment = SegmentHeader {
                store: header.identity.store,
                segment: claim.segment,
                generation: claim.generation,
                mount: header.identity.mount,
                copies: claim.copies,
            };
            blocks.push(Buffer::copy_of(&segment.encode()));
        }
        let (_, block) = self.state.borrow().space.locate(claim.address);
        let first_block = block - blocks.len() as u64;
        blocks.push(Buffer::copy_of(&header.encode()));
        blocks.extend(data);
        if self.state.borrow().space.is_in_tail(claim.segment) {
            self.chain.note_append(claim.copies);
        }
        self.chain.write_copies(claim.copies, first_block, &blocks).await
    }

    /// Puts a written record into effect, and acknowledges its changes.
    async fn land(&self, record: Record, failures: Vec<Failure>) {
        self.fail_drives(failures).await;
        let outcome = self.check_running();
        if outcome.is_ok() {
            let mut state = self.state.borrow_mut();
            state.apply(&record.header, record.claim.address.plus(1));
            state.space.landed(record.claim.segment);
            state.work.apply(record.header.record_blocks());
            state.counters.records += 1;
            state.counters.written_blocks += record.header.checksums.len() as u64;
            drop(state);
            let data = record.pending.iter().flat_map(|change| &change.data);
            self.keep_written(record.claim.address.plus(1), &record.header, data);
        }
        for change in record.pending {
            change.done.set(outcome);
        }
        self.changed.notify();
        self.finish_completed().await;
    }

    /// Tells drives with zones which of them get nothing more: only so many may be half full.
    pub(crate) async fn finish_completed(&self) {
        let completed = self.state.borrow_mut().space.take_completed();
        for slot in completed {
            let member = &self.chain.members[slot.drive.index()];
            if member.is_active()
                && let Err(error) = member.finish_slot(slot).await
            {
                self.fail_drives(vec![(slot.drive, error)]).await;
            }
        }
    }
}

impl State {
    pub(crate) fn identity(&self, claim: &Claim) -> Identity {
        Identity {
            store: self.superblock.store,
            mount: self.mount,
            generation: claim.generation,
            address: claim.address,
        }
    }
}

/// How many of the changes the next record takes, and their data blocks: it ends where its segment
/// ends, unless not even the first of them fits there.
fn fitting_room(changes: &VecDeque<Pending>, space: &Space) -> (usize, usize) {
    let rest_blocks = space.open_rest_blocks(Kind::User).saturating_sub(1) as usize;
    match fitting(changes.iter(), DATA_BLOCKS_MAX.min(rest_blocks)) {
        (0, _) => {
            let segment_blocks = space.segment_blocks() as usize - 2;
            fitting(changes.iter(), DATA_BLOCKS_MAX.min(segment_blocks))
        }
        fitting => fitting,
    }
}

/// How many of the changes fit one record of at most so many data blocks, and what they have.
fn fitting<'a>(changes: impl Iterator<Item = &'a Pending>, blocks_max: usize) -> (usize, usize) {
    let (mut count, mut blocks, mut header_bytes) = (0, 0, 0);
    for change in changes {
        header_bytes += change.extent.header_bytes();
        let is_full =
            blocks + change.data_blocks() > blocks_max || header_bytes > RecordHeader::ROOM_BYTES;
        if is_full {
            break;
        }
        count += 1;
        blocks += change.data_blocks();
    }
    (count, blocks)
}

/// The extents, with those that continue each other as one.
fn merged<'a>(extents: impl Iterator<Item = &'a Extent>) -> Vec<Extent> {
    let mut merged: Vec<Extent> = Vec::new();
    for extent in extents {
        match merged.last_mut() {
            Some(last) if continues(last, extent) => last.blocks += extent.blocks,
            _ => merged.push(*extent),
        }
    }
    merged
}

fn continues(last: &Extent, next: &Extent) -> bool {
    last.change == Change::Written
        && next.change == Change::Written
        && last.volume == next.volume
        && last.block + u64::from(last.blocks) == next.block
}
