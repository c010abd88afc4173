//! Stores on this machine: files and block devices as drives, and what runs a store over them.
//!
//! ```text
//! evenkeel_store::Store --Drive--> FileDrive --> calls under way --> io_uring or threads
//!                                                (one set per drive, on this thread's runtime)
//! ```
//!
//! A gate runs its stores on the runtimes of its workers. A command that works on a store without a
//! gate brings a runtime with [`block_on`], and lets the store's own task run beside its work with
//! [`beside`]:
//!
//! ```no_run
//! use std::path::PathBuf;
//! use evenkeel_io::store::{OpenDrive, beside, block_on, fresh_nonce, open_drives};
//! use evenkeel_store::{OpenOptions, Store};
//!
//! let paths = [PathBuf::from("a.img"), PathBuf::from("b.img")];
//! block_on(async {
//!     let drives = open_drives(&paths, &OpenDrive::default()).await?;
//!     let store = Store::open(drives, OpenOptions::new(fresh_nonce()?)).await?;
//!     println!("{:?}", store.volumes());
//!     beside(&store, store.close()).await?;
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })??;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod calls;
mod device;
mod drive;
mod emulation;
mod memory;
mod open;
mod scrub;
mod standby;
mod volumes;
mod zones;

use std::io;
use std::path::PathBuf;
use std::pin::pin;

use evenkeel_store::{Drive, Nonce, Store, Uuid};
use rustix::rand::GetRandomFlags;

pub use crate::drive::DriveKind;
pub use drive::FileDrive;
pub use emulation::{DriveModel, DriveModels};
pub(crate) use memory::PositionFile;
pub use memory::{known_position, path_of as position_path};
pub(crate) use open::refuse_twice;
pub use open::{OpenDrive, OpenDriveError};
pub use scrub::{Progress, ScrubError, ScrubOrder, ScrubStatus};
pub use standby::SpindleReport;
pub use volumes::{VolumeError, VolumeOrder, carry_out};
pub use zones::EmulatedZoning;

/// Opens the drives of a store, in this order.
///
/// # Errors
/// [`OpenDriveError`] of the first that cannot be opened, or that was given before.
pub async fn open_drives(
    paths: &[PathBuf],
    how: &OpenDrive,
) -> Result<Vec<FileDrive>, OpenDriveError> {
    refuse_twice(paths)?;
    let mut drives = Vec::new();
    for path in paths {
        drives.push(FileDrive::open(path, how).await?);
    }
    Ok(drives)
}

/// Runs a future to its end on a small runtime of this thread, which is none of a gate's.
///
/// # Errors
/// If the runtime cannot be made.
pub fn block_on<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(tokio::task::LocalSet::new().block_on(&runtime, work))
}

/// Does some work with a store, while the store's own task runs beside it.
///
/// Should the store stop, the work goes on and hears of it from whatever it asks next.
pub async fn beside<D: Drive, T>(store: &Store<D>, work: impl Future<Output = T>) -> T {
    let (mut run, mut work) = (pin!(store.run()), pin!(work));
    let mut has_stopped = false;
    loop {
        tokio::select! {
            biased;
            _ = &mut run, if !has_stopped => has_stopped = true,
            outcome = &mut work => return outcome,
        }
    }
}

/// A name that no store and no drive has had before.
///
/// # Errors
/// If the machine has no random numbers.
pub fn fresh_uuid() -> io::Result<Uuid> {
    let mut uuid = Uuid([0; 16]);
    rustix::rand::getrandom(&mut uuid.0, GetRandomFlags::empty())?;
    Ok(uuid)
}

/// What tells the mount that is about to begin from all others.
///
/// # Errors
/// If the machine has no random numbers.
pub fn fresh_nonce() -> io::Result<Nonce> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(Nonce(u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests;
