//! Almost proper options against the server's handshake: it never panics, uses no more than it is
//! given, holds its output down, and does not care how the bytes are cut.
#![no_main]

use arbitrary::Arbitrary;
use evenkeel_fuzz::Text;
use evenkeel_wire::nbd::server::{
    ExportInfo, HandshakeError, Refusal, ServerEvent, ServerHandshake, ServerOptions, TlsOffer,
};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    tls: u8,
    structured: bool,
    extended: bool,
    client_flags: Option<u32>,
    items: Vec<Item>,
    piece: u8,
}

#[derive(Arbitrary, Debug)]
enum Item {
    Noise(Vec<u8>),
    Option { code: u8, data: Data, lie: Option<u32> },
}

#[derive(Arbitrary, Debug)]
enum Data {
    None,
    Bytes(Vec<u8>),
    Go { name: Text, count: Option<u16>, items: Vec<u16> },
    Contexts { name: Text, count: Option<u32>, queries: Vec<Text> },
}

impl Input {
    fn bytes(&self) -> Vec<u8> {
        let mut out = self.client_flags.unwrap_or(3).to_be_bytes().to_vec();
        for item in &self.items {
            match item {
                Item::Noise(bytes) => out.extend(bytes),
                Item::Option { code, data, lie } => {
                    let data = data.bytes();
                    out.extend(b"IHAVEOPT");
                    out.extend(u32::from(code % 14).to_be_bytes());
                    out.extend(lie.unwrap_or(data.len() as u32).to_be_bytes());
                    out.extend(data);
                }
            }
        }
        out
    }
}

impl Data {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::None => {}
            Self::Bytes(bytes) => out.extend(bytes),
            Self::Go { name, count, items } => {
                name.push(&mut out);
                out.extend(count.unwrap_or(items.len() as u16).to_be_bytes());
                items.iter().for_each(|item| out.extend((item % 5).to_be_bytes()));
            }
            Self::Contexts { name, count, queries } => {
                name.push(&mut out);
                out.extend(count.unwrap_or(queries.len() as u32).to_be_bytes());
                queries.iter().for_each(|query| query.push(&mut out));
            }
        }
        out
    }
}

type Outcome = (Vec<ServerEvent>, Vec<u8>, Option<HandshakeError>);

fn answer(server: &mut ServerHandshake, event: &ServerEvent) {
    match event {
        ServerEvent::StartTls => server.tls_established(),
        ServerEvent::List => server.reply_list(&[("disk", "a disk"), ("vault", "")]),
        ServerEvent::Lookup(lookup) => server.reply_lookup(match lookup.export.as_str() {
            "" | "disk" => Ok(ExportInfo {
                size_bytes: 1 << 40,
                contexts: vec!["base:allocation".into()],
                description: Some("a disk".into()),
                ..ExportInfo::default()
            }),
            name if name.len() % 2 == 1 => Err(Refusal::Policy("no".into())),
            _ => Err(Refusal::Unknown),
        }),
        _ => {}
    }
}

fn run(options: ServerOptions, input: &[u8], piece: usize) -> Outcome {
    let mut server = ServerHandshake::new(options);
    let (mut events, mut sent, mut pending) = (Vec::new(), Vec::new(), Vec::new());
    let mut pieces = input.chunks(piece);
    loop {
        let (consumed, event) = match server.handle(&pending) {
            Ok(step) => step,
            Err(error) => return (events, sent, Some(error)),
        };
        assert!(consumed <= pending.len());
        pending.drain(..consumed);
        answer(&mut server, &event);
        assert!(server.output().len() <= 64 * 1024, "output grows");
        sent.append(server.output());
        match event {
            ServerEvent::NeedInput => {
                assert!(pending.is_empty());
                let Some(next) = pieces.next() else { return (events, sent, None) };
                pending.extend_from_slice(next);
            }
            ServerEvent::Ready(_) | ServerEvent::Closed(_) => {
                events.push(event);
                return (events, sent, None);
            }
            event => events.push(event),
        }
    }
}

fuzz_target!(|input: Input| {
    let tls = [TlsOffer::Off, TlsOffer::Optional, TlsOffer::Required][usize::from(input.tls % 3)];
    let options = ServerOptions { tls, structured: input.structured, extended: input.extended };
    let bytes = input.bytes();
    let whole = run(options, &bytes, usize::MAX);
    if whole.2 != Some(HandshakeError::PlaintextBehindStartTls) {
        assert_eq!(run(options, &bytes, usize::from(input.piece) + 1), whole);
    }
});
