//! What can go wrong, by who can do something about it.

use std::fmt;

use evenkeel_core::bytes::Bytes;
use evenkeel_core::date;

use crate::cache::CacheError;
use crate::drive::DriveError;
use crate::format::record::Extent;
use crate::format::superblock::Superblock;
use crate::format::{Defect, VERSION};
use crate::position::Position;
use crate::units::{DriveIndex, Lsn, Uuid, VolumeId};

/// Why a request to a running store failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// There is no such volume.
    UnknownVolume(VolumeId),
    /// The range does not lie within the volume, whose size this is.
    OutOfRange {
        /// Bytes of the volume.
        size_bytes: u64,
    },
    /// It is a snapshot, and snapshots never change.
    ReadOnly(VolumeId),
    /// It is no snapshot, or none of a relative of the volume.
    NotASnapshot(VolumeId),
    /// The size is not of whole blocks, or more than a volume can have.
    VolumeSize,
    /// The volume would become smaller and lose data, which was not asked for.
    WouldShrink {
        /// Bytes that it has now.
        size_bytes: u64,
    },
    /// There is no room for this beside what is promised to provisioned volumes.
    NoRoom {
        /// Bytes that it takes.
        wanted_bytes: u64,
        /// Bytes that are left.
        free_bytes: u64,
    },
    /// The maps of all volumes and snapshots differ in too much to fit a checkpoint.
    MapFull,
    /// There are as many volumes and snapshots as there can be.
    TooManyVolumes,
    /// No copy of this block can be read; others can.
    Unreadable {
        /// The volume.
        volume: VolumeId,
        /// The block within it.
        block: u64,
    },
    /// The store has stopped: it could not keep what it promises. Opening it anew recovers what is
    /// on the drives.
    Halted(Halt),
}

/// Why a store stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// This drive failed, and there is none left to take its place.
    Drive(DriveIndex, DriveError),
    /// The store was closed.
    Closed,
}

/// Why drives cannot be opened as a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// This one of the given drives is not part of a store, or its superblocks are damaged.
    NotAMember {
        /// Its place among the drives given.
        position: usize,
        /// What is wrong with its superblocks.
        defect: Defect,
    },
    /// No drive was given.
    NoDrive,
    /// Two of the given drives belong to different stores.
    Foreign {
        /// The place of the second.
        position: usize,
        /// The store that it belongs to.
        store: Uuid,
        /// The store of the first drive.
        expected: Uuid,
    },
    /// This drive was part of the store until another one took its place.
    Replaced {
        /// Its place among the drives given.
        position: usize,
    },
    /// The new drive cannot take the place of the lost one.
    Replacement(ReplacementError),
    /// The same drive was given twice.
    Duplicate {
        /// The place of the second.
        position: usize,
    },
    /// Drives that have data that the others lack are not there.
    Missing(Vec<DriveIndex>),
    /// Too few drives are there for a whole copy of the data.
    Insufficient(Vec<DriveIndex>),
    /// A drive cannot be read at all.
    Unreadable {
        /// Its place among the drives given.
        position: usize,
        /// What it says.
        error: DriveError,
    },
    /// The drive is smaller than when it was formatted.
    Shrunk {
        /// Its place among the drives given.
        position: usize,
    },
    /// The drive's zones are not those that it had when it was formatted.
    Zones {
        /// Its place among the drives given.
        position: usize,
    },
    /// These two drives went on without each other, and each may have what the other lacks.
    Split([Side; 2]),
    /// A drive is an older image of itself, and nothing that it lacks has another copy. What it
    /// says of itself, and what the others say of the store.
    RolledBack([Side; 2]),
    /// All that is here is older than what is remembered of the store; see
    /// [`OpenOptions::known`](crate::OpenOptions::known).
    Older {
        /// How far it is.
        found: Position,
        /// How far it was.
        known: Position,
    },
    /// No drive has the newest checkpoint whole.
    Checkpoint(Defect),
    /// Records are damaged, and others behind them say that they were durable.
    Damaged(Box<Damage>),
    /// Recovery found records that contradict the checkpoint.
    Inconsistent(&'static str),
    /// A drive failed while the store was opened.
    Drive(DriveIndex, DriveError),
    /// The store is well, but cannot have the cache that it was asked to have.
    Cache(CacheError),
}

