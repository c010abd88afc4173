//! The project's own format, and the gate's recording: compact, checked, append-only.
//!
//! `docs/trace-format.md` defines it byte by byte, with a worked example. In short:
//!
//! ```text
//! file  = head block* end            head 24 bytes, heads of blocks and the end 32 bytes
//! block = head (records | policy)    each checked by a CRC-32C of its own
//! ```
//!
//! This is version 2; version 1, without policies and other classes of records, is read as well.
//!
//! A block stands for itself: it holds its first instant, the names of its sources and the number
//! of the policy told last, so that what is lost with a damaged block are its own records or its
//! own policy, and nothing of the others. The reader
//! names the damaged byte and goes on with the next head that is whole. A file without its end
//! was cut, or is still being written; the reader says so behind the last record.

mod decode;
mod encode;
mod layout;
mod policy;
mod recent;
mod record;

pub use decode::NativeDecoder;
pub use encode::NativeEncoder;
pub use policy::{POLICIES_BYTES_MAX, POLICIES_MAX, POLICY_BYTES_MAX};
pub use recent::{Recent, RecentBounds};

/// The first bytes of a file in this format.
pub(super) const MAGIC: [u8; 8] = layout::MAGIC;
