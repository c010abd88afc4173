//! What people see of a tiered volume.

use evenkeel_core::id::ServerId;

use super::moves::MovesReport;
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
