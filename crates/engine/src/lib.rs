//! Ring 1: the brain of one scheduling domain of a gate.
//!
//! The driver turns protocol requests into [`Request`]s and performs [`Output`]s; the engine
//! decides what goes to which server when, cuts large requests into units, keeps the accounts, and
//! takes policy changes as inputs. It never sees a payload, a socket or a clock.

mod account;
pub mod attribution;
pub mod cost;
mod discipline;
mod dmclock;
mod engine;
mod lane;
pub mod placement;
pub mod policy;
pub mod report;
mod requests;
mod shadow;
pub mod shares;
mod stopwatch;
pub mod tiers;
mod units;

pub use discipline::scheduler_for;
pub use engine::Engine;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

/// A client's request, as the engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The driver's handle: a small integer, unique among live requests; it indexes a vector here.
    pub slot: u32,
    /// Who asks.
    pub tenant: TenantId,
    /// What holds the bytes.
    pub target: Target,
    /// What for.
    pub kind: Kind,
    /// First byte affected, in the target's own addressing.
    pub offset: u64,
    /// Bytes affected; zero for a flush.
    pub length: u64,
}

/// What holds the bytes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A server of the domain.
    Server(ServerId),
    /// The tiered volume whose tiers the domain's servers are. Its offsets and lengths lie within
    /// [`tiers::Volume::size_bytes`].
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
    /// The tiers of the domain were opened as this volume; once, before the first request for
    /// [`Target::Volume`].
    Volume(Box<tiers::Volume>),
    /// The step that [`Output::Move`] asked for is finished.
    Moved {
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
    /// Turn this into a request to its server, which arrives like any other, then poll again; with
    /// its finish comes [`Input::Moved`]. At most one is under way.
    Move(tiers::Step),
    /// Nothing to do before this instant or the next input.
    WaitUntil(Nanos),
    /// Nothing to do before the next input.
    Idle,
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
}
