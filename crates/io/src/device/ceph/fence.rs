//! Former owners are refused by the OSDs: the right to that, the entries, and their renewal.
//!
//! ```text
//! open: may this user? -> lock -> head -> whoever did not let go: entry -> data
//! then: the cluster's list every 8 s --gone, changed by others, or 6 h old--> entry again
//! ```
//!
//! A lock that ends by itself cannot stop what its holder had already handed to its library, which
//! sends it again by itself, and in a suspended machine does so whenever that wakes up. Nobody can
//! know that an address is silent for good. So an entry outlives a holder by [`LIFE`], whoever
//! holds the volume renews it, and the head passes it on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy;

use super::guarded::{Connection, Guarded, GuardedError};
use super::rights::remedy;
use crate::clock::since_boot;
use crate::rados::{Cluster, RadosError, Whom};

/// How long an entry lasts without being renewed: for how long nobody may hold the volume while a
/// former owner sleeps.
const LIFE: Duration = Duration::from_hours(7 * 24);

/// How long one lasts that nobody will renew, as there are too many.
const LIFE_FOR_GOOD: Duration = Duration::from_hours(10 * 365 * 24);

/// Between two renewals.
const RENEW_EVERY: Span = Span::from_secs(6 * 3600);

/// An address for documents (RFC 5737), which nobody has.
const NOBODY: &str = "192.0.2.1:0/1";

/// Makes sure that the user may have addresses refused.
///
/// # Errors
/// What is missing and how to get it, or what the monitors said.
pub(super) async fn try_right(
    connection: &Connection,
    source: &policy::Ceph,
) -> Result<(), String> {
    let adding = connection.ask(|cluster| add(cluster, NOBODY, Duration::from_secs(1)));
    adding.await.map_err(|error| told(&error, source))
}

/// Why nobody can be shut out, with what to do about it.
fn told(error: &RadosError, source: &policy::Ceph) -> String {
    let user = &source.user;
    if !error.is_forbidden() {
        return format!("a gate that had the volume before cannot be shut out: {error}");
    }
    format!(
        "client.{user} may not shut out a gate that had the volume before ({error}); give it that \
         right with `{}`, or do without, by `fence = \"none\"` in the policy",
        remedy(source)
    )
}

/// Has the OSDs refuse whatever else comes from addresses. They know of it before they serve
/// anything that we ask from then on.
///
/// # Errors
/// If the volume is not ours any more, or why they cannot be shut out.
pub(super) async fn shut_out(
    guarded: &Guarded,
    source: &policy::Ceph,
    addresses: Vec<String>,
    for_good: Option<String>,
) -> Result<(), String> {
    let ordered = guarded.order(move |cluster| {
        for address in &addresses {
            add(cluster, address, LIFE)?;
        }
        if let Some(address) = &for_good {
            add(cluster, address, LIFE_FOR_GOOD)?;
        }
        cluster.wait_for_latest_map()
    });
    ordered.await.map_err(|error| match error {
        GuardedError::Cluster(error) => told(&error, source),
        GuardedError::NotHeld => error.to_string(),
    })
}

fn add(cluster: &Cluster, address: &str, life: Duration) -> Result<(), RadosError> {
    let command = serde_json::json!({
        "prefix": "osd blocklist", "blocklistop": "add", "addr": address,
        "expire": life.as_secs_f64(),
    });
    cluster.command(Whom::Monitor, &command.to_string()).map(drop)
}

/// The entries that an owner keeps alive.
#[derive(Debug)]
pub(super) struct Entries {
    former: Vec<String>,
    /// When the last renewal of all of them was.
    renewed_at: Option<Nanos>,
    /// When each ends, as the cluster said after we made it.
    ends: BTreeMap<String, String>,
}

impl Entries {
    /// Entries for these addresses, made by whomever.
    pub(super) fn new(former: Vec<String>) -> Self {
        Self { former, renewed_at: None, ends: BTreeMap::new() }
    }

    /// Those to be made now, where these are in the cluster's list.
    pub(super) fn due(&mut self, listed: &BTreeMap<String, String>, now: Nanos) -> Vec<String> {
        let is_old = self.renewed_at.is_none_or(|at| now.since(at) >= RENEW_EVERY);
        let ends = &mut self.ends;
        let is_due = |address: &&String| match (listed.get(*address), ends.get(*address)) {
            // The clocks of the cluster are not ours: what matters is that nobody else changed it.
            (Some(end), Some(known)) => is_old || end != known,
            (Some(end), None) => {
                ends.insert((*address).clone(), end.clone());
                is_old
            }
            (None, _) => true,
        };
        self.former.iter().filter(is_due).cloned().collect()
    }

    /// These were made anew.
    pub(super) fn renewed(&mut self, made: &[String], now: Nanos) {
        let made: BTreeSet<&String> = made.iter().collect();
        self.ends.retain(|address, _| !made.contains(address));
        if made.len() == self.former.len() {
            self.renewed_at = Some(now);
        }
    }

    /// Renews what is due, now that the cluster's list is known.
    ///
    /// # Errors
    /// Why former owners may soon not be shut out any more.
    pub(super) async fn keep(
        entries: &std::cell::RefCell<Self>,
        listed: &BTreeMap<String, String>,
        guarded: &Guarded,
        source: &policy::Ceph,
    ) -> Result<Vec<String>, String> {
        let due = entries.borrow_mut().due(listed, since_boot());
        if due.is_empty() {
            return Ok(due);
        }
        shut_out(guarded, source, due.clone(), None).await?;
        entries.borrow_mut().renewed(&due, since_boot());
        Ok(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|&(address, end)| (address.to_owned(), end.to_owned())).collect()
    }

    #[test]
    fn an_entry_is_made_anew_when_it_is_gone_or_old_or_somebody_has_changed_it() {
        let mut entries = Entries::new(vec!["a".to_owned(), "b".to_owned()]);
        let both = ["a".to_owned(), "b".to_owned()];
        let list = listed(&[("a", "monday"), ("b", "monday"), ("c", "tuesday")]);
        assert_eq!(entries.due(&list, Nanos(0)), both, "who knows how old they are");
        entries.renewed(&both, Nanos(0));
        let list = listed(&[("a", "friday"), ("b", "friday")]);
        assert!(entries.due(&list, Nanos(1)).is_empty());
        assert!(entries.due(&list, Nanos(2)).is_empty());
        assert_eq!(entries.due(&listed(&[("a", "friday")]), Nanos(3)), ["b"], "it is gone");
        entries.renewed(&both[1..], Nanos(3));
        let list = listed(&[("a", "today"), ("b", "saturday")]);
        assert_eq!(entries.due(&list, Nanos(4)), ["a"], "somebody has changed it");
        entries.renewed(&both[..1], Nanos(4));
        let list = listed(&[("a", "saturday"), ("b", "saturday")]);
        assert!(entries.due(&list, Nanos(5)).is_empty());
        assert_eq!(entries.due(&list, Nanos(RENEW_EVERY.0)), both, "they are old");
    }
}
