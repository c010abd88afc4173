//! Where the bytes of a request lie: known before it is scheduled, piece by piece.
//!
//! ```text
//! request at 700 KiB, 1 MiB long         extents of 512 KiB
//!
//!      |    extent 1    |    extent 2    |    extent 3    |
//!              [========|================|====]
//!                  |            |           |
//!                piece        piece       piece
//!              on the ssd   on the disk  on the ssd
//! ```
//!
//! The engine asks for one piece at a time, just before it cuts a unit from it, so that a piece may
//! lie elsewhere by the time that its turn comes. What is queued goes where the answer said.

use evenkeel_core::id::ServerId;
use evenkeel_core::time::Nanos;

use crate::{Refused, Request};

/// A part of a request that lies in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Who holds it.
    pub server: ServerId,
    /// Its first byte, in the server's own addressing.
    pub offset: u64,
    /// Its bytes.
    pub length: u64,
}

/// Where the next piece of a request lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// There. It is as long as asked for unless what follows lies elsewhere, and empty only if
    /// nothing was asked for.
    Piece(Piece),
    /// Nowhere: so many bytes read as zeroes, and can be zeroed without doing anything.
    Hole(u64),
    /// That is not settled: the request has to wait.
    Wait,
    /// Where a late write may still reach it: the request has to wait until that is over.
    Late,
    /// Where it is not served from.
    Refused(Refused),
}

/// What knows where bytes lie.
pub trait Placement {
    /// Where a request goes on after `at` bytes of it.
    fn place(&self, now: Nanos, request: &Request, at: u64) -> Placed;

    /// The servers that hold something and therefore take part in a flush, by a dense index; none
    /// from the first index on that has no server.
    fn flushed(&self, index: usize) -> Option<ServerId>;
}

/// A server that holds all of it, in its own addressing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct(
    /// The server.
    pub ServerId,
);

impl Placement for Direct {
    fn place(&self, _: Nanos, request: &Request, at: u64) -> Placed {
        let (offset, length) = (request.offset.saturating_add(at), request.length - at);
        Placed::Piece(Piece { server: self.0, offset, length })
    }

    fn flushed(&self, index: usize) -> Option<ServerId> {
        (index == 0).then_some(self.0)
    }
}
