//! The policy, made ready for use: files read, names resolved, work dealt to the workers.
//!
//! A plan is immutable and shared by all threads; a reload makes a new one. Domains stay with the
//! worker that got them first, and everything that engines know by number keeps its number.

use std::collections::BTreeMap;
use std::net::IpAddr;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_engine::Target as Holder;
use evenkeel_engine::policy::access::{self, Access, AccessRules, Caller, Entrance};
use evenkeel_engine::policy::matching::Identity;
use evenkeel_engine::policy::{
    self, Address, Backend, Export, Listener, Moves, Policy, ServerTable, Source, TenantTable,
};
use tokio_rustls::TlsAcceptor;

use crate::device::remote::Terms;
use crate::device::remote::connect::Route;
use crate::exchange::PlannedExchange;
use crate::gate::{GateError, same_source};
use crate::tls;

/// A policy in force.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) policy: Policy,
    pub(crate) listeners: Vec<PlannedListener>,
    pub(crate) domains: Vec<PlannedDomain>,
    /// With whom devices are shared, if with anybody.
    pub(crate) exchange: Option<PlannedExchange>,
    tenants: TenantTable,
    access: AccessRules,
    /// How to use each upstream, by backend.
    terms: BTreeMap<String, Terms>,
}

/// A listener with its certificates read.
#[derive(Clone)]
pub(crate) struct PlannedListener {
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) tls: Option<(TlsAcceptor, Insist)>,
    /// Who may open what holds on it.
    pub(crate) is_protected: bool,
}

/// Whether clients must start TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insist {
    No,
    Yes,
}

/// A scheduling domain and who runs it.
#[derive(Clone, Debug)]
pub(crate) struct PlannedDomain {
    pub(crate) name: String,
    pub(crate) worker: usize,
    pub(crate) domain: policy::Domain,
    servers: ServerTable,
    backends: Vec<String>,
    /// The volume that the servers are the tiers of, if they are. It outlives its place in the
    /// policy, as the domain does.
    volume: Option<Source>,
}

/// What an export's name leads to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The proper name of the export.
    pub(crate) export: String,
    pub(crate) backend: String,
    pub(crate) domain: String,
    pub(crate) worker: usize,
    /// What holds the bytes, for the domain's engine.
    pub(crate) holder: Holder,
    /// Which device of the backend.
    pub(crate) device: String,
    pub(crate) base_bytes: u64,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) read_only: bool,
    pub(crate) description: Option<String>,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) tls_names: Vec<String>,
    pub(crate) listener: String,
    pub(crate) address: Option<IpAddr>,
    /// It has shown a certificate.
    pub(crate) has_certificate: bool,
    /// The listener asked for certificates when it came.
    pub(crate) was_protected: bool,
}

impl std::fmt::Debug for PlannedListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PlannedListener({}, {:?})", self.name, self.address)
    }
}

impl PlannedDomain {
    /// The server of this backend's name, if it has one.
    pub(crate) fn server(&self, backend: &str) -> Option<ServerId> {
        self.servers.id(backend)
    }

    /// Whether it is one of its backends.
    pub(crate) fn has(&self, backend: &str) -> bool {
        self.backends.iter().any(|own| own == backend)
    }

    /// Notes what volume this is, if it is one. That cannot change once it has been open, even if
    /// it was out of the policy meanwhile: clients may still be using it.
    fn remember_volume(&mut self, policy: &Policy) -> Result<(), GateError> {
        let named = policy.backends.iter().find(|backend| backend.name == self.name);
        let volume = named.filter(|backend| backend.is_volume()).map(|backend| &backend.source);
        let is_new = self.backends.is_empty();
        let is_same = match (&self.volume, volume) {
            (Some(known), Some(volume)) => same_source(known, volume),
            (known, volume) => known.is_none() && volume.is_none(),
        };
        if !is_new && !is_same {
            return Err(GateError {
                what: format!("backend {:?}", self.name),
                why: "what a volume is made of cannot change while the gate runs; add it under \
                      another name, or restart"
                    .to_owned(),
            });
        }
        self.volume = volume.cloned();
        Ok(())
    }
}

