//! Servers that carry out what they had read from a lost connection after newer writes to the same
//! bytes: before one plain upstream, and below a tiered volume; and servers that end a connection
//! last of all, so that nothing is in doubt.

mod cuts;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::harness::gate::Gate;
use crate::harness::late_server::LateServer;
use crate::harness::nbd::{Client, Request, WRITE};
use crate::harness::skip::needs;
use crate::harness::storage::{Server, text};
use crate::harness::target::Address;
use crate::harness::{Scratch, noise, wait_for};

const SIZE_BYTES: u64 = 32 << 20;
const BLOCK: u32 = 4096;
const BLOCKS: u64 = 16;
/// Where they lie: past what the server does not hold.
const FIRST: u64 = 1 << 20;
/// Beside the blocks that are in doubt.
const BESIDE: u64 = FIRST + (BLOCKS + 1) * BLOCK as u64;
/// So long a server holds a write.
const HELD: Duration = Duration::from_secs(2);

/// What became of a few lost connections.
#[derive(Debug, Default)]
struct Outcome {
    /// Blocks that are not what was written last.
    lost: u64,
    /// How long the newer writes waited at most.
    waited: Duration,
    /// How long a write beside them took at most.
    beside: Duration,
}

/// The backend of a server. One that ends last is said to be nbdkit, which does.
fn backend(server: &LateServer, name: &str, more: &str) -> String {
    let kind = if server.ends_last { "nbdkit" } else { "other" };
    let path = server.path.display();
    format!(
        "[[backend]]\nname = \"{name}\"\nupstream = \"nbd+unix:///?socket={path}\"\n\
         connections = 1\nwrites_survive_restart = true\nserver = \"{kind}\"\n\
         depth = 32\n{more}"
    )
}

fn plain(servers: &[LateServer], late: &str) -> String {
    let backend = backend(&servers[0], "slow", &format!("late = \"{late}\"\n"));
    format!(
        "mode = \"enforce\"\n{backend}\
         [[export]]\nname = \"disk\"\nbackend = \"slow\"\nsource = \"\"\n"
    )
}

fn tiered(servers: &[LateServer], late: &str) -> String {
    let [slow, fast] = [0, 1].map(|at| backend(&servers[at], ["slow", "fast"][at], ""));
    format!(
        "mode = \"enforce\"\n{slow}{fast}\
         [[backend]]\nname = \"shelf\"\ntiers = [\"slow\", \"fast\"]\nextent = \"64 KiB\"\n\
         late = \"{late}\"\n[[export]]\nname = \"disk\"\nbackend = \"shelf\"\n"
    )
}

fn block(number: u64, filling: u64) -> Vec<u8> {
    noise(1 + number * 1000 + filling, BLOCK as usize)
}

fn ask_to_write(client: &mut Client, number: u64, filling: u64) {
    let offset = FIRST + number * u64::from(BLOCK);
    let write = Request { command: WRITE, offset, length: BLOCK, ..Request::default() };
    client.ask(write, &block(number, filling));
}

/// Cuts connections under writes that the servers carry out late, and writes the same blocks anew.
fn cut_under_writes(
    policy: fn(&[LateServer], &str) -> String,
    late: &str,
    (cuts, ends_last): (u64, bool),
) -> Outcome {
    let scratch = Scratch::new();
    let start = |name| LateServer::start(&scratch, name, SIZE_BYTES, HELD..=HELD, ends_last);
    let servers = ["slow", "fast"].map(start);
    let gate = Gate::start(&scratch, &policy(&servers, late));
    let target = gate.plain("disk");
    let open = || Client::try_open(&target);
    let mut client = wait_for("the volume", open);
    let mut other = wait_for("the volume", open);
    let count = |what: fn(&LateServer) -> u32| -> u64 {
        servers.iter().map(|server| u64::from(what(server))).sum()
    };
    let mut outcome = Outcome::default();
    for cut in 0..cuts {
        LateServer::hold(&servers, true);
        (0..BLOCKS).for_each(|number| ask_to_write(&mut client, number, 2 * cut));
        let held = |server: &LateServer| server.held.load(Ordering::SeqCst);
        let are_held = || (count(held) == (cut + 1) * BLOCKS).then_some(());
        wait_for("all writes to be read", are_held);
        LateServer::hold(&servers, false);
        servers.iter().for_each(LateServer::cut);
        (0..BLOCKS).for_each(|_| assert_eq!(client.simple_reply().0, 0, "it is sent again"));

        let began = Instant::now();
        (0..BLOCKS).for_each(|number| ask_to_write(&mut client, number, 2 * cut + 1));
        assert_eq!(other.write(BESIDE, &block(BLOCKS + 1, cut)), Ok(()));
        assert_eq!(other.read(FIRST, 8).map(|bytes| bytes.len()), Ok(8), "reads go on");
        outcome.beside = outcome.beside.max(began.elapsed());
        (0..BLOCKS).for_each(|_| assert_eq!(client.simple_reply().0, 0));
        assert_eq!(client.flush(), Ok(()));
        outcome.waited = outcome.waited.max(began.elapsed());

        let came = |server: &LateServer| server.late.load(Ordering::SeqCst);
        let have_come = || (count(came) == (cut + 1) * BLOCKS).then_some(());
        wait_for("late writes to be carried out", have_come);
        let is_lost = |number: &u64| {
            let found = client.read(FIRST + number * u64::from(BLOCK), BLOCK);
            found != Ok(block(*number, 2 * cut + 1))
        };
        outcome.lost += (0..BLOCKS).filter(is_lost).count() as u64;
    }
    let is_told = gate.process.log().contains("unanswered writes are in doubt");
    assert_eq!(is_told, late != "0 s" && !ends_last, "whoever waits can know why");
    outcome
}

