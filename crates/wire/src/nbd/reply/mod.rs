//! Transmission replies, in three framings.
//!
//! ```text
//! simple      magic u32 | error u32            | cookie u64                           | data
//! structured  magic u32 | flags u16 | type u16 | cookie u64              | length u32 | payload
//! extended    magic u32 | flags u16 | type u16 | cookie u64 | offset u64 | length u64 | payload
//! ```
//!
//! A simple reply does not say whether data follows it: the client has to know what it asked. A
//! structured or extended reply is a series of chunks, the last of which carries the flag DONE.

mod coverage;
mod decode;
mod encode;

pub use coverage::{CoverageError, ReadCoverage};
pub use decode::{
    Chunk, Extents, MAX_REPLY_HEADER_BYTES, ReplyError, ReplyHeader, decode_block_status,
    decode_reply,
};
pub use encode::ReplyTo;

/// Numbers of the chunk types.
mod kind {
    pub(super) const NONE: u16 = 0;
    pub(super) const OFFSET_DATA: u16 = 1;
    pub(super) const OFFSET_HOLE: u16 = 2;
    pub(super) const BLOCK_STATUS: u16 = 5;
    pub(super) const BLOCK_STATUS_EXT: u16 = 6;
    /// Set in the number of every error chunk, known or not.
    pub(super) const IS_ERROR: u16 = 1 << 15;
    pub(super) const ERROR: u16 = IS_ERROR + 1;
    pub(super) const ERROR_OFFSET: u16 = IS_ERROR + 2;
}

#[cfg(test)]
mod tests;
