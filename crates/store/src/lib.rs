//! The chained log: a crash-safe block store whose writes are sequential whatever its clients do.
//!
//! The store is straight-line async code over the [`Drive`] trait. It has no clock, no thread and
//! no runtime of its own: the machine's driver and the simulator each bring drives and an executor,
//! and run this very code.

pub mod buffer;
pub mod drive;
pub mod format;
mod map;
mod sync;
pub mod units;

pub use buffer::{Buffer, BufferMut};
pub use drive::{Drive, DriveError, Durability, Geometry};
pub use units::{BLOCK_BYTES, DriveIndex, Lsn, Uuid, VolumeId};