impl OpenError {
    /// Which of the drives given it is about, if it is about one.
    pub fn position(&self) -> Option<usize> {
        match *self {
            Self::NotAMember { position, .. }
            | Self::Foreign { position, .. }
            | Self::Replaced { position }
            | Self::Duplicate { position }
            | Self::Unreadable { position, .. }
            | Self::Zones { position }
            | Self::Shrunk { position }
            | Self::RolledBack([Side { position, .. }, _])
            | Self::Split([_, Side { position, .. }]) => Some(position),
            _ => None,
        }
    }
}

/// Durable records that are missing in the midst of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first of them.
    pub missing: Lsn,
    /// The last record that is known to have been durable.
    pub durable: Lsn,
    /// The drive with the damage, or one of a pair, where the place is known.
    pub drive: Option<DriveIndex>,
    /// Records behind it that are there.
    pub whole: u64,
    /// What these change. What the damaged ones changed, nobody knows.
    pub extents: Vec<Extent>,
}

/// How far a drive is, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Its place among the drives given.
    pub position: usize,
    /// Its place in the store.
    pub drive: DriveIndex,
    /// The last mount that it knows of.
    pub epoch: u64,
    /// The last checkpoint that it knows of.
    pub checkpoint: u64,
    /// When it was written last, in seconds since 1970; 0 if nobody knew.
    pub unix_time_s: u64,
}

impl Side {
    pub(crate) fn of(position: usize, superblock: &Superblock) -> Self {
        Self {
            position,
            drive: superblock.drive,
            epoch: superblock.mount.epoch,
            checkpoint: superblock.checkpoint.number,
            unix_time_s: superblock.unix_time_s,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mount {}, checkpoint {}", self.epoch, self.checkpoint)?;
        match self.unix_time_s {
            0 => Ok(()),
            seconds => write!(f, " of {}", date::utc(seconds)),
        }
    }
}

/// Why a drive cannot take the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacementError {
    /// The drive that is to be replaced is among those given.
    Occupied {
        /// Its place among the drives given.
        position: usize,
    },
    /// The store has no such drive to replace.
    UnknownDrive {
        /// The drive that was named.
        drive: DriveIndex,
        /// How many it has.
        drives: usize,
    },
    /// The new drive is smaller than the store needs in its place.
    TooSmall {
        /// Bytes that it must have at least.
        needed_bytes: u64,
    },
    /// The zones of the new drive do not suit the store.
    Zones(ZoneProblem),
    /// The new drive is a drive of this very store.
    InUse {
        /// Which of them.
        drive: DriveIndex,
    },
}

/// Why drives cannot become a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// An option is out of its range; the text says which and what is possible.
    Option(&'static str),
    /// The volumes need more room than the drives have.
    TooSmall {
        /// Bytes of all volumes.
        wanted_bytes: u64,
        /// Bytes that these drives can promise.
        possible_bytes: u64,
    },
    /// The zones of a drive do not suit a store.
    Zones(DriveIndex, ZoneProblem),
    /// A drive failed.
    Drive(DriveIndex, DriveError),
}

/// Why a drive with zones cannot be one of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneProblem {
    /// The conventional zones that it begins with are too small, or there are none.
    Conventional {
        /// Bytes that superblocks and checkpoints take.
        needed_bytes: u64,
        /// Bytes of the conventional zones.
        have_bytes: u64,
    },
    /// A segment does not fit a zone, which can hold so many bytes.
    Capacity {
        /// Bytes of a zone that can be written.
        capacity_bytes: u64,
    },
    /// Fewer zones can be partly written at a time than the store needs.
    Open {
        /// How many can.
        zones: u32,
    },
    /// Zones are not of whole blocks of 4 KiB.
    Odd,
}

