//! Text from the wire on its way into a log or onto a terminal.

use std::fmt;

/// Shows bytes of a peer as printable ASCII, cut to a length that a log line can bear.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a [u8]);

/// Bytes of a peer's text that are shown.
const MAX_SHOWN_BYTES: usize = 256;

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(MAX_SHOWN_BYTES)];
        write!(f, "{}", shown.escape_ascii())?;
        if shown.len() < self.0.len() { f.write_str("...") } else { Ok(()) }
    }
}
