//! Compression of trace files: told by the first bytes when reading, by the name when writing.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// What is read from the disk at once.
const READ_BYTES: usize = 256 << 10;

/// How hard zstd tries: its own customary level.
const ZSTD_LEVEL: i32 = 3;

/// How the bytes of a file are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// As they are.
    None,
    /// gzip, of several members perhaps.
    Gzip,
    /// Zstandard, of several frames perhaps.
    Zstd,
}

impl Compression {
    /// What the first bytes of a file show.
    pub(crate) fn of_bytes(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    /// What a file's name asks for.
    pub(crate) fn of_name(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst" | "zstd") => Self::Zstd,
            _ => Self::None,
        }
    }

    /// The name without what it says of compression.
    pub(crate) fn plain_name(path: &Path) -> String {
        let name =
            if Self::of_name(path) == Self::None { path.file_name() } else { path.file_stem() };
        name.unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The unpacked bytes of `input`, whatever it is packed with.
///
/// # Errors
/// If the first bytes cannot be read.
pub(crate) fn unpacked(mut input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::new();
    // A pipe may give fewer bytes at once than a magic number has.
    input.by_ref().take(4).read_to_end(&mut head)?;
    let compression = Compression::of_bytes(&head);
    let whole = io::Cursor::new(head).chain(input);
    Ok(match compression {
        Compression::None => Box::new(whole),
        Compression::Gzip => {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(READ_BYTES, whole)))
        }
        Compression::Zstd => Box::new(zstd::Decoder::new(whole)?),
    })
}

/// Packs what is written to it into a file, in parts of which each can be read without the next: a
/// member of gzip, a frame of Zstandard.
pub(crate) struct Packer {
    compression: Compression,
    /// None only while one part is completed and the next begun, or once that has failed.
    part: Option<Part>,
}

/// The part under way.
enum Part {
    None(File),
    Gzip(GzEncoder<File>),
    Zstd(zstd::Encoder<'static, File>),
}

impl Packer {
    /// Packs into `file`.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn new(file: File, compression: Compression) -> io::Result<Self> {
        Ok(Self { compression, part: Some(Part::new(file, compression)?) })
    }

    /// Completes the part that was written, so that it can be read whatever comes behind it.
    ///
    /// # Errors
    /// If it cannot be written; nothing can be written any more then.
    pub(crate) fn end_part(&mut self) -> io::Result<()> {
        let file = self.part.take().ok_or_else(broken)?.finish()?;
        self.part = Some(Part::new(file, self.compression)?);
        Ok(())
    }

    /// Completes what was written.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.part.ok_or_else(broken)?.finish().map(drop)
    }
}

fn broken() -> io::Error {
    io::Error::other("an earlier part could not be written")
}

impl Part {
    fn new(file: File, compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::None(file),
            Compression::Gzip => Self::Gzip(GzEncoder::new(file, flate2::Compression::default())),
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(file, ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
        })
    }

    fn finish(self) -> io::Result<File> {
        let mut file = match self {
            Self::None(file) => file,
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Zstd(encoder) => encoder.finish()?,
        };
        file.flush()?;
        Ok(file)
    }
}

impl Write for Packer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.part.as_mut().ok_or_else(broken)? {
            Part::None(file) => file.write(bytes),
            Part::Gzip(encoder) => encoder.write(bytes),
            Part::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.part.as_mut().ok_or_else(broken)? {
            Part::None(file) => file.flush(),
            Part::Gzip(encoder) => encoder.flush(),
            Part::Zstd(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_unpacks_in_several_parts_too() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["plain.csv", "a.csv.gz", "a.csv.zst"] {
            let path = folder.path().join(name);
            for part in ["first ", "second"] {
                let file = File::options().append(true).create(true).open(&path).unwrap();
                let mut packer = Packer::new(file, Compression::of_name(&path)).unwrap();
                packer.write_all(part.as_bytes()).unwrap();
                packer.finish().unwrap();
            }
            let mut text = String::new();
            unpacked(File::open(&path).unwrap()).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "first second", "{name}");
        }
    }

    #[test]
    fn what_was_ended_is_read_whatever_is_missing_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["plain.csv", "a.csv.gz", "a.csv.zst"] {
            let path = folder.path().join(name);
            let file = File::create(&path).unwrap();
            let mut packer = Packer::new(file, Compression::of_name(&path)).unwrap();
            packer.write_all(b"first ").unwrap();
            packer.end_part().unwrap();
            let ended = std::fs::read(&path).unwrap();
            packer.write_all(b"second").unwrap();
            drop(packer);
            let mut text = String::new();
            unpacked(io::Cursor::new(ended)).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "first ", "{name}");
        }
    }

    #[test]
    fn fewer_bytes_than_a_magic_number_are_plain() {
        for bytes in [&b""[..], b"\x1f", b"abc"] {
            let mut read = Vec::new();
            unpacked(io::Cursor::new(bytes)).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, bytes);
        }
    }

    #[test]
    fn names_tell_compression_and_what_is_inside() {
        let of = |name: &str| {
            (Compression::of_name(Path::new(name)), Compression::plain_name(Path::new(name)))
        };
        assert_eq!(of("x/web.csv.gz"), (Compression::Gzip, "web.csv".to_owned()));
        assert_eq!(of("web.spc.zst"), (Compression::Zstd, "web.spc".to_owned()));
        assert_eq!(of("web.csv"), (Compression::None, "web.csv".to_owned()));
    }
}
