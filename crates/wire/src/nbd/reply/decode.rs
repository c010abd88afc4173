//! The client's side of replies. Headers with their fixed fields are decoded whole; data and
//! extents stay in the stream for the driver.

use super::kind;
use crate::nbd::fields::Fields;
use crate::nbd::proto::{
    EXTENDED_REPLY_MAGIC, Errno, Extent, MAX_EXTENTS, MAX_STRING_BYTES, ReplyFlags, ReplyStyle,
    SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC,
};
use std::fmt;

/// The most bytes that [`decode_reply`] needs in its input to decide: the longest header with an
/// error of the longest text. A driver's buffer must hold that many.
pub const MAX_REPLY_HEADER_BYTES: usize = 32 + MAX_ERROR_CHUNK_BYTES;

/// An error chunk with the longest text and room for fields behind it that are not known here.
const MAX_ERROR_CHUNK_BYTES: usize = MAX_STRING_BYTES + 64;

const SIMPLE_REPLY_BYTES: usize = 16;

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

/// Reads one reply header from the front of `input`. Returns it with the number of bytes it took,
/// or `None` if more input is needed (never more than [`MAX_REPLY_HEADER_BYTES`]).
///
/// The caller compares what the chunk says with the request of that cookie: its kind, and by
/// [`super::ReadCoverage`] the range of a read.
///
/// # Errors
/// If the stream makes no sense. The connection cannot go on.
#[inline]
pub fn decode_reply(
    style: ReplyStyle,
    input: &[u8],
) -> Result<Option<(ReplyHeader<'_>, usize)>, ReplyError> {
    let Some(&magic) = input.first_chunk() else { return Ok(None) };
    match (style, u32::from_be_bytes(magic)) {
        (ReplyStyle::Simple | ReplyStyle::Structured, SIMPLE_REPLY_MAGIC) => {
            Ok(decode_simple(input))
        }
        (ReplyStyle::Structured, STRUCTURED_REPLY_MAGIC)
        | (ReplyStyle::Extended, EXTENDED_REPLY_MAGIC) => decode_chunk(style, input),
        (_, found) => Err(ReplyError::BadMagic { found }),
    }
}

#[inline]
fn decode_simple(input: &[u8]) -> Option<(ReplyHeader<'_>, usize)> {
    let mut fields = Fields(input.get(4..SIMPLE_REPLY_BYTES)?);
    let error = match fields.u32()? {
        0 => None,
        code => Some(Errno::from_code(code)),
    };
    let chunk = Chunk::Simple { error };
    let header = ReplyHeader { cookie: fields.u64()?, request_offset: None, last: true, chunk };
    Some((header, SIMPLE_REPLY_BYTES))
}

/// Header fields of a chunk, whichever framing they came in.
#[derive(Clone, Copy)]
struct Frame {
    flags: ReplyFlags,
    kind: u16,
    cookie: u64,
    request_offset: Option<u64>,
    length: u64,
}

impl Frame {
    #[inline]
    fn decode(style: ReplyStyle, fields: &mut Fields<'_>) -> Option<Self> {
        let flags = ReplyFlags(fields.u16()?);
        let (kind, cookie) = (fields.u16()?, fields.u64()?);
        let extended = style.is_extended();
        let request_offset = if extended { Some(fields.u64()?) } else { None };
        let length = if extended { fields.u64()? } else { u64::from(fields.u32()?) };
        Some(Self { flags, kind, cookie, request_offset, length })
    }

    fn bad_length(&self) -> ReplyError {
        ReplyError::BadLength { kind: self.kind, length: self.length }
    }

    /// The length, which has to be `fixed` bytes and one or more units of `unit` bytes, no more
    /// than `max` in all. Returns the length without the fixed part.
    #[inline]
    fn variable(&self, fixed: u64, unit: u64, max: u64) -> Result<u32, ReplyError> {
        match self.length.checked_sub(fixed) {
            Some(rest) if rest > 0 && rest <= max && rest % unit == 0 => {
                u32::try_from(rest).map_err(|_| self.bad_length())
            }
            _ => Err(self.bad_length()),
        }
    }

    fn exactly(&self, length: u64) -> Result<(), ReplyError> {
        if self.length == length { Ok(()) } else { Err(self.bad_length()) }
    }
}

