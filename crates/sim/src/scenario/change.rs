//! Policies that replace the first while a scenario runs.
//!
//! Shares, limits, floors, goals, modes, depths and costs may change, and tenants may come and go;
//! where bytes lie may not.

use evenkeel_core::sched::Share;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Policy, Tenant};

use super::check::{check_policy, fault};
use super::{Scenario, ScenarioFault};

/// A policy that comes into force while a scenario runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyChange {
    /// When, warm-up included.
    pub at: Span,
    /// The whole policy.
    pub policy: Policy,
}

impl Scenario {
    /// The first policy, with every tenant that comes later at a plain share: all have their rows
    /// in the books from the start.
    pub(crate) fn opening_policy(&self) -> Policy {
        let mut policy = self.policy.clone();
        for tenant in self.changes.iter().flat_map(|change| &change.policy.tenants) {
            if policy.tenants.iter().all(|known| known.name != tenant.name) {
                let (name, share) = (tenant.name.clone(), Share::default());
                policy.tenants.push(Tenant { read_only: false, name, matches: Vec::new(), share });
            }
        }
        policy
    }

    /// Makes the measured time so long at most; changes of the policy keep their place in it.
    pub fn shorten(&mut self, length: Span) {
        let before = self.length;
        if length >= before {
            return;
        }
        self.length = length;
        for change in &mut self.changes {
            let within = change.at.0.saturating_sub(self.warm_up.0);
            let scaled = u128::from(within) * u128::from(length.0) / u128::from(before.0);
            let scaled = u64::try_from(scaled).expect("shorter than before");
            change.at = Span(change.at.0.min(self.warm_up.0) + scaled);
        }
    }

    pub(super) fn check_changes(&self) -> Result<(), ScenarioFault> {
        let mut last = Span::ZERO;
        for (number, change) in (1..).zip(&self.changes) {
            let place = format!("policy change {number}");
            if change.at < last {
                return fault(place, "it comes before the change above it; sort them by time");
            }
            last = change.at;
            check_policy(&change.policy, &place)?;
            if !self.keeps_storage(&change.policy) {
                let what = "its backends, groups, volumes and exports are not those of the first \
                            policy; only what is promised and how it is scheduled can change here";
                return fault(place, what);
            }
        }
        Ok(())
    }

    /// Whether bytes lie where the first policy has them.
    fn keeps_storage(&self, policy: &Policy) -> bool {
        let domains = |policy: &Policy| {
            let named = policy.domains().into_iter().map(|(name, members)| {
                let members = members.into_iter().map(|index| policy.backends[index].name.clone());
                (name, members.collect::<Vec<_>>())
            });
            let mut named: Vec<_> = named.collect();
            named.sort();
            named
        };
        let exports = |policy: &Policy| {
            let exports = policy.exports.iter().map(|export| {
                let range = (export.offset_bytes, export.size_bytes);
                (export.name.clone(), export.backend.clone(), range)
            });
            let mut exports: Vec<_> = exports.collect();
            exports.sort();
            exports
        };
        domains(policy) == domains(&self.policy) && exports(policy) == exports(&self.policy)
    }
}
