//! A pooled volume: one disk for the clients, as objects in a pool of Ceph.
//!
//! The volume is divided into objects. Each has two or three candidate names, which Ceph places on
//! different OSDs; the object lives under the one whose OSDs were emptier when it was first written
//! ([`evenkeel_core::place`]). What was chosen is kept in the pool, two bits for each object, so
//! that nobody ever has to look for one.
//!
//! ```text
//! pool    db.head                what the volume is like, and who uses it
//!         db.pages               which pages of the choices there are
//!         db.choices.00000000    the choices of the first 16,128 objects
//!         db.0000002a.1          object 42, under its second name
//! ```
//!
//! A page is made when the first of its objects is written: it is stored, and then listed in the
//! directory of pages. So a volume opens as quickly as what is written of it can be read.
//!
//! A choice is durable before the first byte of its object. So a crash leaves at worst a choice
//! without an object, which reads as zeroes like everything that nobody wrote, and an object always
//! has its choice.
//!
//! Copies, their recovery, and who is in the cluster are Ceph's business; names outlive all that.
//! Here is what is decided; the driver reads and writes objects. The format is told in
//! `docs/ceph.md`.

mod directory;
mod head;
mod volume;

pub use directory::{Directory, DirectoryError};
pub use head::{FORMER_MAX, HEAD_BYTES_MAX, Head, HeadError};
pub use volume::{Page, Place, Unplaced, Volume, load_page};

use std::ops::RangeInclusive;

/// Sizes that objects may have, in bytes; each is a power of two.
pub const OBJECT_BYTES: RangeInclusive<u64> = (64 << 10)..=(64 << 20);

/// Most objects of a volume: their numbers have eight digits in names.
pub const OBJECTS_MAX: u64 = evenkeel_core::place::choices::OBJECTS_MAX;

/// Longest name of a volume, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// What a volume is like; but for its size, for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of an object; a power of two within [`OBJECT_BYTES`].
    pub object_bytes: u64,
    /// Size of the volume; whole objects of it are made.
    pub size_bytes: u64,
    /// Names that are considered for each object, 2 to
    /// [`CANDIDATES_MAX`](evenkeel_core::place::CANDIDATES_MAX).
    pub candidates: usize,
}

impl Shape {
    /// Objects of the volume.
    pub fn objects(&self) -> u64 {
        self.size_bytes.div_ceil(self.object_bytes)
    }
}

/// Whether a volume can have this name: letters, digits, `-` and `_`.
pub fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

/// The name of the object that tells of a volume, and that its lock is on.
pub fn head_name(volume: &str) -> String {
    format!("{volume}.head")
}

/// The name of the object that says which pages of the choices there are.
pub fn directory_name(volume: &str) -> String {
    format!("{volume}.pages")
}

/// The name of the object with a page of the choices.
pub fn page_name(volume: &str, page: u32) -> String {
    format!("{volume}.choices.{page:08x}")
}

/// A candidate's name of an object.
pub fn object_name(volume: &str, object: u64, candidate: usize) -> String {
    format!("{volume}.{object:08x}.{candidate}")
}
