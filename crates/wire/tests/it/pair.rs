//! Our client against our server, over every combination of what either may want.

use crate::harness::{disk, serve};
use evenkeel_wire::nbd::client::{
    ClientError, ClientEvent, ClientHandshake, ClientOptions, ClientSession, ContextsWanted, Goal,
    RefusedReason,
};
use evenkeel_wire::nbd::proto::{ReplyStyle, TransmissionFlags};
use evenkeel_wire::nbd::server::{
    ServerEvent, ServerHandshake, ServerOptions, ServerSession, TlsOffer,
};

/// Both ends of a handshake and the bytes on their way.
struct Pair {
    client: ClientHandshake,
    server: ServerHandshake,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    piece: usize,
    client_events: Vec<ClientEvent>,
    server_events: Vec<ServerEvent>,
}

#[derive(Debug, PartialEq)]
struct Outcome {
    client: Result<Vec<ClientEvent>, ClientError>,
    server: Vec<ServerEvent>,
}

impl Pair {
    fn run(client: &ClientOptions, server: ServerOptions, piece: usize) -> Outcome {
        let mut pair = Self {
            client: ClientHandshake::new(client.clone()),
            server: ServerHandshake::new(server),
            to_client: Vec::new(),
            to_server: Vec::new(),
            piece,
            client_events: Vec::new(),
            server_events: Vec::new(),
        };
        loop {
            let server_moved = pair.step_server();
            match pair.step_client() {
                Ok(client_moved) if server_moved || client_moved => {}
                Ok(_) => {
                    return Outcome { client: Ok(pair.client_events), server: pair.server_events };
                }
                Err(error) => return Outcome { client: Err(error), server: pair.server_events },
            }
        }
    }

    fn step_server(&mut self) -> bool {
        if matches!(self.server_events.last(), Some(ServerEvent::Ready(_) | ServerEvent::Closed(_)))
        {
            return false;
        }
        let window = self.to_server.len().min(self.piece);
        let (consumed, event) =
            self.server.handle(&self.to_server[..window]).expect("our client behaves");
        self.to_server.drain(..consumed);
        serve(&mut self.server, &event);
        let sent = self.server.output().len();
        self.to_client.append(self.server.output());
        let idle = event == ServerEvent::NeedInput && consumed == 0 && sent == 0;
        if event != ServerEvent::NeedInput {
            self.server_events.push(event);
        }
        !idle
    }

    fn step_client(&mut self) -> Result<bool, ClientError> {
        let done = [ClientEvent::ListEnd];
        if let Some(last) = self.client_events.last()
            && (done.contains(last) || matches!(last, ClientEvent::Ready(_) | ClientEvent::Info(_)))
        {
            return Ok(false);
        }
        let window = self.to_client.len().min(self.piece);
        let (consumed, event) = self.client.handle(&self.to_client[..window])?;
        self.to_client.drain(..consumed);
        self.to_server.append(self.client.output());
        if event == ClientEvent::StartTls {
            self.client.tls_established();
            self.to_server.append(self.client.output());
        }
        let idle = event == ClientEvent::NeedInput && consumed == 0;
        if event != ClientEvent::NeedInput {
            self.client_events.push(event);
        }
        Ok(!idle)
    }
}

fn every_server() -> impl Iterator<Item = ServerOptions> {
    let tls = [TlsOffer::Off, TlsOffer::Optional, TlsOffer::Required];
    tls.into_iter().flat_map(|tls| {
        (0..4).map(move |bits| ServerOptions { tls, structured: bits & 1 > 0, extended: bits > 1 })
    })
}

fn every_client() -> impl Iterator<Item = ClientOptions> {
    let contexts = [
        ContextsWanted::None,
        ContextsWanted::All { max: 1 },
        ContextsWanted::All { max: 100 },
        ContextsWanted::Named(vec!["x-test:dirty".into(), "x-test:none".into()]),
    ];
    let goals = [Goal::Go, Goal::Info, Goal::List];
    goals.into_iter().flat_map(move |goal| {
        contexts.clone().into_iter().flat_map(move |contexts| {
            (0..8).map(move |bits| ClientOptions {
                goal,
                export: if bits & 1 > 0 { "disk".into() } else { String::new() },
                tls: bits & 1 > 0,
                structured: bits & 2 > 0,
                extended: bits & 4 > 0,
                contexts: contexts.clone(),
            })
        })
    })
}

/// The refusal that has to come, if any.
fn expected_refusal(client: &ClientOptions, server: ServerOptions) -> Option<RefusedReason> {
    match (client.tls, server.tls) {
        (true, TlsOffer::Off) => Some(RefusedReason::Policy),
        (false, TlsOffer::Required) => Some(RefusedReason::TlsRequired),
        _ => None,
    }
}

