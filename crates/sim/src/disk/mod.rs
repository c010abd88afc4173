//! Drives that hold bytes: what is on the medium, what only in the cache, and what is left of both
//! after a power cut.
//!
//! The device models of [`crate::device`] say how long a request takes and know no content; a
//! [`CrashDisk`] knows content and no time. It is plain and synchronous:
//!
//! ```text
//!   submit(command) -> number        the drive has it; nothing is promised yet
//!   complete(number) -> answer       its effect; an acknowledged write is in the volatile cache
//!   power_cut(fate of each write)    what was not flushed is kept, lost or torn, as chosen
//! ```
//!
//! Whoever owns the disk decides when which command completes, hence their order. Example: a
//! journal's commit that is cut with every subset of its unflushed writes.
//!
//! ```
//! use evenkeel_sim::disk::{CrashDisk, every_cut};
//!
//! let mut disk = CrashDisk::new(1 << 20);
//! disk.write(0, &[1; 4096])?;
//! disk.flush()?;
//! disk.write(0, &[2; 4096])?;
//! disk.write(4096, &[3; 4096])?;
//! let seen: Vec<_> = every_cut(&disk, 8)
//!     .expect("two units make four subsets")
//!     .map(|mut after| (after.read(0, 1).map(|b| b[0]), after.read(4096, 1).map(|b| b[0])))
//!     .collect();
//! assert_eq!(seen, [(Ok(1), Ok(0)), (Ok(2), Ok(0)), (Ok(1), Ok(3)), (Ok(2), Ok(3))]);
//! # Ok::<(), evenkeel_sim::disk::DiskError>(())
//! ```
//!
//! A [`Rack`] adds time and [`SimDrive`] the face that the store knows; the store's futures then
//! run on [`crate::executor`], and the fuse of the rack cuts the power at any command. Where
//! throughput is the question, a [`TimedDrive`] holds gigabytes in little memory, and a
//! [`StripedDrive`] makes one of several.

mod command;
mod crash_disk;
mod cut;
mod drive;
mod extent;
mod fault;
mod jitter;
mod platter;
mod rack;
mod stamps;
mod striped;
#[cfg(test)]
mod tests;
mod timed;
mod zones;

pub use command::{Answer, Command, CommandId, DiskError};
pub use crash_disk::{CrashDisk, Unflushed};
pub use cut::{CutOptions, Fate, SeededCut, Tearing, UnitFate, every_cut};
pub use drive::{SimDrive, SimDriveOptions};
pub use fault::{Fault, FaultPlan, FaultRates, Stall};
pub use jitter::{Jitter, JitterOptions};
pub use platter::{BLOCK_BYTES, Platter, SECTOR_BYTES};
pub use rack::{BayId, Rack};
pub use stamps::Stamps;
pub use striped::StripedDrive;
pub use timed::TimedDrive;