fn assert_nothing_is_lost(policy: fn(&[LateServer], &str) -> String) {
    let outcome = cut_under_writes(policy, "3 s", (2, false));
    println!("{outcome:?}");
    assert_eq!(outcome.lost, 0, "{outcome:?}");
    assert!(outcome.beside < outcome.waited / 2, "{outcome:?}");
    assert!(outcome.waited < Duration::from_secs(10), "{outcome:?}");
}

#[test]
fn newer_writes_to_a_plain_upstream_are_not_lost_to_what_it_carries_out_late() {
    assert_nothing_is_lost(plain);
}

#[test]
fn newer_writes_to_a_tiered_volume_are_not_lost_to_what_its_tiers_carry_out_late() {
    assert_nothing_is_lost(tiered);
}

#[test]
fn a_policy_that_waits_for_nothing_loses_them() {
    let outcome = cut_under_writes(plain, "0 s", (1, false));
    assert_eq!(outcome.lost, BLOCKS, "{outcome:?}");
}

#[test]
fn of_a_server_that_ends_last_nothing_is_in_doubt() {
    for policy in [plain, tiered] {
        let outcome = cut_under_writes(policy, "600 s", (2, true));
        assert_eq!(outcome.lost, 0, "{outcome:?}");
        assert!(outcome.waited < Duration::from_secs(10), "{outcome:?}");
    }
}

/// The gate cannot follow a server that answers what it was not asked.
#[test]
fn a_connection_that_the_gate_gives_up_is_read_to_its_end() {
    let scratch = Scratch::new();
    let servers = [LateServer::start(&scratch, "slow", SIZE_BYTES, HELD..=HELD, true)];
    let gate = Gate::start(&scratch, &plain(&servers, "600 s"));
    let mut client = Client::open(&gate.plain("disk"));
    LateServer::hold(&servers, true);
    (0..BLOCKS).for_each(|number| ask_to_write(&mut client, number, 0));
    let held = || u64::from(servers[0].held.load(Ordering::SeqCst));
    wait_for("all writes to be read", || (held() == BLOCKS).then_some(()));
    LateServer::hold(&servers, false);
    servers[0].confuse();

    let began = Instant::now();
    (0..BLOCKS).for_each(|_| assert_eq!(client.simple_reply().0, 0, "it is sent again"));
    (0..BLOCKS).for_each(|number| ask_to_write(&mut client, number, 1));
    (0..BLOCKS).for_each(|_| assert_eq!(client.simple_reply().0, 0));
    assert!(began.elapsed() < Duration::from_secs(10), "after {:?}", began.elapsed());
    let log = gate.process.log();
    assert!(log.contains("the server answered what was not asked"), "{log}");
    assert!(!log.contains("unanswered writes are in doubt"), "{log}");
    for number in 0..BLOCKS {
        let found = client.read(FIRST + number * u64::from(BLOCK), BLOCK);
        assert_eq!(found, Ok(block(number, 1)));
    }
}

/// A process that is gone has nothing under way, and its end of the connection says so.
#[test]
fn newer_writes_do_not_wait_for_an_nbdkit_that_is_gone() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.join("disk.img");
    std::fs::write(&disk, vec![0; 4 << 20]).expect("a disk in scratch");
    let disk = text(&disk);
    let late = ["--filter=delay", "file", &disk, "wdelay=5"];
    let mut server = Server::nbdkit_named(&scratch, "server", &late);
    let Address::Unix(socket) = server.target.address.clone() else { panic!("it is local") };
    let policy = format!(
        "mode = \"enforce\"\n[[backend]]\nname = \"slow\"\nconnections = 1\n\
         upstream = \"nbd+unix:///?socket={}\"\nserver = \"nbdkit\"\nlate = \"600 s\"\n\
         [[export]]\nname = \"disk\"\nbackend = \"slow\"\nsource = \"\"\n",
        socket.display()
    );
    let gate = Gate::start(&scratch, &policy);
    let mut client = Client::open(&gate.plain("disk"));
    ask_to_write(&mut client, 0, 0);
    std::thread::sleep(Duration::from_millis(500));
    server.process.kill();
    std::fs::remove_file(&socket).expect("nbdkit leaves it behind");
    let _server = Server::nbdkit_named(&scratch, "server", &["file", &disk]);
    assert_eq!(client.simple_reply().0, 0, "it is sent again");
    let began = Instant::now();
    ask_to_write(&mut client, 0, 1);
    assert_eq!(client.simple_reply().0, 0);
    assert!(began.elapsed() < Duration::from_secs(5), "after {:?}", began.elapsed());
    assert_eq!(client.read(FIRST, BLOCK), Ok(block(0, 1)));
}
