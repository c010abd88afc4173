//! Who may open what, by a naive reading of the rules.

use evenkeel_core::sched::Share;
use evenkeel_engine::policy::access::{Access, AccessRules, Caller, Entrance, tenant_of};
use evenkeel_engine::policy::matching::{Identity, fits, identify};
use evenkeel_engine::policy::{
    Address, Backend, Export, Match, NbdServer, Policy, Scheduling, Source, Tenant, Upstream,
};
use proptest::prelude::*;

const CERTIFIED: Entrance = Entrance::Protected { has_certificate: true };

fn access(policy: &Policy, identity: Identity<'_>, entrance: Entrance, backend: &str) -> Access {
    AccessRules::new(policy).access(&Caller { identity, entrance }, backend)
}

fn tenant(name: &str, matches: Vec<Match>, read_only: bool) -> Tenant {
    Tenant { name: name.to_owned(), matches, read_only, share: Share::default() }
}

fn export(name: &str, allow: Option<Vec<String>>) -> Export {
    Export {
        name: name.to_owned(),
        backend: "array".to_owned(),
        source: None,
        offset_bytes: 0,
        size_bytes: None,
        read_only: false,
        allow,
        description: None,
    }
}

fn by_certificate(name: &str) -> Match {
    Match::TlsName(name.to_owned())
}

fn by_export(name: &str) -> Match {
    Match::Export(name.to_owned())
}

fn names() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "default"])
}

fn tenants() -> impl Strategy<Value = Vec<Tenant>> {
    let one = (
        prop::option::of(prop::sample::select(vec!["cert-a", "cert-*", "cert-b"])),
        prop::option::of(prop::sample::select(vec!["x", "y", "*", "x*"])),
        any::<bool>(),
    );
    prop::collection::vec(one, 0..4).prop_map(|all| {
        let named = ["a", "b", "c", "default"].into_iter().zip(all);
        let made = named.map(|(name, (certificate, export, read_only))| {
            let certificate = certificate.map(by_certificate);
            let export = export.map(by_export);
            tenant(name, certificate.into_iter().chain(export).collect(), read_only)
        });
        made.collect()
    })
}

/// Which tenants have a match by export that fits, and of those who wins by the rules of matching.
fn owner(policy: &Policy, name: &str) -> Option<String> {
    let only = |one: &&Match| matches!(one, Match::Export(_));
    let of_exports: Vec<Tenant> = policy
        .tenants
        .iter()
        .map(|one| tenant(&one.name, one.matches.iter().filter(only).cloned().collect(), false))
        .collect();
    let identity = Identity { export: name, ..Identity::default() };
    identify(&of_exports, &identity).map(|index| of_exports[index].name.clone())
}

proptest! {
    #[test]
    fn access_is_what_the_rules_say(
        tenants in tenants(),
        allow in prop::option::of(prop::collection::vec(names(), 0..3)),
        certificate in prop::option::of(prop::sample::select(vec!["cert-a", "cert-b", "other"])),
        name in prop::sample::select(vec!["x", "y"]),
        is_protected: bool,
        read_only: bool,
    ) {
        let allow = allow.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
        let exports = vec![Export { read_only, ..export("x", allow.clone()) }];
        let backends = vec![array("array", true, None)];
        let policy = Policy { tenants, exports, backends, ..Policy::default() };
        let certificates: Vec<String> = certificate.into_iter().map(str::to_owned).collect();
        let identity = Identity { tls_names: &certificates, export: name, ..Identity::default() };
        let has_certificate = !certificates.is_empty();
        let entrance = if is_protected {
            Entrance::Protected { has_certificate }
        } else {
            Entrance::Open
        };
        let found = access(&policy, identity, entrance, "array");

        // A client of a protected listener is whom its certificate names.
        let known = policy.tenants.iter().filter(|tenant| {
            tenant.matches.iter().any(|one| match one {
                Match::TlsName(pattern) => certificates.iter().any(|name| fits(pattern, name)),
                Match::Export(pattern) => !is_protected && fits(pattern, name),
                _ => false,
            })
        });
        let known: Vec<&str> = known.map(|tenant| tenant.name.as_str()).collect();
        let who = tenant_of(&policy.tenants, &Caller { identity, entrance });
        let who = who.map(|index| policy.tenants[index].name.as_str());
        prop_assert_eq!(who.is_some(), !known.is_empty());
        prop_assert!(who.is_none_or(|who| known.contains(&who)));

        let who = who.unwrap_or("default");
        let allow = allow.filter(|_| name == "x");
        let expected = !is_protected || match (allow, owner(&policy, name)) {
            (Some(allow), _) => allow.iter().any(|one| one == who),
            (None, Some(owner)) => owner == who && who != "default",
            (None, None) => who != "default",
        };
        let reads_only = (name == "x" && read_only)
            || policy.tenants.iter().any(|one| one.name == who && one.read_only);
        prop_assert_eq!(found > Access::None, expected);
        prop_assert_eq!(found == Access::Write, expected && !reads_only);
    }
}

