//! Drives handshakes in memory: a small server with fixed exports, feeding in pieces of any size,
//! and builders for the bytes of either side.

use evenkeel_wire::nbd::client::{ClientError, ClientEvent, ClientHandshake, ClientOptions};
use evenkeel_wire::nbd::proto::{BlockSize, TransmissionFlags};
use evenkeel_wire::nbd::server::{
    ExportInfo, HandshakeError, Lookup, Refusal, ServerEvent, ServerHandshake, ServerOptions,
};

/// What came of a handshake: the events other than requests for input, what was sent, how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transcript<Event, Error> {
    pub(crate) events: Vec<Event>,
    pub(crate) sent: Vec<u8>,
    pub(crate) error: Option<Error>,
}

pub(crate) type ServerTranscript = Transcript<ServerEvent, HandshakeError>;
pub(crate) type ClientTranscript = Transcript<ClientEvent, ClientError>;

/// The exports of the test server: `disk`, its alias as the default export, and `vault`, which is
/// not for everybody.
pub(crate) fn look_up(lookup: &Lookup) -> Result<ExportInfo, Refusal> {
    match lookup.export.as_str() {
        "" | "disk" => Ok(disk()),
        "vault" => Err(Refusal::Policy("members only".into())),
        "tls" => Err(Refusal::TlsRequired),
        "blocks" => Err(Refusal::BlockSizeRequired(disk().block_size)),
        "wide" => Err(Refusal::ExtendedHeadersRequired),
        _ => Err(Refusal::Unknown),
    }
}

pub(crate) fn disk() -> ExportInfo {
    ExportInfo {
        size_bytes: 1 << 40,
        flags: TransmissionFlags::KNOWN.without(TransmissionFlags::READ_ONLY),
        canonical_name: Some("disk".into()),
        description: Some("a test disk".into()),
        block_size: BlockSize { minimum: 512, preferred: 4096, maximum_payload: 1 << 20 },
        contexts: vec!["base:allocation".into(), "x-test:dirty".into()],
    }
}

/// Does for a server what a driver does. True if the handshake goes on.
pub(crate) fn serve(server: &mut ServerHandshake, event: &ServerEvent) -> bool {
    match event {
        ServerEvent::NeedInput | ServerEvent::SendOutput => {}
        ServerEvent::StartTls => server.tls_established(),
        ServerEvent::List => server.reply_list(&[("disk", "a test disk"), ("vault", "")]),
        ServerEvent::Lookup(lookup) => server.reply_lookup(look_up(lookup)),
        ServerEvent::Ready(_) | ServerEvent::Closed(_) => return false,
    }
    true
}

/// Feeds a server in pieces of `piece` bytes.
pub(crate) fn run_server(options: ServerOptions, input: &[u8], piece: usize) -> ServerTranscript {
    let mut server = ServerHandshake::new(options);
    let mut transcript = Transcript { events: Vec::new(), sent: Vec::new(), error: None };
    let mut pending: Vec<u8> = Vec::new();
    let mut pieces = input.chunks(piece);
    loop {
        let result = server.handle(&pending);
        transcript.sent.append(server.output());
        let (consumed, event) = match result {
            Ok(step) => step,
            Err(error) => {
                transcript.error = Some(error);
                return transcript;
            }
        };
        pending.drain(..consumed);
        let goes_on = serve(&mut server, &event);
        transcript.sent.append(server.output());
        if event == ServerEvent::NeedInput {
            assert!(pending.is_empty(), "input is left although more is asked for");
            let Some(next) = pieces.next() else { return transcript };
            pending.extend_from_slice(next);
        } else {
            transcript.events.push(event);
        }
        if !goes_on {
            return transcript;
        }
    }
}

/// Feeds a client in pieces of `piece` bytes.
pub(crate) fn run_client(options: ClientOptions, input: &[u8], piece: usize) -> ClientTranscript {
    let mut client = ClientHandshake::new(options);
    let mut transcript = Transcript { events: Vec::new(), sent: Vec::new(), error: None };
    let mut pending: Vec<u8> = Vec::new();
    let mut pieces = input.chunks(piece);
    loop {
        let result = client.handle(&pending);
        transcript.sent.append(client.output());
        let (consumed, event) = match result {
            Ok(step) => step,
            Err(error) => {
                transcript.error = Some(error);
                return transcript;
            }
        };
        pending.drain(..consumed);
        match event {
            ClientEvent::NeedInput => {
                assert!(pending.is_empty(), "input is left although more is asked for");
                let Some(next) = pieces.next() else { return transcript };
                pending.extend_from_slice(next);
                continue;
            }
            ClientEvent::StartTls => client.tls_established(),
            ClientEvent::Listed(_) => {}
            _ => {
                transcript.events.push(event);
                return transcript;
            }
        }
        transcript.events.push(event);
    }
}