impl Plan {
    /// Makes a policy ready. `before` is what is in force, if anything is; `workers` how many
    /// threads there are.
    pub(crate) fn new(
        policy: Policy,
        before: Option<&Self>,
        workers: usize,
    ) -> Result<Self, GateError> {
        let mut tenants = before.map_or_else(TenantTable::new, |plan| plan.tenants.clone());
        tenants.update(&policy);
        let listeners = policy.listeners.iter().map(planned_listener).collect::<Result<_, _>>()?;
        let mut terms = BTreeMap::new();
        for backend in &policy.backends {
            if let Some(of_backend) = terms_of(backend)? {
                terms.insert(backend.name.clone(), of_backend);
            }
        }
        let domains = deal(&policy, &tenants, before, workers)?;
        let exchange = PlannedExchange::new(&policy, &domains)?;
        let access = AccessRules::new(&policy);
        Ok(Self { policy, listeners, domains, exchange, tenants, access, terms })
    }

    /// What a client means by `export`: a declared export first, then whatever upstreams that are
    /// passed through may have. The empty name means the only export, if there is just one.
    pub(crate) fn targets(&self, export: &str) -> Vec<Target> {
        let mut own = self.policy.exports.iter().filter(|known| !known.is_for_proof());
        let only = own.next().filter(|_| own.next().is_none() && export.is_empty());
        let named = || self.policy.exports.iter().find(|known| known.name == export);
        let declared = only.or_else(named);
        if let Some(declared) = declared {
            return self.declared(declared).into_iter().collect();
        }
        self.passed_through()
            .filter_map(|backend| self.target(backend, export, export.to_owned()))
            .collect()
    }

    /// Backends that offer whatever their server lists.
    pub(crate) fn passed_through(&self) -> impl Iterator<Item = &Backend> {
        self.policy.backends.iter().filter(
            |backend| matches!(&backend.source, Source::Upstream(upstream) if upstream.passthrough),
        )
    }

    /// Whether an export of the policy stands on this device.
    pub(crate) fn declares(&self, backend: &str, device: &str) -> bool {
        let of_backend = self.policy.exports.iter().filter(|export| export.backend == backend);
        of_backend.filter_map(|export| self.declared(export)).any(|target| target.device == device)
    }

    /// An export of the policy on this volume of a store.
    pub(crate) fn export_of(&self, store: &str, volume: u32) -> Option<&str> {
        let is_on_it = |export: &&Export| {
            let number = export.source.as_deref().unwrap_or(policy::FIRST_VOLUME);
            export.backend == store && number.parse() == Ok(volume)
        };
        self.policy.exports.iter().find(is_on_it).map(|export| export.name.as_str())
    }

    /// The volume of the policy that has this volume of a store as a member.
    pub(crate) fn volume_over(&self, store: &str, volume: u32) -> Option<&str> {
        let is_it = |tier: &policy::Member| {
            let device = if tier.device.is_empty() { policy::FIRST_VOLUME } else { &tier.device };
            tier.backend == store && device.parse() == Ok(volume)
        };
        let mut backends = self.policy.backends.iter();
        let over = backends.find(|backend| backend.members().iter().any(is_it))?;
        Some(&over.name)
    }

    /// How to use an upstream.
    pub(crate) fn terms(&self, backend: &str) -> Option<&Terms> {
        self.terms.get(backend)
    }

    /// The backend of this name.
    pub(crate) fn backend(&self, name: &str) -> Option<&Backend> {
        self.policy.backends.iter().find(|backend| backend.name == name)
    }

    /// The scheduling domain of this name.
    pub(crate) fn domain(&self, name: &str) -> Option<&PlannedDomain> {
        self.domains.iter().find(|domain| domain.name == name)
    }

    /// Who pays for what stores do for themselves; none if there never was a store.
    pub(crate) fn upkeep_tenant(&self) -> Option<TenantId> {
        self.tenants.id(policy::UPKEEP_TENANT)
    }

