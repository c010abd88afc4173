//! What people see of a spread volume.

use evenkeel_core::id::ServerId;
use evenkeel_core::time::Span;

use crate::policy::{HostFigures, Preference};

/// The accounts of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpreadReport {
    /// Its servers, in the order of the policy.
    pub servers: Vec<SpreadServer>,
    /// What objects prefer that get their places now.
    pub prefer: Vec<Preference>,
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
    /// A change of the servers, until nobody is listed any more who has left.
    pub change: Option<ChangeReport>,
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
    /// Whether the policy says that it is near this gate.
    pub is_near: bool,
    /// Mean time of its answers to reads and writes; zero if there was none.
    pub latency: Span,
    /// What its host said last, if it was asked and that is not too old.
    pub host: Option<HostFigures>,
    /// Whether all its objects are to move off it.
    pub is_leaving: bool,
    /// What keeps objects from being placed there, if anything does.
    pub standing: Standing,
}

/// How objects pass to other servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeReport {
    /// Objects that have not passed, written or not.
    pub objects_left: u64,
    /// Of those, how many have to move.
    pub to_move: u32,
    /// Objects that were moved since the volume was opened.
    pub moved: u64,
    /// Bytes that were copied for that.
    pub copied_bytes: u64,
    /// Moves that were put off, since clients wrote too much or waited too long.
    pub given_up: u64,
    /// Moves that ended with an error of a server.
    pub failed: u64,
    /// How long that has taken.
    pub elapsed: Span,
    /// Why nothing moves at present, if that is so.
    pub stuck: Option<Stuck>,
    /// Whether all is done and noted: servers that leave hold nothing any more.
    pub is_over: bool,
}

/// What keeps objects from passing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// The next object has no candidate below its ceiling; this one comes closest.
    NoRoom(ServerId),
    /// This server answers with errors.
    Away(ServerId),
    /// This server came back with older content.
    Stale(ServerId),
    /// It is not known where the next object would be found later.
    InDoubt,
}

/// Whether a server takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    #[default]
    Serving,
    /// Nothing is placed there for a while, since it could not be written to.
    Resting,
    /// Nothing is placed there for a while, since it had no room for a write, whatever its table
    /// says.
    Full,
    /// It came back with older content, and nothing of it is served.
    Stale,
    /// It was not there when the volume was opened, and nothing of it is served.
    Absent,
}
