//! Whether a request is one that the export can serve, decided from its header alone.
//!
//! The check comes before any scheduling, so that nothing which cannot be served takes anybody's
//! share.

use super::proto::{BlockSize, Errno, ReplyStyle, TransmissionFlags};
use super::request::Request;

/// What the session promised its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Size of the export.
    pub size_bytes: u64,
    /// Transmission flags as the client was told them.
    pub flags: TransmissionFlags,
    /// Size constraints that are enforced.
    pub block_size: BlockSize,
    /// Framing of the session.
    pub style: ReplyStyle,
    /// Whether any metadata context was selected.
    pub has_contexts: bool,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Skip the request's payload, answer with the error, go on.
    Refuse {
        /// For the client's program.
        errno: Errno,
        /// For its user.
        reason: &'static str,
    },
    /// Drop the connection: skipping the payload would cost more than the client is worth.
    Disconnect {
        /// For the log.
        reason: &'static str,
    },
}

/// Checks a request header. [`super::proto::Command::Disconnect`] always passes. A `BLOCK_STATUS`
/// with a payload passes without a look at its range; see [`check_status_range`].
///
/// # Errors
/// What to do about a request that cannot be served.
#[inline]
pub fn check_request(request: &Request, promise: &Promise) -> Result<(), Fault> {
    unimplemented!("{request:?} {promise:?}")
}

/// Checks the range of a `BLOCK_STATUS` request whose length came in its payload.
///
/// # Errors
/// As [`check_request`].
pub fn check_status_range(offset: u64, length: u64, promise: &Promise) -> Result<(), Fault> {
    unimplemented!("{offset} {length} {promise:?}")
}
