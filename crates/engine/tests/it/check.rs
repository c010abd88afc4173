//! What operators get wrong, one mistake at a time on a policy that is right.

use evenkeel_core::sched::{Limit, Share};
use evenkeel_core::time::Span;
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::check::{Place, Severity};
use evenkeel_engine::policy::{
    Address, Backend, Depth, Discipline, Export, Group, Listener, ListenerTls, Match, Mode, Policy,
    Scheduling, Sharing, Source, Tenant, Upstream,
};

fn listener(name: &str, port: u16) -> Listener {
    let address = Address::Tcp(format!("0.0.0.0:{port}"));
    Listener { name: name.into(), address, tls: None }
}

fn backend(name: &str, path: &str) -> Backend {
    let source = Source::File { path: path.into(), direct: true };
    Backend { name: name.into(), source, scheduling: Scheduling::default() }
}

fn export(name: &str, backend: &str, offset_mib: u64) -> Export {
    Export {
        name: name.into(),
        backend: backend.into(),
        source: None,
        offset_bytes: offset_mib << 20,
        size_bytes: Some(100 << 20),
        read_only: false,
        description: None,
    }
}

fn tenant(name: &str, one: Match) -> Tenant {
    Tenant { name: name.into(), matches: vec![one], share: Share::default() }
}

fn tls(required: bool) -> ListenerTls {
    ListenerTls {
        certificate: "c.pem".into(),
        key: "k.pem".into(),
        client_authority: Some("a.pem".into()),
        required,
    }
}

fn upstream(address: Address) -> Source {
    Source::Upstream(Upstream {
        address,
        tls: None,
        connections: 1,
        passthrough: false,
        writes_survive_restart: false,
        patience: Span::from_secs(30),
    })
}

/// Two of each, and nothing wrong.
fn sound() -> Policy {
    let members = vec!["fast".to_string(), "slow".to_string()];
    Policy {
        mode: Mode::Enforce,
        listeners: vec![listener("lan", 10809), listener("wan", 10810)],
        backends: vec![backend("fast", "/dev/a"), backend("slow", "/dev/b")],
        groups: vec![Group { name: "all".into(), backends: members, sharing: Sharing::Total }],
        exports: vec![export("db-1", "fast", 0), export("logs", "slow", 0)],
        tenants: vec![
            tenant("db", Match::Export("db-*".into())),
            tenant("logs", Match::Peer { network: "10.0.0.0".parse().unwrap(), prefix: 8 }),
        ],
        ..Policy::default()
    }
}

/// The problems that a change makes, as `(place, severity, message, remedy)`.
fn problems(change: impl FnOnce(&mut Policy)) -> Vec<(Place, Severity, String, String)> {
    let mut policy = sound();
    change(&mut policy);
    let found = policy.check().into_iter();
    found.map(|one| (one.place, one.severity, one.message, one.remedy)).collect()
}

#[track_caller]
fn refuses(place: Place, change: impl FnOnce(&mut Policy)) {
    expect(place, Severity::Error, change);
}

#[track_caller]
fn warns(place: Place, change: impl FnOnce(&mut Policy)) {
    expect(place, Severity::Warning, change);
}

#[track_caller]
fn expect(place: Place, severity: Severity, change: impl FnOnce(&mut Policy)) {
    let found = problems(change);
    let is_there = found.iter().any(|one| (one.0, one.1) == (place, severity));
    assert!(is_there, "no {severity:?} at {place:?} in {found:#?}");
}

fn policy(field: &'static str) -> Place {
    Place::Policy { field }
}

fn at_backend(field: &'static str) -> Place {
    Place::Backend { index: 1, field }
}

fn at_tenant(field: &'static str) -> Place {
    Place::Tenant { index: 1, field }
}

#[test]
fn a_sound_policy_has_no_problem() {
    assert_eq!(problems(|_| {}), []);
}

#[test]
fn something_must_be_there() {
    refuses(policy("listeners"), |p| p.listeners.clear());
    refuses(policy("backends"), |p| p.backends.clear());
    refuses(policy("exports"), |p| p.exports.clear());
    warns(policy("mode"), |p| p.tenants.truncate(1));
}

#[test]
fn names_are_unique_and_printable() {
    refuses(Place::Listener { index: 1, field: "name" }, |p| p.listeners[1].name = "lan".into());
    refuses(at_backend("name"), |p| p.backends[1].name = "fast".into());
    refuses(Place::Export { index: 1, field: "name" }, |p| p.exports[1].name = "db-1".into());
    refuses(at_tenant("name"), |p| p.tenants[1].name = "db".into());
    refuses(at_tenant("name"), |p| p.tenants[1].name = String::new());
    refuses(at_tenant("name"), |p| p.tenants[1].name = "a\nb".into());
    refuses(Place::Group { index: 0, field: "name" }, |p| {
        p.groups[0] =
            Group { name: "slow".into(), backends: vec!["fast".into()], ..p.groups[0].clone() };
    });
}