/// A client's flags: fixed newstyle, no zeroes.
pub(crate) const CLIENT_FLAGS: [u8; 4] = [0, 0, 0, 3];

fn length<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).expect("tests are small")
}

/// An option whose length field tells the truth.
pub(crate) fn option(code: u32, data: &[u8]) -> Vec<u8> {
    option_claiming(code, length(data), data)
}

/// An option whose length field says `length`.
pub(crate) fn option_claiming(code: u32, length: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT".as_slice(), &code.to_be_bytes(), &length.to_be_bytes(), data].concat()
}

/// A length of 32 bits and the string.
pub(crate) fn string(text: &[u8]) -> Vec<u8> {
    [&length(text).to_be_bytes(), text].concat()
}

/// The data of INFO and GO.
pub(crate) fn go_data(name: &[u8], items: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend(u16::try_from(items.len()).expect("a handful").to_be_bytes());
    data.extend(items.iter().flat_map(|item| item.to_be_bytes()));
    data
}

/// The data of the two options about metadata contexts.
pub(crate) fn meta_data(name: &[u8], queries: &[&[u8]]) -> Vec<u8> {
    let mut data = string(name);
    data.extend(length(queries).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| string(query)));
    data
}

/// A client's first bytes and then these options.
pub(crate) fn session(options: &[Vec<u8>]) -> Vec<u8> {
    [CLIENT_FLAGS.as_slice(), &options.concat()].concat()
}

/// A server's greeting with these handshake flags.
pub(crate) fn greeting(flags: u8) -> Vec<u8> {
    [b"NBDMAGICIHAVEOPT".as_slice(), &[0, flags]].concat()
}

/// An option reply.
pub(crate) fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    reply_claiming(option, kind, length(data), data)
}

/// An option reply whose length field says `length`.
pub(crate) fn reply_claiming(option: u32, kind: u32, length: u32, data: &[u8]) -> Vec<u8> {
    let magic = 0x0003_e889_0455_65a9_u64.to_be_bytes();
    let [option, kind, length] = [option, kind, length].map(u32::to_be_bytes);
    [magic.as_slice(), &option, &kind, &length, data].concat()
}

/// The types of the option replies in a server's output behind its greeting, with their options.
pub(crate) fn replies(sent: &[u8]) -> Vec<(u32, u32)> {
    let mut rest = &sent[18..];
    let mut seen = Vec::new();
    while !rest.is_empty() {
        let field =
            |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().expect("four bytes"));
        seen.push((field(8), field(12)));
        rest = &rest[20 + field(16) as usize..];
    }
    seen
}

pub(crate) const EXPORT_NAME: u32 = 1;
pub(crate) const ABORT: u32 = 2;
pub(crate) const LIST: u32 = 3;
pub(crate) const STARTTLS: u32 = 5;
pub(crate) const INFO: u32 = 6;
pub(crate) const GO: u32 = 7;
pub(crate) const STRUCTURED_REPLY: u32 = 8;
pub(crate) const LIST_META_CONTEXT: u32 = 9;
pub(crate) const SET_META_CONTEXT: u32 = 10;
pub(crate) const EXTENDED_HEADERS: u32 = 11;

pub(crate) const ACK: u32 = 1;
pub(crate) const REP_SERVER: u32 = 2;
pub(crate) const REP_INFO: u32 = 3;
pub(crate) const REP_META_CONTEXT: u32 = 4;
const ERROR: u32 = 1 << 31;
pub(crate) const ERR_UNSUP: u32 = ERROR + 1;
pub(crate) const ERR_POLICY: u32 = ERROR + 2;
pub(crate) const ERR_INVALID: u32 = ERROR + 3;
pub(crate) const ERR_TLS_REQD: u32 = ERROR + 5;
pub(crate) const ERR_UNKNOWN: u32 = ERROR + 6;
pub(crate) const ERR_SHUTDOWN: u32 = ERROR + 7;
pub(crate) const ERR_BLOCK_SIZE_REQD: u32 = ERROR + 8;
pub(crate) const ERR_TOO_BIG: u32 = ERROR + 9;
pub(crate) const ERR_EXT_HEADER_REQD: u32 = ERROR + 10;
