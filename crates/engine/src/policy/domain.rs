//! Scheduling domains: which servers share one engine, and the stable ids in it.
//!
//! Engines index tenants and servers by small integers that must not change their meaning while
//! the gate runs, however often the policy does. The tables here hand the integers out: a name
//! keeps its row for ever, a removed name keeps its row and its last settings (requests of its
//! connections may be in flight), and a name that comes back finds its row again.

use std::collections::BTreeMap;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::Share;
use evenkeel_core::time::Span;

use super::matching::{Identity, identify};
use super::{
    Backend, CachePlan, DEFAULT_TENANT, Domain, Exchange, MOVER_TENANT, Member, Policy, Scheduling,
    Sharing, Source, SpreadPlan, Tenant, TierPlan, Tiered, UPKEEP_TENANT, Upstream,
};

/// Rows by name that never move.
#[derive(Clone, Debug, PartialEq)]
struct StableRows<T> {
    rows: Vec<(String, T)>,
    index: BTreeMap<String, usize>,
}

impl<T> StableRows<T> {
    fn new() -> Self {
        Self { rows: Vec::new(), index: BTreeMap::new() }
    }

    fn put(&mut self, name: &str, value: T) {
        if let Some(position) = self.position(name) {
            self.rows[position].1 = value;
        } else {
            self.index.insert(name.to_string(), self.rows.len());
            self.rows.push((name.to_string(), value));
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }
}

/// The tenants of a running gate by [`TenantId`]. Row 0 is the default tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantTable {
    table: StableRows<Share>,
}

impl TenantTable {
    /// The default tenant alone, at share 1.
    pub fn new() -> Self {
        let mut table = StableRows::new();
        table.put(DEFAULT_TENANT, Share::default());
        Self { table }
    }

    /// Takes over the tenants of a policy.
    pub fn update(&mut self, policy: &Policy) {
        for tenant in &policy.tenants {
            self.table.put(&tenant.name, tenant.share);
        }
        for name in [DEFAULT_TENANT].into_iter().chain(policy.own_tenants()) {
            if policy.tenants.iter().all(|tenant| tenant.name != name) {
                self.table.put(name, Share::default());
            }
        }
    }

    /// The tenant of this name, if there ever was one. O(log tenants).
    pub fn id(&self, name: &str) -> Option<TenantId> {
        let index = self.table.position(name)?;
        Some(TenantId(u32::try_from(index).expect("fewer than 2^32 tenants")))
    }

    /// The tenant that a connection belongs to under the policy that the table was last updated
    /// with. O(matches + log tenants).
    pub fn identify(&self, tenants: &[Tenant], identity: &Identity<'_>) -> TenantId {
        let name = identify(tenants, identity).map_or(DEFAULT_TENANT, |index| &tenants[index].name);
        self.id(name).expect("the table holds every tenant of the policy")
    }

    /// Names and shares by [`TenantId`].
    pub fn rows(&self) -> &[(String, Share)] {
        &self.table.rows
    }
}

impl Default for TenantTable {
    fn default() -> Self {
        Self::new()
    }
}

/// The servers of one running domain by [`ServerId`].
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTable {
    table: StableRows<Scheduling>,
}

impl ServerTable {
    /// No server yet.
    pub fn new() -> Self {
        Self { table: StableRows::new() }
    }

    /// The server of this backend's name, if there ever was one. O(log servers).
    pub fn id(&self, name: &str) -> Option<ServerId> {
        let index = self.table.position(name)?;
        Some(ServerId(u32::try_from(index).expect("fewer than 2^32 servers")))
    }
}

impl Default for ServerTable {
    fn default() -> Self {
        Self::new()
    }
}

/// What the cache of a store is called among the servers of a domain.
fn cache_server(backend: &str) -> String {
    format!("{backend}.cache")
}

impl Policy {
    /// Whether there is a tenant of this name; the default tenant is always there.
    pub fn has_tenant(&self, name: &str) -> bool {
        name == DEFAULT_TENANT || self.tenants.iter().any(|tenant| tenant.name == name)
    }

