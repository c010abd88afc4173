//! The client's side of replies. Headers with their fixed fields are decoded whole; data and extents
//! stay in the stream for the driver.

use crate::nbd::proto::{Errno, Extent, MAX_STRING_BYTES, ReplyStyle};
use std::fmt;

/// The most bytes that [`decode_reply`] needs in its input to decide: the longest header with an
/// error of the longest text. A driver's buffer must hold that many.
pub const MAX_REPLY_HEADER_BYTES: usize = 32 + 6 + 2 * MAX_STRING_BYTES;

/// One message of a reply, up to where its payload starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader<'a> {
    /// The request that it answers.
    pub cookie: u64,
    /// The request's offset, repeated by extended replies: it must match.
    pub request_offset: Option<u64>,
    /// No more messages follow for this request.
    pub last: bool,
    /// What it says.
    pub chunk: Chunk<'a>,
}

/// What one message of a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// The whole reply in the simple style. If the request was a READ and `error` is `None`, the
    /// data follows: as many bytes as the request asked for.
    Simple {
        /// Why the request failed.
        error: Option<Errno>,
    },
    /// `length` bytes of data from `offset` follow.
    Data {
        /// First byte of the export.
        offset: u64,
        /// Bytes that follow, more than zero.
        length: u32,
    },
    /// A range reads as zeroes; nothing follows.
    Hole {
        /// First byte of the export.
        offset: u64,
        /// Bytes, more than zero.
        length: u32,
    },
    /// `payload_bytes` of extents follow, for [`decode_block_status`].
    BlockStatus {
        /// The metadata context.
        context: u32,
        /// Bytes that follow.
        payload_bytes: u32,
    },
    /// A failure; nothing follows.
    Error {
        /// Why.
        errno: Errno,
        /// Where, if the server says so.
        offset: Option<u64>,
        /// The server's words. Escape them before they go anywhere.
        message: &'a [u8],
    },
    /// Nothing more to say; nothing follows.
    None,
}

/// A server's stream that cannot be followed any further: drop the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// A message starts with no magic number of the session's style.
    BadMagic {
        /// What stood there.
        found: u32,
    },
    /// A chunk type that the protocol or the session does not know.
    UnknownChunk {
        /// Its number.
        kind: u16,
    },
    /// A chunk whose length does not fit its type.
    BadLength {
        /// The chunk's type.
        kind: u16,
        /// The length.
        length: u64,
    },
    /// A chunk whose fields contradict each other or the protocol.
    BadField {
        /// Which.
        what: &'static str,
    },
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BadMagic { found } => {
                write!(f, "reply starts with {found:#010x}: the server's stream is out of step")
            }
            Self::UnknownChunk { kind } => write!(f, "reply chunk of unknown type {kind:#06x}"),
            Self::BadLength { kind, length } => {
                write!(f, "reply chunk of type {kind:#06x} has the impossible length {length}")
            }
            Self::BadField { what } => write!(f, "reply chunk is malformed: {what}"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// Reads one reply header from the front of `input`. Returns it with the number of bytes it took, or
/// `None` if more input is needed (never more than [`MAX_REPLY_HEADER_BYTES`]).
///
/// # Errors
/// If the stream makes no sense.
#[inline]
pub fn decode_reply(
    style: ReplyStyle,
    input: &[u8],
) -> Result<Option<(ReplyHeader<'_>, usize)>, ReplyError> {
    unimplemented!("{style:?} {input:?}")
}

/// The extents of a block status chunk, from [`decode_block_status`].
#[derive(Clone, Debug)]
pub struct Extents<'a> {
    rest: &'a [u8],
    extended: bool,
}

/// Reads the payload of a block status chunk.
///
/// # Errors
/// If it is empty, is cut within an extent, or has an extent of no bytes.
pub fn decode_block_status(style: ReplyStyle, payload: &[u8]) -> Result<Extents<'_>, ReplyError> {
    unimplemented!("{style:?} {payload:?}")
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        unimplemented!("{:?} {}", self.rest, self.extended)
    }
}
