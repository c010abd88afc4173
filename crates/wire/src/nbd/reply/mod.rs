//! Transmission replies, in three framings.
//!
//! ```text
//! simple      magic u32 | error u32 | cookie u64                                    | data of a read
//! structured  magic u32 | flags u16 | type u16 | cookie u64              | length u32 | payload
//! extended    magic u32 | flags u16 | type u16 | cookie u64 | offset u64 | length u64 | payload
//! ```

mod coverage;
mod decode;
mod encode;

pub use coverage::{CoverageError, ReadCoverage};
pub use decode::{
    Chunk, Extents, MAX_REPLY_HEADER_BYTES, ReplyError, ReplyHeader, decode_block_status,
    decode_reply,
};
pub use encode::ReplyTo;
