//! What other threads may ask of a worker.

use std::sync::Arc;

use evenkeel_core::time::Span;
use evenkeel_engine::care::Report;
use evenkeel_engine::report::DomainReport;
use evenkeel_store::Volume;
use evenkeel_wire::nbd::server::{ExportInfo, Refusal, ServerSession};
use tokio::sync::oneshot;

use crate::admission::Permit;
use crate::care::{Care, CareError};
use crate::gate::{BackendReport, FailureReport};
use crate::listen::Ears;
use crate::plan::{Peer, Plan, Target};
use crate::record::Recorder;
use crate::resize::ResizeError;
use crate::store::{ScrubError, ScrubOrder, VolumeError, VolumeOrder};
use crate::transport::Transport;
use crate::word::ClaimError;
use crate::worker::exchange::Asked;

/// A message to a worker.
pub(crate) enum Message {
    /// Accept connections.
    Listen(Ears),
    /// Describe an export, opening what it stands on if need be.
    Open {
        plan: Arc<Plan>,
        target: Box<Target>,
        reply: oneshot::Sender<Result<ExportInfo, Refusal>>,
    },
    /// A client has shaken hands.
    Arrive(Box<Arrival>),
    /// A policy is in force from now on.
    Apply { plan: Arc<Plan>, reply: oneshot::Sender<()> },
    /// Record what is served from now on, or no longer.
    Record { recorder: Option<Arc<Recorder>>, reply: oneshot::Sender<()> },
    /// The exchange with other gates has a question, or an order, for a domain.
    Exchange { domain: String, asked: Asked },
    /// Give the accounts.
    Report { reply: oneshot::Sender<WorkerReport> },
    /// Tell the volumes of a store.
    ListVolumes { store: String, reply: oneshot::Sender<Result<Vec<Volume>, VolumeError>> },
    /// Change the volumes of a store.
    ChangeVolume {
        store: String,
        order: VolumeOrder,
        reply: oneshot::Sender<Result<Volume, VolumeError>>,
    },
    /// Start or end the scrub of a store.
    Scrub { store: String, order: ScrubOrder, reply: oneshot::Sender<Result<(), ScrubError>> },
    /// Check or repair a volume that nobody serves here.
    Care { volume: String, care: Care, reply: oneshot::Sender<Result<Option<Report>, CareError>> },
    /// Take the operator's word on what a volume waits for.
    Claim { volume: String, reply: oneshot::Sender<Result<String, ClaimError>> },
    /// Give a volume another size.
    Resize { volume: String, size_bytes: u64, reply: oneshot::Sender<Result<u64, ResizeError>> },
    /// Answer what is under way, for so long at most, then end.
    Stop { grace: Span },
}

/// A client in front of its owner's door.
pub(crate) struct Arrival {
    /// Off every runtime.
    pub(crate) transport: Transport,
    pub(crate) session: Box<ServerSession>,
    /// Bytes behind the handshake.
    pub(crate) early: Vec<u8>,
    pub(crate) target: Target,
    pub(crate) peer: Peer,
    pub(crate) permit: Permit,
}

/// The accounts of one worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerReport {
    /// By name of domain.
    pub(crate) domains: Vec<(String, DomainReport)>,
    pub(crate) backends: Vec<BackendReport>,
    pub(crate) clients: Vec<ClientReport>,
    pub(crate) failed: Vec<FailureReport>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct ClientReport {
    pub(crate) export: String,
    pub(crate) backend: String,
    pub(crate) tenant: String,
    pub(crate) size_bytes: u64,
    pub(crate) read_only: bool,
}
