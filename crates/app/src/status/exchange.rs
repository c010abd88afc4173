//! The exchange with other gates in the status document: who is there, and what was decided from
//! what.

use evenkeel_core::control::array_cost::{ArrayCost, Rate};
use evenkeel_core::time::Span;
use evenkeel_io::exchange::{
    DeviceReport, ElsewhereReport, ExchangeReport, GroupReport, HostReport, PeerReport,
    RefusedReport, Room, ServerReport, TenantReport,
};
use serde::{Deserialize, Serialize};

use super::LineFound;

/// The exchange of the gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Its name.
    pub name: String,
    /// What the others call this gate.
    pub own: String,
    /// The server through which gates meet; `null` where they reach each other by themselves.
    #[serde(default)]
    pub server: Option<MeetingServer>,
    /// The other gates.
    pub peers: Vec<Peer>,
    /// The devices that are shared.
    pub devices: Vec<SharedDevice>,
    /// The groups whose shares count over several gates.
    #[serde(default)]
    pub groups: Vec<SharedGroup>,
    /// What came in and did not count.
    pub refused: Refused,
    /// Words of all other gates in the last minute, those that never came among them.
    #[serde(default)]
    pub expected_last_minute: u64,
    /// Of those, how many never came.
    #[serde(default)]
    pub lost_last_minute: u64,
    /// The room that words have until they are read; `null` where a server passes them on.
    #[serde(default)]
    pub room: Option<WordRoom>,
    /// By how much this gate's clock is ahead of the time by which the gates count periods; `null`
    /// as long as that is at most two of them.
    #[serde(default)]
    pub clock_off_seconds: Option<f64>,
    /// Another gate has spoken under the name of this one in the last minute.
    #[serde(default)]
    pub has_duplicate_name: bool,
}

/// Room for words in the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordRoom {
    /// What the largest words of all gates take that come in at once.
    pub wanted_bytes: u64,
    /// What the kernel gives.
    pub given_bytes: u64,
}

/// A server through which gates meet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeetingServer {
    /// `nats` or `etcd`.
    pub kind: String,
    /// Where it is.
    pub address: String,
    /// Whether it is there.
    pub connected: bool,
    /// Connections made so far.
    pub connects: u64,
}

/// Another gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// What the policy calls it.
    pub name: String,
    /// Where it is; `null` as long as its name leads nowhere.
    pub address: Option<String>,
    /// Time since its word was last taken; `null` if it never was.
    pub silent_seconds: Option<f64>,
    /// By how many periods its clock was ahead when it last spoke.
    pub skew_periods: i64,
    /// Datagrams sent to it.
    pub sent: u64,
    /// Datagrams that the network would not take.
    pub not_sent: u64,
    /// Datagrams of it, with a good tag.
    pub received: u64,
    /// Those of them that did not count.
    pub refused: u64,
    /// Its words in the last minute, those that never came among them.
    #[serde(default)]
    pub expected_last_minute: u64,
    /// Of those, how many never came.
    #[serde(default)]
    pub lost_last_minute: u64,
    /// Words of it that never came, since this gate started.
    #[serde(default)]
    pub lost: u64,
    /// Why they do not, with the remedy; `null` if nobody has to do anything about it.
    #[serde(default)]
    pub refused_because: Option<String>,
}

/// What came in and did not count, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// No datagram of the exchange.
    pub malformed: u64,
    /// With a tag that is not of the key.
    pub forged: u64,
    /// Of a device that is not shared here.
    pub unknown_device: u64,
    /// Of a gate whose periods have another length.
    #[serde(default)]
    pub other_period: u64,
    /// Of a gate that is no peer.
    pub stranger: u64,
    /// As old as what is known, or long past.
    pub stale: u64,
    /// Of the peer's life before it started anew.
    pub former: u64,
    /// Of a clock that is far ahead.
    pub ahead: u64,
    /// With figures that cannot be true.
    pub absurd: u64,
    /// Beyond the tenants of all gates that can be kept in mind.
    #[serde(default)]
    pub crowded: u64,
}

