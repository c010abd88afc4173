//! A policy as the text of a policy file: what the gate has in force, in a form that can be kept,
//! compared and loaded again. `parse(print(p)) == p` for every policy that `parse` can give.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_core::sched::Share;
use evenkeel_core::time::Span;
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::{
    Backend, Control, Depth, Export, Group, Listener, Match, Memory, Method, Mode, NbdServer,
    Policy, Scheduling, Sharing, Source, Tenant, Tiered, Upstream,
};
use evenkeel_engine::report::ServerReport;

use super::resolve::address_text;
use super::uri::ServerUri;
use super::volume::{member_name, moves_name};
use super::{exchange, goal};
use crate::units::{self, Amount};

/// The word for a mode.
pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Observe => "observe",
        Mode::Shadow => "shadow",
        Mode::Enforce => "enforce",
    }
}

/// The policy as text. Every value is spelled out, defaults included.
pub fn print(policy: &Policy) -> String {
    print_with_found(policy, &[])
}

/// The same, with what a gate has found by itself at these servers in comments beside it.
pub fn print_with_found(policy: &Policy, servers: &[ServerReport]) -> String {
    let found = servers.iter().map(|server| (server.name.clone(), Found::of(server))).collect();
    let mut text = Text { found, ..Text::default() };
    text.key("mode", quoted(mode_name(policy.mode)));
    policy.listeners.iter().for_each(|part| listener(part, &mut text));
    policy.backends.iter().for_each(|part| backend(part, policy, &mut text));
    policy.groups.iter().for_each(|part| group(part, &mut text));
    policy.exports.iter().for_each(|part| export(part, &mut text));
    policy.tenants.iter().for_each(|part| tenant(part, &mut text));
    if let Some(exchange) = &policy.exchange {
        text.section("[exchange]");
        for (key, value) in exchange::printed(exchange) {
            text.key(key, value);
        }
    }
    memory(policy.memory, &mut text);
    if !policy.metrics.hosts.is_empty() {
        text.section("[metrics]");
        let hosts: Vec<_> = policy.metrics.hosts.iter().map(|host| quoted(host)).collect();
        text.key("hosts", format!("[{}]", hosts.join(", ")));
    }
    text.text
}

#[derive(Default)]
pub(super) struct Text {
    text: String,
    /// By backend.
    found: BTreeMap<String, Found>,
}

/// What a gate has found at a server.
#[derive(Clone, Default)]
struct Found {
    depth: Option<u32>,
    unit_bytes: Option<u64>,
    cost: Option<CostModel>,
    is_shared: bool,
}

impl Found {
    fn of(server: &ServerReport) -> Self {
        let measured = server.measured.filter(|_| server.is_cost_learned);
        let cost = measured.map(|measured| measured.model());
        let unit_bytes = cost.map(|_| server.unit_bytes);
        Self { depth: server.depth_found, unit_bytes, cost, is_shared: server.is_shared }
    }
}

impl Text {
    fn section(&mut self, header: &str) {
        self.text += &format!("\n{header}\n");
    }

    /// What is left to the gate, and what it has found.
    fn automatic(&mut self, key: &str, found: Option<String>) {
        let found = found.map_or_else(String::new, |found| format!("  # found: {found}"));
        self.key(key, quoted("automatic") + &found);
    }

    pub(super) fn key(&mut self, key: &str, value: impl AsRef<str>) {
        self.text += &format!("{key} = {}\n", value.as_ref());
    }

    fn optional(&mut self, key: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.key(key, quoted(value));
        }
    }
}

pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

pub(super) fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

pub(super) fn size(bytes: u64) -> String {
    quoted(&units::print_size(bytes))
}