fn decode_chunk(
    style: ReplyStyle,
    input: &[u8],
) -> Result<Option<(ReplyHeader<'_>, usize)>, ReplyError> {
    let mut fields = Fields(&input[4..]);
    let Some(frame) = Frame::decode(style, &mut fields) else { return Ok(None) };
    let chunk = match frame.kind {
        kind::NONE => decode_none(&frame)?,
        kind::OFFSET_DATA => decode_data(&frame, &mut fields)?,
        kind::OFFSET_HOLE => decode_hole(&frame, &mut fields)?,
        kind::BLOCK_STATUS if !style.is_extended() => decode_status(&frame, &mut fields)?,
        kind::BLOCK_STATUS_EXT if style.is_extended() => decode_status_ext(&frame, &mut fields)?,
        other if other & kind::IS_ERROR != 0 => decode_error(&frame, &mut fields)?,
        other => return Err(ReplyError::UnknownChunk { kind: other }),
    };
    let Some(chunk) = chunk else { return Ok(None) };
    let header = ReplyHeader {
        cookie: frame.cookie,
        request_offset: frame.request_offset,
        last: frame.flags.contains(ReplyFlags::DONE),
        chunk,
    };
    Ok(Some((header, input.len() - fields.0.len())))
}

fn decode_none(frame: &Frame) -> Result<Option<Chunk<'static>>, ReplyError> {
    frame.exactly(0)?;
    if frame.flags.contains(ReplyFlags::DONE) {
        Ok(Some(Chunk::None))
    } else {
        Err(ReplyError::BadField { what: "an empty chunk that is not the last" })
    }
}

#[inline]
fn decode_data(
    frame: &Frame,
    fields: &mut Fields<'_>,
) -> Result<Option<Chunk<'static>>, ReplyError> {
    let length = frame.variable(8, 1, u64::from(u32::MAX))?;
    Ok(fields.u64().map(|offset| Chunk::Data { offset, length }))
}

fn decode_hole(
    frame: &Frame,
    fields: &mut Fields<'_>,
) -> Result<Option<Chunk<'static>>, ReplyError> {
    frame.exactly(12)?;
    let Some((offset, length)) = fields.u64().zip(fields.u32()) else { return Ok(None) };
    if length == 0 {
        return Err(ReplyError::BadField { what: "a hole of no bytes" });
    }
    Ok(Some(Chunk::Hole { offset, length }))
}

fn decode_status(
    frame: &Frame,
    fields: &mut Fields<'_>,
) -> Result<Option<Chunk<'static>>, ReplyError> {
    let payload_bytes = frame.variable(4, 8, 8 * MAX_EXTENTS as u64)?;
    Ok(fields.u32().map(|context| Chunk::BlockStatus { context, payload_bytes }))
}

fn decode_status_ext(
    frame: &Frame,
    fields: &mut Fields<'_>,
) -> Result<Option<Chunk<'static>>, ReplyError> {
    let payload_bytes = frame.variable(8, 16, 16 * MAX_EXTENTS as u64)?;
    let Some((context, count)) = fields.u32().zip(fields.u32()) else { return Ok(None) };
    if payload_bytes / 16 != count {
        return Err(ReplyError::BadField { what: "the count of extents contradicts the length" });
    }
    Ok(Some(Chunk::BlockStatus { context, payload_bytes }))
}

/// An error chunk of any type; of types that the protocol does not define, the fields behind the
/// text are skipped.
fn decode_error<'a>(
    frame: &Frame,
    fields: &mut Fields<'a>,
) -> Result<Option<Chunk<'a>>, ReplyError> {
    let has_offset = frame.kind == kind::ERROR_OFFSET;
    let fixed_bytes = if has_offset { 14 } else { 6 };
    let length = usize::try_from(frame.length).ok();
    let Some(length) = length.filter(|length| *length <= MAX_ERROR_CHUNK_BYTES) else {
        return Err(frame.bad_length());
    };
    let Some(variable_bytes) = length.checked_sub(fixed_bytes) else {
        return Err(frame.bad_length());
    };
    let Some((code, message_bytes)) = fields.u32().zip(fields.u16()) else { return Ok(None) };
    let message_bytes = usize::from(message_bytes);
    if message_bytes > variable_bytes.min(MAX_STRING_BYTES) {
        return Err(ReplyError::BadField { what: "an error text longer than its chunk allows" });
    }
    let Some(message) = fields.take(message_bytes) else { return Ok(None) };
    let Some(mut tail) = fields.take(length - 6 - message_bytes).map(Fields) else {
        return Ok(None);
    };
    let offset = if has_offset { tail.u64() } else { None };
    Ok(Some(Chunk::Error { errno: Errno::from_code(code), offset, message }))
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
    let extended = style.is_extended();
    let extents = Extents { rest: payload, extended };
    let size = if extended { 16 } else { 8 };
    if payload.is_empty() || !payload.len().is_multiple_of(size) {
        return Err(ReplyError::BadField { what: "a list of extents that ends within one" });
    }
    if extents.clone().any(|extent| extent.length == 0) {
        return Err(ReplyError::BadField { what: "an extent of no bytes" });
    }
    Ok(extents)
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let mut fields = Fields(self.rest);
        let extent = if self.extended {
            Extent { length: fields.u64()?, flags: fields.u64()? }
        } else {
            Extent { length: fields.u32()?.into(), flags: fields.u32()?.into() }
        };
        self.rest = fields.0;
        Some(extent)
    }
}
