//! How the exchange stands, for people and programs.

use evenkeel_core::control::array_cost::ArrayCost;
use evenkeel_core::control::loss::Words;
use evenkeel_core::control::member::Method;
use evenkeel_core::control::peers::PeerCounts;
use evenkeel_core::time::Span;

/// The exchange at one instant.
#[derive(Clone, Debug, Default)]
pub struct ExchangeReport {
    /// Its name.
    pub name: String,
    /// What the others call this gate.
    pub own: String,
    /// The server in between, if there is one.
    pub server: Option<ServerReport>,
    /// The other gates.
    pub peers: Vec<PeerReport>,
    /// The devices that are shared.
    pub devices: Vec<DeviceReport>,
    /// The groups whose shares count over several gates.
    pub groups: Vec<GroupReport>,
    /// What came in and did not count.
    pub refused: RefusedReport,
    /// Words of all other gates in the last minute.
    pub words: Words,
    /// The room that they have until they are read; none where a server passes them on.
    pub room: Option<Room>,
    /// By how many nanoseconds this gate's clock is ahead of the time by which the gates count, if
    /// that is more than two periods.
    pub clock_off_ns: Option<i64>,
    /// Whether another gate has spoken under the name of this one in the last minute.
    pub has_duplicate_name: bool,
}

/// Room for words in the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// What the largest words of all peers take that come in at once.
    pub wanted_bytes: usize,
    /// What the kernel gives.
    pub given_bytes: usize,
}

/// A server through which gates meet. Nothing waits for it.
#[derive(Clone, Debug, Default)]
pub struct ServerReport {
    /// `nats` or `etcd`.
    pub kind: &'static str,
    /// Where it is, or several of one cluster are.
    pub address: String,
    /// Whether it is there.
    pub is_connected: bool,
    /// Connections made so far.
    pub connects: u64,
}

/// A group of servers whose shares count over several gates.
#[derive(Clone, Debug, Default)]
pub struct GroupReport {
    /// Its name.
    pub name: String,
    /// What other gates served, by tenant of this one.
    pub elsewhere: Vec<ElsewhereReport>,
    /// For how long others have been presumed to serve what they did, since they are not heard.
    pub presumed_for: Option<Span>,
    /// What other gates say otherwise than this one, in words with the remedy.
    pub disagreements: Vec<String>,
}

/// What other gates served of a tenant.
#[derive(Clone, Debug, Default)]
pub struct ElsewhereReport {
    /// Whom.
    pub tenant: String,
    /// The cost of it since this gate started, as the accounts count it.
    pub cost: Span,
}

/// Another gate.
#[derive(Clone, Debug, Default)]
pub struct PeerReport {
    /// What it is called in the policy.
    pub name: String,
    /// Where it is; none as long as its name leads nowhere.
    pub address: Option<String>,
    /// Time since its word was last taken; none if it never was.
    pub silent_for: Option<Span>,
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
    /// Its words in the last minute.
    pub words: Words,
    /// Words of it that never came, since this gate started.
    pub lost: u64,
    /// Why they do not, where somebody has to do something about it: its clock, its state folder or
    /// its name.
    pub refused_because: Option<String>,
}

/// What came in and did not count, by reason, since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedReport {
    /// No datagram of the exchange.
    pub malformed: u64,
    /// With a tag that is not of the key.
    pub forged: u64,
    /// Of a device that is not shared here.
    pub unknown_device: u64,
    /// Of a gate whose periods have another length.
    pub other_period: u64,
    /// Refused by the rules of the peers, and taken, over all devices.
    pub peers: PeerCounts,
}

/// A shared device, as this gate sees it.
#[derive(Clone, Debug, Default)]
pub struct DeviceReport {
    /// The backend.
    pub backend: String,
    /// What all gates before the device call it.
    pub array: String,
    /// Who decides.
    pub method: Method,
    /// Whether gates divide it now; else this one is alone before it.
    pub is_divided: bool,
    /// Time between two decisions.
    pub period: Span,
    /// Decisions so far.
    pub decisions: u64,
    /// Requests that this gate may have at the device at once.
    pub slots: u32,
    /// Requests that all gates together are meant to have there; zero if nobody knows.
    pub slots_all: u32,
    /// What all gates agree that requests take there; none if each goes by its policy.
    pub cost: Option<ArrayCost>,
    /// Why it is not more, in words.
    pub reason: String,
    /// Names of this gate's tenants whose targets are not met.
    pub unmet: Vec<String>,
    /// Names of this gate's tenants that are below their floor over all gates, though they ask.
    pub below_floor: Vec<String>,
    /// What other gates say otherwise than this one, in words with the remedy.
    pub disagreements: Vec<String>,
    /// This gate's tenants of whom any gate told something in the last period.
    pub tenants: Vec<TenantReport>,
    /// Whether that is by the sums of others' words, in a large site.
    pub sums: Option<SumsReport>,
    /// What was decided from, by gate, this one among them; where sums are heard by shard of gates.
    pub hosts: Vec<HostReport>,
}

/// A site in which words are added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SumsReport {
    /// How many gates the sums are of, this one among them.
    pub gates: u32,
    /// Whether this gate adds up the words of its shard.
    pub collects: bool,
}

/// A tenant of this gate at a shared device.
#[derive(Clone, Debug, Default)]
pub struct TenantReport {
    /// Its name.
    pub tenant: String,
    /// Its part of what the device did in the period, 0 to 1, by cost: through this gate.
    pub part_here: f64,
    /// The same through all gates.
    pub part_all: f64,
}

/// One gate in the last decision.
#[derive(Clone, Debug, Default)]
pub struct HostReport {
    /// What it is called; its number in hexadecimal if it is no longer a peer; or the shard.
    pub name: String,
    /// Periods since its word.
    pub missed: u64,
    /// Mean time at the device of the requests that completed in the period; none if none did.
    pub device_latency: Option<Span>,
    /// Mean time from arrival to completion of those.
    pub response: Option<Span>,
    /// Slots used on average over the period.
    pub used: f64,
    /// Slots that it would use: those with the device and those that wait at the end.
    pub need: u32,
    /// Requests that wait.
    pub queued: u32,
    /// Requests per second that are expected.
    pub expected_per_s: u32,
    /// Completions of the period.
    pub completions: u32,
    /// Of those, how many took longer than their target.
    pub late: u32,
}
