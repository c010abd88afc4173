//! The policy as data: what the operator's file means, free of syntax.
//!
//! The app parses the file and maps problems back to lines; `io` builds the running gate from this;
//! the planner will read the same. Names are unique per kind; references between parts are by name
//! here and by dense index in [`Domain`].

pub mod access;
mod address;
pub mod admission;
pub mod check;
mod disciplines;
mod domain;
pub(crate) mod exchange;
mod joint;
pub mod matching;
mod preference;
mod reach;
mod scheduling;
mod server;

use std::net::IpAddr;
use std::path::PathBuf;

use evenkeel_core::control::summary::HostId;
use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::{Floor, Share};
use evenkeel_core::time::Span;

use crate::cost::CostModel;
use crate::lease::Times;
use crate::pooled;
use crate::spread::Shape;

pub use address::Address;
pub use domain::{ServerTable, TenantTable};
/// Who decides the slots of a device that several gates share.
pub use evenkeel_core::control::member::Method;
/// How much may be with the device at once; requests are counted in units here.
pub use evenkeel_core::sched::depth::DepthPolicy as Depth;
pub use exchange::{Exchange, Meeting};
pub use joint::Joint;
pub use preference::{HostFigures, MetricsPage, Preference};
pub use reach::Reach;
pub use scheduling::{Control, Scheduling};
pub use server::NbdServer;

/// Everything the operator decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// How far the gate may go.
    pub mode: Mode,
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// Where the bytes are.
    pub backends: Vec<Backend>,
    /// Backends that give total-service shares together.
    pub groups: Vec<Group>,
    /// What clients see.
    pub exports: Vec<Export>,
    /// Who shares.
    pub tenants: Vec<Tenant>,
    /// With whom this gate shares devices, if with anybody.
    pub exchange: Option<Exchange>,
    /// Bounds on what the gate itself may use.
    pub memory: Memory,
    /// Who may ask for metrics and status over TCP.
    pub metrics: Metrics,
}

/// How far the gate may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Count and attribute; delay nothing.
    #[default]
    Observe,
    /// Compute what would be held; hold nothing.
    Shadow,
    /// Hold.
    Enforce,
}

/// Where clients connect.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Its name, for tenants that match on it.
    pub name: String,
    /// Where.
    pub address: Address,
    /// TLS, if offered.
    pub tls: Option<ListenerTls>,
}

/// TLS of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerTls {
    /// PEM file with the server's chain.
    pub certificate: PathBuf,
    /// PEM file with its key.
    pub key: PathBuf,
    /// PEM file with the authorities that sign clients; set means mutual TLS.
    pub client_authority: Option<PathBuf>,
    /// Refuse clients that do not start TLS.
    pub required: bool,
}

/// Where the bytes are.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// What stands there.
    pub source: Source,
    /// How its requests are queued.
    pub scheduling: Scheduling,
}

impl Backend {
    /// What the gates before it call the device: what tells it apart on all hosts, or else its
    /// name.
    pub fn array(&self) -> &str {
        self.array_of_all_hosts().unwrap_or(&self.name)
    }

    /// What the policy says that the array is called, or the address of its server. A unix socket
    /// and a loopback address are other servers on each host, so that they tell nothing.
    pub fn array_of_all_hosts(&self) -> Option<&str> {
        let address = match &self.source {
            Source::Upstream(Upstream { address, .. }) => address.beyond_this_host(),
            _ => None,
        };
        self.scheduling.array.as_deref().or(address)
    }

    /// The tiered volume that it is, if it is one.
    pub fn volume(&self) -> Option<&Tiered> {
        match &self.source {
            Source::Tiered(volume) => Some(volume),
            _ => None,
        }
    }

    /// The spread volume that it is, if it is one.
    pub fn spread(&self) -> Option<&Spread> {
        match &self.source {
            Source::Spread(volume) => Some(volume),
            _ => None,
        }
    }

    /// Whether it is a volume over other backends, of either kind.
    pub fn is_volume(&self) -> bool {
        matches!(self.source, Source::Tiered(_) | Source::Spread(_))
    }

