//! The accounts of a gate as a JSON document: what `GET /v1/status` answers, `ctl status --json`
//! prints and `top` reads. docs/status.md tells what each number means.
//!
//! Counters grow from the start of the gate; a rate is the difference of two documents. Times are
//! in seconds. Queue time and device time are apart: the first is the gate's doing, the second the
//! storage's.

mod allocation;
mod exchange;
pub mod finding;
mod memory;
mod pool;
mod promise;
mod spread;
mod store;
mod volume;

use std::collections::BTreeMap;

use evenkeel_core::histogram::Histogram;
use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Kind;
use evenkeel_engine::cost::measured::{Measured, MeasuredLine};
use evenkeel_engine::policy::Policy;
use evenkeel_engine::report::{
    Culprit, DEVICE_NAME, DomainReport, HangingReport, ServerReport, SlowReport, TenantReport,
};
use evenkeel_io::gate::{BackendReport, ExportReport, GateReport};
use evenkeel_io::record::RecordingReport;
use serde::{Deserialize, Serialize};

use crate::config::mode_name;
use crate::version;
pub use allocation::{Allocation, Given, TierUse};
pub use exchange::{
    AgreedCost, Exchange, MeetingServer, Peer, Refused, ServedElsewhere, SharedDevice, SharedGroup,
    SharingGate, SharingTenant, SummedSite, WordRoom,
};
pub use finding::Finding;
pub use memory::{Behind, Memory, TenantMemory};
pub use pool::{Osd, Pool};
pub use promise::Promise;
pub use spread::{Change as SpreadChange, Server as SpreadServer, Spread};
pub use store::{Cache, Hits, LostBlock, Scrub, Spindle, Store};
pub use volume::{Moves, Tier, Volume};

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the gate.
    pub version: String,
    /// Time since it started.
    pub uptime_seconds: f64,
    /// `observe`, `shadow` or `enforce`.
    pub mode: String,
    /// Connections.
    pub connections: Connections,
    /// What requests and unread answers hold in the gate.
    pub memory: Memory,
    /// The recording under way, if there is one.
    #[serde(default)]
    pub recording: Option<Recording>,
    /// One for each group of backends, each volume, and each backend in neither.
    pub domains: Vec<Domain>,
    /// The state of each backend.
    pub backends: Vec<Backend>,
    /// What clients see.
    pub exports: Vec<Export>,
    /// How the exchange with other gates stands, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// How long the policy in force goes on if nobody confirms it, if it is on trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_left_seconds: Option<f64>,
}

/// Connections of the whole gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Open now.
    pub open: u64,
    /// Refused because a bound was reached.
    pub refused: u64,
    /// Closed because the peer broke the protocol.
    pub protocol_errors: u64,
    /// How often clients asked for exports that the policy does not let them open.
    #[serde(default)]
    pub refused_opens: u64,
}

/// A recording of the requests that the gate serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Where it goes.
    pub file: String,
    /// Requests written.
    pub requests: u64,
    /// Requests dropped because the disk could not keep up, or refused.
    pub dropped_requests: u64,
    /// Written requests whose arrival is stated later than it was.
    pub late_requests: u64,
    /// Bytes of the trace, before compression.
    pub bytes: u64,
    /// Why the disk refused, if it did.
    pub trouble: Option<String>,
}

/// One scheduling domain: servers whose shares count together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    /// The group's name, the volume's, or the backend's.
    pub name: String,
    /// Who shares.
    pub tenants: Vec<Tenant>,
    /// What is shared.
    pub servers: Vec<Server>,
    /// The tiered volume that the servers are the tiers of, if they are and it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Volume>,
    /// The volume that is spread over the servers, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Who gets how much of the tiers, if their requests are ordered together and any came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
    /// Who waited because of whom, most first.
    pub interference: Vec<Interference>,
    /// Wait of pairs that are not listed.
    pub interference_other_seconds: f64,
}

