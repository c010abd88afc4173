//! The running gate: start, reload, look, stop.

use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_engine::report::DomainReport;

/// How a gate is started; not part of the policy since it cannot change while running.
#[derive(Clone, Debug)]
pub struct Options {
    /// Data-path threads; each owns the scheduling domains it was given. At least 1.
    pub cores: usize,
}

/// Why a policy could not be put in force.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct GateError {
    /// The part of the policy, such as `listener "nbd"`.
    pub what: String,
    /// The reason and the remedy.
    pub why: String,
}

/// A running gate. Dropping it stops it at once.
#[derive(Debug)]
pub struct Gate {}

/// A handle for the control plane; cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct GateHandle {}

impl Gate {
    /// Binds the listeners, opens the backends and starts the data-path threads. Returns once
    /// clients can connect. An upstream that cannot be reached yet is not an error: its exports
    /// answer when it comes.
    pub fn start(_policy: Policy, _options: &Options) -> Result<Self, GateError> {
        unimplemented!("being built")
    }

    /// The control handle.
    pub fn handle(&self) -> GateHandle {
        unimplemented!("being built")
    }

    /// Stops taking connections, answers what is in flight for at most `grace`, then closes.
    pub fn stop(self, _grace: Span) {}
}

impl GateHandle {
    /// Puts a new policy in force. No connection is dropped and no request lost: tenants, shares,
    /// limits, modes, exports, backends and listeners may come and change; what may not change
    /// while in use is refused as a whole, and the old policy stays.
    pub async fn reload(&self, _policy: Policy) -> Result<(), GateError> {
        unimplemented!("being built")
    }

    /// The policy in force.
    pub async fn policy(&self) -> Policy {
        unimplemented!("being built")
    }

    /// The accounts at this instant.
    pub async fn report(&self) -> GateReport {
        unimplemented!("being built")
    }
}

/// The accounts of a gate at one instant.
#[derive(Clone, Debug, Default)]
pub struct GateReport {
    /// Time since start.
    pub uptime: Span,
    /// How far the gate may go.
    pub mode: Mode,
    /// One for each group of backends, and for each backend in no group.
    pub domains: Vec<DomainReport>,
    /// The state of each backend.
    pub backends: Vec<BackendReport>,
    /// The exports that clients can see and how many connections use each.
    pub exports: Vec<ExportReport>,
    /// Connections now open, negotiating ones included.
    pub connections: u64,
    /// Connections refused since start because a bound was reached.
    pub connections_refused: u64,
    /// Connections closed since start because the peer broke the protocol.
    pub protocol_errors: u64,
    /// Payload bytes now held in the gate, and the most that it may hold.
    pub memory_bytes: u64,
    /// The bound on `memory_bytes`.
    pub memory_bound_bytes: u64,
}

/// The state of one backend.
#[derive(Clone, Debug, Default)]
pub struct BackendReport {
    /// Its name.
    pub name: String,
    /// What stands there, for people: `nbd://127.0.0.1:10809`, `directory ./evenkeel-data`.
    pub source: String,
    /// True if requests can be served now.
    pub up: bool,
    /// Why not, if not.
    pub trouble: Option<String>,
    /// Connections lost since start.
    pub reconnects: u64,
    /// Requests sent again after a reconnect.
    pub replayed: u64,
    /// Requests failed because replaying them would not have been safe, or patience ran out.
    pub not_replayed: u64,
}

/// One export as clients see it.
#[derive(Clone, Debug, Default)]
pub struct ExportReport {
    /// Its name.
    pub name: String,
    /// Its backend.
    pub backend: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Refuses writes.
    pub read_only: bool,
    /// Connections that use it, by tenant name.
    pub connections: Vec<(String, u64)>,
}