    /// What it is made of, if it is a volume.
    pub fn members(&self) -> &[Member] {
        match &self.source {
            Source::Tiered(volume) => &volume.tiers,
            Source::Spread(volume) => &volume.servers,
            _ => &[],
        }
    }

    /// How requests for the cache of its store are queued, where they are ordered beside those for
    /// its drives: by a discipline that spans devices, over a store that has an SSD.
    pub fn cache_scheduling(&self) -> Option<Scheduling> {
        let Source::Store(store) = &self.source else { return None };
        let is_apart = self.scheduling.discipline.spans_tiers() && store.cache.drive.is_some();
        let CacheDevice { depth, cost, capacity_iops } = store.cache.device;
        is_apart.then(|| Scheduling { depth, cost, capacity_iops, ..self.scheduling.clone() })
    }

    /// Whether this backend is a member of it.
    pub fn has_member(&self, backend: &str) -> bool {
        self.members().iter().any(|member| member.backend == backend)
    }
}

/// What stands behind a backend.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// An NBD server.
    Upstream(Upstream),
    /// One file or block device, sliced by its exports.
    File {
        /// Its path.
        path: PathBuf,
        /// Bypass the page cache.
        direct: bool,
    },
    /// A folder; each export is a sparse file in it.
    Directory {
        /// Its path.
        path: PathBuf,
        /// Bypass the page cache.
        direct: bool,
    },
    /// Drives that are a chained log together, as `evenkeel store create` makes it. Each export is
    /// one of its volumes, or a part of one.
    Store(Store),
    /// Memory; gone when the gate stops.
    Memory,
    /// Other backends, as one volume of which every part lies where it is served best.
    Tiered(Tiered),
    /// A volume over other backends, each object of it on one that is chosen.
    Spread(Spread),
    /// A volume in a pool of Ceph.
    Ceph(Ceph),
}

impl Source {
    /// How it passes from one gate to the next, if it is a volume over other backends.
    pub fn takeover(&self) -> Option<&Takeover> {
        match self {
            Self::Tiered(Tiered { takeover, .. }) | Self::Spread(Spread { takeover, .. }) => {
                Some(takeover)
            }
            _ => None,
        }
    }

    /// The same, to change it.
    pub fn takeover_mut(&mut self) -> Option<&mut Takeover> {
        match self {
            Self::Tiered(Tiered { takeover, .. }) | Self::Spread(Spread { takeover, .. }) => {
                Some(takeover)
            }
            _ => None,
        }
    }
}

/// A volume in a pool of Ceph, each object of it under the name whose OSDs were emptier when it was
/// first written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceph {
    /// The cluster's configuration file, which says where its monitors are.
    pub conf: PathBuf,
    /// The user of Ceph, without `client.`.
    pub user: String,
    /// The file with the user's secret; where the configuration says if none.
    pub keyring: Option<PathBuf>,
    /// The pool.
    pub pool: String,
    /// The volume in it; see [`is_name`](crate::pooled::is_name).
    pub volume: String,
    /// What the volume is like.
    pub shape: pooled::Shape,
    /// The part of each OSD, in thousandths, that objects may fill: 1 to 1000.
    pub ceiling_milli: u32,
    /// How long a request may wait for the cluster.
    pub patience: Span,
    /// How a gate that had the volume before is kept from writing.
    pub fence: Fence,
}

impl Ceph {
    /// Whether both are one volume, and differ in what may change while it is open at most: its
    /// size, the ceiling and the fence.
    pub fn is_volume_of(&self, other: &Self) -> bool {
        let Self { ceiling_milli, fence, shape, .. } = *other;
        let shape = pooled::Shape { size_bytes: shape.size_bytes, ..self.shape };
        Self { shape, ceiling_milli, fence, ..self.clone() } == *other
    }
}

/// How a gate that had a volume before is kept from writing, once another one has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fence {
    /// The OSDs refuse its address.
    #[default]
    Blocklist,
    /// By nothing: the volume is taken from it at the operator's word alone.
    None,
}

