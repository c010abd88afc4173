//! What a lost connection leaves unanswered is sent again only while somebody waits for it, and no
//! later than the operator's patience after it was asked.
//!
//! The server holds one block, swallows what the first connection asks it to write, and lets nobody
//! in again until it is told to.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::fake_server::{
    FakeServer, MULTIPLE, Offer, negotiate, read_request_and_data, simple,
};
use crate::harness::gate::{Gate, upstream_backend};
use crate::harness::nbd::{Client, READ, Request, WRITE};
use crate::harness::target::{Address, Target};
use crate::harness::{Scratch, wait_for};

const BLOCK: usize = 4096;
const OFFER: Offer = Offer { size_bytes: 1 << 20, structured: false, flags: 0 };

/// What the server holds and does, as the test says.
#[derive(Default)]
struct Stage {
    block: Mutex<Vec<u8>>,
    connections: AtomicU32,
    /// Writes that came over the first connection, which nobody answers.
    swallowed: AtomicU32,
    /// Writes that were carried out.
    written: AtomicU32,
    /// The first connection breaks, and nobody is let in any more.
    is_cut: AtomicBool,
    /// Whoever asks is let in again.
    is_free: AtomicBool,
    /// How long the answer to a write takes, in milliseconds.
    write_ms: AtomicU32,
}

impl Stage {
    fn serve(&self, stream: &mut UnixStream, offer: Offer) -> io::Result<()> {
        let is_first = self.connections.fetch_add(1, Ordering::Relaxed) == 0;
        while self.is_cut.load(Ordering::Relaxed) && !self.is_free.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        negotiate(stream, offer)?;
        loop {
            let (request, data) = read_request_and_data(stream)?;
            if request.command == WRITE && is_first && self.write_ms.load(Ordering::Relaxed) == 0 {
                self.swallowed.fetch_add(1, Ordering::Relaxed);
                while !self.is_cut.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                return Ok(());
            }
            self.carry_out(stream, request, data)?;
        }
    }

    fn carry_out(
        &self,
        stream: &mut UnixStream,
        request: Request,
        data: Vec<u8>,
    ) -> io::Result<()> {
        let mut block = self.block.lock().expect("no test panics with it");
        if request.command == WRITE {
            *block = data;
            self.written.fetch_add(1, Ordering::Relaxed);
            let write_ms = self.write_ms.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(write_ms.into()));
        }
        let data = if request.command == READ { &block[..] } else { &[] };
        stream.write_all(&simple(request.cookie, 0, data))
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    fn free(&self) {
        self.is_free.store(true, Ordering::Relaxed);
    }
}

/// A server and a gate before it.
fn stage(offer: Offer, patience: &str) -> (Arc<Stage>, Gate, FakeServer, Scratch) {
    let scratch = Scratch::new();
    let stage = Arc::new(Stage { block: Mutex::new(vec![0; BLOCK]), ..Stage::default() });
    let server = {
        let stage = Arc::clone(&stage);
        FakeServer::start(&scratch, move |stream| stage.serve(stream, offer))
    };
    let address = Address::Unix(server.path.clone());
    let backend = upstream_backend(&Target { address, export: String::new(), certificates: None });
    // What it has swallowed it never carries out: nobody need wait for that.
    let policy = format!(
        "{backend}connections = 2\nlate = \"0 s\"\npatience = \"{patience}\"\n\
         writes_survive_restart = true\n\
         [[export]]\nname = \"disk\"\nbackend = \"upstream\"\nsource = \"\"\n"
    );
    let gate = Gate::start(&scratch, &policy);
    (stage, gate, server, scratch)
}

fn backend(gate: &Gate, what: &str) -> u64 {
    gate.status()["backends"][0][what].as_u64().expect("a number")
}

fn in_flight(gate: &Gate) -> u64 {
    gate.status()["domains"][0]["tenants"][0]["in_flight"].as_u64().expect("a number")
}

fn ask_to_write(client: &mut Client, fill: u8) {
    let write = Request { command: WRITE, length: 4096, ..Request::default() };
    client.ask(write, &[fill; BLOCK]);
}

