//! Tenants: shares that mean something, limits that can be met, matches that can fit.

use std::collections::BTreeMap;

use evenkeel_core::bytes::Bytes;
use evenkeel_core::sched::{Limit, Share};
use evenkeel_core::time::Span;

use super::{Findings, Place, check_names, known};
use crate::cost::{CostModel, Line};
use crate::policy::matching::{Network, fits};
use crate::policy::{Address, DEFAULT_TENANT, Match, Policy, Source, Tenant};
use crate::report::DEVICE_NAME;

/// The largest weight, in thousandths.
const LARGEST_WEIGHT_MILLI: u32 = 1_000_000_000;
/// The smallest request that a client can send to a disk.
const SMALLEST_REQUEST_BYTES: u64 = 512;
/// A byte limit below this is rather one whose unit was forgotten.
const SLOWEST_LIKELY_RATE_BYTES: u64 = 4096;

pub(super) fn check(policy: &Policy, found: &mut Findings) {
    let names = policy.tenants.iter().map(|tenant| tenant.name.as_str());
    check_names("tenant", names, false, |index| Place::Tenant { index, field: "name" }, found);
    let ceiling = Ceiling::of(policy);
    for (index, tenant) in policy.tenants.iter().enumerate() {
        if tenant.name == DEVICE_NAME {
            found.error(
                Place::Tenant { index, field: "name" },
                format!("the name {DEVICE_NAME:?} is reserved for the device in `interference`"),
                "give the tenant another name",
            );
        }
        check_weight(index, tenant.share, found);
        check_limit(policy, index, &tenant.share.limit, &ceiling, found);
        let is_own = policy.own_tenants().any(|own| own == tenant.name);
        if is_own && !tenant.matches.is_empty() {
            found.error(
                Place::Match { tenant: index, index: 0 },
                format!(
                    "tenant {:?} pays for the gate's own work, and has no clients",
                    tenant.name
                ),
                "remove the match, or give those clients a tenant of another name",
            );
        }
        if tenant.matches.is_empty() && tenant.name != DEFAULT_TENANT && !is_own {
            found.warning(
                Place::Tenant { index, field: "matches" },
                format!("nothing says which connections are those of {:?}", tenant.name),
                "add a match, or remove the tenant",
            );
        }
        for (position, one) in tenant.matches.iter().enumerate() {
            check_match(policy, one, Place::Match { tenant: index, index: position }, found);
        }
    }
    check_ambiguity(&policy.tenants, found);
}

fn check_weight(index: usize, share: Share, found: &mut Findings) {
    let place = Place::Tenant { index, field: "share.weight_milli" };
    if share.weight_milli == 0 {
        found.error(place, "a share of 0 would starve the tenant", "use at least 0.001");
    } else if share.weight_milli > LARGEST_WEIGHT_MILLI {
        found.error(
            place,
            format!("a share of {}", f64::from(share.weight_milli) / 1000.0),
            "use at most 1000000; only the ratio to the others counts",
        );
    }
}

/// The most that all backends together can do, by their cost models.
struct Ceiling {
    rate_bytes: Option<u64>,
    rate_iops: Option<u64>,
}

impl Ceiling {
    fn of(policy: &Policy) -> Self {
        let lines: Option<Vec<Line>> = policy
            .backends
            .iter()
            .map(|backend| match backend.scheduling.cost {
                CostModel::Linear { read, write, .. } => Some(Line {
                    fixed: read.fixed.min(write.fixed),
                    rate_bytes: read.rate_bytes.max(write.rate_bytes),
                }),
                CostModel::PerRequest => None,
            })
            .collect();
        let lines = lines.unwrap_or_default();
        if lines.is_empty() {
            return Self { rate_bytes: None, rate_iops: None };
        }
        let per_second = |fixed: Span| 1_000_000_000_u64.checked_div(fixed.0);
        let rates_iops: Option<Vec<u64>> =
            lines.iter().map(|line| per_second(line.fixed)).collect();
        Self {
            rate_bytes: Some(lines.iter().fold(0, |sum, line| sum.saturating_add(line.rate_bytes))),
            rate_iops: rates_iops.map(|rates| rates.iter().sum()),
        }
    }
}

fn check_limit(
    policy: &Policy,
    index: usize,
    limit: &Limit,
    ceiling: &Ceiling,
    found: &mut Findings,
) {
    check_bursts(policy, index, limit, found);
    check_reach(index, limit, ceiling, found);
    if (1..SLOWEST_LIKELY_RATE_BYTES).contains(&limit.rate_bytes) {
        found.warning(
            Place::Tenant { index, field: "share.limit.rate_bytes" },
            format!("a limit of {}/s", Bytes(limit.rate_bytes)),
            "was a unit such as MiB/s forgotten?",
        );
    }
}

fn check_bursts(policy: &Policy, index: usize, limit: &Limit, found: &mut Findings) {
    let place = |field| Place::Tenant { index, field };
    let (requests, bytes) = ("share.limit.burst_requests", "share.limit.burst_bytes");
    if limit.rate_iops > 0 && limit.burst_requests == 0 {
        found.error(place(requests), "a burst of 0 lets no request through", "allow at least 1");
    }
    if limit.rate_bytes > 0 && limit.burst_bytes == 0 {
        found.error(place(bytes), "a burst of 0 lets no byte through", "allow some MiB");
    }
    let unit_bytes = policy.backends.iter().map(|one| one.scheduling.unit_bytes).max().unwrap_or(0);
    if limit.rate_bytes > 0 && (1..unit_bytes).contains(&limit.burst_bytes) {
        found.warning(
            place(bytes),
            format!(
                "a burst of {} is less than a unit of {}, which will pass and leave a debt each \
                 time",
                Bytes(limit.burst_bytes),
                Bytes(unit_bytes)
            ),
            "allow at least one unit",
        );
    }
    let unused = [
        (requests, limit.burst_requests > 0 && limit.rate_iops == 0, "requests"),
        (bytes, limit.burst_bytes > 0 && limit.rate_bytes == 0, "bytes"),
    ];
    for (field, is_unused, what) in unused {
        if is_unused {
            found.warning(
                place(field),
                format!("a burst without a limit on {what} per second has no effect"),
                "set the limit, or remove the burst",
            );
        }
    }
}

