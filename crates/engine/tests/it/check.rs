//! What operators get wrong, one mistake at a time on a policy that is right.

mod exchange;

use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_core::time::Span;
use evenkeel_engine::cost::{CostModel, Line};
use evenkeel_engine::policy::check::{Place, Severity};
use evenkeel_engine::policy::{
    Address, Backend, CacheDevice, Control, Depth, Discipline, Exchange, Export, Group, Listener,
    ListenerTls, MOVER_TENANT, Match, Meeting, Member, Method, Mode, Moves, NbdServer, Policy,
    Scheduling, Sharing, Source, Store, StoreCache, Takeover, Tenant, Tiered, Upstream,
};

fn listener(name: &str, port: u16) -> Listener {
    let address = Address::Tcp(format!("127.0.0.1:{port}"));
    Listener { name: name.into(), address, tls: None }
}

fn backend(name: &str, path: &str) -> Backend {
    let source = Source::File { path: path.into(), direct: true };
    Backend { name: name.into(), source, scheduling: Scheduling::default() }
}

fn export(name: &str, backend: &str, offset_mib: u64) -> Export {
    Export {
        allow: None,
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
    Tenant { read_only: false, name: name.into(), matches: vec![one], share: Share::default() }
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
        allow: None,
        address,
        tls: None,
        connections: 1,
        passthrough: false,
        writes_survive_restart: false,
        patience: Span::from_secs(30),
        request_timeout: Span::from_secs(30),
        late: None,
        server: NbdServer::Other,
        metrics: None,
    })
}