fn expected_style(client: &ClientOptions, server: ServerOptions) -> ReplyStyle {
    if client.goal == Goal::List {
        ReplyStyle::Simple
    } else if client.extended && server.extended {
        ReplyStyle::Extended
    } else if client.structured && server.structured {
        ReplyStyle::Structured
    } else {
        ReplyStyle::Simple
    }
}

fn expected_contexts(client: &ClientOptions, style: ReplyStyle) -> Vec<&'static str> {
    match &client.contexts {
        _ if !style.is_chunked() => vec![],
        ContextsWanted::None => vec![],
        ContextsWanted::All { max: 1 } => vec!["base:allocation"],
        ContextsWanted::All { .. } => vec!["base:allocation", "x-test:dirty"],
        ContextsWanted::Named(_) => vec!["x-test:dirty"],
    }
}

fn check_session(session: &ClientSession, client: &ClientOptions, server: ServerOptions) {
    let style = expected_style(client, server);
    let contexts = expected_contexts(client, style);
    assert_eq!(session.style, style);
    assert_eq!(session.tls, client.tls);
    assert_eq!(session.size_bytes, disk().size_bytes);
    assert_eq!((session.block_size, session.block_size_given), (disk().block_size, true));
    assert_eq!(session.description.as_deref(), Some("a test disk"));
    assert_eq!(session.canonical_name.as_deref(), Some("disk"));
    let names: Vec<&str> = session.contexts.iter().map(|context| context.name.as_str()).collect();
    assert_eq!(names, contexts);
    let has = |flag| session.flags.contains(flag);
    assert_eq!(has(TransmissionFlags::SEND_DF), style.is_chunked());
    let filters = style.is_extended() && !contexts.is_empty();
    assert_eq!(has(TransmissionFlags::BLOCK_STATUS_PAYLOAD), filters);
}

fn check_same(client: &ClientSession, server: &ServerSession) {
    assert_eq!(client.size_bytes, server.size_bytes);
    assert_eq!(client.flags, server.flags);
    assert_eq!(client.style, server.style);
    assert_eq!(client.contexts, server.contexts);
    assert_eq!(client.tls, server.tls);
    assert_eq!(client.block_size, server.block_size);
    assert!(server.obeys_block_size);
}

fn check_outcome(outcome: &Outcome, client: &ClientOptions, server: ServerOptions) {
    if let Some(expected) = expected_refusal(client, server) {
        let Err(ClientError::Refused { reason, .. }) = outcome.client else {
            panic!("{client:?} {server:?}: {outcome:?}")
        };
        assert_eq!(reason, expected);
        return;
    }
    let events = outcome.client.as_ref().expect("no refusal was due");
    match (client.goal, events.last().expect("a handshake ends with an event")) {
        (Goal::Go, ClientEvent::Ready(session)) => {
            check_session(session, client, server);
            let Some(ServerEvent::Ready(theirs)) = outcome.server.last() else { panic!() };
            check_same(session, theirs);
            assert_eq!(theirs.export, client.export);
        }
        (Goal::Info, ClientEvent::Info(session)) => check_session(session, client, server),
        (Goal::List, ClientEvent::ListEnd) => {
            let names = events.iter().filter_map(|event| match event {
                ClientEvent::Listed(export) => Some(export.name.as_str()),
                _ => None,
            });
            assert_eq!(names.collect::<Vec<_>>(), ["disk", "vault"]);
        }
        (goal, event) => panic!("{goal:?} ended with {event:?}"),
    }
}

#[test]
fn every_client_and_every_server_agree_however_the_bytes_are_cut() {
    for client in every_client() {
        for server in every_server() {
            let whole = Pair::run(&client, server, usize::MAX);
            check_outcome(&whole, &client, server);
            for piece in [1, 2, 7, 19] {
                assert_eq!(Pair::run(&client, server, piece), whole, "{client:?} {server:?}");
            }
        }
    }
}

#[test]
fn a_refusal_reaches_the_client_with_reason_and_words() {
    let cases = [
        ("nowhere", RefusedReason::UnknownExport),
        ("vault", RefusedReason::Policy),
        ("tls", RefusedReason::TlsRequired),
        ("wide", RefusedReason::ExtendedHeadersRequired),
        ("blocks", RefusedReason::BlockSizeRequired),
    ];
    for (export, expected) in cases {
        let client = ClientOptions { export: export.into(), ..ClientOptions::default() };
        let outcome = Pair::run(&client, ServerOptions::default(), usize::MAX);
        let Err(error @ ClientError::Refused { reason, .. }) = &outcome.client else { panic!() };
        assert_eq!(*reason, expected);
        assert!(error.to_string().contains("refused GO"), "{error}");
    }
}
