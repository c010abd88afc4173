//! What carries words between gates: UDP from each to every other, or a server that passes them on.
//!
//! Neither is trusted with more than the other: what comes in counts by its tag. Neither is waited
//! for: a word that cannot go out at once is lost.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};

use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::summary::HostId;
use evenkeel_core::control::sums::Shard;
use evenkeel_engine::policy::{self, Meeting};
use evenkeel_wire::exchange::DATAGRAM_BYTES_MAX;
use socket2::SockRef;
use tokio::net::UdpSocket;

#[cfg(feature = "nats")]
use super::nats::{self, Nats};
use super::peer::Peer;
use super::report::{Room, ServerReport};
use crate::built::Feature;
use crate::gate::GateError;

/// What a part of a word takes in the socket: a packet, as a rule.
const PART_BYTES: usize = 1_500;

/// What is needed to carry words, prepared so far that it cannot fail.
#[derive(Debug)]
pub(crate) enum Opening {
    /// A socket of UDP.
    Udp(StdSocket),
    /// Servers of NATS.
    #[cfg(feature = "nats")]
    Nats(Box<nats::Opening>),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) enum Transport {
    Udp(UdpSocket),
    #[cfg(feature = "nats")]
    Nats(Box<Nats>),
}

/// What a datagram is about, and so who hears it where a server passes them on. In the order in
/// which they are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// Sums of the words on a device.
    Sums(DeviceId),
    /// Who is in the sum of a shard.
    Roster(DeviceId, Shard),
    /// What is served of a group.
    Served(DeviceId),
    /// Words on a device under the name of this gate, which is in this shard.
    Own(DeviceId, Shard),
    /// Words on a device, of the gates of a shard.
    Words(DeviceId, Shard),
    /// Whatever gates before version 4 say.
    Former,
}

/// Where a word came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// This address.
    Address(SocketAddr),
    /// Whoever published it under the name of this gate.
    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "no server passes words on"))]
    Gate(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Gate(name) => name.fmt(f),
        }
    }
}

impl Opening {
    /// Binds the socket, or reads where the servers are.
    ///
    /// # Errors
    /// If the address is not free, or what was built cannot do it.
    pub(super) fn prepare(settings: &policy::Exchange) -> Result<Self, GateError> {
        let required = match &settings.meeting {
            Meeting::Listed { .. } => Ok(()),
            Meeting::Etcd { .. } => Feature::Etcd.require(),
            Meeting::Nats { .. } => Feature::Nats.require(),
        };
        let what = || format!("exchange {:?}", settings.name);
        required.map_err(|why| GateError { what: what(), why })?;
        match &settings.meeting {
            Meeting::Listed { listen, .. } | Meeting::Etcd { listen, .. } => {
                bind(&settings.name, listen).map(Self::Udp)
            }
            #[cfg(feature = "nats")]
            Meeting::Nats { servers } => {
                nats::Opening::new(settings, servers).map(|opening| Self::Nats(Box::new(opening)))
            }
            #[cfg(not(feature = "nats"))]
            Meeting::Nats { .. } => unreachable!("it was required above"),
        }
    }
}

fn bind(name: &str, listen: &str) -> Result<StdSocket, GateError> {
    let bound = StdSocket::bind(listen);
    let socket = bound.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    socket.map_err(|error| GateError {
        what: format!("exchange {name:?} on {listen}"),
        why: format!("{error}; choose a UDP address of this machine that is free"),
    })
}

/// Enlarges a socket's buffer if need be, and reads back what it has. The kernel doubles what it is
/// asked for, since it counts its own bookkeeping too, and bounds it by `net.core.rmem_max`.
fn room(socket: &SockRef<'_>, wanted_bytes: usize) -> io::Result<Room> {
    if socket.recv_buffer_size()? / 2 < wanted_bytes {
        socket.set_recv_buffer_size(wanted_bytes)?;
    }
    Ok(Room { wanted_bytes, given_bytes: socket.recv_buffer_size()? / 2 })
}

