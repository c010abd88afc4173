//! The policy file as written: every value typed and with its place, nothing filled in yet.
//! [`super::resolve`] gives it meaning.

use std::ops::Range;
use std::path::PathBuf;

use evenkeel_core::time::Span;
use evenkeel_engine::cost::Line;
use evenkeel_engine::policy::{
    Address, Control, Depth, Discipline, Match, Member, MetricsPage, Mode, Moves, NbdServer,
    Preference,
};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::Diagnostics;
use super::exchange::{self, RawExchange};
use super::fields::{Fields, mismatch};
use super::goal::Goal;
use super::metrics::RawMetrics;
use super::spread;
use super::takeover::{self, RawFence};
use super::uri::ServerUri;
use super::values;
use super::volume;
use crate::units::Amount;

type Value<'i> = Spanned<DeValue<'i>>;
pub(super) type Written<T> = Option<Spanned<T>>;

pub(super) struct RawPolicy {
    pub(super) mode: Written<Mode>,
    pub(super) listen: Vec<Spanned<Address>>,
    pub(super) listeners: Vec<RawListener>,
    pub(super) backends: Vec<RawBackend>,
    pub(super) groups: Vec<RawGroup>,
    pub(super) exports: Vec<RawExport>,
    pub(super) tenants: Vec<RawTenant>,
    pub(super) exchange: Written<RawExchange>,
    pub(super) memory: Written<RawMemory>,
    pub(super) metrics: Written<RawMetrics>,
}

pub(super) struct RawListener {
    pub(super) name: Spanned<String>,
    pub(super) address: Spanned<Address>,
    pub(super) tls: Written<RawListenerTls>,
}

pub(super) struct RawListenerTls {
    pub(super) certificate: Spanned<PathBuf>,
    pub(super) key: Spanned<PathBuf>,
    pub(super) client_authority: Written<PathBuf>,
    pub(super) required: Written<bool>,
}

pub(super) struct RawBackend {
    pub(super) span: Range<usize>,
    pub(super) name: Spanned<String>,
    pub(super) upstream: Written<ServerUri>,
    pub(super) file: Written<PathBuf>,
    pub(super) directory: Written<PathBuf>,
    pub(super) store: Written<Vec<Spanned<PathBuf>>>,
    pub(super) degraded: Written<bool>,
    pub(super) emulate: Written<String>,
    pub(super) power_down: Written<Span>,
    pub(super) cache: Written<RawCache>,
    pub(super) memory: Written<bool>,
    pub(super) tiers: Written<Vec<Spanned<Member>>>,
    pub(super) extent: Written<u64>,
    pub(super) moves: Written<Moves>,
    pub(super) choices: Written<Vec<Spanned<Member>>>,
    pub(super) leaving: Written<Vec<Spanned<String>>>,
    pub(super) near: Written<Vec<Spanned<String>>>,
    pub(super) prefer: Written<Vec<Preference>>,
    pub(super) ceph: Written<PathBuf>,
    pub(super) pool: Written<String>,
    pub(super) volume: Written<String>,
    pub(super) user: Written<String>,
    pub(super) keyring: Written<PathBuf>,
    pub(super) fence: Written<RawFence>,
    pub(super) lease: Written<Span>,
    pub(super) takeover: Written<Span>,
    pub(super) late: Written<Span>,
    pub(super) object: Written<u64>,
    pub(super) size: Written<u64>,
    pub(super) candidates: Written<u32>,
    pub(super) ceiling: Written<u32>,
    pub(super) direct: Written<bool>,
    pub(super) connections: Written<u32>,
    pub(super) passthrough: Written<bool>,
    pub(super) allow: Written<Vec<Spanned<String>>>,
    pub(super) writes_survive_restart: Written<bool>,
    pub(super) patience: Written<Span>,
    pub(super) metrics: Written<MetricsPage>,
    pub(super) request_timeout: Written<Span>,
    pub(super) server: Written<NbdServer>,
    pub(super) tls: Written<RawUpstreamTls>,
    pub(super) discipline: Written<Discipline>,
    pub(super) control: Written<Control>,
    pub(super) array: Written<String>,
    pub(super) depth: Written<Depth>,
    pub(super) hold: Written<Span>,
    pub(super) unit: Written<RawUnit>,
    pub(super) cost: Written<RawCost>,
    pub(super) capacity: Written<u64>,
}