impl fmt::Display for ZoneProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conventional { needed_bytes, have_bytes } => write!(
                f,
                "its conventional zones have {}, and superblocks and checkpoints take {}; choose \
                 smaller volumes if it has some, else give another drive",
                Bytes(*have_bytes),
                Bytes(*needed_bytes)
            ),
            Self::Capacity { capacity_bytes } => write!(
                f,
                "a segment does not fit its zones, which hold {}; choose segments of that size, or \
                 shorter ones",
                Bytes(*capacity_bytes)
            ),
            Self::Open { zones } => write!(
                f,
                "it can have {zones} zones partly written at a time, and a store needs \
                 {OPEN_ZONES_MIN}; give another drive"
            ),
            Self::Odd => f.write_str("its zones are not of whole blocks of 4 KiB; give another"),
        }
    }
}

/// Zones of a drive that a store writes to at a time: one of clients, one of the cleaner, and one
/// of each that ends while the next begins.
pub(crate) const OPEN_ZONES_MIN: u32 = 4;

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVolume(volume) => write!(f, "there is no volume {}", volume.0),
            Self::OutOfRange { size_bytes } => {
                write!(f, "the range is not within the volume of {}", Bytes(*size_bytes))
            }
            Self::ReadOnly(volume) => {
                write!(f, "{} is a snapshot, which never changes; write to a clone of it", volume.0)
            }
            Self::NotASnapshot(volume) => {
                write!(f, "{} is no snapshot of the volume or a relative; name one", volume.0)
            }
            Self::VolumeSize => {
                f.write_str("a volume has a multiple of 4 KiB, at most 256 TiB; choose such a size")
            }
            Self::WouldShrink { size_bytes } => write!(
                f,
                "the volume has {} and would lose data; allow that, or choose more",
                Bytes(*size_bytes)
            ),
            Self::NoRoom { wanted_bytes, free_bytes } => write!(
                f,
                "there is no room: it takes {}, and {} are not promised to others; delete \
                 snapshots or volumes, or discard data",
                Bytes(*wanted_bytes),
                Bytes(*free_bytes)
            ),
            Self::MapFull => f.write_str(
                "there is no room in the map: too many snapshots and volumes differ in too much; \
                 delete some",
            ),
            Self::TooManyVolumes => {
                f.write_str("there are as many volumes and snapshots as can be; delete some")
            }
            Self::Unreadable { volume, block } => {
                write!(f, "no copy of block {block} of volume {} can be read", volume.0)
            }
            Self::Halted(Halt::Drive(drive, error)) => {
                write!(f, "the store has stopped: drive {drive}: {error}; mend it and open again")
            }
            Self::Halted(Halt::Closed) => f.write_str("the store was closed"),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAMember { position, defect } => not_a_member(f, *position, *defect),
            Self::NoDrive => f.write_str("no drive was given; name all drives of the store"),
            Self::Foreign { position, store, expected } => write!(
                f,
                "drive {position} belongs to store {store}, the newest one to {expected}; leave \
                 one out"
            ),
            Self::Replaced { position } => write!(
                f,
                "drive {position} was replaced by another one, which has its place; leave it out"
            ),
            Self::Replacement(error) => error.fmt(f),
            Self::Duplicate { position } => {
                write!(f, "drive {position} was given before; leave it out")
            }
            Self::Missing(drives) if drives.len() == 1 => {
                write!(f, "{} is missing; bring it", list(drives))
            }
            Self::Missing(drives) => write!(f, "{} are missing; bring them", list(drives)),
            Self::Insufficient(drives) => write!(
                f,
                "without {} there is no whole copy of the data; bring what is missing",
                list(drives)
            ),
            Self::Unreadable { position, error } => {
                write!(f, "drive {position} cannot be read: {error}; mend it, or leave it out")
            }
            Self::Shrunk { position } => write!(
                f,
                "drive {position} is smaller than when it was formatted; restore its size"
            ),
            Self::Zones { position } => write!(
                f,
                "drive {position} has other zones than when it was formatted, or none; give the \
                 drive itself rather than a copy of it, or replace it"
            ),
            Self::Split(sides) => split(f, sides),
            Self::RolledBack(sides) => rolled_back(f, sides),
            Self::Checkpoint(defect) => {
                write!(f, "no drive has the newest checkpoint whole: {defect}")
            }
            Self::Older { found, known } => write!(
                f,
                "the store is older than it was: it ends with record {} of mount {}, and record {} \
                 of mount {} was durable; its drives are older images of themselves, or lost what \
                 they had acknowledged: give them as they were last",
                found.durable, found.mount.epoch, known.durable, known.mount.epoch
            ),
            Self::Damaged(damage) => damage.fmt(f),
            Self::Inconsistent(what) => {
                write!(f, "the log contradicts its checkpoint ({what}); this store is damaged")
            }
            Self::Drive(drive, error) => write!(f, "drive {drive}: {error}"),
            Self::Cache(error) => error.fmt(f),
        }
    }
}

