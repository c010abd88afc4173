//! The head of a pooled volume: a few lines of text, so that people can read it with `rados get`.
//!
//! ```text
//! evenkeel volume 1
//! object_bytes 4194304
//! size_bytes 1099511627776
//! candidates 2
//! owner 10.0.0.7:0/3187452 gate on host a    only while somebody uses it
//! ```

use std::fmt;
use std::fmt::Write as _;

use evenkeel_core::bytes::Bytes;
use evenkeel_core::place::CANDIDATES_MAX;

use super::{OBJECT_BYTES, OBJECTS_MAX, Shape};

/// The first line; the number is that of the format.
const FIRST: &str = "evenkeel volume 1";

/// What a head tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the volume is like.
    pub shape: Shape,
    /// The client of Ceph that uses it: the address under which OSDs know it, a blank, and what it
    /// calls itself.
    pub owner: Option<String>,
}

/// Why a head cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// It begins with something else.
    Foreign,
    /// It has another version of the format.
    Version(String),
    /// A line is missing, or has no sense.
    Damaged(&'static str),
    /// The policy wants another volume.
    Shape {
        /// What the volume is like.
        found: Shape,
    },
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "its head is none of ours; give the volume another name"),
            Self::Version(line) => {
                write!(f, "its head says {line:?}, which a newer evenkeel may know")
            }
            Self::Damaged(key) => write!(f, "its head has no proper `{key}`; restore it"),
            Self::Shape { found: Shape { object_bytes, size_bytes, candidates } } => write!(
                f,
                "it has {} in objects of {} with {candidates} candidates each; say so in the \
                 policy",
                Bytes(*size_bytes),
                Bytes(*object_bytes)
            ),
        }
    }
}

impl std::error::Error for HeadError {}

impl Head {
    /// Reads a head.
    ///
    /// # Errors
    /// [`HeadError`], but not `Shape`.
    pub fn parse(text: &[u8]) -> Result<Self, HeadError> {
        let text = std::str::from_utf8(text).map_err(|_| HeadError::Foreign)?;
        let mut lines = text.lines();
        match lines.next() {
            Some(FIRST) => {}
            Some(line) if line.starts_with("evenkeel volume ") => {
                return Err(HeadError::Version(line.chars().take(40).collect()));
            }
            _ => return Err(HeadError::Foreign),
        }
        let value = |key: &'static str| {
            let mut lines = lines.clone().filter_map(|line| line.split_once(' '));
            lines.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        let number = |key: &'static str| {
            let number = value(key).and_then(|value| value.parse::<u64>().ok());
            number.ok_or(HeadError::Damaged(key))
        };
        let shape = Shape {
            object_bytes: number("object_bytes")?,
            size_bytes: number("size_bytes")?,
            candidates: usize::try_from(number("candidates")?).unwrap_or(usize::MAX),
        };
        let Shape { object_bytes, size_bytes, candidates } = shape;
        if !object_bytes.is_power_of_two() || !OBJECT_BYTES.contains(&object_bytes) {
            return Err(HeadError::Damaged("object_bytes"));
        }
        if size_bytes == 0 || shape.objects() > OBJECTS_MAX {
            return Err(HeadError::Damaged("size_bytes"));
        }
        if !(2..=CANDIDATES_MAX).contains(&candidates) {
            return Err(HeadError::Damaged("candidates"));
        }
        Ok(Self { shape, owner: value("owner").map(str::to_owned) })
    }

    /// The head as text.
    pub fn to_text(&self) -> String {
        let Shape { object_bytes, size_bytes, candidates } = self.shape;
        let mut text = format!(
            "{FIRST}\nobject_bytes {object_bytes}\nsize_bytes {size_bytes}\n\
             candidates {candidates}\n"
        );
        if let Some(owner) = &self.owner {
            let _ = writeln!(text, "owner {owner}");
        }
        text
    }

    /// The address of whoever uses it.
    pub fn owner_address(&self) -> Option<&str> {
        self.owner.as_deref()?.split_whitespace().next()
    }

    /// Whether this is the volume that the policy wants.
    ///
    /// # Errors
    /// [`HeadError::Shape`].
    pub fn check(&self, wanted: &Shape) -> Result<(), HeadError> {
        if self.shape == *wanted { Ok(()) } else { Err(HeadError::Shape { found: self.shape }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { object_bytes: 4 << 20, size_bytes: 1 << 40, candidates: 2 };

    #[test]
    fn what_is_written_is_read_again() {
        for owner in [None, Some("10.0.0.7:0/31 gate on a".to_owned())] {
            let head = Head { shape: SHAPE, owner };
            assert_eq!(Head::parse(head.to_text().as_bytes()), Ok(head));
        }
    }

    #[test]
    fn whatever_else_is_there_is_refused_with_what_to_do() {
        let text = Head { shape: SHAPE, owner: None }.to_text();
        let refused = |text: &str| Head::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(refused("ID3").contains("another name"));
        assert!(refused(&text.replace("volume 1", "volume 2")).contains("newer evenkeel"));
        assert!(refused(&text.replace("4194304", "4194305")).contains("`object_bytes`"));
        assert!(refused(&text.replace("1099511627776", "0")).contains("`size_bytes`"));
        assert!(refused(&text.replace("candidates 2", "candidates 9")).contains("`candidates`"));
        assert_eq!(Head::parse(&[0xff, 0xfe]), Err(HeadError::Foreign));
        let head = Head::parse(text.as_bytes()).unwrap();
        let other = Shape { candidates: 3, ..SHAPE };
        assert!(head.check(&other).unwrap_err().to_string().contains("2 candidates"));
    }
}
