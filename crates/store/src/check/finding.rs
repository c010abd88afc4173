//! What a check found: where, how bad it is, and what to do about it.

use std::fmt;

use crate::units::{DriveIndex, SegmentId, Slot};

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub place: Place,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The store puts it right by itself the next time it is open.
    Note,
    /// Everything can be read, but there is less to fall back on than there should be.
    Warning,
    /// Data cannot be read, or the store cannot be opened.
    Error,
}

/// Where a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The store as a whole.
    Store,
    /// A drive, by its place among those given, from 0.
    Given(usize),
    /// One of the four places of a superblock.
    Superblock {
        /// The drive's place among those given.
        position: usize,
        /// Its slot: 0 (A) or 1 (B).
        slot: u8,
        /// Whether it is the one at the end of the drive.
        is_at_end: bool,
    },
    /// A drive of the store.
    Drive(DriveIndex),
    /// A chunk of the newest checkpoint.
    Chunk {
        /// The drive.
        drive: DriveIndex,
        /// The chunk, from 0.
        index: u32,
    },
    /// A segment.
    Segment(SegmentId),
    /// A block of a copy of a segment.
    Block {
        /// The segment.
        segment: SegmentId,
        /// The copy.
        slot: Slot,
        /// The block within the segment.
        block: u64,
    },
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Store => f.write_str("store"),
            Self::Given(position) => write!(f, "drive {position} of those given"),
            Self::Superblock { position, slot, is_at_end } => {
                let name = if slot == 0 { "A" } else { "B" };
                let end = if is_at_end { "end" } else { "start" };
                write!(f, "drive {position} of those given, superblock {name} at the {end}")
            }
            Self::Drive(drive) => write!(f, "drive {drive}"),
            Self::Chunk { drive, index } => write!(f, "drive {drive}, checkpoint chunk {index}"),
            Self::Segment(segment) => write!(f, "segment {}", segment.0),
            Self::Block { segment, slot, block } => write!(
                f,
                "segment {}, drive {} slot {} block {block}",
                segment.0, slot.drive, slot.slot
            ),
        }
    }
}
