//! An opening that is played through: it reads the members, and what it writes stays in memory.
//!
//! Time passes at once, and gates that have not let go count as fenced off: whether they may be is
//! for the real opening to find out. Fronts are read once, so that an owner's beats do not change
//! what is judged.

use std::collections::BTreeMap;

use evenkeel_core::time::{Nanos, Span};

use super::Reads;
use crate::lease::{FRONT_BYTES, Gate, Names, OwnerId};
use crate::notes::block::{BLOCK, BLOCK_BYTES, Block};
use crate::notes::{Answer, Ask, Opens, VolumeId};

/// Names that nobody meets: nothing of a rehearsal is written.
pub(crate) fn names() -> Names {
    let gate = Gate { name: "a rehearsal".to_owned(), ..Gate::default() };
    let (volume, owner) = (VolumeId([0xfe; 16]), OwnerId([0xfd; 16]));
    Names { volume, owner, gate, before: Vec::new() }
}

/// Plays an opening through.
///
/// # Errors
/// Why it would be refused.
pub(crate) fn rehearse<O: Opens>(
    opening: &mut O,
    reads: &mut dyn Reads,
) -> Result<Box<O::Volume>, O::Refusal> {
    let mut written = Written::default();
    let mut now = Nanos::ZERO;
    loop {
        now += Span::from_micros(1);
        let bytes;
        let answer = match opening.poll(now) {
            Ask::Read { part, offset, length } => {
                bytes = written.read(reads, (part, offset), length);
                bytes.as_deref().map_or(Answer::Failed, Answer::Read)
            }
            Ask::Write { part, offset, bytes } => {
                written.take(part, offset, bytes);
                Answer::Done
            }
            Ask::Wait(span) => {
                now += span;
                Answer::Done
            }
            Ask::Flush { .. } | Ask::Fence(_) => Answer::Done,
            Ask::Ready(volume) => return Ok(volume),
            Ask::Refused(why) => return Err(why),
        };
        opening.answer(answer);
    }
}

/// Blocks by member and offset, as they would be now; none that cannot be read.
#[derive(Default)]
struct Written(BTreeMap<(usize, u64), Option<Box<Block>>>);

impl Written {
    fn take(&mut self, member: usize, offset: u64, bytes: &[u8]) {
        let (blocks, _) = bytes.as_chunks::<BLOCK>();
        for (at, block) in (offset..).step_by(BLOCK).zip(blocks) {
            self.0.insert((member, at), Some(Box::new(*block)));
        }
    }

    fn read(
        &mut self,
        reads: &mut dyn Reads,
        (member, offset): (usize, u64),
        length: u64,
    ) -> Option<Vec<u8>> {
        let offsets = || (offset..offset + length).step_by(BLOCK);
        if offset + length <= FRONT_BYTES {
            for at in
                offsets().filter(|at| !self.0.contains_key(&(member, *at))).collect::<Vec<_>>()
            {
                let block = reads.read(member, at, BLOCK_BYTES);
                let block = block.and_then(|bytes| bytes.first_chunk().copied().map(Box::new));
                self.0.insert((member, at), block);
            }
        }
        let is_known = offsets().all(|at| self.0.contains_key(&(member, at)));
        let mut bytes = if is_known {
            vec![0; usize::try_from(length).expect("a step is in memory")]
        } else {
            reads.read(member, offset, length)?
        };
        for (at, place) in offsets().zip(bytes.chunks_mut(BLOCK)) {
            if let Some(block) = self.0.get(&(member, at)) {
                place.copy_from_slice(block.as_deref()?);
            }
        }
        Some(bytes)
    }
}
