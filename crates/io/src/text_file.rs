//! A short text that is replaced in place: what a gate remembers in its state folder.
//!
//! What is written outlives the process, as a part of the page cache; after a power cut it may be
//! older, and then tells less.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// All of the file, filled up with line feeds: no drive tears so much.
pub(crate) const FILE_BYTES: usize = 512;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct TextFile(File);

impl TextFile {
    /// Makes the file, durable with this text.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn create(path: &Path, text: &str) -> io::Result<Self> {
        // A full disk must not leave half a file in the place of a whole one.
        let fresh = path.with_extension("new");
        let file = Self(File::create(&fresh)?);
        file.write(text)?;
        file.0.sync_all()?;
        std::fs::rename(&fresh, path)?;
        let folder = path.parent().expect("it is a file in a folder");
        File::open(folder)?.sync_all()?;
        Ok(file)
    }

    /// The text is this now.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        let mut text = text.to_owned();
        while text.len() < FILE_BYTES {
            text.push('\n');
        }
        self.0.write_all_at(text.as_bytes(), 0)
    }
}

/// What a file says; none if there is none.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file.take(2 * FILE_BYTES as u64).read_to_string(&mut text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(text))
}
