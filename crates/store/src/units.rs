//! The amounts and names that the store counts with, as types that cannot be mixed up.

use std::fmt;

/// Bytes of a block, the unit of everything: mapping, checksums, addresses, headers.
pub const BLOCK_BYTES: usize = 4096;

/// [`BLOCK_BYTES`] for sums of bytes on drives.
pub const BLOCK_BYTES_U64: u64 = BLOCK_BYTES as u64;

/// A random name of 16 bytes, given by whoever formats a store; the store draws nothing at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

/// Bits drawn at random for one mount by whoever opens the store, which draws nothing itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nonce(pub u64);

/// A mount of the store. Whatever is written says in which.
///
/// The count alone is not enough: a drive that loses the newest superblocks without a word brings
/// back the count of an earlier mount, and with it records that look as if they were of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// Counts the mounts, as far as the drives know.
    pub epoch: u64,
    /// Tells mounts with the same count apart.
    pub nonce: Nonce,
}

/// The number of a user record in the one history of the store, from 1 without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lsn(pub u64);

/// A place for one block in the log: its segment and the block within, as one number.
///
/// The log's address space is made of segments, not of drives: where the copies of a segment lie
/// is written in the segment table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u64);

/// A segment, as the index of its row in the segment table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentId(pub u32);

/// A drive of the store, as the index of its row in the superblock's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriveIndex(pub u8);

/// A volume: one linear space of blocks that clients see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeId(pub u32);

/// A room for one segment on one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The drive.
    pub drive: DriveIndex,
    /// Which of its rooms, from 0 at the start of the drive.
    pub slot: u32,
}

/// Where the copies of a segment lie; a missing copy is to be made again.
pub type Copies = [Option<Slot>; 2];

impl Lsn {
    /// The number that follows.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Address {
    /// The place so many blocks further on.
    #[must_use]
    pub fn plus(self, blocks: u64) -> Self {
        Self(self.0 + blocks)
    }
}

impl SegmentId {
    /// The segment as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl DriveIndex {
    /// The drive as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Uuid {
    /// In the usual groups of hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if [4, 6, 8, 10].contains(&index) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for DriveIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_prints_in_its_usual_groups() {
        let uuid = Uuid(std::array::from_fn(|index| u8::try_from(index).unwrap()));
        assert_eq!(uuid.to_string(), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
