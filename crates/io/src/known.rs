//! The volumes that this gate has served, one file each in its state folder: which volume it was,
//! and how far its members were. See [`Witness`] for what stands in it.
//!
//! ```text
//! opened -> written, durable -> every beat: written over in place -> ... -> the next opening asks
//! ```
//!
//! What is written with a beat outlives the process, as a part of the page cache; after a power cut
//! it may be older, and then tells less.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use evenkeel_engine::lease::{Mark, Witness};

use crate::state::file_of;

/// All of the file: no drive tears so much.
const FILE_BYTES: usize = 512;

/// The file of one volume.
#[derive(Debug)]
pub(crate) struct Known {
    file: File,
    witness: Witness,
}

/// Where the file of a volume is.
pub(crate) fn path_of(folder: &Path, volume: &str) -> PathBuf {
    file_of(folder, "volume", volume)
}

/// What the file of a volume says; none if there is none.
///
/// # Errors
/// It cannot be read, or is not whole.
pub(crate) fn read(path: &Path) -> io::Result<Option<Witness>> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file.take(2 * FILE_BYTES as u64).read_to_string(&mut text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let damaged = || io::Error::other("it is damaged, or of another version of evenkeel");
    Witness::parse(&text).map(Some).ok_or_else(damaged)
}

impl Known {
    /// Remembers a volume that was just opened.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn remember(path: &Path, witness: Witness) -> io::Result<Self> {
        // A full disk must not leave half a file in the place of a whole one.
        let fresh = path.with_extension("new");
        let known = Self { file: File::create(&fresh)?, witness };
        known.write(witness)?;
        known.file.sync_all()?;
        std::fs::rename(&fresh, path)?;
        let folder = path.parent().expect("it is a file in a folder");
        File::open(folder)?.sync_all()?;
        Ok(known)
    }

    /// The volume is so far now.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn note(&self, mark: Mark) -> io::Result<()> {
        self.write(self.witness.at(mark))
    }

    fn write(&self, witness: Witness) -> io::Result<()> {
        let mut text = witness.to_string();
        while text.len() < FILE_BYTES {
            text.push('\n');
        }
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::lease::Durable;

    use super::*;

    #[test]
    fn what_was_remembered_is_known_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_of(folder.path(), "shelf");
        assert_eq!(read(&path).unwrap(), None);
        let witness = Witness::default();
        let known = Known::remember(&path, witness).unwrap();
        assert_eq!(read(&path).unwrap(), Some(witness));
        let durable = Durable::of((0..6).map(|number| (number, u64::MAX >> number)));
        let mark = Mark::new(u64::MAX, 0, durable);
        known.note(mark).unwrap();
        assert_eq!(read(&path).unwrap(), Some(witness.at(mark)), "the longest there is");
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert_eq!(bytes, FILE_BYTES as u64);
        assert_eq!(read(&path_of(folder.path(), "other")).unwrap(), None);
    }

    #[test]
    fn a_damaged_file_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [&b""[..], b"evenkeel volume 2\n", &[0xff; FILE_BYTES]] {
            let path = path_of(folder.path(), "shelf");
            std::fs::write(&path, bytes).unwrap();
            read(&path).unwrap_err();
        }
    }
}