impl Transport {
    /// Opens it on the thread of the exchange.
    #[cfg_attr(not(feature = "nats"), expect(clippy::unused_async, reason = "NATS needs it"))]
    pub(super) async fn open(opening: Opening) -> io::Result<Self> {
        match opening {
            Opening::Udp(socket) => UdpSocket::from_std(socket).map(Self::Udp),
            #[cfg(feature = "nats")]
            Opening::Nats(opening) => {
                Nats::open(*opening).await.map(|nats| Self::Nats(Box::new(nats)))
            }
        }
    }

    /// The next word, as far as the buffer takes it. Giving up the wait loses none.
    pub(super) async fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Origin)> {
        match self {
            Self::Udp(socket) => {
                let (length, from) = socket.recv_from(buffer).await?;
                Ok((length, Origin::Address(from)))
            }
            #[cfg(feature = "nats")]
            Self::Nats(nats) => Ok(nats.receive(buffer).await),
        }
    }

    /// Who gets a copy of each word: every peer, or the server in between under this gate's number.
    pub(super) fn addressees(&self, own: HostId, peers: &BTreeMap<HostId, Peer>) -> Vec<HostId> {
        match self {
            Self::Udp(_) => peers.keys().copied().collect(),
            #[cfg(feature = "nats")]
            Self::Nats(_) => vec![own],
        }
    }

    /// Whether a server passes words on, to whoever wants to hear of a topic.
    pub(super) fn passes_on(&self) -> bool {
        match self {
            Self::Udp(_) => false,
            #[cfg(feature = "nats")]
            Self::Nats(_) => true,
        }
    }

    /// Hears these topics from now on; over UDP whatever is sent to this gate.
    pub(super) fn hear(&mut self, topics: impl Iterator<Item = Topic>) {
        match self {
            Self::Udp(_) => drop(topics),
            #[cfg(feature = "nats")]
            Self::Nats(nats) => nats.hear(topics),
        }
    }

    /// Sends a copy of a word. If that cannot be done at once it is lost, as any word may be.
    pub(super) fn send(
        &self,
        bytes: &[u8],
        (to, topic): (HostId, Topic),
        peers: &mut BTreeMap<HostId, Peer>,
    ) {
        match self {
            Self::Udp(socket) => {
                let Some(peer) = peers.get_mut(&to) else { return };
                let outcome = peer.address.map(|address| socket.try_send_to(bytes, address));
                peer.told(matches!(outcome, Some(Ok(_))));
            }
            #[cfg(feature = "nats")]
            Self::Nats(nats) => {
                let is_sent = nats.send(bytes, topic);
                for peer in peers.values_mut() {
                    peer.told(is_sent);
                }
            }
        }
    }

    /// Whether words can go out: over UDP always.
    pub(super) fn is_connected(&self) -> bool {
        match self {
            Self::Udp(_) => true,
            #[cfg(feature = "nats")]
            Self::Nats(nats) => nats.is_connected(),
        }
    }

    /// Publishes a datagram for whoever hears that topic, where a server passes them on; else there
    /// is nobody to hear it.
    pub(super) fn publish(&self, bytes: &[u8], topic: Topic) {
        match self {
            Self::Udp(_) => {}
            #[cfg(feature = "nats")]
            Self::Nats(nats) => _ = nats.send(bytes, topic),
        }
    }

    /// Makes room for a word of each of so many peers, of so many parts, as far as the kernel gives
    /// it.
    pub(super) fn make_room(&self, peers: usize, parts: usize) -> Option<Room> {
        match self {
            Self::Udp(socket) => {
                let wanted_bytes = peers * (DATAGRAM_BYTES_MAX + (parts - 1) * PART_BYTES);
                let room = room(&SockRef::from(socket), wanted_bytes);
                room.inspect_err(|error| tracing::warn!(%error, "the room for words is unknown"))
                    .ok()
            }
            #[cfg(feature = "nats")]
            Self::Nats(_) => None,
        }
    }

    /// The server in between, if there is one.
    pub(super) fn server(&self) -> Option<ServerReport> {
        match self {
            Self::Udp(_) => None,
            #[cfg(feature = "nats")]
            Self::Nats(nats) => Some(nats.report()),
        }
    }
}
