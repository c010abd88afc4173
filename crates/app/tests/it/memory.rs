//! Memory under tenants who announce much and send little, or ask for much and read nothing.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::harness::gate::Gate;
use crate::harness::nbd::{Client, READ, Request, WRITE};
use crate::harness::skip::tell;
use crate::harness::{Scratch, wait_for};

/// The default of the policy.
const BOUND_BYTES: u64 = 256 << 20;

/// The largest request.
const LARGEST: u32 = 32 << 20;

/// A gate for a victim and four others, of one share each, with an export in memory for each.
fn gate(scratch: &Scratch, more: &str) -> Gate {
    let mut policy =
        format!("mode = \"enforce\"\n[[backend]]\nname = \"memory\"\nmemory = true\n{more}");
    for name in ["victim", "bad0", "bad1", "bad2", "bad3"] {
        let _ = write!(
            policy,
            "[[export]]\nname = \"{name}\"\nbackend = \"memory\"\nsize = \"64 MiB\"\n\
             [[tenant]]\nname = \"{name}\"\nmatch = {{ export = \"{name}\" }}\n"
        );
    }
    Gate::start(scratch, &policy)
}

fn held_bytes(gate: &Gate) -> u64 {
    gate.status()["memory"]["bytes"].as_u64().expect("a number")
}

/// Connections of the four others, so many each.
fn others(gate: &Gate, each: usize) -> Vec<Client> {
    let names = ["bad0", "bad1", "bad2", "bad3"];
    let open = |name| Client::open_for(&gate.plain(name), Duration::from_mins(1));
    names.into_iter().flat_map(|name| (0..each).map(move |_| open(name))).collect()
}

/// Announces a write of the largest size, and sends so much of it.
fn begin_body(client: &mut Client, bytes: usize) {
    let request = Request { command: WRITE, length: LARGEST, ..Request::default() };
    client.send(&request.bytes());
    client.throw(&vec![7; bytes]);
}

/// Writes of 1 MiB that the victim gets done in a second.
fn rate(victim: &mut Client) -> f64 {
    let block = vec![1; 1 << 20];
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < Duration::from_secs(1) {
        victim.write(0, &block).expect("served");
        count += 1;
    }
    f64::from(count) / began.elapsed().as_secs_f64()
}

/// What the victim gets beside an attack, of what it gets beside the same connections at rest.
fn assert_unharmed(attack: impl Fn(&mut Client, &AtomicBool) + Sync) {
    let mut tries = Vec::new();
    for _ in 0..3 {
        let scratch = Scratch::new();
        let gate = gate(&scratch, "");
        let mut victim = Client::open(&gate.plain("victim"));
        let mut attackers = others(&gate, 2);
        let at_rest = rate(&mut victim);
        let is_over = AtomicBool::new(false);
        let attacked = std::thread::scope(|scope| {
            for attacker in &mut attackers {
                scope.spawn(|| attack(attacker, &is_over));
            }
            std::thread::sleep(Duration::from_millis(500));
            let rates: Vec<f64> = (0..3)
                .map(|_| {
                    assert!(held_bytes(&gate) <= BOUND_BYTES);
                    rate(&mut victim)
                })
                .collect();
            is_over.store(true, Ordering::Relaxed);
            rates.into_iter().fold(0.0, f64::max)
        });
        tries.push((at_rest, attacked));
        if attacked >= 0.8 * at_rest {
            return;
        }
    }
    // What stands still takes nothing; what takes the processor is not this test's.
    if tries.iter().all(|(at_rest, attacked)| *attacked > 0.3 * at_rest) {
        return tell("rates beside attackers: cannot judge at this load");
    }
    panic!("writes a second at rest and under attack: {tries:?}");
}

#[test]
fn those_who_send_a_byte_a_second_take_nothing_from_a_neighbour() {
    assert_unharmed(|client, is_over| {
        begin_body(client, 0);
        while !is_over.load(Ordering::Relaxed) && client.throw(&[7]) {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
}

#[test]
fn those_who_send_half_of_what_they_announce_take_nothing_from_a_neighbour() {
    assert_unharmed(|client, is_over| {
        begin_body(client, LARGEST as usize / 2);
        while !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn those_who_read_nothing_take_nothing_from_a_neighbour() {
    assert_unharmed(|client, is_over| {
        let request = Request { command: READ, length: LARGEST, ..Request::default() };
        client.send(&request.bytes().repeat(16));
        while !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn whoever_is_slow_with_memory_that_others_wait_for_is_cut_and_named() {
    let scratch = Scratch::new();
    let gate = gate(&scratch, "[memory]\ntotal = \"96 MiB\"\n");
    // Three hold all that is nobody's own, and one part more: nobody waits yet.
    let mut slow = others(&gate, 2);
    for client in &mut slow {
        let request = Request { command: READ, length: 8 << 20, ..Request::default() };
        client.send(&request.bytes().repeat(4));
    }
    // The victim needs more than its own part, which is a fifth of a half of 63 MiB.
    let mut victim = Client::open_for(&gate.plain("victim"), Duration::from_mins(1));
    for _ in 0..3 {
        begin_body(&mut victim, 0);
        victim.send(&vec![7; LARGEST as usize]);
        assert_eq!(victim.simple_reply().0, 0);
        assert!(held_bytes(&gate) <= 96 << 20);
    }
    wait_for("somebody to be cut", || {
        let mut more = Client::open_for(&gate.plain("victim"), Duration::from_mins(1));
        more.write(0, &vec![7; LARGEST as usize]).expect("served");
        let cut = gate.status()["memory"]["cut_connections"].as_u64()?;
        (cut > 0).then_some(())
    });
    let text = gate.ctl(&["status"]);
    assert!(text.contains("too slow with memory that others waited for"), "{text}");
    assert!(text.contains(" for memory"), "{text}");
    let status = gate.status();
    let tenants = status["memory"]["tenants"].as_array().expect("a list");
    let bad0 = tenants.iter().find(|one| one["tenant"] == "bad0").expect("it waited");
    assert!(bad0["waited_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{bad0}");
}

#[test]
fn what_is_announced_and_not_sent_takes_no_memory() {
    let scratch = Scratch::new();
    let gate = gate(&scratch, "");
    let mut clients = others(&gate, 16);
    let before = gate.resident_bytes();
    for client in &mut clients {
        begin_body(client, 1);
    }
    wait_for("the bodies to begin", || (held_bytes(&gate) >= 64 * (16 << 10)).then_some(()));
    let taken = gate.resident_bytes().saturating_sub(before);
    // 64 of 32 MiB are announced. The first of each tenant is within its own part.
    assert!(taken <= held_bytes(&gate) + (16 << 20), "{taken} bytes");
}

#[test]
fn half_bodies_of_many_tenants_end_each_in_its_turn() {
    let scratch = Scratch::new();
    let gate = gate(&scratch, "[memory]\nper_tenant = \"32 MiB\"\ntotal = \"64 MiB\"\n");
    let mut clients = others(&gate, 4);
    let half = LARGEST as usize / 2;
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(move || {
                begin_body(client, half);
                std::thread::sleep(Duration::from_millis(300));
                client.send(&vec![7; half]);
                assert_eq!(client.simple_reply().0, 0);
            });
        }
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(50));
            assert!(held_bytes(&gate) <= 64 << 20);
        }
    });
    wait_for("all to be given back", || (held_bytes(&gate) == 0).then_some(()));
}
