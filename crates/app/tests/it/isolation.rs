//! Exports of one server of which some answer slowly or never: whoever uses the others gets what it
//! gets beside an honest neighbour.
//!
//! The server serves each export by its name: `quick` after 10 ms, `slow` after 500 ms, `hung`
//! never, `half` with half an answer, `drip` with a byte of it ten times a second. Requests do not
//! wait for each other.

mod attacks;
mod mix;

use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::harness::fake_server::{
    FakeServer, MULTIPLE, Offer, honest, negotiate, read_request_and_data,
};
use crate::harness::gate::{Gate, upstream_backend};
use crate::harness::nbd::{Client, EIO, GO, READ, Request, WRITE, go_data};
use crate::harness::skip::tell;
use crate::harness::target::{Address, Target};
use crate::harness::{Scratch, wait_for};

const OFFER: Offer = Offer { size_bytes: 64 << 20, structured: false, flags: MULTIPLE };
const BLOCK: u32 = 4096;
const DEPTH: u32 = 8;
/// `NBD_REP_ERR_POLICY`.
const FORBIDDEN: u32 = 0x8000_0002;

/// What a client of an export gets.
#[derive(Clone, Copy, Debug)]
struct Got {
    per_second: f64,
    p99: Duration,
}

/// Answers each request so much later as its export says.
fn serve(stream: &mut UnixStream) -> io::Result<()> {
    let export = negotiate(stream, OFFER)?;
    let delay = match export.as_str() {
        "slow" => Duration::from_millis(500),
        _ => Duration::from_millis(10),
    };
    let (answers, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    let mut back = stream.try_clone()?;
    let drips = export == "drip";
    std::thread::spawn(move || {
        for (at, answer) in due {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            for part in answer.chunks(if drips { 1 } else { answer.len() }) {
                if back.write_all(part).is_err() {
                    return;
                }
                if drips {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    });
    loop {
        let (request, _) = read_request_and_data(stream)?;
        let answer = match export.as_str() {
            "hung" => continue,
            "half" => {
                let whole = honest(request, 1);
                whole[..whole.len() / 2].to_vec()
            }
            _ => honest(request, 1),
        };
        let _ = answers.send((Instant::now() + delay, answer));
    }
}

/// A gate before such a server: a tenant for each of these exports, with its share.
fn gate(scratch: &Scratch, exports: &[(&str, &str, u32)], more: &str) -> (FakeServer, Gate) {
    let server = FakeServer::start(scratch, serve);
    let address = Address::Unix(server.path.clone());
    let target = Target { address, export: String::new(), certificates: None };
    let mut policy = format!("mode = \"enforce\"\n{}", upstream_backend(&target));
    let _ = write!(policy, "depth = {DEPTH}\ncost = \"request\"\n{more}");
    for (name, source, share) in exports {
        let _ = write!(
            policy,
            "[[export]]\nname = \"{name}\"\nbackend = \"upstream\"\nsource = \"{source}\"\n\
             [[tenant]]\nname = \"{name}\"\nshare = {share}\nmatch = {{ export = \"{name}\" }}\n"
        );
    }
    (server, Gate::start(scratch, &policy))
}

fn read(client: &mut Client) {
    client.ask(Request { command: READ, length: BLOCK, ..Request::default() }, &[]);
}

/// Whoever comes is given its slots within a second.
const WARM_UP: Duration = Duration::from_secs(1);

/// Keeps so many reads of an export outstanding, and counts for so long after a second.
fn load(gate: &Gate, export: &str, outstanding: u32, length: Duration) -> Got {
    let mut client = Client::open_for(&gate.plain(export), Duration::from_secs(15));
    let mut sent = std::collections::VecDeque::new();
    let began = Instant::now();
    let mut latencies = Vec::new();
    for _ in 0..outstanding {
        read(&mut client);
        sent.push_back(Instant::now());
    }
    while began.elapsed() < WARM_UP + length {
        assert_eq!(client.simple_reply().0, 0, "{export}");
        client.take(BLOCK as usize);
        let sent_at: Instant = sent.pop_front().expect("it was asked");
        if began.elapsed() > WARM_UP {
            latencies.push(sent_at.elapsed());
        }
        read(&mut client);
        sent.push_back(Instant::now());
    }
    latencies.sort_unstable();
    let per_second = latencies.len() as f64 / began.elapsed().saturating_sub(WARM_UP).as_secs_f64();
    Got { per_second, p99: latencies[latencies.len() * 99 / 100] }
}

/// What the victim gets beside a neighbour at this export.
fn beside(neighbour: &str, shares: [u32; 2]) -> Got {
    let scratch = Scratch::new();
    let exports = [("victim", "quick", shares[0]), ("neighbour", neighbour, shares[1])];
    let (_server, gate) = gate(&scratch, &exports, "");
    let mut other = Client::open_for(&gate.plain("neighbour"), Duration::from_secs(15));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..64).for_each(|_| read(&mut other));
            while neighbour == "quick" && !stop.load(std::sync::atomic::Ordering::Relaxed) {
                other.simple_reply();
                other.take(BLOCK as usize);
                read(&mut other);
            }
        });
        // The neighbour takes what it can get first.
        std::thread::sleep(Duration::from_millis(700));
        let got = load(&gate, "victim", 64, Duration::from_secs(2));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        got
    })
}

