//! The exchange between gates: peers that can be told apart, devices that can be shared.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::control::peers::HOSTS_MAX;
use evenkeel_core::control::summary::{FLOWS_MAX, HostId};
use evenkeel_core::time::Span;

use super::listeners::{check_address, host_and_port};
use super::{Findings, Place};
use crate::policy::{
    Address, Backend, Control, Exchange, Group, Meeting, Method, Policy, Sharing, Tenant,
};

/// A shorter period is beyond timers; a longer one is no control.
const PERIOD: std::ops::RangeInclusive<Span> = Span::from_millis(20)..=Span::from_secs(10);

fn at(field: &'static str) -> Place {
    Place::Exchange { field }
}

fn at_backend(index: usize, field: &'static str) -> Place {
    Place::Backend { index, field }
}

pub(super) fn check(policy: &Policy, found: &mut Findings) {
    for (index, backend) in policy.backends.iter().enumerate() {
        check_control(index, backend, found);
    }
    for (index, backend) in policy.exchanged_backends() {
        if backend.scheduling.is_shared() {
            check_shared(policy, index, backend, found);
        } else {
            check_joining(policy, index, backend, found);
        }
    }
    for (index, group) in policy.groups.iter().enumerate().filter(|(_, group)| group.is_exchanged) {
        check_group(policy, index, group, found);
    }
    let Some(exchange) = &policy.exchange else { return };
    if policy.exchanged_backends().next().is_none() && policy.exchanged_groups().next().is_none() {
        found.warning(
            at(""),
            "an exchange, and neither a backend nor a group that takes part",
            "write `array` or `control = \"automatic\"` at the backends that other gates use \
             too, or `exchange = true` at the groups whose shares count over other gates",
        );
    }
    check_settings(exchange, found);
    match &exchange.meeting {
        Meeting::Listed { listen, .. } => {
            check_address(&Address::Tcp(listen.clone()), at("listen"), found);
            check_peers(exchange, found);
        }
        Meeting::Nats { servers } => check_nats(servers, found),
        Meeting::Etcd { listen, servers } => {
            check_address(&Address::Tcp(listen.clone()), at("listen"), found);
            check_address(&Address::Tcp(exchange.own.clone()), at("own"), found);
            check_etcd(servers, found);
        }
    }
    check_devices(policy, exchange, found);
    check_goals(policy, found);
}

/// The most tenants with a goal before a backend that another controller than `shares` divides:
/// they are there to be compared with, and look at each tenant with each request.
const GOALS_MAX_OTHERWISE: usize = 63;

/// What a gate says of its tenants is bounded.
fn check_goals(policy: &Policy, found: &mut Findings) {
    let strict = policy.tenants.iter().filter(|tenant| Tenant::has_goal(tenant)).count();
    if strict >= FLOWS_MAX {
        found.error(
            at(""),
            format!("{strict} tenants with a latency goal; a word tells of {FLOWS_MAX} tenants"),
            "use at most 1023 tenants with a goal at a gate",
        );
    } else if strict > GOALS_MAX_OTHERWISE {
        for (index, backend) in policy.exchanged_backends() {
            let method = backend.scheduling.control.method();
            let Some(method) = method.filter(|method| *method != Method::Shares) else { continue };
            found.error(
                at_backend(index, "scheduling.control"),
                format!("{strict} tenants with a latency goal under {}", method.name()),
                "use `control = \"shares\"`, or at most 63 tenants with a goal at a gate",
            );
        }
    }
}

fn check_control(index: usize, backend: &Backend, found: &mut Findings) {
    let scheduling = &backend.scheduling;
    let (is_shared, has_control) = (scheduling.is_shared(), scheduling.control.method().is_some());
    if scheduling.array.is_some() && !is_shared && scheduling.control != Control::Automatic {
        found.warning(
            at_backend(index, "scheduling.array"),
            format!(
                "{:?} is not shared with other gates, so that its `array` says nothing",
                backend.name
            ),
            "write `control = \"automatic\"` and an [exchange], or remove `array`",
        );
    }
    if has_control && !is_shared {
        let word = scheduling.discipline.name();
        found.error(
            at_backend(index, "scheduling.control"),
            format!("{:?} queues by {word}, which nobody controls", backend.name),
            "leave the discipline out, or remove the controller",
        );
    }
}

/// A backend that is to be divided with whoever is heard: by what others know it.
fn check_joining(policy: &Policy, index: usize, backend: &Backend, found: &mut Findings) {
    let place = at_backend(index, "scheduling.control");
    let name = &backend.name;
    if policy.can_join(backend) {
        return;
    }
    if policy.exchange.is_none() {
        found.warning(
            place,
            format!("{name:?} is divided with other gates that are heard, and none can be"),
            "add an [exchange] with its peers, or remove the controller",
        );
    } else if backend.array_of_all_hosts().is_none() {
        found.error(
            place,
            format!("nothing says which array {name:?} is: its address differs from host to host"),
            "write `array = \"NAME\"`, the same at all gates before it",
        );
    } else {
        found.error(
            place,
            format!("the requests to {name:?} are ordered with those to other backends"),
            "use local sharing in its group, or remove the controller",
        );
    }
}

fn check_shared(policy: &Policy, index: usize, backend: &Backend, found: &mut Findings) {
    let place = at_backend(index, "scheduling.control");
    let name = &backend.name;
    if policy.exchange.is_none() {
        found.error(
            place,
            format!("{name:?} is shared with other gates, and nothing says with which"),
            "add an [exchange] with its peers",
        );
    }
    if policy.volume_of(name).is_some() || !backend.members().is_empty() {
        found.error(
            place,
            format!("{name:?} is part of a volume, which no other gate can share"),
            "remove the controller",
        );
    }
    let group = policy.groups.iter().find(|group| group.backends.contains(name));
    if let Some(group) = group.filter(|group| group.sharing != Sharing::Local) {
        found.error(
            place,
            format!("{name:?} gives shares in all with group {:?}", group.name),
            "use local sharing in the group, or remove the controller",
        );
    }
    check_shares(policy, index, backend, found);
}

