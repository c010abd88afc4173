//! What the words of many gates cost one of them: processor time, datagrams and memory.
//!
//! Up to fifty gates each is a process. Beyond that two cores do not carry them: one gate is, and
//! the words of the others come at their instants from one socket, or one connection to the server,
//! as *emulated* gates with two tenants each that ask; what the gate sends reaches nobody.

use std::ops::Range;
use std::time::Instant;

use super::words::{nobodies, speak_by, taken, ticks};
use super::*;

/// How gates meet, how many there are, and whether all but one are emulated.
struct Row {
    is_nats: bool,
    gates: u32,
    is_emulated: bool,
}

const fn row(is_nats: bool, gates: u32, is_emulated: bool) -> Row {
    Row { is_nats, gates, is_emulated }
}

/// The first of each way are for the ladder.
const ROWS: [Row; 10] = [
    row(false, 5, false),
    row(false, 50, true),
    row(true, 5, false),
    row(true, 50, true),
    row(false, 50, false),
    row(false, 200, true),
    row(false, 1_000, true),
    row(true, 50, false),
    row(true, 200, true),
    row(true, 1_000, true),
];

/// All rows with `EVENKEEL_EXCHANGE_SCALE`, else the first.
fn rows() -> Range<usize> {
    let is_long = std::env::var_os("EVENKEEL_EXCHANGE_SCALE").is_some();
    0..if is_long { ROWS.len() } else { 4 }
}

/// The policy of a gate before `server`, which two tenants share.
fn policy_of_one(scratch: &Scratch, server: &str, meeting: &str) -> String {
    std::fs::write(scratch.join("exchange.key"), "a key that all gates of this test have")
        .expect("write the key");
    format!(
        "mode = \"enforce\"\n[[backend]]\nname = \"array\"\nupstream = \"{server}\"\n\
         control = \"shares\"\n[[export]]\nname = \"disk\"\nsource = \"\"\n\
         [exchange]\nname = \"test\"\n{meeting}key = \"exchange.key\"\n"
    )
}

/// What a gate had in a while.
struct Cost {
    core_percent: f64,
    words_per_s: f64,
    resident_mib: u64,
}

/// A gate that is looked at from an instant on.
struct Begun<'a> {
    gate: &'a Gate,
    at: Instant,
    ticks: u64,
    heard: u64,
}

impl<'a> Begun<'a> {
    fn now(gate: &'a Gate) -> Self {
        Self { gate, heard: taken(gate), at: Instant::now(), ticks: ticks(gate) }
    }

    fn cost(&self) -> Cost {
        let took = self.at.elapsed().as_secs_f64();
        Cost {
            core_percent: (ticks(self.gate) - self.ticks) as f64 / took,
            words_per_s: (taken(self.gate) - self.heard) as f64 / took,
            resident_mib: self.gate.resident_bytes() >> 20,
        }
    }
}

/// A gate whose 5 s with so many emulated ones beside it are looked at.
fn beside_emulated(row: &Row) -> Cost {
    const PERIODS: u32 = 25;
    let scratch = Scratch::new();
    let (_pipe, uri) = pipe(&scratch);
    let count = row.gates - 1;
    if !row.is_nats {
        let (names, own) = (nobodies(count), free_address());
        let meeting = format!("listen = \"{own}\"\npeers = {names:?}\n");
        let gate = Gate::start(&scratch, &policy_of_one(&scratch, &uri, &meeting));
        let hosts: Vec<HostId> = names.iter().map(|name| HostId::named(name)).collect();
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let mut begun = None;
        speak_by((&hosts, &own), (Method::Shares, 2), PERIODS, |_, word| {
            begun.get_or_insert_with(|| Begun::now(&gate));
            socket.send_to(word, &own).expect("loopback takes it");
        });
        return begun.expect("words were said").cost();
    }
    let server = nats::Server::start(&scratch, crate::harness::free_port());
    let meeting = nats::meeting("gate", server.port);
    let gate = Gate::start(&scratch, &policy_of_one(&scratch, &uri, &meeting));
    nats::wait_for_connection(&gate, true);
    let names: Vec<String> = (0..count).map(|other| format!("gate-{other}")).collect();
    let hosts: Vec<HostId> = names.iter().map(|name| HostId::named(name)).collect();
    let mut publisher = nats::Publisher::connect(server.port);
    let mut say = |periods| {
        let mut begun = None;
        speak_by((&hosts, "gate"), (Method::Shares, 2), periods, |from, word| {
            begun.get_or_insert_with(|| Begun::now(&gate));
            publisher.publish(&format!("evenkeel.test.{}", names[from]), word);
        });
        begun.expect("words were said").cost()
    };
    // Each joins with its first word, which is no part of what is looked at.
    say(2);
    wait_for("all to have joined", || {
        let status = gate.status();
        (status["exchange"]["peers"].as_array()?.len() == names.len()).then_some(())
    });
    say(PERIODS)
}

/// The first of so many gates, each a process, none of which has clients.
fn beside_processes(row: &Row) -> Cost {
    let scratches: Vec<Scratch> = (0..row.gates).map(|_| Scratch::new()).collect();
    let (_pipe, uri) = pipe(&scratches[0]);
    let server =
        row.is_nats.then(|| nats::Server::start(&scratches[0], crate::harness::free_port()));
    let all: Vec<String> = (0..row.gates).map(|_| free_address()).collect();
    let start = |(index, scratch): (usize, &Scratch)| {
        let meeting = match &server {
            Some(server) => nats::meeting(&format!("gate-{index}"), server.port),
            None => format!("listen = \"{}\"\npeers = {all:?}\n", all[index]),
        };
        Gate::start(scratch, &policy_of_one(scratch, &uri, &meeting))
    };
    let gates: Vec<Gate> = scratches.iter().enumerate().map(start).collect();
    wait_for_gates(&gates[0], scratches.len());
    let begun = Begun::now(&gates[0]);
    std::thread::sleep(Duration::from_secs(5));
    begun.cost()
}

#[test]
fn how_much_the_words_of_many_gates_cost() {
    needs!("nbdkit", "nats-server");
    println!("| over | gates | of a core | words a second | memory |");
    for row in &ROWS[rows()] {
        let cost = if row.is_emulated { beside_emulated(row) } else { beside_processes(row) };
        let over = if row.is_nats { "NATS" } else { "UDP" };
        let what = if row.is_emulated { ", all others emulated" } else { "" };
        let Cost { core_percent, words_per_s, resident_mib } = cost;
        println!(
            "| {over} | {}{what} | {core_percent:.1} % | {words_per_s:.0} | {resident_mib} MiB |",
            row.gates
        );
        // Five words a second of each.
        let least = 4.0 * f64::from(row.gates - 1);
        assert!(words_per_s > least, "{over}, {}: {words_per_s} of {least}", row.gates);
        assert!(resident_mib < 100, "{over}, {}: {resident_mib} MiB", row.gates);
    }
}
