//! Almost proper replies against the client's handshake: it never panics, uses no more than it is
//! given, asks boundedly, and does not care how the bytes are cut.
#![no_main]

use arbitrary::Arbitrary;
use evenkeel_fuzz::Text;
use evenkeel_wire::nbd::client::{
    ClientError, ClientEvent, ClientHandshake, ClientOptions, ContextsWanted, Goal,
};
use evenkeel_wire::nbd::proto::{MAX_CONTEXTS, MAX_EXPORT_BYTES};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    goal: u8,
    bits: u8,
    contexts: u8,
    server_flags: u8,
    oldstyle: bool,
    items: Vec<Item>,
    piece: u8,
}

#[derive(Arbitrary, Debug)]
enum Item {
    Noise(Vec<u8>),
    /// A reply to whatever option comes next in the usual order.
    Expected {
        kind: u8,
        data: Data,
        lie: Option<u32>,
    },
    Reply {
        option: u8,
        kind: u8,
        data: Data,
        lie: Option<u32>,
    },
}

#[derive(Arbitrary, Debug)]
enum Data {
    None,
    Bytes(Vec<u8>),
    Export { size: u64, flags: u16 },
    BlockSize { minimum: u8, preferred: u8, maximum: u32 },
    Words { item: u8, text: Text },
    Context { id: u8, name: Text },
    Server { name: Text, description: Text },
}

const KINDS: [u32; 9] = [1, 2, 3, 4, 0x8000_0001, 0x8000_0003, 0x8000_0005, 0x8000_0007, 99];
const USUAL: [u32; 7] = [5, 11, 8, 9, 10, 7, 6];

impl Input {
    fn options(&self) -> ClientOptions {
        ClientOptions {
            goal: [Goal::Go, Goal::Info, Goal::List][usize::from(self.goal % 3)],
            export: "disk".into(),
            tls: self.bits & 1 > 0,
            structured: self.bits & 2 > 0,
            extended: self.bits & 4 > 0,
            contexts: match self.contexts % 3 {
                0 => ContextsWanted::None,
                1 => ContextsWanted::All { max: usize::from(self.contexts) },
                _ => ContextsWanted::Named(vec!["base:allocation".into()]),
            },
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"NBDMAGIC".to_vec();
        out.extend(if self.oldstyle { b"\0\0\x42\x02\x81\x86\x12\x53" } else { b"IHAVEOPT" });
        out.extend([0, self.server_flags]);
        let mut step = 0;
        for item in &self.items {
            match item {
                Item::Noise(bytes) => out.extend(bytes),
                Item::Expected { kind, data, lie } => {
                    let option = USUAL[step % USUAL.len()];
                    let kind = KINDS[usize::from(*kind) % KINDS.len()];
                    step += usize::from(!(2..5).contains(&kind));
                    push(&mut out, option, kind, data, *lie);
                }
                Item::Reply { option, kind, data, lie } => {
                    let kind = KINDS[usize::from(*kind) % KINDS.len()];
                    push(&mut out, u32::from(option % 13), kind, data, *lie);
                }
            }
        }
        out
    }
}

fn push(out: &mut Vec<u8>, option: u32, kind: u32, data: &Data, lie: Option<u32>) {
    let data = if kind == 1 { Vec::new() } else { data.bytes() };
    out.extend(0x0003_e889_0455_65a9_u64.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(lie.unwrap_or(data.len() as u32).to_be_bytes());
    out.extend(data);
}

impl Data {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::None => {}
            Self::Bytes(bytes) => out.extend(bytes),
            Self::Export { size, flags } => {
                out.extend([0, 0]);
                out.extend(size.to_be_bytes());
                out.extend((flags | 1).to_be_bytes());
            }
            Self::BlockSize { minimum, preferred, maximum } => {
                out.extend([0, 3]);
                out.extend((1u32 << (minimum % 20)).to_be_bytes());
                out.extend((1u32 << (preferred % 20)).to_be_bytes());
                out.extend(maximum.to_be_bytes());
            }
            Self::Words { item, text } => {
                out.extend([0, item % 6]);
                out.extend(text.bytes());
            }
            Self::Context { id, name } => {
                out.extend([0, 0, 0, *id]);
                out.extend(name.bytes());
            }
            Self::Server { name, description } => {
                name.push(&mut out);
                out.extend(description.bytes());
            }
        }
        out
    }
}

type Outcome = (Vec<ClientEvent>, Vec<u8>, Option<ClientError>);

fn run(options: ClientOptions, input: &[u8], piece: usize) -> Outcome {
    let mut client = ClientHandshake::new(options);
    let (mut events, mut sent, mut pending) = (Vec::new(), Vec::new(), Vec::new());
    let mut pieces = input.chunks(piece);
    loop {
        let step = client.handle(&pending);
        sent.append(client.output());
        assert!(sent.len() <= 128 * 1024, "output grows");
        let (consumed, event) = match step {
            Ok(step) => step,
            Err(error) => {
                assert!(error.to_string().bytes().all(|byte| (32..127).contains(&byte)));
                return (events, sent, Some(error));
            }
        };
        assert!(consumed <= pending.len());
        pending.drain(..consumed);
        match event {
            ClientEvent::NeedInput => {
                assert!(pending.is_empty());
                let Some(next) = pieces.next() else { return (events, sent, None) };
                pending.extend_from_slice(next);
                continue;
            }
            ClientEvent::StartTls => client.tls_established(),
            ClientEvent::Listed(_) => {}
            ClientEvent::Ready(ref session) | ClientEvent::Info(ref session) => {
                assert!(session.size_bytes <= MAX_EXPORT_BYTES);
                assert!(session.block_size.is_valid());
                assert!(session.contexts.len() <= MAX_CONTEXTS);
                events.push(event);
                return (events, sent, None);
            }
            ClientEvent::ListEnd => return (events, sent, None),
        }
        events.push(event);
    }
}

fuzz_target!(|input: Input| {
    let bytes = input.bytes();
    let whole = run(input.options(), &bytes, usize::MAX);
    if whole.2 != Some(ClientError::PlaintextBehindStartTls) {
        assert_eq!(run(input.options(), &bytes, usize::from(input.piece) + 1), whole);
    }
});
