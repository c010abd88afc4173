//! What the words of many gates cost one of them: processor time, datagrams and memory.
//!
//! As many as two cores carry are processes. Beyond that one gate is, and what the others say comes
//! at its instants from one socket, or one connection to the server, as from *emulated* gates with
//! two tenants each that ask: their words, or the sums of their words where there are very many.
//! What the gate sends reaches nobody.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::sums::{Collectors, each_period, sums};
use super::words::{busy, nobodies, now_ms, speak_by, taken, ticks};
use super::*;

/// What the other gates are.
#[derive(Clone, Copy)]
enum Others {
    Processes,
    Emulated,
    /// Emulated, and heard by the sums of their words.
    Summed,
}

/// How gates meet, how many there are, and what all but one are.
struct Row {
    is_nats: bool,
    gates: u32,
    others: Others,
}

const fn row(is_nats: bool, gates: u32, others: Others) -> Row {
    Row { is_nats, gates, others }
}

/// The first are for the ladder.
const ROWS: [Row; 13] = [
    row(false, 5, Others::Processes),
    row(false, 50, Others::Emulated),
    row(true, 5, Others::Processes),
    row(true, 50, Others::Emulated),
    row(true, 1_000, Others::Summed),
    row(false, 50, Others::Processes),
    row(false, 200, Others::Emulated),
    row(false, 1_000, Others::Emulated),
    row(true, 50, Others::Processes),
    row(true, 200, Others::Emulated),
    row(true, 1_000, Others::Emulated),
    row(true, 10_000, Others::Summed),
    row(true, 200, Others::Processes),
];

/// All rows with `EVENKEEL_EXCHANGE_SCALE`, else the first.
fn rows() -> Range<usize> {
    let is_long = std::env::var_os("EVENKEEL_EXCHANGE_SCALE").is_some();
    0..if is_long { ROWS.len() } else { 5 }
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
            publisher.publish(&nats::words_of(&names[from]), word);
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

/// A gate that hears the sums of so many others, as gates of each shard tell them that are
/// emulated.
fn beside_sums(row: &Row) -> Cost {
    const PERIODS: u32 = 25;
    let scratch = Scratch::new();
    let (_pipe, uri) = pipe(&scratch);
    let server = nats::Server::start(&scratch, crate::harness::free_port());
    let meeting = nats::meeting("gate", server.port);
    let gate = Gate::start(&scratch, &policy_of_one(&scratch, &uri, &meeting));
    nats::wait_for_connection(&gate, true);
    let word = |host: u32| Summary {
        host: HostId(host),
        incarnation: 1,
        flows: (0..2).map(busy).collect(),
        ..Summary::default()
    };
    let words: Vec<Summary> = (0..row.gates - 1).map(word).collect();
    let mut collectors = Collectors::begin(now_ms() / 200);
    let mut publisher = nats::Publisher::connect(server.port);
    let (is_over, mut begun, mut left) = (AtomicBool::new(false), None, PERIODS);
    each_period(&is_over, |period| {
        for (subject, word) in collectors.add(period, &words) {
            publisher.publish(&subject, &word);
        }
        if begun.is_some() {
            left -= 1;
        } else if sums(&gate) == Some((u64::from(row.gates), false)) {
            begun = Some(Begun::now(&gate));
        }
        is_over.store(left == 0, Ordering::Relaxed);
    });
    begun.expect("sums were heard").cost()
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
    wait_for("all to be heard", || {
        let by_sums = sums(&gates[0]).map(|(gates, _)| usize::try_from(gates).expect("few"));
        let by_words = gates_heard(&gates[0]);
        (by_sums.unwrap_or(by_words) == scratches.len()).then_some(())
    });
    let begun = Begun::now(&gates[0]);
    std::thread::sleep(Duration::from_secs(5));
    begun.cost()
}

#[test]
fn how_much_the_words_of_many_gates_cost() {
    needs!("nbdkit", "nats-server");
    println!("| over | gates | of a core | words a second | memory |");
    for row in &ROWS[rows()] {
        let (cost, what) = match row.others {
            Others::Processes => (beside_processes(row), ""),
            Others::Emulated => (beside_emulated(row), ", all others emulated"),
            Others::Summed => (beside_sums(row), ", by sums, all others emulated"),
        };
        let over = if row.is_nats { "NATS" } else { "UDP" };
        let Cost { core_percent, words_per_s, resident_mib } = cost;
        println!(
            "| {over} | {}{what} | {core_percent:.1} % | {words_per_s:.0} | {resident_mib} MiB |",
            row.gates
        );
        // Five words a second of each, or two sums and a roster of each shard at least.
        let heard = if row.gates < 64 || matches!(row.others, Others::Emulated) {
            row.gates - 1
        } else {
            16
        };
        let least = 4.0 * f64::from(heard);
        assert!(words_per_s > least, "{over}, {}: {words_per_s} of {least}", row.gates);
        assert!(resident_mib < 100, "{over}, {}: {resident_mib} MiB", row.gates);
    }
}
