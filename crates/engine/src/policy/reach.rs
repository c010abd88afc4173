//! Who can come to which backend, as far as the policy alone tells.
//!
//! A promise to a tenant binds the devices that its requests can go to, and no others. Which these
//! are follows from the exports on them and from how the tenant is known:
//!
//! ```text
//! known by     comes to an export if
//! export       of all tenants known by export, it fits best
//! listener     no tenant is known by that export
//! peer         the same, over TCP, by a listener that is nobody's
//! nothing      the same, by a listener that is nobody's       the default tenant alone
//! ```
//!
//! On listeners that ask for certificates those come who are known by their certificate, the
//! listener or the address, to the exports that they [may open](super::access).
//!
//! A tenant that other tenants' patterns leave no connection at all is still said to come: whether
//! two networks or certificates cover a third is not looked into.
//!
//! A policy without listeners is one whose clients are simulated, and whoever simulates them says
//! where they go: there everybody comes everywhere.

use std::collections::BTreeSet;

use super::matching::fits;
use super::{
    Address, Backend, DEFAULT_TENANT, Export, Listener, MOVER_TENANT, Match, Moves, Policy, Source,
    Tenant, UPKEEP_TENANT,
};

/// Which tenants of a policy can come to which of its backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// By position of the backend: positions of the tenants, ascending.
    tenants: Vec<Vec<usize>>,
}

impl Reach {
    /// The declared tenants that can come to a backend, by their positions. For a member of a
    /// volume these are the volume's, and whoever pays for its own work; for a volume, those who
    /// come to its exports. A store is looked after on an account of its own.
    pub fn tenants(&self, backend: usize) -> &[usize] {
        &self.tenants[backend]
    }
}

impl Policy {
    /// Who can come to which backend. O(exports * matches + backends * tenants).
    pub fn reach(&self) -> Reach {
        let ways = Ways::new(self);
        let mut tenants: Vec<Vec<usize>> =
            self.backends.iter().map(|backend| ways.comers(self, backend)).collect();
        let mover = self.tenants.iter().position(|tenant| tenant.name == MOVER_TENANT);
        let upkeep = self.tenants.iter().position(|tenant| tenant.name == UPKEEP_TENANT);
        for (index, backend) in self.backends.iter().enumerate() {
            if let (Source::Store(_), Some(upkeep)) = (&backend.source, upkeep)
                && let Err(at) = tenants[index].binary_search(&upkeep)
            {
                tenants[index].insert(at, upkeep);
            }
            let is_moving = backend.volume().is_some_and(|volume| volume.moves != Moves::Off);
            let mover = mover.filter(|_| is_moving || backend.spread().is_some());
            let comers: Vec<usize> = tenants[index].iter().copied().chain(mover).collect();
            for member in backend.members() {
                if let Some(position) = self.position_of(&member.backend) {
                    tenants[position].extend(&comers);
                    tenants[position].sort_unstable();
                    tenants[position].dedup();
                }
            }
        }
        Reach { tenants }
    }

    /// The position of the backend of this name.
    pub(crate) fn position_of(&self, backend: &str) -> Option<usize> {
        self.backends.iter().position(|one| one.name == backend)
    }
}

/// How tenants are known, over the whole policy.
struct Ways {
    /// By export: whom its name belongs to.
    owners: Vec<Option<usize>>,
    /// By tenant: can show whose it is to a listener that asks for certificates.
    is_proven: Vec<bool>,
    /// By tenant: known to another listener, by its name or the address, or by nothing at all.
    by_path: Vec<bool>,
    /// By tenant: known by the names of exports that the policy does not list.
    by_unlisted_export: Vec<bool>,
    /// Every name of an export belongs to somebody.
    all_names_are_owned: bool,
    /// Some listener does not ask for certificates.
    has_open: bool,
}

impl Ways {
    fn new(policy: &Policy) -> Self {
        let names: BTreeSet<&str> = policy.exports.iter().map(|one| one.name.as_str()).collect();
        let [open, protected] = [false, true].map(|which| Paths::new(policy, which));
        let any = |is_way: &dyn Fn(&Match) -> bool| -> Vec<bool> {
            policy.tenants.iter().map(|tenant| tenant.matches.iter().any(is_way)).collect()
        };
        let catches_all = any(&|one| matches!(one, Match::Export(name) if fits(name, "")));
        let has_protected = !protected.names.is_empty();
        let by_certificate = any(&|one| has_protected && matches!(one, Match::TlsName(_)));
        let is_proven = |(tenant, is_it): (&Tenant, bool)| is_it || protected.lead(tenant);
        Self {
            owners: policy.exports.iter().map(|export| policy.owner(&export.name)).collect(),
            is_proven: policy.tenants.iter().zip(by_certificate).map(is_proven).collect(),
            by_path: policy.tenants.iter().map(|tenant| open.lead(tenant)).collect(),
            by_unlisted_export: any(&|one| match one {
                Match::Export(name) => name.contains('*') || !names.contains(name.as_str()),
                _ => false,
            }),
            all_names_are_owned: catches_all.contains(&true),
            has_open: !open.names.is_empty(),
        }
    }

