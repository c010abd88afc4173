//! The format on the drives: pure encoders and decoders, described in `docs/store-format.md`.
//!
//! ```text
//! drive:    | superblock A B | checkpoint area 0 | 1 | slot 0 | slot 1 | .. | superblock A B |
//! slot:     holds one copy of a segment
//! segment:  | segment header | record | record | ..
//! record:   | record header | data block * 0..=256 |
//! ```
//!
//! All numbers are little-endian. Every structure carries a CRC-32C over all of it, and inside the
//! checksum its own place and time (address, generation, mount), so that a block that was written
//! to the wrong place, or is left from an earlier time, is not taken for the right one. Decoders
//! are total: any bytes give a value or a [`Defect`].

pub(crate) mod area;
pub mod cache;
pub mod checkpoint;
mod codec;
mod extent;
pub mod increment;
pub mod layout;
pub mod record;
pub mod segment;
pub mod superblock;
pub mod volume;

pub use codec::Defect;

/// The version of the format that this code writes; it reads no other.
pub const VERSION: u16 = 3;

/// First bytes of each structure: a byte that is no text, `k`, and two letters.
mod magic {
    pub(super) const SUPERBLOCK: [u8; 4] = *b"\xe9kSB";
    pub(super) const CACHE: [u8; 4] = *b"\xe9kCA";
    pub(super) const CHECKPOINT: [u8; 4] = *b"\xe9kCP";
    pub(super) const SEGMENT: [u8; 4] = *b"\xe9kSG";
    pub(super) const RECORD: [u8; 4] = *b"\xe9kRH";
}
