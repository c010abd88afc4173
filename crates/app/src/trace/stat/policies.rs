//! The policies that the requests of a trace were served under.

use evenkeel_core::time::Span;
use evenkeel_engine::policy::Tenant;
use evenkeel_trace::codec::RecordedPolicy;
use evenkeel_trace::format::Format;
use serde_json::{Value, json};

use crate::config;
use crate::trace::input::TraceReader;
use crate::trace::policies::since;

/// Policies of the text; the document has all.
const SHOWN: usize = 8;

/// Tenants that are named in a line.
const TENANTS_SHOWN: usize = 4;

/// A line for each, for people. Formats that hold none have none.
pub(super) fn lines(trace: &TraceReader) -> String {
    let policies = trace.policies();
    if policies.is_empty() && trace.format() == Format::Native {
        return "policy      the trace tells none\n".to_owned();
    }
    let mut text = String::new();
    for (index, policy) in policies.iter().take(SHOWN).enumerate() {
        let head = if index == 0 { "policy" } else { "" };
        text += &format!("{head:12}from {} on: {}\n", since(policy.at), summary(policy));
    }
    let more = policies.len().saturating_sub(SHOWN);
    if more > 0 {
        text += &format!("{:12}and {more} more; --json tells them all\n", "");
    }
    text
}

/// All of them with their texts, for programs.
pub(super) fn document(policies: &[RecordedPolicy]) -> Value {
    let policies = policies.iter().map(|policy| {
        json!({
            "at_seconds": Span(policy.at.0).as_secs_f64(),
            "at_nanoseconds": policy.at.0,
            "summary": summary(policy),
            "text": policy.text,
        })
    });
    policies.collect()
}

/// The mode, and who shares how.
fn summary(policy: &RecordedPolicy) -> String {
    let Some(text) = &policy.text else { return "not known".to_owned() };
    let Ok(policy) = config::parse(text, "the policy") else {
        return format!("{} bytes that this program does not read as a policy", text.len());
    };
    let mode = config::mode_name(policy.mode);
    let tenant =
        |tenant: &Tenant| format!("{} {}", tenant.name, f64::from(tenant.share.weight_milli) / 1e3);
    let listed: Vec<String> = policy.tenants.iter().take(TENANTS_SHOWN).map(tenant).collect();
    let (listed, count) = (listed.join(", "), policy.tenants.len());
    match count {
        0 => format!("{mode}, no tenants"),
        1 => format!("{mode}, 1 tenant with share: {listed}"),
        2..=TENANTS_SHOWN => format!("{mode}, {count} tenants with shares: {listed}"),
        _ => {
            let others = count - TENANTS_SHOWN;
            format!("{mode}, {count} tenants with shares: {listed} and {others} more")
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Nanos;

    use super::*;
    use crate::testing::sample_policy;

    #[test]
    fn a_policy_is_summed_up_by_its_mode_and_its_tenants() {
        let told = |text: Option<String>| summary(&RecordedPolicy { at: Nanos(0), text });
        let mut policy = sample_policy();
        assert_eq!(
            told(Some(config::print(&policy))),
            "enforce, 2 tenants with shares: alice 3, bob 1"
        );
        let tenant = policy.tenants[0].clone();
        policy.tenants = ["a", "b", "c", "d", "e", "f"]
            .map(|name| Tenant { name: name.to_owned(), matches: Vec::new(), ..tenant.clone() })
            .to_vec();
        let text = config::print(&policy);
        assert_eq!(
            told(Some(text)),
            "enforce, 6 tenants with shares: a 3, b 3, c 3, d 3 and 2 more"
        );
        assert_eq!(told(None), "not known");
        let unread = "7 bytes that this program does not read as a policy";
        assert_eq!(told(Some("mode = ".to_owned())), unread);
    }
}
