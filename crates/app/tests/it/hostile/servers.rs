//! Upstream servers that misbehave. Their own clients may see errors, never wrong bytes; the
//! clients of other servers see nothing at all.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Besieged, policy};
use crate::harness::Scratch;
use crate::harness::fake_server::{
    FakeServer, Offer, Request, chunk, greet, honest, negotiate, option_reply, read_option,
    read_request, simple,
};
use crate::harness::gate::{Gate, upstream_backend};
use crate::harness::nbd::{ACK, Client, GO, READ, go_data};
use crate::harness::target::{Address, Target};

const SIZE_BYTES: u64 = 1 << 20;
const SIMPLE: Offer = Offer { size_bytes: SIZE_BYTES, structured: false, flags: 0 };
const STRUCTURED: Offer = Offer { size_bytes: SIZE_BYTES, structured: true, flags: 0 };
const DONE: u16 = 1;
const OFFSET_DATA: u16 = 1;
const OFFSET_HOLE: u16 = 2;
const ERROR: u16 = (1 << 15) + 1;

/// The gate before a server, with an export `bad` of it beside the good `disk`.
fn besiege(scratch: Scratch, server: &FakeServer) -> Besieged {
    let target = Target {
        address: Address::Unix(server.path.clone()),
        export: String::new(),
        certificates: None,
    };
    let backend = upstream_backend(&target);
    let more = format!(
        "{backend}patience = \"1 s\"\n[[export]]\nname = \"bad\"\nbackend = \"upstream\"\n\
         source = \"\"\n"
    );
    let gate = Gate::start(&scratch, &policy(&more));
    Besieged { gate, scratch }
}

/// Reads 8 KiB through the gate; `None` if the export cannot even be opened.
fn read_through(besieged: &Besieged) -> Option<Result<Vec<u8>, u32>> {
    let mut client = open_if_told(besieged)?;
    Some(client.read(0, 8192))
}

fn open_if_told(besieged: &Besieged) -> Option<Client> {
    let mut client = Client::greet(&besieged.gate.plain("bad").address);
    client.option(GO, &go_data("bad"));
    let last = client.option_replies().pop().expect("a reply");
    (last.kind == ACK).then_some(client)
}

/// Attacks with a server that answers the first read of each connection by `answer`.
///
/// Whatever it sends, the client gets an error: it never gets bytes that were not read.
fn attack<F>(offer: Offer, answer: F)
where
    F: Fn(Request) -> Vec<u8> + Send + Sync + 'static,
{
    let scratch = Scratch::new();
    let server = FakeServer::answering(&scratch, offer, move |stream, request| {
        let bytes = if request.command == READ { answer(request) } else { honest(request, 0) };
        stream.write_all(&bytes)
    });
    let mut besieged = besiege(scratch, &server);
    let outcome = read_through(&besieged).expect("negotiation goes well");
    assert!(outcome.is_err(), "the client got {} bytes", outcome.map_or(0, |data| data.len()));
    besieged.assert_unharmed();
}

#[test]
fn an_honest_server_is_served_well_as_a_yardstick() {
    for offer in [SIMPLE, STRUCTURED] {
        let scratch = Scratch::new();
        let answer = move |stream: &mut UnixStream, request: Request| {
            let structured = offer.structured && request.command == READ;
            stream.write_all(&if structured { whole(request) } else { honest(request, 0xab) })
        };
        let server = FakeServer::answering(&scratch, offer, answer);
        let mut besieged = besiege(scratch, &server);
        assert_eq!(read_through(&besieged), Some(Ok(vec![0xab; 8192])));
        besieged.assert_unharmed();
    }
}

/// All that was asked, in one chunk.
fn whole(request: Request) -> Vec<u8> {
    let mut data = request.offset.to_be_bytes().to_vec();
    data.resize(8 + request.length as usize, 0xab);
    let claims = u32::try_from(data.len()).expect("short");
    chunk(DONE, OFFSET_DATA, request.cookie, claims, &data)
}

#[test]
fn a_reply_to_an_unknown_cookie_is_no_answer() {
    attack(SIMPLE, |request| simple(request.cookie ^ 0xdead_beef, 0, &[0xee; 8192]));
    attack(STRUCTURED, |request| whole(Request { cookie: !request.cookie, ..request }));
}

#[test]
fn a_second_reply_to_one_request_reaches_no_other() {
    let scratch = Scratch::new();
    let server = FakeServer::answering(&scratch, SIMPLE, |stream, request| {
        let fill = u8::try_from(request.offset >> 13).expect("a small disk");
        stream.write_all(&honest(request, fill))?;
        stream.write_all(&honest(request, 0xee))
    });
    let mut besieged = besiege(scratch, &server);
    let mut client = open_if_told(&besieged).expect("negotiation goes well");
    for block in 0..20_u8 {
        if let Ok(data) = client.read(u64::from(block) << 13, 8192) {
            assert_eq!(data, vec![block; 8192], "bytes of another reply");
        }
    }
    besieged.assert_unharmed();
}