    /// The tenant that a connection belongs to.
    pub(crate) fn tenant_of(&self, peer: &Peer, export: &str) -> TenantId {
        let tenants = &self.policy.tenants;
        let tenant = access::tenant_of(tenants, &self.caller(peer, export));
        let name = tenant.map_or(policy::DEFAULT_TENANT, |index| &tenants[index].name);
        self.tenants.id(name).expect("the table holds every tenant of the policy")
    }

    /// A client before an export, as this policy sees it: its listener may have come to ask for
    /// certificates since.
    fn caller<'a>(&self, peer: &'a Peer, export: &'a str) -> Caller<'a> {
        let identity = Identity {
            tls_names: &peer.tls_names,
            export,
            listener: &peer.listener,
            peer: peer.address,
        };
        let listener = self.policy.listeners.iter().find(|one| one.name == peer.listener);
        let has_certificate = peer.has_certificate;
        let entrance = if listener.map_or(peer.was_protected, Listener::is_protected) {
            Entrance::Protected { has_certificate }
        } else {
            Entrance::Open
        };
        Caller { identity, entrance }
    }

    /// What a client may do with an export of a backend.
    pub(crate) fn access(&self, peer: &Peer, export: &str, backend: &str) -> Access {
        self.access.access(&self.caller(peer, export), backend)
    }

    /// What each tenant counts where memory is divided, by its index: its share, and zero for those
    /// that have no clients.
    pub(crate) fn memory_weights(&self) -> Vec<u64> {
        let has_clients = |name: &str| {
            name == policy::DEFAULT_TENANT || self.policy.tenants.iter().any(|one| one.name == name)
        };
        let weight = |(name, share): &(String, evenkeel_core::sched::Share)| {
            if has_clients(name) { u64::from(share.weight_milli.max(1)) } else { 0 }
        };
        self.tenants.rows().iter().map(weight).collect()
    }

