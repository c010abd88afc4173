//! A file or block device, past the page cache where that is possible.
//!
//! Direct I/O wants offsets, lengths and memory aligned to the device's blocks. Clients may send
//! less: those requests go through a second, buffered descriptor of the same file. The kernel
//! keeps the two coherent for requests that do not overlap in time, which is all that a disk
//! promises for concurrent overlapping requests anyway.
//!
//! ```text
//!                          a plain disk    a tier, a drive of a store
//! lock                     shared          of its own
//! a plain disk beside it   yes             no
//! ```
//!
//! The lock is on the direct descriptor if there is one. The kernel may have direct requests under
//! way for a while after a gate was killed, and each keeps its descriptor open, and so the lock. A
//! buffered request keeps the killed gate itself from ending, and so both descriptors.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_wire::nbd::proto::Extent;
use rustix::fs::{FlockOperation, OFlags, SeekFrom};
use rustix::io::Errno;
use tokio::time::Instant;

use super::beneath::Folder;
use crate::buffer::PAGE_BYTES;

/// Alignment asked of direct requests; every device in use is content with a page.
const ALIGNMENT_BYTES: u64 = PAGE_BYTES as u64;

/// Between two attempts to lock a file.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Extents in one answer about allocation.
const EXTENTS_MAX: usize = 4096;

/// An open file or block device.
#[derive(Debug)]
pub(crate) struct FileDisk {
    /// For people.
    path: PathBuf,
    buffered: Arc<File>,
    direct: Option<Arc<File>>,
    size_bytes: u64,
    is_read_only: bool,
    /// How often acknowledged writes may have been lost: the kernel tells of a failed write-back
    /// once per descriptor, and all clients share ours.
    losses: Cell<u64>,
}

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFile {
    /// Bypass the page cache, if the file system can.
    pub(crate) direct: bool,
    /// Make the file at this size if it does not exist; an existing file keeps its own.
    pub(crate) create_bytes: Option<u64>,
}

impl FileDisk {
    /// Opens what is at a path of the operator's, which may be a link.
    pub(crate) fn open(path: &Path, how: OpenFile) -> io::Result<Self> {
        let open = |flags: OFlags| {
            let custom = i32::try_from(flags.difference(OFlags::RWMODE).bits()).expect("they fit");
            let mut options = OpenOptions::new();
            options.read(true).write(flags.contains(OFlags::RDWR)).custom_flags(custom).open(path)
        };
        Self::opened(path.to_owned(), how, open, |bytes| create(path, bytes))
    }

    /// Opens a file of a folder by a name that need not be the operator's; see [`Folder`].
    pub(crate) fn open_beneath(folder: &Path, name: &str, how: OpenFile) -> io::Result<Self> {
        let path = folder.join(name);
        let folder = Folder::open(folder)?;
        let open = |flags| folder.file(name, flags);
        Self::opened(path, how, open, |bytes| folder.create(name, bytes))
    }

    fn opened(
        path: PathBuf,
        how: OpenFile,
        open: impl Fn(OFlags) -> io::Result<File>,
        create: impl FnOnce(u64) -> io::Result<File>,
    ) -> io::Result<Self> {
        let mut access = OFlags::RDWR;
        let mut opened = open(access);
        let is_read_only = opened.as_ref().is_err_and(is_not_writable);
        if is_read_only {
            access = OFlags::RDONLY;
            opened = open(access);
        }
        let buffered = match (opened, how.create_bytes) {
            (Err(error), Some(bytes)) if error.kind() == io::ErrorKind::NotFound => create(bytes)?,
            (opened, _) => opened?,
        };
        let direct = match how.direct.then(|| open(access | OFlags::DIRECT)).transpose() {
            Ok(file) => file,
            Err(error) => {
                let path = path.display();
                tracing::info!(%path, %error, "no direct I/O here; the page cache is used");
                None
            }
        };
        if let Some(direct) = &direct {
            refuse_another(&buffered, direct)?;
        }
        let size_bytes = size_of(&buffered)?;
        Ok(Self {
            path,
            buffered: Arc::new(buffered),
            direct: direct.map(Arc::new),
            size_bytes,
            is_read_only,
            losses: Cell::new(0),
        })
    }