#[test]
fn a_reference_that_dangles_is_told_the_names_that_exist() {
    let found = problems(|p| p.exports[1].backend = "slwo".into());
    let (place, severity, message, remedy) = &found.last().unwrap();
    assert_eq!(*place, Place::Export { index: 1, field: "backend" });
    assert_eq!(*severity, Severity::Error);
    assert_eq!(message, "there is no backend \"slwo\"");
    assert_eq!(remedy, "use one of \"fast\", \"slow\"");
    let group = Place::Group { index: 0, field: "backends" };
    refuses(group, |p| p.groups[0].backends.push("none".into()));
    refuses(Place::Match { tenant: 0, index: 0 }, |p| {
        p.tenants[0].matches[0] = Match::Listener("lna".into());
    });
}

#[test]
fn listeners_must_be_connectable_and_not_the_upstream() {
    let address = Place::Listener { index: 0, field: "address" };
    for text in ["nowhere", "host:", ":10809", "host:99999", "::1:10809", "[x]:1", "a b:1", "h:+1"]
    {
        refuses(address, |p| p.listeners[0].address = Address::Tcp(text.into()));
    }
    for text in ["127.0.0.1:10809", "[::1]:0", "gate.example:1"] {
        assert_eq!(problems(|p| p.listeners[0].address = Address::Tcp(text.into())), []);
    }
    refuses(address, |p| p.listeners[0].address = Address::Unix("x".repeat(108).into()));
    refuses(Place::Listener { index: 1, field: "address" }, |p| {
        p.listeners[1].address = p.listeners[0].address.clone();
    });
    refuses(address, |p| {
        p.backends[1].source = upstream(Address::Tcp("localhost:10809".into()));
    });
    warns(Place::Listener { index: 0, field: "tls.required" }, |p| {
        p.listeners[0].tls = Some(tls(false));
    });
}

#[test]
fn queues_must_be_able_to_work() {
    let unit = at_backend("scheduling.unit_bytes");
    for bytes in [0, 2048, 5000, 64 << 20] {
        refuses(unit, |p| p.backends[1].scheduling.unit_bytes = bytes);
    }
    let depth = at_backend("scheduling.depth");
    let goal = Span::from_millis(5);
    let idle = Span::from_micros(90);
    let adaptive = |min, max, goal| Depth::Adaptive { min, max, read_goal: goal, write_goal: goal };
    for wrong in [
        Depth::Requests(0),
        Depth::Bytes(4096),
        adaptive(0, 8, goal),
        adaptive(9, 8, goal),
        adaptive(1, 8, idle),
    ] {
        refuses(depth, |p| p.backends[1].scheduling.depth = wrong);
    }
    assert_eq!(problems(|p| p.backends[1].scheduling.depth = adaptive(1, 8, goal)), []);
    let rate = |rate_bytes| {
        let line = Line { fixed: Span::from_micros(1), rate_bytes };
        CostModel::Linear { read: line, write: line, flush: Span::ZERO }
    };
    let write = at_backend("scheduling.cost.write");
    refuses(write, |p| p.backends[1].scheduling.cost = rate(0));
    warns(write, |p| p.backends[1].scheduling.cost = rate(200));
    warns(at_backend("scheduling.hold"), |p| p.backends[1].scheduling.hold = Span::from_secs(2));
}

#[test]
fn groups_add_up_what_can_be_added() {
    let backends = Place::Group { index: 0, field: "backends" };
    let sharing = Place::Group { index: 0, field: "sharing" };
    refuses(backends, |p| p.groups[0].backends.clear());
    refuses(backends, |p| p.groups[0].backends[1] = "fast".into());
    refuses(backends, |p| p.backends[1].scheduling.discipline = Discipline::Fifo);
    refuses(Place::Group { index: 1, field: "backends" }, |p| {
        p.groups.push(Group { name: "more".into(), ..p.groups[0].clone() });
    });
    refuses(sharing, |p| p.groups[0].sharing = Sharing::Hybrid { min_share_milli: 0 });
    refuses(sharing, |p| p.backends[1].scheduling.cost = CostModel::PerRequest);
    warns(sharing, |p| p.groups[0].backends.truncate(1));
}

#[test]
fn backends_have_a_place_of_their_own_and_somebody_who_uses_them() {
    warns(at_backend("source"), |p| p.backends[1] = backend("slow", "/dev/a"));
    refuses(at_backend("source.path"), |p| p.backends[1] = backend("slow", ""));
    warns(at_backend("name"), |p| p.exports[1].backend = "fast".into());
    refuses(at_backend("source.address"), |p| {
        p.backends[1].source = upstream(Address::Tcp("nas".into()));
    });
}