/// Waits until the gate has noticed that its client is gone.
fn leave(client: Client, gate: &Gate) {
    drop(client);
    let is_gone = || (gate.status()["connections"]["open"] == 0).then_some(());
    wait_for("the gate to see its client leave", is_gone);
}

fn wait_for_the_end_of_what_was_asked(gate: &Gate) {
    let ended = || backend(gate, "replayed_requests") + backend(gate, "not_replayed_requests");
    wait_for("what was asked to be sent or given up", || (ended() > 0).then_some(()));
}

#[test]
fn a_write_whose_client_is_gone_is_not_sent_again_over_a_newer_one() {
    let (stage, gate, _server, _scratch) = stage(Offer { flags: MULTIPLE, ..OFFER }, "30 s");
    let mut first = Client::open(&gate.plain("disk"));
    let both = || (stage.connections.load(Ordering::Relaxed) == 2).then_some(());
    wait_for("both connections", both);
    ask_to_write(&mut first, 1);
    let is_swallowed = || (stage.swallowed.load(Ordering::Relaxed) == 1).then_some(());
    wait_for("the write to reach the server", is_swallowed);
    leave(first, &gate);
    stage.cut();
    wait_for("the loss", || (backend(&gate, "reconnects") == 1).then_some(()));

    let mut second = Client::open(&gate.plain("disk"));
    assert_eq!(second.write(0, &[2; BLOCK]), Ok(()));
    assert_eq!(second.flush(), Ok(()));
    stage.free();
    wait_for_the_end_of_what_was_asked(&gate);
    assert_eq!(second.read(0, 4096), Ok(vec![2; BLOCK]), "the older write came last");
    assert_eq!(stage.written.load(Ordering::Relaxed), 1);
    assert_eq!((backend(&gate, "not_replayed_requests"), in_flight(&gate)), (1, 0));
}

#[test]
fn a_write_that_was_never_sent_is_not_sent_once_its_client_is_gone() {
    let (stage, gate, _server, _scratch) = stage(OFFER, "30 s");
    let mut client = Client::open(&gate.plain("disk"));
    ask_to_write(&mut client, 1);
    let is_swallowed = || (stage.swallowed.load(Ordering::Relaxed) == 1).then_some(());
    wait_for("the write to reach the server", is_swallowed);
    stage.cut();
    wait_for("the loss", || (backend(&gate, "reconnects") == 1).then_some(()));
    // While nobody lets the gate in.
    for fill in [2, 3] {
        ask_to_write(&mut client, fill);
    }
    wait_for("the writes to reach the gate", || (in_flight(&gate) == 3).then_some(()));
    leave(client, &gate);
    stage.free();
    wait_for_the_end_of_what_was_asked(&gate);
    let mut next = Client::open(&gate.plain("disk"));
    assert_eq!(next.read(0, 4096), Ok(vec![0; BLOCK]));
    assert_eq!(stage.written.load(Ordering::Relaxed), 0, "nobody waits for any of these writes");
    assert_eq!((backend(&gate, "not_replayed_requests"), in_flight(&gate)), (3, 0));
}

#[test]
fn nothing_is_sent_again_later_than_patience_after_it_was_asked() {
    let (stage, gate, _server, _scratch) = stage(OFFER, "1 s");
    let mut client = Client::open(&gate.plain("disk"));
    stage.write_ms.store(2500, Ordering::Relaxed);
    assert_eq!(client.write(0, &[1; BLOCK]), Ok(()), "it waits for a slow server, not a lost one");
    stage.write_ms.store(0, Ordering::Relaxed);
    ask_to_write(&mut client, 2);
    let is_swallowed = || (stage.swallowed.load(Ordering::Relaxed) == 1).then_some(());
    wait_for("the write to reach the server", is_swallowed);
    stage.cut();
    // The gate is connected, and waits for a greeting: no attempt fails meanwhile.
    std::thread::sleep(Duration::from_millis(2500));
    stage.free();
    assert!(client.acknowledgement().is_err(), "it was sent again long after it was asked");
    assert_eq!(client.read(0, 4096), Ok(vec![1; BLOCK]));
    assert_eq!(client.write(0, &[3; BLOCK]), Ok(()), "life goes on");
}
