//! Opening a file or block device for a store: making it, telling what it takes, locking it.
//!
//! Direct I/O past the page cache is the rule: the store caches what it wants cached, and an
//! acknowledged flush then means what the device says. Where the file system has none, the page
//! cache is used, and the same flushes make it durable.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_store::Geometry;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::device;
use super::drive::is_absent;
use super::zones::{EmulatedZones, EmulatedZoning, Zones, emulated};
use crate::buffer::Buf;
use crate::device::file::{create, lock_patiently, size_of};
use crate::drive::DriveKind;

/// How to open a drive.
#[derive(Clone, Copy, Debug)]
pub struct OpenDrive {
    /// Use it past the page cache, where its file system can.
    pub direct: bool,
    /// Only read it. Nobody writes to it meanwhile who asks for the lock.
    pub read_only: bool,
    /// Make a sparse file of this size if nothing is there; what is there keeps its own.
    pub create_bytes: Option<u64>,
    /// Divide a file that is made like a drive with zones; see [`EmulatedZoning`].
    pub create_zones: Option<EmulatedZoning>,
    /// What does the work.
    pub kind: DriveKind,
    /// How long another program may have it locked before that is an error: the kernel may be at
    /// work for one that was killed a moment ago.
    pub lock_patience: Duration,
    /// How long it may owe an answer before it is given up.
    pub answer_patience: Duration,
}

/// The kernel's own patience with a disk is half of it.
const ANSWER_PATIENCE: Duration = Duration::from_mins(1);

impl Default for OpenDrive {
    fn default() -> Self {
        Self {
            direct: true,
            read_only: false,
            create_bytes: None,
            create_zones: None,
            kind: DriveKind::Best,
            lock_patience: Duration::from_secs(3),
            answer_patience: ANSWER_PATIENCE,
        }
    }
}