fn assert_unharmed(neighbour: &str, shares: [u32; 2]) {
    let mut tries = Vec::new();
    for _ in 0..3 {
        let [honest, attacked] = ["quick", neighbour].map(|export| beside(export, shares));
        tries.push((honest, attacked));
        let is_as_before = attacked.per_second >= 0.95 * honest.per_second;
        if is_as_before && attacked.p99 <= 2 * honest.p99 {
            return;
        }
    }
    // What the server can do for half of the depth, or all of it.
    let share = f64::from(shares[0]) / f64::from(shares[0] + shares[1]);
    let should_be = f64::from(DEPTH) * share / 0.010;
    if tries.iter().all(|(honest, _)| honest.per_second < 0.8 * should_be) {
        return tell("rates beside a neighbour: cannot judge at this load");
    }
    panic!("beside `{neighbour}` at {shares:?}: {tries:?}");
}

#[test]
fn an_export_that_hangs_takes_nothing_from_its_neighbour() {
    assert_unharmed("hung", [1, 1]);
}

#[test]
fn an_export_that_takes_half_a_second_takes_nothing_from_its_neighbour() {
    assert_unharmed("slow", [1, 1]);
    assert_unharmed("slow", [100, 1]);
}

#[test]
fn an_export_that_hangs_is_named_and_its_requests_fail_in_time() {
    for export in ["hung", "half", "drip"] {
        let scratch = Scratch::new();
        let exports = [("victim", "quick", 1), ("bad", export, 1)];
        let (_server, gate) = gate(&scratch, &exports, "request_timeout = \"4 s\"\n");
        let began = Instant::now();
        let mut client = Client::open(&gate.plain("bad"));
        read(&mut client);
        client.ask(
            Request { command: WRITE, offset: 8192, length: BLOCK, ..Request::default() },
            &[7; BLOCK as usize],
        );
        wait_for("the status names the export", || {
            let status = gate.status();
            let hanging = &status["domains"][0]["servers"][0]["hanging"][0];
            (hanging["tenant"] == "bad" && hanging["export"] == export).then_some(())
        });
        let text = gate.ctl(&["status"]);
        assert!(text.contains(&format!("{export} has not answered bad for")), "{text}");
        for _ in 0..2 {
            assert_eq!(client.simple_reply().0, EIO);
        }
        let took = began.elapsed();
        // The write is younger, and may have a second time; the default would be 30 s.
        let within = Duration::from_secs(4)..Duration::from_secs(20);
        assert!(within.contains(&took), "{took:?}");
        let status = gate.status();
        assert_eq!(status["backends"][0]["timed_out_requests"], 2);
        load(&gate, "victim", 16, Duration::from_millis(300));
    }
}

#[test]
fn a_client_that_leaves_an_export_that_hangs_takes_no_slot_with_it() {
    let scratch = Scratch::new();
    let exports = [("victim", "quick", 1), ("bad", "hung", 1)];
    let (_server, gate) = gate(&scratch, &exports, "");
    for _ in 0..3 {
        let mut client = Client::open(&gate.plain("bad"));
        (0..64).for_each(|_| read(&mut client));
        std::thread::sleep(Duration::from_millis(1200));
    }
    let got = load(&gate, "victim", 1, Duration::from_secs(1));
    assert!(got.per_second > 20.0, "{got:?}: one at a time, of 10 ms each");
}

/// Two exports in memory, a tenant for each, and twenty connections.
fn narrow_gate(scratch: &Scratch) -> Gate {
    let mut policy =
        "[memory]\nconnections = 20\n[[backend]]\nname = \"memory\"\nmemory = true\n".to_owned();
    for name in ["evil", "good"] {
        let _ = write!(
            policy,
            "[[export]]\nname = \"{name}\"\nbackend = \"memory\"\nsize = \"1 MiB\"\n\
             [[tenant]]\nname = \"{name}\"\nmatch = {{ export = \"{name}\" }}\n"
        );
    }
    Gate::start(scratch, &policy)
}

#[test]
fn a_tenant_that_takes_all_connections_leaves_the_others_theirs() {
    let scratch = Scratch::new();
    let gate = narrow_gate(&scratch);
    let target = gate.plain("evil");
    let mut clients: Vec<Client> = (0..30).filter_map(|_| Client::try_open(&target)).collect();
    assert!((10..20).contains(&clients.len()), "{} of 20", clients.len());
    let mut refused = Client::greet(&target.address);
    refused.option(GO, &go_data("evil"));
    let reply = refused.option_replies().pop().expect("an answer");
    let text = String::from_utf8_lossy(&reply.data);
    assert_eq!(reply.kind, FORBIDDEN);
    assert!(text.contains("tenant \"evil\" has as many connections"), "{text}");
    let good: Vec<Client> = (0..3).map(|_| Client::open(&gate.plain("good"))).collect();
    assert!(gate.process.log().contains("connection refused: tenant \"evil\""));
    assert_eq!(clients.pop().expect("one").read(0, 4096), Ok(vec![0; 4096]));
    wait_for("whoever leaves makes room", || Client::try_open(&target));
    drop(good);
}

#[test]
fn those_who_never_say_who_they_are_keep_nobody_out() {
    let scratch = Scratch::new();
    let gate = narrow_gate(&scratch);
    let target = gate.plain("good");
    let mut silent = Vec::new();
    for n in 0..500 {
        silent.push(crate::harness::nbd::dial(&target.address));
        if n % 50 == 49 {
            let mut client = Client::open(&target);
            assert_eq!(client.read(0, 4096), Ok(vec![0; 4096]));
        }
    }
    let connections = gate.status()["connections"]["open"].as_u64();
    assert!(connections.is_some_and(|open| open < 150), "{connections:?}: the oldest were ended");
}
