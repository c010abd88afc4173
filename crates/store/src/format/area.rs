//! How large a checkpoint area must be for so many bytes of items, and the other way round.
//!
//! An item that does not fit ends its chunk, so that each chunk but the last may lack almost one
//! item of its payload.

use super::checkpoint::{CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES, ITEM_BYTES_MAX};
use crate::units::BLOCK_BYTES_U64;

const CHUNK_BLOCKS: u64 = CHUNK_BYTES_MAX as u64 / BLOCK_BYTES_U64;
const HEADER_BYTES: u64 = CHUNK_HEADER_BYTES as u64;

/// Bytes of items that every chunk but the last has at least.
const PAYLOAD_BYTES_MIN: u64 = CHUNK_BYTES_MAX as u64 - HEADER_BYTES - ITEM_BYTES_MAX as u64;

/// Blocks that hold so many bytes of items, however they fall.
pub(crate) fn area_blocks(items_bytes: u64) -> u64 {
    let rest_bytes = items_bytes % PAYLOAD_BYTES_MIN + HEADER_BYTES;
    items_bytes / PAYLOAD_BYTES_MIN * CHUNK_BLOCKS + rest_bytes.div_ceil(BLOCK_BYTES_U64)
}

/// Bytes of items that so many blocks hold, however they fall.
pub(crate) fn items_bytes(area_blocks: u64) -> u64 {
    let rest_bytes = (area_blocks % CHUNK_BLOCKS * BLOCK_BYTES_U64).saturating_sub(HEADER_BYTES);
    area_blocks / CHUNK_BLOCKS * PAYLOAD_BYTES_MIN + rest_bytes.min(PAYLOAD_BYTES_MIN)
}

/// Blocks that increments have at least, behind the largest whole checkpoint. Few stores have one
/// that comes near: it has as many leaves of snapshots as of volumes, and no two neighbours.
const INCREMENTS_BLOCKS_MIN: u64 = 4;

/// Blocks that increments have at most, behind a whole checkpoint of so many: half as many. The
/// more, the less often all is written; the longer a mount reads.
pub(crate) fn increments_blocks_max(whole_blocks: u64) -> u64 {
    (whole_blocks / 2).max(INCREMENTS_BLOCKS_MIN)
}

/// How often a whole checkpoint of so many blocks stands on a drive. Where there is no other drive,
/// one bad sector must not be the end of all; few checkpoints take more than a third of their area.
pub(crate) fn checkpoint_copies(drives: usize, whole_blocks: u64, area_blocks: u64) -> u8 {
    let fits_twice = whole_blocks + increments_blocks_max(whole_blocks) <= area_blocks / 2;
    if drives == 1 && fits_twice { 2 } else { 1 }
}

/// Blocks for the largest whole checkpoint, and some increments.
pub(crate) fn with_increments(whole_blocks: u64) -> u64 {
    whole_blocks + INCREMENTS_BLOCKS_MIN
}

/// The largest whole checkpoint that so many blocks have room for, with some increments.
pub(crate) fn whole_blocks_max(area_blocks: u64) -> u64 {
    area_blocks.saturating_sub(INCREMENTS_BLOCKS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_holds_what_it_was_made_for_and_is_not_larger_than_need_be() {
        for items in (0..3_000_000).step_by(977) {
            let blocks = area_blocks(items);
            assert!(items_bytes(blocks) >= items, "{items} bytes in {blocks} blocks");
            assert!(blocks == 1 || items_bytes(blocks - 1) < items, "{items} bytes");
        }
    }

    #[test]
    fn the_worst_items_fit() {
        // Each chunk ends one byte short of the next item.
        let chunk_items = PAYLOAD_BYTES_MIN + 1;
        for chunks in 1..20 {
            let blocks = (HEADER_BYTES + chunk_items).div_ceil(BLOCK_BYTES_U64) * chunks;
            assert!(area_blocks(chunk_items * chunks) >= blocks);
        }
    }
}
