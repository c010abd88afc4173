//! Words over a NATS server, in place of UDP: each gate publishes under its name by what a word is
//! about, and hears what it needs.
//!
//! ```text
//!   evenkeel.<exchange>.<device>.words.<shard>.<gate>     words of gates, by shard
//!   evenkeel.<exchange>.<device>.sums.<gate>              sums of a shard's words
//!   evenkeel.<exchange>.<device>.roster.<shard>.<gate>    who is in the sum of a shard
//!   evenkeel.<exchange>.<group>.served.<gate>             what is served of a group
//!   evenkeel.<exchange>.<gate>                            gates before version 4
//! ```
//!
//! A message is a datagram of the exchange, as over UDP. Devices and groups are numbers of eight
//! hexadecimal digits. Gates before version 4 are heard so that they can be named.
//!
//! What is not a letter, a digit, `-` or `_` in a name is written as `%` and its code, since dots
//! and blanks mean something to NATS. The gate's name in the subject is believed only as far as it
//! has the number that the tag vouches for.
//!
//! While the server is away nothing is published, so that nothing is kept for later: a word that is
//! late is worth nothing. The client tries again by itself, every five seconds at last.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, Message, ServerAddr, Subscriber};
use evenkeel_core::control::sums::SHARDS;
use evenkeel_engine::policy;
use futures_util::StreamExt;
use tokio::task::coop::unconstrained;

use super::report::ServerReport;
use super::transport::{Origin, Topic};
use crate::gate::GateError;

/// Between two tries to connect: doubled from the first of these to the second.
const RETRY_AFTER: Duration = Duration::from_millis(100);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

/// A server that does not answer for two of these is gone.
const PING_EVERY: Duration = Duration::from_secs(2);

/// For so long a server may take to accept.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// Words on their way to the server, and on their way from it to us. More are lost.
const OUT_MAX: usize = 1_024;
const IN_MAX: usize = 8_192;

/// Servers and subjects, read from a policy.
#[derive(Debug)]
pub(crate) struct Opening {
    servers: Vec<ServerAddr>,
    own: String,
    prefix: String,
}

