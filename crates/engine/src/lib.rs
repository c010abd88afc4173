//! Ring 1: the brain of one scheduling domain of a gate.
//!
//! The driver turns protocol requests into [`Request`]s and performs [`Output`]s; the engine
//! decides what goes to which server when, cuts large requests into units, keeps the accounts, and
//! takes policy changes as inputs. It never sees a payload, a socket or a clock.

mod account;
mod anteroom;
pub mod attribution;
pub mod care;
pub mod cost;
mod discipline;
mod dmclock;
mod engine;
pub mod explain;
mod lane;
mod late;
pub mod lease;
pub mod notes;
pub mod placement;
pub mod policy;
pub mod pooled;
pub mod report;
mod requests;
mod rules;
mod service;
mod shadow;
pub mod shares;
mod slots;
pub mod spread;
mod stopwatch;
pub mod tiers;
#[cfg(test)]
mod trial;
mod unheard;
mod units;

pub use anteroom::Room;
pub use discipline::scheduler_for;
pub use engine::Engine;

use std::ops::Range;

use evenkeel_core::control::Decision;
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::ticket::{Cost, Kind};
use evenkeel_core::time::{Nanos, Span};

/// A client's request, as the engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The driver's handle: a small integer, unique among live requests; it indexes a vector here.
    pub slot: u32,
    /// Who asks.
    pub tenant: TenantId,
    /// What holds the bytes.
    pub target: Target,
    /// Which disk of the server, by any number that the driver keeps to: what lies at an offset of
    /// one is none of another's. Without meaning at a volume.
    pub disk: u64,
    /// What for.
    pub kind: Kind,
    /// First byte affected, in the target's own addressing.
    pub offset: u64,
    /// Bytes affected; zero for a flush.
    pub length: u64,
    /// Whether zeroes that it writes must keep the room that they take.
    pub keeps_room: bool,
}

/// What holds the bytes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A server of the domain.
    Server(ServerId),
    /// The volume that the domain's servers make up. Its offsets and lengths lie within its size.
    Volume,
}

