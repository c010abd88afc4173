//! Clients that misbehave in transmission.

use std::time::{Duration, Instant};

use super::Besieged;
use crate::harness::gate::{Gate, directory_policy};
use crate::harness::nbd::{
    ACK, BLOCK_STATUS, Client, EINVAL, READ, Request, SET_META_CONTEXT, STRUCTURED_REPLY, WRITE,
    be32, be64, go_data,
};
use crate::harness::{Scratch, noise};

fn open(besieged: &Besieged) -> Client {
    Client::open(&besieged.gate.plain("disk"))
}

/// A well-formed write of 8 KiB, as bytes.
pub(super) fn write_of_a_block() -> Vec<u8> {
    let request = Request { command: WRITE, cookie: 1, length: 8192, ..Request::default() };
    let mut bytes = request.bytes();
    bytes.extend(noise(1, 8192));
    bytes
}

/// A well-formed read of 8 KiB, as bytes.
pub(super) fn read_of_a_block() -> Vec<u8> {
    Request { command: READ, cookie: 2, length: 8192, ..Request::default() }.bytes()
}

#[test]
fn unknown_commands_and_flags_are_invalid_and_no_more() {
    let mut besieged = Besieged::new();
    let mut client = open(&besieged);
    for command in [8_u16, 99, 0xffff] {
        client.ask(Request { command, length: 512, ..Request::default() }, &[]);
        assert_eq!(client.acknowledgement(), Err(EINVAL), "command {command}");
    }
    for flags in [0x8000_u16, 0xffe0] {
        client.ask(Request { flags, command: READ, length: 512, ..Request::default() }, &[]);
        assert_eq!(client.acknowledgement(), Err(EINVAL), "flags {flags:#x} of a read");
        let write = Request { flags, command: WRITE, length: 512, ..Request::default() };
        client.ask(write, &[0; 512]);
        assert_eq!(client.acknowledgement(), Err(EINVAL), "flags {flags:#x} of a write");
    }
    assert_eq!(client.read(0, 512).map(|data| data.len()), Ok(512), "the stream is in step");
    besieged.assert_unharmed();
}

#[test]
fn requests_outside_the_disk_fail_and_the_stream_stays_in_step() {
    let mut besieged = Besieged::new();
    let mut client = open(&besieged);
    let end = 8 << 20;
    for offset in [end, end - 1, u64::MAX - 511, u64::MAX, 1 << 63] {
        client.ask(Request { command: READ, offset, length: 512, ..Request::default() }, &[]);
        assert!(client.acknowledgement().is_err(), "a read at {offset:#x}");
        let write = Request { command: WRITE, offset, length: 512, ..Request::default() };
        client.ask(write, &[0; 512]);
        assert!(client.acknowledgement().is_err(), "a write at {offset:#x}");
    }
    assert_eq!(client.read(end - 512, 512).map(|data| data.len()), Ok(512));
    besieged.assert_unharmed();
}

#[test]
fn an_oversized_read_is_refused() {
    let mut besieged = Besieged::new();
    for length in [u32::MAX, 1 << 31, 128 << 20] {
        let mut client = open(&besieged);
        client.ask(Request { command: READ, length, ..Request::default() }, &[]);
        assert!(client.acknowledgement().is_err(), "a read of {length} bytes");
        assert_eq!(client.read(0, 512).map(|data| data.len()), Ok(512));
    }
    besieged.assert_unharmed();
}

/// A payload that no server should take: it is refused or hung up on, never stored.
#[test]
fn an_oversized_payload_is_not_stored() {
    let mut besieged = Besieged::new();
    for length in [u32::MAX, 1 << 31, 256 << 20] {
        let mut client = open(&besieged);
        client.throw(&Request { command: WRITE, length, ..Request::default() }.bytes());
        let chunk = vec![0_u8; 1 << 20];
        let swallowed_mib = (0..255).take_while(|_| client.throw(&chunk)).count();
        assert!(swallowed_mib < 80, "the gate took {swallowed_mib} MiB of {length} bytes");
    }
    besieged.assert_unharmed();
}

/// Two requests in flight under one cookie: the client's own confusion, nobody else's.
#[test]
fn a_cookie_used_twice_confuses_only_its_user() {
    let mut besieged = Besieged::new();
    let mut client = open(&besieged);
    let twice = Request { command: READ, cookie: 7, length: 4096, ..Request::default() };
    let mut bytes = Vec::new();
    for _ in 0..64 {
        bytes.extend(twice.bytes());
    }
    client.send(&bytes);
    for _ in 0..64 {
        let Ok(reply) = client.try_take(16) else { break };
        assert_eq!(be64(&reply[8..]), 7);
        if be32(&reply[4..8]) == 0 {
            client.take(4096);
        }
    }
    besieged.assert_unharmed();
}

#[test]
fn garbage_instead_of_a_request_ends_the_connection() {
    let mut besieged = Besieged::new();
    let mut client = open(&besieged);
    client.throw(&noise(9, 28 * 4));
    assert!(client.is_hung_up());
    besieged.assert_unharmed();
}

