//! The other gates: where they are, and what came of telling them and hearing them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use evenkeel_core::control::summary::HostId;
use evenkeel_core::time::{Nanos, Span};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use super::report::PeerReport;

/// How often a peer's name is looked up again: it may have moved.
const LOOK_UP_EVERY: std::time::Duration = std::time::Duration::from_secs(30);

/// A name and what it leads to.
pub(super) type Found = (HostId, SocketAddr);

/// Another gate.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) address: Option<SocketAddr>,
    /// When its word was last taken, and by how many periods its clock was ahead then.
    heard: Option<(Nanos, i64)>,
    sent: u64,
    not_sent: u64,
    received: u64,
    refused: u64,
    look_up: Option<JoinHandle<()>>,
}

impl Peer {
    /// A peer of this name. Where words are sent to addresses, a name that is none is looked up
    /// from time to time, for whoever wants to know.
    fn new(name: &str, found: Option<&UnboundedSender<Found>>) -> Self {
        let address: Option<SocketAddr> = found.and_then(|_| name.parse().ok());
        let look_up = found.filter(|_| address.is_none()).map(|found| {
            let (name, found) = (name.to_owned(), found.clone());
            tokio::task::spawn_local(look_up(name, found))
        });
        Self {
            name: name.to_owned(),
            address,
            heard: None,
            sent: 0,
            not_sent: 0,
            received: 0,
            refused: 0,
            look_up,
        }
    }

    /// A datagram was given to the network, or it would not have it.
    pub(super) fn told(&mut self, is_sent: bool) {
        *if is_sent { &mut self.sent } else { &mut self.not_sent } += 1;
    }

    /// A summary of it came in; `skew` is by how many periods it is ahead of this gate.
    pub(super) fn heard(&mut self, now: Nanos, skew: i64, is_taken: bool) {
        self.received += 1;
        self.refused += u64::from(!is_taken);
        let at = if is_taken { Some(now) } else { self.heard.map(|(at, _)| at) };
        self.heard = Some((at.unwrap_or(Nanos::ZERO), skew)).filter(|_| at.is_some());
    }

    /// Time since its word was last taken; none if it never was.
    pub(super) fn silent_for(&self, now: Nanos) -> Option<Span> {
        self.heard.map(|(at, _)| Span(now.since(at).0))
    }

    /// For people.
    pub(super) fn report(&self, now: Nanos) -> PeerReport {
        PeerReport {
            name: self.name.clone(),
            address: self.address.map(|address| address.to_string()),
            silent_for: self.silent_for(now),
            skew_periods: self.heard.map_or(0, |(_, skew)| skew),
            sent: self.sent,
            not_sent: self.not_sent,
            received: self.received,
            refused: self.refused,
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(look_up) = self.look_up.take() {
            look_up.abort();
        }
    }
}

/// The peers of these names; those that were there before stay as they are.
pub(super) fn peers<'a>(
    names: impl IntoIterator<Item = &'a str>,
    mut before: BTreeMap<HostId, Peer>,
    found: Option<&UnboundedSender<Found>>,
) -> BTreeMap<HostId, Peer> {
    let peer = |name| {
        let host = HostId::named(name);
        (host, before.remove(&host).unwrap_or_else(|| Peer::new(name, found)))
    };
    names.into_iter().map(peer).collect()
}

async fn look_up(name: String, found: UnboundedSender<Found>) {
    loop {
        match tokio::net::lookup_host(&name).await {
            Ok(mut addresses) => {
                if let Some(address) = addresses.next() {
                    let _ = found.send((HostId::named(&name), address));
                }
            }
            Err(error) => tracing::warn!(peer = name, %error, "a peer's name leads nowhere"),
        }
        tokio::time::sleep(LOOK_UP_EVERY).await;
    }
}
