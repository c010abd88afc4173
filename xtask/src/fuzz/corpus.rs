//! The corpora of the fuzz targets: what was once found to reach code that noise does not.
//!
//! Each target has one file in the tree, `fuzz/corpora/NAME.txt`, with an input a line, the
//! shortest first. Bytes that are no printable ASCII stand as `\xNN`, a backslash as `\\`, a line
//! break as `\n`: a change can be reviewed, and git packs it well.
//!
//! ```text
//! fuzz/corpora/NAME.txt --unpack--> fuzz/target/seeds/NAME     read by every run
//!          ^                        fuzz/corpus/NAME           where a run puts what is new
//!          +------------pack------- fuzz/target/minimised/NAME both, without what adds nothing
//! ```
//!
//! Git ignores all but the first.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell;

/// Inputs of one target that the tree keeps at most.
const INPUTS_MAX: usize = 256;

/// Bytes of all inputs of one target that the tree keeps at most.
const BYTES_MAX: usize = 128 << 10;

/// The file in the tree.
pub(super) fn file(target: &str) -> PathBuf {
    shell::root().join("fuzz/corpora").join(format!("{target}.txt"))
}

/// The folder where runs of this machine put what is new.
pub(super) fn found(target: &str) -> Result<PathBuf> {
    let folder = shell::root().join("fuzz/corpus").join(target);
    std::fs::create_dir_all(&folder).with_context(|| cannot("make", &folder))?;
    Ok(folder)
}

/// An empty folder for a minimised corpus.
pub(super) fn minimised(target: &str) -> Result<PathBuf> {
    empty(&shell::root().join("fuzz/target/minimised").join(target))
}

/// A folder with the inputs of the tree, a file each.
///
/// # Errors
/// If the file cannot be read or is damaged, with the line.
pub(super) fn unpack(target: &str) -> Result<PathBuf> {
    let folder = empty(&shell::root().join("fuzz/target/seeds").join(target))?;
    let file = file(target);
    if !file.exists() {
        return Ok(folder);
    }
    let text = std::fs::read_to_string(&file).with_context(|| cannot("read", &file))?;
    for (index, line) in text.lines().enumerate() {
        let place = || format!("{}:{}", file.display(), index + 1);
        let input = unescape(line).with_context(place)?;
        let path = folder.join(format!("{index:04}"));
        std::fs::write(&path, input).with_context(|| cannot("write", &path))?;
    }
    Ok(folder)
}

/// Puts the inputs of a folder into the tree, the shortest first, up to the bounds; returns how
/// many.
pub(super) fn pack(target: &str, folder: &Path) -> Result<usize> {
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| cannot("read", folder))? {
        let path = entry.with_context(|| cannot("read", folder))?.path();
        inputs.push(std::fs::read(&path).with_context(|| cannot("read", &path))?);
    }
    let kept = within_bounds(inputs);
    let text: String = kept.iter().map(|input| escape(input) + "\n").collect();
    let file = file(target);
    std::fs::create_dir_all(file.parent().expect("it lies in a folder"))?;
    std::fs::write(&file, text).with_context(|| cannot("write", &file))?;
    Ok(kept.len())
}

/// The shortest inputs that fit, in a fixed order. The empty one is tried by every run anyway.
fn within_bounds(mut inputs: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    inputs.retain(|input| !input.is_empty());
    inputs.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    inputs.dedup();
    let mut bytes = 0;
    let fits = |input: &Vec<u8>| {
        bytes += input.len();
        bytes <= BYTES_MAX
    };
    inputs.into_iter().take(INPUTS_MAX).take_while(fits).collect()
}

fn escape(input: &[u8]) -> String {
    let mut line = String::with_capacity(input.len() * 2);
    for &byte in input {
        match byte {
            b'\\' => line.push_str("\\\\"),
            b'\n' => line.push_str("\\n"),
            b' '..=b'~' => line.push(char::from(byte)),
            _ => write!(line, "\\x{byte:02x}").expect("strings take everything"),
        }
    }
    line
}

fn unescape(line: &str) -> Result<Vec<u8>> {
    let mut input = Vec::with_capacity(line.len());
    let mut rest = line.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let (value, used) = match (byte, behind) {
            (b'\\', [b'\\', ..]) => (b'\\', 2),
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b'x', high, low, ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 4),
                _ => bail!("`\\x` without two hex digits; restore the line from git"),
            },
            (b'\\', _) => {
                bail!("a backslash before neither `\\`, `n` nor `x`; restore the line from git")
            }
            _ => (byte, 1),
        };
        input.push(value);
        rest = &rest[used..];
    }
    Ok(input)
}

fn digit(letter: u8) -> Option<u8> {
    char::from(letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn empty(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| cannot("empty", folder))?;
    }
    std::fs::create_dir_all(folder).with_context(|| cannot("make", folder))?;
    Ok(folder.to_path_buf())
}

fn cannot(what: &str, path: &Path) -> String {
    format!("cannot {what} {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back_from_its_line() {
        let all: Vec<u8> = (0..=255).collect();
        let line = escape(&all);
        assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
        assert_eq!(unescape(&line).unwrap(), all);
        assert_eq!(escape(b"a\\n\n\x00"), "a\\\\n\\n\\x00");
    }

    #[test]
    fn a_damaged_line_is_an_error() {
        for line in ["\\", "\\q", "\\x", "\\x1", "\\xg0"] {
            assert!(unescape(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_tree_keeps_the_shortest_inputs_within_its_bounds() {
        let inputs = vec![b"bb".to_vec(), b"a".to_vec(), Vec::new(), b"a".to_vec(), b"ab".to_vec()];
        assert_eq!(within_bounds(inputs), [b"a".to_vec(), b"ab".to_vec(), b"bb".to_vec()]);
        let many = (0..1000u16).map(|number| number.to_be_bytes().to_vec()).collect();
        assert_eq!(within_bounds(many).len(), INPUTS_MAX);
        let large = (0..9).map(|byte| vec![byte; BYTES_MAX / 4]).collect();
        assert_eq!(within_bounds(large).len(), 4);
    }

    /// What is in the tree belongs to a target, and is as `pack` writes it.
    #[test]
    fn the_corpora_of_the_tree_belong_to_targets_and_are_as_they_would_be_written() {
        let targets = super::super::targets().unwrap();
        for entry in std::fs::read_dir(file("any").parent().unwrap()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            assert!(targets.contains(&name), "{name} is no target; remove {}", path.display());
            let text = std::fs::read_to_string(&path).unwrap();
            let inputs = text.lines().map(|line| unescape(line).unwrap()).collect();
            let again: String =
                within_bounds(inputs).iter().map(|input| escape(input) + "\n").collect();
            assert!(again == text, "not as written: cargo xtask fuzz {name} --seconds 0 --keep");
        }
    }
}
