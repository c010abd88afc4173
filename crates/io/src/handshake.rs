//! The server's side of the handshake with one client, on the worker that accepted it.
//!
//! Which worker owns the export is known only when the client has named it. So the handshake runs
//! here, asks the owner about the export, and at the end the connection moves there.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::policy::access::Access;
use evenkeel_wire::nbd::client::{ClientOptions, Goal};
use evenkeel_wire::nbd::server::{
    ExportInfo, Purpose, Refusal, ServerEvent, ServerHandshake, ServerOptions, ServerSession,
    TlsOffer,
};
use evenkeel_wire::nbd::text::Escaped;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::admission::{Full, Permit};
use crate::gate::Shared;
use crate::plan::{Insist, Peer, Plan, PlannedListener, Target};
use crate::tls;
use crate::transport::{Socket, Transport};
use crate::worker::message::{Arrival, Message};

/// A handshake that takes longer than this is given up.
const HANDSHAKE_TIME: Duration = Duration::from_secs(30);

/// For so long of it the client may be waited for.
const CLIENT_TIME: Duration = Duration::from_secs(20);

/// Why a client did not get through.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] evenkeel_wire::nbd::server::HandshakeError),
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    #[error("the client took too long")]
    Slow,
}

struct Handshake {
    shared: Arc<Shared>,
    transport: Transport,
    peer: Peer,
    acceptor: Option<TlsAcceptor>,
    /// What the export named last leads to.
    target: Option<Target>,
    permit: Permit,
    /// For so long the client is still waited for.
    client_time: Duration,
}

/// Negotiates with a fresh connection and sends it where it belongs.
pub(crate) async fn welcome(
    shared: Arc<Shared>,
    socket: Socket,
    listener: PlannedListener,
    permit: Permit,
) {
    let address = socket.peer();
    let peer = Peer {
        tls_names: Vec::new(),
        listener: listener.name,
        address,
        has_certificate: false,
        was_protected: listener.is_protected,
    };
    let (acceptor, tls) = match listener.tls {
        None => (None, TlsOffer::Off),
        Some((acceptor, Insist::No)) => (Some(acceptor), TlsOffer::Optional),
        Some((acceptor, Insist::Yes)) => (Some(acceptor), TlsOffer::Required),
    };
    let options = ServerOptions { tls, ..ServerOptions::default() };
    let transport = Transport::Plain(socket);
    let mut handshake = Handshake {
        shared: Arc::clone(&shared),
        transport,
        peer,
        acceptor,
        target: None,
        permit,
        client_time: CLIENT_TIME,
    };
    let name = address.map_or_else(|| "unix".to_owned(), |address| address.to_string());
    match tokio::time::timeout(HANDSHAKE_TIME, handshake.run(options)).await {
        Ok(Ok(Some((session, early)))) => handshake.hand_over(session, early),
        Ok(Ok(None)) => {}
        Ok(Err(failure)) => {
            if matches!(failure, Failure::Protocol(_)) {
                shared.count_protocol_error();
            }
            tracing::debug!(peer = name, %failure, "handshake failed");
        }
        Err(_) => tracing::debug!(peer = name, "handshake took too long"),
    }
}