    fn comers(&self, policy: &Policy, backend: &Backend) -> Vec<usize> {
        let everybody = 0..policy.tenants.len();
        if policy.listeners.is_empty() {
            return everybody.collect();
        }
        let comes = |tenant: &usize| {
            self.comes_openly(policy, backend, *tenant)
                || (self.is_proven[*tenant] && self.may_open(policy, backend, *tenant))
        };
        everybody.filter(comes).collect()
    }

    /// Whether a tenant comes to a backend by listeners where everybody may open everything.
    fn comes_openly(&self, policy: &Policy, backend: &Backend, tenant: usize) -> bool {
        let is_open = backend.passed_through().is_some();
        let mut owners = self.owners_on(policy, backend).map(|(_, owner)| owner);
        let has_nobodys =
            owners.clone().any(|owner| owner.is_none()) || (is_open && !self.all_names_are_owned);
        self.has_open
            && (owners.any(|owner| owner == Some(tenant))
                || (is_open && self.by_unlisted_export[tenant])
                || (has_nobodys && self.by_path[tenant]))
    }

    /// Whether a tenant that can show whose it is may open something on a backend.
    fn may_open(&self, policy: &Policy, backend: &Backend, tenant: usize) -> bool {
        let name = &policy.tenants[tenant].name;
        let is_somebody = name != DEFAULT_TENANT;
        let may = |allow: Option<&[String]>, is_its_own: bool, is_nobodys: bool| match allow {
            Some(allow) => allow.contains(name),
            None => is_somebody && (is_its_own || is_nobodys),
        };
        let is_declared = self.owners_on(policy, backend).any(|(export, owner)| {
            may(export.allow.as_deref(), owner == Some(tenant), owner.is_none())
        });
        let is_passed = backend.passed_through().is_some_and(|upstream| {
            let is_its_own = self.by_unlisted_export[tenant];
            may(upstream.allow.as_deref(), is_its_own, !self.all_names_are_owned)
        });
        is_declared || is_passed
    }

    fn owners_on<'a>(
        &'a self,
        policy: &'a Policy,
        backend: &'a Backend,
    ) -> impl Iterator<Item = (&'a Export, Option<usize>)> + Clone {
        let exports = policy.exports.iter().zip(self.owners.iter().copied());
        exports.filter(|(export, _)| export.backend == backend.name)
    }
}

/// The listeners of one kind, as far as they tell tenants apart.
struct Paths<'a> {
    names: BTreeSet<&'a str>,
    /// Some listener is no tenant's.
    has_nobodys: bool,
    /// One of those is on TCP, where clients have addresses.
    has_nobodys_tcp: bool,
}