/// A chained log: a crash-safe store over drives of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// All its drives, files or block devices, in any order; 1 to [`STORE_DRIVES_MAX`].
    pub drives: Vec<PathBuf>,
    /// Bypass the page cache.
    pub direct: bool,
    /// Open it even if drives are missing, as long as those that are there have a whole copy.
    pub degraded: bool,
    /// The model of drive that each of them is made as slow as, for trials.
    pub emulate: Option<String>,
    /// The spindle of a drive stops when nothing was asked of it for that long; never without.
    pub power_down: Option<Span>,
    /// What it keeps so that reads do not reach the drives.
    pub cache: StoreCache,
}

impl Default for Store {
    /// No drives, used as the policy says nothing of them.
    fn default() -> Self {
        Self {
            drives: Vec::new(),
            direct: true,
            degraded: false,
            emulate: None,
            power_down: None,
            cache: StoreCache::default(),
        }
    }
}

/// What a store keeps in memory and on an SSD: what was written last, and what is read often.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreCache {
    /// Bytes of memory for it, the index of the SSD included; zero for no cache.
    pub memory_bytes: u64,
    /// An SSD, or a file on one, for what the memory cannot hold.
    pub drive: Option<PathBuf>,
    /// Bytes that the SSD can be written in its life; zero if nobody knows.
    pub endurance_bytes: u64,
    /// Bytes that it may be written in a day; zero for no bound.
    pub daily_writes_bytes: u64,
    /// What the cache can do, where the backend's discipline orders its requests beside those of
    /// the drives ([`Backend::cache_scheduling`]).
    pub device: CacheDevice,
}

/// What the cache of a store can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheDevice {
    /// How much may be with it at once.
    pub depth: Depth,
    /// What a read costs there.
    pub cost: CostModel,
    /// See [`Scheduling::capacity_iops`].
    pub capacity_iops: Option<u64>,
}

impl Default for CacheDevice {
    /// As of any backend.
    fn default() -> Self {
        let Scheduling { depth, cost, capacity_iops, .. } = Scheduling::default();
        Self { depth, cost, capacity_iops }
    }
}

impl Default for StoreCache {
    fn default() -> Self {
        let memory_bytes = 64 << 20;
        Self {
            memory_bytes,
            drive: None,
            endurance_bytes: 0,
            daily_writes_bytes: 0,
            device: CacheDevice::default(),
        }
    }
}

/// Most drives of one store.
pub const STORE_DRIVES_MAX: usize = 32;

/// The volume of a store that an export or a tier stands on if it names none.
pub const FIRST_VOLUME: &str = "0";

/// A volume over several backends of different speed.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiered {
    /// What it is made of, the slowest first; 2 to [`TIERS_MAX`]. A backend is part of one volume
    /// at most, and of no group then.
    pub tiers: Vec<Member>,
    /// The volume is placed and moved in extents of this many bytes; a power of two, 64 KiB to
    /// 16 MiB.
    pub extent_bytes: u64,
    /// What decides where an extent lies.
    pub moves: Moves,
    /// How it passes from one gate to the next.
    pub takeover: Takeover,
}

/// A volume over several backends, its servers: each object lies on the one of a few candidates
/// that was better when it was first written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The servers; 2 to [`SERVERS_MAX`](crate::spread::layout::SERVERS_MAX). A backend is part of
    /// one volume at most, and is nobody else's then.
    pub servers: Vec<Member>,
    /// Those of them, by their backends, whose objects are to be moved to the others.
    pub leaving: Vec<String>,
    /// What makes a server the better one, the most important first; not empty.
    pub prefer: Vec<Preference>,
    /// The servers, by their backends, that are near this gate.
    pub near: Vec<String>,
    /// What the volume is like.
    pub shape: Shape,
    /// The part of each server, in thousandths, that objects may fill: 1 to 1000.
    pub ceiling_milli: u32,
    /// How it passes from one gate to the next.
    pub takeover: Takeover,
}

/// How a volume on servers that several gates can reach passes from one gate to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// How long its owner may be silent.
    pub times: Times,
    /// The command that keeps a gate from the servers, with its arguments; none if empty.
    pub fence: Vec<String>,
    /// A gate that was silent for so long may be displaced though it is not fenced off; none if
    /// that takes the operator's word.
    pub unfenced_after: Option<Span>,
    /// For so long after a connection was lost a server may carry out what it had read from it.
    pub late: Span,
}

