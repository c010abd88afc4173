//! A block of the map: where some extents lay after so many moves.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 8 | sequence number of the last move that the map has in it |
//! | 56 | 4 | which block of the map, from 0 |
//! | 60 | 4 | places in it, at most 1006; every block but the last is full |
//! | 64 | 8 | the generation of the opening whose owner wrote it: its term |
//! | 72 | 4024 | the places, 4 bytes each: tier in the upper 3 bits, slot below; then zeroes |
//!
//! Each half has two areas, written in turn. A map is whole when all its blocks are, with the same
//! number and term.

use super::{Block, PLACES_PER_BLOCK};
use crate::notes::block::{
    BlockKind, Label, NUMBER_END, VolumeId, label, put_u32, put_u64, seal, u32_at, u64_at,
};
use crate::tiers::map::Place;

/// Where the places begin.
const PLACES: usize = 72;
const TERM: usize = 64;

/// What a block of the map says beside the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tiers) struct CheckpointHead {
    /// Counts the maps that were written, from 1.
    pub(in crate::tiers) number: u64,
    /// The last move in it.
    pub(in crate::tiers) sequence: u64,
    /// Whose it is.
    pub(in crate::tiers) term: u64,
    /// Which block.
    pub(in crate::tiers) index: u32,
}

/// The places in a block that was read at this offset; none if it is no such block of this volume,
/// or belongs elsewhere.
pub(in crate::tiers) fn decode(
    volume: VolumeId,
    offset: u64,
    block: &Block,
) -> Option<(CheckpointHead, impl Iterator<Item = Place> + use<'_>)> {
    let label = label(BlockKind::Checkpoint, block).ok()?;
    let (number, sequence, index) = (label.number, u64_at(block, 48), u32_at(block, 56));
    let term = u64_at(block, TERM);
    let count = u32_at(block, 60);
    let is_ours = label.volume == volume && label.offset == offset;
    if !is_ours || sequence.max(term) >= NUMBER_END || count > PLACES_PER_BLOCK {
        return None;
    }
    let places = (0..count as usize).map(|at| Place::from_bits(u32_at(block, PLACES + 4 * at)));
    Some((CheckpointHead { number, sequence, term, index }, places))
}

/// Makes the block for this offset with these places.
pub(in crate::tiers) fn encode(
    volume: VolumeId,
    offset: u64,
    head: &CheckpointHead,
    places: impl ExactSizeIterator<Item = Place>,
    block: &mut Block,
) {
    block.fill(0);
    put_u64(block, 48, head.sequence);
    put_u32(block, 56, head.index);
    put_u64(block, TERM, head.term);
    let count = u32::try_from(places.len()).ok().filter(|count| *count <= PLACES_PER_BLOCK);
    put_u32(block, 60, count.expect("a block has room for them"));
    for (index, place) in places.enumerate() {
        put_u32(block, PLACES + 4 * index, place.to_bits());
    }
    seal(BlockKind::Checkpoint, &Label { volume, number: head.number, offset }, block);
}