/// Why a drive cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenDriveError {
    /// What the system says.
    #[error("{}: {error}; {}", .path.display(), remedy(.error))]
    Io {
        /// The drive.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A store is open on it elsewhere, or it is mounted.
    #[error("{}: another program is using it; stop that one (`evenkeel serve`, a mount) or give \
             another drive", .0.display())]
    InUse(PathBuf),
    /// A device that can only be read.
    #[error("{}: the device is read-only, and a store has to write; make it writable (`blockdev \
             --setrw`) or give another drive", .0.display())]
    ReadOnly(PathBuf),
    /// A folder, a terminal, ..
    #[error("{}: neither a file nor a block device; a store needs one of these", .0.display())]
    NotADrive(PathBuf),
    /// The same drive twice, perhaps by another name.
    #[error("{}: given twice; give every drive of the store once", .0.display())]
    Twice(PathBuf),
}

impl OpenDriveError {
    /// Whether the drive is not there, rather than in use or forbidden.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { error, .. } if is_absent(error))
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the path, or make the store there first",
        io::ErrorKind::PermissionDenied => "give this user the right to read and write it",
        io::ErrorKind::ReadOnlyFilesystem => "a store has to write; put it elsewhere",
        io::ErrorKind::StorageFull => "make room on the file system",
        io::ErrorKind::FileTooLarge => {
            "its file system has no files as large; choose a smaller one"
        }
        _ => "check the drive",
    }
}

/// A drive that was opened.
pub(super) struct Opened {
    pub(super) file: Arc<File>,
    pub(super) geometry: Geometry,
    pub(super) zones: Option<Zones>,
    pub(super) is_direct: bool,
    pub(super) is_device: bool,
    /// Whether parts of it take no room, or may not: a file that was allocated whole stays so.
    pub(super) is_sparse: bool,
}

/// Opens and locks it.
pub(super) async fn open(path: &Path, how: &OpenDrive) -> Result<Opened, OpenDriveError> {
    let io_error = |error| OpenDriveError::Io { path: path.to_owned(), error };
    let mut options = OpenOptions::new();
    options.read(true).write(!how.read_only);
    let metadata = match (std::fs::metadata(path), how.create_bytes) {
        (Err(error), Some(bytes)) if error.kind() == io::ErrorKind::NotFound => {
            make(path, bytes, how.create_zones).and_then(|file| file.metadata())
        }
        (metadata, _) => metadata,
    }
    .map_err(io_error)?;
    let is_device = metadata.file_type().is_block_device();
    if !is_device && !metadata.is_file() {
        return Err(OpenDriveError::NotADrive(path.to_owned()));
    }
    // Of a device, this refuses what is mounted, or part of something else.
    let flags = if is_device && !how.read_only { OFlags::EXCL } else { OFlags::empty() };
    let opened = open_file(path, &options, flags, how.direct).map_err(|error| {
        let is_busy = error.raw_os_error() == Some(Errno::BUSY.raw_os_error());
        if is_busy { OpenDriveError::InUse(path.to_owned()) } else { io_error(error) }
    });
    let (file, block_bytes, is_direct) = opened?;
    if is_device && !how.read_only && device::is_read_only(&file).map_err(io_error)? {
        return Err(OpenDriveError::ReadOnly(path.to_owned()));
    }
    let lock = if how.read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    lock_patiently(&file, lock, how.lock_patience).await.map_err(|error| {
        let is_taken = error.kind() == io::ErrorKind::WouldBlock;
        if is_taken { OpenDriveError::InUse(path.to_owned()) } else { io_error(error) }
    })?;
    let file = Arc::new(file);
    let zones = if is_device {
        Zones::of_device(&file).map_err(io_error)?
    } else {
        EmulatedZones::find(&file, metadata.len()).map_err(io_error)?.map(Zones::Emulated)
    };
    let emulated = zones.as_ref().and_then(Zones::emulated);
    let size_bytes = match emulated {
        Some(emulated) => emulated.drive_bytes(),
        None => size_of(&file).map_err(io_error)?,
    };
    Ok(Opened {
        geometry: Geometry {
            size_bytes: size_bytes - size_bytes % u64::from(block_bytes),
            block_bytes,
            atomic_bytes: block_bytes,
        },
        is_direct,
        is_device,
        is_sparse: is_device || is_sparse(&metadata),
        zones,
        file,
    })
}

/// Makes a sparse file of this size, or one for a drive of this size with zones.
fn make(path: &Path, bytes: u64, zones: Option<EmulatedZoning>) -> io::Result<File> {
    let Some(wish) = zones else { return create(path, bytes) };
    let file = create(path, emulated::file_bytes(bytes, &wish))?;
    EmulatedZones::make(&file, bytes, &wish)?;
    Ok(file)
}

/// Past the page cache if that is wanted and can be; with the unit of addressing.
fn open_file(
    path: &Path,
    options: &OpenOptions,
    flags: OFlags,
    direct: bool,
) -> io::Result<(File, u32, bool)> {
    let open = |flags: OFlags| {
        let flags = i32::try_from(flags.bits()).expect("flags fit");
        options.clone().custom_flags(flags).open(path)
    };
    if direct {
        let tried = open(flags | OFlags::DIRECT).and_then(|file| Ok((direct_unit(&file)?, file)));
        match tried {
            Ok((block_bytes, file)) => return Ok((file, block_bytes, true)),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let path = path.display();
                tracing::warn!(%path, "no direct I/O here; the page cache is used, and flushed");
            }
            Err(error) => return Err(error),
        }
    }
    Ok((open(flags)?, 512, false))
}

/// The smallest unit that direct requests may have, found by trying.
fn direct_unit(file: &File) -> io::Result<u32> {
    let mut outcome = Err(io::ErrorKind::InvalidInput.into());
    for unit in [512, 4096] {
        outcome = file.read_at(&mut Buf::take(unit as usize), 0).map(|_| unit);
        match &outcome {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            // A drive whose first block is bad is the store's affair.
            Err(_) => return Ok(unit),
            Ok(_) => break,
        }
    }
    outcome
}

fn is_sparse(metadata: &Metadata) -> bool {
    metadata.blocks() * 512 < metadata.size()
}

/// Refuses drives that are the same, by whatever names.
pub(crate) fn refuse_twice(paths: &[PathBuf]) -> Result<(), OpenDriveError> {
    let (mut known, mut unmade) = (BTreeSet::new(), BTreeSet::new());
    for path in paths {
        let Ok(metadata) = std::fs::metadata(path) else {
            // What is not there is refused, or made, when it is opened: once.
            if !unmade.insert(place_of(path)) {
                return Err(OpenDriveError::Twice(path.clone()));
            }
            continue;
        };
        let is_device = metadata.file_type().is_block_device();
        let own =
            if is_device { (0, metadata.rdev()) } else { (1 + metadata.dev(), metadata.ino()) };
        if !known.insert(own) {
            return Err(OpenDriveError::Twice(path.clone()));
        }
    }
    Ok(())
}

/// Where a file would be made.
fn place_of(path: &Path) -> PathBuf {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    folder.join(path.file_name().unwrap_or_default())
}
