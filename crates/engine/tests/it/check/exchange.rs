//! Devices that several gates share, and how the gates find each other.

use super::*;

fn listed(listen: &str, peers: &[&str]) -> Meeting {
    let peers = peers.iter().map(ToString::to_string).collect();
    Meeting::Listed { listen: listen.into(), peers }
}

/// The second backend is shared with another gate.
fn shared(p: &mut Policy) {
    p.groups.clear();
    p.exchange = Some(Exchange {
        name: "site".into(),
        own: "10.0.0.1:10900".into(),
        meeting: listed("0.0.0.0:10900", &["10.0.0.1:10900", "10.0.0.2:10900"]),
        key: "key".into(),
        period: Span::from_millis(100),
        record: None,
    });
    p.backends[1].scheduling.control = Control::By(Method::Slack);
    p.settle_disciplines(|_| true);
}

fn with_exchange(change: impl FnOnce(&mut Exchange)) -> impl FnOnce(&mut Policy) {
    |p: &mut Policy| {
        shared(p);
        change(p.exchange.as_mut().expect("set above"));
    }
}

#[test]
fn a_shared_backend_keeps_goals_and_needs_somebody_to_share_with() {
    assert_eq!(problems(shared), []);
    let control = at_backend("scheduling.control");
    let with_goal = |p: &mut Policy| {
        shared(p);
        p.tenants[1].share.latency_goal = Span::from_millis(20);
    };
    assert_eq!(problems(with_goal), []);
    refuses(control, |p| {
        shared(p);
        p.exchange = None;
    });
    refuses(control, |p| {
        shared(p);
        p.backends[1].scheduling.discipline = Discipline::Sfq;
    });
    refuses(control, |p| {
        let groups = p.groups.clone();
        shared(p);
        p.groups = groups;
    });
}

/// A thousand goals at a gate, whose word tells of 1,024 tenants; those that are there to be
/// compared with take 63.
#[test]
fn goals_of_many_tenants_are_taken_up_to_what_a_word_tells() {
    let with = |count: usize, method: Method| {
        move |p: &mut Policy| {
            shared(p);
            p.backends[1].scheduling.control = Control::By(method);
            let strict = Share { latency_goal: Span::from_millis(20), ..p.tenants[1].share };
            let tenant = |one| Tenant {
                name: format!("strict-{one}"),
                share: strict,
                ..p.tenants[1].clone()
            };
            let tenants: Vec<Tenant> = (0..count).map(tenant).collect();
            p.tenants.extend(tenants);
        }
    };
    let about_goals = |count, method| {
        let mut about = problems(with(count, method)).into_iter();
        about.find(|(place, ..)| matches!(place, Place::Exchange { field: "" }))
    };
    let at_control = at_backend("scheduling.control");
    for method in Method::ALL {
        let found = |count| {
            let found = problems(with(count, method)).into_iter();
            found.filter(|one| (one.0, one.1) == (at_control, Severity::Error)).count()
        };
        let is_shares = method == Method::Shares;
        assert_eq!((found(63), found(64)), (0, usize::from(!is_shares)), "{}", method.name());
        assert!(about_goals(1_024, method).is_some(), "{}", method.name());
        assert!(about_goals(1_000, method).is_none(), "{}", method.name());
    }
}

#[test]
fn shares_that_a_control_does_not_hold_are_said() {
    let control = at_backend("scheduling.control");
    let with = |method: Method, weight_milli: u32, exports: Vec<Export>| {
        move |p: &mut Policy| {
            shared(p);
            p.backends[1].scheduling.control = Control::By(method);
            p.tenants[1].share.weight_milli = weight_milli;
            p.exports.extend(exports);
        }
    };
    let db_too = || vec![export("db-2", "slow", 100)];
    assert_eq!(problems(with(Method::Shares, 4000, db_too())), []);
    for method in Method::ALL.into_iter().filter(|method| *method != Method::Shares) {
        warns(control, with(method, 4000, db_too()));
        let said = &problems(with(method, 4000, db_too()))[0].2;
        assert!(said.starts_with(method.name()), "{said}");
        assert_eq!(problems(with(method, 1000, db_too())), []);
        assert_eq!(problems(with(method, 4000, Vec::new())), [], "nobody else comes there");
    }
}

#[test]
fn a_server_that_passes_words_on_is_named_by_its_uri() {
    let over = |servers: &[&str]| {
        let servers = servers.iter().map(ToString::to_string).collect();
        with_exchange(|it| it.meeting = Meeting::Nats { servers })
    };
    assert_eq!(problems(over(&["nats://10.0.0.9:4222", "tls://name:secret@[::1]:4222"])), []);
    for bad in [&[][..], &["10.0.0.9:4222"], &["http://10.0.0.9:4222"], &["nats://host"]] {
        refuses(Place::Exchange { field: "nats" }, over(bad));
    }
    let said = &problems(over(&["nats://name:secret@host"]))[0].2;
    assert!(said.contains("\"host\"") && !said.contains("secret"), "{said}");
}

#[test]
fn gates_on_a_list_in_etcd_have_addresses_and_so_has_etcd() {
    let listed = |listen: &str, own: &str, server: &str| {
        let (listen, own, servers) = (listen.to_owned(), own.to_owned(), vec![server.to_owned()]);
        with_exchange(move |it| (it.own, it.meeting) = (own, Meeting::Etcd { listen, servers }))
    };
    let (any, own, server) = ("0.0.0.0:10900", "10.0.0.1:10900", "http://10.0.0.9:2379");
    assert_eq!(problems(listed(any, own, server)), []);
    let at = |field| Place::Exchange { field };
    refuses(at("listen"), listed("10900", own, server));
    refuses(at("own"), listed(any, "gate-1", server));
    for bad in ["https://10.0.0.9:2379", "10.0.0.9:2379", "http://host", ""] {
        refuses(at("etcd"), listed(any, own, bad));
    }
}

#[test]
fn an_exchange_has_peers_that_can_be_told_apart() {
    let at = |field| Place::Exchange { field };
    refuses(at("period"), with_exchange(|it| it.period = Span::from_millis(1)));
    let (here, there) = ("10.0.0.1:10900", "10.0.0.2:10900");
    refuses(at("listen"), with_exchange(|it| it.meeting = listed("10900", &[there])));
    refuses(at("name"), with_exchange(|it| it.name.clear()));
    refuses(at("own"), with_exchange(|it| it.own.clear()));
    refuses(at("key"), with_exchange(|it| it.key = "".into()));
    refuses(at("peers"), with_exchange(|it| it.meeting = listed(here, &[there, "nowhere"])));
    warns(at("peers"), with_exchange(|it| it.meeting = listed(here, &[here])));
    warns(at(""), |p| {
        shared(p);
        p.backends[1].scheduling.control = Control::Alone;
        p.settle_disciplines(|_| true);
    });
}
