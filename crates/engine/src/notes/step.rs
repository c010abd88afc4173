//! What the engine asks of the driver to look after a volume: at each server one step after the
//! other, never two.

use evenkeel_core::id::{ServerId, TenantId};

/// Most bytes that one step reads or writes, hence of the driver's buffer for moves.
pub const STEP_BYTES_MAX: u64 = 1 << 20;

/// A request that the engine wants made on a tenant's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What to do.
    pub kind: StepKind,
    /// Where.
    pub server: ServerId,
    /// First byte, in the server's own addressing; zero for a flush.
    pub offset: u64,
    /// Bytes, at most [`STEP_BYTES_MAX`] unless they are wiped; zero for a flush.
    pub length: u64,
    /// Who pays: whoever waits for it, else the tenant whose account moves are on.
    pub tenant: TenantId,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Reads into the driver's buffer for moves.
    Read,
    /// Writes what the buffer got from the last [`StepKind::Read`], which was as long.
    Write,
    /// Writes what [`Engine::note_bytes`](crate::Engine::note_bytes) returns for the server, which
    /// has this length.
    Note,
    /// Writes zeroes; of any length.
    Wipe,
    /// Makes durable what was written.
    Flush,
    /// Says that nobody needs the bytes any more, of any length; advice.
    Discard,
}
