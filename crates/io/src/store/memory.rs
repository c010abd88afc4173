//! How far each store was, in the state folder of its gate: one file each, by the store's name.

use std::io;
use std::path::{Path, PathBuf};

use evenkeel_store::{Drive, Position, Uuid, read_superblock};

use crate::state::file_of;
use crate::text_file::{self, TextFile};

/// The file of one store.
#[derive(Debug)]
pub(crate) struct PositionFile {
    file: TextFile,
    written: Position,
}

impl PositionFile {
    /// Remembers a store that was just opened.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn create(folder: &Path, position: Position) -> io::Result<Self> {
        let path = path_of(folder, position.store);
        Ok(Self { file: TextFile::create(&path, &position.to_string())?, written: position })
    }

    /// The store is so far now.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn note(&mut self, position: Position) -> io::Result<()> {
        if self.written != position {
            self.file.write(&position.to_string())?;
            self.written = position;
        }
        Ok(())
    }
}

/// Where the position of a store is kept in a state folder.
pub fn path_of(folder: &Path, store: Uuid) -> PathBuf {
    file_of(folder, "store", &store.to_string())
}

/// How far the store of these drives was, by what a state folder says; none if it says nothing, or
/// no drive can be read.
///
/// # Errors
/// The file cannot be read, or is not whole; the text names it.
pub async fn known_position<D: Drive>(folder: &Path, drives: &[D]) -> io::Result<Option<Position>> {
    let mut store = None;
    for drive in drives {
        if let Ok(Ok(superblock)) = read_superblock(drive).await {
            store = Some(superblock.store);
            break;
        }
    }
    let Some(store) = store else { return Ok(None) };
    let path = path_of(folder, store);
    let named = |error: io::Error| {
        let path = path.display();
        io::Error::other(format!(
            "what is remembered of the store cannot be read: {path}: {error}; remove the file to \
             open the store without"
        ))
    };
    let Some(text) = text_file::read(&path).map_err(named)? else { return Ok(None) };
    let damaged = || named(io::Error::other("it is damaged, or of another version of evenkeel"));
    Position::parse(&text).map(Some).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use evenkeel_store::{Lsn, Mount, Nonce};

    use super::*;

    #[test]
    fn the_longest_position_fits_the_file_and_is_what_was_noted_last() {
        let folder = tempfile::tempdir().unwrap();
        let mount = Mount { epoch: 1 << 61, nonce: Nonce(u64::MAX) };
        let first = Position { store: Uuid([0xff; 16]), mount, durable: Lsn(0) };
        let mut file = PositionFile::create(folder.path(), first).unwrap();
        let last = Position { durable: Lsn(1 << 61), ..first };
        file.note(last).unwrap();
        let path = path_of(folder.path(), first.store);
        let text = text_file::read(&path).unwrap().unwrap();
        assert_eq!(Position::parse(&text), Some(last));
        assert_eq!(text.len(), text_file::FILE_BYTES);
    }
}