impl Opening {
    pub(super) fn new(settings: &policy::Exchange, servers: &[String]) -> Result<Self, GateError> {
        let servers = servers.iter().map(|server| server.parse()).collect::<Result<_, _>>();
        let servers = servers.map_err(|error: io::Error| GateError {
            what: format!("the NATS servers of exchange {:?}", settings.name),
            why: format!("{error}; write them like nats://10.0.0.9:4222"),
        })?;
        let prefix = format!("evenkeel.{}.", token(&settings.name));
        Ok(Self { servers, own: settings.own.clone(), prefix })
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Nats {
    client: Client,
    /// What is heard now.
    heard: BTreeMap<Topic, Subscriber>,
    /// What is to be heard.
    wanted: BTreeSet<Topic>,
    /// The shard whose words come first the next time.
    turn: u32,
    prefix: String,
    /// This gate's name as the end of a subject.
    own: String,
    /// The servers without names and passwords, for people.
    shown: String,
    news: Arc<News>,
}

/// What became of the connection so far.
#[derive(Debug, Default)]
struct News {
    connects: AtomicU64,
    /// Whether it was said that there is no connection.
    was_told: AtomicBool,
    /// Whether it was said that words are lost here.
    was_slow: AtomicBool,
}

impl Nats {
    /// Begins to connect, which goes on behind.
    pub(super) async fn open(opening: Opening) -> io::Result<Self> {
        let Opening { servers, own, prefix } = opening;
        let address = |server: &ServerAddr| format!("{}:{}", server.host(), server.port());
        let shown = servers.iter().map(address).collect::<Vec<_>>().join(", ");
        let news = Arc::new(News::default());
        let (noting, server) = (Arc::clone(&news), shown.clone());
        let options = ConnectOptions::new()
            .name(format!("evenkeel {own}"))
            .no_echo()
            .retry_on_initial_connect()
            .connection_timeout(CONNECT_WITHIN)
            .ping_interval(PING_EVERY)
            .client_capacity(OUT_MAX)
            .subscription_capacity(IN_MAX)
            .reconnect_delay_callback(retry_after)
            .event_callback(move |event| {
                noting.note(&event, &server);
                std::future::ready(())
            });
        let client = options.connect(servers).await.map_err(io::Error::other)?;
        let (heard, wanted, own) = (BTreeMap::new(), BTreeSet::new(), token(&own));
        Ok(Self { client, heard, wanted, turn: 0, prefix, own, shown, news })
    }

    /// Hears these topics from now on, and no others.
    pub(super) fn hear(&mut self, topics: impl Iterator<Item = Topic>) {
        self.wanted = topics.chain([Topic::Former]).collect();
    }

    /// The next word, as far as the buffer takes it.
    pub(super) async fn receive(&mut self, buffer: &mut [u8]) -> (usize, Origin) {
        self.subscribe().await;
        let message = poll_fn(|context| self.poll_next(context)).await;
        let length = message.payload.len().min(buffer.len());
        buffer[..length].copy_from_slice(&message.payload[..length]);
        let name = message.subject.rsplit('.').next().unwrap_or_default();
        (length, Origin::Gate(name_of(name)))
    }

    /// Subscribes to what is to be heard, and to nothing else. Where it is given up on the way it
    /// goes on the next time.
    async fn subscribe(&mut self) {
        self.heard.retain(|topic, _| self.wanted.contains(topic));
        let is_missing = |topic: &&Topic| !self.heard.contains_key(topic);
        let missing: Vec<_> = self.wanted.iter().filter(is_missing).copied().collect();
        for topic in missing {
            let subject = match topic {
                Topic::Former => format!("{}*", self.prefix),
                Topic::Own(..) => format!("{}{}.{}", self.prefix, subject(topic), self.own),
                _ => format!("{}{}.*", self.prefix, subject(topic)),
            };
            match self.client.subscribe(subject).await {
                Ok(subscriber) => _ = self.heard.insert(topic, subscriber),
                // It ends with its client alone, which is ours.
                Err(error) => return tracing::debug!(%error, "not subscribed"),
            }
        }
    }

    /// Sums before words: there are few of them. The words of each shard in turn, so that the same
    /// are not always lost; and in the end what anybody may publish who reaches the server.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Message> {
        self.turn = (self.turn + 1) % SHARDS;
        let rank = |topic: &Topic| match topic {
            Topic::Words(_, shard) if shard.number() >= self.turn => 1,
            Topic::Words(..) => 2,
            Topic::Former => 3,
            _ => 0,
        };
        for now in 0..=3 {
            for (_, subscriber) in self.heard.iter_mut().filter(|(topic, _)| rank(topic) == now) {
                if let Poll::Ready(Some(message)) = subscriber.poll_next_unpin(context) {
                    return Poll::Ready(message);
                }
            }
        }
        Poll::Pending
    }

    /// Publishes a word if that can be done at once.
    pub(super) fn send(&self, bytes: &[u8], topic: Topic) -> bool {
        self.is_connected() && {
            let subject = format!("{}{}.{}", self.prefix, subject(topic), self.own);
            // Many go out at once: those beyond the budget of a task would be lost.
            let published = unconstrained(self.client.publish(subject, bytes.to_vec().into()));
            let published = pin!(published);
            let outcome = published.poll(&mut Context::from_waker(Waker::noop()));
            matches!(outcome, Poll::Ready(Ok(())))
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// For people.
    pub(super) fn report(&self) -> ServerReport {
        ServerReport {
            kind: "nats",
            address: self.shown.clone(),
            is_connected: self.is_connected(),
            connects: self.news.connects.load(Ordering::Relaxed),
        }
    }
}

impl News {
    fn note(&self, event: &Event, server: &str) {
        match event {
            Event::Connected => {
                self.connects.fetch_add(1, Ordering::Relaxed);
                self.was_told.store(false, Ordering::Relaxed);
                tracing::info!(server, "the exchange goes over NATS");
            }
            Event::ServerError(error) => tracing::warn!(server, %error, "NATS refuses"),
            Event::Disconnected | Event::ClientError(_) => {
                if self.was_told.swap(true, Ordering::Relaxed) {
                    tracing::debug!(server, %event, "still no NATS");
                } else {
                    tracing::warn!(server, %event, "no NATS: no other gate is heard without it");
                }
            }
            Event::SlowConsumer(_) => {
                if !self.was_slow.swap(true, Ordering::Relaxed) {
                    tracing::warn!(server, "more words come in than are read: some are lost");
                }
            }
            other => tracing::debug!(server, event = %other, "NATS"),
        }
    }
}

fn retry_after(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts).unwrap_or(u32::MAX).clamp(1, 16) - 1;
    RETRY_AFTER_MAX.min(RETRY_AFTER * (1 << doublings))
}

/// Between the exchange and the gate in a subject.
fn subject(topic: Topic) -> String {
    match topic {
        Topic::Sums(device) => format!("{:08x}.sums", device.0),
        Topic::Roster(device, shard) => format!("{:08x}.roster.{}", device.0, shard.number()),
        Topic::Served(group) => format!("{:08x}.served", group.0),
        Topic::Words(device, shard) | Topic::Own(device, shard) => {
            format!("{:08x}.words.{}", device.0, shard.number())
        }
        Topic::Former => String::new(),
    }
}

/// A name as a part of a subject.
fn token(name: &str) -> String {
    let mut token = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) {
            token.push(char::from(byte));
        } else {
            // Writing into a string does not fail.
            let _ = write!(token, "%{byte:02X}");
        }
    }
    token
}

/// The name that was written so; what nobody writes so gives some other name.
fn name_of(token: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = token.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_of_subjects_and_come_back() {
        assert_eq!(token("10.0.0.1:10900"), "10%2E0%2E0%2E1%3A10900");
        for name in ["gate-1", "10.0.0.1:10900", "a b*>", "K\u{f6}ln", "100%", ""] {
            let token = token(name);
            assert!(!token.contains(['.', '*', '>', ' ']), "{token}");
            assert_eq!(name_of(&token), name);
        }
        assert_eq!(name_of("%4"), "%4");
        assert_eq!(name_of("%zz%FF"), "%zz\u{fffd}");
    }

    #[test]
    fn tries_to_connect_get_rarer_and_go_on() {
        let waits: Vec<u64> = [0, 1, 2, 5, 100, usize::MAX]
            .map(|tries| u64::try_from(retry_after(tries).as_millis()).unwrap())
            .to_vec();
        assert_eq!(waits, [100, 100, 200, 1_600, 5_000, 5_000]);
    }
}