impl<'a> Paths<'a> {
    /// Those that ask for certificates, or the others.
    fn new(policy: &'a Policy, is_protected: bool) -> Self {
        let matches = policy.tenants.iter().flat_map(|tenant| &tenant.matches);
        let claimed: BTreeSet<&str> = matches
            .filter_map(|one| match one {
                Match::Listener(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let listeners = policy.listeners.iter().filter(|one| one.is_protected() == is_protected);
        let nobodys = listeners.clone().filter(|one| !claimed.contains(one.name.as_str()));
        let is_tcp = |listener: &Listener| matches!(listener.address, Address::Tcp(_));
        Self {
            names: listeners.map(|listener| listener.name.as_str()).collect(),
            has_nobodys: nobodys.clone().next().is_some(),
            has_nobodys_tcp: nobodys.into_iter().any(is_tcp),
        }
    }

    fn lead(&self, to: &Tenant) -> bool {
        let by_match = to.matches.iter().any(|one| match one {
            Match::Listener(name) => self.names.contains(name.as_str()),
            Match::Peer { .. } => self.has_nobodys_tcp,
            Match::Export(_) | Match::TlsName(_) => false,
        });
        by_match || (to.name == DEFAULT_TENANT && self.has_nobodys)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::sched::Share;
    use evenkeel_core::time::Span;

    use super::super::{ListenerTls, Member, NbdServer, Scheduling, Takeover, Tiered, Upstream};
    use super::*;

    fn listener(name: &str) -> Listener {
        let address = Address::Tcp("0.0.0.0:1".into());
        Listener { name: name.into(), address, tls: None }
    }

    fn backend(name: &str, source: Source) -> Backend {
        Backend { name: name.into(), source, scheduling: Scheduling::default() }
    }

    fn export(name: &str, backend: &str) -> Export {
        Export {
            allow: None,
            name: name.into(),
            backend: backend.into(),
            source: None,
            offset_bytes: 0,
            size_bytes: Some(1 << 20),
            read_only: false,
            description: None,
        }
    }

    fn tenant(name: &str, one: impl Into<Option<Match>>) -> Tenant {
        let matches = one.into().into_iter().collect();
        Tenant { read_only: false, name: name.into(), matches, share: Share::default() }
    }

    fn by_export(pattern: &str) -> Match {
        Match::Export(pattern.into())
    }

    /// Two backends, `db-1` on the first and `logs` on the second.
    fn policy(tenants: Vec<Tenant>) -> Policy {
        Policy {
            listeners: vec![listener("lan"), listener("wan")],
            backends: vec![backend("a", Source::Memory), backend("b", Source::Memory)],
            exports: vec![export("db-1", "a"), export("logs", "b")],
            tenants,
            ..Policy::default()
        }
    }

    fn reach(policy: &Policy) -> [Vec<usize>; 2] {
        let reach = policy.reach();
        [reach.tenants(0).to_vec(), reach.tenants(1).to_vec()]
    }

    #[test]
    fn a_tenant_known_by_its_exports_comes_where_they_are() {
        let both = policy(vec![tenant("db", by_export("db-*")), tenant("all", by_export("*"))]);
        assert_eq!(reach(&both), [vec![0], vec![1]], "the better pattern has the export");
    }

    #[test]
    fn whoever_is_known_by_less_comes_to_what_nobody_is_known_by() {
        let lan = Match::Listener("lan".into());
        let peer = Match::Peer { network: "10.0.0.0".parse().unwrap(), prefix: 8 };
        let tenants = vec![
            tenant("db", by_export("db-*")),
            tenant("lan", lan),
            tenant("ten", peer),
            tenant(DEFAULT_TENANT, None),
        ];
        let mut some = policy(tenants);
        assert_eq!(reach(&some), [vec![0], vec![1, 2, 3]]);
        some.listeners.pop();
        assert_eq!(reach(&some), [vec![0], vec![1]], "the only listener is a tenant's");
    }

    #[test]
    fn whoever_shows_a_certificate_comes_to_what_it_may_open() {
        let tls = |name: &str| Match::TlsName(name.into());
        let both = |name: &str, export: &str| Tenant {
            matches: vec![tls(name), by_export(export)],
            ..tenant(name, None)
        };
        let tenants = vec![both("db", "db-*"), both("logs", "logs"), tenant("web", tls("web"))];
        let mut some = policy(tenants);
        for listener in &mut some.listeners {
            listener.tls = Some(ListenerTls {
                certificate: "c".into(),
                key: "k".into(),
                client_authority: Some("a".into()),
                required: true,
            });
        }
        assert_eq!(reach(&some), [vec![0], vec![1]], "each to its own");
        some.exports[1].allow = Some(vec!["web".into(), "db".into()]);
        assert_eq!(reach(&some), [vec![0], vec![0, 2]]);
        some.tenants[0].matches.pop();
        assert_eq!(reach(&some), [vec![0, 1, 2], vec![0, 2]], "`db-1` is nobody's");
    }

    #[test]
    fn what_a_server_alone_knows_is_reached_by_patterns_and_by_paths() {
        let mut open = policy(vec![tenant("db", by_export("db-*")), tenant(DEFAULT_TENANT, None)]);
        open.backends[1].source = Source::Upstream(Upstream {
            allow: None,
            address: Address::Tcp("nas:1".into()),
            tls: None,
            connections: 1,
            passthrough: true,
            writes_survive_restart: false,
            patience: Span::ZERO,
            late: None,
            request_timeout: Upstream::REQUEST_TIMEOUT,
            server: NbdServer::Other,
            metrics: None,
        });
        assert_eq!(reach(&open), [vec![0], vec![0, 1]]);
    }

    #[test]
    fn the_tiers_of_a_volume_serve_its_tenants_and_the_moves() {
        let tier =
            |name: &str| Member { backend: name.into(), device: String::new(), size_bytes: None };
        let tiers = vec![tier("a"), tier("b")];
        let takeover = Takeover::default();
        let volume = Tiered { tiers, extent_bytes: 1 << 20, moves: Moves::ByHeat, takeover };
        let mut tiered = policy(vec![tenant("db", by_export("db-*")), tenant(MOVER_TENANT, None)]);
        tiered.backends.push(backend("v", Source::Tiered(volume.clone())));
        tiered.exports = vec![export("db-1", "v")];
        assert_eq!(reach(&tiered), [vec![0, 1], vec![0, 1]]);
        assert_eq!(tiered.reach().tenants(2), [0]);
        tiered.backends[2].source = Source::Tiered(Tiered { moves: Moves::Off, ..volume });
        assert_eq!(reach(&tiered), [vec![0], vec![0]]);
    }
}