/// nbdkit hit assertions for block status near 2^32 bytes (CVE-2025-47711, -47712).
#[test]
fn block_status_near_4_gib_adds_up() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &directory_policy("6 GiB"));
    let mut client = Client::greet(&gate.plain("disk").address);
    client.option(STRUCTURED_REPLY, &[]);
    assert_eq!(client.option_reply().kind, ACK);
    let mut data = go_data("disk");
    data.truncate(data.len() - 2);
    data.extend(1_u32.to_be_bytes());
    data.extend(15_u32.to_be_bytes());
    data.extend(*b"base:allocation");
    client.option(SET_META_CONTEXT, &data);
    assert_eq!(client.option_replies().pop().map(|last| last.kind), Some(ACK));
    assert_eq!(client.go("disk").size_bytes, 6 << 30);
    for (offset, length) in
        [(0, u32::MAX), (1, u32::MAX), (1 << 32, 1 << 31), (4096, u32::MAX - 4095)]
    {
        let ask = Request { command: BLOCK_STATUS, offset, length, ..Request::default() };
        let cookie = client.ask(ask, &[]);
        let extents = block_status_reply(&mut client, cookie);
        let described: u64 = extents.iter().map(|extent| u64::from(*extent)).sum();
        assert!(!extents.is_empty() && extents.iter().all(|extent| *extent > 0));
        // The last extent may reach beyond what was asked, none beyond the disk.
        assert!(offset + described <= 6 << 30, "{described} bytes from {offset}");
    }
    gate.assert_serves("disk");
}

/// The lengths in the reply to a block status request.
fn block_status_reply(client: &mut Client, cookie: u64) -> Vec<u32> {
    let mut extents = Vec::new();
    loop {
        let header = client.take(20);
        assert_eq!(be64(&header[8..16]), cookie);
        let flags = u16::from_be_bytes([header[4], header[5]]);
        let kind = u16::from_be_bytes([header[6], header[7]]);
        let data = client.take(be32(&header[16..20]) as usize);
        assert!(kind < 1 << 15, "an error: {data:x?}");
        if kind == 5 {
            extents.extend(data[4..].chunks(8).map(|extent| be32(&extent[..4])));
        }
        if flags & 1 != 0 {
            return extents;
        }
    }
}

/// One byte at a time, with a neighbour at work between any two of them.
#[test]
fn a_slow_writer_is_served_and_holds_up_nobody() {
    let mut besieged = Besieged::new();
    let mut slow = open(&besieged);
    let mut neighbour = open(&besieged);
    for byte in write_of_a_block().into_iter().take(28 + 200) {
        slow.send(&[byte]);
        assert!(neighbour.read(0, 512).is_ok());
    }
    slow.send(&write_of_a_block()[28 + 200..]);
    assert_eq!(slow.acknowledgement(), Ok(()));
    besieged.assert_unharmed();
}

#[test]
fn a_slow_reader_gets_everything_and_holds_up_nobody() {
    let mut besieged = Besieged::new();
    let mut slow = open(&besieged);
    let data = noise(5, 1 << 20);
    assert_eq!(slow.write(0, &data), Ok(()));
    slow.ask(Request { command: READ, length: 1 << 20, ..Request::default() }, &[]);
    let mut neighbour = open(&besieged);
    let mut got = Vec::new();
    assert_eq!(slow.simple_reply().0, 0);
    while got.len() < data.len() {
        let rest = data.len() - got.len();
        got.extend(slow.take(rest.min(16_000)));
        let start = Instant::now();
        assert!(neighbour.read(0, 512).is_ok());
        assert!(start.elapsed() < Duration::from_secs(2), "the neighbour waits");
    }
    assert!(got == data, "the slow reader got other bytes");
    besieged.assert_unharmed();
}

/// Refusals cost the gate an answer each, and no share slows them: a client that asks for ever and
/// reads nothing is no longer listened to, before its answers fill the memory.
#[test]
fn a_client_that_reads_none_of_its_refusals_is_no_longer_listened_to() {
    let mut besieged = Besieged::new();
    let mut client = Client::open_for(&besieged.gate.plain("disk"), Duration::from_secs(1));
    let before_bytes = besieged.gate.resident_bytes();
    let beyond = Request { command: READ, offset: 1 << 60, length: 512, ..Request::default() };
    let batch = beyond.bytes().repeat(4096);
    let mut sent_bytes = 0;
    while client.throw(&batch) {
        sent_bytes += batch.len();
        assert!(sent_bytes < 256 << 20, "the gate listens without end");
    }
    let grown_bytes = besieged.gate.resident_bytes().saturating_sub(before_bytes);
    assert!(grown_bytes < 96 << 20, "{grown_bytes} bytes of answers");
    besieged.assert_unharmed();
}

/// A client that vanishes with requests in flight leaves no request, no memory, no connection.
#[test]
fn a_vanished_client_leaves_nothing_behind() {
    let mut besieged = Besieged::new();
    for _ in 0..50 {
        let mut client = open(&besieged);
        for _ in 0..32 {
            client.throw(&read_of_a_block());
            client.throw(&write_of_a_block());
        }
    }
    crate::harness::wait_for("the gate to clear up", || {
        let status = besieged.gate.status();
        let held = status["memory"]["bytes"].as_u64().expect("a number");
        let open = status["connections"]["open"].as_u64().expect("a number");
        (held == 0 && open == 0).then_some(())
    });
    besieged.assert_unharmed();
}
