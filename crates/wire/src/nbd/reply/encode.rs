//! The server's side of replies: headers appended to a vector, payload left to the driver.

use super::kind;
use crate::nbd::proto::{
    EXTENDED_REPLY_MAGIC, Errno, Extent, MAX_EXTENTS, MAX_MINIMUM_BLOCK_BYTES, MAX_STRING_BYTES,
    ReplyFlags, ReplyStyle, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC,
};
use crate::nbd::request::Request;
use crate::nbd::text::truncated;

/// What a reply must repeat of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// The client's name for the request.
    pub cookie: u64,
    /// The request's offset, which extended replies carry.
    pub offset: u64,
}

impl From<&Request> for ReplyTo {
    fn from(request: &Request) -> Self {
        Self { cookie: request.cookie, offset: request.offset }
    }
}

/// The longest extent that a structured reply can tell without breaking any block alignment.
const MAX_COMPACT_EXTENT: u32 = u32::MAX - (MAX_MINIMUM_BLOCK_BYTES - 1);

impl ReplyStyle {
    /// Success without data; the last message of the reply.
    #[inline]
    pub fn done(self, out: &mut Vec<u8>, to: ReplyTo) {
        match self {
            Self::Simple => simple(out, to, 0),
            _ => self.chunk(out, to, kind::NONE, true, 0),
        }
    }

    /// Failure; the last message of the reply. The text is for people and is cut to the protocol's
    /// limit; simple replies have no room for it.
    pub fn error(self, out: &mut Vec<u8>, to: ReplyTo, errno: Errno, message: &str) {
        if self == Self::Simple {
            return simple(out, to, errno.code());
        }
        let message = truncated(message, MAX_STRING_BYTES).as_bytes();
        self.chunk(out, to, kind::ERROR, true, 6 + message.len() as u64);
        error_fields(out, errno, message);
    }

    /// Failure found at a byte of the export, after some data may have gone out; the last message
    /// of the reply.
    ///
    /// # Panics
    /// In the simple style, where a read that failed late can only end with the connection.
    pub fn error_at(
        self,
        out: &mut Vec<u8>,
        to: ReplyTo,
        errno: Errno,
        offset: u64,
        message: &str,
    ) {
        assert!(self.is_chunked(), "a simple reply cannot say where it failed");
        let message = truncated(message, MAX_STRING_BYTES).as_bytes();
        self.chunk(out, to, kind::ERROR_OFFSET, true, 14 + message.len() as u64);
        error_fields(out, errno, message);
        out.extend_from_slice(&offset.to_be_bytes());
    }

    /// The header in front of `length` bytes of data from `offset`, which the caller sends next.
    ///
    /// # Panics
    /// In the simple style, unless this is the whole reply (`last`, from the request's offset); in
    /// any style if `length` is zero.
    #[inline]
    pub fn read_data_header(
        self,
        out: &mut Vec<u8>,
        to: ReplyTo,
        offset: u64,
        length: u32,
        last: bool,
    ) {
        assert!(length > 0, "a data chunk has at least one byte");
        if self == Self::Simple {
            assert!(last && offset == to.offset, "a simple reply cannot be split");
            return simple(out, to, 0);
        }
        self.chunk(out, to, kind::OFFSET_DATA, last, 8 + u64::from(length));
        out.extend_from_slice(&offset.to_be_bytes());
    }

