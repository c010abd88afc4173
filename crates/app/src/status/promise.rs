//! What the policy in force promises beside shares: floors, goals, and the disciplines that keep
//! them.

use std::collections::BTreeSet;

use evenkeel_engine::policy::{Backend, Discipline, Policy, Tenant};
use evenkeel_engine::report::ServerReport;
use serde::{Deserialize, Serialize};

/// What a tenant is promised beside its share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// Its floor in requests; zero for none.
    pub floor_iops: u64,
    /// Its floor in bytes; zero for none.
    pub floor_bytes_per_second: u64,
    /// The goal for its response time.
    pub latency_goal_seconds: Option<f64>,
    /// Whether nobody can tell yet if the storage has room for its floor: what requests take is
    /// left to the gate, which has seen too little load.
    #[serde(default)]
    pub is_floor_provisional: bool,
}

impl Promise {
    /// What the policy says of the tenant of this name; nothing if it no longer has it.
    pub(super) fn of(tenant: &str, policy: &Policy, is_proven: bool) -> Self {
        let Some(tenant) = policy.tenants.iter().find(|one| one.name == tenant) else {
            return Self::default();
        };
        let share = tenant.share;
        Self {
            floor_iops: share.floor.rate_iops,
            floor_bytes_per_second: share.floor.rate_bytes,
            latency_goal_seconds: tenant.has_goal().then(|| share.latency_goal.as_secs_f64()),
            is_floor_provisional: tenant.has_floor() && !is_proven,
        }
    }
}

/// The tenants whose floors, if there are any, can be held against what is written or was measured
/// of all these servers that they can come to.
pub(super) fn proven<'a>(servers: &[ServerReport], policy: &'a Policy) -> BTreeSet<&'a str> {
    if !policy.tenants.iter().any(Tenant::has_floor) {
        return BTreeSet::new();
    }
    let reach = policy.reach();
    let is_unproven = |(_, backend): &(usize, &Backend)| {
        // The cache of a store has costs of its own.
        let server = servers.iter().find(|server| server.name == backend.name);
        backend.scheduling.is_cost_learned
            && server.is_some_and(|server| !server.measured.is_some_and(|it| it.is_proven()))
    };
    let unproven = policy.backends.iter().enumerate().filter(is_unproven);
    let open: BTreeSet<usize> =
        unproven.flat_map(|(index, _)| reach.tenants(index)).copied().collect();
    let tenants = policy.tenants.iter().enumerate().filter(|(index, _)| !open.contains(index));
    tenants.map(|(_, tenant)| tenant.name.as_str()).collect()
}

/// The discipline that orders the requests of a server: for a tier, its volume's. Empty for one
/// that the policy no longer has.
pub(super) fn discipline(server: &ServerReport, policy: &Policy) -> &'static str {
    if server.is_shared {
        return Discipline::Shared.name();
    }
    let name = &server.name;
    let volume = policy.volume_of(name).filter(|volume| volume.volume().is_some());
    let orders = volume.or_else(|| policy.backend_of_server(name));
    orders.map_or("", |backend| backend.scheduling.discipline.name())
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;
    use evenkeel_engine::cost::Line;
    use evenkeel_engine::cost::measured::{Measured, MeasuredLine, PROVEN_AFTER};

    use super::*;
    use crate::testing::sample_policy;

    #[test]
    fn promises_are_those_of_the_policy_in_force() {
        let mut policy = sample_policy();
        policy.tenants[0].share.floor.rate_iops = 500;
        policy.tenants[1].share.latency_goal = Span::from_millis(10);
        let floor = Promise { floor_iops: 500, ..Promise::default() };
        assert_eq!(Promise::of("alice", &policy, true), floor);
        assert_eq!(Promise::of("bob", &policy, true).latency_goal_seconds, Some(0.01));
        assert_eq!(Promise::of("nobody", &policy, true), Promise::default());
        let server = |name: &str, is_shared| ServerReport {
            name: name.to_owned(),
            is_shared,
            ..ServerReport::default()
        };
        assert_eq!(discipline(&server("disk", false), &policy), "sfq");
        assert_eq!(discipline(&server("gone", false), &policy), "");
        assert_eq!(discipline(&server("disk", true), &policy), "shared", "with other gates now");
    }

    #[test]
    fn a_floor_is_provisional_until_enough_was_measured_where_its_tenant_can_come() {
        let mut policy = sample_policy();
        policy.tenants[0].share.floor.rate_iops = 500;
        let measured = |load| {
            let line = Line { fixed: Span::from_millis(1), rate_bytes: 1 << 30 };
            let side = MeasuredLine { line, size_bytes: Some(4096) };
            Measured { read: side, write: side, flush: Span::ZERO, at_once: 1, load }
        };
        let server = |name: &str, measured| ServerReport {
            name: name.to_owned(),
            measured,
            ..ServerReport::default()
        };
        let is_proven =
            |policy: &Policy, servers: &[ServerReport]| proven(servers, policy).contains("alice");
        policy.backends[0].scheduling.is_cost_learned = true;
        assert!(!is_proven(&policy, &[server("disk", None)]));
        let seconds = measured(Span::from_secs(5));
        assert!(!is_proven(&policy, &[server("disk", Some(seconds))]));
        let enough = server("disk", Some(measured(PROVEN_AFTER)));
        assert!(is_proven(&policy, &[enough, server("disk.cache", None)]), "that has its own");
        policy.backends[0].scheduling.is_cost_learned = false;
        assert!(is_proven(&policy, &[server("disk", None)]), "its cost is written");
    }
}