#[derive(Default)]
pub(super) struct RawCache {
    pub(super) memory: Written<u64>,
    pub(super) drive: Written<PathBuf>,
    pub(super) endurance: Written<u64>,
    pub(super) daily_writes: Written<u64>,
    pub(super) depth: Written<Depth>,
    pub(super) cost: Written<RawCost>,
    pub(super) capacity: Written<u64>,
}

pub(super) struct RawUpstreamTls {
    pub(super) authority: Spanned<PathBuf>,
    pub(super) certificate: Written<PathBuf>,
    pub(super) key: Written<PathBuf>,
    pub(super) server_name: Written<String>,
}

pub(super) enum RawUnit {
    Automatic,
    Bytes(u64),
}

pub(super) enum RawCost {
    Automatic,
    PerRequest,
    Linear { read: Written<Line>, write: Written<Line>, flush: Written<Span> },
}

pub(super) struct RawGroup {
    pub(super) name: Spanned<String>,
    pub(super) backends: Spanned<Vec<Spanned<String>>>,
    pub(super) sharing: Written<RawSharing>,
    pub(super) min_share: Written<u32>,
    pub(super) exchange: Written<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RawSharing {
    Local,
    Total,
    Hybrid,
}

pub(super) struct RawExport {
    pub(super) span: Range<usize>,
    pub(super) name: Spanned<String>,
    pub(super) backend: Written<String>,
    pub(super) source: Written<String>,
    pub(super) offset: Written<u64>,
    pub(super) size: Written<u64>,
    pub(super) read_only: Written<bool>,
    pub(super) allow: Written<Vec<Spanned<String>>>,
    pub(super) description: Written<String>,
}

pub(super) struct RawTenant {
    pub(super) name: Spanned<String>,
    pub(super) matches: Written<Vec<Spanned<Match>>>,
    pub(super) read_only: Written<bool>,
    pub(super) share: Written<u32>,
    pub(super) floor: Written<Vec<Spanned<Amount>>>,
    pub(super) latency: Written<Goal>,
    pub(super) limit: Written<Vec<Spanned<Amount>>>,
    pub(super) burst: Written<Vec<Spanned<Amount>>>,
}

pub(super) struct RawMemory {
    pub(super) per_tenant: Written<u64>,
    pub(super) total: Written<u64>,
    pub(super) min_rate: Written<u64>,
    pub(super) connections: Written<u32>,
}

impl RawPolicy {
    pub(super) fn read(table: &DeTable<'_>, out: &mut Diagnostics) -> Self {
        let mut fields = Fields::new("the policy", table, 0..0);
        let raw = Self {
            mode: fields.optional("mode", values::mode, out),
            listen: fields
                .optional("listen", values::addresses, out)
                .map_or_else(Vec::new, Spanned::into_inner),
            listeners: fields.tables("listener", RawListener::read, out),
            backends: fields.tables("backend", RawBackend::read, out),
            groups: fields.tables("group", RawGroup::read, out),
            exports: fields.tables("export", RawExport::read, out),
            tenants: fields.tables("tenant", RawTenant::read, out),
            exchange: fields.optional("exchange", RawExchange::read, out),
            memory: fields.optional("memory", RawMemory::read, out),
            metrics: fields.optional("metrics", RawMetrics::read, out),
        };
        fields.finish(out);
        raw
    }

