//! What people see of a tiered volume.

use evenkeel_core::id::ServerId;

use crate::policy::TIERS_MAX;

/// The accounts of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeReport {
    /// By tier, the slowest first.
    pub tiers: Vec<TierReport>,
    /// By tenant: units of reads and writes that went to each tier, the slowest first; zero for
    /// tiers that the volume does not have. Tenants that asked for nothing yet may be missing.
    pub hits: Vec<[u64; TIERS_MAX]>,
    /// What moving has come to.
    pub moves: MovesReport,
}

/// One tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierReport {
    /// Its server.
    pub server: ServerId,
    /// Slots in all.
    pub slots: u32,
    /// Slots that hold nothing. The rest but those in use are left alone for now: an extent is on
    /// its way there or just left, or a write to them failed.
    pub free_slots: u32,
    /// Slots that hold an extent.
    pub used_slots: u32,
}

/// Why nothing moves until notes can be written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The journal cannot be written, and of this extent nobody knows where a reopened volume would
    /// find it; until it is noted it can be read, but not written.
    InDoubt {
        /// The extent.
        extent: u32,
    },
    /// The map cannot be written anew, and the journal is full.
    MapNotWritten,
}

/// What moving has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovesReport {
    /// Moves that were completed.
    pub done: u64,
    /// Moves that were given up, since clients wrote too much or waited too long.
    pub given_up: u64,
    /// Moves that ended with an error of a tier.
    pub failed: u64,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Why nothing moves now, if that is so.
    pub stopped: Option<Stopped>,
}
