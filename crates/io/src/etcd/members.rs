//! Who is in an exchange, by etcd: each gate writes its name under a lease that it keeps alive, and
//! watches what the others write.
//!
//! ```text
//!   grant lease -> put own name under it -> read all names -> watch them
//!                     ^                                          |
//!                     +---- again, after a pause <--- any error -+
//! ```
//!
//! A gate that dies is off the list when its lease ends. As long as etcd is away the last list
//! holds. When it is back, names that were on it stay for another lease: their gates may need as
//! long to write them again.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::{
    Client, EventType, GetOptions, KeyValue, PutOptions, WatchOptions, WatchResponse,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::link::{Retry, connect, within};
use crate::exchange::ServerReport;

/// A gate that says nothing for so long is off the list.
const LEASE_S: i64 = 10;
const LEASE: Duration = Duration::from_secs(10);

/// Names that are kept; a list that is longer is cut.
const NAMES_MAX: usize = 4_096;

/// What to write where.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) servers: Vec<String>,
    pub(crate) exchange: String,
    pub(crate) own: String,
}

/// How the connection stands.
#[derive(Debug, Default)]
struct Link {
    is_connected: AtomicBool,
    connects: AtomicU64,
}

/// A gate's place on the list. Dropping it lets the lease end.
#[derive(Debug)]
pub(crate) struct Membership {
    servers: String,
    link: Arc<Link>,
    task: JoinHandle<()>,
}

impl Membership {
    /// Keeps this gate on the list, and tells the names of all whenever they change.
    pub(crate) fn start(registry: Registry, tell: UnboundedSender<BTreeSet<String>>) -> Self {
        let hosts = registry.servers.iter().map(|server| server.trim_start_matches("http://"));
        let servers = hosts.collect::<Vec<_>>().join(", ");
        let link = Arc::new(Link::default());
        let session = Session { registry, link: Arc::clone(&link), tell, known: BTreeSet::new() };
        Self { servers, link, task: tokio::task::spawn_local(live(session)) }
    }

    /// For people.
    pub(crate) fn report(&self) -> ServerReport {
        ServerReport {
            kind: "etcd",
            address: self.servers.clone(),
            is_connected: self.link.is_connected.load(Ordering::Relaxed),
            connects: self.link.connects.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn live(mut session: Session) {
    let mut retry = Retry::default();
    let mut was_told = false;
    while !session.tell.is_closed() {
        let Err(why) = session.run().await;
        if session.link.is_connected.swap(false, Ordering::Relaxed) {
            retry.worked();
            was_told = false;
        }
        let servers = session.registry.servers.join(", ");
        if std::mem::replace(&mut was_told, true) {
            tracing::debug!(servers, why, "still no etcd");
        } else {
            tracing::warn!(servers, why, "no etcd: the gates that were known last stay so");
        }
        tokio::time::sleep(retry.failed()).await;
    }
}

struct Session {
    registry: Registry,
    link: Arc<Link>,
    tell: UnboundedSender<BTreeSet<String>>,
    /// What was told last.
    known: BTreeSet<String>,
}

impl Session {
    /// One connection, from the lease to the first error.
    async fn run(&mut self) -> Result<Infallible, String> {
        let Registry { servers, exchange, own } = &self.registry;
        let prefix = format!("/evenkeel/{exchange}/members/");
        let own = format!("{prefix}{own}");
        let mut client = connect(servers).await?;
        let lease = within(client.lease_grant(LEASE_S, None)).await?.id();
        let under = PutOptions::new().with_lease(lease);
        within(client.put(own.as_str(), self.registry.own.as_str(), Some(under))).await?;
        let (mut keeper, mut kept) = within(client.lease_keep_alive(lease)).await?;
        let (mut names, revision) = read(&mut client, &prefix).await?;
        let from = WatchOptions::new().with_prefix().with_start_revision(revision + 1);
        let mut changes = within(client.watch(prefix.as_str(), Some(from))).await?;
        self.link.is_connected.store(true, Ordering::Relaxed);
        self.link.connects.fetch_add(1, Ordering::Relaxed);
        tracing::info!(gates = names.len(), "on the list of the exchange in etcd");
        // Who was there before may still have to come back.
        let mut settling = Some(Instant::now() + LEASE);
        let mut renew = interval(LEASE / 4);
        renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.tell(&names, settling.is_some());
            let settled = sleep_until(settling.unwrap_or_else(|| Instant::now() + LEASE));
            tokio::select! {
                change = changes.message() => {
                    note(&mut names, change.map_err(|error| error.to_string())?, &prefix)?;
                    if !names.contains(&self.registry.own) {
                        return Err("somebody took this gate off the list".to_owned());
                    }
                }
                answer = kept.message() => match answer.map_err(|error| error.to_string())? {
                    Some(answer) if answer.ttl() > 0 => {}
                    _ => return Err("the lease has ended".to_owned()),
                },
                _ = renew.tick() => within(keeper.keep_alive()).await?,
                () = settled => settling = None,
            }
        }
    }

    /// Tells the names if they are others than before.
    fn tell(&mut self, names: &BTreeSet<String>, is_settling: bool) {
        let mut now = names.clone();
        if is_settling {
            now.extend(self.known.iter().cloned());
        }
        if now != self.known {
            self.known.clone_from(&now);
            let _ = self.tell.send(now);
        }
    }
}

async fn read(client: &mut Client, prefix: &str) -> Result<(BTreeSet<String>, i64), String> {
    let limit = i64::try_from(NAMES_MAX).expect("a few thousand");
    let options = GetOptions::new().with_prefix().with_keys_only().with_limit(limit);
    let answer = within(client.get(prefix, Some(options))).await?;
    let revision = answer.header().ok_or("an answer without a revision")?.revision();
    let names = answer.kvs().iter().filter_map(|pair| name(pair, prefix));
    Ok((names.collect(), revision))
}

/// Takes what has changed into the names.
fn note(
    names: &mut BTreeSet<String>,
    change: Option<WatchResponse>,
    prefix: &str,
) -> Result<(), String> {
    let change = change.ok_or("the connection has ended")?;
    if change.canceled() {
        return Err(format!("the watch has ended: {}", change.cancel_reason()));
    }
    for event in change.events() {
        let Some(name) = event.kv().and_then(|pair| name(pair, prefix)) else { continue };
        match event.event_type() {
            EventType::Put if names.len() < NAMES_MAX => _ = names.insert(name),
            EventType::Put => {}
            EventType::Delete => _ = names.remove(&name),
        }
    }
    Ok(())
}

/// The gate that a key is of.
fn name(pair: &KeyValue, prefix: &str) -> Option<String> {
    let name = pair.key_str().ok()?.strip_prefix(prefix)?;
    (!name.is_empty()).then(|| name.to_owned())
}
