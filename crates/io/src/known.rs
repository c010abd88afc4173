//! The volumes that this gate has served, one file each in its state folder: which volume it was,
//! and how far its members were. See [`Witness`] for what stands in it.
//!
//! ```text
//! opened -> written, durable -> every beat: written over in place -> ... -> the next opening asks
//! ```

use std::io;
use std::path::{Path, PathBuf};

use evenkeel_engine::lease::{Mark, Witness};

use crate::state::file_of;
use crate::text_file::{self, TextFile};

/// The file of one volume.
#[derive(Debug)]
pub(crate) struct Known {
    file: TextFile,
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
    let Some(text) = text_file::read(path)? else { return Ok(None) };
    let damaged = || io::Error::other("it is damaged, or of another version of evenkeel");
    Witness::parse(&text).map(Some).ok_or_else(damaged)
}

impl Known {
    /// Remembers a volume that was just opened.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn remember(path: &Path, witness: Witness) -> io::Result<Self> {
        Ok(Self { file: TextFile::create(path, &witness.to_string())?, witness })
    }

    /// The volume is so far now.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn note(&self, mark: Mark) -> io::Result<()> {
        self.file.write(&self.witness.at(mark).to_string())
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::lease::Durable;

    use super::*;
    use crate::text_file::FILE_BYTES;

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
