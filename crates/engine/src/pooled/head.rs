//! The head of a pooled volume: a few lines of text, so that people can read it with `rados get`.
//!
//! ```text
//! evenkeel volume 3
//! object_bytes 4194304
//! size_bytes 1099511627776
//! candidates 2
//! owner 10.0.0.7:0/3187452 gate on host a    only while somebody uses it
//! former 10.0.0.9:0/88120                    each that did not let go; refused by the OSDs
//! ```
//!
//! A former owner may be asleep, with requests on their way that it does not know of itself, and
//! nobody can tell for how long. So its address outlives whoever took over from it, and every owner
//! sees to it that the OSDs go on refusing it.
//!
//! Version 1 knew of no former owners. Before version 3 there was no directory of the pages of
//! choices: all of them were made with the volume. Heads of both are read, and written as version 3
//! once there is a directory; no older program reads that, for it would make pages that are not
//! listed.

use std::fmt;
use std::fmt::Write as _;

use evenkeel_core::bytes::Bytes;
use evenkeel_core::place::CANDIDATES_MAX;

use super::{OBJECT_BYTES, OBJECTS_MAX, Shape};

/// The first line; the number is that of the format.
const FIRST: &str = "evenkeel volume 1";
const WITH_FORMER: &str = "evenkeel volume 2";
const WITH_DIRECTORY: &str = "evenkeel volume 3";

/// Most former owners that a head tells of.
pub const FORMER_MAX: usize = 32;

/// Longest head, in bytes.
pub const HEAD_BYTES_MAX: usize = 8192;

/// What a head tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the volume is like.
    pub shape: Shape,
    /// The client of Ceph that uses it: the address under which OSDs know it, a blank, and what it
    /// calls itself.
    pub owner: Option<String>,
    /// The addresses of those who had it and did not let go, the first one first.
    pub former: Vec<String>,
    /// Whether the pages of its choices are listed.
    pub has_directory: bool,
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
        let has_directory = text.lines().next() == Some(WITH_DIRECTORY);
        let mut lines = text.lines();
        match lines.next() {
            Some(FIRST | WITH_FORMER | WITH_DIRECTORY) => {}
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
        let former = lines.clone().filter_map(|line| line.strip_prefix("former "));
        let former: Vec<String> = former.map(|address| address.trim().to_owned()).collect();
        if former.len() > FORMER_MAX || former.iter().any(String::is_empty) {
            return Err(HeadError::Damaged("former"));
        }
        Ok(Self { shape, owner: value("owner").map(str::to_owned), former, has_directory })
    }

    /// The head as text.
    pub fn to_text(&self) -> String {
        let Shape { object_bytes, size_bytes, candidates } = self.shape;
        let first = match (self.has_directory, self.former.is_empty()) {
            (true, _) => WITH_DIRECTORY,
            (false, true) => FIRST,
            (false, false) => WITH_FORMER,
        };
        let mut text = format!(
            "{first}\nobject_bytes {object_bytes}\nsize_bytes {size_bytes}\n\
             candidates {candidates}\n"
        );
        if let Some(owner) = &self.owner {
            let _ = writeln!(text, "owner {owner}");
        }
        for address in &self.former {
            let _ = writeln!(text, "former {address}");
        }
        text
    }

    /// The head of a volume once `owner` has it, after what was found: none if it is new, and then
    /// of this shape. Whoever had it and did not let go is a former owner from then on. Returns
    /// besides the address of the oldest, if there are more than a head tells of: the OSDs must
    /// refuse that one for good.
    pub fn taken(found: Option<Self>, shape: Shape, owner: &str) -> (Self, Option<String>) {
        let before = found.as_ref().and_then(Self::owner_address).map(str::to_owned);
        let ours = address_of(owner);
        let shape = found.as_ref().map_or(shape, |head| head.shape);
        let has_directory = found.as_ref().is_none_or(|head| head.has_directory);
        let mut former: Vec<String> = found.map(|head| head.former).unwrap_or_default();
        if let Some(before) = before
            && !former.contains(&before)
        {
            former.push(before);
        }
        former.retain(|address| Some(address.as_str()) != ours);
        let oldest = (former.len() > FORMER_MAX).then(|| former.remove(0));
        (Self { shape, owner: Some(owner.to_owned()), former, has_directory }, oldest)
    }

    /// The address of whoever uses it.
    pub fn owner_address(&self) -> Option<&str> {
        address_of(self.owner.as_deref()?)
    }

    /// Whether this is the volume that the policy wants. Its size is another matter: it grows, and
    /// shrinks at the operator's word alone.
    ///
    /// # Errors
    /// [`HeadError::Shape`].
    pub fn check(&self, wanted: &Shape) -> Result<(), HeadError> {
        let found = self.shape;
        let is_it = Shape { size_bytes: wanted.size_bytes, ..found } == *wanted;
        if is_it { Ok(()) } else { Err(HeadError::Shape { found }) }
    }
}