    /// A range that reads as zeroes.
    ///
    /// # Panics
    /// In the simple style, which cannot say it, and if `length` is zero.
    pub fn read_hole(self, out: &mut Vec<u8>, to: ReplyTo, offset: u64, length: u32, last: bool) {
        assert!(self.is_chunked(), "a simple reply has no holes");
        assert!(length > 0, "a hole has at least one byte");
        self.chunk(out, to, kind::OFFSET_HOLE, last, 12);
        out.extend_from_slice(&offset.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
    }

    /// The extents of one metadata context, from the request's offset on. What goes beyond
    /// [`MAX_EXTENTS`] is left out; the client asks again.
    ///
    /// Structured replies have 32 bits for a length: a longer extent is cut and ends the list,
    /// which the protocol allows. An extent whose status needs more than 32 bits ends the list
    /// before it; if it is the first, the message is the error [`Errno::Overflow`] instead.
    ///
    /// # Panics
    /// In the simple style, and if there is no extent or an empty one.
    pub fn block_status(
        self,
        out: &mut Vec<u8>,
        to: ReplyTo,
        context: u32,
        extents: &[Extent],
        last: bool,
    ) {
        assert!(self.is_chunked(), "a simple reply has no extents");
        assert!(!extents.is_empty(), "a block status has at least one extent");
        assert!(extents.iter().all(|extent| extent.length > 0), "an extent has at least one byte");
        let extents = &extents[..extents.len().min(MAX_EXTENTS)];
        if self.is_extended() {
            self.block_status_extended(out, to, context, extents, last);
        } else {
            self.block_status_structured(out, to, context, extents, last);
        }
    }

    fn block_status_extended(
        self,
        out: &mut Vec<u8>,
        to: ReplyTo,
        context: u32,
        extents: &[Extent],
        last: bool,
    ) {
        let count = u32::try_from(extents.len()).expect("bounded by MAX_EXTENTS");
        self.chunk(out, to, kind::BLOCK_STATUS_EXT, last, 8 + 16 * u64::from(count));
        out.extend_from_slice(&context.to_be_bytes());
        out.extend_from_slice(&count.to_be_bytes());
        for extent in extents {
            out.extend_from_slice(&extent.length.to_be_bytes());
            out.extend_from_slice(&extent.flags.to_be_bytes());
        }
    }

    fn block_status_structured(
        self,
        out: &mut Vec<u8>,
        to: ReplyTo,
        context: u32,
        extents: &[Extent],
        last: bool,
    ) {
        let narrow = extents.iter().take_while(|extent| u32::try_from(extent.flags).is_ok());
        let cut = extents.iter().position(|extent| extent.length > u64::from(u32::MAX));
        let count = narrow.count().min(cut.map_or(usize::MAX, |index| index + 1));
        if count == 0 {
            return self.error(out, to, Errno::Overflow, "the status needs extended headers");
        }
        self.chunk(out, to, kind::BLOCK_STATUS, last, 4 + 8 * count as u64);
        out.extend_from_slice(&context.to_be_bytes());
        for extent in &extents[..count] {
            let length = u32::try_from(extent.length).unwrap_or(MAX_COMPACT_EXTENT);
            let flags = u32::try_from(extent.flags).expect("wide flags end the list");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&flags.to_be_bytes());
        }
    }

    /// Appends the header of a chunk with `length` bytes of payload.
    #[inline]
    fn chunk(self, out: &mut Vec<u8>, to: ReplyTo, kind: u16, last: bool, length: u64) {
        let flags = if last { ReplyFlags::DONE } else { ReplyFlags::NONE };
        let mut header = [0; 32];
        header[4..6].copy_from_slice(&flags.0.to_be_bytes());
        header[6..8].copy_from_slice(&kind.to_be_bytes());
        header[8..16].copy_from_slice(&to.cookie.to_be_bytes());
        if self.is_extended() {
            header[..4].copy_from_slice(&EXTENDED_REPLY_MAGIC.to_be_bytes());
            header[16..24].copy_from_slice(&to.offset.to_be_bytes());
            header[24..].copy_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&header);
        } else {
            let length = u32::try_from(length).expect("chunks stay below the payload limit");
            header[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
            header[16..20].copy_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&header[..20]);
        }
    }
}

#[inline]
fn simple(out: &mut Vec<u8>, to: ReplyTo, error: u32) {
    let mut header = [0; 16];
    header[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    header[4..8].copy_from_slice(&error.to_be_bytes());
    header[8..].copy_from_slice(&to.cookie.to_be_bytes());
    out.extend_from_slice(&header);
}

fn error_fields(out: &mut Vec<u8>, errno: Errno, message: &[u8]) {
    let length = u16::try_from(message.len()).expect("texts are cut to 4096 bytes");
    out.extend_from_slice(&errno.code().to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message);
}
