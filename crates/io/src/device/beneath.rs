//! Files of a folder, by names that somebody else may have chosen.
//!
//! Whoever can write to the folder can put links and special files there. None of them may lead
//! out of it, and opening one must not wait for anybody:
//!
//! ```text
//! disk            a regular file: opened
//! alias -> disk   a link that stays in the folder: opened
//! out -> /etc/shadow, up -> ../x, /proc/self/fd/3, pipe, device
//!                 answered like a name that is not there, and logged
//! ```
//!
//! The kernel resolves the name (`openat2`, Linux 5.6), so that nobody can change a link between
//! look and use. Where there is no such call, or a filter of system calls forbids it, no link is
//! followed at all: a name is one component, so that it cannot lead elsewhere then.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use evenkeel_wire::nbd::text::Escaped;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, openat, openat2};
use rustix::io::Errno;

/// So often an opening is tried that a rename beside it has disturbed.
const ATTEMPTS: usize = 8;

/// Permissions of a new file, before the process's mask.
const NEW_FILE_MODE: Mode = Mode::from_raw_mode(0o666);

/// A folder whose files are opened by name.
#[derive(Debug)]
pub(crate) struct Folder {
    /// For people.
    path: PathBuf,
    open: OwnedFd,
    has_openat2: bool,
}