    /// The names of all tenants by index.
    pub(crate) fn tenant_names(&self) -> Vec<&str> {
        self.tenants.rows().iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The name of a tenant.
    pub(crate) fn tenant_name(&self, tenant: TenantId) -> &str {
        &self.tenants.rows()[tenant.index()].0
    }

    fn declared(&self, export: &Export) -> Option<Target> {
        let backend = self.backend(&export.backend)?;
        let device = match &backend.source {
            Source::File { .. } | Source::Tiered(_) | Source::Spread(_) | Source::Ceph(_) => {
                String::new()
            }
            Source::Memory => export.name.clone(),
            Source::Store(_) => {
                export.source.clone().unwrap_or_else(|| policy::FIRST_VOLUME.to_owned())
            }
            Source::Upstream(_) | Source::Directory { .. } => {
                export.source.clone().unwrap_or_else(|| export.name.clone())
            }
        };
        Some(Target {
            base_bytes: export.offset_bytes,
            size_bytes: export.size_bytes,
            read_only: export.read_only,
            description: export.description.clone(),
            ..self.target(backend, &export.name, device)?
        })
    }

    fn target(&self, backend: &Backend, export: &str, device: String) -> Option<Target> {
        let is_volume = backend.is_volume();
        let is_its_own = |domain: &&PlannedDomain| {
            if is_volume { domain.name == backend.name } else { domain.has(&backend.name) }
        };
        let domain = self.domains.iter().find(is_its_own)?;
        let holder =
            if is_volume { Holder::Volume } else { Holder::Server(domain.server(&backend.name)?) };
        Some(Target {
            export: export.to_owned(),
            backend: backend.name.clone(),
            domain: domain.name.clone(),
            worker: domain.worker,
            holder,
            device,
            base_bytes: 0,
            size_bytes: None,
            read_only: false,
            description: None,
        })
    }
}

/// Domains of the policy, each with its worker: where it was, or the next in turn.
fn deal(
    policy: &Policy,
    tenants: &TenantTable,
    before: Option<&Plan>,
    workers: usize,
) -> Result<Vec<PlannedDomain>, GateError> {
    let known = before.map_or(&[][..], |plan| &plan.domains);
    let mut domains = known.to_vec();
    for entry in policy.domains() {
        let (name, backends) = &entry;
        let backends: Vec<String> =
            backends.iter().map(|&index| policy.backends[index].name.clone()).collect();
        moved(&domains, name, &backends)?;
        let position = domains.iter().position(|domain| domain.name == *name);
        let position = position.unwrap_or_else(|| {
            domains.push(PlannedDomain {
                name: name.clone(),
                worker: domains.len() % workers,
                domain: policy::Domain::default(),
                servers: ServerTable::new(),
                backends: Vec::new(),
                volume: None,
            });
            domains.len() - 1
        });
        let planned = &mut domains[position];
        planned.remember_volume(policy)?;
        planned.domain = policy.domain(&entry, tenants, &mut planned.servers);
        for (server, scheduling) in &mut planned.domain.servers {
            let backend = policy.backends.iter().find(|backend| backend.name == *server);
            if backend.is_some_and(|backend| backend.source == Source::Memory) {
                *scheduling = scheduling.clone().answered_at_once();
            }
        }
        planned.backends = backends;
    }
    for domain in &mut domains {
        // Domains that the policy no longer names still serve the clients they have.
        domain.domain.mode = policy.mode;
        domain.domain.tenants = tenants.rows().to_vec();
        if let Some(tiers) = &mut domain.domain.tiers
            && !policy.volumes().any(|(backend, _)| backend.name == domain.name)
        {
            tiers.moves = Moves::Off;
        }
    }
    Ok(domains)
}

/// Refuses to move a backend from one running domain to another.
fn moved(domains: &[PlannedDomain], name: &str, backends: &[String]) -> Result<(), GateError> {
    for domain in domains.iter().filter(|domain| domain.name != name) {
        if let Some(backend) = backends.iter().find(|name| domain.backends.contains(name)) {
            return Err(GateError {
                what: format!("backend {backend:?}"),
                why: format!(
                    "it shares with {:?} and cannot move to {name:?} while the gate runs; \
                     restart the gate to regroup",
                    domain.name
                ),
            });
        }
    }
    Ok(())
}

fn planned_listener(listener: &Listener) -> Result<PlannedListener, GateError> {
    let tls = listener.tls.as_ref().map(|tls| {
        let acceptor = tls::acceptor(tls).map_err(|error| GateError {
            what: format!("TLS of listener {:?}", listener.name),
            why: error.to_string(),
        })?;
        Ok((acceptor, if tls.required { Insist::Yes } else { Insist::No }))
    });
    Ok(PlannedListener {
        name: listener.name.clone(),
        address: listener.address.clone(),
        tls: tls.transpose()?,
        is_protected: listener.is_protected(),
    })
}

fn terms_of(backend: &Backend) -> Result<Option<Terms>, GateError> {
    let Source::Upstream(upstream) = &backend.source else { return Ok(None) };
    let tls = upstream.tls.as_ref().map(|tls| {
        tls::connector(tls, &upstream.address).map_err(|error| GateError {
            what: format!("TLS of backend {:?}", backend.name),
            why: error.to_string(),
        })
    });
    Ok(Some(Terms {
        route: Route { address: upstream.address.clone(), tls: tls.transpose()? },
        connections: upstream.connections.max(1),
        writes_survive_restart: upstream.writes_survive_restart,
        patience: upstream.patience,
        late: upstream.late.unwrap_or(policy::Takeover::LATE),
        request_timeout: upstream.request_timeout,
        server: upstream.server,
    }))
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;
    use evenkeel_engine::lease::Times;
    use evenkeel_engine::policy::{Member, Spread, Takeover, Tiered};
    use evenkeel_engine::spread::Shape;

    use super::*;

    fn backend(name: &str, source: Source) -> Backend {
        Backend { name: name.to_owned(), source, scheduling: policy::Scheduling::default() }
    }

    fn members(names: &[&str]) -> Vec<Member> {
        let member = |name: &&str| {
            let (backend, device) = ((*name).to_owned(), String::new());
            Member { backend, device, size_bytes: Some(1 << 30) }
        };
        names.iter().map(member).collect()
    }

    fn volume(tiers: &[&str], moves: Moves) -> Source {
        let (tiers, takeover) = (members(tiers), Takeover::default());
        Source::Tiered(Tiered { tiers, extent_bytes: 1 << 20, moves, takeover })
    }

    fn spread(servers: &[&str]) -> Source {
        Source::Spread(Spread {
            servers: members(servers),
            leaving: Vec::new(),
            prefer: vec![policy::Preference::Space],
            near: Vec::new(),
            shape: Shape { object_bytes: 4 << 20, size_bytes: None, candidates: 2 },
            ceiling_milli: 930,
            takeover: Takeover::default(),
        })
    }

    /// Two backends in memory, and `shelf` if it is given.
    fn policy(shelf: Option<Source>) -> Policy {
        let mut backends = vec![backend("hdd", Source::Memory), backend("ssd", Source::Memory)];
        backends.extend(shelf.map(|source| backend("shelf", source)));
        Policy { backends, exports: vec![export()], ..Policy::default() }
    }

    fn export() -> Export {
        Export {
            name: "disk".to_owned(),
            backend: "shelf".to_owned(),
            source: None,
            offset_bytes: 4096,
            size_bytes: None,
            read_only: false,
            allow: None,
            description: None,
        }
    }

    fn plan(policy: Policy, before: Option<&Plan>) -> Result<Plan, String> {
        Plan::new(policy, before, 2).map_err(|error| error.to_string())
    }

    #[test]
    fn an_export_of_a_volume_is_served_where_its_tiers_are() {
        let plan = plan(policy(Some(volume(&["hdd", "ssd"], Moves::ByHeat))), None).unwrap();
        let targets = plan.targets("disk");
        let [target] = targets.as_slice() else { panic!("{targets:?}") };
        assert_eq!((target.holder, target.domain.as_str()), (Holder::Volume, "shelf"));
        assert_eq!(target.base_bytes, 4096);
        let domain = plan.domain("shelf").unwrap();
        assert_eq!(domain.server("ssd"), Some(ServerId(1)));
        assert!(plan.domain("ssd").is_none(), "a tier shares with nobody else");
    }

    #[test]
    fn a_volume_stays_what_it_is_even_while_the_policy_does_without_it() {
        let shelf = || volume(&["hdd", "ssd"], Moves::ByHeat);
        let before = plan(policy(Some(shelf())), None).unwrap();
        let off = volume(&["hdd", "ssd"], Moves::Off);
        assert!(plan(policy(Some(off)), Some(&before)).is_ok(), "moves may change");
        let without = Policy { backends: Vec::new(), exports: Vec::new(), ..policy(None) };
        let without = plan(without, Some(&before)).unwrap();
        let tiers = without.domain("shelf").unwrap().domain.tiers.clone();
        assert_eq!(tiers.unwrap().moves, Moves::Off, "nobody is left to want them");
        assert!(plan(policy(Some(shelf())), Some(&without)).is_ok(), "it may come back");
        for other in [volume(&["ssd", "hdd"], Moves::ByHeat), Source::Memory] {
            let refusal = plan(policy(Some(other)), Some(&without)).unwrap_err();
            assert!(refusal.contains("restart"), "{refusal}");
        }
    }

    #[test]
    fn how_a_volume_is_taken_over_may_change_but_for_its_lease() {
        for shelf in [volume(&["hdd", "ssd"], Moves::ByHeat), spread(&["hdd", "ssd"])] {
            let before = plan(policy(Some(shelf.clone())), None).unwrap();
            let with = |takeover: Takeover| {
                let mut shelf = shelf.clone();
                *shelf.takeover_mut().unwrap() = takeover;
                plan(policy(Some(shelf)), Some(&before))
            };
            let fence = vec!["/bin/off".to_owned()];
            let (unfenced_after, late) = (Some(Span::from_secs(60)), Span::ZERO);
            let other = Takeover { fence, unfenced_after, late, ..Takeover::default() };
            assert!(with(other.clone()).is_ok(), "{shelf:?}");
            let times = Times::of(Span::from_secs(2));
            let refusal = with(Takeover { times, ..other }).unwrap_err();
            assert!(refusal.contains("restart"), "{refusal}");
        }
    }
}
