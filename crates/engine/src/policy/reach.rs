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

use super::matching::{Identity, fits, identify};
use super::{
    Address, Backend, DEFAULT_TENANT, Listener, MOVER_TENANT, Match, Moves, Policy, Source, Tenant,
};

/// Which tenants of a policy can come to which of its backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// By position of the backend: positions of the tenants, ascending.
    tenants: Vec<Vec<usize>>,
}

impl Reach {
    /// The declared tenants that can come to a backend, by their positions. For a tier these are
    /// the volume's, and whoever pays for moves; for a volume, those who come to its exports.
    pub fn tenants(&self, backend: usize) -> &[usize] {
        &self.tenants[backend]
    }
}

impl Policy {
    /// Who can come to which backend. O(tenants * exports * matches).
    pub fn reach(&self) -> Reach {
        let mut tenants: Vec<Vec<usize>> =
            (0..self.backends.len()).map(|backend| self.comers(backend)).collect();
        for (index, backend) in self.backends.iter().enumerate() {
            let Source::Tiered(volume) = &backend.source else { continue };
            let is_mover = |tenant: &Tenant| tenant.name == MOVER_TENANT;
            let mover = self.tenants.iter().position(is_mover);
            let mut comers = tenants[index].clone();
            comers.extend(mover.filter(|_| volume.moves != Moves::Off));
            for tier in &volume.tiers {
                if let Some(position) = self.position_of(&tier.backend) {
                    let both = &mut tenants[position];
                    both.extend(&comers);
                    both.sort_unstable();
                    both.dedup();
                }
            }
        }
        Reach { tenants }
    }

    /// The position of the backend of this name.
    pub(crate) fn position_of(&self, backend: &str) -> Option<usize> {
        self.backends.iter().position(|one| one.name == backend)
    }

    fn comers(&self, backend: usize) -> Vec<usize> {
        let backend = &self.backends[backend];
        let comes = |tenant: &usize| {
            let exports = self.exports.iter().filter(|export| export.backend == backend.name);
            self.listeners.is_empty()
                || exports.into_iter().any(|export| self.comes_to(*tenant, &export.name))
                || self.comes_to_unlisted(*tenant, backend)
        };
        (0..self.tenants.len()).filter(comes).collect()
    }

    fn comes_to(&self, tenant: usize, export: &str) -> bool {
        let by_export = Identity { export, ..Identity::default() };
        match identify(&self.tenants, &by_export) {
            Some(owner) => owner == tenant || self.comes_by_certificate(tenant),
            None => self.comes_by_certificate(tenant) || self.comes_by_path(tenant),
        }
    }

    /// Whether the tenant comes to exports that only the server behind a backend knows.
    fn comes_to_unlisted(&self, tenant: usize, backend: &Backend) -> bool {
        if !matches!(&backend.source, Source::Upstream(upstream) if upstream.passthrough) {
            return false;
        }
        let is_unlisted =
            |pattern: &str| !self.exports.iter().any(|export| export.name == *pattern);
        let by_export = self.tenants[tenant].matches.iter().any(|one| match one {
            Match::Export(pattern) => pattern.contains('*') || is_unlisted(pattern),
            _ => false,
        });
        let is_catch_all = |one: &Match| matches!(one, Match::Export(pattern) if fits(pattern, ""));
        let all_are_known = self.tenants.iter().any(|one| one.matches.iter().any(is_catch_all));
        by_export
            || self.comes_by_certificate(tenant)
            || (!all_are_known && self.comes_by_path(tenant))
    }

    fn comes_by_certificate(&self, tenant: usize) -> bool {
        let asks = |listener: &Listener| {
            listener.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some())
        };
        let by_name = |one: &Match| matches!(one, Match::TlsName(_));
        self.tenants[tenant].matches.iter().any(by_name) && self.listeners.iter().any(asks)
    }

    /// Whether the tenant is known by the listener or address, or by nothing at all.
    fn comes_by_path(&self, tenant: usize) -> bool {
        let claims = |one: &Match, listener: &Listener| matches!(one, Match::Listener(name) if *name == listener.name);
        let is_claimed = |listener: &Listener| {
            self.tenants.iter().flat_map(|one| &one.matches).any(|one| claims(one, listener))
        };
        let nobodys = || self.listeners.iter().filter(|listener| !is_claimed(listener));
        let is_tcp = |listener: &Listener| matches!(listener.address, Address::Tcp(_));
        let Tenant { name, matches, .. } = &self.tenants[tenant];
        let by_match = matches.iter().any(|one| match one {
            Match::Listener(_) => self.listeners.iter().any(|listener| claims(one, listener)),
            Match::Peer { .. } => nobodys().any(is_tcp),
            Match::Export(_) | Match::TlsName(_) => false,
        });
        by_match || (name == DEFAULT_TENANT && nobodys().next().is_some())
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::sched::Share;
    use evenkeel_core::time::Span;

    use super::super::{Export, Scheduling, Tier, Tiered, Upstream};
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
        });
        assert_eq!(reach(&open), [vec![0], vec![0, 1]]);
    }

    #[test]
    fn the_tiers_of_a_volume_serve_its_tenants_and_the_moves() {
        let tier =
            |name: &str| Tier { backend: name.into(), device: String::new(), size_bytes: None };
        let tiers = vec![tier("a"), tier("b")];
        let volume = Tiered { tiers, extent_bytes: 1 << 20, moves: Moves::ByHeat };
        let mut tiered = policy(vec![tenant("db", by_export("db-*")), tenant(MOVER_TENANT, None)]);
        tiered.backends.push(backend("v", Source::Tiered(volume.clone())));
        tiered.exports = vec![export("db-1", "v")];
        assert_eq!(reach(&tiered), [vec![0, 1], vec![0, 1]]);
        assert_eq!(tiered.reach().tenants(2), [0]);
        tiered.backends[2].source = Source::Tiered(Tiered { moves: Moves::Off, ..volume });
        assert_eq!(reach(&tiered), [vec![0], vec![0]]);
    }
}