/// What the driver tells the engine.
#[derive(Debug)]
pub enum Input<'a> {
    /// A request has arrived in full.
    Arrive(Request),
    /// The backend finished a unit.
    Done {
        /// The unit, as named by [`Output::Submit`].
        unit: u32,
        /// False if the backend reported an error.
        ok: bool,
    },
    /// The client of this request has vanished: what is still queued will not be sent. The engine
    /// finishes the request as soon as nothing of it is with the backend.
    Abandon {
        /// The request.
        slot: u32,
    },
    /// The policy changed.
    Policy(&'a policy::Domain),
    /// The tiers of the domain were opened as this volume, before the first request for
    /// [`Target::Volume`]. Nothing of it is served before [`Input::Held`].
    Volume(Box<tiers::Volume>),
    /// The servers of the domain were opened as this volume, before the first request for
    /// [`Target::Volume`], or anew after [`Input::Pause`]. Nothing of it is served before
    /// [`Input::Held`].
    Spread(Box<spread::Volume>),
    /// The spread volume is to be opened anew: nothing begins any more, and once
    /// [`Engine::is_at_rest`] nothing is noted on its servers until [`Input::Spread`].
    Pause,
    /// The spread volume is to have this size, in whole objects; [`Engine::take_resized`] says what
    /// has come of it.
    Resize {
        /// In bytes.
        size_bytes: u64,
    },
    /// Another gate has the volume, and nothing of it is under way any more: it is forgotten, until
    /// it is opened again.
    Unmount,
    /// Until this instant the volume is this gate's, as its [`lease::Gatekeeper`] says.
    Held {
        /// From then on nobody knows.
        until: Nanos,
    },
    /// The driver has looked at a server of the volume past the engine, which took so long: what is
    /// known of its latency stays fresh while nobody asks anything of it.
    Looked {
        /// Which.
        server: ServerId,
        /// From the question to the answer.
        latency: Span,
    },
    /// A connection was lost on which a write, trim or zeroing was not answered. The driver sends
    /// it again at once, or fails it; and until then the server may still carry it out.
    Late {
        /// The server.
        server: ServerId,
        /// The disk there; see [`Request::disk`].
        disk: u64,
        /// What it changes.
        range: Range<u64>,
        /// When the server has let go of it.
        until: Nanos,
    },
    /// A server of the volume is not what it was, or with none named the whole volume is
    /// another gate's: nothing of it is served any more.
    Fenced {
        /// Which.
        server: Option<ServerId>,
    },
    /// A server that was fenced is again what it was: it is served from.
    Cleared {
        /// Which.
        server: ServerId,
    },
    /// What holds from now on at a server that other gates share. Ignored at one that is not, as
    /// when a policy has just changed that.
    Decide {
        /// The server.
        server: ServerId,
        /// What was decided.
        decision: &'a Decision,
    },
    /// From now on this holds of the room at a server that is a log: without room, writes wait
    /// there. Ignored where writes could not be kept back, as in observe mode.
    Room {
        /// The server.
        server: ServerId,
        /// What holds.
        room: Room,
    },
    /// A period has passed in which other gates served so much of these tenants, each named once.
    /// Ignored where shares do not count over several gates or servers.
    ServedByOthers(&'a [(TenantId, Cost)]),
    /// The host of a server of the spread volume has said how it is doing, or has not for so long
    /// that nobody knows. Ignored without such a volume.
    HostTold {
        /// The server.
        server: ServerId,
        /// What it said.
        host: Option<policy::HostFigures>,
    },
    /// A server of the spread volume had no room for a write, although its table has slots left: it
    /// is thin itself, or shares its room with others. Ignored without such a volume.
    Full {
        /// The server.
        server: ServerId,
    },
    /// The step that [`Output::Move`] asked for is finished.
    Moved {
        /// Where.
        server: ServerId,
        /// What it did.
        kind: notes::StepKind,
        /// False if the backend reported an error.
        ok: bool,
    },
}

/// What the engine tells the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Output {
    /// Send this unit to the backend, then poll again.
    Submit(Unit),
    /// Every unit of the request is done (or was withdrawn): answer the client, free the slot,
    /// then poll again.
    Finish {
        /// The request.
        slot: u32,
        /// False if a unit failed or the request was abandoned.
        ok: bool,
    },
    /// These bytes of a read, counted from its begin, are zeroes: no server holds them. Then poll
    /// again; the finish comes later.
    Zeroes {
        /// The request.
        slot: u32,
        /// The first byte.
        at: u64,
        /// How many; never zero.
        length: u64,
    },
    /// The request will finish with an error, for this reason. Then poll again.
    Refuse {
        /// The request.
        slot: u32,
        /// Why.
        why: Refused,
    },
    /// Turn this into a request to its server, which arrives like any other, then poll again; with
    /// its finish comes [`Input::Moved`]. At each server at most one is under way that copies, and
    /// one that does not.
    Move(notes::Step),
    /// Nothing to do before this instant or the next input.
    WaitUntil(Nanos),
    /// Nothing to do before the next input.
    Idle,
}

/// Why a volume does not serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not known where its bytes would be found later.
    InDoubt,
    /// No candidate server has room below the ceiling; this one comes closest.
    NoRoom(ServerId),
    /// No candidate server can be written to; this is one.
    Away(ServerId),
    /// Its bytes were written, and are not on this server any more.
    Lost(ServerId),
    /// This server came back with older content.
    Stale(ServerId),
    /// This server was not there when the volume was opened.
    Absent(ServerId),
    /// Another gate has claimed the volume.
    Claimed,
    /// Nobody knows whether the volume is still this gate's, and that has not shown for too long.
    Lapsed,
    /// The volume has shrunk since the request's client came, and ends before it.
    Beyond,
}

/// A part of a request, small enough to schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The engine's handle, to be given back by [`Input::Done`].
    pub unit: u32,
    /// The request that it is part of.
    pub slot: u32,
    /// Where to send it.
    pub server: ServerId,
    /// What for.
    pub kind: Kind,
    /// First byte, in the server's own addressing.
    pub offset: u64,
    /// Where in its request the unit begins, in bytes.
    pub at: u64,
    /// Bytes; the whole of the request if it fits one unit.
    pub length: u64,
    /// What it counts against its tenant's share.
    pub cost: Cost,
}