    /// Where it is, for people.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Locks it against every other process that asks for the lock, until it is closed; waits for
    /// another's lock for so long.
    pub(crate) async fn lock(&self, patience: Duration) -> io::Result<()> {
        let how = FlockOperation::NonBlockingLockExclusive;
        lock_patiently(self.for_lock(), how, patience).await
    }

    /// Locks it, until it is closed, against whoever wants it alone: a store, or a volume that has
    /// it as a tier; waits as [`lock`](Self::lock) does. Where the file system knows no locks there
    /// is none.
    ///
    /// # Errors
    /// Another program has it alone.
    pub(crate) async fn share(&self, patience: Duration) -> io::Result<()> {
        let path = self.path.display();
        let how = FlockOperation::NonBlockingLockShared;
        match lock_patiently(self.for_lock(), how, patience).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let why = "another program has locked it, as a store or a volume does; stop that \
                           one, or export another file";
                Err(io::Error::new(error.kind(), format!("{path}: {why}")))
            }
            Err(error) => {
                tracing::warn!(%path, %error, "it cannot be locked against other programs");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Whether another process has it alone; as far as the file system knows locks.
    pub(crate) fn is_locked(&self) -> bool {
        let shared = rustix::fs::flock(self.for_lock(), FlockOperation::NonBlockingLockShared);
        if shared.is_ok() {
            let _ = rustix::fs::flock(self.for_lock(), FlockOperation::NonBlockingUnlock);
        }
        shared == Err(Errno::WOULDBLOCK)
    }

    fn for_lock(&self) -> &File {
        self.direct.as_ref().unwrap_or(&self.buffered)
    }

    /// Its size when it was opened.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether it cannot be written here: write-protected, or on a read-only file system.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// How often acknowledged writes may have been lost so far.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.get()
    }

    /// Notes that what was to be durable is not.
    pub(crate) fn note_loss(&self) {
        self.losses.set(self.losses.get() + 1);
    }

    /// The descriptor to use for a transfer; `memory` is where its buffer starts.
    pub(crate) fn for_transfer(&self, offset: u64, length: u64, memory: *const u8) -> &Arc<File> {
        let aligned = [offset, length, memory as usize as u64]
            .iter()
            .all(|value| value.is_multiple_of(ALIGNMENT_BYTES));
        match &self.direct {
            Some(direct) if aligned => direct,
            _ => &self.buffered,
        }
    }

    /// The descriptor for everything that moves no data.
    pub(crate) fn for_control(&self) -> &Arc<File> {
        &self.buffered
    }
}

/// Makes a sparse file that stays, name and all, for reading and writing.
pub(crate) fn create(path: &Path, size_bytes: u64) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    file.set_len(size_bytes)?;
    file.sync_all()?;
    // The name must be as durable as what will be flushed under it.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
    Ok(file)
}

/// Locks a file, waiting for another's lock for so long: the kernel may be at work for a program
/// that was killed, and keeps its lock until it is done.
pub(crate) async fn lock_patiently(
    file: &File,
    how: FlockOperation,
    patience: Duration,
) -> io::Result<()> {
    let patient_until = Instant::now() + patience;
    loop {
        match rustix::fs::flock(file, how) {
            Err(Errno::WOULDBLOCK) if Instant::now() < patient_until => {
                tokio::time::sleep(LOCK_PAUSE).await;
            }
            locked => return Ok(locked?),
        }
    }
}

/// Refuses two descriptors that are not of the same file: it was replaced in between.
fn refuse_another(one: &File, other: &File) -> io::Result<()> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    if (one.dev(), one.ino()) == (other.dev(), other.ino()) {
        return Ok(());
    }
    Err(io::Error::other("the file was replaced while it was opened; try again"))
}

fn is_not_writable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Bytes of a file or block device.
pub(crate) fn size_of(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.file_type().is_block_device() {
        return Ok(rustix::fs::seek(file, SeekFrom::End(0))?);
    }
    Ok(metadata.len())
}

