//! The accounts of a gate at one instant, put together from its workers'.

use std::collections::BTreeMap;

use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Address, Mode, Source};
use evenkeel_engine::report::DomainReport;
use evenkeel_store::{CacheStatus, Telemetry};

use crate::exchange::ExchangeReport;
use crate::memory::TenantMemory;
use crate::plan::Plan;
use crate::record::RecordingReport;
use crate::store::{ScrubStatus, SpindleReport};
use crate::worker::message::WorkerReport;

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
    /// Tenants of whom connections were refused just now, because a bound was reached.
    pub refused_tenants: Vec<String>,
    /// Requests that backends failed in the last five to ten seconds, by tenant and domain.
    pub failed: Vec<FailureReport>,
    /// Connections closed since start because the peer broke the protocol.
    pub protocol_errors: u64,
    /// How often clients were refused exports that the policy does not let them open.
    pub refused_opens: u64,
    /// The memory for payload.
    pub memory: MemoryReport,
    /// The recording under way, if there is one.
    pub recording: Option<RecordingReport>,
    /// How the exchange with other gates stands, if there is one.
    pub exchange: Option<ExchangeReport>,
}

/// An export of an upstream that is larger or smaller than it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resized {
    /// Its name at the server.
    pub export: String,
    /// What it was before it changed last.
    pub before_bytes: u64,
    /// What it is now.
    pub now_bytes: u64,
}

/// The memory for payload, and who holds it.
#[derive(Clone, Debug, Default)]
pub struct MemoryReport {
    /// Bytes now held.
    pub held_bytes: u64,
    /// The bound on them.
    pub bound_bytes: u64,
    /// Connections cut since start because they were too slow with memory that others waited for.
    pub cut_connections: u64,
    /// By tenant, of those who hold some or have waited.
    pub tenants: Vec<TenantMemory>,
}

/// Requests of a tenant that backends of a domain failed lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureReport {
    /// Whose.
    pub tenant: String,
    /// Where the last of them failed.
    pub backend: String,
    /// How many.
    pub requests: u64,
    /// What the backend said of the last one.
    pub why: String,
    /// Whether that is that it has no room.
    pub is_full: bool,
}

/// The state of one backend.
#[derive(Clone, Debug, Default)]
pub struct BackendReport {
    /// Its name.
    pub name: String,
    /// What stands there, for people: `nbd://127.0.0.1:10809`, `directory ./evenkeel-data`.
    pub source: String,
    /// True if requests can be served now. An upstream that nobody has used yet is not connected.
    pub up: bool,
    /// Why not, if not.
    pub trouble: Option<String>,
    /// Connections lost since start.
    pub reconnects: u64,
    /// Requests sent again after a reconnect.
    pub replayed: u64,
    /// Requests failed because replaying them would not have been safe, or patience ran out.
    pub not_replayed: u64,
    /// Requests failed because the server did not answer them in time.
    pub timed_out: u64,
    /// Changes of the size of its exports, seen when a connection was made.
    pub resizes: u64,
    /// The exports in use whose size has changed.
    pub resized: Vec<Resized>,
    /// How the store is doing, if it is one and open.
    pub store: Option<StoreReport>,
    /// How the volume in a pool of Ceph is doing, if it is one and open.
    pub pool: Option<PoolReport>,
}

/// How an open volume in a pool of Ceph is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolReport {
    /// Its objects that were written, and how many of them are not under their first name.
    pub placed: u64,
    /// See `placed`.
    pub diverted: u64,
    /// The part of an OSD that new objects may fill.
    pub ceiling: f64,
    /// The part in use of the pool's fullest OSD, with what was written since it reported.
    pub fullest: Option<f64>,
    /// Placement groups of the pool.
    pub groups: usize,
    /// How many of them no OSD serves.
    pub unserved: usize,
    /// Time since the manager was last heard.
    pub age: Span,
    /// OSDs of the pool.
    pub osds_all: usize,
    /// Each of them in the order of numbers, up to a bound.
    pub osds: Vec<OsdReport>,
}

/// An OSD as monitors and manager tell of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsdReport {
    /// Its number.
    pub osd: u32,
    /// Bytes that it can hold; zero if it has not reported.
    pub capacity_bytes: u64,
    /// Bytes in use, by whatever is on it.
    pub used_bytes: u64,
    /// Whether it is at work.
    pub standing: OsdStanding,
}

/// Whether an OSD is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OsdStanding {
    /// It is.
    Up,
    /// It is not, and the cluster has not given it up.
    Down,
    /// It counts as full: Ceph refuses all writes to its pools.
    Full,
}

/// How an open store is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreReport {
    /// What it costs and how full it is.
    pub telemetry: Telemetry,
    /// Segments that have fewer copies than they should.
    pub thin_segments: usize,
    /// Damage that it met since it was opened.
    pub damage: StoreDamage,
    /// How its cache is doing, if it has one.
    pub cache: Option<CacheStatus>,
    /// The last scrub since it was opened, if there was one.
    pub scrub: Option<ScrubStatus>,
    /// The spindles of its drives, as far as they are let stop.
    pub spindles: Vec<SpindleReport>,
}