    /// The tenants on whose accounts the gate does work of its own: they have no clients.
    pub fn own_tenants(&self) -> impl Iterator<Item = &'static str> {
        let any = |is_it: fn(&Backend) -> bool| self.backends.iter().any(is_it);
        let mover = any(Backend::is_volume).then_some(MOVER_TENANT);
        let is_store = |backend: &Backend| matches!(backend.source, Source::Store(_));
        let upkeep = any(is_store).then_some(UPKEEP_TENANT);
        mover.into_iter().chain(upkeep)
    }

    /// The scheduling domains: each group under its name, each volume and each backend in neither
    /// under its own; with the indexes of their backends, for a volume those of its members.
    /// References that dangle are left out; [`Policy::check`] reports them.
    pub fn domains(&self) -> Vec<(String, Vec<usize>)> {
        let index_of = |name: &String| self.backends.iter().position(|one| one.name == *name);
        let groups = self.groups.iter().map(|group| {
            (group.name.clone(), group.backends.iter().filter_map(index_of).collect())
        });
        let volumes = self.backends.iter().filter(|backend| backend.is_volume()).map(|backend| {
            let members = backend.members().iter();
            let members = members.filter_map(|member| index_of(&member.backend));
            (backend.name.clone(), members.collect())
        });
        let is_alone = |backend: &Backend| {
            !self.groups.iter().any(|group| group.backends.contains(&backend.name))
                && !backend.is_volume()
                && self.volume_of(&backend.name).is_none()
        };
        let alone = self.backends.iter().enumerate().filter(|(_, backend)| is_alone(backend));
        let alone = alone.map(|(index, backend)| (backend.name.clone(), vec![index]));
        groups.chain(volumes).chain(alone).collect()
    }

    /// The backend that a server of a domain is of: it has its name, or its cache has.
    pub fn backend_of_server(&self, server: &str) -> Option<&Backend> {
        let is_its_own = |backend: &&Backend| {
            backend.name == server
                || backend.cache_scheduling().is_some() && cache_server(&backend.name) == server
        };
        self.backends.iter().find(is_its_own)
    }

    /// The tiered volumes with their backends.
    pub fn volumes(&self) -> impl Iterator<Item = (&Backend, &Tiered)> {
        self.backends.iter().filter_map(|backend| Some((backend, backend.volume()?)))
    }

    /// The volume of either kind that this backend is a member of.
    pub fn volume_of(&self, backend: &str) -> Option<&Backend> {
        self.backends.iter().find(|volume| volume.has_member(backend))
    }

    /// The only backend that exports can be on, members of volumes aside; none if there are
    /// several.
    pub fn only_backend(&self) -> Option<&Backend> {
        let is_member = |backend: &Backend| self.volume_of(&backend.name).is_some();
        let mut others = self.backends.iter().filter(|backend| !is_member(backend));
        let only = others.next()?;
        others.next().is_none().then_some(only)
    }

    /// What the engine of one domain needs. `domain` is an element of [`Policy::domains`];
    /// How long the members of a volume are waited for: the longest patience of any.
    fn patience_of(&self, members: &[Member]) -> Span {
        let sources = self
            .backends
            .iter()
            .filter(|backend| members.iter().any(|member| member.backend == backend.name));
        let patience = sources.filter_map(|backend| match &backend.source {
            Source::Upstream(upstream) => Some(upstream.patience),
            _ => None,
        });
        patience.max().unwrap_or(Upstream::PATIENCE)
    }

    /// `servers` is the domain's own table, which takes over its backends.
    pub fn domain(
        &self,
        (name, backends): &(String, Vec<usize>),
        tenants: &TenantTable,
        servers: &mut ServerTable,
    ) -> Domain {
        for &index in backends {
            let backend = &self.backends[index];
            servers.table.put(&backend.name, backend.scheduling.clone());
            if let Some(cache) = backend.cache_scheduling() {
                servers.table.put(&cache_server(&backend.name), cache);
            }
        }
        let mut stores = backends.iter().map(|&index| &self.backends[index]);
        let cached = stores.find(|backend| backend.cache_scheduling().is_some());
        let group = self.groups.iter().find(|group| group.name == *name);
        let volume = self.volumes().find(|(backend, _)| backend.name == *name);
        let spread = self.backends.iter().find(|backend| backend.name == *name);
        let spread = spread.and_then(Backend::spread);
        let mover = || tenants.id(MOVER_TENANT).expect("the table has it where there is a volume");
        Domain {
            mode: self.mode,
            sharing: match (group, spread) {
                (Some(group), _) => group.sharing,
                (None, Some(_)) => Sharing::Total,
                (None, None) => Sharing::Local,
            },
            is_exchanged: group.is_some_and(|group| group.is_exchanged),
            tenants: tenants.rows().to_vec(),
            servers: servers.table.rows.clone(),
            host: self.exchange.as_ref().map(Exchange::host).unwrap_or_default(),
            tiers: volume.map(|(backend, volume)| TierPlan {
                discipline: backend.scheduling.discipline,
                servers: volume.tiers.iter().filter_map(|tier| servers.id(&tier.backend)).collect(),
                extent_bytes: volume.extent_bytes,
                moves: volume.moves,
                mover: mover(),
                patience: self.patience_of(&volume.tiers),
                late: volume.takeover.late,
            }),
            spread: spread.map(|volume| SpreadPlan {
                servers: volume.servers.iter().filter_map(|one| servers.id(&one.backend)).collect(),
                near: volume.servers.iter().map(|one| volume.near.contains(&one.backend)).collect(),
                prefer: volume.prefer.clone(),
                ceiling_milli: volume.ceiling_milli,
                clerk: mover(),
                patience: self.patience_of(&volume.servers),
            }),
            cache: cached.and_then(|backend| {
                Some(CachePlan {
                    discipline: backend.scheduling.discipline,
                    drives: servers.id(&backend.name)?,
                    cache: servers.id(&cache_server(&backend.name))?,
                })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Discipline, Group, Store, StoreCache};
    use super::*;

    fn policy(tenants: &[&str], backends: &[&str], group: &[&str]) -> Policy {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let tenant =
            |name| Tenant { name, matches: vec![], read_only: false, share: Share::default() };
        let backend =
            |name| Backend { name, source: Source::Memory, scheduling: Scheduling::default() };
        let group = Group {
            name: "all".into(),
            backends: names(group),
            sharing: Sharing::Total,
            is_exchanged: false,
        };
        Policy {
            tenants: names(tenants).into_iter().map(tenant).collect(),
            backends: names(backends).into_iter().map(backend).collect(),
            groups: vec![group],
            ..Policy::default()
        }
    }

    #[test]
    fn a_name_keeps_its_id_through_every_change() {
        let mut table = TenantTable::new();
        table.update(&policy(&["a", "b"], &[], &[]));
        let b = table.id("b");
        table.update(&policy(&["c"], &[], &[]));
        assert_eq!(table.id("b"), b, "removed, yet known");
        table.update(&policy(&["b", "a", "default"], &[], &[]));
        assert_eq!((table.id("b"), table.id("default")), (b, Some(TenantId(0))));
        assert_eq!(table.rows().len(), 4);
    }

    #[test]
    fn a_store_has_a_server_for_its_cache_where_requests_for_both_are_ordered_together() {
        let cache = StoreCache { drive: Some("/dev/n".into()), ..StoreCache::default() };
        let store = Source::Store(Store { cache, ..Store::default() });
        let mut policy = policy(&[], &["log"], &[]);
        policy.backends[0].source = store;
        let (mut servers, tenants) = (ServerTable::new(), TenantTable::new());
        let domains = policy.domains();
        let of = |policy: &Policy, servers: &mut ServerTable| {
            let domain = policy.domain(&domains[1], &tenants, servers);
            (domain.servers.len(), domain.ordered_together())
        };
        assert_eq!(of(&policy, &mut servers), (1, None));
        policy.backends[0].scheduling.discipline = Discipline::Baa;
        let both = vec![ServerId(0), ServerId(1)];
        assert_eq!(of(&policy, &mut servers), (2, Some((Discipline::Baa, both))));
        let named = |policy: &Policy, server| policy.backend_of_server(server).is_some();
        assert!(named(&policy, "log") && named(&policy, "log.cache") && !named(&policy, "lo"));
        policy.backends[0].scheduling.discipline = Discipline::Sfq;
        assert!(!named(&policy, "log.cache"));
        assert_eq!(of(&policy, &mut servers), (2, None), "the row stays, unused");
    }

    #[test]
    fn every_backend_is_in_exactly_one_domain() {
        let before = policy(&[], &["x", "y", "z"], &["z", "x"]);
        let domains = before.domains();
        assert_eq!(domains, [("all".into(), vec![2, 0]), ("y".into(), vec![1])]);
        let mut servers = ServerTable::new();
        let domain = before.domain(&domains[0], &TenantTable::new(), &mut servers);
        assert_eq!(domain.sharing, Sharing::Total);
        assert_eq!(servers.id("x"), Some(ServerId(1)));
        let after = policy(&[], &["w", "x", "y", "z"], &["w", "x"]);
        let domain = after.domain(&after.domains()[0], &TenantTable::new(), &mut servers);
        assert_eq!(servers.id("x"), Some(ServerId(1)), "ids outlive a reload");
        assert_eq!(domain.servers.len(), 3, "z keeps its row");
    }
}