    /// Lets backends that do not say where their bytes are stand for a server that nobody calls.
    pub(super) fn assume_servers(&mut self) {
        for backend in &mut self.backends {
            let named = [
                backend.upstream.is_some(),
                backend.file.is_some(),
                backend.directory.is_some(),
                backend.memory.is_some(),
                backend.tiers.is_some(),
                backend.choices.is_some(),
                backend.ceph.is_some(),
            ];
            if !named.contains(&true) {
                let server = ServerUri { address: Address::Unix("simulated".into()), tls: false };
                backend.upstream = Some(Spanned::new(backend.span.clone(), server));
            }
        }
    }
}

impl RawListener {
    fn read(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<Self> {
        let name = fields.required("name", values::text, out);
        let address = fields.required("address", values::address, out);
        let tls = fields.optional("tls", RawListenerTls::read, out);
        Some(Self { name: name?, address: address?, tls })
    }
}

impl RawListenerTls {
    fn read(value: &Value<'_>, out: &mut Diagnostics) -> Option<Self> {
        let mut fields = Fields::of("`tls` of a listener", value, out)?;
        let certificate = fields.required("certificate", values::path, out);
        let key = fields.required("key", values::path, out);
        let client_authority = fields.optional("client_authority", values::path, out);
        let required = fields.optional("required", values::truth, out);
        fields.finish(out);
        Some(Self { certificate: certificate?, key: key?, client_authority, required })
    }
}

impl RawBackend {
    fn read(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<Self> {
        let span = fields.span();
        let name = fields.required("name", values::text, out);
        let backend = |name| Self {
            span,
            name,
            upstream: fields.optional("upstream", upstream, out),
            file: fields.optional("file", values::path, out),
            directory: fields.optional("directory", values::path, out),
            store: fields.optional("store", values::paths, out),
            degraded: fields.optional("degraded", values::truth, out),
            emulate: fields.optional("emulate", values::drive_model, out),
            power_down: fields.optional("power_down", values::duration, out),
            cache: fields.optional("cache", RawCache::read, out),
            memory: fields.optional("memory", values::truth, out),
            tiers: fields.optional("tiers", volume::tiers, out),
            extent: fields.optional("extent", values::size, out),
            moves: fields.optional("moves", volume::moves, out),
            choices: fields.optional("choices", volume::servers, out),
            leaving: fields.optional("leaving", values::texts, out),
            near: fields.optional("near", values::texts, out),
            prefer: fields.optional("prefer", spread::preferences, out),
            ceph: fields.optional("ceph", values::path, out),
            pool: fields.optional("pool", values::text, out),
            volume: fields.optional("volume", values::text, out),
            user: fields.optional("user", values::text, out),
            keyring: fields.optional("keyring", values::path, out),
            fence: fields.optional("fence", takeover::fence, out),
            lease: fields.optional("lease", takeover::lease, out),
            takeover: fields.optional("takeover", takeover::takeover, out),
            late: fields.optional("late", takeover::late, out),
            object: fields.optional("object", values::size, out),
            size: fields.optional("size", values::size, out),
            candidates: fields.optional("candidates", values::whole, out),
            ceiling: fields.optional("ceiling", values::thousandths, out),
            direct: fields.optional("direct", values::truth, out),
            connections: fields.optional("connections", values::whole, out),
            passthrough: fields.optional("passthrough", values::truth, out),
            allow: fields.optional("allow", values::texts, out),
            writes_survive_restart: fields.optional("writes_survive_restart", values::truth, out),
            patience: fields.optional("patience", values::duration, out),
            metrics: fields.optional("metrics", spread::metrics, out),
            request_timeout: fields.optional("request_timeout", values::duration, out),
            server: fields.optional("server", nbd_server, out),
            tls: fields.optional("tls", RawUpstreamTls::read, out),
            discipline: fields.optional("discipline", discipline, out),
            control: fields.optional("control", exchange::control, out),
            array: fields.optional("array", values::text, out),
            depth: fields.optional("depth", depth, out),
            hold: fields.optional("hold", values::duration, out),
            unit: fields.optional("unit", unit, out),
            cost: fields.optional("cost", RawCost::read, out),
            capacity: fields.optional("capacity", values::request_rate, out),
        };
        // Without a name the rest is read all the same, for its own mistakes.
        let named = name.is_some();
        let read = backend(name.unwrap_or_else(|| Spanned::new(0..0, String::new())));
        named.then_some(read)
    }
}

impl RawCache {
    fn read(value: &Value<'_>, out: &mut Diagnostics) -> Option<Self> {
        let mut fields = Fields::of("`cache` of a store", value, out)?;
        let cache = Self {
            memory: fields.optional("memory", values::size, out),
            drive: fields.optional("drive", values::path, out),
            endurance: fields.optional("endurance", values::size, out),
            daily_writes: fields.optional("daily_writes", values::size, out),
            depth: fields.optional("depth", depth, out),
            cost: fields.optional("cost", RawCost::read, out),
            capacity: fields.optional("capacity", values::request_rate, out),
        };
        fields.finish(out);
        Some(cache)
    }
}

impl RawUpstreamTls {
    fn read(value: &Value<'_>, out: &mut Diagnostics) -> Option<Self> {
        let mut fields = Fields::of("`tls` of a backend", value, out)?;
        let authority = fields.required("authority", values::path, out);
        let certificate = fields.optional("certificate", values::path, out);
        let key = fields.optional("key", values::path, out);
        let server_name = fields.optional("server_name", values::text, out);
        fields.finish(out);
        Some(Self { authority: authority?, certificate, key, server_name })
    }
}

impl RawCost {
    fn read(value: &Value<'_>, out: &mut Diagnostics) -> Option<Self> {
        if let DeValue::String(_) = value.get_ref() {
            let choices = [("automatic", true), ("request", false)];
            let is_automatic = values::choice(value, "a cost model", &choices, out)?;
            return Some(if is_automatic { Self::Automatic } else { Self::PerRequest });
        }
        let mut fields = Fields::of("`cost`", value, out)?;
        let linear = Self::Linear {
            read: fields.optional("read", line, out),
            write: fields.optional("write", line, out),
            flush: fields.optional("flush", values::duration, out),
        };
        fields.finish(out);
        Some(linear)
    }
}

impl RawGroup {
    fn read(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<Self> {
        let name = fields.required("name", values::text, out);
        let backends = fields.required("backends", values::texts, out);
        let sharing = fields.optional("sharing", sharing, out);
        let min_share = fields.optional("min_share", values::thousandths, out);
        let exchange = fields.optional("exchange", values::truth, out);
        Some(Self { name: name?, backends: backends?, sharing, min_share, exchange })
    }
}

impl RawExport {
    fn read(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<Self> {
        let name = fields.required("name", values::text, out);
        let backend = fields.optional("backend", values::text, out);
        let source = fields.optional("source", values::text, out);
        let offset = fields.optional("offset", values::size, out);
        let size = fields.optional("size", values::size, out);
        let read_only = fields.optional("read_only", values::truth, out);
        let allow = fields.optional("allow", values::texts, out);
        let description = fields.optional("description", values::text, out);
        let span = fields.span();
        Some(Self {
            span,
            name: name?,
            backend,
            source,
            offset,
            size,
            read_only,
            allow,
            description,
        })
    }
}

impl RawTenant {
    fn read(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<Self> {
        let name = fields.required("name", values::text, out);
        let matches = fields.optional("match", matches, out);
        let read_only = fields.optional("read_only", values::truth, out);
        let share = fields.optional("share", values::thousandths, out);
        let floor = fields.optional("floor", values::rates, out);
        let latency = fields.optional("latency", Goal::read, out);
        let limit = fields.optional("limit", values::rates, out);
        let burst = fields.optional("burst", values::bursts, out);
        Some(Self { name: name?, matches, read_only, share, floor, latency, limit, burst })
    }
}

impl RawMemory {
    fn read(value: &Value<'_>, out: &mut Diagnostics) -> Option<Self> {
        let mut fields = Fields::of("[memory]", value, out)?;
        let memory = Self {
            per_tenant: fields.optional("per_tenant", values::size, out),
            total: fields.optional("total", values::size, out),
            min_rate: fields.optional("min_rate", values::byte_rate, out),
            connections: fields.optional("connections", values::whole, out),
        };
        fields.finish(out);
        Some(memory)
    }
}

fn upstream(value: &Value<'_>, out: &mut Diagnostics) -> Option<ServerUri> {
    let written = values::text(value, out)?;
    let refuse = |reason: String| {
        let remedy = "write it like `nbd://10.0.0.5:10809` or `nbd+unix:///?socket=/run/disk.sock`";
        out.error(value.span(), format!("this is no NBD server: {reason}"), remedy);
    };
    ServerUri::parse(&written).map_err(refuse).ok()
}

fn nbd_server(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<NbdServer> {
    let choices = NbdServer::ALL.map(|server| (server.name(), server));
    values::choice(value, "an NBD server", &choices, out)
}

fn discipline(value: &Value<'_>, out: &mut Diagnostics) -> Option<Discipline> {
    let choices = Discipline::ALL.map(|discipline| (discipline.name(), discipline));
    values::choice(value, "a discipline", &choices, out)
}

fn sharing(value: &Value<'_>, out: &mut Diagnostics) -> Option<RawSharing> {
    let choices = [
        ("local", RawSharing::Local),
        ("total", RawSharing::Total),
        ("hybrid", RawSharing::Hybrid),
    ];
    values::choice(value, "a way of sharing", &choices, out)
}

/// `32`, `"4 MiB"`, `"automatic"`, or a table with bounds and goals.
fn depth(value: &Value<'_>, out: &mut Diagnostics) -> Option<Depth> {
    match value.get_ref() {
        DeValue::Integer(_) => values::whole(value, out).map(Depth::Requests),
        DeValue::String(text) if text == "automatic" => Some(Depth::Automatic),
        DeValue::String(text) if text.starts_with(|first: char| first.is_ascii_digit()) => {
            values::size(value, out).map(Depth::Bytes)
        }
        DeValue::Table(_) => adaptive_depth(value, out),
        _ => {
            let examples = "`32`, `\"4 MiB\"`, `\"automatic\"` or \
                            `{ min = 2, max = 64, read_goal = \"5 ms\" }`";
            mismatch(value, "a depth", examples, out);
            None
        }
    }
}

/// `"1 MiB"` or `"automatic"`.
fn unit(value: &Value<'_>, out: &mut Diagnostics) -> Option<RawUnit> {
    match value.get_ref() {
        DeValue::String(text) if text == "automatic" => Some(RawUnit::Automatic),
        DeValue::String(text) if text.starts_with(|first: char| first.is_ascii_digit()) => {
            values::size(value, out).map(RawUnit::Bytes)
        }
        _ => {
            mismatch(value, "the size of a unit", "`\"1 MiB\"` or `\"automatic\"`", out);
            None
        }
    }
}

fn adaptive_depth(value: &Value<'_>, out: &mut Diagnostics) -> Option<Depth> {
    let mut fields = Fields::of("`depth`", value, out)?;
    let min = fields.optional("min", values::whole, out).map_or(1, Spanned::into_inner);
    let max = fields.required("max", values::whole, out);
    let read_goal = fields.required("read_goal", values::duration, out);
    let write_goal = fields.optional("write_goal", values::duration, out);
    fields.finish(out);
    let read_goal = read_goal?.into_inner();
    let write_goal = write_goal.map_or(read_goal, Spanned::into_inner);
    Some(Depth::Adaptive { min, max: max?.into_inner(), read_goal, write_goal })
}

fn line(value: &Value<'_>, out: &mut Diagnostics) -> Option<Line> {
    let mut fields = Fields::of("a direction of `cost`", value, out)?;
    let fixed = fields.required("fixed", values::duration, out);
    let rate = fields.required("rate", values::byte_rate, out);
    fields.finish(out);
    Some(Line { fixed: fixed?.into_inner(), rate_bytes: rate?.into_inner() })
}

/// One table, or a list of them, each with one way to know a tenant.
fn matches(value: &Value<'_>, out: &mut Diagnostics) -> Option<Vec<Spanned<Match>>> {
    match value.get_ref() {
        DeValue::Array(items) => items.iter().map(|item| one_match(item, out)).collect(),
        _ => Some(vec![one_match(value, out)?]),
    }
}

fn one_match(value: &Value<'_>, out: &mut Diagnostics) -> Option<Spanned<Match>> {
    let mut fields = Fields::of("`match`", value, out)?;
    let texts = [
        fields.optional("tls_name", values::text, out).map(|v| Match::TlsName(v.into_inner())),
        fields.optional("export", values::text, out).map(|v| Match::Export(v.into_inner())),
        fields.optional("listener", values::text, out).map(|v| Match::Listener(v.into_inner())),
    ];
    let peer = fields.optional("peer", values::network, out).map(|network| {
        let (network, prefix) = network.into_inner();
        Match::Peer { network, prefix }
    });
    fields.finish(out);
    let mut found: Vec<Match> = texts.into_iter().flatten().chain(peer).collect();
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Some(Spanned::new(value.span(), only)),
        (Some(_), false) => {
            let remedy =
                "any of several is a list: `match = [{ export = \"a\" }, { peer = \"...\" }]`";
            out.error(value.span(), "one `match` names several kinds of identity", remedy);
            None
        }
        (None, _) => {
            let remedy = "name one of `tls_name`, `export`, `listener`, `peer`";
            out.error(value.span(), "this `match` would match nothing", remedy);
            None
        }
    }
}