/// Limits that something else always meets first.
fn check_reach(index: usize, limit: &Limit, ceiling: &Ceiling, found: &mut Findings) {
    let (iops, bytes) = ("share.limit.rate_iops", "share.limit.rate_bytes");
    let mut never = |field, reason: String| {
        found.warning(
            Place::Tenant { index, field },
            format!("this limit can never be reached: {reason}"),
            "lower it, or remove it",
        );
    };
    if let Some(most) = ceiling.rate_bytes.filter(|&most| limit.rate_bytes > most) {
        let most = Bytes(most);
        never(bytes, format!("all backends together do {most}/s by their models"));
    }
    if let Some(most) = ceiling.rate_iops.filter(|&most| limit.rate_iops > most) {
        never(iops, format!("all backends together do {most} requests per second by their models"));
    }
    if limit.rate_bytes > 0 && limit.rate_iops > limit.rate_bytes / SMALLEST_REQUEST_BYTES {
        let bytes = Bytes(limit.rate_bytes);
        never(iops, format!("the limit of {bytes}/s comes first at any size"));
    }
    let most_bytes = limit.rate_iops.saturating_mul(super::MAXIMAL_REQUEST_BYTES);
    if limit.rate_iops > 0 && limit.rate_bytes > most_bytes {
        let iops = limit.rate_iops;
        never(bytes, format!("the limit of {iops} requests per second comes first at any size"));
    }
}

fn check_match(policy: &Policy, one: &Match, place: Place, found: &mut Findings) {
    match one {
        Match::TlsName(pattern) => check_tls_name(policy, pattern, place, found),
        Match::Export(pattern) => check_export(policy, pattern, place, found),
        Match::Listener(name) => {
            if !policy.listeners.iter().any(|listener| listener.name == *name) {
                let names = known(policy.listeners.iter().map(|listener| listener.name.as_str()));
                found.error(place, format!("there is no listener {name:?}"), names);
            }
        }
        Match::Peer { network, prefix } => check_peer(policy, *network, *prefix, place, found),
    }
}

fn check_tls_name(policy: &Policy, pattern: &str, place: Place, found: &mut Findings) {
    let mut listeners = policy.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    if !listeners.any(|tls| tls.client_authority.is_some()) {
        found.error(
            place,
            "a match on a TLS name, but no listener asks clients for certificates",
            "set a client authority on a listener, or match on something else",
        );
    }
    if pattern.is_empty() {
        found.error(
            place,
            "an empty TLS name fits no certificate",
            "name the client's certificate",
        );
    }
}

fn check_export(policy: &Policy, pattern: &str, place: Place, found: &mut Findings) {
    let is_open = |source: &Source| matches!(source, Source::Upstream(up) if up.passthrough);
    let is_closed = !policy.backends.iter().any(|backend| is_open(&backend.source));
    if is_closed && !policy.exports.iter().any(|export| fits(pattern, &export.name)) {
        found.warning(
            place,
            format!("no export has a name like {pattern:?}"),
            known(policy.exports.iter().map(|export| export.name.as_str())),
        );
    }
}

fn check_peer(
    policy: &Policy,
    address: std::net::IpAddr,
    prefix: u8,
    place: Place,
    found: &mut Findings,
) {
    let most = if address.is_ipv4() { 32 } else { 128 };
    if prefix > most {
        let message = format!("a prefix of {prefix} bits for an address of {most}");
        found.error(place, message, format!("use 0 to {most}"));
    } else if Network::new(address, prefix).cuts(address) {
        found.warning(
            place,
            format!("{address}/{prefix} has bits beyond its prefix, which do not count"),
            "clear them, or use a longer prefix if you meant that one address",
        );
    }
    let is_unix = |address: &Address| matches!(address, Address::Unix(_));
    if policy.listeners.iter().all(|listener| is_unix(&listener.address)) {
        found.warning(
            place,
            "clients of unix sockets have no address, and every listener is one",
            "match on the listener or the export",
        );
    }
}

/// The form in which two matches that fit the same connections are equal.
fn canonical(one: &Match) -> (Match, u32) {
    match one {
        Match::TlsName(pattern) => (Match::TlsName(pattern.to_ascii_lowercase()), 0),
        Match::Peer { network, prefix } => {
            let network = Network::new(*network, *prefix);
            (Match::Peer { network: network.address(), prefix: 0 }, network.prefix)
        }
        Match::Export(_) | Match::Listener(_) => (one.clone(), 0),
    }
}

fn check_ambiguity(tenants: &[Tenant], found: &mut Findings) {
    let mut first_use: BTreeMap<(Match, u32), usize> = BTreeMap::new();
    for (tenant, row) in tenants.iter().enumerate() {
        for (index, one) in row.matches.iter().enumerate() {
            let place = Place::Match { tenant, index };
            match first_use.insert(canonical(one), tenant) {
                Some(first) if first == tenant => {
                    found.warning(place, "the tenant has this match already", "remove it");
                }
                Some(first) => found.error(
                    place,
                    format!("tenant {:?} has the same match", tenants[first].name),
                    "keep it with the one that the connections belong to",
                ),
                None => {}
            }
        }
    }
}