pub(super) fn thousandths(milli: u32) -> String {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn listener(listener: &Listener, text: &mut Text) {
    text.section("[[listener]]");
    text.key("name", quoted(&listener.name));
    text.key("address", quoted(&address_text(&listener.address)));
    if let Some(tls) = &listener.tls {
        text.key("tls.certificate", path(&tls.certificate));
        text.key("tls.key", path(&tls.key));
        if let Some(authority) = &tls.client_authority {
            text.key("tls.client_authority", path(authority));
        }
        text.key("tls.required", tls.required.to_string());
    }
}

fn backend(backend: &Backend, policy: &Policy, text: &mut Text) {
    text.section("[[backend]]");
    text.key("name", quoted(&backend.name));
    match &backend.source {
        Source::Upstream(server) => upstream(server, text),
        Source::File { path: at, direct } => {
            text.key("file", path(at));
            text.key("direct", direct.to_string());
        }
        Source::Directory { path: at, direct } => {
            text.key("directory", path(at));
            text.key("direct", direct.to_string());
        }
        Source::Store(store) => super::store::print(store, backend, text),
        Source::Memory => text.key("memory", "true"),
        Source::Tiered(volume) => {
            self::volume(volume, text);
            discipline(&backend.scheduling, &Found::default(), text);
            return;
        }
        Source::Spread(volume) => return super::spread::print(volume, text),
        Source::Ceph(volume) => super::ceph::print(volume, text),
    }
    let found = text.found.get(&backend.name).cloned().unwrap_or_default();
    if policy.volume_of(&backend.name).is_none_or(|volume| volume.volume().is_none()) {
        discipline(&backend.scheduling, &found, text);
    }
    scheduling(&backend.scheduling, &found, text);
}

fn volume(volume: &Tiered, text: &mut Text) {
    let tiers: Vec<_> = volume.tiers.iter().map(member_name).collect();
    text.key("tiers", format!("[{}]", tiers.join(", ")));
    text.key("extent", size(volume.extent_bytes));
    text.key("moves", quoted(moves_name(volume.moves)));
    super::takeover::print(&volume.takeover, text);
}

fn upstream(upstream: &Upstream, text: &mut Text) {
    let uri = ServerUri { address: upstream.address.clone(), tls: upstream.tls.is_some() };
    text.key("upstream", quoted(&uri.to_string()));
    text.key("connections", upstream.connections.to_string());
    text.key("passthrough", upstream.passthrough.to_string());
    allow(upstream.allow.as_deref(), text);
    text.key("writes_survive_restart", upstream.writes_survive_restart.to_string());
    text.key("patience", quoted(&units::print_duration(upstream.patience)));
    if let Some(late) = upstream.late {
        text.key("late", quoted(&units::print_duration(late)));
    }
    text.key("request_timeout", quoted(&units::print_duration(upstream.request_timeout)));
    if upstream.server != NbdServer::Other {
        text.key("server", quoted(upstream.server.name()));
    }
    text.optional("metrics", upstream.metrics.as_ref().map(ToString::to_string).as_ref());
    if let Some(tls) = &upstream.tls {
        text.key("tls.authority", path(&tls.authority));
        if let Some((certificate, key)) = &tls.identity {
            text.key("tls.certificate", path(certificate));
            text.key("tls.key", path(key));
        }
        text.optional("tls.server_name", tls.server_name.as_ref());
    }
}

fn discipline(scheduling: &Scheduling, found: &Found, text: &mut Text) {
    text.key("discipline", quoted(scheduling.discipline.name()));
    match scheduling.control {
        Control::By(method) => text.key("control", quoted(method.name())),
        Control::Automatic => {
            let by = || format!("{}, with other gates", Method::Shares.name());
            text.automatic("control", found.is_shared.then(by));
        }
        Control::Alone => {}
    }
    text.optional("array", scheduling.array.as_ref());
}

fn scheduling(scheduling: &Scheduling, found: &Found, text: &mut Text) {
    if scheduling.depth == Depth::Automatic {
        text.automatic("depth", found.depth.map(|depth| depth.to_string()));
    } else {
        text.key("depth", depth(scheduling.depth));
    }
    text.key("hold", quoted(&units::print_duration(scheduling.hold)));
    if scheduling.is_unit_found {
        text.automatic("unit", found.unit_bytes.map(units::print_size));
    } else {
        text.key("unit", size(scheduling.unit_bytes));
    }
    if scheduling.is_cost_learned {
        text.automatic("cost", found.cost.map(found_cost));
        capacity("", scheduling.capacity_iops, text);
    } else {
        costs("", scheduling.cost, scheduling.capacity_iops, text);
    }
}

/// For people: three digits are more than is known.
fn found_cost(cost: CostModel) -> String {
    let CostModel::Linear { read, write, .. } = cost else { return "1 per request".to_owned() };
    let one = |line: Line| {
        let fixed = Span::from_micros(line.fixed.0.div_ceil(1000));
        let step = if line.rate_bytes < 16 << 20 { 1 << 10 } else { 1 << 20 };
        let rate = units::print_rate(Amount::Bytes(line.rate_bytes / step * step));
        format!("{} and {rate}", units::print_duration(fixed))
    };
    format!("reads {}, writes {}", one(read), one(write))
}

/// What requests cost and how many there can be, under keys that begin alike.
pub(super) fn costs(prefix: &str, cost: CostModel, capacity_iops: Option<u64>, text: &mut Text) {
    let key = |name: &str| format!("{prefix}{name}");
    match cost {
        CostModel::PerRequest => text.key(&key("cost"), quoted("request")),
        CostModel::Linear { read, write, flush } => {
            text.key(&key("cost.read"), line(read));
            text.key(&key("cost.write"), line(write));
            text.key(&key("cost.flush"), quoted(&units::print_duration(flush)));
        }
    }
    capacity(prefix, capacity_iops, text);
}

fn capacity(prefix: &str, capacity_iops: Option<u64>, text: &mut Text) {
    if let Some(iops) = capacity_iops {
        let key = format!("{prefix}capacity");
        text.key(&key, quoted(&units::print_rate(Amount::Requests(iops))));
    }
}

pub(super) fn depth(depth: Depth) -> String {
    match depth {
        Depth::Requests(requests) => requests.to_string(),
        Depth::Bytes(bytes) => size(bytes),
        Depth::Automatic => quoted("automatic"),
        Depth::Adaptive { min, max, read_goal, write_goal } => {
            let goal = |span| quoted(&units::print_duration(span));
            let (read, write) = (goal(read_goal), goal(write_goal));
            format!("{{ min = {min}, max = {max}, read_goal = {read}, write_goal = {write} }}")
        }
    }
}

fn line(line: Line) -> String {
    let fixed = quoted(&units::print_duration(line.fixed));
    let rate = quoted(&units::print_rate(Amount::Bytes(line.rate_bytes)));
    format!("{{ fixed = {fixed}, rate = {rate} }}")
}

fn group(group: &Group, text: &mut Text) {
    text.section("[[group]]");
    text.key("name", quoted(&group.name));
    let backends: Vec<_> = group.backends.iter().map(|name| quoted(name)).collect();
    text.key("backends", format!("[{}]", backends.join(", ")));
    match group.sharing {
        Sharing::Local => text.key("sharing", quoted("local")),
        Sharing::Total => text.key("sharing", quoted("total")),
        Sharing::Hybrid { min_share_milli } => {
            text.key("sharing", quoted("hybrid"));
            text.key("min_share", thousandths(min_share_milli));
        }
    }
    text.key("exchange", group.is_exchanged.to_string());
}

fn export(export: &Export, text: &mut Text) {
    text.section("[[export]]");
    text.key("name", quoted(&export.name));
    text.key("backend", quoted(&export.backend));
    text.optional("source", export.source.as_ref());
    text.key("offset", size(export.offset_bytes));
    if let Some(bytes) = export.size_bytes {
        text.key("size", size(bytes));
    }
    text.key("read_only", export.read_only.to_string());
    allow(export.allow.as_deref(), text);
    text.optional("description", export.description.as_ref());
}

fn tenant(tenant: &Tenant, text: &mut Text) {
    text.section("[[tenant]]");
    text.key("name", quoted(&tenant.name));
    let matches: Vec<_> = tenant.matches.iter().map(one_match).collect();
    match matches.as_slice() {
        [] => {}
        [only] => text.key("match", only),
        several => text.key("match", format!("[{}]", several.join(", "))),
    }
    text.key("read_only", tenant.read_only.to_string());
    share(&tenant.share, text);
}

fn allow(tenants: Option<&[String]>, text: &mut Text) {
    if let Some(tenants) = tenants {
        let names: Vec<_> = tenants.iter().map(|name| quoted(name)).collect();
        text.key("allow", format!("[{}]", names.join(", ")));
    }
}

fn share(share: &Share, text: &mut Text) {
    text.key("share", thousandths(share.weight_milli));
    let Share { floor, limit, .. } = share;
    amounts("floor", units::amounts(floor.rate_bytes, floor.rate_iops), units::print_rate, text);
    if share.latency_goal > Span::ZERO {
        text.key("latency", goal::printed(share));
    }
    amounts("limit", units::amounts(limit.rate_bytes, limit.rate_iops), units::print_rate, text);
    let burst = units::amounts(limit.burst_bytes, limit.burst_requests);
    amounts("burst", burst, units::print_burst, text);
}

/// None, one, or a list of amounts.
fn amounts(key: &str, amounts: Vec<Amount>, print: fn(Amount) -> String, text: &mut Text) {
    let values: Vec<_> = amounts.into_iter().map(|amount| quoted(&print(amount))).collect();
    match values.as_slice() {
        [] => {}
        [only] => text.key(key, only),
        several => text.key(key, format!("[{}]", several.join(", "))),
    }
}

fn one_match(way: &Match) -> String {
    match way {
        Match::TlsName(pattern) => format!("{{ tls_name = {} }}", quoted(pattern)),
        Match::Export(pattern) => format!("{{ export = {} }}", quoted(pattern)),
        Match::Listener(name) => format!("{{ listener = {} }}", quoted(name)),
        Match::Peer { network, prefix } => {
            format!("{{ peer = {} }}", quoted(&format!("{network}/{prefix}")))
        }
    }
}

fn memory(memory: Memory, text: &mut Text) {
    text.section("[memory]");
    text.key("per_tenant", size(memory.per_tenant_bytes));
    text.key("total", size(memory.total_bytes));
    text.key("min_rate", quoted(&units::print_rate(Amount::Bytes(memory.min_rate_bytes))));
    text.key("connections", memory.connections.to_string());
}
