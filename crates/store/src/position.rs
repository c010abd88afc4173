//! How far a store was, as whoever opens it remembers outside its drives.
//!
//! That all of its drives are older images of themselves, or acknowledged a flush and lost it, no
//! drive can say. A gate keeps the last position of each of its stores in its own folder:
//!
//! ```text
//! evenkeel store 1
//! store 00112233-4455-6677-8899-aabbccddeeff
//! mount 12 0123456789abcdef
//! durable 4711
//! ```
//!
//! A store that is found at an earlier position is refused. It may well be further.

use std::fmt;

use crate::units::{Lsn, Mount, Nonce, Uuid};

const TITLE: &str = "evenkeel store 1";

/// How far a store was, for whoever opens it to remember outside its drives. Its text is a file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Of which store.
    pub store: Uuid,
    /// The mount.
    pub mount: Mount,
    /// All records up to this one were durable in it.
    pub durable: Lsn,
}

impl Position {
    /// Reads what [`Display`](fmt::Display) has written, and whatever white space is behind it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.trim_end().lines();
        if lines.next() != Some(TITLE) {
            return None;
        }
        let mut field = |name| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let store = parse_uuid(field("store")?)?;
        let (epoch, nonce) = field("mount")?.split_once(' ')?;
        let nonce = Nonce(u64::from_str_radix(nonce, 16).ok()?);
        let mount = Mount { epoch: epoch.parse().ok()?, nonce };
        let durable = Lsn(field("durable")?.parse().ok()?);
        lines.next().is_none().then_some(Self { store, mount, durable })
    }

    /// Whether a store that is here has lost what was durable at an earlier look.
    pub(crate) fn lacks(&self, known: &Self) -> bool {
        if self.store != known.store {
            return false;
        }
        let is_same_mount = self.mount == known.mount;
        let is_earlier = self.mount.epoch < known.mount.epoch;
        // The same count with another nonce: an older image was opened elsewhere.
        let is_other = self.mount.epoch == known.mount.epoch && !is_same_mount;
        is_earlier || is_other || is_same_mount && self.durable < known.durable
    }
}

fn parse_uuid(text: &str) -> Option<Uuid> {
    let digits: String = text.chars().filter(|&it| it != '-').collect();
    let uuid = Uuid(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes());
    (uuid.to_string() == text).then_some(uuid)
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, mount, durable } = self;
        writeln!(f, "{TITLE}\nstore {store}")?;
        writeln!(f, "mount {} {:016x}\ndurable {durable}", mount.epoch, mount.nonce.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = "evenkeel store 1\n\
        store 00112233-4455-6677-8899-aabbccddeeff\n\
        mount 12 0123456789abcdef\n\
        durable 4711\n";

    fn position() -> Position {
        let store = parse_uuid("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        let mount = Mount { epoch: 12, nonce: Nonce(0x0123_4567_89ab_cdef) };
        Position { store, mount, durable: Lsn(4711) }
    }

    #[test]
    fn the_text_stays_as_it_is() {
        assert_eq!(position().to_string(), GOLDEN);
        assert_eq!(Position::parse(&format!("{GOLDEN}\n\n")), Some(position()));
    }

    #[test]
    fn damage_is_no_position() {
        let cut = (0..GOLDEN.len() - 5).map(|end| GOLDEN[..end].to_owned());
        let more = GOLDEN.to_owned() + "and more\n";
        let newer = GOLDEN.replace("store 1", "store 2");
        for text in cut.chain([more, newer]) {
            assert_eq!(Position::parse(&text), None, "{text:?}");
        }
    }

    #[test]
    fn a_position_lacks_what_is_behind_it_or_of_another_history() {
        let known = position();
        let at = |epoch, nonce, durable| {
            let mount = Mount { epoch, nonce: Nonce(nonce) };
            Position { mount, durable: Lsn(durable), ..known }
        };
        let nonce = known.mount.nonce.0;
        assert!(!known.lacks(&known) && !at(12, nonce, 5000).lacks(&known));
        assert!(!at(13, 5, 1).lacks(&known), "opened since");
        assert!(at(12, nonce, 4710).lacks(&known));
        assert!(at(12, 5, 5000).lacks(&known));
        assert!(at(11, 5, 5000).lacks(&known));
        let other = Position { store: Uuid([1; 16]), ..at(1, 1, 1) };
        assert!(!other.lacks(&known), "another store");
    }
}
