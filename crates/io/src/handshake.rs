//! The server's side of the handshake with one client, on the worker that accepted it.
//!
//! Which worker owns the export is known only when the client has named it. So the handshake runs
//! here, asks the owner about the export, and at the end the connection moves there.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_wire::nbd::client::{ClientOptions, Goal};
use evenkeel_wire::nbd::server::{
    ExportInfo, Purpose, Refusal, ServerEvent, ServerHandshake, ServerOptions, ServerSession,
    TlsOffer,
};
use evenkeel_wire::nbd::text::Escaped;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::gate::Shared;
use crate::plan::{Insist, Peer, Plan, PlannedListener, Target};
use crate::tls;
use crate::transport::{Socket, Transport};
use crate::worker::message::{Arrival, Message};

/// A client that takes longer than this is dropped.
const HANDSHAKE_TIME: Duration = Duration::from_secs(30);

/// Why a client did not get through.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] evenkeel_wire::nbd::server::HandshakeError),
    #[error("TLS failed: {0}")]
    Tls(io::Error),
}

struct Handshake {
    shared: Arc<Shared>,
    transport: Transport,
    peer: Peer,
    acceptor: Option<TlsAcceptor>,
    /// What the export named last leads to.
    target: Option<Target>,
}

/// Negotiates with a fresh connection and sends it where it belongs.
pub(crate) async fn welcome(shared: Arc<Shared>, socket: Socket, listener: PlannedListener) {
    let address = socket.peer();
    let peer = Peer { tls_names: Vec::new(), listener: listener.name, address };
    let (acceptor, tls) = match listener.tls {
        None => (None, TlsOffer::Off),
        Some((acceptor, Insist::No)) => (Some(acceptor), TlsOffer::Optional),
        Some((acceptor, Insist::Yes)) => (Some(acceptor), TlsOffer::Required),
    };
    let options = ServerOptions { tls, ..ServerOptions::default() };
    let transport = Transport::Plain(socket);
    let mut handshake =
        Handshake { shared: Arc::clone(&shared), transport, peer, acceptor, target: None };
    let name = address.map_or_else(|| "unix".to_owned(), |address| address.to_string());
    match tokio::time::timeout(HANDSHAKE_TIME, handshake.run(options)).await {
        Ok(Ok(Some((session, early)))) => return handshake.hand_over(session, early),
        Ok(Ok(None)) => {}
        Ok(Err(failure)) => {
            if matches!(failure, Failure::Protocol(_)) {
                shared.count_protocol_error();
            }
            tracing::debug!(peer = name, %failure, "handshake failed");
        }
        Err(_) => tracing::debug!(peer = name, "handshake took too long"),
    }
    shared.disconnected();
}

impl Handshake {
    /// Runs to the end; a session and the bytes behind it, or none if the client just looked.
    async fn run(
        &mut self,
        options: ServerOptions,
    ) -> Result<Option<(Box<ServerSession>, Vec<u8>)>, Failure> {
        let mut machine = ServerHandshake::new(options);
        let mut input = Vec::new();
        loop {
            let step = machine.handle(&input);
            let output = std::mem::take(machine.output());
            self.transport.write_all(&output).await?;
            self.transport.flush().await?;
            let (used, event) = step?;
            input.drain(..used);
            match event {
                ServerEvent::NeedInput => {
                    if self.transport.read_buf(&mut input).await? == 0 {
                        return Ok(None);
                    }
                }
                ServerEvent::SendOutput => {}
                ServerEvent::StartTls => {
                    self.start_tls().await?;
                    machine.tls_established();
                }
                ServerEvent::List => self.list(&mut machine).await?,
                ServerEvent::Lookup(lookup) => {
                    let answer = self.look_up(&lookup.export).await;
                    if let (Err(refusal), Purpose::Enter) = (&answer, lookup.purpose) {
                        let export = Escaped(lookup.export.as_bytes());
                        tracing::info!(%export, ?refusal, "client refused");
                    }
                    machine.reply_lookup(answer);
                }
                ServerEvent::Ready(session) => return Ok(Some((session, input))),
                ServerEvent::Closed(_) => {
                    self.transport.shutdown().await?;
                    return Ok(None);
                }
            }
        }
    }

    async fn start_tls(&mut self) -> Result<(), Failure> {
        let acceptor = self.acceptor.as_ref().expect("TLS is only started where it is offered");
        let Transport::Plain(socket) =
            std::mem::replace(&mut self.transport, Transport::Plain(Socket::Gone))
        else {
            unreachable!("TLS starts once")
        };
        let stream = acceptor.accept(socket).await.map_err(Failure::Tls)?;
        if let Some(certificate) = stream.get_ref().1.peer_certificates().and_then(<[_]>::first) {
            self.peer.tls_names = tls::names_of(certificate);
        }
        self.transport = Transport::Tls(Box::new(TlsStream::Server(stream)));
        Ok(())
    }

    async fn list(&mut self, machine: &mut ServerHandshake) -> Result<(), Failure> {
        let plan = self.shared.plan();
        let mut listed: Vec<(String, String)> = Vec::new();
        for export in &plan.policy.exports {
            listed.push((export.name.clone(), export.description.clone().unwrap_or_default()));
        }
        for backend in plan.passed_through() {
            let Some(terms) = plan.terms(&backend.name) else { continue };
            let options = ClientOptions { goal: Goal::List, ..ClientOptions::default() };
            match terms.route.list(options).await {
                Ok(exports) => {
                    let known = |name: &str| plan.policy.exports.iter().any(|e| e.name == name);
                    listed.extend(
                        exports
                            .into_iter()
                            .filter(|export| !known(&export.name))
                            .map(|export| (export.name, export.description)),
                    );
                }
                Err(error) => {
                    tracing::warn!(backend = backend.name, %error, "its exports cannot be listed");
                }
            }
        }
        for (name, description) in listed {
            machine.list_entry(&name, &description);
            let output = std::mem::take(machine.output());
            self.transport.write_all(&output).await?;
        }
        machine.list_end(Ok(()));
        Ok(())
    }

    async fn look_up(&mut self, export: &str) -> Result<ExportInfo, Refusal> {
        let plan = self.shared.plan();
        let mut answer = Err(Refusal::Unknown);
        for target in plan.targets(export) {
            answer = self.ask_owner(&plan, &target).await;
            if !matches!(answer, Err(Refusal::Unknown)) {
                self.target = Some(target);
                break;
            }
        }
        answer
    }

    async fn ask_owner(&self, plan: &Arc<Plan>, target: &Target) -> Result<ExportInfo, Refusal> {
        let (reply, answer) = oneshot::channel();
        let message =
            Message::Open { plan: Arc::clone(plan), target: Box::new(target.clone()), reply };
        self.shared.send(target.worker, message);
        answer.await.unwrap_or(Err(Refusal::Shutdown))
    }

    fn hand_over(mut self, session: Box<ServerSession>, early: Vec<u8>) {
        let target = self.target.take().expect("a session names an export that was found");
        if let Err(error) = self.transport.detach() {
            self.shared.disconnected();
            return tracing::warn!(%error, "a connection could not be handed over");
        }
        let worker = target.worker;
        let arrival =
            Arrival { transport: self.transport, session, early, target, peer: self.peer };
        self.shared.send(worker, Message::Arrive(Box::new(arrival)));
    }
}