/// The accounts of one tenant in one domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub share: f64,
    /// What it is promised beside its share.
    #[serde(default)]
    pub promise: Promise,
    /// Requests queued or with a backend now.
    pub in_flight: u64,
    /// What arrived.
    pub offered: Amount,
    /// What was answered well.
    pub delivered: Amount,
    /// Requests answered with an error.
    pub failed_requests: u64,
    /// Requests whose client vanished before the answer.
    pub abandoned_requests: u64,
    /// The same by kind of request; kinds that never came are left out.
    pub by_op: BTreeMap<String, Operation>,
    /// Shares of the last full window, 0 to 1.
    pub window: Window,
    /// From arrival to dispatch, per unit.
    pub queue_time: Times,
    /// From dispatch to the backend's answer, per unit.
    pub device_time: Times,
    /// From arrival to answer, per request.
    pub total_time: Times,
    /// Request-time waited because of others: beyond what idle servers would have taken, own limit
    /// excluded. The pairs of the domain's interference divide it.
    pub waited_seconds: f64,
    /// Request-time that went to exports of the tenant's own that are slow beside others of their
    /// backend, or hang. Not in `waited_seconds`.
    #[serde(default)]
    pub waited_for_slots_seconds: f64,
    /// Request-time held by the tenant's own limit.
    pub throttled_seconds: f64,
    /// Request-time that enforcing would have held.
    pub shadow_held_seconds: f64,
    /// Units that enforcing would have held.
    pub shadow_held_units: u64,
    /// Time with something queued.
    pub backlogged_seconds: f64,
    /// Device time that it was given, as measured: the time for which backends were busy, divided
    /// by what requests take of them, whatever the policy says that they cost.
    pub service_seconds: f64,
    /// How it stands over the last seconds, and why; empty from gates that do not say.
    #[serde(default)]
    pub finding: Finding,
}

/// Requests and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// What arrived.
    pub offered: Amount,
    /// What was answered well.
    pub delivered: Amount,
    /// Requests answered with an error.
    pub failed_requests: u64,
    /// Requests whose client vanished before the answer.
    pub abandoned_requests: u64,
}

/// Shares of a domain's service over the last full window, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// What it got.
    pub delivered: f64,
    /// What its weight gives among those that were active.
    pub entitled: f64,
    /// What it could have had with the work that it offered.
    pub attainable: f64,
    /// Part of the window with a backlog.
    pub backlogged: f64,
}

/// A distribution of times; absent where nothing was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean_seconds: Option<f64>,
    /// Half are below, within 3 %.
    pub p50_seconds: Option<f64>,
    /// All but one in a hundred are below, within 3 %.
    pub p99_seconds: Option<f64>,
    /// The longest.
    pub max_seconds: Option<f64>,
    /// Counts by upper bound in nanoseconds, only on request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<(u64, u64)>,
}

/// One server's queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// The backend's name.
    pub name: String,
    /// Which request goes next, in mode enforce: the word of the policy file.
    #[serde(default)]
    pub discipline: String,
    /// Units with the backend now.
    pub in_service: u64,
    /// Units queued now.
    pub queued: u64,
    /// The depth in force, in units or bytes as configured; 0 for none.
    pub depth: u64,
    /// What an automatic depth has found, beside which it tries others now and then; absent before,
    /// and where the policy says the depth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_found: Option<u32>,
    /// The part of the throughput, 0 to 1, that twice that depth would gain, and that is forgone so
    /// that tenants with little wait less; absent where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_forgone: Option<f64>,
    /// Larger requests are cut into units of so many bytes; 0 from gates that do not say.
    #[serde(default)]
    pub unit_bytes: u64,
    /// What requests were found to take lately; absent before anything was found, and where the
    /// gate holds nothing back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_found: Option<CostFound>,
    /// Units that it has answered; 0 from gates that do not say.
    #[serde(default)]
    pub served_units: u64,
    /// Device time given out, as measured: the time for which it was busy and did not stall.
    pub service_seconds: f64,
    /// Time with something at the backend.
    pub busy_seconds: f64,
    /// Exports of the backend that have not answered some requests for long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hanging: Vec<Hanging>,
    /// Exports of the backend that answer like those of another, slower device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<Slow>,
}

/// What requests were found to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostFound {
    /// Reads.
    pub read: LineFound,
    /// Writes.
    pub write: LineFound,
    /// How many requests the device seems to serve at once; at most the depth.
    pub at_once: u32,
    /// Device time of the requests that were seen; 0 from gates that do not say.
    #[serde(default)]
    pub load_seconds: f64,
    /// Whether that is what requests cost; else the policy says what they do.
    #[serde(default)]
    pub is_in_force: bool,
}

