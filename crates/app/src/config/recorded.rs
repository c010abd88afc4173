//! A policy as a recording keeps it: a file that means the same, without secrets.
//!
//! A policy names the files that hold keys, which is no secret. The name and the password within
//! the address of a server are, as in `nats://gate:secret@10.0.0.9:4222`, and so may be the words
//! of a fence: those are left out.

use evenkeel_engine::policy::{Meeting, Policy};

use super::{absolute, print};

/// The text of a policy for a recording. Paths are absolute. It reads back as the same policy, but
/// for names and passwords of servers, and fences.
pub fn recorded(policy: &Policy) -> String {
    let mut policy = policy.clone();
    absolute(&mut policy);
    match policy.exchange.as_mut().map(|exchange| &mut exchange.meeting) {
        Some(Meeting::Nats { servers } | Meeting::Etcd { servers, .. }) => {
            for server in servers {
                *server = without_secret(server);
            }
        }
        Some(Meeting::Listed { .. }) | None => {}
    }
    for backend in &mut policy.backends {
        if let Some(takeover) = backend.source.takeover_mut() {
            takeover.fence.clear();
        }
    }
    print(&policy)
}

/// The URI of a server without what stands before its host. Everything before the last `@` goes: a
/// password may hold any character.
fn without_secret(uri: &str) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    match rest.rsplit_once('@') {
        None => uri.to_owned(),
        Some((_, host)) if scheme.is_empty() => host.to_owned(),
        Some((_, host)) => format!("{scheme}://{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DEFAULT, parse};
    use super::*;
    use crate::testing::sample_policy;

    #[test]
    fn a_recorded_policy_reads_back_as_the_same() {
        for policy in [parse(DEFAULT, "default").unwrap(), sample_policy()] {
            let mut expected = policy.clone();
            absolute(&mut expected);
            assert_eq!(parse(&recorded(&policy), "recorded"), Ok(expected));
        }
    }

    #[test]
    fn a_recording_holds_no_fence_of_either_kind_of_volume() {
        for kind in ["tiers", "choices"] {
            let text = format!(
                "listen = [\"127.0.0.1:10809\"]\n[[backend]]\nname = \"a\"\nmemory = true\n\
                 [[backend]]\nname = \"b\"\nmemory = true\n[[backend]]\nname = \"v\"\n\
                 {kind} = [{{ backend = \"a\", size = \"2 GiB\" }}, \
                 {{ backend = \"b\", size = \"1 GiB\" }}]\n\
                 fence = [\"/bin/off\", \"hunter2\"]\nlate = \"7 s\"\n\
                 [[export]]\nname = \"disk\"\nbackend = \"v\"\n"
            );
            let mut policy = parse(&text, "p").unwrap_or_else(|found| panic!("{found}"));
            let text = recorded(&policy);
            assert!(!text.contains("fence") && text.contains("late = \"7 s\""), "{text}");
            policy.backends[2].source.takeover_mut().unwrap().fence.clear();
            assert_eq!(parse(&text, "recorded"), Ok(policy));
        }
    }

    #[test]
    fn a_recording_holds_no_password() {
        let mut policy = sample_policy();
        let servers = [
            "nats://gate:hunter2@10.0.0.9:4222",
            "tls://a:hunter2/@b@host:4222",
            "hunter2@10.0.0.9:4222",
            "nats://10.0.0.8:4222",
        ];
        policy.exchange = Some(evenkeel_engine::policy::Exchange {
            name: "site".to_owned(),
            own: "one".to_owned(),
            meeting: Meeting::Nats { servers: servers.map(str::to_owned).to_vec() },
            key: "exchange.key".into(),
            period: evenkeel_core::time::Span::from_millis(200),
            record: None,
        });
        let text = recorded(&policy);
        assert!(!text.contains("hunter2"), "{text}");
        let expected = "nats = [\"nats://10.0.0.9:4222\", \"tls://host:4222\", \"10.0.0.9:4222\", \
                        \"nats://10.0.0.8:4222\"]";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("/exchange.key\""), "the place of the key is no secret");
    }
}