#[test]
fn chunks_that_claim_too_much_or_too_little_are_no_answer() {
    for claims in [0_u32, 7, 8, 9, 8192, 8 + 8193, 64 << 20, u32::MAX] {
        attack(STRUCTURED, move |request| {
            let mut data = request.offset.to_be_bytes().to_vec();
            data.resize(8 + 8192, 0xee);
            data.truncate(claims.max(8) as usize);
            chunk(DONE, OFFSET_DATA, request.cookie, claims, &data)
        });
    }
}

#[test]
fn data_and_holes_outside_the_request_are_no_answer() {
    for offset in [4096_u64, 8192, SIZE_BYTES, u64::MAX - 100] {
        attack(STRUCTURED, move |request| {
            let moved = Request { offset, ..request };
            whole(moved)
        });
        attack(STRUCTURED, move |request| {
            let mut hole = offset.to_be_bytes().to_vec();
            hole.extend(u32::MAX.to_be_bytes());
            chunk(DONE, OFFSET_HOLE, request.cookie, 12, &hole)
        });
    }
}

/// Bytes that no chunk brought must not be made up (nbdcopy CVE-2022-0485 passed zeroes on).
#[test]
fn a_read_that_ends_with_bytes_missing_is_an_error() {
    attack(STRUCTURED, |request| chunk(DONE, 0, request.cookie, 0, &[]));
    attack(STRUCTURED, |request| {
        let mut data = request.offset.to_be_bytes().to_vec();
        data.resize(8 + 4096, 0xee);
        chunk(DONE, OFFSET_DATA, request.cookie, 8 + 4096, &data)
    });
    // The same bytes twice do not stand for the other half.
    attack(STRUCTURED, |request| {
        let mut data = request.offset.to_be_bytes().to_vec();
        data.resize(8 + 4096, 0xee);
        let mut bytes = chunk(0, OFFSET_DATA, request.cookie, 8 + 4096, &data);
        bytes.extend(chunk(DONE, OFFSET_DATA, request.cookie, 8 + 4096, &data));
        bytes
    });
}

#[test]
fn an_error_in_any_chunk_makes_the_read_an_error() {
    attack(STRUCTURED, |request| {
        let mut error = 5_u32.to_be_bytes().to_vec();
        error.extend(0_u16.to_be_bytes());
        let mut bytes = chunk(0, 0x8001, request.cookie, 6, &error);
        bytes.extend(whole(request));
        bytes
    });
}

/// An error's text is bytes from a stranger (qemu CVE-2020-10761 asserted on its length).
#[test]
fn a_long_or_lying_error_text_is_only_an_error() {
    for (claims, length) in [(u32::MAX, 0xffff_u16), (6 + 60_000, 60_000), (6, 500), (3, 0)] {
        attack(STRUCTURED, move |request| {
            let mut error = 5_u32.to_be_bytes().to_vec();
            error.extend(length.to_be_bytes());
            error.resize(error.len() + usize::from(length), 0x1b);
            error.truncate(claims.min(70_000) as usize);
            chunk(DONE, 0x8001, request.cookie, claims, &error)
        });
    }
}

#[test]
fn garbage_is_no_answer() {
    for seed in 1..5 {
        attack(SIMPLE, move |_| crate::harness::noise(seed, 9000));
        attack(STRUCTURED, move |_| crate::harness::noise(seed, 9000));
    }
}

#[test]
fn a_server_that_hangs_up_in_every_reply_is_given_up_in_time() {
    let scratch = Scratch::new();
    let server = FakeServer::start(&scratch, |stream| {
        negotiate(stream, SIMPLE)?;
        let request = read_request(stream)?;
        stream.write_all(&simple(request.cookie, 0, &[0xee; 5000]))
    });
    let mut besieged = besiege(scratch, &server);
    let outcome = read_through(&besieged).expect("negotiation goes well");
    assert!(outcome.is_err());
    assert!(server.connections() < 200, "the gate hammers the server");
    besieged.assert_unharmed();
}

