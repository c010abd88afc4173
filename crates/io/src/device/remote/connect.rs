//! Reaching an upstream: socket, TLS, the client's side of the handshake.

use std::io;
use std::time::Duration;

use evenkeel_engine::lease::Times;
use evenkeel_engine::policy::Address;
use evenkeel_wire::nbd::client::{
    ClientError, ClientEvent, ClientHandshake, ClientOptions, ClientSession, ListedExport,
    RefusedReason,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsConnector, TlsStream};

use super::Trouble;
use crate::clock::duration;
use crate::transport::{Socket, Transport};

/// A server that takes longer than this to shake hands counts as unreachable.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// A longer list of exports is cut.
const LISTED_BYTES_MAX: usize = 1 << 20;

/// Where and how to reach an upstream.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) address: Address,
    pub(crate) tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name())
    }
}

/// Why an upstream was not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("cannot connect: {0}")]
    Socket(io::Error),
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    #[error("connection lost in the handshake: {0}")]
    Lost(io::Error),
    #[error(transparent)]
    Handshake(#[from] ClientError),
    #[error("no answer to the handshake within {} s", HANDSHAKE_TIME.as_secs())]
    Slow,
}

/// An upstream that is ready for requests.
pub(crate) struct Connected {
    pub(crate) transport: Transport,
    pub(crate) session: ClientSession,
    /// Bytes that came behind the handshake.
    pub(crate) early: Vec<u8>,
}

enum Outcome {
    Session(Box<ClientSession>),
    List(Vec<ListedExport>),
}

impl Route {
    /// The address, for people.
    pub(crate) fn name(&self) -> String {
        let scheme = if self.tls.is_some() { "nbds" } else { "nbd" };
        match &self.address {
            Address::Tcp(host) => format!("{scheme}://{host}"),
            Address::Unix(path) => format!("{scheme}+unix:///?socket={}", path.display()),
        }
    }

    /// Connects and negotiates an export. `times` are those of the lease on its server, if there is
    /// one.
    pub(crate) async fn connect(
        &self,
        options: ClientOptions,
        times: Option<Times>,
    ) -> Result<Connected, ConnectError> {
        let (transport, outcome, early) = self.negotiate(options, times).await?;
        match outcome {
            Outcome::Session(session) => Ok(Connected { transport, session: *session, early }),
            Outcome::List(_) => unreachable!("a list was not asked for"),
        }
    }

    /// Asks what exports there are.
    pub(crate) async fn list(
        &self,
        options: ClientOptions,
    ) -> Result<Vec<ListedExport>, ConnectError> {
        match self.negotiate(options, None).await? {
            (_, Outcome::List(exports), _) => Ok(exports),
            (_, Outcome::Session(_), _) => unreachable!("only a list was asked for"),
        }
    }

    async fn negotiate(
        &self,
        options: ClientOptions,
        times: Option<Times>,
    ) -> Result<(Transport, Outcome, Vec<u8>), ConnectError> {
        tokio::time::timeout(HANDSHAKE_TIME, async {
            let patience = times.map(|times| duration(times.unacknowledged()));
            let socket = Socket::connect_upstream(&self.address, patience).await;
            let socket = socket.map_err(ConnectError::Socket)?;
            let mut transport = Transport::Plain(socket);
            let options = ClientOptions { tls: self.tls.is_some(), ..options };
            let mut handshake = ClientHandshake::new(options);
            let (outcome, early) = self.shake_hands(&mut transport, &mut handshake).await?;
            Ok((transport, outcome, early))
        })
        .await
        .map_err(|_| ConnectError::Slow)?
    }

    async fn shake_hands(
        &self,
        transport: &mut Transport,
        handshake: &mut ClientHandshake,
    ) -> Result<(Outcome, Vec<u8>), ConnectError> {
        let mut input = Vec::new();
        let mut listed = Vec::new();
        let mut listed_bytes = 0;
        loop {
            let (used, event) = handshake.handle(&input)?;
            input.drain(..used);
            let output = std::mem::take(handshake.output());
            transport.write_all(&output).await.map_err(ConnectError::Lost)?;
            transport.flush().await.map_err(ConnectError::Lost)?;
            match event {
                ClientEvent::NeedInput => match transport.read_buf(&mut input).await {
                    Ok(0) => return Err(ConnectError::Lost(io::ErrorKind::UnexpectedEof.into())),
                    Ok(_) => {}
                    Err(error) => return Err(ConnectError::Lost(error)),
                },
                ClientEvent::StartTls => {
                    self.start_tls(transport).await?;
                    handshake.tls_established();
                }
                ClientEvent::Ready(session) | ClientEvent::Info(session) => {
                    return Ok((Outcome::Session(session), input));
                }
                ClientEvent::Listed(export) => {
                    listed_bytes += export.name.len() + export.description.len();
                    if listed_bytes > LISTED_BYTES_MAX {
                        return Ok((Outcome::List(listed), input));
                    }
                    listed.push(export);
                }
                ClientEvent::ListEnd => return Ok((Outcome::List(listed), input)),
            }
        }
    }

    async fn start_tls(&self, transport: &mut Transport) -> Result<(), ConnectError> {
        let (connector, name) = self.tls.as_ref().expect("TLS is only started when it is wanted");
        let Transport::Plain(socket) = std::mem::replace(transport, Transport::Plain(Socket::Gone))
        else {
            unreachable!("TLS starts once")
        };
        let stream = connector.connect(name.clone(), socket).await.map_err(ConnectError::Tls)?;
        *transport = Transport::Tls(Box::new(TlsStream::Client(stream)));
        Ok(())
    }
}

impl From<ConnectError> for Trouble {
    fn from(error: ConnectError) -> Self {
        let is_unknown_export = matches!(
            &error,
            ConnectError::Handshake(ClientError::Refused {
                reason: RefusedReason::UnknownExport,
                ..
            })
        );
        Self { why: error.to_string(), is_unknown_export }
    }
}
