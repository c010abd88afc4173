//! What people see of a spread volume.

use evenkeel_core::id::ServerId;

/// The accounts of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpreadReport {
    /// Its servers, in the order of the policy.
    pub servers: Vec<SpreadServer>,
    /// Bytes of an object.
    pub object_bytes: u64,
    /// Objects of the volume.
    pub objects: u32,
    /// Objects that were written and lie somewhere.
    pub placed: u32,
    /// Of those that were placed since the volume was opened: not on their first candidate.
    pub diverted: u64,
    /// Objects that were written and are not where they should be.
    pub lost: u32,
    /// Objects that were given up since the volume was opened.
    pub freed: u64,
    /// Writes that found no room below the ceiling.
    pub full: u64,
    /// Whether another gate has claimed the volume: nothing is served any more.
    pub is_claimed: bool,
}

/// One server of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpreadServer {
    /// Which.
    pub server: ServerId,
    /// Objects that it has room for.
    pub slots: u32,
    /// Objects that may be placed there: what lies below the ceiling.
    pub ceiling_slots: u32,
    /// Room that is in use.
    pub used_slots: u32,
    /// What keeps objects from being placed there, if anything does.
    pub standing: Standing,
}

/// Whether a server takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    #[default]
    Serving,
    /// Nothing is placed there for a while, since it could not be written to.
    Resting,
    /// It came back with older content, and nothing of it is served.
    Stale,
}
