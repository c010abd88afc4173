//! Transmission requests: the compact header of 28 bytes and the extended one of 32.
//!
//! ```text
//! compact   magic u32 | flags u16 | type u16 | cookie u64 | offset u64 | length u32
//! extended  magic u32 | flags u16 | type u16 | cookie u64 | offset u64 | length u64
//! ```
//!
//! The length field means one of two things. Where a payload follows the header it counts the
//! payload: always for a compact WRITE, and in the extended form wherever the flag `PAYLOAD_LEN` is
//! set. Everywhere else it counts the bytes of the export that the command affects. [`Request`]
//! keeps the two apart.

use super::proto::{
    Command, CommandFlags, EXTENDED_REQUEST_MAGIC, MAX_CONTEXTS, REQUEST_MAGIC, ReplyStyle,
};
use std::fmt;

/// Size of a compact request header.
pub const COMPACT_REQUEST_BYTES: usize = 28;
/// Size of an extended request header.
pub const EXTENDED_REQUEST_BYTES: usize = 32;
/// The longest payload of a `BLOCK_STATUS` request that can be valid.
pub const MAX_BLOCK_STATUS_PAYLOAD_BYTES: u64 = 8 + 4 * MAX_CONTEXTS as u64;

/// One request header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Modifiers.
    pub flags: CommandFlags,
    /// What is asked.
    pub command: Command,
    /// The client's name for the request; the reply carries it back.
    pub cookie: u64,
    /// First byte of the export affected.
    pub offset: u64,
    /// Bytes of the export affected. Zero where only the payload tells (see
    /// [`decode_status_query`]).
    pub length: u64,
    /// Bytes that follow the header on the wire.
    pub payload_bytes: u64,
}

/// A stream that is not a sequence of requests: there is no way back into step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRequestMagic {
    /// What stood in place of the magic number.
    pub found: u32,
    /// What the session's style asks for.
    pub expected: u32,
}

impl fmt::Display for BadRequestMagic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "request starts with {:#010x} instead of {:#010x}: the client's stream is out of step",
            self.found, self.expected
        )
    }
}

impl std::error::Error for BadRequestMagic {}

/// Reads one request header from the front of `input`. Returns it with the number of bytes it took,
/// or `None` if `input` is too short to hold one; the payload, if any, follows.
///
/// # Errors
/// If the magic number is wrong. The connection cannot go on.
#[inline]
pub fn decode_request(
    style: ReplyStyle,
    input: &[u8],
) -> Result<Option<(Request, usize)>, BadRequestMagic> {
    unimplemented!("{style:?} {input:?}")
}

/// Appends the header of `request`; the caller sends `payload_bytes` bytes behind it. In the
/// extended style the flag `PAYLOAD_LEN` is set as the payload demands.
///
/// # Panics
/// If a length of more than 32 bits meets a compact header: the caller has to cut the request.
#[inline]
pub fn encode_request(out: &mut Vec<u8>, style: ReplyStyle, request: &Request) {
    unimplemented!("{style:?} {request:?} {out:?}")
}

/// What the payload of a `BLOCK_STATUS` request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusQuery {
    /// Bytes of the export asked about, from the request's offset on.
    pub length: u64,
    /// How many of `contexts` are in use.
    pub count: usize,
    /// Numbers of the contexts asked for; the first `count` count.
    pub contexts: [u32; MAX_CONTEXTS],
}

/// Reads the payload of a `BLOCK_STATUS` request, checked against the session's contexts. `None` if
/// it is malformed or names a context twice or one that was not negotiated; the answer is then
/// [`super::proto::Errno::Invalid`].
pub fn decode_status_query(
    payload: &[u8],
    negotiated: &[super::proto::Context],
) -> Option<StatusQuery> {
    unimplemented!("{payload:?} {negotiated:?}")
}

/// Appends the payload of a `BLOCK_STATUS` request; returns its size.
pub fn encode_status_query(out: &mut Vec<u8>, length: u64, contexts: &[u32]) -> u64 {
    unimplemented!("{length} {contexts:?} {out:?}")
}
