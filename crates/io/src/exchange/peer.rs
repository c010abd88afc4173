//! The other gates: where they are, and what came of telling them and hearing them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use evenkeel_core::control::loss::Loss;
use evenkeel_core::control::peers::{Patience, Refusal};
use evenkeel_core::control::summary::HostId;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_wire::exchange::VERSION;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use super::report::PeerReport;

/// How often a peer's name is looked up again: it may have moved.
const LOOK_UP_EVERY: std::time::Duration = std::time::Duration::from_secs(30);

/// A name and what it leads to.
pub(super) type Found = (HostId, SocketAddr);

/// Why a gate's words do not count until somebody does something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its clock and ours differ.
    Clock,
    /// They are of an incarnation before the latest that is known.
    Former,
    /// They are of another version of the exchange.
    Version(u8),
    /// Its periods have another length, in milliseconds, than this gate's.
    Period(u32, u32),
}

impl Fault {
    /// What a refusal says of it, if anything: single words come late or twice on any network.
    fn of(skew: i64, refusal: Refusal) -> Option<Self> {
        let is_off = skew.unsigned_abs() > Patience::default().forgotten;
        match refusal {
            Refusal::Former => Some(Self::Former),
            Refusal::Ahead => Some(Self::Clock),
            Refusal::Stale => is_off.then_some(Self::Clock),
            Refusal::Stranger | Refusal::Absurd | Refusal::Crowded => None,
        }
    }

    /// For people.
    fn text(self, skew: i64) -> String {
        match self {
            Self::Clock => {
                let how = if skew > 0 { "ahead" } else { "behind" };
                let periods = skew.unsigned_abs();
                format!("its clock is {periods} periods {how}: set all clocks by one time server")
            }
            Self::Version(version) => format!(
                "it speaks version {version} of the exchange, this gate {VERSION}: upgrade all"
            ),
            Self::Period(other_ms, own_ms) => format!(
                "its periods take {other_ms} ms, those of this gate {own_ms} ms: use one `period` \
                 and one `control`"
            ),
            Self::Former => {
                "they are of a life before what was heard of it: it has lost its state \
                 folder after its clock was ahead, and is heard once it has proven that it speaks \
                 now; or two gates have its name"
                    .to_owned()
            }
        }
    }
}

/// Another gate.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) address: Option<SocketAddr>,
    /// When its word was last taken.
    heard: Option<Nanos>,
    /// When anything of it came in last that was made with the key.
    seen: Option<Nanos>,
    /// When a sum that it told was last taken.
    pub(super) summed: Option<Nanos>,
    /// By how many periods its clock was ahead at its last word.
    skew: i64,
    /// Why its words do not count, as far as somebody has to do something about it.
    fault: Option<Fault>,
    sent: u64,
    not_sent: u64,
    received: u64,
    refused: u64,
    pub(super) loss: Loss,
    look_up: Option<JoinHandle<()>>,
}

impl Peer {
    /// A peer of this name. Where words are sent to addresses, a name that is none is looked up
    /// from time to time, for whoever wants to know.
    pub(super) fn new(name: &str, found: Option<&UnboundedSender<Found>>) -> Self {
        let address: Option<SocketAddr> = found.and_then(|_| name.parse().ok());
        let look_up = found.filter(|_| address.is_none()).map(|found| {
            let (name, found) = (name.to_owned(), found.clone());
            tokio::task::spawn_local(look_up(name, found))
        });
        Self {
            name: name.to_owned(),
            address,
            heard: None,
            seen: None,
            summed: None,
            skew: 0,
            fault: None,
            sent: 0,
            not_sent: 0,
            received: 0,
            refused: 0,
            loss: Loss::default(),
            look_up,
        }
    }

    /// A datagram was given to the network, or it would not have it.
    pub(super) fn told(&mut self, is_sent: bool) {
        *if is_sent { &mut self.sent } else { &mut self.not_sent } += 1;
    }

    /// A word of it came in; `skew` is by how many periods it is ahead of this gate.
    pub(super) fn heard(&mut self, now: Nanos, skew: i64, outcome: Result<(), Refusal>) {
        self.received += 1;
        (self.skew, self.seen) = (skew, Some(now));
        let fault = match outcome {
            Ok(()) => {
                self.heard = Some(now);
                None
            }
            Err(refusal) => {
                self.refused += 1;
                Fault::of(skew, refusal).or(self.fault)
            }
        };
        self.say(fault);
    }

    /// From now on this is what is wrong with its words, if anything.
    fn say(&mut self, fault: Option<Fault>) {
        let before = std::mem::replace(&mut self.fault, fault);
        let (gate, skew) = (&self.name, self.skew);
        match fault.filter(|_| fault != before) {
            Some(fault) => tracing::warn!(gate, "its words do not count: {}", fault.text(skew)),
            None if fault.is_none() && before.is_some() => {
                tracing::info!(gate, "its words count again");
            }
            None => {}
        }
    }

    /// A word of it came in that this gate cannot use.
    pub(super) fn refuse(&mut self, now: Nanos, fault: Fault) {
        self.seen = Some(now);
        self.received += 1;
        self.refused += 1;
        self.say(Some(fault));
    }

    /// Time since its word was last taken; none if it never was.
    pub(super) fn silent_for(&self, now: Nanos) -> Option<Span> {
        self.heard.map(|at| Span(now.since(at).0))
    }

    /// Time since anything of it came in; none if nothing ever did.
    pub(super) fn unseen_for(&self, now: Nanos) -> Option<Span> {
        self.seen.map(|at| Span(now.since(at).0))
    }

    /// For people.
    pub(super) fn report(&self, now: Nanos) -> PeerReport {
        PeerReport {
            name: self.name.clone(),
            address: self.address.map(|address| address.to_string()),
            silent_for: self.silent_for(now),
            skew_periods: self.skew,
            refused_because: self.fault.map(|fault| fault.text(self.skew)),
            sent: self.sent,
            not_sent: self.not_sent,
            received: self.received,
            refused: self.refused,
            words: self.loss.last_minute(now),
            lost: self.loss.ever().lost,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_named_until_a_word_counts_again() {
        let mut peer = Peer::new("one", None);
        let mut because = |skew, outcome| {
            peer.heard(Nanos(1), skew, outcome);
            peer.report(Nanos(1)).refused_because
        };
        assert_eq!(because(0, Ok(())), None);
        assert_eq!(because(0, Err(Refusal::Stale)), None, "twice");
        let said = because(36_000, Err(Refusal::Ahead)).expect("a fault");
        assert!(said.starts_with("its clock is 36000 periods ahead"), "{said}");
        let said = because(-36_000, Err(Refusal::Stale)).expect("a fault");
        assert!(said.starts_with("its clock is 36000 periods behind"), "{said}");
        let said = because(0, Err(Refusal::Former)).expect("a fault");
        assert!(said.contains("two gates have its name"), "{said}");
        assert!(because(0, Err(Refusal::Absurd)).is_some(), "nothing has changed");
        assert_eq!(because(0, Ok(())), None);
        peer.refuse(Nanos(1), Fault::Version(2));
        let said = peer.report(Nanos(1)).refused_because.expect("a fault");
        assert!(said.starts_with("it speaks version 2 of the exchange, this gate 4"), "{said}");
    }
}
