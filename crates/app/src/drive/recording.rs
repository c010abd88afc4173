//! Files with recordings of real drives: unpacked, bounded, and named in every error.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use evenkeel_sim::device::hdd::recording::{self, Measured};

use crate::exit::Exit;
use crate::trace::compression::{Compression, unpacked};

/// The most bytes of a recording, unpacked: enough for a million lines.
const BYTES_MAX: u64 = 128 << 20;

/// As many bytes tell whether a file is a recording at all.
const HEAD_BYTES: u64 = 4096;

/// The ending of recordings, before that of their compression.
const ENDING: &str = ".trace";

/// A recording, plain or packed with gzip or zstd.
///
/// # Errors
/// A file that cannot be read; one that is no recording, or too long ([`Exit::Invalid`]).
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Measured>> {
    let name = path.display();
    let bytes = start_of(path, BYTES_MAX + 1)?;
    let invalid = |problem: String| Exit::Invalid.because(format!("{name}: {problem}"));
    if bytes.len() as u64 > BYTES_MAX {
        return Err(invalid(format!("has more than {} MiB, unpacked; cut it", BYTES_MAX >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        invalid("is no recording of a drive, which is text; docs/drives.md shows one".to_owned())
    })?;
    recording::parse(&text).map_err(|error| invalid(format!("is no recording of a drive: {error}")))
}

/// Whether a file begins like a recording.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn begins_like_one(path: &Path) -> anyhow::Result<bool> {
    let head = start_of(path, HEAD_BYTES)?;
    let text = String::from_utf8_lossy(&head);
    Ok(text.lines().next().is_some_and(|line| recording::parse(line).is_ok()))
}

/// The name of a recording without its endings; none if a file is not named like one.
pub(crate) fn stem(path: &Path) -> Option<String> {
    let plain = Compression::plain_name(path);
    plain.strip_suffix(ENDING).map(str::to_owned)
}

fn start_of(path: &Path, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
    let context = || format!("cannot read the recording {}", path.display());
    let file = File::open(path).with_context(context)?;
    let mut bytes = Vec::new();
    unpacked(file)
        .and_then(|unpacked| unpacked.take(bytes_max).read_to_end(&mut bytes))
        .with_context(context)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    #[test]
    fn a_recording_reads_plain_and_packed() {
        let text = "R Hit 10 4 15362.0 56074.0\n";
        let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
        for (name, bytes) in [("a.trace", text.as_bytes()), ("a.trace.zst", &packed)] {
            let (_folder, path) = written(name, bytes);
            assert_eq!(read(&path).unwrap().len(), 1);
            assert!(begins_like_one(&path).unwrap());
            assert_eq!(stem(&path).as_deref(), Some("a"));
        }
        assert_eq!(stem(Path::new("a.model")), None);
    }

    #[test]
    fn a_file_that_unpacks_without_end_is_refused_in_bounded_memory() {
        let line = "R Hit 10 4 15362.0 56074.0\n".repeat(1 << 15);
        let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
        for _ in 0..BYTES_MAX / line.len() as u64 + 2 {
            std::io::Write::write_all(&mut packer, line.as_bytes()).unwrap();
        }
        let (_folder, path) = written("bomb.trace.zst", &packer.finish().unwrap());
        let error = read(&path).unwrap_err();
        assert!(error.to_string().ends_with("has more than 128 MiB, unpacked; cut it"), "{error}");
        assert_eq!(Exit::of(&error), Exit::Invalid);
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_name_and_what_is_right() {
        for (bytes, problem) in [
            (&b"\xff\xfe\x00"[..], "is no recording of a drive, which is text"),
            (b"0,1,2,3\n", "is no recording of a drive: line 1: fewer than six fields; a line has"),
            (b"", "is no recording of a drive: it has no request"),
        ] {
            let (_folder, path) = written("other.trace", bytes);
            let error = read(&path).unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
            assert!(error.to_string().contains("other.trace"), "{error}");
            assert_eq!(Exit::of(&error), Exit::Invalid);
            assert!(!begins_like_one(&path).unwrap());
        }
        let error = read(Path::new("/nowhere.trace")).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Runtime);
    }
}
