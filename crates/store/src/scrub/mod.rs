//! Scrubbing: reads every copy of everything that is sealed, and has what is bad written anew.
//!
//! ```text
//! segment 7:  copy on drive 0 | 1 MiB | 1 MiB | ..      one step reads one window of one copy,
//!             copy on drive 2 | 1 MiB | 1 MiB | ..      in the order in which they lie
//! segment 9:  ..
//! ```
//!
//! Record headers are held against their places, live blocks against the tags of the map. Nothing
//! is repaired here, and nothing in the log is ever written over: a block with a bad copy is noted,
//! and housekeeping moves it. The tail's segments are not looked at: they are still being written
//! to, and their turn comes when they are sealed.
//!
//! The pace is the caller's, who asks for one step after the other and waits as long as it likes in
//! between. Memory: a window, and what is alive in one segment.

mod window;

use std::collections::{BTreeSet, VecDeque};

use crate::drive::Drive;
use crate::error::StoreError;
use crate::read::Run;
use crate::store::Store;
use crate::units::{BLOCK_BYTES_U64, DriveIndex, SegmentId, Slot, VolumeId};
use window::{WINDOW_BLOCKS, Walk};

/// Bytes that one step reads at most, but for headers that are looked for: 1 MiB.
pub const SCRUB_STEP_BYTES: u64 = WINDOW_BLOCKS * BLOCK_BYTES_U64;

/// A walk over everything that is sealed.
#[derive(Debug)]
pub struct Scrub<'a, D> {
    store: &'a Store<D>,
    /// Segments before this one are done.
    next: SegmentId,
    current: Option<Examined>,
    report: ScrubReport,
}

/// What one step came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStep {
    /// Bytes that were read from one drive.
    pub read_bytes: u64,
    /// What is wrong there, in the order of the places.
    pub flaws: Vec<Flaw>,
    /// Blocks of these flaws that were not noted for mending, since as many were as can be.
    pub unnoted_blocks: u64,
}

/// What a scrub has found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Bytes of all copies of the segments that were sealed when the scrub began.
    pub total_bytes: u64,
    /// Bytes of copies that are done.
    pub done_bytes: u64,
    /// Segments that were looked at.
    pub segments: u64,
    /// Record headers of which a copy is bad.
    pub bad_headers: u64,
    /// Blocks of which a copy is bad, and another one is good: they are written anew.
    pub bad_blocks: u64,
    /// Blocks without any good copy: what they held is lost.
    pub lost_blocks: u64,
    /// Blocks that are not written anew, since as many were noted at the time as can be
    /// ([`crate::Tuning::noted_blocks_max`]). Another scrub finds those that are still bad.
    pub unnoted_blocks: u64,
    /// Drives that did not answer; their copies were not looked at from there on.
    pub gone: BTreeSet<DriveIndex>,
}

/// Something that is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The segment.
    pub segment: SegmentId,
    /// The copy of it.
    pub slot: Slot,
    /// The block within the segment.
    pub block: u64,
    /// What it should be.
    pub kind: FlawKind,
}

/// What a flawed block should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlawKind {
    /// The header of a record with live blocks.
    Header,
    /// This block of a volume; another copy of it is good.
    Data {
        /// The volume.
        volume: VolumeId,
        /// The block within it.
        block: u64,
    },
    /// This block of a volume, and no copy of it is good.
    Lost {
        /// The volume.
        volume: VolumeId,
        /// The block within it.
        block: u64,
    },
}

/// A segment that is being looked at.
#[derive(Debug)]
struct Examined {
    segment: SegmentId,
    generation: u64,
    /// What is alive in it, in the order of the addresses.
    live: Vec<Run>,
    /// Copies that are still to come; the first is under way.
    copies: VecDeque<Slot>,
    walk: Walk,
}

impl<D: Drive> Store<D> {
    /// Begins a walk over all segments that are sealed; see [`Scrub`].
    pub fn scrub(&self) -> Scrub<'_, D> {
        let state = self.state.borrow();
        let copies = state.space.sealed_copies();
        let segment_bytes = u64::from(state.space.segment_blocks()) * BLOCK_BYTES_U64;
        let total_bytes = copies * segment_bytes;
        let report = ScrubReport { total_bytes, ..ScrubReport::default() };
        Scrub { store: self, next: SegmentId(0), current: None, report }
    }
}

impl<D: Drive> Scrub<'_, D> {
    /// Reads the next window; `None` when all is done. What is noted is mended while
    /// [`Store::run`] is polled; [`crate::Status::is_mending`] says whether something is left.
    ///
    /// # Errors
    /// [`StoreError::Halted`] if the store has stopped.
    pub async fn step(&mut self) -> Result<Option<ScrubStep>, StoreError> {
        self.store.check_running()?;
        loop {
            if self.current.is_none() && !self.enter().await {
                self.report.done_bytes = self.report.total_bytes;
                return Ok(None);
            }
            if let Some(step) = self.step_within().await {
                self.book(&step);
                return Ok(Some(step));
            }
            self.current = None;
        }
    }

    /// What was found so far.
    pub fn report(&self) -> &ScrubReport {
        &self.report
    }

    /// Goes to the next sealed segment; false if there is none.
    async fn enter(&mut self) -> bool {
        let found = self.store.state.borrow().space.next_sealed(self.next);
        let Some(segment) = found else { return false };
        self.next = SegmentId(segment.0 + 1);
        let _pin = self.store.pin(segment);
        let generation = self.store.state.borrow().space.generation(segment);
        let live = self.store.live_blocks(segment).await;
        let copies = self.store.by_preference(segment);
        self.report.segments += 1;
        let (copies, walk) = (copies.into(), Walk::default());
        self.current = Some(Examined { segment, generation, live, copies, walk });
        true
    }

    /// Reads a window of the current segment; `None` if it is done, or is not what it was.
    async fn step_within(&mut self) -> Option<ScrubStep> {
        let current = self.current.as_mut()?;
        let store = self.store;
        let _pin = store.pin(current.segment);
        if !store.state.borrow().space.is_sealed_as(current.segment, current.generation) {
            return None;
        }
        let end = u64::from(store.state.borrow().space.segment_blocks());
        loop {
            let slot = *current.copies.front()?;
            if current.walk.at_block < end && !self.report.gone.contains(&slot.drive) {
                let window = current.walk.window(end);
                let examined =
                    store.examine(current.segment, slot, &current.live, &mut current.walk);
                if let Some((flaws, unnoted_blocks)) = examined.await {
                    let read_bytes = (window.end - window.start) * BLOCK_BYTES_U64;
                    return Some(ScrubStep { read_bytes, flaws, unnoted_blocks });
                }
                self.report.gone.insert(slot.drive);
            }
            let left_blocks = end.saturating_sub(current.walk.at_block);
            self.report.done_bytes += left_blocks * BLOCK_BYTES_U64;
            current.copies.pop_front();
            current.walk = Walk::default();
        }
    }

    fn book(&mut self, step: &ScrubStep) {
        let report = &mut self.report;
        // Segments that were sealed meanwhile are looked at as well.
        report.done_bytes = (report.done_bytes + step.read_bytes).min(report.total_bytes);
        report.unnoted_blocks += step.unnoted_blocks;
        for flaw in &step.flaws {
            match flaw.kind {
                FlawKind::Header => report.bad_headers += 1,
                FlawKind::Data { .. } => report.bad_blocks += 1,
                FlawKind::Lost { .. } => report.lost_blocks += 1,
            }
        }
    }
}