/// What of a store was found damaged since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreDamage {
    /// Headers of records that were damaged on all copies, and restored from the next ones.
    pub restored_headers: u64,
    /// Times that a copy of a block was bad or unreadable; another one was read if there is one.
    pub bad_copies: u64,
    /// Reads of clients that failed: of a block, every copy was bad or unreadable.
    pub failed_reads: u64,
}

/// One export as clients see it.
#[derive(Clone, Debug, Default)]
pub struct ExportReport {
    /// Its name.
    pub name: String,
    /// Its backend.
    pub backend: String,
    /// Size in bytes; zero while nobody has opened it and the policy does not say.
    pub size_bytes: u64,
    /// Refuses writes.
    pub read_only: bool,
    /// Connections that use it, by tenant name.
    pub connections: Vec<(String, u64)>,
}

/// Puts the workers' reports together; counters that all threads share are left at zero.
pub(crate) fn merge(plan: &Plan, workers: Vec<WorkerReport>) -> GateReport {
    let mut report = GateReport {
        mode: plan.policy.mode,
        backends: backends(plan, &workers),
        exports: exports(plan, &workers),
        ..GateReport::default()
    };
    for worker in workers {
        report.domains.extend(worker.domains.into_iter().map(|(_, domain)| domain));
        report.failed.extend(worker.failed);
    }
    report
}

fn backends(plan: &Plan, workers: &[WorkerReport]) -> Vec<BackendReport> {
    let known = |name: &str| {
        workers.iter().flat_map(|worker| &worker.backends).find(|backend| backend.name == name)
    };
    let of_policy = plan.policy.backends.iter().map(|backend| {
        let is_local = !matches!(backend.source, Source::Upstream(_));
        let fallback =
            BackendReport { name: backend.name.clone(), up: is_local, ..BackendReport::default() };
        BackendReport {
            source: source_name(&backend.source),
            ..known(&backend.name).cloned().unwrap_or(fallback)
        }
    });
    of_policy.collect()
}

/// Where the bytes of a backend are, for people and to tell backends apart.
pub fn source_name(source: &Source) -> String {
    match source {
        Source::Memory => "memory".to_owned(),
        Source::Tiered(volume) => {
            let tiers: Vec<_> = volume.tiers.iter().map(|tier| tier.backend.as_str()).collect();
            format!("tiers {}", tiers.join(", "))
        }
        Source::Spread(volume) => {
            let servers: Vec<_> = volume.servers.iter().map(|one| one.backend.as_str()).collect();
            format!("spread over {}", servers.join(", "))
        }
        Source::Ceph(volume) => format!("ceph {}/{}", volume.pool, volume.volume),
        Source::File { path, .. } => format!("file {}", path.display()),
        Source::Directory { path, .. } => format!("directory {}", path.display()),
        Source::Store(store) => {
            let drives: Vec<_> =
                store.drives.iter().map(|path| path.display().to_string()).collect();
            let drives = drives.join(", ");
            match &store.emulate {
                Some(model) => format!("store {drives} (emulated drives: {model})"),
                None => format!("store {drives}"),
            }
        }
        Source::Upstream(upstream) => {
            let scheme = if upstream.tls.is_some() { "nbds" } else { "nbd" };
            match &upstream.address {
                Address::Tcp(host) => format!("{scheme}://{host}"),
                Address::Unix(path) => format!("{scheme}+unix:///?socket={}", path.display()),
            }
        }
    }
}

/// Declared exports in the policy's order, then passed-through ones that are in use.
fn exports(plan: &Plan, workers: &[WorkerReport]) -> Vec<ExportReport> {
    let mut exports: Vec<ExportReport> = plan
        .policy
        .exports
        .iter()
        .map(|export| ExportReport {
            name: export.name.clone(),
            backend: export.backend.clone(),
            size_bytes: export.size_bytes.unwrap_or(0),
            read_only: export.read_only,
            connections: Vec::new(),
        })
        .collect();
    let mut counts: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    for client in workers.iter().flat_map(|worker| &worker.clients) {
        let position = exports.iter().position(|export| export.name == client.export);
        let position = position.unwrap_or_else(|| {
            exports.push(ExportReport {
                name: client.export.clone(),
                backend: client.backend.clone(),
                ..ExportReport::default()
            });
            exports.len() - 1
        });
        let export = &mut exports[position];
        export.size_bytes = client.size_bytes;
        export.read_only = client.read_only;
        *counts.entry((position, &client.tenant)).or_default() += 1;
    }
    for ((position, tenant), count) in counts {
        exports[position].connections.push((tenant.to_owned(), count));
    }
    exports
}
