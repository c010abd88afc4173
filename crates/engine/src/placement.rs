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
use evenkeel_core::ticket::Kind;

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

/// What knows where bytes lie.
pub trait Placement {
    /// The piece that a request of this kind begins or goes on with at `offset`. It is as long as
    /// `length` unless what follows lies elsewhere; it is empty only if `length` is zero.
    fn piece(&self, kind: Kind, offset: u64, length: u64) -> Piece;

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
    fn piece(&self, _: Kind, offset: u64, length: u64) -> Piece {
        Piece { server: self.0, offset, length }
    }

    fn flushed(&self, index: usize) -> Option<ServerId> {
        (index == 0).then_some(self.0)
    }
}
