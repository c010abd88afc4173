//! The server's side of replies: headers appended to a vector, payload left to the driver.

use crate::nbd::proto::{Errno, Extent, ReplyStyle};
use crate::nbd::request::Request;

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

impl ReplyStyle {
    /// Success without data; the last message of the reply.
    #[inline]
    pub fn done(self, out: &mut Vec<u8>, to: ReplyTo) {
        unimplemented!("{to:?} {out:?}")
    }

    /// Failure; the last message of the reply. The text is for people and is cut to the protocol's
    /// limit; simple replies have no room for it.
    pub fn error(self, out: &mut Vec<u8>, to: ReplyTo, errno: Errno, message: &str) {
        unimplemented!("{to:?} {errno} {message} {out:?}")
    }

    /// Failure of a read found at a byte of the export, after some data went out; the last message
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
        unimplemented!("{to:?} {errno} {offset} {message} {out:?}")
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
        unimplemented!("{to:?} {offset} {length} {last} {out:?}")
    }

    /// A range that reads as zeroes.
    ///
    /// # Panics
    /// In the simple style, which cannot say it, and if `length` is zero.
    pub fn read_hole(self, out: &mut Vec<u8>, to: ReplyTo, offset: u64, length: u32, last: bool) {
        unimplemented!("{to:?} {offset} {length} {last} {out:?}")
    }

    /// The extents of one metadata context, from the request's offset on.
    ///
    /// Structured replies have 32 bits for a length: a longer extent is cut and ends the list, which
    /// the protocol allows. An extent whose status needs more than 32 bits ends the list before it;
    /// if it is the first, the message is the error [`Errno::Overflow`] instead.
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
        unimplemented!("{to:?} {context} {extents:?} {last} {out:?}")
    }
}