/// A size that is negative as a signed number (libnbd CVE-2023-5215).
#[test]
fn an_impossible_size_is_not_passed_on() {
    for size_bytes in [1 << 63, u64::MAX] {
        let scratch = Scratch::new();
        let offer = Offer { size_bytes, structured: false, flags: 0 };
        let server = FakeServer::answering(&scratch, offer, |stream, request| {
            stream.write_all(&honest(request, 0))
        });
        let mut besieged = besiege(scratch, &server);
        let told = open_if_told(&besieged).is_some();
        assert!(!told, "the gate passes on a size of {size_bytes}");
        besieged.assert_unharmed();
    }
}

/// Handshakes that go wrong: the export is not there, the gate is.
fn attack_handshake<F>(script: F)
where
    F: Fn(&mut UnixStream) -> std::io::Result<()> + Send + Sync + 'static,
{
    let scratch = Scratch::new();
    let server = FakeServer::start(&scratch, script);
    let mut besieged = besiege(scratch, &server);
    assert!(read_through(&besieged).is_none_or(|outcome| outcome.is_err()));
    besieged.assert_unharmed();
    assert!(server.connections() < 200, "the gate hammers the server");
}

#[test]
fn a_wrong_greeting_is_no_server() {
    attack_handshake(|stream| stream.write_all(&crate::harness::noise(4, 1000)));
    attack_handshake(|stream| stream.write_all(b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53"));
    attack_handshake(|_| Ok(()));
}

#[test]
fn over_long_and_endless_option_replies_are_cut_short() {
    attack_handshake(|stream| {
        greet(stream)?;
        let option = read_option(stream)?;
        let mut reply = option_reply(option, ACK, &[]);
        let end = reply.len();
        reply[end - 4..].copy_from_slice(&u32::MAX.to_be_bytes());
        stream.write_all(&reply)?;
        (0..1000).try_for_each(|_| stream.write_all(&[0; 8192]))
    });
    attack_handshake(|stream| {
        greet(stream)?;
        let option = read_option(stream)?;
        // Information that never comes to an end.
        (0..1_000_000).try_for_each(|_| stream.write_all(&option_reply(option, 3, &[0, 9, 1])))
    });
    attack_handshake(|stream| {
        greet(stream)?;
        // Answers to options that nobody sent.
        read_option(stream)?;
        stream.write_all(&option_reply(99, ACK, &[]))
    });
}

#[test]
fn a_server_that_never_answers_costs_only_its_own_clients_time() {
    attack_handshake(|stream| {
        greet(stream)?;
        std::thread::sleep(Duration::from_mins(1));
        Ok(())
    });
    let scratch = Scratch::new();
    let server = FakeServer::answering(&scratch, SIMPLE, |_, _| Ok(()));
    let mut besieged = besiege(scratch, &server);
    let mut waiting = open_if_told(&besieged).expect("negotiation goes well");
    waiting.ask(Request { command: READ, length: 8192, ..Request::default() }, &[]);
    besieged.assert_unharmed();
    drop(waiting);
    besieged.assert_unharmed();
}

#[test]
fn a_server_that_sends_a_byte_at_a_time_is_waited_for() {
    let scratch = Scratch::new();
    let server = FakeServer::answering(&scratch, SIMPLE, |stream, request| {
        honest(request, 0x77).iter().try_for_each(|byte| stream.write_all(&[*byte]))
    });
    let mut besieged = besiege(scratch, &server);
    assert_eq!(read_through(&besieged), Some(Ok(vec![0x77; 8192])));
    besieged.assert_unharmed();
}

/// `NBD_ESHUTDOWN`.
const ESHUTDOWN: u32 = 108;

/// An answer that says nothing but that.
fn farewell(offer: Offer, request: Request) -> Vec<u8> {
    if !offer.structured || request.command != READ {
        return simple(request.cookie, ESHUTDOWN, &[]);
    }
    let mut error = ESHUTDOWN.to_be_bytes().to_vec();
    error.extend(0_u16.to_be_bytes());
    chunk(DONE, ERROR, request.cookie, u32::try_from(error.len()).expect("short"), &error)
}

#[test]
fn a_server_that_is_shutting_down_counts_as_lost_and_the_next_one_is_asked() {
    for offer in [SIMPLE, STRUCTURED] {
        let scratch = Scratch::new();
        let stops = AtomicBool::new(true);
        let server = FakeServer::answering(&scratch, offer, move |stream, request| {
            let structured = offer.structured && request.command == READ;
            stream.write_all(&match request.command {
                READ if stops.swap(false, Ordering::Relaxed) => farewell(offer, request),
                _ if structured => whole(request),
                _ => honest(request, 0xab),
            })
        });
        let mut besieged = besiege(scratch, &server);
        let before = server.connections();
        assert_eq!(read_through(&besieged), Some(Ok(vec![0xab; 8192])));
        assert!(server.connections() > before, "the connection was given up");
        besieged.assert_unharmed();
    }
}
