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
