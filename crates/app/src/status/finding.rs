//! How tenants stand, and why: what the engine found, beside what the gate knows around it.

use evenkeel_engine::explain::{self, Cause, Failed, Standing, Surroundings};
use evenkeel_engine::report::{DomainReport, TenantReport};
use evenkeel_io::gate::{FailureReport, GateReport};
use serde::{Deserialize, Serialize};

use super::tenant_name;

/// How a tenant stands over the last seconds, and why it gets no more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `idle`, `has_its_due` or `below_its_due`.
    pub standing: String,
    /// The cause, by its name in docs/status.md; absent where the tenant has all that it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The tenant that is in its way, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
    /// What holds, in a sentence with the figure that shows it.
    pub sentence: String,
    /// What can be done; empty where nothing need be.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl Finding {
    /// Whether the tenant has asked for nothing lately.
    pub fn is_idle(&self) -> bool {
        self.standing == Standing::Idle.key()
    }

    /// Whether the tenant gets less than it is due.
    pub fn is_below(&self) -> bool {
        self.standing == Standing::BelowItsDue.key()
    }
}

/// The finding for a tenant of a domain, with what the gate knows.
pub fn of(report: &GateReport, domain: &DomainReport, tenant: &TenantReport) -> explain::Finding {
    let surroundings = surroundings(report, domain, tenant);
    tenant.finding.clone().beside(&tenant.name, &surroundings)
}

/// The same as part of a document.
pub(super) fn finding(
    report: &GateReport,
    domain: &DomainReport,
    tenant: &TenantReport,
) -> Finding {
    let around = surroundings(report, domain, tenant);
    let found = tenant.finding.clone().beside(&tenant.name, &around);
    let explain::Finding { standing, cause, behind, sentence, remedy } = found;
    let named = behind.map(|one| tenant_name(domain, one.index()).to_owned());
    let behind = if cause == Some(Cause::Memory) { around.memory_held_by } else { named };
    Finding {
        standing: standing.key().to_owned(),
        cause: cause.map(|cause| cause.key().to_owned()),
        behind: behind.filter(|one| *one != tenant.name),
        sentence,
        remedy,
    }
}

fn surroundings(report: &GateReport, domain: &DomainReport, tenant: &TenantReport) -> Surroundings {
    let name = &tenant.name;
    let memory = report.memory.tenants.iter().find(|one| one.tenant == *name);
    let holder = memory.and_then(|memory| memory.behind.first());
    let waiting = memory.map_or(0, |memory| memory.waiting);
    let is_refused = report.refused_tenants.contains(name);
    // Seldom so, and what follows looks at all domains.
    let counts = (waiting > 0 || is_refused) && counts_here(report, domain, tenant);
    Surroundings {
        away: away(report, domain, tenant),
        failed: failed(report, domain, tenant),
        waiting_for_memory: if counts { waiting } else { 0 },
        memory_held_by: holder.map(|(name, _)| name.clone()),
        is_refused: counts && is_refused,
    }
}

/// What backends of this domain failed of the tenant lately.
fn failed(report: &GateReport, domain: &DomainReport, tenant: &TenantReport) -> Option<Failed> {
    let is_here = |backend: &str| domain.servers.iter().any(|server| server.name == backend);
    let mut all = report.failed.iter();
    let found = all.find(|one| one.tenant == tenant.name && is_here(&one.backend))?;
    let FailureReport { requests, backend, why, is_full, .. } = found.clone();
    // One that has stopped says more than the errors that it answers with.
    let mut backends = report.backends.iter().filter(|one| !one.up && one.name == backend);
    let why = backends.find_map(|one| one.trouble.clone()).unwrap_or(why);
    Some(Failed { requests, backend, why, is_full })
}

/// Memory and connections are the whole gate's: they count where the tenant asks for something, or,
/// where it can ask for nothing anywhere, in the first domain.
fn counts_here(report: &GateReport, domain: &DomainReport, tenant: &TenantReport) -> bool {
    let is_idle = |one: &TenantReport| one.finding.standing == Standing::Idle;
    let everywhere = report.domains.iter().flat_map(|domain| &domain.tenants);
    let is_idle_everywhere = everywhere.filter(|one| one.name == tenant.name).all(is_idle);
    let is_first = report.domains.first().is_some_and(|first| std::ptr::eq(first, domain));
    !is_idle(tenant) || is_idle_everywhere && is_first
}

/// A backend of the domain that is away while the tenant has connections to exports of it, or waits
/// for a volume that it is a member of.
fn away(
    report: &GateReport,
    domain: &DomainReport,
    tenant: &TenantReport,
) -> Option<(String, String)> {
    let waits_for_volume =
        (domain.volume.is_some() || domain.spread.is_some()) && tenant.in_flight > 0;
    let is_used = |name: &str| {
        let mut exports = report.exports.iter().filter(|export| export.backend == name);
        exports.any(|export| export.connections.iter().any(|(who, _)| *who == tenant.name))
    };
    let concerns = |name: &str| {
        let is_here = domain.servers.iter().any(|server| server.name == name);
        is_here && (waits_for_volume || is_used(name))
    };
    let mut away = report.backends.iter().filter(|backend| !backend.up && concerns(&backend.name));
    away.find_map(|backend| Some((backend.name.clone(), backend.trouble.clone()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_report;

    fn cause(report: &GateReport, tenant: &str) -> Option<Cause> {
        let domain = &report.domains[0];
        let tenant = domain.tenants.iter().find(|one| one.name == tenant)?;
        of(report, domain, tenant).cause
    }

    #[test]
    fn what_the_gate_knows_stands_beside_what_the_engine_found() {
        let mut report = sample_report();
        assert_eq!(cause(&report, "alice"), Some(Cause::Memory), "two connections wait for it");
        assert_eq!(cause(&report, "bob"), None);
        report.refused_tenants = vec!["bob".to_owned()];
        assert_eq!(cause(&report, "bob"), Some(Cause::Connections));
        let backend = report.domains[0].servers[0].name.clone();
        report.failed =
            vec![FailureReport { tenant: "bob".to_owned(), backend, ..FailureReport::default() }];
        assert_eq!(cause(&report, "bob"), Some(Cause::Errors));
        report.failed[0].backend = "elsewhere".to_owned();
        report.backends[0].up = false;
        assert_eq!(cause(&report, "bob"), Some(Cause::Connections), "it may not be connected yet");
        report.backends[0].trouble = Some("connection refused".to_owned());
        assert_eq!(cause(&report, "bob"), Some(Cause::Upstream));
        assert_eq!(cause(&report, "default"), None, "it has no connections");
    }
}