/// One controller divides a device between gates by shares: whoever wrote some and has another
/// hears of it.
fn check_shares(policy: &Policy, index: usize, backend: &Backend, found: &mut Findings) {
    if backend.scheduling.control == Control::By(Method::Shares) {
        return;
    }
    let reach = policy.reach();
    let weight = |tenant: &usize| policy.tenants[*tenant].share.weight_milli;
    let weights: BTreeSet<u32> = reach.tenants(index).iter().map(weight).collect();
    if weights.len() < 2 {
        return;
    }
    let control = backend.scheduling.control.method().unwrap_or_default().name();
    found.warning(
        at_backend(index, "scheduling.control"),
        format!("{control} does not divide {:?} among tenants by their shares", backend.name),
        "use `control = \"shares\"` at all gates before it, or give tenants a `latency`",
    );
}

fn check_group(policy: &Policy, index: usize, group: &Group, found: &mut Findings) {
    let place = Place::Group { index, field: "exchange" };
    let name = &group.name;
    if policy.exchange.is_none() {
        found.error(
            place,
            format!("the shares of {name:?} count over other gates, and nothing says over which"),
            "add an [exchange] with its peers",
        );
    }
    if group.sharing == Sharing::Local {
        found.error(
            place,
            format!("the shares of {name:?} count on each server by itself, so not over gates"),
            "use `sharing = \"total\"` or \"hybrid\", or remove `exchange`",
        );
    }
}

fn check_settings(exchange: &Exchange, found: &mut Findings) {
    if exchange.name.is_empty() {
        found.error(at("name"), "an exchange without a name", "name it alike at all its gates");
    }
    if exchange.own.is_empty() {
        let remedy = "write the address by which the others know this gate";
        found.error(at("own"), "a gate without a name", remedy);
    }
    if exchange.key.as_os_str().is_empty() {
        found.error(at("key"), "an empty path", "name the file with the key of all gates");
    }
    if !PERIOD.contains(&exchange.period) {
        found.error(
            at("period"),
            format!("a period of {}", exchange.period),
            "use 20 ms to 10 s; 200 ms suits most devices",
        );
    }
}

/// Servers of NATS, by URIs that a client of it takes.
fn check_nats(servers: &[String], found: &mut Findings) {
    let remedy = "write it like nats://10.0.0.9:4222, or tls://10.0.0.9:4222";
    if servers.is_empty() {
        found.error(at("nats"), "no server", remedy);
    }
    for server in servers {
        let rest = server.strip_prefix("nats://").or_else(|| server.strip_prefix("tls://"));
        // What stands before the last @ are a name and a password, which no finding repeats.
        let address = rest.map(|rest| rest.rsplit_once('@').map_or(rest, |(_, address)| address));
        if address.and_then(host_and_port).is_none() {
            let shown = address.unwrap_or_else(|| server.split("://").next().unwrap_or(""));
            found.error(at("nats"), format!("{shown:?} names no server of NATS"), remedy);
        }
    }
}

/// Servers of etcd, by URIs that its clients take.
fn check_etcd(servers: &[String], found: &mut Findings) {
    let is_server =
        |server: &&String| server.strip_prefix("http://").and_then(host_and_port).is_some();
    let bad = servers.iter().find(|server| !is_server(server));
    if bad.is_some() || servers.is_empty() {
        let shown = bad.map_or_else(|| "no server".to_owned(), |bad| format!("{bad:?}"));
        let remedy = "write it like http://10.0.0.9:2379; there is no TLS to etcd";
        found.error(at("etcd"), format!("{shown} is no server of etcd"), remedy);
    }
}

fn check_peers(exchange: &Exchange, found: &mut Findings) {
    let others = exchange.others().unwrap_or_default();
    if others.is_empty() {
        found.warning(
            at("peers"),
            "nobody to exchange with: this gate is alone before its devices",
            "list the addresses of the other gates",
        );
    }
    if others.len() >= HOSTS_MAX {
        let message = format!("{} peers", others.len());
        found.error(at("peers"), message, format!("share a device among {HOSTS_MAX} at most"));
    }
    let mut known = BTreeMap::from([(exchange.host(), exchange.own.as_str())]);
    for peer in others {
        check_address(&Address::Tcp(peer.to_owned()), at("peers"), found);
        if let Some(other) = known.insert(HostId::named(peer), peer) {
            found.error(
                at("peers"),
                format!("{peer:?} and {other:?} have the same number on the wire"),
                "write one of them in another way, at every gate: a name in place of an address",
            );
        }
    }
}

fn check_devices(policy: &Policy, exchange: &Exchange, found: &mut Findings) {
    let mut known = BTreeMap::new();
    for (index, backend) in policy.exchanged_backends() {
        let (name, array) = (&backend.name, backend.array());
        let Some((other, its)) = known.insert(exchange.device(array), (name, array)) else {
            continue;
        };
        if array == its {
            found.error(
                at_backend(index, "scheduling.array"),
                format!("{name:?} and {other:?} are one array, {array}"),
                "make one backend of the two, or give each an `array` of its own",
            );
        } else {
            found.error(
                at_backend(index, "scheduling.array"),
                format!("the arrays {array:?} and {its:?} have the same number on the wire"),
                "give one of them another `array`, at every gate",
            );
        }
    }
}
