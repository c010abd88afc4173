//! What the engine tells people: accounts per tenant, by server, at one instant.
//!
//! Counters only grow while the gate runs; rates are the reader's business (the difference of two
//! snapshots), except where a window is part of the meaning.

use evenkeel_core::histogram::Histogram;
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::tiered;
use evenkeel_core::time::{Nanos, Span};

use crate::cost::measured::Measured;
use crate::explain::Finding;
pub use crate::spread::{ChangeReport, SpreadReport, SpreadServer, Standing, Stuck};
pub use crate::tiers::{MovesReport, Stopped, TierReport, VolumeReport};

/// The accounts of one scheduling domain.
#[derive(Clone, Debug, Default)]
pub struct DomainReport {
    /// When it was taken.
    pub at: Nanos,
    /// By [`TenantId`].
    pub tenants: Vec<TenantReport>,
    /// By server.
    pub servers: Vec<ServerReport>,
    /// The tiered volume, if the domain serves one and it is open.
    pub volume: Option<VolumeReport>,
    /// The spread volume, likewise.
    pub spread: Option<SpreadReport>,
    /// Who gets how much of its tiers, if their requests are ordered together and any came.
    pub allocation: Option<AllocationReport>,
    /// Who waited because of whom, most first; at most [`crate::attribution::TOP_PAIRS`] pairs.
    pub interference: Vec<Interference>,
    /// Wait in all that went to pairs which the bounded table no longer holds.
    pub interference_other: Span,
}

/// Who gets how much of several tiers, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocationReport {
    /// The servers that are its devices, in their order.
    pub servers: Vec<ServerId>,
    /// The last solve.
    pub last: tiered::Status,
    /// What happened how often.
    pub counters: tiered::Counters,
}

/// The accounts of one tenant.
#[derive(Clone, Debug, Default)]
pub struct TenantReport {
    /// Its name.
    pub name: String,
    /// Its weight in thousandths.
    pub weight_milli: u32,
    /// Counts by [`evenkeel_core::ticket::Kind::index`].
    pub by_kind: [KindReport; 6],
    /// Time from arrival to dispatch, per unit.
    pub queue_time: Histogram,
    /// Time from dispatch to the backend's answer, per unit.
    pub device_time: Histogram,
    /// Time from arrival to answer, per request.
    pub total_time: Histogram,
    /// Request-time beyond what idle servers would have taken, own limit excluded; divided among
    /// culprits in [`DomainReport::interference`]. See [`crate::attribution`].
    pub waited: Span,
    /// Request-time that went to exports of the tenant's own that are slow beside others of their
    /// server, or hang: for their slots, and with them. Not in `waited`.
    pub waited_for_slots: Span,
    /// Request-time spent held by the tenant's own limit.
    pub throttled: Span,
    /// Request-time for which the shadow scheduler would have held this tenant's requests.
    pub shadow_held: Span,
    /// Units that the shadow scheduler would have held.
    pub shadow_held_units: u64,
    /// Time during which the tenant had something queued.
    pub backlogged: Span,
    /// Requests now queued or with the backend.
    pub in_flight: u64,
    /// Service delivered in all, in device time by the cost model: what shares count.
    pub delivered_cost: Span,
    /// Device time that it was given, as measured: the time in which servers were busy and did not
    /// stall, divided by what requests take of them, whatever the policy says that they cost.
    pub service_time: Span,
    /// Shares over the last window.
    pub window: ShareWindow,
    /// How it stands over the last seconds, and why.
    pub finding: Finding,
}

/// Counts of one kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindReport {
    /// Requests that arrived.
    pub offered_requests: u64,
    /// Bytes that they asked for.
    pub offered_bytes: u64,
    /// Requests answered well.
    pub delivered_requests: u64,
    /// Bytes of those.
    pub delivered_bytes: u64,
    /// Requests answered with an error.
    pub failed_requests: u64,
    /// Requests whose client vanished before the answer.
    pub abandoned_requests: u64,
}

/// Shares of the domain's delivered service over the last full window, each 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShareWindow {
    /// What it got.
    pub delivered: f64,
    /// What its weight gives among the tenants that were active.
    pub entitled: f64,
    /// What it could have had at most with the work that it offered: its entitlement while it kept
    /// a backlog, and what it asked for while it did not.
    pub attainable: f64,
    /// Part of the window in which it kept a backlog.
    pub backlogged: f64,
}

/// The accounts of one server.
#[derive(Clone, Debug, Default)]
pub struct ServerReport {
    /// Its name.
    pub name: String,
    /// Units with the backend now.
    pub in_service: u64,
    /// Units queued now.
    pub queued: u64,
    /// The depth in force, in units or bytes as configured; zero for none.
    pub depth: u64,
    /// The depth that an automatic one has found, beside which it tries others; none while it has
    /// not, and for others.
    pub depth_found: Option<u32>,
    /// The part of the throughput, 0 to 1, that twice that depth would gain, and that is forgone so
    /// that tenants with little wait less; none where nothing is.
    pub throughput_forgone: Option<f64>,
    /// Larger requests are cut into units of so many bytes.
    pub unit_bytes: u64,
    /// What requests were measured to take lately; none before anything was, and where the depth is
    /// not the gate's.
    pub measured: Option<Measured>,
    /// Whether what was measured is what requests cost.
    pub is_cost_learned: bool,
    /// Whether its slots are divided among several gates.
    pub is_shared: bool,
    /// Service delivered in all, in device time by the cost model.
    pub delivered_cost: Span,
    /// Units that the backend has answered.
    pub served_units: u64,
    /// Device time given out, as measured; see [`TenantReport::service_time`].
    pub service_time: Span,
    /// Time during which something was with the backend.
    pub busy: Span,
    /// Disks whose requests are out for so long that they have left the depth.
    pub hanging: Vec<HangingReport>,
    /// Disks that answer so much more slowly than others of the server that they are held to their
    /// part of the depth.
    pub slow: Vec<SlowReport>,
}

/// A disk of a server that answers a tenant like one of another device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowReport {
    /// Whose requests are slow.
    pub tenant: TenantId,
    /// Which disk; see [`Request::disk`](crate::Request::disk).
    pub disk: u64,
    /// What the driver calls it; empty from the engine.
    pub disk_name: String,
    /// How long its requests take lately, or for how long one has not been answered.
    pub latency: Span,
    /// How long those of the quickest disk take.
    pub quickest: Span,
}

/// A disk of a server that does not answer a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HangingReport {
    /// Who waits for it.
    pub tenant: TenantId,
    /// Which disk; see [`Request::disk`](crate::Request::disk).
    pub disk: u64,
    /// What the driver calls it; empty from the engine.
    pub disk_name: String,
    /// Units of the tenant that are with it.
    pub requests: u64,
    /// For how long the oldest of them is.
    pub oldest: Span,
}

/// One pair of who waited because of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interference {
    /// Who waited.
    pub victim: TenantId,
    /// Because of whom.
    pub culprit: Culprit,
    /// Request-time.
    pub waited: Span,
}

/// What stands for [`Culprit::Device`] where culprits are named; no tenant has such a name.
pub const DEVICE_NAME: &str = "(device)";

/// Because of whom somebody waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Culprit {
    /// A tenant whose requests were served meanwhile, be it the one that waited.
    Tenant(TenantId),
    /// Nobody: the device did nothing for any of them, or took longer for a lone request.
    Device,
}
