//! What a tiered volume notes of itself on its tiers, block by block.
//!
//! Everything is in blocks of 4 KiB that describe themselves ([`block`]): what a block is, of which
//! volume, where it belongs, and a checksum of it all. A block that a power cut tore, that strayed
//! to another address or that another volume left behind is thus known for what it is. The bytes are
//! told in `docs/tiered-volumes.md`.

pub(super) mod block;
pub(super) mod checkpoint;
pub(super) mod head;
pub(super) mod journal;

pub use block::VolumeId;

/// Bytes of a block in memory.
pub(super) const BLOCK: usize = 4096;
/// Bytes of a block on a tier.
pub(super) const BLOCK_BYTES: u64 = BLOCK as u64;
/// Places that one block of the map holds.
pub(super) const PLACES_PER_BLOCK: u32 = 1008;

/// A block in memory.
pub(super) type Block = [u8; BLOCK];

/// Reads whatever these bytes are, as an opening would; for the fuzz target. True if they are a
/// block that this program would have written just so.
pub fn probe(bytes: &[u8], volume: VolumeId, offset: u64) -> bool {
    let Ok(bytes) = <&Block>::try_from(bytes) else { return false };
    let mut again: Block = [0; BLOCK];
    if let Ok(head) = head::Head::decode(bytes) {
        head.encode(offset, &mut again);
    } else if let Some(record) = journal::Record::decode(volume, offset, bytes) {
        record.encode(volume, offset, &mut again);
    } else if let Some((head, places)) = checkpoint::decode(volume, offset, bytes) {
        let places: Vec<_> = places.collect();
        checkpoint::encode(volume, offset, &head, &places, &mut again);
    } else {
        return false;
    }
    again == *bytes
}