/// A device that several gates share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SharedDevice {
    /// The backend.
    pub backend: String,
    /// What all gates before the device call it: those that call it otherwise are not heard.
    #[serde(default)]
    pub array: String,
    /// Who decides: the word of the policy file.
    pub control: String,
    /// Whether gates divide it now; else this one is alone before it, and nothing else is said.
    #[serde(default)]
    pub is_divided: bool,
    /// What all gates agree that requests take there; absent if each goes by its policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<AgreedCost>,
    /// Time between two decisions.
    pub period_seconds: f64,
    /// Decisions so far.
    pub decisions: u64,
    /// Requests that this gate may have at the device at once.
    pub slots: u32,
    /// Requests that all gates are meant to have there; 0 if nobody knows.
    pub slots_all: u32,
    /// Why it is not more.
    pub reason: String,
    /// This gate's tenants whose targets are not met.
    pub unmet: Vec<String>,
    /// This gate's tenants that are below their floor over all gates, though they ask for it.
    #[serde(default)]
    pub below_floor: Vec<String>,
    /// What other gates say otherwise than this one, with the remedy.
    #[serde(default)]
    pub disagreements: Vec<String>,
    /// What this gate's tenants had in the last period.
    #[serde(default)]
    pub tenants: Vec<SharingTenant>,
    /// Whether that is by the sums of others' words, as in a large site; absent if it is by words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<SummedSite>,
    /// What was decided from, by gate, or by the sum of a shard of them.
    pub gates: Vec<SharingGate>,
}

/// A site whose gates hear sums of each other's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummedSite {
    /// Of how many gates they are, this one among them.
    pub gates: u32,
    /// Whether this gate adds up the words of its shard.
    pub collects: bool,
}

/// What all gates before a device take requests to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgreedCost {
    /// Reads.
    pub read: LineFound,
    /// Writes.
    pub write: LineFound,
    /// Device time of the requests that it was learned from, at most 600; absent if a policy says
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_seconds: Option<f64>,
}

/// A tenant of this gate at a shared device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SharingTenant {
    /// Its name.
    pub name: String,
    /// Its part of what the device did in the last period, 0 to 1: through this gate.
    pub part_here: f64,
    /// The same through all gates.
    pub part_of_all: f64,
}

/// One gate in the last decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SharingGate {
    /// What it is called.
    pub name: String,
    /// Periods since its word.
    pub missed_periods: u64,
    /// Mean time at the device.
    pub device_seconds: Option<f64>,
    /// Mean time from arrival to completion.
    pub response_seconds: Option<f64>,
    /// Slots used, on average over the period.
    pub used_slots: f64,
    /// Slots that it would use: requests at the device and waiting.
    pub need_slots: u32,
    /// Requests that wait.
    pub queued: u32,
    /// Requests per second that are expected.
    pub expected_per_second: u32,
    /// Completions of the period.
    pub completions: u32,
    /// Of those, how many took longer than their target.
    pub late: u32,
}

/// A group of servers whose shares count over several gates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SharedGroup {
    /// Its name.
    pub name: String,
    /// What other gates served of this gate's tenants.
    pub elsewhere: Vec<ServedElsewhere>,
    /// For how long others have been presumed to serve what they did, since they are not heard;
    /// `null` if they are, or if nothing is presumed any more.
    #[serde(default)]
    pub presumed_seconds: Option<f64>,
    /// What other gates say otherwise than this one, with the remedy.
    #[serde(default)]
    pub disagreements: Vec<String>,
}

/// What other gates served of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServedElsewhere {
    /// Whom.
    pub tenant: String,
    /// Device time by the cost model, since this gate started.
    pub service_seconds: f64,
}

impl From<&ExchangeReport> for Exchange {
    fn from(report: &ExchangeReport) -> Self {
        Self {
            name: report.name.clone(),
            own: report.own.clone(),
            server: report.server.as_ref().map(MeetingServer::from),
            peers: report.peers.iter().map(Peer::from).collect(),
            devices: report.devices.iter().map(SharedDevice::from).collect(),
            groups: report.groups.iter().map(SharedGroup::from).collect(),
            refused: Refused::from(&report.refused),
            expected_last_minute: report.words.all,
            lost_last_minute: report.words.lost,
            room: report.room.as_ref().map(WordRoom::from),
            clock_off_seconds: report.clock_off_ns.map(|ns| ns as f64 / 1e9),
            has_duplicate_name: report.has_duplicate_name,
        }
    }
}

impl From<&Room> for WordRoom {
    fn from(room: &Room) -> Self {
        let Room { wanted_bytes, given_bytes } = *room;
        Self { wanted_bytes: wanted_bytes as u64, given_bytes: given_bytes as u64 }
    }
}