#[test]
fn exports_have_room_and_do_not_write_over_each_other() {
    let at = |field| Place::Export { index: 1, field };
    refuses(at("size_bytes"), |p| p.exports[1].size_bytes = Some(0));
    refuses(at("size_bytes"), |p| p.exports[1].offset_bytes = u64::MAX - 4095);
    refuses(at("size_bytes"), |p| {
        p.backends[1].source = Source::Memory;
        p.exports[1].size_bytes = None;
    });
    warns(at("offset_bytes"), |p| p.exports[1].offset_bytes = 512);
    let beside = |offset_mib| export("two", "fast", offset_mib);
    warns(at("offset_bytes"), |p| p.exports[1] = beside(99));
    let is_overlap = |p: &mut Policy, other: Export| p.exports.push(other);
    assert_eq!(problems(|p| is_overlap(p, beside(100))), [], "side by side");
    assert_eq!(problems(|p| is_overlap(p, Export { read_only: true, ..beside(50) })), []);
    for name in ["../etc", "a/b", "..", ""] {
        refuses(at("source"), |p| {
            p.backends[1].source = Source::Directory { path: "/srv".into(), direct: false };
            p.exports[1].source = Some(name.into());
        });
    }
}

#[test]
fn shares_and_limits_mean_something() {
    let weight = at_tenant("share.weight_milli");
    refuses(weight, |p| p.tenants[1].share.weight_milli = 0);
    refuses(weight, |p| p.tenants[1].share.weight_milli = 2_000_000_000);
    let limit = |rate_iops, burst_requests, rate_bytes, burst_bytes| {
        move |p: &mut Policy| {
            p.tenants[1].share.limit = Limit { rate_iops, rate_bytes, burst_requests, burst_bytes };
        }
    };
    assert_eq!(problems(limit(100, 1, 10 << 20, 1 << 20)), []);
    refuses(at_tenant("share.limit.burst_requests"), limit(100, 0, 0, 0));
    refuses(at_tenant("share.limit.burst_bytes"), limit(0, 0, 10 << 20, 0));
    warns(at_tenant("share.limit.burst_bytes"), limit(0, 0, 10 << 20, 4096));
    warns(at_tenant("share.limit.burst_requests"), limit(0, 5, 0, 0));
    warns(at_tenant("share.limit.rate_bytes"), limit(0, 0, 100 << 30, 1 << 20));
    warns(at_tenant("share.limit.rate_iops"), limit(1_000_000, 1, 0, 0));
    warns(at_tenant("share.limit.rate_iops"), limit(10_000, 1, 1 << 20, 1 << 20));
    warns(at_tenant("share.limit.rate_bytes"), limit(1, 1, 100 << 20, 1 << 20));
    warns(at_tenant("share.limit.rate_bytes"), limit(0, 0, 200, 1 << 20));
}

#[test]
fn matches_can_fit_and_are_not_ambiguous() {
    let place = Place::Match { tenant: 1, index: 0 };
    let set = |one: Match| move |p: &mut Policy| p.tenants[1].matches[0] = one;
    refuses(place, set(Match::Export("db-*".into())));
    warns(place, set(Match::Export("dv-*".into())));
    refuses(place, set(Match::TlsName("a.example".into())));
    let with_tls = |p: &mut Policy| {
        p.listeners[0].tls = Some(tls(true));
        p.tenants[1].matches[0] = Match::TlsName("a.example".into());
    };
    assert_eq!(problems(with_tls), []);
    let peer = |network: &str, prefix| Match::Peer { network: network.parse().unwrap(), prefix };
    refuses(place, set(peer("10.0.0.0", 33)));
    warns(place, set(peer("10.0.0.1", 8)));
    refuses(Place::Match { tenant: 2, index: 0 }, |p| {
        p.tenants.push(tenant("more", peer("::ffff:10.0.0.0", 104)));
    });
    warns(Place::Match { tenant: 0, index: 1 }, |p| {
        p.tenants[0].matches.push(Match::Export("db-*".into()));
    });
    warns(at_tenant("matches"), |p| p.tenants[1].matches.clear());
}

#[test]
fn memory_holds_what_it_must() {
    let place = |field| Place::Memory { field };
    refuses(place("per_tenant_bytes"), |p| p.memory.per_tenant_bytes = 1 << 20);
    refuses(place("total_bytes"), |p| p.memory.total_bytes = 33 << 20);
    refuses(place("connections"), |p| p.memory.connections = 0);
}
