//! Gives meaning to what was written: defaults, and rules over several keys of one part. Rules over
//! several parts are the business of [`Policy::check`], which knows no syntax.

use std::ops::Range;

use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_core::time::Span;
use evenkeel_engine::cost::CostModel;
use evenkeel_engine::policy::{
    Address, Backend, Depth, Export, Group, Listener, ListenerTls, Memory, Mode, NbdServer, Policy,
    Scheduling, Sharing, Source, Tenant, Upstream, UpstreamTls,
};
use toml::Spanned;

use super::diagnostic::Diagnostics;
use super::exchange;
use super::goal::Goal;
use super::places::{Part, Places};
use super::raw::{
    RawBackend, RawCost, RawExport, RawGroup, RawListener, RawListenerTls, RawMemory, RawPolicy,
    RawSharing, RawTenant, RawUnit, RawUpstreamTls, Written,
};
use super::{ceph, metrics, spread, store, takeover, volume};
use crate::units::Amount;

/// Connections per export towards an upstream that allows several.
pub(super) const CONNECTIONS_DEFAULT: u32 = 4;

/// How long requests wait for a lost server.
pub(super) const PATIENCE_DEFAULT: Span = Upstream::PATIENCE;

/// A burst without a size of its own is what its rate gives in this part of a second.
const BURST_DIVISOR: u64 = 10;

/// The policy that was written, and where each part of it stands. Parts that say nothing usable
/// are left out; their errors are in `out`.
pub(super) fn resolve(raw: RawPolicy, out: &mut Diagnostics) -> (Policy, Places) {
    let mut places = Places::default();
    let spans = [
        ("mode", at(raw.mode.as_ref())),
        ("listeners", raw.listen.first().map(Spanned::span)),
        ("backends", Some(0..0)),
    ];
    places.note_all(Part::Policy, 0, spans);
    places.note(Part::Policy, 0, "", 0..0);

    let mut listeners: Vec<Listener> = Vec::new();
    for address in raw.listen {
        listeners.push(short_listener(address, listeners.len(), &mut places));
    }
    for written in raw.listeners {
        listeners.push(listener(written, listeners.len(), &mut places));
    }
    let mut backends: Vec<Backend> = Vec::new();
    let mut disciplines: Vec<Option<Range<usize>>> = Vec::new();
    let mut controls: Vec<bool> = Vec::new();
    for written in raw.backends {
        let discipline = at(written.discipline.as_ref());
        let has_control = written.control.is_some();
        if let Some(backend) = backend(written, backends.len(), out, &mut places) {
            backends.push(backend);
            disciplines.push(discipline);
            controls.push(has_control);
        }
    }
    let mode = or(raw.mode, Mode::default());
    let mut policy = Policy { mode, listeners, backends, ..Policy::default() };
    let only_backend = policy.only_backend().map(|only| only.name.clone());
    for written in raw.exports {
        let index = policy.exports.len();
        let export = export(written, index, only_backend.as_deref(), out, &mut places);
        policy.exports.extend(export);
    }
    let groups = raw.groups.into_iter().enumerate();
    policy.groups = groups.map(|(index, raw)| group(raw, index, out, &mut places)).collect();
    let tenants = raw.tenants.into_iter().enumerate();
    policy.tenants = tenants.map(|(index, raw)| tenant(raw, index, out, &mut places)).collect();
    policy.exchange = exchange::exchange(raw.exchange, out, &mut places);
    policy.memory = memory(raw.memory, &mut places);
    policy.metrics = metrics::metrics(raw.metrics, out);
    volume::settle_disciplines(&mut policy, &disciplines, out);
    exchange::settle_control(&mut policy, &controls);
    (policy, places)
}

