//! Which pages of the choices a pool has: a bit for each.
//!
//! ```text
//! "evenkeel pages 1" | page 0 in the lowest bit of the first byte, 7 in its highest, 8 in the next
//! ```
//!
//! A page that is not listed was never in force: of its objects none was written. One that is
//! listed and missing is lost, and its objects have to be looked for. A page is listed after it was
//! stored, and counts from then on; so a crash leaves at worst a page that is not listed, of whose
//! choices none has an object.

use std::collections::BTreeSet;
use std::fmt;

use evenkeel_core::place::choices::{OBJECTS_MAX, PAGE_OBJECTS};

/// What it begins with; the number is the version of the format.
const TITLE: &[u8; 16] = b"evenkeel pages 1";

/// Most pages of a volume.
#[expect(clippy::cast_possible_truncation, reason = "some tens of thousands")]
const PAGES_MAX: u32 = OBJECTS_MAX.div_ceil(PAGE_OBJECTS) as u32;

/// The pages that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory(BTreeSet<u32>);

/// Bytes that are no directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryError;

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is damaged, or of a newer evenkeel")
    }
}

impl std::error::Error for DirectoryError {}

impl Directory {
    /// Longest directory, in bytes.
    pub const BYTES_MAX: usize = TITLE.len() + (PAGES_MAX as usize).div_ceil(8);

    /// A directory of these pages.
    pub fn of(pages: impl IntoIterator<Item = u32>) -> Self {
        Self(pages.into_iter().collect())
    }

    /// Whether a page is listed.
    pub fn has(&self, page: u32) -> bool {
        self.0.contains(&page)
    }

    /// Lists a page.
    pub fn insert(&mut self, page: u32) {
        self.0.insert(page);
    }

    /// The same with another page.
    #[must_use]
    pub fn with(&self, page: u32) -> Self {
        Self::of(self.pages().chain([page]))
    }

    /// The pages that are listed, in order.
    pub fn pages(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// As it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = TITLE.to_vec();
        for page in self.pages() {
            let at = TITLE.len() + page as usize / 8;
            bytes.resize(bytes.len().max(at + 1), 0);
            bytes[at] |= 1 << (page % 8);
        }
        bytes
    }

    /// Reads a directory.
    ///
    /// # Errors
    /// If it is none of this version, or not as [`Self::encode`] writes it.
    pub fn decode(bytes: &[u8]) -> Result<Self, DirectoryError> {
        let bits = bytes.strip_prefix(TITLE).ok_or(DirectoryError)?;
        let listed =
            (0..PAGES_MAX).zip(bits.iter().flat_map(|byte| (0..8).map(move |at| byte >> at & 1)));
        let directory = Self(listed.filter(|(_, bit)| *bit == 1).map(|(page, _)| page).collect());
        if directory.encode() == bytes { Ok(directory) } else { Err(DirectoryError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = Directory::BYTES_MAX;

    #[test]
    fn what_is_listed_is_found_again() {
        let directory = Directory::of([0, 9, 17]);
        assert_eq!(directory.encode(), b"evenkeel pages 1\x01\x02\x02");
        assert_eq!(Directory::decode(&directory.encode()), Ok(directory.clone()));
        assert_eq!(Directory::decode(TITLE), Ok(Directory::default()));
        let last = directory.with(PAGES_MAX - 1);
        assert_eq!((last.encode().len(), last.count()), (BYTES_MAX, 4));
        assert_eq!(Directory::decode(&last.encode()), Ok(last));
    }

    #[test]
    fn what_nobody_writes_so_is_refused() {
        let refused: [&[u8]; 4] =
            [b"", b"evenkeel pages 2", b"evenkeel pages 1\x01\0", &[0xff; BYTES_MAX]];
        for bytes in refused {
            assert_eq!(Directory::decode(bytes), Err(DirectoryError), "{bytes:?}");
        }
        let beyond = [TITLE.as_slice(), &[0xff; BYTES_MAX]].concat();
        assert_eq!(Directory::decode(&beyond), Err(DirectoryError));
    }
}