impl Takeover {
    /// What servers need to let go of a lost connection unless the policy says otherwise.
    pub const LATE: Span = Span::from_secs(30);
    /// The longest span that the policy may name.
    pub const LATE_MAX: Span = Span::from_secs(600);
}

impl Default for Takeover {
    fn default() -> Self {
        Self { times: Times::default(), fence: Vec::new(), unfenced_after: None, late: Self::LATE }
    }
}

/// What a volume is made of: a tier, or a server that it is spread over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The backend, whose scheduling says how much it can do.
    pub backend: String,
    /// Its export at an upstream, its file in a directory, or its volume in a store; empty for what
    /// has one only, and for the first volume.
    pub device: String,
    /// How much of it to use; all of it if none. Memory and new files in a directory need one.
    pub size_bytes: Option<u64>,
}

/// What decides where an extent of a tiered volume lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moves {
    /// It stays where it was put first.
    Off,
    /// Extents that are often asked for move to faster tiers, in exchange for others.
    #[default]
    ByHeat,
}

/// Most tiers of one volume.
pub const TIERS_MAX: usize = evenkeel_core::share::DEVICES_MAX;

/// An NBD server behind the gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// Where.
    pub address: Address,
    /// TLS, if wanted.
    pub tls: Option<UpstreamTls>,
    /// Connections per export, where the server allows several; 1 to 16.
    pub connections: u32,
    /// Offer whatever the server lists, beside the declared exports.
    pub passthrough: bool,
    /// The tenants that may open what is passed through; see [`access`].
    pub allow: Option<Vec<String>>,
    /// Whether acknowledged writes survive the death of the server's process (as in a page cache).
    /// If not, the first flush after an unplanned reconnect fails, since what it covers may be
    /// gone.
    pub writes_survive_restart: bool,
    /// How long requests wait for a lost server before they fail.
    pub patience: Span,
    /// For so long after a connection was lost the server may carry out what it had read from it;
    /// [`Takeover::LATE`] if the policy does not say. Of a server of a volume the volume says it.
    pub late: Option<Span>,
    /// For so long the server may take to answer a read or a write, and
    /// [`EFFECT_TIMEOUT_FACTOR`](Self::EFFECT_TIMEOUT_FACTOR) times as long for a flush, trim or
    /// zeroing; zero for as long as it likes. Then the request fails and its connection is cut.
    pub request_timeout: Span,
    /// Which server it is.
    pub server: NbdServer,
    /// Where the server's host tells how busy it is, for [`Preference::is_of_hosts`].
    pub metrics: Option<MetricsPage>,
}

impl Upstream {
    /// The patience with a server unless the policy says otherwise.
    pub const PATIENCE: Span = Span::from_secs(30);
    /// The timeout of reads and writes unless the policy says otherwise.
    pub const REQUEST_TIMEOUT: Span = Span::from_secs(30);
    /// So many times as long is the timeout of what moves no data, whatever its length.
    pub const EFFECT_TIMEOUT_FACTOR: u64 = 20;
}

/// TLS towards an upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamTls {
    /// PEM file with the authorities to trust.
    pub authority: PathBuf,
    /// PEM files with our chain and key, for mutual TLS.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name to verify, if not the host of the address.
    pub server_name: Option<String>,
}

/// Which queue discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Arrival order.
    Fifo,
    /// Start-time fair queuing.
    Sfq,
    /// Floors first, then shares, below limits.
    Mclock,
    /// Response times: earliest deadline first.
    Edf,
    /// Slots and an order on which all gates before the device agree.
    Shared,
    /// Over the tiers of a volume, or the drives and the cache of a store: equal requests per
    /// share, wherever they go.
    Fair,
    /// Over the same: equal dominant shares.
    Drf,
    /// Over the same: bottleneck-aware, as much of every tier as nobody minds.
    Baa,
}