impl Folder {
    /// The folder at a path of the operator's, which may be a link or lead over some.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { path: path.to_owned(), open, has_openat2: true })
    }

    /// Opens a regular file with these flags besides.
    ///
    /// # Errors
    /// What is no regular file in this folder is not found.
    pub(crate) fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        self.refuse_other_names(name)?;
        // What it is comes first: opening a device may already do something to it.
        let there = self.resolve(name, OFlags::PATH, Mode::empty());
        let there = rustix::fs::fstat(there.map_err(|error| self.hidden(name, error))?)?;
        self.refuse_special(name, &there)?;
        let opened = self.resolve(name, flags | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty());
        let opened = opened.map_err(|error| self.hidden(name, error))?;
        let found = rustix::fs::fstat(&opened)?;
        self.refuse_special(name, &found)?;
        // It was for files of another kind; requests that would wait must wait, not fail.
        let flags = rustix::fs::fcntl_getfl(&opened)?;
        rustix::fs::fcntl_setfl(&opened, flags - OFlags::NONBLOCK)?;
        Ok(opened.into())
    }

    /// Makes a sparse file that stays, name and all, for reading and writing.
    ///
    /// # Errors
    /// A link that leads nowhere is not found.
    pub(crate) fn create(&self, name: &str, size_bytes: u64) -> io::Result<File> {
        self.refuse_other_names(name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let made = self.resolve(name, flags, NEW_FILE_MODE);
        let file = File::from(made.map_err(|error| self.hidden(name, error))?);
        file.set_len(size_bytes)?;
        file.sync_all()?;
        // The name must be as durable as what will be flushed under it.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::fsync(openat(&self.open, ".", flags, Mode::empty())?)?;
        Ok(file)
    }

    fn resolve(&self, name: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let attempts = if self.has_openat2 { ATTEMPTS } else { 0 };
        for _ in 0..attempts {
            match openat2(&self.open, name, flags, mode, beneath) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                // Some filters of system calls say "not permitted" of what they do not know.
                Err(Errno::NOSYS | Errno::PERM) => break,
                opened => return opened,
            }
        }
        openat(&self.open, name, flags | OFlags::NOFOLLOW, mode)
    }

    /// Refuses names that are not one component, and hidden ones, `.` and `..` among them.
    fn refuse_other_names(&self, name: &str) -> io::Result<()> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(self.refused(name, "it is not the plain name of a file"));
        }
        Ok(())
    }

    fn refuse_special(&self, name: &str, stat: &Stat) -> io::Result<()> {
        let why = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return Ok(()),
            FileType::Symlink => "it is a link, which this kernel cannot keep in the folder",
            _ => "it is not a regular file",
        };
        Err(self.refused(name, why))
    }

    /// What a client may hear of an error.
    fn hidden(&self, name: &str, error: Errno) -> io::Error {
        match error {
            Errno::XDEV => self.refused(name, "it leads out of the folder"),
            Errno::LOOP => self.refused(name, "it is a link that may not be followed"),
            Errno::EXIST => self.refused(name, "it is a link that leads nowhere"),
            // A socket, or a device that nobody drives.
            Errno::NXIO | Errno::NODEV => self.refused(name, "it is not a regular file"),
            error => error.into(),
        }
    }

    /// The same answer as for a name that is not there; the operator reads more in the log.
    fn refused(&self, name: &str, why: &str) -> io::Error {
        let (folder, name) = (self.path.display(), Escaped(name.as_bytes()));
        tracing::warn!(%folder, %name, why, "a name in a directory is refused");
        Errno::NOENT.into()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    use rustix::fs::CWD;

    use super::*;

    /// A folder with a file, beside a file that is not for clients.
    fn scene() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().expect("tempdir");
        let folder = scratch.path().join("disks");
        std::fs::create_dir(&folder).expect("made");
        std::fs::write(folder.join("disk"), "inside").expect("written");
        std::fs::write(scratch.path().join("secret"), "outside").expect("written");
        (scratch, folder)
    }

    /// The folder as this kernel opens it, and as one without `openat2` does.
    fn both(path: &Path) -> [Folder; 2] {
        let open = || Folder::open(path).expect("opened");
        [open(), Folder { has_openat2: false, ..open() }]
    }

    fn assert_hidden(folder: &Folder, name: &str) {
        let missing = folder.file("nothing", OFlags::RDWR).expect_err("not there").to_string();
        let begun = Instant::now();
        for flags in [OFlags::RDWR, OFlags::RDONLY] {
            let refused = folder.file(name, flags).expect_err(name).to_string();
            assert_eq!(refused, missing, "{name}: {folder:?}");
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{name}: opening waited");
    }

    #[test]
    fn links_that_lead_out_are_not_there() {
        let (scratch, path) = scene();
        let outside = scratch.path().join("secret");
        symlink(&outside, path.join("absolute")).expect("linked");
        symlink("../secret", path.join("relative")).expect("linked");
        symlink("relative", path.join("twice")).expect("linked");
        symlink(scratch.path(), path.join("folder")).expect("linked");
        symlink("/proc/self/exe", path.join("magic")).expect("linked");
        symlink("loop", path.join("loop")).expect("linked");
        // What leads back in has been out.
        symlink(path.join("disk"), path.join("around")).expect("linked");
        for folder in both(&path) {
            let links = ["absolute", "relative", "twice", "folder", "magic", "loop", "around"];
            for name in links {
                assert_hidden(&folder, name);
            }
        }
    }

    #[test]
    fn names_that_are_paths_are_not_there() {
        let (scratch, path) = scene();
        let absolute = scratch.path().join("secret");
        let absolute = absolute.to_str().expect("UTF-8");
        std::fs::create_dir(path.join("deep")).expect("made");
        std::fs::write(path.join("deep/disk"), "").expect("written");
        std::fs::write(path.join(".hidden"), "").expect("written");
        for folder in both(&path) {
            let names =
                ["", ".", "..", "../secret", "deep", "deep/disk", ".hidden", "a\0b", absolute];
            for name in names {
                assert_hidden(&folder, name);
            }
            assert!(folder.create("../made", 4096).is_err());
        }
        assert!(!scratch.path().join("made").exists());
    }

    #[test]
    fn special_files_are_not_there_and_opening_them_waits_for_nobody() {
        let (_scratch, path) = scene();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, path.join("pipe"), FileType::Fifo, mode, 0).expect("made");
        let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).expect("bound");
        symlink("/dev/zero", path.join("device")).expect("linked");
        for folder in both(&path) {
            for name in ["pipe", "socket", "device"] {
                assert_hidden(&folder, name);
            }
        }
    }

    #[test]
    fn a_link_that_stays_in_the_folder_is_followed_where_the_kernel_can_hold_it_there() {
        let (_scratch, path) = scene();
        symlink("disk", path.join("alias")).expect("linked");
        let [current, old] = both(&path);
        let text = io::read_to_string(current.file("alias", OFlags::RDWR).expect("it stays"));
        assert_eq!(text.expect("read"), "inside");
        assert_hidden(&old, "alias");
    }

    #[test]
    fn the_path_of_the_folder_may_be_a_link() {
        let (scratch, path) = scene();
        let link = scratch.path().join("link");
        symlink(&path, &link).expect("linked");
        for folder in both(&link) {
            assert!(folder.file("disk", OFlags::RDWR).is_ok());
        }
    }

    #[test]
    fn nothing_is_made_through_a_link() {
        let (scratch, path) = scene();
        symlink(scratch.path().join("new"), path.join("out")).expect("linked");
        symlink("new", path.join("in")).expect("linked");
        for folder in both(&path) {
            for name in ["out", "in"] {
                let refused = folder.create(name, 4096).expect_err(name);
                assert_eq!(refused.kind(), io::ErrorKind::NotFound, "{name}");
            }
        }
        assert!(!scratch.path().join("new").exists() && !path.join("new").exists());
    }

    #[test]
    fn files_are_made_and_are_for_reading_and_writing_that_may_wait() {
        let (_scratch, path) = scene();
        for (index, folder) in both(&path).iter().enumerate() {
            let name = format!("made-{index}");
            folder.create(&name, 4096).expect("made").write_all(b"x").expect("written");
            let file = folder.file(&name, OFlags::RDWR).expect("opened");
            assert_eq!(file.metadata().expect("known").len(), 4096);
            let flags = rustix::fs::fcntl_getfl(&file).expect("known");
            assert!(!flags.contains(OFlags::NONBLOCK), "requests must not fail for having to wait");
        }
    }
}
