//! Who may open what.
//!
//! A listener that asks its clients for certificates is *protected*: there a client is whom its
//! certificate, the listener or its address say, and not whom the export says, which it chooses
//! itself. An export is opened
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

use super::matching::{Identity, identify, identify_by};
use super::{Address, Backend, DEFAULT_TENANT, Listener, Match, Policy, Source, Tenant};

/// What a client may do with an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Not even know of it.
    None,
    /// Read.
    Read,
    /// Read and write, as far as the export lets anybody.
    Write,
}

/// A client before an export.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// What it shows, its export included.
    pub identity: Identity<'a>,
    /// The listener asks its clients for certificates.
    pub is_protected: bool,
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
        let is_loopback =
            host.parse().is_ok_and(|ip: std::net::IpAddr| ip.to_canonical().is_loopback());
        !is_loopback && !host.eq_ignore_ascii_case("localhost")
    }
}

impl Tenant {
    /// Whether a client can show on a protected listener that it is this tenant's.
    pub fn is_provable(&self) -> bool {
        self.matches.iter().any(|one| !matches!(one, Match::Export(_)))
    }
}

impl Policy {
    /// The tenants that an export of a backend is for, whatever else it is: those of the declared
    /// export, or of the backend where it passes its server's through.
    pub fn allowed(&self, export: &str, backend: &str) -> Option<&[String]> {
        if let Some(declared) = self.exports.iter().find(|one| one.name == export) {
            return declared.allow.as_deref();
        }
        let backend = self.backends.iter().find(|one| one.name == backend)?;
        match &backend.source {
            Source::Upstream(upstream) => upstream.allow.as_deref(),
            _ => None,
        }
    }

    /// Whether a name that a backend passes through leads to what is not for everybody.
    fn is_withheld(&self, export: &str, backend: &str) -> bool {
        let server = |backend: &str| {
            let backend = self.backends.iter().find(|one| one.name == backend)?;
            match &backend.source {
                Source::Upstream(upstream) => Some((&upstream.address, &upstream.allow)),
                _ => None,
            }
        };
        let is_declared = self.exports.iter().any(|one| one.name == export);
        let Some((address, allow)) = server(backend).filter(|_| !is_declared) else { return false };
        let is_there = |backend: &str| server(backend).is_some_and(|(other, _)| other == address);
        let by_export = self.exports.iter().any(|one| {
            one.source.as_ref().unwrap_or(&one.name) == export && is_there(&one.backend)
        });
        let mut members = self.backends.iter().flat_map(Backend::members);
        by_export
            || members.any(|one| one.device == export && is_there(&one.backend))
            || (export.is_empty() && allow.is_none())
    }

    /// The tenant that an export belongs to by name, as an index.
    pub fn owner(&self, export: &str) -> Option<usize> {
        identify(&self.tenants, &Identity { export, ..Identity::default() })
    }
}

/// The tenant that a client belongs to, as an index; none for `default` where that is not declared.
/// O(matches).
pub fn tenant_of(tenants: &[Tenant], caller: &Caller<'_>) -> Option<usize> {
    if caller.is_protected {
        identify_by(tenants, &caller.identity, |one| !matches!(one, Match::Export(_)))
    } else {
        identify(tenants, &caller.identity)
    }
}

/// What a client may do with the export of its identity, on this backend. O(matches).
pub fn access(policy: &Policy, caller: &Caller<'_>, backend: &str) -> Access {
    let tenant = tenant_of(&policy.tenants, caller).map(|index| &policy.tenants[index]);
    let name = tenant.map_or(DEFAULT_TENANT, |tenant| &tenant.name);
    let export = caller.identity.export;
    let is_free = !caller.is_protected;
    let is_withheld = || policy.is_withheld(export, backend);
    let is_for_it = || match policy.allowed(export, backend) {
        Some(allowed) => allowed.iter().any(|one| one == name),
        None => match policy.owner(export) {
            Some(owner) => policy.tenants[owner].name == name,
            None => name != DEFAULT_TENANT,
        },
    };
    let may_open = is_free || (is_for_it() && !is_withheld());
    let default = || policy.tenants.iter().find(|one| one.name == DEFAULT_TENANT);
    let reads_only = tenant.or_else(default).is_some_and(|tenant| tenant.read_only);
    match (may_open, reads_only) {
        (false, _) => Access::None,
        (true, true) => Access::Read,
        (true, false) => Access::Write,
    }
}
