//! What a gate remembers of a volume in its own state folder: which one it has served by a name,
//! and how far that was. It tells where the members cannot: all of them are blank, or were put back
//! together.
//!
//! ```text
//! evenkeel volume 1
//! volume 0102030405060708090a0b0c0d0e0f10
//! opening 1112131415161718191a1b1c1d1e1f20 generation 5
//! moves 9
//! durable 299 0:17 63:7
//! ```
//!
//! `durable` is the count that every member has for certain, but for those that are named.

use std::fmt;

use super::mark::{Durable, LAGGARDS_MAX, Mark};
use super::owner::OwnerId;
use crate::notes::VolumeId;

/// What the text begins with; the number is the version of the format.
const TITLE: &str = "evenkeel volume 1";

/// Which volume a gate has served by a name, and how far that was; it is written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// The volume.
    pub volume: VolumeId,
    /// Generation and name of the last opening that had come to its end.
    pub(crate) generation: u64,
    pub(crate) by: OwnerId,
    /// What its owner said last.
    pub(crate) mark: Mark,
}

impl Witness {
    /// The same volume, later.
    #[must_use]
    pub fn at(self, mark: Mark) -> Self {
        Self { mark, ..self }
    }

    /// What a text says; none if it is damaged, or of another version.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.trim_end().lines();
        let mut line = |title: &str| lines.next()?.strip_prefix(title);
        line(TITLE).filter(|rest| rest.is_empty())?;
        let volume = VolumeId(id(line("volume ")?)?);
        let (by, generation) = line("opening ")?.split_once(" generation ")?;
        let (by, generation) = (OwnerId(id(by)?), generation.parse().ok()?);
        let noted = line("moves ")?.parse().ok()?;
        let mut counts = line("durable ")?.split(' ');
        let all = counts.next()?.parse().ok()?;
        let mut laggards = [None; LAGGARDS_MAX];
        for (index, one) in counts.enumerate() {
            let (number, count) = one.split_once(':')?;
            *laggards.get_mut(index)? = Some((number.parse().ok()?, count.parse().ok()?));
        }
        let durable = Durable { all, laggards };
        lines.next().is_none().then_some(())?;
        Some(Self { volume, generation, by, mark: Mark { noted, count: 0, durable } })
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { volume, generation, by, mark } = self;
        let by = VolumeId(by.0);
        writeln!(f, "{TITLE}\nvolume {volume}\nopening {by} generation {generation}")?;
        write!(f, "moves {}\ndurable {}", mark.noted, mark.durable.all)?;
        for (number, count) in mark.durable.laggards.iter().flatten() {
            write!(f, " {number}:{count}")?;
        }
        writeln!(f)
    }
}

fn id(digits: &str) -> Option<[u8; 16]> {
    let is_plain = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_plain.then(|| u128::from_str_radix(digits, 16).ok())??;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = "evenkeel volume 1\n\
        volume 0102030405060708090a0b0c0d0e0f10\n\
        opening 1112131415161718191a1b1c1d1e1f20 generation 5\n\
        moves 9\n\
        durable 299 0:17 63:7\n";

    #[test]
    fn what_is_remembered_is_written_as_documented() {
        let bytes = |first: u8| std::array::from_fn(|at| first + u8::try_from(at).unwrap());
        let durable = Durable { all: 299, laggards: [Some((0, 17)), Some((63, 7)), None, None] };
        let witness = Witness {
            volume: VolumeId(bytes(1)),
            generation: 5,
            by: OwnerId(bytes(0x11)),
            mark: Mark { noted: 9, count: 0, durable },
        };
        assert_eq!(witness.to_string(), GOLDEN);
        assert_eq!(Witness::parse(GOLDEN), Some(witness));
        let padded = format!("{GOLDEN}{}", "\n".repeat(300));
        assert_eq!(Witness::parse(&padded), Some(witness), "it is filled up with line feeds");
    }

    #[test]
    fn damage_and_other_versions_are_known_as_such() {
        for (from, to) in [
            ("volume 1", "volume 2"),
            ("volume 01", "volume 0x"),
            ("volume 0102", "volume 02"),
            ("generation 5", "generation -5"),
            ("63:7", "63"),
            (" 0:17", " 1:1 2:1 3:1 4:1"),
            ("moves 9\n", ""),
        ] {
            assert_eq!(Witness::parse(&GOLDEN.replace(from, to)), None, "{from}");
        }
        assert_eq!(Witness::parse(""), None);
        assert_eq!(Witness::parse(&format!("{GOLDEN}more")), None);
    }
}
