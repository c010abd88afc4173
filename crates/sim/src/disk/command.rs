//! What a drive is asked, and what it answers.

use std::sync::Arc;

/// A command's number: commands of one drive count from 0 in the order of their submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandId(pub u64);

/// A command to a drive. Offsets and lengths are multiples of [`super::SECTOR_BYTES`], except for
/// reads, which may be of any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Bytes from the drive.
    Read {
        /// First byte.
        offset: u64,
        /// How many bytes.
        length_bytes: u64,
    },
    /// Bytes to the drive.
    Write {
        /// First byte.
        offset: u64,
        /// What is to stand there.
        bytes: Arc<[u8]>,
        /// Force unit access: on the medium before the answer.
        fua: bool,
    },
    /// Zeroes to the drive.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// How many bytes.
        length_bytes: u64,
        /// Force unit access: on the medium before the answer.
        fua: bool,
    },
    /// The range is of no use any more. It reads as zeroes from then on; until the next flush a
    /// power cut may bring any of its blocks back.
    Discard {
        /// First byte.
        offset: u64,
        /// How many bytes.
        length_bytes: u64,
    },
    /// What was acknowledged before this was submitted goes to the medium.
    Flush,
    /// The sequential zone is empty from then on; until the next flush a power cut may bring all of
    /// it back.
    ResetZone {
        /// Its first byte.
        offset: u64,
        /// Its bytes.
        length_bytes: u64,
    },
    /// The sequential zone counts as full.
    FinishZone {
        /// Its first byte.
        offset: u64,
        /// Its bytes.
        length_bytes: u64,
    },
}

impl Command {
    /// The bytes that it touches: offset and length; an empty range for a flush.
    pub fn range(&self) -> (u64, u64) {
        match self {
            Self::Read { offset, length_bytes }
            | Self::WriteZeroes { offset, length_bytes, .. }
            | Self::Discard { offset, length_bytes }
            | Self::ResetZone { offset, length_bytes }
            | Self::FinishZone { offset, length_bytes } => (*offset, *length_bytes),
            Self::Write { offset, bytes, .. } => (*offset, bytes.len() as u64),
            Self::Flush => (0, 0),
        }
    }

    /// Whether it changes content.
    pub fn changes_content(&self) -> bool {
        matches!(
            self,
            Self::Write { .. }
                | Self::WriteZeroes { .. }
                | Self::Discard { .. }
                | Self::ResetZone { .. }
        )
    }

    /// Whether it moves the write pointer of a zone, if it goes to one.
    pub fn is_zone_change(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::ResetZone { .. } | Self::FinishZone { .. })
    }
}

/// Why a drive did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// An error without further ado: EIO.
    #[error("the drive reports an error")]
    Failed,
    /// The sector at this byte offset has gone bad.
    #[error("the sector at byte {offset} is unreadable")]
    Unreadable {
        /// The sector's first byte.
        offset: u64,
    },
    /// A drive with zones does not do this; the text says why.
    #[error("the drive refuses: {0}")]
    Refused(&'static str),
    /// There is no such drive at present.
    #[error("the drive is gone")]
    Gone,
}

/// What a command comes to: the bytes of a read, nothing for the others.
pub type Answer = Result<Vec<u8>, DiskError>;
