//! Nothing acknowledged is lost when the server or the gate is killed without warning.
//!
//! A killed process loses what it held in its own memory; what it had given to the kernel stays. So
//! after a kill every acknowledged write must be there: the gate may not have kept it to itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::harness::client::{fio_verify, nbdcopy};
use crate::harness::gate::{Gate, directory_policy, upstream_backend};
use crate::harness::nbd::{self, Client, EINVAL, EIO, ENOSPC, FLUSH, Request, WRITE};
use crate::harness::process::Process;
use crate::harness::skip::needs;
use crate::harness::storage::{Server, Wire, text};
use crate::harness::target::{Address, Target};
use crate::harness::{Scratch, noise, wait_for};

const SIZE: u64 = 32 << 20;

pub(crate) fn backing_file(scratch: &Scratch) -> String {
    let path = scratch.join("backing.raw");
    std::fs::File::create(&path).and_then(|file| file.set_len(SIZE)).expect("a file in scratch");
    text(&path)
}

/// A policy that waits for the server, and believes its kernel.
pub(crate) fn patient_policy(server: &Target) -> String {
    let backend = upstream_backend(server);
    format!(
        "{backend}patience = \"30 s\"\nwrites_survive_restart = true\n\
         [[export]]\nname = \"disk\"\nbackend = \"upstream\"\nsource = \"{}\"\n",
        server.export
    )
}

fn restart_nbdkit(scratch: &Scratch, server: &mut Server, file: &str) {
    server.process.kill();
    if let Address::Unix(path) = &server.target.address {
        std::fs::remove_file(path).expect("a killed server leaves its socket");
    }
    std::thread::sleep(Duration::from_millis(300));
    *server = Server::nbdkit(scratch, Wire::Plain, &["file", file]);
}

#[test]
fn an_upstream_killed_under_fio_is_survived() {
    needs!("nbdkit", "fio");
    let scratch = Scratch::new();
    let file = backing_file(&scratch);
    let mut server = Server::nbdkit(&scratch, Wire::Plain, &["file", &file]);
    let gate = Gate::start(&scratch, &patient_policy(&server.target));
    let mut arguments = fio_verify(&gate.plain("disk"), "24m");
    // Slow enough that every kill falls into the writing or the reading back.
    arguments.push("--rate_iops=1500,1500".into());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut fio = Process::start(scratch.path(), "fio", &arguments);
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(900));
        restart_nbdkit(&scratch, &mut server, &file);
    }
    assert!(fio.wait().success(), "fio says:\n{}", fio.log());
    let reconnects = gate.status()["backends"][0]["reconnects"].as_u64().expect("a number");
    assert!(reconnects >= 4, "only {reconnects} connections were lost: the test tested nothing");
}

/// The same without the promise that the server's writes survive: a flush that may cover lost
/// writes must fail, for fsync is how a client asks.
#[test]
fn a_flush_over_writes_that_may_be_lost_fails() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let file = backing_file(&scratch);
    let mut server = Server::nbdkit(&scratch, Wire::Plain, &["file", &file]);
    let policy = patient_policy(&server.target).replace("writes_survive_restart = true\n", "");
    let gate = Gate::start(&scratch, &policy);
    let mut client = Client::open(&gate.plain("disk"));
    assert_eq!(client.write(0, &[1; 4096]), Ok(()));
    assert_eq!(client.flush(), Ok(()));
    restart_nbdkit(&scratch, &mut server, &file);
    assert_eq!(client.flush(), Ok(()), "everything was flushed before");
    assert_eq!(client.write(0, &[2; 4096]), Ok(()));
    restart_nbdkit(&scratch, &mut server, &file);
    assert!(client.flush().is_err(), "the write may be gone, and the flush says yes");
    assert_eq!(client.write(0, &[3; 4096]), Ok(()));
    assert_eq!(client.flush(), Ok(()), "the loss was reported; life goes on");
}

#[test]
fn requests_wait_no_longer_than_the_operators_patience() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let mut server = Server::nbdkit(&scratch, Wire::Plain, &["memory", "32M"]);
    let policy = patient_policy(&server.target).replace("30 s", "1 s");
    let gate = Gate::start(&scratch, &policy);
    let mut client = Client::open(&gate.plain("disk"));
    assert!(client.read(0, 4096).is_ok());
    server.process.kill();
    let start = Instant::now();
    assert!(client.read(0, 4096).is_err());
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    assert_eq!(gate.status()["backends"][0]["up"], false);
}

