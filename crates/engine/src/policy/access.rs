//! Who may open what.
//!
//! A listener that asks its clients for certificates is *protected*: there a client is whom its
//! certificate, the listener or its address say, and not whom the export says, which it chooses
//! itself; without a certificate it is `default`. An export is opened
//!
//! ```text
//! with `allow`:                        by the tenants listed there
//! that a tenant's `match` names:       by that tenant alone (the strongest match, if several do)
//! else:                                by every tenant but `default`
//! ```
//!
//! What a server passes through goes by names that clients make up and the server reads. By such a
//! name nobody gets at what the policy's own exports and volumes stand on at that server, nor, but
//! for an `allow`, at what the server offers under the empty name.
//!
//! On all other listeners everybody opens everything, and a match by export is as good as another:
//! it says whose account a connection is on. A tenant that is `read_only` only reads, everywhere.

use std::collections::{BTreeMap, BTreeSet};

use super::matching::{Identity, identify, identify_by};
use super::{
    Address, Backend, DEFAULT_TENANT, Export, Listener, Match, Policy, Source, Tenant, Upstream,
};

/// What a client may do with an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Not even know of it.
    None,
    /// Read.
    Read,
    /// Read and write, as far as the backend lets anybody.
    Write,
}

/// How a client came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// By a listener that asks for no certificates.
    Open,
    /// By one that asks for them, with a certificate or without.
    Protected {
        /// It has shown a certificate that its authority signed.
        has_certificate: bool,
    },
}

/// A client before an export.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// What it shows, its export included.
    pub identity: Identity<'a>,
    /// How it came.
    pub entrance: Entrance,
}

impl Listener {
    /// Whether who may open what holds on it: it asks clients for certificates.
    pub fn is_protected(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some())
    }

    /// Whether it can be reached from other machines.
    pub fn is_remote(&self) -> bool {
        let Address::Tcp(text) = &self.address else { return false };
        let host = text.rsplit_once(':').map_or(text.as_str(), |(host, _)| host);
        let host = host.trim_matches(['[', ']']);
        let is_loopback = |ip: std::net::IpAddr| ip.to_canonical().is_loopback();
        !host.parse().is_ok_and(is_loopback) && !host.eq_ignore_ascii_case("localhost")
    }
}

impl Tenant {
    /// Whether a client can show on a protected listener that it is this tenant's.
    pub fn is_provable(&self) -> bool {
        self.name != DEFAULT_TENANT
            && self.matches.iter().any(|one| !matches!(one, Match::Export(_)))
    }
}

impl Backend {
    /// The server whose exports are passed through by their names, if it is one.
    pub fn passed_through(&self) -> Option<&Upstream> {
        match &self.source {
            Source::Upstream(upstream) if upstream.passthrough => Some(upstream),
            _ => None,
        }
    }
}

/// The tenant that a client belongs to, as an index; none for `default` where that is not declared.
/// O(matches).
pub fn tenant_of(tenants: &[Tenant], caller: &Caller<'_>) -> Option<usize> {
    match caller.entrance {
        Entrance::Open => identify(tenants, &caller.identity),
        Entrance::Protected { has_certificate: true } => {
            identify_by(tenants, &caller.identity, |one| !matches!(one, Match::Export(_)))
        }
        Entrance::Protected { has_certificate: false } => None,
    }
}

/// An export that the policy declares.
#[derive(Clone, Debug)]
struct Declared {
    /// The tenant that it is for, if nothing is allowed.
    owner: Option<usize>,
    allow: Option<Vec<String>>,
    read_only: bool,
}

/// Who may open what under one policy, worked out once.
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    tenants: Vec<Tenant>,
    exports: BTreeMap<String, Declared>,
    /// By backend that passes its server's exports through.
    passed_through: BTreeMap<String, (Address, Option<Vec<String>>)>,
    /// What exports and volumes of the policy stand on, by server and its name there.
    in_use: BTreeSet<(Address, String)>,
}

impl AccessRules {
    /// The rules of a policy. O(exports * matches).
    pub fn new(policy: &Policy) -> Self {
        let declared = policy.exports.iter().map(|export| {
            let Export { allow, read_only, .. } = export;
            let owner = policy.owner(&export.name);
            let declared = Declared { owner, allow: allow.clone(), read_only: *read_only };
            (export.name.clone(), declared)
        });
        let passed = policy.backends.iter().filter_map(|backend| {
            let upstream = backend.passed_through()?;
            Some((backend.name.clone(), (upstream.address.clone(), upstream.allow.clone())))
        });
        let exports = policy.exports.iter();
        let exports = exports.map(|one| (&one.backend, one.source.as_ref().unwrap_or(&one.name)));
        let members = policy.backends.iter().flat_map(Backend::members);
        let members = members.map(|one| (&one.backend, &one.device));
        let at_server = |(backend, name): (&String, &String)| {
            let backend = policy.backends.iter().find(|one| one.name == *backend)?;
            let Source::Upstream(upstream) = &backend.source else { return None };
            Some((upstream.address.clone(), name.clone()))
        };
        Self {
            tenants: policy.tenants.clone(),
            exports: declared.collect(),
            passed_through: passed.collect(),
            in_use: exports.chain(members).filter_map(at_server).collect(),
        }
    }

    /// What a client may do with the export of its identity, on this backend.
    /// O(matches + log exports).
    pub fn access(&self, caller: &Caller<'_>, backend: &str) -> Access {
        let tenant = tenant_of(&self.tenants, caller).map(|index| &self.tenants[index]);
        let name = tenant.map_or(DEFAULT_TENANT, |tenant| &tenant.name);
        let export = caller.identity.export;
        if caller.entrance != Entrance::Open && !self.may_open(name, export, backend) {
            return Access::None;
        }
        let default = || self.tenants.iter().find(|one| one.name == DEFAULT_TENANT);
        let reads_only = tenant.or_else(default).is_some_and(|tenant| tenant.read_only);
        let is_read_only = self.exports.get(export).is_some_and(|declared| declared.read_only);
        if reads_only || is_read_only { Access::Read } else { Access::Write }
    }

    /// Whether a tenant may open an export on a protected listener.
    fn may_open(&self, tenant: &str, export: &str, backend: &str) -> bool {
        let is_somebody = tenant != DEFAULT_TENANT;
        let (allow, owner) = if let Some(declared) = self.exports.get(export) {
            (declared.allow.as_ref(), declared.owner)
        } else {
            let Some((address, allow)) = self.passed_through.get(backend) else { return false };
            let is_withheld = self.in_use.contains(&(address.clone(), export.to_owned()))
                || (export.is_empty() && allow.is_none());
            if is_withheld {
                return false;
            }
            (allow.as_ref(), owner(&self.tenants, export))
        };
        match (allow, owner) {
            (Some(allow), _) => allow.iter().any(|one| one == tenant),
            (None, Some(owner)) => is_somebody && self.tenants[owner].name == tenant,
            (None, None) => is_somebody,
        }
    }
}

impl Policy {
    /// The tenant that an export belongs to by name, as an index.
    pub fn owner(&self, export: &str) -> Option<usize> {
        owner(&self.tenants, export)
    }
}

fn owner(tenants: &[Tenant], export: &str) -> Option<usize> {
    identify(tenants, &Identity { export, ..Identity::default() })
}