impl Discipline {
    /// Every discipline, those for any backend first.
    pub const ALL: [Self; 8] = [
        Self::Sfq,
        Self::Fifo,
        Self::Mclock,
        Self::Edf,
        Self::Shared,
        Self::Fair,
        Self::Drf,
        Self::Baa,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Sfq => "sfq",
            Self::Mclock => "mclock",
            Self::Edf => "edf",
            Self::Shared => "shared",
            Self::Fair => "fair",
            Self::Drf => "drf",
            Self::Baa => "baa",
        }
    }

    /// Whether it orders the requests of several devices together (the tiers of a volume, or the
    /// cache and the drives of a store), rather than those of each backend by themselves.
    pub fn spans_tiers(self) -> bool {
        matches!(self, Self::Fair | Self::Drf | Self::Baa)
    }
}

/// Backends whose shares count together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Names of its backends; a backend is in one group at most.
    pub backends: Vec<String>,
    /// How shares count over them.
    pub sharing: Sharing,
    /// Whether shares count over the servers of all gates of the [`Exchange`] that have a group of
    /// this name.
    pub is_exchanged: bool,
}

/// How shares count over the servers of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// On each server by itself.
    #[default]
    Local,
    /// In all (DSFQ, total service).
    Total,
    /// In all, with at least this part of its local share on every server, in thousandths.
    Hybrid {
        /// 1 to 1000.
        min_share_milli: u32,
    },
}

/// What clients see: a virtual disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// The name that clients ask for.
    pub name: String,
    /// The backend that holds it.
    pub backend: String,
    /// Its name at an upstream; the same name if none. In a directory, the file's name. In a
    /// store, the volume's number; [`FIRST_VOLUME`] if none.
    pub source: Option<String>,
    /// First byte, for a slice.
    pub offset_bytes: u64,
    /// Size; the rest of the source if none. Memory and new files in a directory need one.
    pub size_bytes: Option<u64>,
    /// Refuse writes.
    pub read_only: bool,
    /// The tenants that may open it; see [`access`].
    pub allow: Option<Vec<String>>,
    /// A line for people who list exports.
    pub description: Option<String>,
}

impl Export {
    /// Whether `evenkeel prove --load` added it for its time: then it does not count where clients
    /// leave the name out.
    pub fn is_for_proof(&self) -> bool {
        self.name.starts_with(PROOF_PREFIX)
    }
}

/// Who shares.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Which connections are its own: any of these.
    pub matches: Vec<Match>,
    /// Its connections may not write.
    pub read_only: bool,
    /// Its weight, floor, limits and latency goal. Floors and limits hold on each backend by
    /// itself.
    pub share: Share,
}

impl Tenant {
    /// Whether it is promised a rate.
    pub fn has_floor(&self) -> bool {
        self.share.floor != Floor::default()
    }

    /// Whether it has a goal for its response time.
    pub fn has_goal(&self) -> bool {
        self.share.latency_goal > Span::ZERO
    }
}

/// One way to know a tenant. Of several tenants that match, the strongest kind of identity wins,
/// in the order of the variants; within a kind, the most specific pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// A name in the client's certificate: subject alternative name or common name; `*` matches
    /// any run of characters.
    TlsName(String),
    /// The export's name, same patterns.
    Export(String),
    /// The listener's name.
    Listener(String),
    /// The client's address, as a network.
    Peer {
        /// Network address.
        network: IpAddr,
        /// Prefix length in bits.
        prefix: u8,
    },
}

/// The TCP port of metrics and status. Its address is the command line's business.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Names by which the port may be asked, beside `localhost` and every address.
    pub hosts: Vec<String>,
}

/// Bounds on what the gate may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that one tenant's requests and unread answers may hold in the gate.
    pub per_tenant_bytes: u64,
    /// Bytes of all tenants together.
    pub total_bytes: u64,
    /// Bytes per second that a connection has to move, over ten seconds, while others wait for
    /// memory that it holds.
    pub min_rate_bytes: u64,
    /// Connections in all.
    pub connections: u32,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            per_tenant_bytes: 64 << 20,
            total_bytes: 256 << 20,
            min_rate_bytes: 64 << 10,
            connections: 4096,
        }
    }
}