/// A file behind nbdkit behind a gate of some patience.
fn before_a_file(scratch: &Scratch, patience: &str) -> (String, Server, Gate) {
    let file = backing_file(scratch);
    let server = Server::nbdkit(scratch, Wire::Plain, &["file", &file]);
    let policy = patient_policy(&server.target).replace("30 s", patience);
    let gate = Gate::start(scratch, &policy);
    (file, server, gate)
}

/// Puts the server away, changes the size of its file, and brings it back.
fn resize(scratch: &Scratch, server: &mut Server, file: &str, size_bytes: u64) {
    server.process.kill();
    let open = std::fs::File::options().write(true).open(file).expect("the file is there");
    open.set_len(size_bytes).expect("it changes its size");
    restart_nbdkit(scratch, server, file);
}

/// The size that a new client sees.
fn size_now(gate: &Gate) -> u64 {
    Client::greet(&gate.plain("disk").address).go("disk").size_bytes
}

#[test]
fn an_export_that_grew_while_it_was_away_is_taken_up() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let (file, mut server, gate) = before_a_file(&scratch, "30 s");
    let mut old = Client::open(&gate.plain("disk"));
    old.write(0, &[7; 4096]).expect("served");
    resize(&scratch, &mut server, &file, 2 * SIZE);
    assert_eq!(old.read(0, 4096), Ok(vec![7; 4096]));
    assert_eq!(size_now(&gate), 2 * SIZE);
    let mut new = Client::open(&gate.plain("disk"));
    new.write(2 * SIZE - 4096, &[8; 4096]).expect("the new room is there");
    assert_eq!(new.read(2 * SIZE - 4096, 4096), Ok(vec![8; 4096]));
    assert_eq!(old.read(SIZE, 4096), Err(EINVAL), "its client knows of no such bytes");
    let status = gate.status();
    let resized = &status["backends"][0]["resized"][0];
    assert_eq!(
        (resized["before_bytes"].as_u64(), resized["now_bytes"].as_u64()),
        (Some(SIZE), Some(2 * SIZE)),
        "{status}"
    );
    assert_eq!(status["exports"][0]["size_bytes"].as_u64(), Some(2 * SIZE));
    let text = gate.ctl(&["status"]);
    assert!(text.contains("went from 32 MiB to 64 MiB"), "{text}");
}

#[test]
fn an_export_that_shrank_while_it_was_away_fails_beyond_its_new_end_only() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let (file, mut server, gate) = before_a_file(&scratch, "30 s");
    let mut old = Client::open(&gate.plain("disk"));
    old.write(0, &[7; 4096]).expect("served");
    // One waits for the server while it is away, beyond its new end.
    server.process.kill();
    let waiting =
        Request { command: WRITE, offset: SIZE - 4096, length: 4096, ..Request::default() };
    old.ask(waiting, &[9; 4096]);
    resize(&scratch, &mut server, &file, SIZE / 2);
    assert_eq!(old.simple_reply().0, ENOSPC);
    assert_eq!(old.read(0, 4096), Ok(vec![7; 4096]));
    assert_eq!(old.write(SIZE / 2 - 4096, &[8; 4096]), Ok(()));
    assert_eq!(old.read(SIZE / 2, 4096), Err(EINVAL));
    assert_eq!(old.write(SIZE / 2 - 512, &[8; 4096]), Err(ENOSPC), "over the end");
    assert_eq!(size_now(&gate), SIZE / 2);
    let text = gate.ctl(&["status"]);
    assert!(text.contains("requests beyond its end fail"), "{text}");
    resize(&scratch, &mut server, &file, SIZE);
    wait_for("all of it to be there again", || old.read(SIZE - 4096, 4096).ok());
}

