//! The key that all gates of an exchange have, and the tags that it makes: HMAC-SHA-256, of which
//! the first 16 bytes go along.
//!
//! A key file holds at least 32 bytes, as `head -c 32 /dev/urandom | base64` makes; blanks around
//! it do not count.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use evenkeel_wire::exchange::TAG_BYTES;
use ring::hmac;

/// What a key file may hold, in bytes.
const KEY_BYTES_MIN: usize = 32;
const KEY_BYTES_MAX: u64 = 4096;

/// A key. It shows nothing of itself.
pub(crate) struct Key(hmac::Key);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Reads a key file.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let at = |error: &dyn std::fmt::Display| {
            io::Error::other(format!("{}: {error}", path.display()))
        };
        let file = File::open(path).map_err(|error| at(&error))?;
        let mut bytes = Vec::new();
        file.take(KEY_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| at(&error))?;
        let secret = bytes.trim_ascii();
        if secret.len() < KEY_BYTES_MIN || bytes.len() as u64 > KEY_BYTES_MAX {
            let size = secret.len();
            return Err(at(&format!(
                "a key of {size} bytes; make one with `head -c 32 /dev/urandom | base64` and give \
                 it to all gates"
            )));
        }
        Ok(Self::new(secret))
    }

    fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The tag of a body.
    pub(super) fn tag(&self, body: &[u8]) -> [u8; TAG_BYTES] {
        let whole = hmac::sign(&self.0, body);
        *whole.as_ref().first_chunk().expect("a tag of SHA-256 has 32 bytes")
    }

    /// Whether the tag is this key's, in a time that does not tell how much of it is.
    pub(super) fn is_tag_of(&self, tag: &[u8; TAG_BYTES], body: &[u8]) -> bool {
        let bytes = self.tag(body).into_iter().zip(tag);
        let difference =
            bytes.fold(0, |sum, (own, other)| std::hint::black_box(sum | (own ^ other)));
        difference == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_the_head_of_the_published_function() {
        // RFC 4231, test case 2.
        let tag = Key::new(b"Jefe").tag(b"what do ya want for nothing?");
        assert_eq!(tag[..8], [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]);
    }

    #[test]
    fn another_key_body_or_tag_is_told_apart() {
        let (key, other) = (Key::new(&[1; 32]), Key::new(&[2; 32]));
        let mut tag = key.tag(b"body");
        assert!(key.is_tag_of(&tag, b"body"));
        assert!(!key.is_tag_of(&tag, b"bodY") && !other.is_tag_of(&tag, b"body"));
        tag[15] ^= 1;
        assert!(!key.is_tag_of(&tag, b"body"));
    }

    #[test]
    fn a_key_file_without_a_key_is_refused_with_the_way_to_make_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(Key::read(&path).is_err());
        std::fs::write(&path, "short\n").unwrap();
        let said = Key::read(&path).unwrap_err().to_string();
        assert!(said.contains("key: a key of 5 bytes") && said.contains("/dev/urandom"), "{said}");
        std::fs::write(&path, [b'k'; 44]).unwrap();
        assert!(Key::read(&path).is_ok());
    }
}
