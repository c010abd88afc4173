//! What the user of a gate may not do: each right is tried by something that has no effect, once
//! the cluster has forbidden something. Ceph itself says "operation not permitted" to all of it.

use evenkeel_engine::policy;
use evenkeel_engine::pooled::head_name;

use super::guarded::{Connection, Lock};
use crate::rados::{Cluster, RadosError, Whom};

/// What has no object, and no lock.
const NOBODY: &str = "evenkeel-tries-its-rights";

/// The rights that the user lacks, with the way to give them; none if it has all of them.
pub(super) async fn lacking(connection: &Connection, source: &policy::Ceph) -> Option<String> {
    let mut lacking: Vec<&str> = Vec::new();
    let mut note = |right, outcome: Result<(), RadosError>| {
        if outcome.is_err_and(|error| error.is_forbidden()) {
            lacking.push(right);
        }
    };
    let head = head_name(&source.volume);
    let object = format!("{}.{NOBODY}", source.volume);
    let lock = Lock { object: object.clone(), cookie: NOBODY.to_owned(), told: String::new() };
    let maps = |cluster: &Cluster| {
        cluster.command(Whom::Monitor, r#"{"prefix":"osd dump","format":"json"}"#).map(drop)
    };
    note("`mon` `r`", connection.ask(maps).await);
    note("`mgr` `r`", connection.ask(|cluster| cluster.osd_uses().map(drop)).await);
    note("`osd` `r`", connection.look(&head).await.map(drop));
    note("`osd` `w`", connection.remove(&object).await);
    note("`osd` `class-read`", connection.locker(&lock).await.map(drop));
    note("`osd` `class-write`", connection.unlock(&lock).await);
    (!lacking.is_empty()).then(|| told(&lacking, source))
}

fn told(lacking: &[&str], source: &policy::Ceph) -> String {
    let policy::Ceph { user, pool, .. } = source;
    let lacking = lacking.join(", ");
    let remedy = remedy(source);
    format!(
        "client.{user} lacks {lacking} for pool {pool:?}; give it what a gate needs with `{remedy}`"
    )
}

/// The command that gives a user all that a gate needs.
pub(super) fn remedy(source: &policy::Ceph) -> String {
    let policy::Ceph { user, pool, .. } = source;
    format!(
        "ceph auth caps client.{user} mon 'profile rbd' mgr 'allow r' osd 'profile rbd pool={pool}'"
    )
}