fn not_a_member(f: &mut fmt::Formatter<'_>, position: usize, defect: Defect) -> fmt::Result {
    match defect {
        Defect::Version(version) if version < VERSION => {
            write!(
                f,
                "drive {position} was written by an older evenkeel (format {version}), which \
                 this one does not read; use that one, and copy its volumes to a new store"
            )
        }
        Defect::Version(version) => write!(
            f,
            "drive {position} was written by a newer evenkeel (format {version}); use that one"
        ),
        Defect::Features(bits) => write!(
            f,
            "drive {position} uses features of a newer evenkeel (bits {bits:#x}); use that one"
        ),
        defect => write!(
            f,
            "drive {position} has no superblock of a store ({defect}); leave it out, or \
             replace it"
        ),
    }
}

fn split(f: &mut fmt::Formatter<'_>, [one, other]: &[Side; 2]) -> fmt::Result {
    write!(
        f,
        "drives {} and {} of the store went on without each other ({one}; {other}), and each may \
         have writes that the other lacks; decide which to keep, and give the other to `evenkeel \
         store replace-drive --discard`",
        one.drive, other.drive
    )
}

fn rolled_back(f: &mut fmt::Formatter<'_>, [own, newest]: &[Side; 2]) -> fmt::Result {
    write!(
        f,
        "drive {} is an older image of itself ({own}, the store is at {newest}), and what it lacks \
         has no other copy; give the drive as it was last",
        own.position
    )
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { missing, durable, drive, .. } = self;
        let place = drive.map_or_else(String::new, |drive| format!(" on drive {drive}"));
        write!(
            f,
            "record {missing} of the log is damaged{place}, and all up to record {durable} were \
             flushed; bring the drive's copy if there is one, or see with `evenkeel store rescue` \
             what is lost without"
        )
    }
}

impl fmt::Display for ReplacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Occupied { position } => write!(
                f,
                "drive {position} is the one to be replaced, and it is here; leave it out if it \
                 has failed"
            ),
            Self::UnknownDrive { drive, drives } => write!(
                f,
                "there is no drive {drive} in a store of {drives} drives; they count from 0"
            ),
            Self::TooSmall { needed_bytes } => write!(
                f,
                "the new drive is too small: its place needs {}; give a larger one",
                Bytes(*needed_bytes)
            ),
            Self::Zones(problem) => write!(f, "the new drive does not fit: {problem}"),
            Self::InUse { drive } => {
                write!(f, "the new drive is drive {drive} of this store; give a blank one")
            }
        }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(what) => f.write_str(what),
            Self::TooSmall { wanted_bytes, possible_bytes } => write!(
                f,
                "volumes of {} do not fit: these drives can promise {}; give larger drives or \
                 smaller volumes",
                Bytes(*wanted_bytes),
                Bytes(*possible_bytes)
            ),
            Self::Zones(drive, problem) => write!(f, "drive {drive}: {problem}"),
            Self::Drive(drive, error) => write!(f, "drive {drive}: {error}"),
        }
    }
}

fn list(drives: &[DriveIndex]) -> String {
    let names: Vec<String> = drives.iter().map(ToString::to_string).collect();
    format!("drive{} {}", if names.len() == 1 { "" } else { "s" }, names.join(", "))
}

impl std::error::Error for StoreError {}
impl std::error::Error for OpenError {}
impl std::error::Error for ReplacementError {}
impl std::error::Error for FormatError {}
impl std::error::Error for ZoneProblem {}
