//! What is proposed: the policy that was only looked with, enforced.

use std::collections::BTreeSet;

use evenkeel_core::sched::Share;
use evenkeel_engine::policy::{DEFAULT_TENANT, Match, Mode, Policy, Tenant};
use similar::{ChangeTag, TextDiff};

use super::observed::Observed;
use crate::config;

/// A policy, and what it changes.
pub(super) struct Proposal {
    pub(super) policy: Policy,
    /// Why, for people.
    pub(super) reasons: Vec<String>,
}

impl Proposal {
    /// The policy of the recording, enforced. Where it has no tenants, each export is one.
    pub(super) fn new(observed: &Observed) -> Self {
        let mut policy = Policy { mode: Mode::Enforce, ..observed.policy.clone() };
        let mut reasons = vec!["mode: what the policy promises holds".to_owned()];
        if policy.tenants.is_empty() {
            policy.tenants = exports(observed).into_iter().map(tenant).collect();
            if !policy.tenants.is_empty() {
                reasons.push(
                    "tenants: the policy has none, so that each export becomes one, with equal \
                     shares"
                        .to_owned(),
                );
            }
        }
        Self { policy, reasons }
    }

    /// This one.
    pub(super) fn given(policy: Policy) -> Self {
        Self { policy, reasons: Vec::new() }
    }

    /// The lines in which it differs from the present one, each with `+` or `-` before it.
    pub(super) fn difference(&self, present: &Policy) -> Vec<String> {
        // Both as they are printed, so that comments and order are no difference.
        let [old, new] = [present, &self.policy].map(config::recorded);
        let difference = TextDiff::from_lines(&old, &new);
        let changed = difference.iter_all_changes().filter_map(|change| {
            let sign = match change.tag() {
                ChangeTag::Insert => '+',
                ChangeTag::Delete => '-',
                ChangeTag::Equal => return None,
            };
            Some(format!("{sign} {}", change.value().trim_end()))
        });
        changed.filter(|line| line.len() > 2).collect()
    }
}

/// The exports that were used, by their names, each once.
fn exports(observed: &Observed) -> BTreeSet<&str> {
    let policy = &observed.policy;
    let names = observed.sources.names().iter();
    let used = names.filter_map(|name| name.split_once('/')).map(|(_, export)| export);
    let is_there = |name: &&str| {
        policy.exports.is_empty() || policy.exports.iter().any(|export| export.name == *name)
    };
    // These names are taken, and an export may have no name.
    let is_free = |name: &&str| {
        !name.is_empty() && *name != DEFAULT_TENANT && policy.own_tenants().all(|own| own != *name)
    };
    used.filter(is_there).filter(is_free).collect()
}

fn tenant(export: &str) -> Tenant {
    Tenant {
        name: export.to_owned(),
        matches: vec![Match::Export(export.to_owned())],
        read_only: false,
        share: Share::default(),
    }
}
