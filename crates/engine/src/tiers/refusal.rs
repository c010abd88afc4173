//! Why tiers are not opened as a volume: which tier, what is wrong with it, and what to do.

use std::fmt;

use super::format::VolumeId;
use super::layout::LayoutError;

/// Why the volume was not opened. Nothing was written, except where a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The tier's name.
    pub tier: String,
    /// What is wrong with it.
    pub reason: RefusalReason,
}

/// What is wrong with a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// It answered a read, a write or a flush with an error.
    Failed,
    /// It is too small, or has too many extents.
    Layout(LayoutError),
    /// It holds something else.
    Foreign,
    /// It is blank, while other tiers of the volume are in use.
    Blank,
    /// Both its heads are damaged, or say what cannot be.
    HeadDamaged,
    /// It was made by a newer program, in this version of the format.
    Newer(u32),
    /// It has features that this program does not know.
    Features(u32),
    /// It belongs to another volume than the first tier.
    OtherVolume {
        /// Its volume.
        found: VolumeId,
        /// That of the first tier.
        expected: VolumeId,
    },
    /// It is another tier of the volume.
    OtherTier {
        /// Which it is, counted from the slowest.
        found: u32,
        /// Where it is listed.
        expected: u32,
    },
    /// The volume has another number of tiers.
    TierCount {
        /// How many it has.
        found: u32,
        /// How many are listed.
        expected: u32,
    },
    /// The volume has extents of another size.
    ExtentBytes {
        /// What it has.
        found: u64,
        /// What the policy says.
        expected: u64,
    },
    /// It has become smaller than what the volume uses of it.
    Shrunk {
        /// What the volume uses.
        needed_bytes: u64,
        /// What is there.
        found_bytes: u64,
    },
    /// It was not there when the volume was opened last: an older copy.
    Stale {
        /// Its generation.
        found: u64,
        /// That of other tiers.
        expected: u64,
    },
    /// Neither copy of the map is whole.
    MapDamaged,
    /// A record is missing though later ones are there, or contradicts the map.
    JournalDamaged {
        /// Its sequence number.
        sequence: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tier \"{}\": {}", self.tier, self.reason)
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => write!(f, "it answers with errors; see to the device and try again"),
            Self::Layout(error) => write!(f, "{error}"),
            Self::Foreign => write!(
                f,
                "it holds something else than a tier; if that may go, overwrite its first 8 KiB \
                 with zeroes"
            ),
            Self::Blank => write!(
                f,
                "it is blank, but other tiers of the volume are in use; attach the device that was \
                 in its place, or overwrite the first 8 KiB of every tier with zeroes to begin anew"
            ),
            Self::HeadDamaged => write!(
                f,
                "its heads are damaged; restore the device, or overwrite the first 8 KiB of every \
                 tier with zeroes to begin anew"
            ),
            Self::Newer(version) => {
                write!(f, "it has version {version} of the format; use a newer evenkeel")
            }
            Self::Features(bits) => write!(
                f,
                "it has features that this evenkeel does not know ({bits:#x}); use a newer one"
            ),
            Self::OtherVolume { found, expected } => write!(
                f,
                "it belongs to volume {found}, the first tier to {expected}; list the tiers of one \
                 volume"
            ),
            Self::OtherTier { found, expected } => write!(
                f,
                "it is tier {found} of the volume, counted from 0 for the slowest, and listed as \
                 tier {expected}; list it there"
            ),
            Self::TierCount { found, expected } => {
                write!(f, "its volume has {found} tiers, but {expected} are listed; list them all")
            }
            Self::ExtentBytes { found, expected } => write!(
                f,
                "its volume has extents of {found} bytes, but the policy says {expected}; say \
                 {found}"
            ),
            Self::Shrunk { needed_bytes, found_bytes } => write!(
                f,
                "it has {found_bytes} bytes, but the volume uses {needed_bytes}; give it its size \
                 back"
            ),
            Self::Stale { found, expected } => write!(
                f,
                "it is an older copy (generation {found}, others have {expected}); attach the \
                 device that was used last"
            ),
            Self::MapDamaged => write!(
                f,
                "neither copy of the map is whole; restore all tiers from the same backup"
            ),
            Self::JournalDamaged { sequence } => write!(
                f,
                "record {sequence} of the journal is damaged though later ones are whole; restore \
                 all tiers from the same backup"
            ),
        }
    }
}
