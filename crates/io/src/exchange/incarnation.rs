//! The incarnation number of the gate: of two of its words the others know which was said after a
//! restart.
//!
//! ```text
//! exchange.incarnation   "evenkeel incarnation 1", the latest number in decimal
//! ```
//!
//! The number is kept in the state folder, and grows with each start, and when the clock is set
//! back. By the clock alone a gate that was started an hour ahead of time, and again once its clock
//! was right, would not be heard for that hour. It is no less than the seconds since 1970 all the
//! same: so a folder that was lost, or brought back from a backup, makes no gate unheard whose
//! clock was right before.

use std::io;
use std::path::{Path, PathBuf};

use crate::text_file::{self, TextFile};

/// What the file begins with; the number is the version of the format.
const TITLE: &str = "evenkeel incarnation 1\n";
const FILE: &str = "exchange.incarnation";

/// The number, and where it is kept. See the [module](self).
#[derive(Debug)]
pub(super) struct Incarnation {
    file: Option<PathBuf>,
    number: u64,
}

impl Incarnation {
    /// The gate starts, at so many seconds since 1970. Without a folder, or where it cannot be
    /// used, only the clock tells.
    pub(super) fn begin(folder: Option<PathBuf>, wall_s: u64) -> Self {
        let file = folder.map(|folder| folder.join(FILE));
        let mut incarnation = match file.as_deref().map_or(Ok(0), read) {
            Ok(number) => Self { file, number },
            Err(error) => {
                tracing::warn!(%error, "the incarnation number is taken from the clock alone");
                Self { file: None, number: 0 }
            }
        };
        incarnation.next(wall_s);
        incarnation
    }

    /// The number in force.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next one begins: nothing that was said before is to count any more.
    pub(super) fn next(&mut self, wall_s: u64) {
        self.number = self.number.saturating_add(1).max(wall_s);
        let Some(file) = &self.file else { return };
        if let Err(error) = TextFile::create(file, &render(self.number)) {
            let file = file.display();
            tracing::warn!(%file, %error, "the incarnation number cannot be kept");
        }
    }
}

/// The number in a file; 0 if there is none.
fn read(file: &Path) -> io::Result<u64> {
    let Some(text) = text_file::read(file)? else { return Ok(0) };
    parse(&text).ok_or_else(|| {
        let file = file.display();
        io::Error::other(format!("{file} is damaged, or of a newer evenkeel; remove it"))
    })
}

fn render(number: u64) -> String {
    format!("{TITLE}{number}\n")
}

fn parse(text: &str) -> Option<u64> {
    text.strip_prefix(TITLE)?.trim_end_matches('\n').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_has_a_greater_number_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        let begin = |wall_s| Incarnation::begin(Some(folder.path().to_owned()), wall_s);
        assert_eq!(begin(5_000).number(), 5_000);
        assert_eq!(begin(1_400).number(), 5_001, "the clock was ahead");
        let mut again = begin(1_500);
        assert_eq!(again.number(), 5_002);
        again.next(1_400);
        assert_eq!((again.number(), begin(1_500).number()), (5_003, 5_004), "it was set back");
        assert_eq!(begin(9_000).number(), 9_000);
        assert_eq!(Incarnation::begin(None, 7).number(), 7);
    }

    #[test]
    fn a_file_that_is_none_is_left_alone_and_the_clock_tells() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        for damaged in [
            "",
            "evenkeel incarnation 2\n5\n",
            "evenkeel incarnation 1\n",
            "evenkeel incarnation 1\n-5\n",
        ] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(
                Incarnation::begin(Some(folder.path().to_owned()), 7).number(),
                7,
                "{damaged:?}"
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        }
    }

    #[test]
    fn the_format_stays() {
        let golden = "evenkeel incarnation 1\n1795900000\n";
        assert_eq!((render(1_795_900_000).as_str(), parse(golden)), (golden, Some(1_795_900_000)));
    }
}