/// The address in an owner's line, as the cluster lists those that it refuses: without the kind of
/// protocol in front (`v1:`), which is all one to it.
fn address_of(owner: &str) -> Option<&str> {
    let address = owner.split_whitespace().next()?;
    let kinds = ["v1:", "v2:", "any:"];
    Some(kinds.iter().find_map(|kind| address.strip_prefix(kind)).unwrap_or(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { object_bytes: 4 << 20, size_bytes: 1 << 40, candidates: 2 };

    /// As programs wrote it before there were former owners.
    const VERSION_1: &str = "evenkeel volume 1\nobject_bytes 4194304\n\
        size_bytes 1099511627776\ncandidates 2\nowner 10.0.0.7:0/31 gate on a\n";
    const VERSION_2: &str = "evenkeel volume 2\nobject_bytes 4194304\n\
        size_bytes 1099511627776\ncandidates 2\nowner 10.0.0.8:0/32 gate on b\n\
        former 10.0.0.7:0/31\n";

    /// As they are written now.
    const VERSION_3: &str = "evenkeel volume 3\nobject_bytes 4194304\n\
        size_bytes 1099511627776\ncandidates 2\nowner 10.0.0.8:0/32 gate on b\n\
        former 10.0.0.7:0/31\n";

    fn head(owner: Option<&str>, former: &[&str]) -> Head {
        let former = former.iter().map(|&address| address.to_owned()).collect();
        Head { shape: SHAPE, owner: owner.map(str::to_owned), former, has_directory: true }
    }

    #[test]
    fn what_is_written_is_read_again_in_its_version() {
        let first = Head { has_directory: false, ..head(Some("10.0.0.7:0/31 gate on a"), &[]) };
        let third = head(Some("10.0.0.8:0/32 gate on b"), &["10.0.0.7:0/31"]);
        let second = Head { has_directory: false, ..third.clone() };
        for (head, text) in [(first, VERSION_1), (second, VERSION_2), (third, VERSION_3)] {
            assert_eq!(head.to_text(), text);
            assert_eq!(Head::parse(text.as_bytes()), Ok(head));
        }
        let let_go = head(None, &["10.0.0.7:0/31"]);
        assert_eq!(Head::parse(let_go.to_text().as_bytes()), Ok(let_go));
        let longest = "former [2001:0db8:2001:0db8:2001:0db8:2001:0db8]:65535/4294967295\n";
        let full = VERSION_1.to_owned() + &longest.repeat(FORMER_MAX);
        assert!(full.len() < HEAD_BYTES_MAX / 2 && Head::parse(full.as_bytes()).is_ok());
    }

    #[test]
    fn whoever_did_not_let_go_is_a_former_owner_whoever_comes_next() {
        let taken = |found, owner| Head::taken(found, SHAPE, owner).0;
        let a = taken(None, "v1:a:0/1 gate");
        assert_eq!(a, head(Some("v1:a:0/1 gate"), &[]));
        assert_eq!(taken(Some(a.clone()), "v1:a:0/1 gate"), a, "an attempt that was cut short");
        let b = taken(Some(a), "b:0/2 gate");
        assert_eq!(b, head(Some("b:0/2 gate"), &["a:0/1"]));
        let let_go = Head { owner: None, ..b.clone() };
        assert_eq!(taken(Some(let_go), "c:0/3 gate").former, ["a:0/1"], "b let go, a never did");
        assert_eq!(taken(Some(b.clone()), "c:0/3 gate").former, ["a:0/1", "b:0/2"]);
        let older =
            Head { has_directory: false, shape: Shape { size_bytes: 1 << 41, ..SHAPE }, ..b };
        let taken = taken(Some(older.clone()), "c:0/3 gate");
        assert_eq!((taken.has_directory, taken.shape), (false, older.shape), "it is what it is");
    }

    #[test]
    fn the_oldest_of_too_many_is_told_to_whoever_takes_over() {
        let mut found = None;
        for owner in 0..=FORMER_MAX {
            let (head, oldest) = Head::taken(found, SHAPE, &format!("a:0/{owner} gate"));
            assert_eq!(oldest, None);
            found = Some(head);
        }
        let (head, oldest) = Head::taken(found, SHAPE, "b:0/1 gate");
        assert_eq!((oldest.as_deref(), head.former.len()), (Some("a:0/0"), FORMER_MAX));
        assert!(Head::parse(head.to_text().as_bytes()).is_ok());
    }

    #[test]
    fn whatever_else_is_there_is_refused_with_what_to_do() {
        let text = head(None, &[]).to_text();
        let refused = |text: &str| Head::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(refused("ID3").contains("another name"));
        assert!(refused(&text.replace("volume 3", "volume 4")).contains("newer evenkeel"));
        assert!(refused(&text.replace("4194304", "4194305")).contains("`object_bytes`"));
        assert!(refused(&text.replace("1099511627776", "0")).contains("`size_bytes`"));
        assert!(refused(&text.replace("candidates 2", "candidates 9")).contains("`candidates`"));
        assert!(refused(&(text.clone() + "former \n")).contains("`former`"));
        assert_eq!(Head::parse(&[0xff, 0xfe]), Err(HeadError::Foreign));
        let head = Head::parse(text.as_bytes()).unwrap();
        let other = Shape { candidates: 3, ..SHAPE };
        assert!(head.check(&other).unwrap_err().to_string().contains("2 candidates"));
        assert_eq!(head.check(&Shape { size_bytes: 1, ..SHAPE }), Ok(()));
    }
}
