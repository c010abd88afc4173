//! Who can come to which backend, as far as the policy alone tells.
//!
//! A promise to a tenant binds the devices that its requests can go to, and no others. Which these
//! are follows from the exports on them and from how the tenant is known:
//!
//! ```text
//! known by     comes to an export if
//! TLS name     some listener asks for certificates            nothing is stronger
//! export       of all tenants known by export, it fits best
//! listener     no tenant is known by that export
//! peer         the same, over TCP, by a listener that is nobody's
//! nothing      the same, by a listener that is nobody's       the default tenant alone
//! ```
//!
//! A tenant that other tenants' patterns leave no connection at all is still said to come: whether
//! two networks or certificates cover a third is not looked into.
//!
//! A policy without listeners is one whose clients are simulated, and whoever simulates them says
//! where they go: there everybody comes everywhere.

use std::collections::BTreeSet;

use super::matching::{Identity, fits, identify};
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
    /// By tenant: known by its certificate.
    by_certificate: Vec<bool>,
    /// By tenant: known by listener or address, or by nothing at all.
    by_path: Vec<bool>,
    /// By tenant: known by the names of exports that the policy does not list.
    by_unlisted_export: Vec<bool>,
    /// Every name of an export belongs to somebody.
    all_names_are_owned: bool,
}

impl Ways {
    fn new(policy: &Policy) -> Self {
        let owner = |export: &Export| {
            identify(&policy.tenants, &Identity { export: &export.name, ..Identity::default() })
        };
        let asks = |listener: &Listener| {
            listener.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some())
        };
        let asks_for_certificates = policy.listeners.iter().any(asks);
        let names: BTreeSet<&str> = policy.exports.iter().map(|one| one.name.as_str()).collect();
        let paths = Paths::new(policy);
        let any = |is_way: &dyn Fn(&Match) -> bool| -> Vec<bool> {
            policy.tenants.iter().map(|tenant| tenant.matches.iter().any(is_way)).collect()
        };
        let catches_all = any(&|one| matches!(one, Match::Export(name) if fits(name, "")));
        Self {
            owners: policy.exports.iter().map(owner).collect(),
            by_certificate: any(&|one| asks_for_certificates && matches!(one, Match::TlsName(_))),
            by_path: policy.tenants.iter().map(|tenant| paths.lead(tenant)).collect(),
            by_unlisted_export: any(&|one| match one {
                Match::Export(name) => name.contains('*') || !names.contains(name.as_str()),
                _ => false,
            }),
            all_names_are_owned: catches_all.contains(&true),
        }
    }

    fn comers(&self, policy: &Policy, backend: &Backend) -> Vec<usize> {
        if policy.listeners.is_empty() {
            return (0..policy.tenants.len()).collect();
        }
        let exports = policy.exports.iter().zip(&self.owners);
        let owners = exports.filter(|(export, _)| export.backend == backend.name);
        let owners: BTreeSet<Option<usize>> = owners.map(|(_, owner)| *owner).collect();
        let is_open = matches!(&backend.source, Source::Upstream(one) if one.passthrough);
        let has_names = is_open || !owners.is_empty();
        let has_nobodys = owners.contains(&None) || (is_open && !self.all_names_are_owned);
        let comes = |tenant: &usize| {
            owners.contains(&Some(*tenant))
                || (is_open && self.by_unlisted_export[*tenant])
                || (has_names && self.by_certificate[*tenant])
                || (has_nobodys && self.by_path[*tenant])
        };
        (0..policy.tenants.len()).filter(comes).collect()
    }
}

/// The listeners, as far as they tell tenants apart.
struct Paths<'a> {
    names: BTreeSet<&'a str>,
    /// Some listener is no tenant's.
    has_nobodys: bool,
    /// One of those is on TCP, where clients have addresses.
    has_nobodys_tcp: bool,
}

impl<'a> Paths<'a> {
    fn new(policy: &'a Policy) -> Self {
        let matches = policy.tenants.iter().flat_map(|tenant| &tenant.matches);
        let claimed: BTreeSet<&str> = matches
            .filter_map(|one| match one {
                Match::Listener(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let nobodys = policy.listeners.iter().filter(|one| !claimed.contains(one.name.as_str()));
        let is_tcp = |listener: &Listener| matches!(listener.address, Address::Tcp(_));
        Self {
            names: policy.listeners.iter().map(|listener| listener.name.as_str()).collect(),
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

    use super::super::{Member, NbdServer, Scheduling, Takeover, Tiered, Upstream};
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
        Tenant { name: name.into(), matches, share: Share::default() }
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
    fn what_a_server_alone_knows_is_reached_by_patterns_and_by_paths() {
        let mut open = policy(vec![tenant("db", by_export("db-*")), tenant(DEFAULT_TENANT, None)]);
        open.backends[1].source = Source::Upstream(Upstream {
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