impl From<&ServerReport> for MeetingServer {
    fn from(report: &ServerReport) -> Self {
        Self {
            kind: report.kind.to_owned(),
            address: report.address.clone(),
            connected: report.is_connected,
            connects: report.connects,
        }
    }
}

impl From<&GroupReport> for SharedGroup {
    fn from(report: &GroupReport) -> Self {
        let elsewhere = |one: &ElsewhereReport| ServedElsewhere {
            tenant: one.tenant.clone(),
            service_seconds: one.cost.as_secs_f64(),
        };
        Self {
            name: report.name.clone(),
            elsewhere: report.elsewhere.iter().map(elsewhere).collect(),
            presumed_seconds: report.presumed_for.map(Span::as_secs_f64),
            disagreements: report.disagreements.clone(),
        }
    }
}

impl From<&PeerReport> for Peer {
    fn from(report: &PeerReport) -> Self {
        Self {
            name: report.name.clone(),
            address: report.address.clone(),
            silent_seconds: report.silent_for.map(Span::as_secs_f64),
            skew_periods: report.skew_periods,
            sent: report.sent,
            not_sent: report.not_sent,
            received: report.received,
            refused: report.refused,
            expected_last_minute: report.words.all,
            lost_last_minute: report.words.lost,
            lost: report.lost,
            refused_because: report.refused_because.clone(),
        }
    }
}

impl From<&RefusedReport> for Refused {
    fn from(report: &RefusedReport) -> Self {
        let RefusedReport { malformed, forged, unknown_device, other_period, peers } = *report;
        Self {
            malformed,
            forged,
            unknown_device,
            other_period,
            stranger: peers.strangers,
            stale: peers.stale,
            former: peers.former,
            ahead: peers.ahead,
            absurd: peers.absurd,
            crowded: peers.crowded,
        }
    }
}

impl Refused {
    /// Every reason and its count.
    pub fn by_reason(&self) -> [(&'static str, u64); 10] {
        [
            ("malformed", self.malformed),
            ("forged", self.forged),
            ("unknown_device", self.unknown_device),
            ("other_period", self.other_period),
            ("stranger", self.stranger),
            ("stale", self.stale),
            ("former", self.former),
            ("ahead", self.ahead),
            ("absurd", self.absurd),
            ("crowded", self.crowded),
        ]
    }
}

impl From<&DeviceReport> for SharedDevice {
    fn from(report: &DeviceReport) -> Self {
        Self {
            backend: report.backend.clone(),
            array: report.array.clone(),
            control: report.method.name().to_owned(),
            is_divided: report.is_divided,
            cost: report.cost.as_ref().map(AgreedCost::from),
            period_seconds: report.period.as_secs_f64(),
            decisions: report.decisions,
            slots: report.slots,
            slots_all: report.slots_all,
            reason: report.reason.clone(),
            unmet: report.unmet.clone(),
            below_floor: report.below_floor.clone(),
            disagreements: report.disagreements.clone(),
            tenants: report.tenants.iter().map(SharingTenant::from).collect(),
            sums: report.sums.map(|sums| SummedSite { gates: sums.gates, collects: sums.collects }),
            gates: report.hosts.iter().map(SharingGate::from).collect(),
        }
    }
}

impl From<&ArrayCost> for AgreedCost {
    fn from(cost: &ArrayCost) -> Self {
        let line = |rate: Rate| LineFound {
            fixed_seconds: rate.fixed.as_secs_f64(),
            mib_seconds: f64::from(1 << 20) / rate.rate_bytes as f64,
            size_bytes: None,
        };
        Self {
            read: line(cost.read),
            write: line(cost.write),
            load_seconds: (!cost.is_written()).then(|| f64::from(cost.load_s)),
        }
    }
}

impl From<&TenantReport> for SharingTenant {
    fn from(report: &TenantReport) -> Self {
        let TenantReport { tenant, part_here, part_all } = report;
        Self { name: tenant.clone(), part_here: *part_here, part_of_all: *part_all }
    }
}

impl From<&HostReport> for SharingGate {
    fn from(report: &HostReport) -> Self {
        Self {
            name: report.name.clone(),
            missed_periods: report.missed,
            device_seconds: report.device_latency.map(Span::as_secs_f64),
            response_seconds: report.response.map(Span::as_secs_f64),
            used_slots: report.used,
            need_slots: report.need,
            queued: report.queued,
            expected_per_second: report.expected_per_s,
            completions: report.completions,
            late: report.late,
        }
    }
}