/// The name of a listener in the short form: its address as written.
pub(super) fn address_text(address: &Address) -> String {
    match address {
        Address::Tcp(host) => host.clone(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn short_listener(address: Spanned<Address>, index: usize, places: &mut Places) -> Listener {
    places.note(Part::Listener, index, "", address.span());
    let name = address_text(address.get_ref());
    Listener { name, address: address.into_inner(), tls: None }
}

fn listener(raw: RawListener, index: usize, places: &mut Places) -> Listener {
    let spans = [
        ("", Some(raw.name.span())),
        ("address", Some(raw.address.span())),
        ("tls", at(raw.tls.as_ref())),
    ];
    places.note_all(Part::Listener, index, spans);
    let tls = raw.tls.map(|tls| listener_tls(tls.into_inner()));
    Listener { name: raw.name.into_inner(), address: raw.address.into_inner(), tls }
}

fn listener_tls(raw: RawListenerTls) -> ListenerTls {
    ListenerTls {
        certificate: raw.certificate.into_inner(),
        key: raw.key.into_inner(),
        client_authority: raw.client_authority.map(Spanned::into_inner),
        required: raw.required.is_some_and(Spanned::into_inner),
    }
}

fn backend(
    mut raw: RawBackend,
    index: usize,
    out: &mut Diagnostics,
    places: &mut Places,
) -> Option<Backend> {
    let name = raw.name.get_ref().clone();
    places.note(Part::Backend, index, "", raw.name.span());
    let source = at(raw.upstream.as_ref());
    let source = source.or_else(|| at(raw.file.as_ref())).or_else(|| at(raw.directory.as_ref()));
    let source = source.or_else(|| at(raw.tiers.as_ref())).or_else(|| at(raw.store.as_ref()));
    let source = source.or_else(|| at(raw.choices.as_ref()));
    let spans = [
        ("source.connections", at(raw.connections.as_ref())),
        ("source.patience", at(raw.patience.as_ref())),
        ("source.late", at(raw.late.as_ref())),
        ("scheduling.depth", at(raw.depth.as_ref())),
        ("scheduling.hold", at(raw.hold.as_ref())),
        ("scheduling.unit_bytes", at(raw.unit.as_ref())),
        ("scheduling.cost", at(raw.cost.as_ref())),
        ("scheduling.capacity_iops", at(raw.capacity.as_ref())),
        ("scheduling.discipline", at(raw.discipline.as_ref())),
        ("scheduling.control", at(raw.control.as_ref())),
        ("scheduling.array", at(raw.array.as_ref())),
        ("source", source),
        ("source.tiers", at(raw.tiers.as_ref())),
        ("source.drives", at(raw.store.as_ref())),
        ("source.power_down", at(raw.power_down.as_ref())),
        ("source.cache", at(raw.cache.as_ref())),
        ("source.extent_bytes", at(raw.extent.as_ref())),
        ("source.moves", at(raw.moves.as_ref())),
        ("source.servers", at(raw.choices.as_ref())),
        ("source.leaving", at(raw.leaving.as_ref())),
        ("source.near", at(raw.near.as_ref())),
        ("source.prefer", at(raw.prefer.as_ref())),
        ("source.object_bytes", at(raw.object.as_ref())),
        ("source.size_bytes", at(raw.size.as_ref())),
        ("source.candidates", at(raw.candidates.as_ref())),
        ("source.ceiling", at(raw.ceiling.as_ref())),
        ("source.conf", at(raw.ceph.as_ref())),
        ("source.pool", at(raw.pool.as_ref())),
        ("source.fence", at(raw.fence.as_ref())),
        ("source.volume", at(raw.volume.as_ref())),
        ("source.tls", at(raw.tls.as_ref())),
    ];
    places.note_all(Part::Backend, index, spans);
    if raw.tiers.is_some() {
        volume::misplaced_keys(&raw, out);
    }
    if raw.choices.is_some() {
        spread::misplaced_keys(&raw, out);
    }
    let scheduling = scheduling(&mut raw);
    let source = self::source(raw, index, out, places)?;
    Some(Backend { name, source, scheduling })
}

fn scheduling(raw: &mut RawBackend) -> Scheduling {
    let default = Scheduling::default();
    let cost = raw.cost.take().map_or(RawCost::Automatic, Spanned::into_inner);
    let is_cost_learned = matches!(cost, RawCost::Automatic);
    let unit = raw.unit.take().map_or(RawUnit::Automatic, Spanned::into_inner);
    let (unit_bytes, is_unit_automatic) = match unit {
        RawUnit::Automatic => (default.unit_bytes, true),
        RawUnit::Bytes(bytes) => (bytes, false),
    };
    let usual_control = exchange::usual_control(raw);
    let control = or(raw.control.take(), usual_control);
    Scheduling {
        discipline: or(raw.discipline.take(), default.discipline),
        depth: or(raw.depth.take(), Depth::Automatic),
        hold: or(raw.hold.take(), default.hold),
        cost: cost_model(cost),
        is_cost_learned,
        answers_at_once: false,
        unit_bytes,
        // It follows from the costs that are found.
        is_unit_found: is_cost_learned && is_unit_automatic,
        capacity_iops: raw.capacity.take().map(Spanned::into_inner),
        control,
        array: raw.array.take().map(Spanned::into_inner),
    }
}

fn at<T>(written: Option<&Spanned<T>>) -> Option<Range<usize>> {
    written.map(Spanned::span)
}

pub(super) fn or<T>(written: Option<Spanned<T>>, default: T) -> T {
    written.map_or(default, Spanned::into_inner)
}

pub(super) fn cost_model(raw: RawCost) -> CostModel {
    let usual = CostModel::default();
    match (raw, usual) {
        (RawCost::PerRequest, _) => CostModel::PerRequest,
        (
            RawCost::Linear { read, write, flush },
            CostModel::Linear { read: read0, write: write0, flush: flush0 },
        ) => CostModel::Linear {
            read: or(read, read0),
            write: or(write, write0),
            flush: or(flush, flush0),
        },
        (RawCost::Automatic | RawCost::Linear { .. }, _) => usual,
    }
}

/// The one source that a backend must name.
fn source(
    mut raw: RawBackend,
    index: usize,
    out: &mut Diagnostics,
    places: &mut Places,
) -> Option<Source> {
    let memory = raw.memory.take().filter(|memory| *memory.get_ref());
    let named = [
        at(raw.upstream.as_ref()),
        at(raw.file.as_ref()),
        at(raw.directory.as_ref()),
        at(raw.store.as_ref()),
        at(memory.as_ref()),
        at(raw.tiers.as_ref()),
        at(raw.choices.as_ref()),
        at(raw.ceph.as_ref()),
    ];
    let mut spans: Vec<_> = named.into_iter().flatten().collect();
    let remedy = "give one of `upstream`, `file`, `directory`, `store`, `memory = true`, `tiers`, \
                  `choices`, `ceph`";
    if spans.len() != 1 {
        let name = raw.name.get_ref();
        let message = match spans.len() {
            0 => format!("backend `{name}` does not say where its bytes are"),
            count => format!("backend `{name}` names {count} sources"),
        };
        out.error(spans.pop().unwrap_or(raw.span), message, remedy);
        return None;
    }
    misplaced_keys(&raw, out);
    if let Some(store) = store::store(&mut raw) {
        return Some(Source::Store(store));
    }
    let direct = raw.direct.take().is_some_and(Spanned::into_inner);
    if let Some(path) = raw.file.take() {
        return Some(Source::File { path: path.into_inner(), direct });
    }
    if let Some(path) = raw.directory.take() {
        return Some(Source::Directory { path: path.into_inner(), direct });
    }
    if memory.is_some() {
        return Some(Source::Memory);
    }
    if let Some(volume) = volume::volume(&mut raw, index, places, out) {
        return Some(Source::Tiered(volume));
    }
    if let Some(volume) = spread::volume(&mut raw, index, places, out) {
        return Some(Source::Spread(volume));
    }
    if raw.ceph.is_some() {
        return ceph::volume(raw, out).map(Source::Ceph);
    }
    upstream(raw, out).map(Source::Upstream)
}

/// Refuses keys that mean nothing for the kind of source.
fn misplaced_keys(raw: &RawBackend, out: &mut Diagnostics) {
    let local = [("direct", at(raw.direct.as_ref()))];
    let remote = [
        ("connections", at(raw.connections.as_ref())),
        ("passthrough", at(raw.passthrough.as_ref())),
        ("allow", at(raw.allow.as_ref())),
        ("writes_survive_restart", at(raw.writes_survive_restart.as_ref())),
        ("tls", at(raw.tls.as_ref())),
        ("metrics", at(raw.metrics.as_ref())),
        ("request_timeout", at(raw.request_timeout.as_ref())),
        ("server", at(raw.server.as_ref())),
    ];
    let tiered = [("extent", at(raw.extent.as_ref())), ("moves", at(raw.moves.as_ref()))];
    let spread = [
        ("object", at(raw.object.as_ref())),
        ("size", at(raw.size.as_ref())),
        ("candidates", at(raw.candidates.as_ref())),
        ("ceiling", at(raw.ceiling.as_ref())),
    ];
    let of_servers = [
        ("leaving", at(raw.leaving.as_ref())),
        ("near", at(raw.near.as_ref())),
        ("prefer", at(raw.prefer.as_ref())),
    ];
    let leased = [("lease", at(raw.lease.as_ref())), ("takeover", at(raw.takeover.as_ref()))];
    let fenced = [("fence", at(raw.fence.as_ref()))];
    let late = [("late", at(raw.late.as_ref()))];
    let patient = [("patience", at(raw.patience.as_ref()))];
    let of_ceph = [
        ("pool", at(raw.pool.as_ref())),
        ("volume", at(raw.volume.as_ref())),
        ("user", at(raw.user.as_ref())),
        ("keyring", at(raw.keyring.as_ref())),
    ];
    let of_store = [
        ("degraded", at(raw.degraded.as_ref())),
        ("emulate", at(raw.emulate.as_ref())),
        ("power_down", at(raw.power_down.as_ref())),
        ("cache", at(raw.cache.as_ref())),
    ];
    let on_disk = raw.file.is_some() || raw.directory.is_some() || raw.store.is_some();
    let is_over_others = raw.tiers.is_some() || raw.choices.is_some();
    let is_remote = is_over_others || raw.upstream.is_some();
    let kinds = [
        (on_disk, "a `file`, `directory` or `store`", &local[..]),
        (raw.store.is_some(), "a `store`", &of_store[..]),
        (raw.upstream.is_some(), "an `upstream`", &remote[..]),
        (raw.tiers.is_some(), "`tiers`", &tiered[..]),
        (raw.choices.is_some() || raw.ceph.is_some(), "`choices` or `ceph`", &spread[..]),
        (raw.upstream.is_some() || raw.ceph.is_some(), "an `upstream` or `ceph`", &patient[..]),
        (raw.ceph.is_some(), "`ceph`", &of_ceph[..]),
        (raw.choices.is_some(), "`choices`", &of_servers[..]),
        (is_over_others, "`tiers` or `choices`", &leased[..]),
        (is_remote, "an `upstream`, `tiers` or `choices`", &late[..]),
        (is_over_others || raw.ceph.is_some(), "`tiers`, `choices` or `ceph`", &fenced[..]),
    ];
    for (_, wanted, keys) in kinds.into_iter().filter(|(is_kind, ..)| !is_kind) {
        for (key, span) in keys {
            if let Some(span) = span.clone() {
                out.error(span, format!("`{key}` needs {wanted}"), "remove it");
            }
        }
    }
}

fn upstream(raw: RawBackend, out: &mut Diagnostics) -> Option<Upstream> {
    let uri = raw.upstream?;
    let (span, uri) = (uri.span(), uri.into_inner());
    let tls = match (uri.tls, raw.tls) {
        (true, Some(tls)) => Some(upstream_tls(tls, out)?),
        (false, None) => None,
        (true, None) => {
            let remedy = "add `tls = { authority = \"ca.pem\" }` to say whom to trust";
            out.error(span, "`nbds` has no authority to trust", remedy);
            return None;
        }
        (false, Some(tls)) => {
            let remedy = "write `nbds://` or `nbds+unix://`, or remove `tls`";
            out.error(tls.span(), "`tls` for an upstream that is not asked to use it", remedy);
            return None;
        }
    };
    Some(Upstream {
        address: uri.address,
        tls,
        connections: or(raw.connections, CONNECTIONS_DEFAULT),
        passthrough: or(raw.passthrough, false),
        allow: raw.allow.map(names),
        writes_survive_restart: or(raw.writes_survive_restart, false),
        patience: or(raw.patience, PATIENCE_DEFAULT),
        late: raw.late.map(|late| takeover::warned_late(&late, out)),
        request_timeout: or(raw.request_timeout, Upstream::REQUEST_TIMEOUT),
        server: or(raw.server, NbdServer::Other),
        metrics: raw.metrics.map(Spanned::into_inner),
    })
}

fn upstream_tls(raw: Spanned<RawUpstreamTls>, out: &mut Diagnostics) -> Option<UpstreamTls> {
    let (span, raw) = (raw.span(), raw.into_inner());
    let identity = match (raw.certificate, raw.key) {
        (Some(certificate), Some(key)) => Some((certificate.into_inner(), key.into_inner())),
        (None, None) => None,
        _ => {
            out.error(span, "`certificate` and `key` go together", "give both, or neither");
            return None;
        }
    };
    let server_name = raw.server_name.map(Spanned::into_inner);
    Some(UpstreamTls { authority: raw.authority.into_inner(), identity, server_name })
}

fn group(raw: RawGroup, index: usize, out: &mut Diagnostics, places: &mut Places) -> Group {
    let name = raw.name.get_ref().clone();
    places.note(Part::Group, index, "", raw.name.span());
    places.note(Part::Group, index, "backends", raw.backends.span());
    let sharing_span = at(raw.sharing.as_ref()).or_else(|| at(raw.min_share.as_ref()));
    let spans = [("sharing", sharing_span), ("exchange", at(raw.exchange.as_ref()))];
    places.note_all(Part::Group, index, spans);
    let sharing = or(raw.sharing, RawSharing::Local);
    if let Some(min_share) = &raw.min_share
        && sharing != RawSharing::Hybrid
    {
        let remedy = "write `sharing = \"hybrid\"`, or remove it";
        out.error(min_share.span(), "`min_share` needs hybrid sharing", remedy);
    }
    let sharing = match sharing {
        RawSharing::Local => Sharing::Local,
        RawSharing::Total => Sharing::Total,
        RawSharing::Hybrid => {
            if raw.min_share.is_none() {
                let remedy = "add `min_share = 0.25`: the part of its local share that a tenant \
                              keeps on every server";
                out.error(raw.name.span(), "hybrid sharing has no `min_share`", remedy);
            }
            Sharing::Hybrid { min_share_milli: or(raw.min_share, 1000) }
        }
    };
    let backends = raw.backends.into_inner().into_iter().map(Spanned::into_inner).collect();
    Group { name, backends, sharing, is_exchanged: or(raw.exchange, false) }
}

fn export(
    raw: RawExport,
    index: usize,
    only_backend: Option<&str>,
    out: &mut Diagnostics,
    places: &mut Places,
) -> Option<Export> {
    let name = raw.name.get_ref().clone();
    places.note(Part::Export, index, "", raw.name.span());
    let spans = [
        ("backend", at(raw.backend.as_ref())),
        ("source", at(raw.source.as_ref())),
        ("offset_bytes", at(raw.offset.as_ref())),
        ("size_bytes", at(raw.size.as_ref())),
        ("allow", at(raw.allow.as_ref())),
    ];
    places.note_all(Part::Export, index, spans);
    let backend = raw.backend.map(Spanned::into_inner).or_else(|| only_backend.map(str::to_owned));
    if backend.is_none() {
        let remedy = "add `backend = \"...\"`; it may be left out only where there is one backend";
        out.error(raw.span, format!("export `{name}` does not say which backend holds it"), remedy);
    }
    Some(Export {
        name,
        backend: backend?,
        source: raw.source.map(Spanned::into_inner),
        offset_bytes: or(raw.offset, 0),
        size_bytes: raw.size.map(Spanned::into_inner),
        read_only: or(raw.read_only, false),
        allow: raw.allow.map(names),
        description: raw.description.map(Spanned::into_inner),
    })
}

fn tenant(raw: RawTenant, index: usize, out: &mut Diagnostics, places: &mut Places) -> Tenant {
    let name = raw.name.get_ref().clone();
    places.note(Part::Tenant, index, "", raw.name.span());
    let spans = [
        ("matches", at(raw.matches.as_ref())),
        ("share.weight_milli", at(raw.share.as_ref())),
        ("share.floor", at(raw.floor.as_ref())),
        ("share.latency_goal", at(raw.latency.as_ref())),
        ("share.limit", at(raw.limit.as_ref())),
        ("share.limit.burst_bytes", at(raw.burst.as_ref())),
        ("share.limit.burst_requests", at(raw.burst.as_ref())),
    ];
    places.note_all(Part::Tenant, index, spans);
    let amounts = |written: Written<Vec<_>>| written.map_or_else(Vec::new, Spanned::into_inner);
    let floor = floor(amounts(raw.floor), out);
    let mut share = Share { weight_milli: or(raw.share, 1000), ..Share::default() };
    if let Some(goal) = &raw.latency {
        refuse_zero_goal(goal, out);
        let Goal { latency, bounds, window } = *goal.get_ref();
        (share.latency_goal, share.goal_bounds, share.goal_window) = (latency, bounds, window);
    }
    let limit = limit(amounts(raw.limit), amounts(raw.burst), out);
    let matches = raw.matches.map_or_else(Vec::new, Spanned::into_inner);
    for (position, way) in matches.iter().enumerate() {
        places.note(Part::Match(index), position, "", way.span());
    }
    let matches = matches.into_iter().map(Spanned::into_inner).collect();
    let read_only = or(raw.read_only, false);
    Tenant { name, matches, read_only, share: Share { limit, floor, ..share } }
}

fn names(list: Spanned<Vec<Spanned<String>>>) -> Vec<String> {
    list.into_inner().into_iter().map(Spanned::into_inner).collect()
}

/// Rates, each in bytes and in requests at most once.
fn floor(rates: Vec<Spanned<Amount>>, out: &mut Diagnostics) -> Floor {
    let mut floor = Floor::default();
    for rate in rates {
        let slot = match rate.get_ref() {
            Amount::Bytes(_) => &mut floor.rate_bytes,
            Amount::Requests(_) => &mut floor.rate_iops,
        };
        set_once(slot, &rate, "floor", "promises nothing", out);
    }
    floor
}

fn refuse_zero_goal(goal: &Spanned<Goal>, out: &mut Diagnostics) {
    if goal.get_ref().latency == Span::ZERO {
        let remedy = "write the time that a request may take, or remove it for no goal";
        out.error(goal.span(), "a latency goal of zero can never be met", remedy);
    }
}

/// Rates and bursts, each in bytes and in requests at most once.
fn limit(
    rates: Vec<Spanned<Amount>>,
    bursts: Vec<Spanned<Amount>>,
    out: &mut Diagnostics,
) -> Limit {
    let mut limit = Limit::default();
    for rate in rates {
        let slot = match rate.get_ref() {
            Amount::Bytes(_) => &mut limit.rate_bytes,
            Amount::Requests(_) => &mut limit.rate_iops,
        };
        set_once(slot, &rate, "limit", "would let nothing pass", out);
    }
    for burst in bursts {
        let slot = match burst.get_ref() {
            Amount::Bytes(_) => &mut limit.burst_bytes,
            Amount::Requests(_) => &mut limit.burst_requests,
        };
        set_once(slot, &burst, "burst", "would let nothing pass", out);
    }
    default_bursts(&mut limit);
    limit
}

/// Fills in bursts that were not given.
pub(crate) fn default_bursts(limit: &mut Limit) {
    for (rate, burst) in
        [(limit.rate_bytes, &mut limit.burst_bytes), (limit.rate_iops, &mut limit.burst_requests)]
    {
        if rate > 0 && *burst == 0 {
            *burst = (rate / BURST_DIVISOR).max(1);
        }
    }
}

/// Sets an amount of a kind; `zero` says what is wrong with none of it.
fn set_once(
    slot: &mut u64,
    amount: &Spanned<Amount>,
    what: &str,
    zero: &str,
    out: &mut Diagnostics,
) {
    let (Amount::Bytes(value) | Amount::Requests(value)) = *amount.get_ref();
    if *slot != 0 {
        let message = format!("a second {what} in the same unit");
        out.error(amount.span(), message, "keep one in bytes and one in requests at most");
    } else if value == 0 {
        let message = format!("a {what} of zero {zero}");
        out.error(amount.span(), message, format!("remove it for no {what}"));
    }
    *slot = value;
}

fn memory(raw: Option<Spanned<RawMemory>>, places: &mut Places) -> Memory {
    let default = Memory::default();
    let Some(raw) = raw else { return default };
    places.note(Part::Memory, 0, "", raw.span());
    let raw = raw.into_inner();
    let spans = [
        ("per_tenant_bytes", at(raw.per_tenant.as_ref())),
        ("total_bytes", at(raw.total.as_ref())),
        ("min_rate_bytes", at(raw.min_rate.as_ref())),
        ("connections", at(raw.connections.as_ref())),
    ];
    places.note_all(Part::Memory, 0, spans);
    Memory {
        per_tenant_bytes: or(raw.per_tenant, default.per_tenant_bytes),
        total_bytes: or(raw.total, default.total_bytes),
        min_rate_bytes: or(raw.min_rate, default.min_rate_bytes),
        connections: or(raw.connections, default.connections),
    }
}