/// What requests of one direction were found to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LineFound {
    /// Seconds of the device for any of them.
    pub fixed_seconds: f64,
    /// Seconds on top for each MiB.
    pub mib_seconds: f64,
    /// The size of requests around which that was seen; absent if hardly any were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// An export of a backend that is slow beside others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slow {
    /// Whose requests are slow.
    pub tenant: String,
    /// What the backend calls the export or file; empty if it is not open any more.
    pub export: String,
    /// How long its requests take.
    pub latency_seconds: f64,
    /// How long those of the quickest export of the backend take.
    pub quickest_seconds: f64,
}

/// An export of a backend that does not answer a tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hanging {
    /// Who waits for it.
    pub tenant: String,
    /// What the backend calls the export or file; empty if it is not open any more.
    pub export: String,
    /// Units of the tenant that are with it.
    pub requests: u64,
    /// For how long the oldest of them is.
    pub oldest_seconds: f64,
}

/// One pair of who waited because of whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interference {
    /// Who waited.
    pub victim: String,
    /// Whose requests were served meanwhile; `(device)` if the device did nothing for anybody, was
    /// slow for all, or took longer for a lone request.
    pub culprit: String,
    /// Request-time.
    pub waited_seconds: f64,
}

/// The state of a backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// What stands there.
    pub source: String,
    /// Whether requests can be served now.
    pub up: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Connections lost.
    pub reconnects: u64,
    /// Requests sent again after a reconnect.
    pub replayed_requests: u64,
    /// Requests failed because sending them again was not safe, or patience ran out.
    pub not_replayed_requests: u64,
    /// Requests failed because the server did not answer within `request_timeout`.
    #[serde(default)]
    pub timed_out_requests: u64,
    /// Exports in use that are larger or smaller than they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resized: Vec<Resized>,
    /// How the store is doing, if it is one and open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Store>,
    /// How the volume in a pool of Ceph is doing, if it is one and open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
}

/// An export of an upstream that is larger or smaller than it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resized {
    /// Its name at the server.
    pub export: String,
    /// What it was before it changed last.
    pub before_bytes: u64,
    /// What it is now.
    pub now_bytes: u64,
}

/// One export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// Its backend.
    pub backend: String,
    /// Its size.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Open connections by tenant.
    pub connections: BTreeMap<String, u64>,
}

/// How much a document tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Quantiles of the times.
    #[default]
    Quantiles,
    /// Their buckets too, so that two documents can be subtracted.
    Buckets,
}

impl Status {
    /// The document of a report. The policy tells the names of groups and volumes.
    pub fn new(report: &GateReport, policy: &Policy, detail: Detail) -> Self {
        let domains =
            report.domains.iter().map(|domain| self::domain(report, domain, policy, detail));
        Self {
            version: version::VERSION.to_owned(),
            uptime_seconds: report.uptime.as_secs_f64(),
            mode: mode_name(report.mode).to_owned(),
            connections: Connections {
                open: report.connections,
                refused: report.connections_refused,
                protocol_errors: report.protocol_errors,
                refused_opens: report.refused_opens,
            },
            memory: Memory::from(&report.memory),
            recording: report.recording.as_ref().map(Recording::from),
            domains: domains.collect(),
            backends: report.backends.iter().map(backend).collect(),
            exports: report.exports.iter().map(export).collect(),
            exchange: report.exchange.as_ref().map(Exchange::from),
            trial_left_seconds: None,
        }
    }
}

/// The name of a domain: its group's, its volume's, or that of its only server.
pub fn domain_name<'a>(domain: &'a DomainReport, policy: &'a Policy) -> &'a str {
    let Some(first) = domain.servers.first() else { return "" };
    let group = policy.groups.iter().find(|group| group.backends.contains(&first.name));
    let volume = || policy.volume_of(&first.name).map(|backend| &backend.name);
    group.map(|group| &group.name).or_else(volume).unwrap_or(&first.name)
}

/// The name of a tenant by its row; the empty name for a row that is not there.
pub fn tenant_name(domain: &DomainReport, index: usize) -> &str {
    domain.tenants.get(index).map_or("", |tenant| &tenant.name)
}

/// The name of whom somebody waited for.
pub fn culprit_name(domain: &DomainReport, culprit: Culprit) -> &str {
    match culprit {
        Culprit::Tenant(tenant) => tenant_name(domain, tenant.index()),
        Culprit::Device => DEVICE_NAME,
    }
}