/// The name of the tenant that owns whatever no other tenant matches; always present, at share 1
/// unless the file declares it.
pub const DEFAULT_TENANT: &str = "default";

/// The name of the tenant on whose account the extents of tiered volumes are moved; present in
/// every policy with such a volume, at share 1 unless the file declares it.
pub const MOVER_TENANT: &str = "moves";

/// The name of the tenant on whose account stores clean and look after themselves; present in every
/// policy with a store, at share 1 unless the file declares it.
pub const UPKEEP_TENANT: &str = "upkeep";

/// Names of the exports and tenants that `evenkeel prove --load` adds for its time begin with this.
pub const PROOF_PREFIX: &str = "evenkeel-prove-";

/// The part of a policy that one engine needs: one group of servers, one tiered volume, or one
/// server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Domain {
    /// How far the gate may go.
    pub mode: Mode,
    /// How shares count over the servers.
    pub sharing: Sharing,
    /// Whether they count over other gates' servers as well.
    pub is_exchanged: bool,
    /// By [`TenantId`]; ids are never reused while the gate runs, removed
    /// tenants keep their row.
    pub tenants: Vec<(String, Share)>,
    /// By [`ServerId`].
    pub servers: Vec<(String, Scheduling)>,
    /// Set if the servers are the tiers of one volume.
    pub tiers: Option<TierPlan>,
    /// Set if a volume is spread over the servers.
    pub spread: Option<SpreadPlan>,
    /// Set if the servers are the drives and the cache of one store.
    pub cache: Option<CachePlan>,
    /// What this gate is called where others share its servers.
    pub host: HostId,
}

impl Domain {
    /// Whether shares count over several servers, or over those of other gates.
    pub fn counts_together(&self) -> bool {
        self.sharing != Sharing::Local && (self.servers.len() > 1 || self.is_exchanged)
    }

    /// The servers whose requests one dispatcher orders together, the slowest first, and by what.
    pub fn ordered_together(&self) -> Option<(Discipline, Vec<ServerId>)> {
        let tiers = self.tiers.as_ref().map(|plan| (plan.discipline, plan.servers.clone()));
        let cache = self.cache.map(|plan| (plan.discipline, vec![plan.drives, plan.cache]));
        tiers.or(cache).filter(|(discipline, _)| discipline.spans_tiers())
    }
}

/// What an engine needs to know of a store whose cache is a device of its own: reads that the cache
/// can answer are for that server, all else for the drives. Who knows which is which is the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePlan {
    /// How requests are ordered over both.
    pub discipline: Discipline,
    /// The drives.
    pub drives: ServerId,
    /// The cache.
    pub cache: ServerId,
}

/// What an engine needs to know of the spread volume that it serves.
#[derive(Clone, Debug, PartialEq)]
pub struct SpreadPlan {
    /// The servers, in the order of the policy.
    pub servers: Vec<ServerId>,
    /// By server: whether it is near this gate.
    pub near: Vec<bool>,
    /// See [`Spread::prefer`].
    pub prefer: Vec<Preference>,
    /// See [`Spread::ceiling_milli`].
    pub ceiling_milli: u32,
    /// Who pays for what nobody waits for.
    pub clerk: TenantId,
    /// For so long requests wait for a volume that has lapsed.
    pub patience: Span,
}

/// What an engine needs to know of the tiered volume that it serves.
#[derive(Clone, Debug, PartialEq)]
pub struct TierPlan {
    /// How requests are ordered; over all tiers if [`Discipline::spans_tiers`], else by each tier's
    /// own discipline.
    pub discipline: Discipline,
    /// The tiers, the slowest first.
    pub servers: Vec<ServerId>,
    /// See [`Tiered::extent_bytes`].
    pub extent_bytes: u64,
    /// See [`Tiered::moves`].
    pub moves: Moves,
    /// Who pays for moves.
    pub mover: TenantId,
    /// For so long requests wait for a volume that has lapsed.
    pub patience: Span,
    /// See [`Takeover::late`].
    pub late: Span,
}
