//! Who may open what: lists that name tenants, exports that nobody can open, and those that anybody
//! can.

use super::{Findings, Place, known};
use crate::policy::{DEFAULT_TENANT, Listener, Policy, Source, Tenant};

pub(super) fn check(policy: &Policy, found: &mut Findings) {
    let protected: Vec<&Listener> =
        policy.listeners.iter().filter(|listener| listener.is_protected()).collect();
    let open: Vec<&Listener> = policy
        .listeners
        .iter()
        .filter(|listener| !listener.is_protected() && listener.is_remote())
        .collect();
    for (index, export) in policy.exports.iter().enumerate() {
        let place = Place::Export { index, field: "allow" };
        check_allow(policy, export.allow.as_deref(), !protected.is_empty(), place, found);
        if !protected.is_empty() && export.allow.is_none() {
            check_owner(policy, &export.name, place, found);
        }
        let owner = policy.owner(&export.name).map(|index| &policy.tenants[index]);
        let reads_only = owner.is_some_and(|tenant| tenant.read_only);
        if !export.read_only && !reads_only && !open.is_empty() {
            warn_open(&format!("export {:?}", export.name), &open, place, found);
        }
    }
    for (index, backend) in policy.backends.iter().enumerate() {
        let Source::Upstream(upstream) = &backend.source else { continue };
        let place = Place::Backend { index, field: "source.allow" };
        if upstream.allow.is_some() && !upstream.passthrough {
            found.error(
                place,
                "`allow` is for what is passed through, and this backend passes nothing through",
                "set `allow` on the exports of this backend",
            );
        }
        check_allow(policy, upstream.allow.as_deref(), !protected.is_empty(), place, found);
        if upstream.passthrough && !open.is_empty() {
            warn_open(&format!("whatever {:?} lists", backend.name), &open, place, found);
        }
    }
}

fn check_allow(
    policy: &Policy,
    allow: Option<&[String]>,
    has_protected: bool,
    place: Place,
    found: &mut Findings,
) {
    let Some(allow) = allow else { return };
    check_names(policy, allow, place, found);
    let is_there = |name: &&Tenant| allow.contains(&name.name);
    let mut listed = policy.tenants.iter().filter(is_there);
    if !has_protected {
        found.warning(
            place,
            "`allow` holds where clients show certificates, and no listener asks for them",
            "set tls.client_authority and tls.required on a listener",
        );
    } else if allow.iter().all(|name| name != DEFAULT_TENANT)
        && !allow.is_empty()
        && !listed.any(Tenant::is_provable)
    {
        found.warning(
            place,
            "nobody can open it where clients show certificates: no tenant in `allow` is known by \
             its certificate, its listener or its address",
            "add a match by tls_name to one of them",
        );
    }
}

fn check_names(policy: &Policy, allowed: &[String], place: Place, found: &mut Findings) {
    let names = || policy.tenants.iter().map(|tenant| tenant.name.as_str());
    let is_own = |name: &str| policy.own_tenants().any(|own| own == name);
    for name in allowed {
        if is_own(name) {
            let message =
                format!("tenant {name:?} pays for the gate's own work, and has no clients");
            found.error(place, message, "remove it from `allow`");
        } else if name != DEFAULT_TENANT && names().all(|known| known != name) {
            found.error(place, format!("there is no tenant {name:?}"), known(names()));
        }
    }
}

/// Reports an export that nobody can open where clients must show who they are.
fn check_owner(policy: &Policy, export: &str, place: Place, found: &mut Findings) {
    let owner = policy.owner(export).map(|index| &policy.tenants[index]);
    match owner {
        Some(owner) if !owner.is_provable() => found.warning(
            place,
            format!(
                "where clients show certificates nobody can open {export:?}: it belongs to tenant \
                 {:?}, whose matches are by export alone, and an export is no proof",
                owner.name
            ),
            "add a match by tls_name to the tenant, or `allow` to the export",
        ),
        None if !policy.tenants.iter().any(Tenant::is_provable) => found.warning(
            place,
            format!(
                "where clients show certificates nobody can open {export:?}: no tenant is known by \
                 its certificate, its listener or its address"
            ),
            "add a tenant with a match by tls_name, or `allow` to the export",
        ),
        _ => {}
    }
}

fn warn_open(what: &str, open: &[&Listener], place: Place, found: &mut Findings) {
    let names: Vec<String> = open.iter().map(|listener| format!("{:?}", listener.name)).collect();
    found.warning(
        place,
        format!(
            "anybody who reaches listener {} may open {what} for writing: it asks for no \
             certificates",
            names.join(", ")
        ),
        "set tls.client_authority and tls.required on the listener, listen on loopback or a unix \
         socket, or make it read_only",
    );
}
