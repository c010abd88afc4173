//! What the forecast is compared with: the policy in force now, simulated on the same storage.
//!
//! It comes from `--present`, or from the trace, if a gate recorded it: such a trace opens with the
//! policy in force and repeats it at each change. Without either there is nothing to compare with.
//! The response times of a trace are shown, but no verdict is built on them: they are of another
//! storage than the model.

use std::path::Path;

use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::Policy;
use evenkeel_sim::result::Summary;
use evenkeel_sim::scenario::PolicyChange;
use evenkeel_trace::codec::RecordedPolicy;
use serde::Serialize;

use super::backend::Models;
use super::replay::Replay;
use super::route::Routes;
use crate::config;
use crate::exit::Exit;
use crate::simulate::file::load_policy;

/// What the present figures are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Basis {
    /// The trace under the policy of `--present`, on the same model.
    PresentPolicy,
    /// The trace under the policy that it was recorded under, on the same model.
    RecordedPolicy,
    /// There is nothing to compare with.
    Nothing,
}

/// The policy in force now, and those that replaced it while the trace was recorded.
#[derive(Clone, Debug)]
pub(super) struct Present {
    pub(super) basis: Basis,
    pub(super) policy: Policy,
    pub(super) changes: Vec<PolicyChange>,
}

/// The trace under the present policy, or why that could not be had.
#[derive(Debug)]
pub(super) struct Past {
    pub(super) basis: Basis,
    pub(super) summary: Option<Summary>,
    /// Why there is none, for people.
    pub(super) why_not: Option<String>,
}

impl Present {
    /// The policy of `--present`.
    ///
    /// # Errors
    /// [`Exit::Invalid`] if it has mistakes.
    pub(super) fn of_file(path: &Path) -> anyhow::Result<Self> {
        let policy = load_policy(path)?;
        Ok(Self { basis: Basis::PresentPolicy, policy, changes: Vec::new() })
    }

    /// The policies of a trace, replayed so many times as fast; an error says why they are of no
    /// use.
    pub(super) fn of_trace(recorded: &[RecordedPolicy], speed: f64) -> Result<Self, String> {
        let mut policies = Vec::new();
        for one in recorded {
            let text = one.text.as_ref().ok_or_else(|| {
                format!("the trace lost its policy at {}", crate::human::duration(span(one.at)))
            })?;
            let policy = config::parse(text, "the policy in the trace")
                .map_err(|error| format!("the policy in the trace cannot be read ({error})"))?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates"
            )]
            let at = Span((one.at.0 as f64 / speed) as u64);
            policies.push(PolicyChange { at, policy });
        }
        let mut policies = policies.into_iter();
        let first = policies.next().ok_or("the trace has no policy in it")?;
        let changes = policies.collect();
        Ok(Self { basis: Basis::RecordedPolicy, policy: first.policy, changes })
    }

    /// The policy by which requests find their tenants, with those who came later.
    fn routing(&self) -> Policy {
        let mut policy = self.policy.clone();
        for tenant in self.changes.iter().flat_map(|change| &change.policy.tenants) {
            if !policy.has_tenant(&tenant.name) {
                policy.tenants.push(tenant.clone());
            }
        }
        policy
    }

    /// Replays the trace under it. `maps` are those of `--map`, which are about the policy to try;
    /// a gate's own recording needs none.
    ///
    /// # Errors
    /// What [`Replay::run`] says of a policy that the user gave. One from the trace that cannot be
    /// simulated is no error.
    pub(super) fn run(
        &self,
        replay: &Replay<'_>,
        models: &Models,
        maps: &[String],
    ) -> anyhow::Result<Past> {
        let routing = self.routing();
        let simulated = || {
            let devices = models.devices(&self.policy)?;
            let maps = if self.basis == Basis::PresentPolicy { maps } else { &[] };
            let routes = Routes::new(&routing, maps)?;
            replay.run((&self.policy, &self.changes), &devices, &routes)
        };
        match simulated() {
            Ok(summary) => Ok(Past { basis: self.basis, summary: Some(summary), why_not: None }),
            Err(error) if self.basis == Basis::RecordedPolicy && is_about_the_policy(&error) => {
                Ok(Past::nothing(format!("the policy in the trace cannot be simulated: {error:#}")))
            }
            Err(error) => Err(error),
        }
    }
}

impl Past {
    /// There is nothing to compare with.
    pub(super) fn nothing(why: String) -> Self {
        Self { basis: Basis::Nothing, summary: None, why_not: Some(why) }
    }

    /// What it is, for people.
    pub(super) fn words(&self) -> String {
        match (self.basis, &self.why_not) {
            (Basis::PresentPolicy, _) => {
                "the policy of --present, simulated on the same storage".to_owned()
            }
            (Basis::RecordedPolicy, _) => {
                "the policy in the trace, simulated on the same storage".to_owned()
            }
            (Basis::Nothing, why) => format!(
                "nothing to compare with: {}; give the policy in force with --present POLICY",
                why.as_deref().unwrap_or("there is no policy")
            ),
        }
    }
}

fn is_about_the_policy(error: &anyhow::Error) -> bool {
    matches!(Exit::of(error), Exit::Invalid | Exit::Usage)
}

fn span(at: Nanos) -> Span {
    at.since(Nanos::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(policies: &[(u64, Option<&str>)]) -> Vec<RecordedPolicy> {
        let one = |&(at_ns, share): &(u64, Option<&str>)| RecordedPolicy {
            at: Nanos(at_ns),
            text: share.map(|share| {
                format!(
                    "listen = [\"unix:s\"]\n[[backend]]\nname = \"m\"\nmemory = true\n\
                     [[export]]\nname = \"a\"\nsize = \"1 MiB\"\n\
                     [[tenant]]\nname = \"a\"\nmatch = {{ export = \"a\" }}\nshare = {share}\n"
                )
            }),
        };
        policies.iter().map(one).collect()
    }

    #[test]
    fn the_policies_of_a_trace_keep_their_instants_at_the_speed_of_the_replay() {
        let present = Present::of_trace(&recorded(&[(0, Some("1")), (800, Some("4"))]), 2.0);
        let present = present.expect("two policies");
        assert_eq!(present.policy.tenants[0].share.weight_milli, 1000);
        let [change] = &present.changes[..] else { panic!("one change") };
        assert_eq!((change.at, change.policy.tenants[0].share.weight_milli), (Span(400), 4000));
    }

    #[test]
    fn a_trace_without_a_policy_or_with_a_lost_one_says_why_nothing_is_compared() {
        let why = |policies: &[(u64, Option<&str>)]| {
            Present::of_trace(&recorded(policies), 1.0).expect_err("there is none")
        };
        assert_eq!(why(&[]), "the trace has no policy in it");
        let lost = why(&[(0, Some("1")), (5_000_000, None)]);
        assert_eq!(lost, "the trace lost its policy at 5 ms");
        let words = Past::nothing(lost).words();
        assert!(words.ends_with("give the policy in force with --present POLICY"), "{words}");
    }
}