/// Which parts of a range are allocated. Blocks on the file system: run it off the data path.
pub(crate) fn extents(file: &File, offset: u64, length: u64) -> Vec<Extent> {
    let end = offset + length;
    let mut at = offset;
    let mut extents = Vec::new();
    while at < end && extents.len() < EXTENTS_MAX {
        let data = rustix::fs::seek(file, SeekFrom::Data(at));
        let (until, flags) = match data {
            Ok(data) if data > at => (data, Extent::HOLE | Extent::ZERO),
            Ok(_) => (rustix::fs::seek(file, SeekFrom::Hole(at)).unwrap_or(end), 0),
            Err(Errno::NXIO) => (end, Extent::HOLE | Extent::ZERO),
            // A file system that cannot tell: everything counts as data.
            Err(_) => (end, 0),
        };
        let until = until.clamp(at + 1, end);
        extents.push(Extent { length: until - at, flags });
        at = until;
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn an_existing_file_keeps_its_size_and_content() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("disk");
        let how = OpenFile { direct: true, create_bytes: Some(1 << 20) };
        let disk = FileDisk::open(&path, how).expect("made");
        assert_eq!(disk.size_bytes(), 1 << 20);
        disk.for_control().write_all_at(b"kept", 4096).expect("write");
        let again = OpenFile { create_bytes: Some(2 << 20), ..how };
        let disk = FileDisk::open(&path, again).expect("opened");
        assert_eq!(disk.size_bytes(), 1 << 20);
        let mut bytes = [0; 4];
        disk.for_control().read_exact_at(&mut bytes, 4096).expect("read");
        assert_eq!(&bytes, b"kept");
    }

    /// The kernel may be at work for a gate that was killed; a request holds its descriptor.
    #[tokio::test]
    async fn a_request_under_way_keeps_the_lock() {
        // The usual temporary folder may be memory, which takes no direct requests.
        let beside = std::env::current_exe().expect("a test has a file");
        let beside = beside.parent().expect("in a folder");
        let path = tempfile::NamedTempFile::new_in(beside).expect("made").into_temp_path();
        for direct in [true, false] {
            let how = OpenFile { direct, create_bytes: None };
            let disk = FileDisk::open(&path, how).expect("opened");
            disk.lock(Duration::ZERO).await.expect("nobody else has it");
            let under_way = Arc::clone(disk.for_transfer(0, 4096, std::ptr::null()));
            drop(disk);
            let next = FileDisk::open(&path, how).expect("opened");
            let error = next.lock(Duration::ZERO).await.expect_err("a request is under way");
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            drop(under_way);
            next.lock(Duration::ZERO).await.expect("nothing is under way");
        }
    }

    #[tokio::test]
    async fn plain_disks_share_a_file_that_nobody_wants_alone() {
        let path = tempfile::NamedTempFile::new().expect("made").into_temp_path();
        let open = || {
            let how = OpenFile { direct: false, create_bytes: None };
            FileDisk::open(&path, how).expect("opened")
        };
        let [one, other, tier] = [open(), open(), open()];
        one.share(Duration::ZERO).await.expect("nobody has it alone");
        other.share(Duration::ZERO).await.expect("nobody has it alone");
        tier.lock(Duration::ZERO).await.expect_err("others have it");
        drop([one, other]);
        tier.lock(Duration::ZERO).await.expect("it is free");
        let refused = open().share(Duration::ZERO).await.expect_err("the tier has it");
        assert!(refused.to_string().contains("another program has locked it"), "{refused}");
        let waiting = open();
        let (shared, ()) = tokio::join!(waiting.share(Duration::from_mins(1)), async {
            tokio::time::sleep(LOCK_PAUSE).await;
            drop(tier);
        });
        shared.expect("what a killed gate leaves is waited for");
    }

    #[test]
    fn holes_are_told_apart_from_data() {
        let file = tempfile::tempfile().expect("tempfile");
        file.set_len(1 << 20).expect("set_len");
        file.write_all_at(&vec![1; 65_536], 131_072).expect("write");
        let found = extents(&file, 0, 1 << 20);
        let hole = Extent::HOLE | Extent::ZERO;
        let expected = [
            Extent { length: 131_072, flags: hole },
            Extent { length: 65_536, flags: 0 },
            Extent { length: (1 << 20) - 196_608, flags: hole },
        ];
        assert_eq!(found, expected);
    }
}
