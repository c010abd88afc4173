//! A scenario: everything that determines a run, as plain data.
//!
//! ```text
//! workloads, replays --link--> gate (the policy) --link--> devices        faults hit any of them
//!
//! |-- warm-up --|------------------- length -------------------|-- drain --|
//! 0          not counted         counted, in intervals             no new requests
//! ```
//!
//! Names connect the parts: a workload names exports of the policy (or whole backends), a device
//! the backend that it stands behind, a fault what it hits. All instants count from the start of
//! the run, warm-up included.

mod change;
mod check;
mod workload;

use evenkeel_core::time::Span;
use evenkeel_engine::policy::Policy;

use crate::device::spec::DeviceSpec;
use crate::faults::Fault;
use crate::link::LinkSpec;

pub use change::PolicyChange;
pub use check::ScenarioFault;
pub use evenkeel_core::workload::{DEPTH_MAX, Layout, Pattern, SIZE_BYTES_MAX, WeightedSize};
pub use workload::{Arrivals, CLIENTS_MAX, Replay, ReplayTiming, Route, Workload};

/// Everything that determines a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What the gate enforces. What lies behind its backends is told by `devices`; where they
    /// really are, listeners and memory bounds play no part.
    pub policy: Policy,
    /// Policies that replace it while the scenario runs, in the order of their instants. They have
    /// the same backends, groups and exports.
    pub changes: Vec<PolicyChange>,
    /// The storage; one entry for each backend of the policy.
    pub devices: Vec<BackendDevice>,
    /// What the gate itself costs.
    pub gate: GateSpec,
    /// Synthetic load.
    pub workloads: Vec<Workload>,
    /// Recorded load. The records come from the streams that the run is given, in this order.
    pub replays: Vec<Replay>,
    /// What goes wrong, and when.
    pub faults: Vec<Fault>,
    /// Time at the start that is not measured.
    pub warm_up: Span,
    /// Time that is measured; above zero.
    pub length: Span,
    /// Width of one entry of the time series; at least 1 ms.
    pub interval: Span,
    /// Determines whatever is drawn at random.
    pub seed: u64,
}

impl Default for Scenario {
    /// Ten seconds of nothing.
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            changes: Vec::new(),
            devices: Vec::new(),
            gate: GateSpec::default(),
            workloads: Vec::new(),
            replays: Vec::new(),
            faults: Vec::new(),
            warm_up: Span::ZERO,
            length: Span::from_secs(10),
            interval: Span::from_secs(1),
            seed: 1,
        }
    }
}

/// The storage behind one backend of the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendDevice {
    /// The backend's name in the policy.
    pub backend: String,
    /// What serves its requests.
    pub device: DeviceSpec,
    /// The way from the gate to it and back.
    pub link: LinkSpec,
}

/// What the gate itself costs. Each scheduling domain is served by one core, one request at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateSpec {
    /// Time that the core takes for one request, spent when the request arrives.
    pub request_time: Span,
}
