//! etcd: where the gates of an exchange find each other, and where a policy may lie.
//!
//! ```text
//!   /evenkeel/<exchange>/members/<gate>   an address, under a lease that the gate keeps alive
//!   any key                               the text of a policy
//! ```
//!
//! Nothing waits for it: what was found last holds until it answers again, and it is asked again
//! every five seconds at last. It is not trusted with the exchange: whoever is listed there is sent
//! figures of load, and heard only with the key of the gates.
//!
//! Compiled without the feature `etcd` all this is refused with the way to build it.

mod key;
#[cfg(feature = "etcd")]
mod link;
#[cfg(feature = "etcd")]
pub(crate) mod members;

pub use key::{Key, Text};

/// Why etcd gave nothing.
#[derive(Debug, thiserror::Error)]
#[error("etcd at {servers}: {why}")]
pub struct EtcdError {
    /// The servers that were asked.
    pub servers: String,
    /// The reason.
    pub why: String,
}
