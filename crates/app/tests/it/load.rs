//! Many connections and greedy ones leave memory and neighbours alone.

use std::time::{Duration, Instant};

use crate::harness::gate::{Gate, memory_policy};
use crate::harness::nbd::{Client, READ, Request, WRITE};
use crate::harness::{Scratch, noise, wait_for};

const MIB: u64 = 1 << 20;

/// What one tenant may hold, and all of them.
const BOUNDS: &str = "[memory]\nper_tenant = \"48 MiB\"\ntotal = \"96 MiB\"\n";

fn start(size: &str) -> (Gate, Scratch) {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &format!("{BOUNDS}{}", memory_policy(size)));
    (gate, scratch)
}

/// The longest of 200 small reads by a client that does nothing wrong.
fn worst_read(gate: &Gate) -> Duration {
    let mut client = Client::open(&gate.plain("disk"));
    let timed = |_| {
        let start = Instant::now();
        assert!(client.read(0, 4096).is_ok());
        start.elapsed()
    };
    (0..200).map(timed).max().expect("200 reads")
}

#[test]
fn a_thousand_idle_connections_cost_little_and_slow_nobody() {
    let (gate, _scratch) = start("8 MiB");
    let before = gate.resident_bytes();
    let mut idle: Vec<Client> = (0..1000).map(|_| Client::open(&gate.plain("disk"))).collect();
    assert_eq!(gate.status()["connections"]["open"], 1000);
    let each = gate.resident_bytes().saturating_sub(before) / 1000;
    assert!(each < 40 << 10, "an idle connection occupies {each} bytes");
    assert!(worst_read(&gate) < Duration::from_secs(1));
    for client in &mut idle {
        assert!(client.read(0, 512).is_ok(), "an idle connection was dropped");
    }
}

/// Idle after work: what a connection used in its best times is given back.
#[test]
fn connections_that_fall_idle_give_back_their_buffers() {
    let (gate, _scratch) = start("8 MiB");
    let before = gate.resident_bytes();
    let data = noise(1, 1 << 20);
    let mut clients: Vec<Client> = (0..200).map(|_| Client::open(&gate.plain("disk"))).collect();
    for client in &mut clients {
        assert_eq!(client.write(0, &data), Ok(()));
        assert!(client.read(0, 1 << 20).is_ok());
    }
    assert_eq!(gate.status()["memory"]["bytes"], 0, "payload is held for nobody");
    let grown_mib = gate.resident_bytes().saturating_sub(before) / MIB;
    assert!(grown_mib < 96 + 32, "200 idle connections hold {grown_mib} MiB");
}

#[test]
fn two_hundred_busy_connections_are_all_served_right() {
    let (gate, _scratch) = start("64 MiB");
    let busy = |number: u64| {
        let mut client = Client::open(&gate.plain("disk"));
        for round in 0..25 {
            let data = noise(number * 100 + round, 16_384);
            assert_eq!(client.write(number * 65_536, &data), Ok(()));
            assert!(client.read(number * 65_536, 16_384).as_ref() == Ok(&data), "other bytes");
        }
    };
    std::thread::scope(|scope| {
        for number in 0..200 {
            scope.spawn(move || busy(number));
        }
    });
    gate.assert_serves("disk");
}

/// Reads of 1 MiB are asked for as long as the gate listens, and no answer is ever taken.
#[test]
fn a_client_that_never_reads_neither_grows_the_gate_nor_stalls_others() {
    let (gate, _scratch) = start("8 MiB");
    let before = gate.resident_bytes();
    let mut greedy: Vec<Client> = (0..4).map(|_| Client::open(&gate.plain("disk"))).collect();
    let asks = Request { command: READ, length: 1 << 20, ..Request::default() }.bytes().repeat(500);
    for client in &mut greedy {
        client.throw(&asks);
    }
    assert!(worst_read(&gate) < Duration::from_secs(2), "the neighbour is stalled");
    let grown_mib = gate.resident_bytes().saturating_sub(before) / MIB;
    assert!(grown_mib < 96 + 32, "the gate grew by {grown_mib} MiB");
    let held = gate.status()["memory"]["bytes"].as_u64().expect("a number");
    assert!(held <= 96 * MIB, "{held} bytes of payload are held");
    drop(greedy);
    gate.assert_serves("disk");
}

/// A queue before many servers has to reach all of them: no bound of its own for a connection
/// keeps it below what its tenant may hold.
#[test]
fn one_connection_may_hold_all_that_its_tenant_may() {
    let scratch = Scratch::new();
    let slow = "[[tenant]]\nname = \"slow\"\nmatch = { export = \"disk\" }\nlimit = \"1 iops\"\n";
    let policy = format!("{BOUNDS}{}{slow}", memory_policy("8 MiB"));
    let gate = Gate::start(&scratch, &policy);
    let mut client = Client::open(&gate.plain("disk"));
    let ask = Request { command: READ, length: 1 << 20, ..Request::default() };
    client.throw(&ask.bytes().repeat(100));
    let held = || gate.status()["memory"]["bytes"].as_u64();
    // A sixty-fourth is for connections that hold nothing yet, and requests of 1 MiB leave a rest.
    wait_for("46 of 48 MiB are held", || held().filter(|&held| held >= 46 * MIB));
    assert!(held() <= Some(48 * MIB), "more than the tenant may hold");
}

/// Headers of writes whose payload never comes hold no memory that others need.
#[test]
fn promised_payloads_that_never_come_stall_nobody() {
    let (gate, _scratch) = start("64 MiB");
    let mut liars: Vec<Client> = (0..100).map(|_| Client::open(&gate.plain("disk"))).collect();
    let promise = Request { command: WRITE, length: 32 << 20, ..Request::default() };
    for client in &mut liars {
        client.throw(&promise.bytes());
        client.throw(&[0; 1000]);
    }
    let grown_mib = gate.resident_bytes() / MIB;
    assert!(grown_mib < 300, "the gate occupies {grown_mib} MiB");
    drop(liars);
    gate.assert_serves("disk");
}

#[test]
fn memory_stays_flat_over_many_requests() {
    let (gate, _scratch) = start("8 MiB");
    let mut client = Client::open(&gate.plain("disk"));
    let mut run = |batches: u32| {
        let batch = Request { command: READ, length: 512, ..Request::default() }.bytes().repeat(64);
        for _ in 0..batches {
            client.send(&batch);
            client.take(64 * (16 + 512));
        }
    };
    // Until the flight recorder has its 16 MiB: such a request takes seven bytes there.
    run(50_000);
    let warm = gate.resident_bytes();
    run(3000);
    let grown_kib = gate.resident_bytes().saturating_sub(warm) >> 10;
    assert!(grown_kib < 2048, "192,000 requests later the gate is {grown_kib} KiB larger");
}
