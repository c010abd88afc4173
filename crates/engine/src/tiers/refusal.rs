//! Why tiers are not opened as a volume: which tier, what is wrong with it, and what to do.

use std::fmt;

use evenkeel_core::bytes::Bytes;

use super::layout::LayoutError;
use crate::notes::block::BlockKind;
use crate::notes::{Parlance, Unfit};

/// What a tiered volume calls its parts.
pub(super) const PARLANCE: Parlance =
    Parlance { head: BlockKind::Head, kind: "tiered", part: "tier", device: "device" };

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
    /// No volume could use it so.
    Unfit(Unfit),
    /// It is too small, or has too many extents.
    Layout(LayoutError),
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
    /// Neither copy of the map is whole.
    MapDamaged,
    /// The last records are missing.
    JournalCut {
        /// The last one that is there.
        last: u64,
        /// The last one that there was.
        noted: u64,
    },
    /// A record is missing though later ones are there, or contradicts the map.
    JournalDamaged {
        /// Its sequence number.
        sequence: u64,
    },
}

impl From<Unfit> for RefusalReason {
    fn from(why: Unfit) -> Self {
        Self::Unfit(why)
    }
}

impl Refusal {
    /// What is wrong with a part as that of any volume, if that is it.
    pub fn unfit(&self) -> Option<&Unfit> {
        if let RefusalReason::Unfit(why) = &self.reason { Some(why) } else { None }
    }
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
            Self::Unfit(why) => why.tell(PARLANCE, f),
            Self::Layout(error) => write!(f, "{error}"),
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
                "its volume has extents of {found}, but the policy says {expected}; say {found}",
                found = Bytes(*found),
                expected = Bytes(*expected)
            ),
            Self::MapDamaged => write!(
                f,
                "neither copy of the map is whole; restore all tiers from the same backup"
            ),
            Self::JournalCut { last, noted } => write!(
                f,
                "the journal ends with record {last}, but had {noted}: the last ones are damaged, \
                 or it is an older copy; attach the device that was used last, or restore all \
                 tiers from the same backup"
            ),
            Self::JournalDamaged { sequence } => write!(
                f,
                "record {sequence} of the journal is damaged though later ones are whole; restore \
                 all tiers from the same backup"
            ),
        }
    }
}