fn domain(report: &GateReport, domain: &DomainReport, policy: &Policy, detail: Detail) -> Domain {
    let interference = domain.interference.iter().map(|pair| Interference {
        victim: tenant_name(domain, pair.victim.index()).to_owned(),
        culprit: culprit_name(domain, pair.culprit).to_owned(),
        waited_seconds: pair.waited.as_secs_f64(),
    });
    let proven = promise::proven(&domain.servers, policy);
    let tenants = domain.tenants.iter().map(|one| {
        let is_proven = proven.contains(one.name.as_str());
        let finding = finding::finding(report, domain, one);
        Tenant { finding, ..tenant(one, policy, is_proven, detail) }
    });
    Domain {
        name: domain_name(domain, policy).to_owned(),
        tenants: tenants.collect(),
        servers: domain.servers.iter().map(|one| server(one, &domain.tenants, policy)).collect(),
        volume: volume::volume(domain),
        spread: spread::spread(domain),
        allocation: allocation::allocation(domain),
        interference: interference.collect(),
        interference_other_seconds: domain.interference_other.as_secs_f64(),
    }
}

fn tenant(tenant: &TenantReport, policy: &Policy, is_proven: bool, detail: Detail) -> Tenant {
    let window = tenant.window;
    let mut sum = Operation::default();
    let mut by_op = BTreeMap::new();
    for kind in Kind::ALL {
        let counts = &tenant.by_kind[kind.index()];
        let operation = Operation {
            offered: Amount { requests: counts.offered_requests, bytes: counts.offered_bytes },
            delivered: Amount {
                requests: counts.delivered_requests,
                bytes: counts.delivered_bytes,
            },
            failed_requests: counts.failed_requests,
            abandoned_requests: counts.abandoned_requests,
        };
        sum = sum.plus(operation);
        if operation != Operation::default() {
            by_op.insert(kind.name().to_owned(), operation);
        }
    }
    Tenant {
        name: tenant.name.clone(),
        share: f64::from(tenant.weight_milli) / 1000.0,
        promise: Promise::of(&tenant.name, policy, is_proven),
        in_flight: tenant.in_flight,
        offered: sum.offered,
        delivered: sum.delivered,
        failed_requests: sum.failed_requests,
        abandoned_requests: sum.abandoned_requests,
        by_op,
        window: Window {
            delivered: window.delivered,
            entitled: window.entitled,
            attainable: window.attainable,
            backlogged: window.backlogged,
        },
        queue_time: times(&tenant.queue_time, detail),
        device_time: times(&tenant.device_time, detail),
        total_time: times(&tenant.total_time, detail),
        waited_seconds: tenant.waited.as_secs_f64(),
        waited_for_slots_seconds: tenant.waited_for_slots.as_secs_f64(),
        throttled_seconds: tenant.throttled.as_secs_f64(),
        shadow_held_seconds: tenant.shadow_held.as_secs_f64(),
        shadow_held_units: tenant.shadow_held_units,
        backlogged_seconds: tenant.backlogged.as_secs_f64(),
        service_seconds: tenant.service_time.as_secs_f64(),
        finding: Finding::default(),
    }
}

impl From<&RecordingReport> for Recording {
    fn from(report: &RecordingReport) -> Self {
        Self {
            file: report.name.clone(),
            requests: report.requests,
            dropped_requests: report.dropped,
            late_requests: report.late,
            bytes: report.bytes,
            trouble: report.trouble.clone(),
        }
    }
}

impl Amount {
    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { requests: self.requests + other.requests, bytes: self.bytes + other.bytes }
    }
}

impl Operation {
    fn plus(self, other: Self) -> Self {
        Self {
            offered: self.offered.plus(other.offered),
            delivered: self.delivered.plus(other.delivered),
            failed_requests: self.failed_requests + other.failed_requests,
            abandoned_requests: self.abandoned_requests + other.abandoned_requests,
        }
    }
}