#[test]
fn a_connection_that_breaks_at_once_leaves_requests_their_patience() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let (file, mut server, gate) = before_a_file(&scratch, "4 s");
    let mut client = Client::open(&gate.plain("disk"));
    client.write(0, &[7; 4096]).expect("served");
    server.process.kill();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(client.read(0, 4096), Err(EIO), "patience is over");
    restart_nbdkit(&scratch, &mut server, &file);
    wait_for("it to be back", || client.read(0, 4096).ok());
    // It has stood for an instant only.
    server.process.kill();
    client.ask(Request { command: nbd::READ, length: 4096, ..Request::default() }, &[]);
    std::thread::sleep(Duration::from_millis(700));
    restart_nbdkit(&scratch, &mut server, &file);
    assert_eq!(client.simple_reply().0, 0, "it waited for less than a second");
}

/// Before qemu-nbd, since nbdkit 1.32 now and then dies of an assertion of its own when several
/// connections break under writes.
#[test]
fn a_gate_killed_before_an_upstream_loses_nothing_acknowledged() {
    needs!("qemu-nbd");
    let scratch = Scratch::new();
    let file = backing_file(&scratch);
    let server = Server::qemu_nbd(&scratch, Wire::Plain, Path::new(&file));
    let gate = Gate::start(&scratch, &patient_policy(&server.target));
    kill_the_gate_under_writes(gate, []);
}

#[test]
fn a_gate_killed_on_its_embedded_disk_loses_nothing_acknowledged() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &directory_policy("32 MiB"));
    kill_the_gate_under_writes(gate, []);
}

/// Writes on a connection until it breaks, again and again, and then checks every block. `before`
/// are the blocks that are not zeroes, each with the seed of its noise.
pub(crate) fn kill_the_gate_under_writes(
    mut gate: Gate,
    before: impl IntoIterator<Item = (u64, u64)>,
) {
    let target = gate.plain("disk");
    let acknowledged = Arc::new(AtomicU64::new(0));
    let mut book = Book {
        possible: before.into_iter().map(|(block, seed)| (block, vec![Some(seed)])).collect(),
        acknowledged: Arc::clone(&acknowledged),
        ..Book::default()
    };
    let writer = std::thread::spawn(move || {
        for _ in 0..4 {
            book.write_until_cut(&target);
        }
        (book, target)
    });
    for _ in 0..4 {
        let before = acknowledged.load(Ordering::Relaxed);
        let is_writing = || (acknowledged.load(Ordering::Relaxed) > before + 100).then_some(());
        wait_for("the writer to get to work", is_writing);
        std::thread::sleep(Duration::from_millis(200));
        gate.kill_and_restart();
    }
    let (book, target) = writer.join().expect("the writer ends by itself");
    book.check(&target);
}

const BLOCK: u64 = 4096;
const DEPTH: u64 = 16;

/// What a client may find in each block: what was acknowledged last, or what it asked for since.
#[derive(Default)]
struct Book {
    /// By block: seeds of noise, the acknowledged one first; none stands for zeroes.
    possible: BTreeMap<u64, Vec<Option<u64>>>,
    written: u64,
    acknowledged: Arc<AtomicU64>,
}

