//! Text from the wire on its way into a log or onto a terminal.

use std::fmt;
use std::fmt::Write as _;

/// Bytes of a peer's text that are shown.
const MAX_SHOWN_BYTES: usize = 256;

/// Shows bytes of a peer as printable ASCII, cut to a length that a log line can bear. Control
/// characters, quotes and everything beyond ASCII come out as escapes, so that no peer can forge a
/// log line or drive a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(MAX_SHOWN_BYTES)];
        for &byte in shown {
            // An apostrophe does no harm between the double quotes that enclose a peer's words.
            if byte == b'\'' {
                f.write_char('\'')?;
            } else {
                write!(f, "{}", byte.escape_ascii())?;
            }
        }
        if shown.len() < self.0.len() { f.write_str("...") } else { Ok(()) }
    }
}

/// The longest prefix of `text` of at most `max_bytes` that does not split a character.
pub(crate) fn truncated(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_log_line_stays_on_its_line() {
        let shown = Escaped(b"it's\n2026 INFO \"all well\" \x1b[2J\xff").to_string();
        assert_eq!(shown, r#"it's\n2026 INFO \"all well\" \x1b[2J\xff"#);
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let shown = Escaped(&[b'a'; 5000]).to_string();
        assert_eq!(shown.len(), MAX_SHOWN_BYTES + 3);
        assert!(shown.ends_with("a..."));
    }

    #[test]
    fn a_character_is_never_split() {
        assert_eq!(truncated("a\u{e9}", 2), "a");
        assert_eq!(truncated("a\u{e9}", 3), "a\u{e9}");
    }
}
