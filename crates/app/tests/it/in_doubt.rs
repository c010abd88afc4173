//! Servers that carry out what they had read from a lost connection after newer writes to the same
//! bytes: before one plain upstream, and below a tiered volume.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::harness::gate::Gate;
use crate::harness::late_server::LateServer;
use crate::harness::nbd::{Client, Request, WRITE};
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

fn backend(server: &LateServer, name: &str, more: &str) -> String {
    let path = server.path.display();
    format!(
        "[[backend]]\nname = \"{name}\"\nupstream = \"nbd+unix:///?socket={path}\"\n\
         connections = 1\nwrites_survive_restart = true\n{more}"
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
fn cut_under_writes(policy: fn(&[LateServer], &str) -> String, late: &str, cuts: u64) -> Outcome {
    let scratch = Scratch::new();
    let servers = ["slow", "fast"].map(|name| LateServer::start(&scratch, name, SIZE_BYTES, HELD));
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
    assert_eq!(is_told, late != "0 s", "whoever waits can know why");
    outcome
}

fn assert_nothing_is_lost(policy: fn(&[LateServer], &str) -> String) {
    let outcome = cut_under_writes(policy, "3 s", 2);
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
    let outcome = cut_under_writes(plain, "0 s", 1);
    assert_eq!(outcome.lost, BLOCKS, "{outcome:?}");
}
