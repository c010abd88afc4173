//! Reading what is alive in a victim in few long reads, right over the holes between.
//!
//! ```text
//! segment   | live | dead | live | live | dead, much of it        | live |
//! reads     <--------- one ------------->                         <-one-->
//! ```
//!
//! A disk passes over a short hole sooner than it finds the next place, and any drive serves one
//! command sooner than two. What was read over is dropped. Whatever does not match its tags in such
//! a read is read again by itself, which looks for a better copy and has the bad one mended.

use std::ops::Range;

use evenkeel_core::crc32c::crc32c;

use crate::buffer::Buffer;
use crate::drive::Drive;
use crate::error::StoreError;
use crate::map::Tag;
use crate::read::{Pin, Run};
use crate::space::Space;
use crate::store::Store;
use crate::sync::join_all;
use crate::units::BLOCK_BYTES;

/// Blocks between two runs that are read over at most: 64 KiB.
const HOLE_BLOCKS_MAX: u64 = 16;

/// Blocks of one read at most: 2 MiB.
const READ_BLOCKS_MAX: u64 = 512;

type Outcome = Result<Buffer, StoreError>;

impl<D: Drive> Store<D> {
    /// The data of each run.
    pub(super) async fn gather(&self, runs: &[Run]) -> Vec<Outcome> {
        let groups = neighbours(runs, &self.state.borrow().space);
        let reads = groups.into_iter().map(|group| self.gather_group(&runs[group]));
        join_all(reads).await.into_iter().flatten().collect()
    }

    /// The data of each of these runs, which lie close to each other.
    async fn gather_group(&self, runs: &[Run]) -> Vec<Outcome> {
        let whole = if runs.len() > 1 { self.read_over(runs).await } else { None };
        let mut outcomes = Vec::new();
        for run in runs {
            let part = whole.as_ref().map(|whole| part_of(whole, run, &runs[0]));
            outcomes.push(match part.filter(|data| is_good(data, &run.tags)) {
                Some(data) => Ok(data),
                None => self.read_run(run).await,
            });
        }
        outcomes
    }

    /// All from the first run to the last, from the preferred copy; nothing if it fails.
    async fn read_over(&self, runs: &[Run]) -> Option<Buffer> {
        let (first, last) = (runs.first()?, runs.last()?);
        let (segment, block) = self.state.borrow().space.locate(first.address);
        let _pin = Pin::new(self, segment);
        let blocks = last.address.0 + last.tags.len() as u64 - first.address.0;
        let length = usize::try_from(blocks).expect("a read is bounded") * BLOCK_BYTES;
        let slot = self.by_preference(segment).first().copied()?;
        self.chain.members[slot.drive.index()].read_slot(slot, block, length).await.ok()
    }
}

/// Groups of runs that one read each is enough for.
fn neighbours(runs: &[Run], space: &Space) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if is_near(&runs[group.start], &runs[index - 1], run, space) => {
                group.end = index + 1;
            }
            _ => groups.push(index..index + 1),
        }
    }
    groups
}

/// Whether a run can be read together with those from `first` to `before`.
fn is_near(first: &Run, before: &Run, run: &Run, space: &Space) -> bool {
    let hole_start = before.address.0 + before.tags.len() as u64;
    let end = run.address.0 + run.tags.len() as u64;
    run.address.0 >= hole_start
        && run.address.0 - hole_start <= HOLE_BLOCKS_MAX
        && end - first.address.0 <= READ_BLOCKS_MAX
        && space.locate(first.address).0 == space.locate(run.address).0
}

fn part_of(whole: &Buffer, run: &Run, first: &Run) -> Buffer {
    let skipped = usize::try_from(run.address.0 - first.address.0).expect("a read is bounded");
    let start = skipped * BLOCK_BYTES;
    whole.slice(start..start + run.tags.len() * BLOCK_BYTES)
}

fn is_good(data: &[u8], tags: &[Tag]) -> bool {
    data.chunks_exact(BLOCK_BYTES).zip(tags).all(|(block, &tag)| Tag::of(crc32c(block)) == tag)
}
