//! Ring 1: sans-IO codecs and sessions of the protocols that Evenkeel speaks.
//!
//! Bytes come in as slices, bytes go out through vectors, and decisions that need the outside world
//! (a TLS handshake, the look-up of an export) are events that the driver answers. Nothing here
//! owns a socket, a clock or a task.

pub mod exchange;
pub mod http;
pub mod nbd;