#[test]
fn a_certificate_opens_nothing_of_another_tenant() {
    let matches = vec![by_certificate("db"), by_export("db-*")];
    let policy = Policy {
        tenants: vec![
            tenant("db", matches, false),
            tenant("evil", vec![by_certificate("evil")], false),
        ],
        exports: vec![export("db-main", None), export("free", None)],
        ..Policy::default()
    };
    let may = |certificate: &str, export| {
        let tls_names = [certificate.to_owned()];
        let identity = Identity { tls_names: &tls_names, export, ..Identity::default() };
        access(&policy, identity, CERTIFIED, "array")
    };
    assert_eq!(may("db", "db-main"), Access::Write);
    assert_eq!(may("evil", "db-main"), Access::None);
    assert_eq!(may("nobody", "db-main"), Access::None, "an export that one chooses proves nothing");
    assert_eq!(may("evil", "free"), Access::Write);
    assert_eq!(may("nobody", "free"), Access::None);
    assert_eq!(may("evil", "DB-main"), Access::None, "there is no such export");
}

fn array(name: &str, passthrough: bool, allow: Option<Vec<String>>) -> Backend {
    Backend {
        name: name.to_owned(),
        source: Source::Upstream(Upstream {
            address: Address::Tcp("array:10809".to_owned()),
            tls: None,
            connections: 1,
            passthrough,
            allow,
            writes_survive_restart: false,
            patience: Upstream::PATIENCE,
            late: None,
            request_timeout: Upstream::REQUEST_TIMEOUT,
            server: NbdServer::Other,
            metrics: None,
        }),
        scheduling: Scheduling::default(),
    }
}

#[test]
fn a_name_of_a_server_is_no_way_round_an_export_of_the_policy() {
    let vault = Export { source: Some("lun7".to_owned()), ..export("db-vault", None) };
    let policy = |allow| Policy {
        tenants: vec![
            tenant("db", vec![by_certificate("db"), by_export("db-*")], false),
            tenant("evil", vec![by_certificate("evil")], false),
        ],
        backends: vec![array("array", false, None), array("again", true, allow)],
        exports: vec![vault.clone()],
        ..Policy::default()
    };
    let may = |policy: &Policy, export| {
        let tls_names = ["evil".to_owned()];
        let identity = Identity { tls_names: &tls_names, export, ..Identity::default() };
        access(policy, identity, CERTIFIED, "again")
    };
    let free = policy(None);
    assert_eq!(may(&free, "lun7"), Access::None, "`db-vault` stands on it");
    assert_eq!(may(&free, "lun8"), Access::Write);
    assert_eq!(may(&free, ""), Access::None, "that may be whatever the server likes");
    let listed = policy(Some(vec!["evil".to_owned()]));
    assert_eq!(may(&listed, "lun7"), Access::None);
    assert_eq!(may(&listed, ""), Access::Write);
}

#[test]
fn a_client_without_a_certificate_is_default_where_certificates_are_asked_for() {
    let by_listener = Match::Listener("half".to_owned());
    let policy = Policy {
        tenants: vec![tenant("lan", vec![by_listener], false)],
        exports: vec![export("free", None), export("listed", Some(vec!["default".to_owned()]))],
        ..Policy::default()
    };
    let may = |export, entrance| {
        let identity = Identity { listener: "half", export, ..Identity::default() };
        access(&policy, identity, entrance, "array")
    };
    let bare = Entrance::Protected { has_certificate: false };
    assert_eq!(may("free", CERTIFIED), Access::Write);
    assert_eq!(may("free", bare), Access::None);
    assert_eq!(may("listed", bare), Access::Write);
    assert_eq!(may("free", Entrance::Open), Access::Write);
}