/// Two of each, and nothing wrong.
fn sound() -> Policy {
    let members = vec!["fast".to_string(), "slow".to_string()];
    Policy {
        mode: Mode::Enforce,
        listeners: vec![listener("lan", 10809), listener("wan", 10810)],
        backends: vec![backend("fast", "/dev/a"), backend("slow", "/dev/b")],
        groups: vec![Group {
            name: "all".into(),
            backends: members,
            sharing: Sharing::Total,
            is_exchanged: false,
        }],
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
        let listens = |p: &mut Policy| {
            p.listeners[0].address = Address::Tcp(text.into());
            p.exports.iter_mut().for_each(|export| export.read_only = true);
        };
        assert_eq!(problems(listens), []);
    }
    refuses(address, |p| p.listeners[0].address = Address::Unix("x".repeat(108).into()));
    refuses(Place::Listener { index: 1, field: "address" }, |p| {
        p.listeners[1].address = p.listeners[0].address.clone();
    });
    refuses(address, |p| {
        p.listeners[0].address = Address::Tcp("0.0.0.0:10809".into());
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
    for right in [adaptive(1, 8, goal), Depth::Automatic] {
        assert_eq!(problems(|p| p.backends[1].scheduling.depth = right), []);
    }
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
fn the_drives_of_a_store_are_its_own() {
    let store = |drives: &[&str]| {
        let drives = drives.iter().map(Into::into).collect();
        Source::Store(Store { drives, ..Store::default() })
    };
    let drives = at_backend("source.drives");
    assert_eq!(problems(|p| p.backends[1].source = store(&["/dev/b", "/dev/c"])), []);
    refuses(drives, |p| p.backends[1].source = store(&[]));
    refuses(drives, |p| p.backends[1].source = store(&["/dev/b"; 33]));
    refuses(drives, |p| p.backends[1].source = store(&["/dev/b", ""]));
    refuses(drives, |p| p.backends[1].source = store(&["/dev/b", "/dev/c", "/dev/b"]));
    refuses(drives, |p| p.backends[1].source = store(&["/dev/b", "/dev/a"]));
    let both = |p: &mut Policy| {
        p.backends[0].source = store(&["/dev/b", "/dev/c"]);
        p.backends[1].source = store(&["/dev/d", "/dev/c"]);
    };
    refuses(drives, both);
    assert_eq!(problems(both).len(), 1, "told once, at the later one");
    let at = |field| Place::Export { index: 1, field };
    for name in ["x", "-1", "01", "+1", "", "4294967296"] {
        refuses(at("source"), |p| {
            p.backends[1].source = store(&["/dev/b"]);
            p.exports[1].source = Some(name.into());
        });
    }
    let second = |source: Option<&str>| {
        let source = source.map(Into::into);
        let other = Export { source, ..export("two", "slow", 0) };
        move |p: &mut Policy| {
            p.backends[1].source = store(&["/dev/b"]);
            p.exports.push(other);
        }
    };
    assert_eq!(problems(second(Some("1"))), [], "on another volume");
    expect(Place::Export { index: 2, field: "offset_bytes" }, Severity::Warning, second(None));
}

#[test]
fn spindles_stop_neither_at_once_nor_every_minute() {
    let after = |power_down, emulate: Option<&str>| {
        let emulate = emulate.map(Into::into);
        move |p: &mut Policy| {
            let drives = vec!["/dev/b".into()];
            let store = Store { drives, emulate, power_down: Some(power_down), ..Store::default() };
            p.backends[1].source = Source::Store(store);
        }
    };
    let place = at_backend("source.power_down");
    refuses(place, after(Span::from_millis(999), None));
    warns(place, after(Span::from_secs(59), None));
    assert_eq!(problems(after(Span::from_secs(60), None)), []);
    assert_eq!(problems(after(Span::from_secs(1), Some("sata-10k-2013"))), [], "for trials");
}

/// A cache whose reads cost alike.
fn requests(capacity_iops: Option<u64>) -> CacheDevice {
    CacheDevice { cost: CostModel::PerRequest, capacity_iops, ..CacheDevice::default() }
}

#[test]
fn a_cache_is_ordered_beside_its_drives_by_the_same_clock() {
    let apart = |device: CacheDevice, drive: bool| {
        move |p: &mut Policy| {
            let drive = drive.then(|| "/dev/n".into());
            let cache = StoreCache { drive, device, ..StoreCache::default() };
            let drives = vec!["/dev/b".into()];
            p.backends[1].source = Source::Store(Store { drives, cache, ..Store::default() });
            p.backends[1].scheduling.discipline = Discipline::Baa;
            p.groups.clear();
        }
    };
    let (usual, cache) = (CacheDevice::default(), at_backend("source.cache"));
    assert_eq!(problems(apart(usual, true)), []);
    refuses(at_backend("scheduling.discipline"), apart(usual, false));
    refuses(cache, apart(CacheDevice { depth: Depth::Requests(0), ..usual }, true));
    refuses(cache, apart(requests(Some(5_000)), true));
    let alike = |device: CacheDevice, capacity_iops| {
        move |p: &mut Policy| {
            apart(device, true)(p);
            let scheduling = &mut p.backends[1].scheduling;
            (scheduling.cost, scheduling.capacity_iops) = (CostModel::PerRequest, capacity_iops);
        }
    };
    assert_eq!(problems(alike(requests(Some(5_000)), Some(100))), []);
    refuses(cache, alike(requests(None), Some(100)));
    refuses(cache, alike(requests(Some(5_000)), None));
    refuses(at_backend("scheduling.discipline"), |p: &mut Policy| {
        let groups = p.groups.clone();
        apart(usual, true)(p);
        p.groups = groups;
    });
}

#[test]
fn a_cache_has_room_for_what_it_is_for() {
    let cached = |cache: StoreCache| {
        move |p: &mut Policy| {
            let drives = vec!["/dev/b".into()];
            p.backends[1].source = Source::Store(Store { drives, cache, ..Store::default() });
        }
    };
    let cache = at_backend("source.cache");
    let ssd = || StoreCache { drive: Some("/dev/n".into()), ..StoreCache::default() };
    assert_eq!(problems(cached(StoreCache::default())), []);
    assert_eq!(problems(cached(ssd())), []);
    let none = StoreCache { memory_bytes: 0, ..StoreCache::default() };
    assert_eq!(problems(cached(none)), []);
    refuses(cache, cached(StoreCache { memory_bytes: 4096, ..StoreCache::default() }));
    refuses(cache, cached(StoreCache { memory_bytes: 1 << 20, ..ssd() }));
    refuses(cache, cached(StoreCache { endurance_bytes: 1 << 40, ..StoreCache::default() }));
    refuses(cache, cached(StoreCache { daily_writes_bytes: 1 << 30, ..StoreCache::default() }));
    let worn =
        |daily_writes_bytes| StoreCache { endurance_bytes: 365 << 30, daily_writes_bytes, ..ssd() };
    warns(cache, cached(worn(2 << 30)));
    assert_eq!(problems(cached(worn(1 << 30))), []);
    warns(cache, cached(StoreCache { device: requests(None), ..ssd() }));
    let drives = at_backend("source.drives");
    refuses(drives, cached(StoreCache { drive: Some("/dev/b".into()), ..ssd() }));
    refuses(drives, cached(StoreCache { drive: Some("/dev/a".into()), ..ssd() }));
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
fn exports_are_for_somebody_and_not_for_anybody() {
    let allow = Place::Export { index: 0, field: "allow" };
    let list = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
    refuses(allow, |p| p.exports[0].allow = list(&["dv"]));
    warns(allow, |p| p.exports[0].allow = list(&["db", "default"]));
    // Known by their exports alone, clients cannot show whose they are.
    let asks = |p: &mut Policy| p.listeners[0].tls = Some(tls(true));
    warns(allow, asks);
    let proven = |p: &mut Policy| {
        asks(p);
        p.tenants[0].matches.push(Match::TlsName("db.example".into()));
    };
    assert_eq!(problems(proven), []);
    let with = |names: &'static [&'static str]| {
        move |p: &mut Policy| {
            proven(p);
            p.exports[0].allow = Some(names.iter().map(|&name| name.to_owned()).collect());
        }
    };
    assert_eq!(problems(with(&["db", "default"])), []);
    assert_eq!(problems(with(&[])), []);
    refuses(allow, with(&["dv"]));
    let listed = |p: &mut Policy| {
        asks(p);
        p.exports[0].allow = list(&[]);
        p.tenants.retain(|tenant| tenant.name == "db");
    };
    warns(Place::Export { index: 1, field: "allow" }, listed);
    for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "gate.example:1"] {
        let is_remote = |p: &mut Policy| {
            p.listeners[0].address = Address::Tcp(address.into());
            p.exports[1].read_only = true;
        };
        warns(allow, is_remote);
    }
    for address in ["127.0.0.2:1", "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1"] {
        assert_eq!(problems(|p| p.listeners[0].address = Address::Tcp(address.into())), []);
    }
    let on_array = |p: &mut Policy| {
        p.backends[1].source = upstream(Address::Tcp("192.0.2.1:10809".into()));
        let Source::Upstream(upstream) = &mut p.backends[1].source else { return };
        upstream.allow = list(&["db"]);
    };
    refuses(Place::Backend { index: 1, field: "source.allow" }, on_array);
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
        p.tenants[0].matches.push(Match::TlsName("db.example".into()));
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
    refuses(place("total_bytes"), |p| {
        p.memory.per_tenant_bytes = 32 << 20;
        p.memory.total_bytes = 63 << 20;
    });
    refuses(place("connections"), |p| p.memory.connections = 0);
}

/// Tenant 0 comes to backend 0 alone, by its exports; tenant 1 to backend 1, by its address.
fn floor(tenant: usize, rate_iops: u64) -> impl Fn(&mut Policy) {
    move |p: &mut Policy| {
        p.groups.clear();
        p.tenants[tenant].share.floor = Floor { rate_iops, rate_bytes: 0 };
        p.settle_disciplines(|_| true);
    }
}

fn goal(tenant: usize, goal: Span) -> impl Fn(&mut Policy) {
    move |p: &mut Policy| {
        p.groups.clear();
        p.tenants[tenant].share.latency_goal = goal;
        p.settle_disciplines(|_| true);
    }
}

#[test]
fn floors_fit_the_devices_that_their_tenants_come_to() {
    // 100 us and 4 KiB at 500 MiB/s make 107.8 us: 9275 requests in a second.
    assert_eq!(problems(floor(1, 9_000)), []);
    refuses(at_tenant("share.floor"), floor(1, 9_500));
    assert_eq!(
        problems(|p| {
            floor(0, 9_000)(p);
            floor(1, 9_000)(p);
        }),
        [],
        "each on a backend of its own"
    );
    refuses(at_tenant("share.floor"), |p| {
        p.tenants[0].share.floor.rate_iops = 4_000;
        p.exports[0].backend = "slow".into();
        p.exports[0].offset_bytes = 1 << 30;
        floor(1, 6_000)(p);
    });
}

#[test]
fn a_floor_that_only_one_direction_can_carry_is_a_warning() {
    warns(at_tenant("share.floor"), |p| {
        let read = Line { fixed: Span::from_micros(50), rate_bytes: 500 << 20 };
        let write = Line { fixed: Span::from_millis(1), rate_bytes: 500 << 20 };
        p.backends[1].scheduling.cost = CostModel::Linear { read, write, flush: Span::ZERO };
        floor(1, 2_000)(p);
    });
}

#[test]
fn a_floor_stays_below_its_limit() {
    let with_limit = |limit| {
        move |p: &mut Policy| {
            p.tenants[1].share.limit =
                Limit { rate_iops: limit, burst_requests: 1, ..Limit::default() };
            floor(1, 500)(p);
        }
    };
    assert_eq!(problems(with_limit(500)), []);
    refuses(at_tenant("share.floor"), with_limit(499));
}

#[test]
fn requests_that_cost_the_same_need_a_capacity_to_promise_from() {
    let with = |capacity| {
        move |p: &mut Policy| {
            p.backends[1].scheduling.cost = CostModel::PerRequest;
            p.backends[1].scheduling.capacity_iops = capacity;
            floor(1, 500)(p);
        }
    };
    assert_eq!(problems(with(Some(500))), []);
    refuses(at_backend("scheduling.cost"), with(None));
    refuses(at_backend("scheduling.capacity_iops"), with(Some(0)));
    refuses(at_tenant("share.floor"), with(Some(499)));
    warns(at_backend("scheduling.capacity_iops"), |p| {
        p.backends[1].scheduling.capacity_iops = Some(5);
    });
}

#[test]
fn a_discipline_that_was_chosen_must_keep_the_promises() {
    let place = at_backend("scheduling.discipline");
    let chosen = |promise: fn(&mut Policy), discipline| {
        move |p: &mut Policy| {
            promise(p);
            p.backends[1].scheduling.discipline = discipline;
        }
    };
    for wrong in [Discipline::Sfq, Discipline::Fifo, Discipline::Edf] {
        refuses(place, chosen(|p| floor(1, 500)(p), wrong));
    }
    for wrong in [Discipline::Sfq, Discipline::Fifo, Discipline::Mclock] {
        refuses(place, chosen(|p| goal(1, Span::from_millis(9))(p), wrong));
    }
    refuses(at_tenant("share.latency_goal"), |p| {
        floor(1, 500)(p);
        goal(1, Span::from_millis(9))(p);
    });
    refuses(place, |p| p.backends[1].scheduling.discipline = Discipline::Baa);
    warns(at_backend("scheduling.hold"), |p| {
        p.backends[1].scheduling.hold = Span::from_millis(5);
        floor(1, 500)(p);
    });
}

#[test]
fn a_latency_goal_leaves_the_device_its_idle_time() {
    assert_eq!(problems(goal(1, Span::from_millis(1))), []);
    refuses(at_tenant("share.latency_goal"), goal(1, Span::from_micros(90)));
    warns(at_tenant("share.latency_goal"), |p| {
        let CostModel::Linear { write, .. } = &mut p.backends[1].scheduling.cost else { panic!() };
        write.fixed = Span::from_millis(2);
        goal(1, Span::from_millis(1))(p);
    });
    warns(Place::Group { index: 0, field: "sharing" }, |p| {
        p.tenants[1].share.latency_goal = Span::from_millis(9);
        p.settle_disciplines(|_| true);
    });
}

/// A volume over both backends, with all exports on it.
fn tiered(change: impl Fn(&mut Policy)) -> impl Fn(&mut Policy) {
    let tier =
        |name: &str| Member { backend: name.into(), device: String::new(), size_bytes: None };
    let tiers = vec![tier("slow"), tier("fast")];
    move |p: &mut Policy| {
        p.groups.clear();
        let (tiers, takeover) = (tiers.clone(), Takeover::default());
        let volume = Tiered { tiers, extent_bytes: 1 << 20, moves: Moves::ByHeat, takeover };
        let scheduling = Scheduling::default();
        p.backends.push(Backend { name: "v".into(), source: Source::Tiered(volume), scheduling });
        for (export, offset_mib) in p.exports.iter_mut().zip([0, 100]) {
            (export.backend, export.offset_bytes) = ("v".into(), offset_mib << 20);
        }
        change(p);
        p.settle_disciplines(|_| true);
    }
}

fn volume(p: &mut Policy) -> &mut Tiered {
    let Source::Tiered(volume) = &mut p.backends[2].source else { panic!("a volume") };
    volume
}

#[test]
fn a_volume_owns_its_tiers() {
    assert_eq!(problems(tiered(|_| {})), []);
    let tier = Place::Member { backend: 2, index: 1 };
    for name in ["nowhere", "v", "slow"] {
        refuses(tier, tiered(move |p| volume(p).tiers[1].backend = name.into()));
    }
    refuses(tier, tiered(|p| volume(p).tiers[1].device = "lun1".into()));
    refuses(tier, tiered(|p| volume(p).tiers[1].size_bytes = Some(0)));
    refuses(tier, tiered(|p| p.backends[0].source = Source::Memory));
    refuses(
        tier,
        tiered(|p| {
            p.backends[0].source = Source::Directory { path: "/srv".into(), direct: false };
        }),
    );
    refuses(
        tier,
        tiered(|p| {
            p.backends[0].source = upstream(Address::Tcp("nas:1".into()));
            let Source::Upstream(upstream) = &mut p.backends[0].source else { panic!() };
            upstream.passthrough = true;
        }),
    );
    refuses(
        tier,
        tiered(|p| {
            p.backends[0].source = upstream(Address::Tcp("nas:1".into()));
            let Source::Upstream(upstream) = &mut p.backends[0].source else { panic!() };
            upstream.late = Some(Span::from_secs(5));
        }),
    );
    refuses(
        tier,
        tiered(|p| {
            p.groups = vec![Group {
                name: "all".into(),
                backends: vec!["fast".into()],
                sharing: Sharing::Local,
                is_exchanged: false,
            }];
        }),
    );
    let export = Place::Export { index: 1, field: "backend" };
    refuses(export, tiered(|p| p.exports[1].backend = "slow".into()));
    let at = |field| Place::Backend { index: 2, field };
    refuses(at("source.tiers"), tiered(|p| volume(p).tiers.truncate(1)));
    refuses(at("source.extent_bytes"), tiered(|p| volume(p).extent_bytes = 3 << 20));
    warns(
        Place::Export { index: 1, field: "offset_bytes" },
        tiered(|p| {
            p.exports[1].offset_bytes = 0;
        }),
    );
}

#[test]
fn tiers_are_ordered_together_by_costs_that_can_be_compared() {
    let plain = |tier: usize, capacity_iops| {
        tiered(move |p| {
            p.backends[tier].scheduling.cost = CostModel::PerRequest;
            p.backends[tier].scheduling.capacity_iops = capacity_iops;
        })
    };
    refuses(Place::Backend { index: 2, field: "source.tiers" }, plain(0, Some(100)));
    refuses(at_backend("scheduling.cost"), plain(1, None));
    refuses(at_backend("scheduling.discipline"), |p| {
        tiered(|_| {})(p);
        p.backends[1].scheduling.discipline = Discipline::Edf;
    });
}

#[test]
fn the_tenant_of_moves_has_no_clients() {
    let mover = |matches: fn(&mut Tenant)| {
        tiered(move |p| {
            let mut mover = tenant(MOVER_TENANT, Match::Export("moves".into()));
            matches(&mut mover);
            p.tenants.push(mover);
        })
    };
    assert_eq!(problems(mover(|tenant| tenant.matches.clear())), []);
    refuses(Place::Match { tenant: 2, index: 0 }, mover(|_| {}));
}

#[test]
fn the_floors_of_a_volume_hold_or_depend_on_where_requests_fall_or_fail() {
    let with_floor = |rate_iops| {
        tiered(move |p| {
            let slow = Line { fixed: Span::from_millis(10), rate_bytes: 200 << 20 };
            let cost = CostModel::Linear { read: slow, write: slow, flush: Span::ZERO };
            p.backends[1].scheduling.cost = cost;
            p.tenants[1].share.floor.rate_iops = rate_iops;
        })
    };
    assert_eq!(problems(with_floor(90)), []);
    let found = problems(with_floor(200));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].0, found[0].1), (at_tenant("share.floor"), Severity::Warning));
    assert!(found[0].2.contains("at most 49.0 % of their requests fall on its tier \"slow\""));
    // 9275 on one tier and 99 on the other are all there is.
    warns(at_tenant("share.floor"), with_floor(9_370));
    refuses(at_tenant("share.floor"), with_floor(9_380));
}
