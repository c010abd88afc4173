//! What the policy in force promises beside shares: floors, goals, and the disciplines that keep
//! them.

use evenkeel_engine::policy::Policy;
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

/// Whether floors can be held against what is written or was measured of all these servers.
pub(super) fn is_proven(servers: &[ServerReport], policy: &Policy) -> bool {
    let is_unproven = |server: &&ServerReport| {
        let backend = policy.backend_of_server(&server.name);
        backend.is_some_and(|backend| backend.scheduling.is_cost_learned)
            && !server.measured.is_some_and(|measured| measured.is_proven())
    };
    !servers.iter().any(|server| is_unproven(&server))
}

/// The discipline that orders the requests of a server: for a tier, its volume's. Empty for one
/// that the policy no longer has.
pub(super) fn discipline(server: &str, policy: &Policy) -> &'static str {
    let volume = policy.volume_of(server).filter(|volume| volume.volume().is_some());
    let orders = volume.or_else(|| policy.backend_of_server(server));
    orders.map_or("", |backend| backend.scheduling.discipline.name())
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;

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
        assert_eq!(discipline("disk", &policy), "sfq");
        assert_eq!(discipline("gone", &policy), "");
    }
}