impl Handshake {
    /// Runs to the end; a session and the bytes behind it, or none if the client just looked.
    async fn run(
        &mut self,
        options: ServerOptions,
    ) -> Result<Option<(Box<ServerSession>, Vec<u8>)>, Failure> {
        let mut machine = ServerHandshake::new(options);
        let mut input = Vec::new();
        let mut is_silent = true;
        loop {
            let step = machine.handle(&input);
            let output = std::mem::take(machine.output());
            self.send(&output).await?;
            let (used, event) = step?;
            input.drain(..used);
            match event {
                ServerEvent::NeedInput => {
                    if self.receive(&mut input).await? == 0 {
                        return Ok(None);
                    }
                    if std::mem::take(&mut is_silent) {
                        self.permit.speaks();
                    }
                }
                ServerEvent::SendOutput => {}
                ServerEvent::StartTls => {
                    self.start_tls().await?;
                    machine.tls_established();
                }
                ServerEvent::List => self.list(&mut machine).await?,
                ServerEvent::Lookup(lookup) => {
                    let mut answer = self.look_up(&lookup.export).await;
                    if answer.is_ok() && lookup.purpose == Purpose::Enter {
                        answer = self.enter(&lookup.export).and(answer);
                    }
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

    /// Waits for the client, for as long as it has left in all.
    async fn of_client<T>(
        client_time: &mut Duration,
        what: impl Future<Output = io::Result<T>>,
    ) -> Result<T, Failure> {
        let began = tokio::time::Instant::now();
        let done = tokio::time::timeout(*client_time, what).await;
        *client_time = client_time.saturating_sub(began.elapsed());
        Ok(done.map_err(|_| Failure::Slow)??)
    }

    async fn send(&mut self, output: &[u8]) -> Result<(), Failure> {
        let transport = &mut self.transport;
        let sent = async {
            transport.write_all(output).await?;
            transport.flush().await
        };
        Self::of_client(&mut self.client_time, sent).await
    }

    async fn receive(&mut self, input: &mut Vec<u8>) -> Result<usize, Failure> {
        Self::of_client(&mut self.client_time, self.transport.read_buf(input)).await
    }

    /// The client has said which export it wants, and so whose it is.
    fn enter(&mut self, export: &str) -> Result<(), Refusal> {
        let plan = self.shared.plan();
        let export = self.target.as_ref().map_or(export, |target| &target.export);
        let tenant = plan.tenant_of(&self.peer, export);
        let most = plan.policy.memory.connections;
        let entered = self.permit.enter(tenant, (most, plan.policy.tenants.len()));
        entered.map_err(|full| {
            let who = match full {
                Full::Tenant => format!("tenant {:?}", plan.tenant_name(tenant)),
                Full::Address => "this address".to_owned(),
            };
            let text = format!(
                "{who} has as many connections as the others leave it, of {most} in all \
                 (`connections` under [memory] of the policy)"
            );
            if self.shared.door.logs() {
                let refused = self.shared.door.refused();
                tracing::warn!(peer = ?self.peer.address, refused, "connection refused: {text}");
            }
            Refusal::Policy(text)
        })
    }

    async fn start_tls(&mut self) -> Result<(), Failure> {
        let acceptor = self.acceptor.as_ref().expect("TLS is only started where it is offered");
        let Transport::Plain(socket) =
            std::mem::replace(&mut self.transport, Transport::Plain(Socket::Gone))
        else {
            unreachable!("TLS starts once")
        };
        let accepted = async { Ok(acceptor.accept(socket).await) };
        let accepted = Self::of_client(&mut self.client_time, accepted).await?;
        let stream = accepted.map_err(Failure::Tls)?;
        if let Some(certificate) = stream.get_ref().1.peer_certificates().and_then(<[_]>::first) {
            self.peer.tls_names = tls::names_of(certificate);
            self.peer.has_certificate = true;
        }
        self.transport = Transport::Tls(Box::new(TlsStream::Server(stream)));
        Ok(())
    }

    async fn list(&mut self, machine: &mut ServerHandshake) -> Result<(), Failure> {
        let plan = self.shared.plan();
        let mut listed: Vec<(String, String)> = Vec::new();
        let is_shown =
            |name: &str, backend: &str| plan.access(&self.peer, name, backend) > Access::None;
        for export in plan.policy.exports.iter().filter(|one| is_shown(&one.name, &one.backend)) {
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
                            .filter(|export| is_shown(&export.name, &backend.name))
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
            self.send(&output).await?;
        }
        machine.list_end(Ok(()));
        Ok(())
    }

    async fn look_up(&mut self, export: &str) -> Result<ExportInfo, Refusal> {
        let plan = self.shared.plan();
        let mut answer = Err(Refusal::Unknown);
        let mut is_forbidden = false;
        for mut target in plan.targets(export) {
            match plan.access(&self.peer, &target.export, &target.backend) {
                Access::None => {
                    is_forbidden = true;
                    continue;
                }
                Access::Read => target.read_only = true,
                Access::Write => {}
            }
            answer = self.ask_owner(&plan, &target).await;
            if !matches!(answer, Err(Refusal::Unknown)) {
                self.target = Some(target);
                return answer;
            }
        }
        if is_forbidden {
            self.refuse(&plan, export);
        }
        answer
    }

    /// What is forbidden is answered like what is not there.
    fn refuse(&self, plan: &Plan, export: &str) {
        self.shared.count_refused_open();
        if self.shared.refusals_log.passes() {
            let tenant = plan.tenant_name(plan.tenant_of(&self.peer, export));
            let (peer, names) = (&self.peer.address, &self.peer.tls_names);
            let (listener, refused) = (&self.peer.listener, self.shared.refused_opens());
            let export = Escaped(export.as_bytes());
            tracing::warn!(
                ?peer, ?names, listener, tenant, %export, refused,
                "export refused: the policy does not let this tenant open it"
            );
        }
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
            return tracing::warn!(%error, "a connection could not be handed over");
        }
        let worker = target.worker;
        let Self { transport, peer, permit, shared, .. } = self;
        let arrival = Arrival { transport, session, early, target, peer, permit };
        shared.send(worker, Message::Arrive(Box::new(arrival)));
    }
}
