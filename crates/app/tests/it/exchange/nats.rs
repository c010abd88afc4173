//! Gates that meet over a NATS server hear each other, go on without it, and believe it nothing.

use std::io::{Read, Write};
use std::net::TcpStream;

use evenkeel_core::control::sums::Shard;

use super::words::tagged;
use super::*;
use crate::harness::free_port;
use crate::harness::process::Process;
use crate::harness::storage;

/// Debian's server on a port of its own.
pub(super) struct Server {
    process: Process,
    pub(super) port: u16,
}

/// Somebody who publishes whatever it is given.
pub(super) struct Publisher(TcpStream);

impl Publisher {
    pub(super) fn connect(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.write_all(b"CONNECT {\"verbose\":false}\r\n").expect("it reads");
        Self(stream)
    }

    pub(super) fn publish(&mut self, subject: &str, payload: &[u8]) {
        let head = format!("PUB {subject} {}\r\n", payload.len());
        self.0.write_all(&[head.as_bytes(), payload, b"\r\n"].concat()).expect("it reads");
    }
}

impl Server {
    pub(super) fn start(scratch: &Scratch, port: u16) -> Self {
        let number = port.to_string();
        let line = ["-a", "127.0.0.1", "-p", &number];
        let mut process = Process::start(scratch.path(), "nats-server", &line);
        process.wait_until("listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { process, port }
    }

    /// Publishes something as whoever can reach the server may.
    fn publish(&self, subject: &str, payload: &[u8]) {
        let mut publisher = Publisher::connect(self.port);
        publisher.publish(subject, payload);
        let mut stream = publisher.0;
        stream.write_all(b"PING\r\n").expect("it reads");
        let mut answer = Vec::new();
        while !answer.ends_with(b"PONG\r\n") {
            let mut bytes = [0; 4096];
            let length = stream.read(&mut bytes).expect("it answers");
            assert!(length > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend(&bytes[..length]);
        }
    }
}

/// Where a gate of this name publishes its words on the array.
pub(super) fn words_of(gate: &str) -> String {
    let (device, shard) = (DeviceId::named("test", "array").0, Shard::of(HostId::named(gate)));
    format!("evenkeel.test.{device:08x}.words.{}.{gate}", shard.number())
}

pub(super) fn meeting(own: &str, port: u16) -> String {
    format!("own = \"{own}\"\nnats = [\"nats://127.0.0.1:{port}\"]\n")
}

pub(super) fn wait_for_connection(gate: &Gate, is_there: bool) {
    wait_for(&format!("connected: {is_there}"), || {
        (gate.status()["exchange"]["server"]["connected"] == is_there).then_some(())
    });
}

#[test]
fn two_gates_of_one_name_are_found_out() {
    needs!("nbdkit", "nats-server");
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (_pipe, uri) = pipe(&scratch);
    let server = Server::start(&scratch, free_port());
    let meeting = meeting("gate-1", server.port);
    let start = |folder: &Scratch| Gate::start(folder, &policy_meeting(folder, &uri, &meeting, ""));
    let (one, two) = (start(&scratch), start(&other));
    for gate in [&one, &two] {
        wait_for("the other one is found", || {
            (gate.status()["exchange"]["has_duplicate_name"] == true).then_some(())
        });
    }
    let shown = one.ctl(&["status"]);
    assert!(shown.contains("another gate is called gate-1 too"), "{shown}");
}

#[test]
fn gates_meet_over_a_server_and_go_on_while_it_is_away() {
    needs!("nbdkit", "nats-server");
    let (scratch, other, late) = (Scratch::new(), Scratch::new(), Scratch::new());
    let (_pipe, uri) = pipe(&scratch);
    let port = free_port();
    let start = |folder: &Scratch, own: &str| {
        Gate::start(folder, &policy_meeting(folder, &uri, &meeting(own, port), ""))
    };
    // The gates are there before their server.
    let one = start(&scratch, "gate-1");
    let two = start(&other, "10.0.0.2: a name");
    one.assert_serves("disk");
    wait_for_connection(&one, false);
    let mut server = Server::start(&scratch, port);
    wait_for_gates(&one, 2);
    wait_for_gates(&two, 2);
    let names = one.status()["exchange"]["peers"][0]["name"].clone();
    assert_eq!(names, "10.0.0.2: a name");

    let report = std::thread::scope(|scope| {
        let load = scope.spawn(|| bench(&scratch, "--depth 8 --runtime 6s"));
        server.process.kill();
        wait_for_connection(&one, false);
        wait_for_gates(&one, 1);
        let shown = one.ctl(&["status"]);
        assert!(shown.contains("over nats at 127.0.0.1") && shown.contains("not connected"));
        server = Server::start(&scratch, port);
        wait_for_gates(&one, 2);
        load.join().expect("the load ends")
    });
    assert_eq!(report["jobs"][0]["error"], 0, "{report}");
    let exchange = &one.status()["exchange"];
    assert!(exchange["server"]["connects"].as_u64() >= Some(2), "{exchange}");

    let _late = start(&late, "gate-3");
    wait_for_gates(&one, 3);
    wait_for_gates(&two, 3);
}

/// Requests per second of a tenant that has clients at one gate of two, each with a server of its
/// own: 1,000 if totals count, since the other tenant has the other server, and 500 if not.
fn narrow_per_s(scratch: &Scratch, options: &str) -> f64 {
    let report = bench_of(scratch, "narrow", &format!("--depth 32 {options}"));
    report["jobs"][0]["read"]["iops"].as_f64().expect("a rate")
}

#[test]
fn totals_over_gates_are_kept_while_their_server_is_away() {
    needs!("nbdkit", "nats-server");
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let ((_one, near), (_two, far)) = (pipe(&scratch), pipe(&other));
    let port = free_port();
    let mut server = Server::start(&scratch, port);
    let start = |folder: &Scratch, own: &str, uri: &str| {
        Gate::start(folder, &policy_in_all_meeting(folder, uri, &meeting(own, port)))
    };
    let one = start(&scratch, "gate-1", &near);
    let _two = start(&other, "gate-2", &far);
    wait_for_connection(&one, true);
    let presumed = || one.status()["exchange"]["groups"][0]["presumed_seconds"].as_f64();
    std::thread::scope(|scope| {
        for folder in [&scratch, &other] {
            scope.spawn(|| bench_of(folder, "wide", "--depth 32 --runtime 26s"));
        }
        let before = narrow_per_s(&scratch, "--ramp 4s --runtime 3s");
        assert!(before > 800.0 && presumed().is_none(), "{before} requests per second");
        server.process.kill();
        wait_for_connection(&one, false);
        let meanwhile = narrow_per_s(&scratch, "--ramp 3s --runtime 4s");
        assert!(meanwhile > 800.0, "{meanwhile} requests per second without the server");
        assert!(presumed() > Some(3.0), "{:?}", presumed());
        let shown = one.ctl(&["status"]);
        assert!(shown.contains("they are taken to serve what they did"), "{shown}");
        server = Server::start(&scratch, port);
        wait_for("the other gate", || presumed().is_none().then_some(()));
        let after = narrow_per_s(&scratch, "--ramp 2s --runtime 3s");
        assert!(after > 800.0, "{after} requests per second with the server again");
    });
}

/// A gate that is connected to its server, and alone there.
fn one_gate(scratch: &Scratch) -> (storage::Server, Server, Gate) {
    let (pipe, uri) = pipe(scratch);
    let server = Server::start(scratch, free_port());
    let meeting = meeting("gate-1", server.port);
    let gate = Gate::start(scratch, &policy_meeting(scratch, &uri, &meeting, ""));
    wait_for_connection(&gate, true);
    (pipe, server, gate)
}

#[test]
fn what_strangers_publish_is_refused_and_counted() {
    needs!("nbdkit", "nats-server");
    let scratch = Scratch::new();
    let (_pipe, server, gate) = one_gate(&scratch);
    let summary = Summary { host: HostId::named("gate-2"), period: 1, ..Summary::default() };
    let mut body = Vec::new();
    let terms = Terms::new(Method::Slack, Span::from_millis(200));
    let device = DeviceId::named("test", "array");
    encode(&Datagram { device, terms, summary, ..Datagram::default() }, &mut body);
    let forged = sealed(body, [7; 16]);
    wait_for("the subscription and the refusals", || {
        for subject in [&words_of("gate-2"), "evenkeel.test.gate-2"] {
            server.publish(subject, &forged);
            server.publish(subject, b"EX");
            server.publish(subject, &vec![0x45; DATAGRAM_BYTES_MAX + 1]);
        }
        server.publish("evenkeel.other.gate-2", &forged);
        let refused = &gate.status()["exchange"]["refused"];
        let (forged, malformed) = (refused["forged"].as_u64(), refused["malformed"].as_u64());
        (forged >= Some(3) && malformed >= Some(6)).then_some(())
    });
    let exchange = &gate.status()["exchange"];
    assert_eq!(exchange["peers"].as_array().map(Vec::len), Some(0), "{exchange}");
    gate.assert_serves("disk");
    wait_for_gates(&gate, 1);
}

#[test]
fn a_gate_of_an_older_version_is_named() {
    needs!("nbdkit", "nats-server");
    let scratch = Scratch::new();
    let (_pipe, server, gate) = one_gate(&scratch);
    let summary = Summary { host: HostId::named("gate-2"), period: 1, ..Summary::default() };
    let mut body = Vec::new();
    encode(&Datagram { summary, ..Datagram::default() }, &mut body);
    body[2] = 3;
    let word = tagged(body);
    let said = wait_for("it to be named", || {
        server.publish("evenkeel.test.gate-2", &word);
        let peer = gate.status()["exchange"]["peers"][0].clone();
        peer["refused_because"].as_str().map(|said| format!("{}: {said}", peer["name"]))
    });
    let expected = "\"gate-2\": it speaks version 3 of the exchange, this gate 4: upgrade all";
    assert_eq!(said, expected);
}

/// The gate that leads the search for the depth starts anew: the others keep what was found.
#[test]
fn the_depth_that_was_found_outlives_the_gate_that_leads() {
    needs!("nbdkit", "nats-server");
    let scratches = [Scratch::new(), Scratch::new(), Scratch::new()];
    let (_pipe, uri) = pipe_of(&scratches[0], 20_000);
    let port = free_port();
    let _server = Server::start(&scratches[0], port);
    let mut names = ["gate-1", "gate-2", "gate-3"];
    names.sort_by_key(|name| HostId::named(name));
    let start = |(name, scratch): (&&str, &Scratch)| {
        let meeting = meeting(name, port);
        Gate::start(scratch, &policy_by_share(scratch, &uri, &meeting, "control = \"shares\"\n"))
    };
    let mut gates: Vec<Gate> = names.iter().zip(&scratches).map(start).collect();
    for gate in &gates {
        wait_for_gates(gate, 3);
    }
    let depth = |gate: &Gate| {
        gate.status()["exchange"]["devices"][0]["slots_all"].as_u64().expect("a depth")
    };
    std::thread::scope(|scope| {
        for scratch in &scratches {
            scope.spawn(|| bench_of(scratch, "wide", "--depth 64 --runtime 9s"));
        }
        wait_for("a depth to be found", || (depth(&gates[1]) > 8).then_some(()));
    });
    let found = depth(&gates[1]);
    gates[0].kill_and_restart();
    let mut least = found;
    for _ in 0..30 {
        least = least.min(depth(&gates[1]));
        std::thread::sleep(Duration::from_millis(100));
    }
    wait_for_gates(&gates[0], 3);
    assert!(2 * least >= found, "from {found} to {least}");
}