fn times(histogram: &Histogram, detail: Detail) -> Times {
    let measured = histogram.count() > 0;
    let quantile = |q| histogram.quantile(q).map(evenkeel_core::time::Span::as_secs_f64);
    let buckets = match detail {
        Detail::Quantiles => Vec::new(),
        Detail::Buckets => histogram.buckets().map(|(upper, count)| (upper.0, count)).collect(),
    };
    Times {
        count: histogram.count(),
        mean_seconds: measured.then(|| histogram.mean().as_secs_f64()),
        p50_seconds: quantile(0.5),
        p99_seconds: quantile(0.99),
        max_seconds: measured.then(|| histogram.max().as_secs_f64()),
        buckets,
    }
}

fn name_of(tenant: TenantId, tenants: &[TenantReport]) -> String {
    tenants.get(tenant.index()).map_or_else(String::new, |tenant| tenant.name.clone())
}

fn slow(report: &SlowReport, tenants: &[TenantReport]) -> Slow {
    Slow {
        tenant: name_of(report.tenant, tenants),
        export: report.disk_name.clone(),
        latency_seconds: report.latency.as_secs_f64(),
        quickest_seconds: report.quickest.as_secs_f64(),
    }
}

fn hanging(report: &HangingReport, tenants: &[TenantReport]) -> Hanging {
    Hanging {
        tenant: name_of(report.tenant, tenants),
        export: report.disk_name.clone(),
        requests: report.requests,
        oldest_seconds: report.oldest.as_secs_f64(),
    }
}

fn server(server: &ServerReport, tenants: &[TenantReport], policy: &Policy) -> Server {
    Server {
        name: server.name.clone(),
        discipline: promise::discipline(server, policy).to_owned(),
        in_service: server.in_service,
        queued: server.queued,
        depth: server.depth,
        depth_found: server.depth_found,
        throughput_forgone: server.throughput_forgone,
        unit_bytes: server.unit_bytes,
        cost_found: server.measured.map(|one| cost_found(&one, server.is_cost_learned)),
        served_units: server.served_units,
        service_seconds: server.service_time.as_secs_f64(),
        busy_seconds: server.busy.as_secs_f64(),
        hanging: server.hanging.iter().map(|one| hanging(one, tenants)).collect(),
        slow: server.slow.iter().map(|one| slow(one, tenants)).collect(),
    }
}

fn cost_found(measured: &Measured, is_in_force: bool) -> CostFound {
    let line = |MeasuredLine { line, size_bytes }: MeasuredLine| LineFound {
        fixed_seconds: line.fixed.as_secs_f64(),
        mib_seconds: f64::from(1 << 20) / line.rate_bytes as f64,
        size_bytes,
    };
    CostFound {
        read: line(measured.read),
        write: line(measured.write),
        at_once: measured.at_once,
        load_seconds: measured.load.as_secs_f64(),
        is_in_force,
    }
}

fn backend(backend: &BackendReport) -> Backend {
    Backend {
        name: backend.name.clone(),
        source: backend.source.clone(),
        up: backend.up,
        trouble: backend.trouble.clone(),
        reconnects: backend.reconnects,
        replayed_requests: backend.replayed,
        not_replayed_requests: backend.not_replayed,
        timed_out_requests: backend.timed_out,
        resized: backend.resized.iter().map(resized).collect(),
        store: backend.store.as_ref().map(Store::from),
        pool: backend.pool.as_ref().map(Pool::from),
    }
}

fn resized(resized: &evenkeel_io::gate::Resized) -> Resized {
    Resized {
        export: resized.export.clone(),
        before_bytes: resized.before_bytes,
        now_bytes: resized.now_bytes,
    }
}

fn export(export: &ExportReport) -> Export {
    Export {
        name: export.name.clone(),
        backend: export.backend.clone(),
        size_bytes: export.size_bytes,
        read_only: export.read_only,
        connections: export.connections.iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::assert_document;
    use crate::testing::{sample_policy, sample_report};

    #[test]
    fn the_document_is_stable() {
        let status = Status::new(&sample_report(), &sample_policy(), Detail::Quantiles);
        let mut text = serde_json::to_string_pretty(&status).unwrap();
        text.push('\n');
        assert_document("crates/app/testdata/status.json", &text);
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
    }

    #[test]
    fn an_idle_tenant_has_no_times_rather_than_zero() {
        let idle = tenant(&TenantReport::default(), &sample_policy(), true, Detail::Buckets);
        assert_eq!(idle.queue_time, Times::default());
        assert!(idle.by_op.is_empty());
    }
}