impl Book {
    /// Keeps [`DEPTH`] writes in flight until the connection breaks.
    fn write_until_cut(&mut self, target: &Target) {
        let mut client = wait_for("a gate to connect to", || reconnect(target));
        let mut in_flight = BTreeMap::new();
        loop {
            while (in_flight.len() as u64) < DEPTH {
                self.written += 1;
                // Neighbouring numbers touch different blocks: no two writes of one in flight.
                let (block, seed) = (self.written % 4000, self.written);
                self.possible.entry(block).or_insert_with(|| vec![None]).push(Some(seed));
                let write = Request {
                    command: WRITE,
                    cookie: seed,
                    offset: block * BLOCK,
                    length: 4096,
                    ..Request::default()
                };
                in_flight.insert(seed, block);
                if !client.throw(&[write.bytes(), noise(seed, 4096)].concat()) {
                    return;
                }
            }
            let Ok(reply) = client.try_take(16) else { return };
            let (error, seed) = (nbd::be32(&reply[4..8]), nbd::be64(&reply[8..16]));
            assert_eq!(error, 0, "a write failed while the gate stood");
            let block = in_flight.remove(&seed).expect("an answer to what was asked");
            self.possible.insert(block, vec![Some(seed)]);
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn check(&self, target: &Target) {
        let mut client = wait_for("a gate to connect to", || reconnect(target));
        client.ask(Request { command: FLUSH, ..Request::default() }, &[]);
        assert_eq!(client.acknowledgement(), Ok(()));
        for (block, seeds) in &self.possible {
            let found = client.read(block * BLOCK, 4096).expect("a read");
            let holds = |seed: &Option<u64>| match seed {
                Some(seed) => noise(*seed, 4096) == found,
                None => found.iter().all(|byte| *byte == 0),
            };
            assert!(seeds.iter().any(holds), "block {block} holds none of {seeds:?}");
        }
    }
}

pub(crate) fn reconnect(target: &Target) -> Option<Client> {
    target.address.answers().then(|| Client::try_open(target)).flatten()
}

#[test]
fn qemu_reconnects_to_a_gate_that_is_killed_or_stopped_and_copies_on() {
    needs!("qemu-img");
    let scratch = Scratch::new();
    let mut gate = Gate::start(&scratch, &directory_policy("256 MiB"));
    let original = text(&scratch.random_file("original.raw", 256 << 20));
    let target = gate.plain("disk");
    let options = format!("{},file.reconnect-delay=20", target.qemu_target_options());
    let convert = ["convert", "-n", "-W", "-f", "raw", &original, "--target-image-opts", &options];
    let mut qemu = Process::start(scratch.path(), "qemu-img", &convert);
    // It has to be there before its gate can be gone.
    wait_for("qemu-img to connect", || {
        let connections = gate.status()["exports"][0]["connections"].clone();
        connections.as_object().filter(|all| !all.is_empty()).map(drop)
    });
    for round in 0..4 {
        std::thread::sleep(Duration::from_millis(120));
        if round % 2 == 0 {
            gate.kill();
        } else {
            assert!(gate.stop().success());
        }
        gate.restart();
    }
    assert!(qemu.wait().success(), "qemu-img says:\n{}", qemu.log());
    let copy = text(&scratch.join("copy.raw"));
    needs!("nbdcopy");
    nbdcopy(&scratch, &target.uri(), &copy);
    let same = Command::new("cmp").args([&original, &copy]).status().expect("cmp");
    assert!(same.success(), "the copy differs");
}

#[test]
fn a_gate_that_is_told_to_stop_answers_what_is_in_flight() {
    let scratch = Scratch::new();
    let mut gate = Gate::start(&scratch, &directory_policy("32 MiB"));
    let mut client = Client::open(&gate.plain("disk"));
    for number in 0..16 {
        let offset = number * BLOCK;
        let write = Request { command: WRITE, offset, length: 4096, ..Request::default() };
        client.ask(write, &noise(number, 4096));
    }
    // Until the first answer the gate may not have read the requests at all.
    assert_eq!(client.acknowledgement(), Ok(()));
    assert!(gate.stop().success());
    let answers: Vec<_> = (0..15).map_while(|_| client.try_take(16).ok()).collect();
    // What it did not read gets no answer at all: a client that reconnects asks again.
    assert!(answers.iter().all(|answer| answer[4..8] == [0; 4]), "{answers:?}");
    let answered = 1 + answers.len() as u64;
    let disk = std::fs::read(scratch.join("disks/disk")).expect("the embedded disk is a file");
    let written = (0..16).filter(|number| {
        let start = usize::try_from(number * BLOCK).expect("small");
        disk[start..start + 4096] == noise(*number, 4096)
    });
    assert!(answered <= written.count() as u64, "more was acknowledged than written");
}

#[test]
fn a_client_that_comes_while_the_upstream_is_away_for_a_moment_waits_for_it() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let file = backing_file(&scratch);
    let mut server = Server::nbdkit(&scratch, Wire::Plain, &["file", &file]);
    let policy = patient_policy(&server.target);
    server.process.kill();
    let Address::Unix(path) = &server.target.address else { panic!("a plain server") };
    std::fs::remove_file(path).expect("a killed server leaves its socket");
    let gate = Gate::start(&scratch, &policy);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| Client::try_open(&gate.plain("disk")).map(|_| ()));
        std::thread::sleep(Duration::from_millis(700));
        server = Server::nbdkit(&scratch, Wire::Plain, &["file", &file]);
        assert_eq!(client.join().expect("it tried"), Some(()));
    });
}
